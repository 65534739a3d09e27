//! What is kept of many tenants within one bound, as values: who may keep more, and who loses what.
//!
//! Two policies over the same book. Results have no promise: when the bound is met, the tenant that has
//! most for its share loses its oldest ([`TenantRetention::evict`]), so a tenant within its share
//! loses nothing to others. Audio is promised for a time: a tenant may keep as much as is still free
//! ([`TenantRetention::has_room`]), a dynamic threshold that always leaves room for the next tenant.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use lingua_core::TenantId;
use tokio::time::Instant;

use crate::settings::Retention;

/// Tenants with more than one share.
pub(crate) type Shares = HashMap<TenantId, u32>;

/// Who keeps what since when.
pub(crate) struct TenantRetention<K> {
    bounds: Retention,
    shares: Shares,
    /// By the order in which they came, so the oldest first.
    entries: BTreeMap<u64, Entry<K>>,
    tenants: HashMap<TenantId, Tenant, lingua_core::hash::Quality>,
    bytes: usize,
    next: u64,
}

struct Entry<K> {
    key: K,
    tenant: TenantId,
    bytes: usize,
    at: Instant,
}

struct Tenant {
    share: u32,
    bytes: usize,
    /// Its entries, the oldest first.
    order: VecDeque<u64>,
}

impl<K> TenantRetention<K> {
    pub fn new(bounds: Retention, shares: Shares) -> Self {
        TenantRetention {
            bounds,
            shares,
            entries: BTreeMap::new(),
            tenants: HashMap::default(),
            bytes: 0,
            next: 0,
        }
    }

    /// Whether this tenant may keep so many bytes more until they expire: all that it keeps is at most
    /// its share times what nobody keeps yet. One tenant alone gets half of the bound, two a third
    /// each, and so on.
    pub fn has_room(&self, tenant: &TenantId, bytes: usize) -> bool {
        let (share, held, entries) = match self.tenants.get(tenant) {
            Some(tenant) => (tenant.share, tenant.bytes, tenant.order.len()),
            None => (self.share(tenant), 0, 0),
        };
        let within =
            |wanted: usize, free: usize| wanted as u128 <= free as u128 * u128::from(share);
        within(held + bytes, self.bounds.max_bytes.saturating_sub(self.bytes))
            && within(entries + 1, self.bounds.max_entries.saturating_sub(self.entries.len()))
            && bytes <= self.bounds.max_bytes.saturating_sub(self.bytes)
            && self.entries.len() < self.bounds.max_entries
    }

    /// How long until the first of this tenant's entries expires.
    pub fn next_expiry(&self, tenant: &TenantId, now: Instant) -> Option<Duration> {
        let oldest = self.tenants.get(tenant)?.order.front()?;
        let until = self.entries.get(oldest)?.at + self.keep();
        Some(until.saturating_duration_since(now))
    }

    pub fn insert(&mut self, tenant: &TenantId, key: K, bytes: usize, now: Instant) {
        let number = self.next;
        self.next += 1;
        self.bytes += bytes;
        match self.tenants.get_mut(tenant) {
            Some(known) => {
                known.bytes += bytes;
                known.order.push_back(number);
            }
            None => {
                let (share, order) = (self.share(tenant), VecDeque::from([number]));
                self.tenants.insert(tenant.clone(), Tenant { share, bytes, order });
            }
        }
        self.entries.insert(number, Entry { key, tenant: tenant.clone(), bytes, at: now });
    }

    /// Takes out one entry whose time is over.
    pub fn expire(&mut self, now: Instant) -> Option<K> {
        let (number, oldest) = self.entries.first_key_value()?;
        let number = *number;
        (now.saturating_duration_since(oldest.at) > self.keep()).then(|| self.remove(number))?
    }

    /// Takes out the oldest entry of the tenant that has most for its share, if there is more than the
    /// bound allows.
    pub fn evict(&mut self) -> Option<K> {
        if self.bytes <= self.bounds.max_bytes && self.entries.len() <= self.bounds.max_entries {
            return None;
        }
        let used = |tenant: &Tenant| {
            let bytes = tenant.bytes as f64 / self.bounds.max_bytes.max(1) as f64;
            let entries = tenant.order.len() as f64 / self.bounds.max_entries.max(1) as f64;
            bytes.max(entries) / f64::from(tenant.share)
        };
        let most = self.tenants.values().max_by(|a, b| used(a).total_cmp(&used(b)))?;
        let oldest = *most.order.front()?;
        self.remove(oldest)
    }

    fn remove(&mut self, number: u64) -> Option<K> {
        let Entry { key, tenant, bytes, .. } = self.entries.remove(&number)?;
        self.bytes -= bytes;
        if let Some(known) = self.tenants.get_mut(&tenant) {
            known.bytes -= bytes;
            // Always the tenant's oldest: entries leave in the order in which they came.
            known.order.pop_front();
            if known.order.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
        Some(key)
    }

    fn share(&self, tenant: &TenantId) -> u32 {
        self.shares.get(tenant).copied().unwrap_or(1).max(1)
    }

    fn keep(&self) -> Duration {
        Duration::from_millis(self.bounds.keep_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn kept(max_entries: usize, max_bytes: usize, shares: &[(&str, u32)]) -> TenantRetention<u32> {
        let bounds = Retention { keep_ms: 1_000, max_entries, max_bytes };
        TenantRetention::new(bounds, shares.iter().map(|(who, n)| (tenant(who), *n)).collect())
    }

    /// Puts entries in as results are, and says what went.
    fn fill(
        kept: &mut TenantRetention<u32>,
        who: &str,
        keys: std::ops::Range<u32>,
        bytes: usize,
    ) -> Vec<u32> {
        let now = Instant::now();
        let mut gone = Vec::new();
        for key in keys {
            kept.insert(&tenant(who), key, bytes, now);
            gone.extend(std::iter::from_fn(|| kept.evict()));
        }
        gone
    }

    #[tokio::test]
    async fn a_tenant_that_fills_what_is_kept_evicts_its_own_oldest() {
        let mut kept = kept(1_000, 100, &[]);
        assert!(fill(&mut kept, "small", 0..3, 10).is_empty());
        assert_eq!(fill(&mut kept, "large", 100..120, 10), (100..113).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn who_kept_more_than_its_share_makes_room_for_others() {
        let mut kept = kept(1_000, 100, &[]);
        assert!(fill(&mut kept, "first", 0..10, 10).is_empty(), "alone it may have all");
        assert_eq!(fill(&mut kept, "second", 100..107, 10), [0, 1, 2, 3, 4, 100, 101]);
    }

    #[tokio::test]
    async fn many_small_entries_count_as_few_large_ones_do() {
        let mut kept = kept(10, 1_000, &[]);
        assert!(fill(&mut kept, "small", 0..2, 1).is_empty());
        assert_eq!(fill(&mut kept, "many", 100..120, 1), (100..112).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_tenant_with_two_shares_keeps_twice_as_much() {
        let mut kept = kept(1_000, 90, &[("large", 2)]);
        fill(&mut kept, "large", 0..9, 10);
        let gone = fill(&mut kept, "small", 100..109, 10);
        assert_eq!(gone.iter().filter(|key| **key < 100).count(), 3);
    }

    #[tokio::test]
    async fn what_is_promised_is_refused_before_it_takes_what_is_anothers() {
        let (mut kept, now) = (kept(1_000, 80, &[]), Instant::now());
        let mut upload = |who: &str, key: u32| {
            let fits = kept.has_room(&tenant(who), 10);
            if fits {
                kept.insert(&tenant(who), key, 10, now);
            }
            fits
        };
        assert_eq!((0..100).filter(|key| upload("first", *key)).count(), 4, "half of the bound");
        assert_eq!((0..100).filter(|key| upload("second", *key)).count(), 2, "half of the rest");
        assert!(upload("third", 1), "there is always room for the next");
        assert!(kept.evict().is_none());
    }

    #[tokio::test]
    async fn a_share_never_reaches_beyond_the_bound() {
        let (mut kept, now) = (kept(1_000, 90, &[("large", 1_000)]), Instant::now());
        let who = tenant("large");
        let mut all = 0;
        while kept.has_room(&who, 10) {
            kept.insert(&who, all, 10, now);
            all += 1;
        }
        assert_eq!(all, 9);
    }

    #[tokio::test]
    async fn what_is_over_makes_room_and_says_when() {
        let (mut kept, now) = (kept(4, 1_000, &[]), Instant::now());
        let who = tenant("a");
        let later = now + Duration::from_millis(400);
        kept.insert(&who, 1, 10, now);
        kept.insert(&who, 2, 10, later);
        assert!(!kept.has_room(&who, 10));
        assert_eq!(kept.next_expiry(&who, later), Some(Duration::from_millis(600)));
        assert_eq!(kept.expire(now + Duration::from_millis(1_000)), None, "to the end of its time");
        let over = now + Duration::from_millis(1_001);
        assert_eq!((kept.expire(over), kept.expire(over)), (Some(1), None));
        assert!(kept.has_room(&who, 10));
        assert_eq!(kept.expire(over + Duration::from_secs(9)), Some(2));
        assert!(kept.tenants.is_empty() && kept.bytes == 0, "nothing is left of it");
    }
}
