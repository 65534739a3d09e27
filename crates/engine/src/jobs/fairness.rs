//! Which tenant is next when several wait for slots: each gets its share, however many jobs it has.
//!
//! Start-time fair queueing: every tenant has a virtual clock that advances by one over its share with each slot
//! that it gets, and the tenant whose clock is furthest behind is next. A tenant that joins begins at the clock of
//! the one that was served last, so waiting less earlier gives no advantage.

use std::collections::HashMap;

use lingua_core::TenantId;

/// Tenants without waiting jobs that are remembered.
const MAX_IDLE: usize = 1_024;

/// The virtual clocks of the tenants.
pub(super) struct Shares {
    shares: HashMap<TenantId, u32>,
    tenants: HashMap<TenantId, Tenant>,
    /// The clock of the tenant that was served last, before that.
    now: f64,
}

#[derive(Default)]
struct Tenant {
    clock: f64,
    waiting: usize,
}

impl Shares {
    /// With these shares; all others have one.
    pub(super) fn new(shares: HashMap<TenantId, u32>) -> Self {
        Shares { shares, tenants: HashMap::new(), now: 0.0 }
    }

    fn share(&self, tenant: &TenantId) -> f64 {
        f64::from(self.shares.get(tenant).copied().unwrap_or(1).max(1))
    }

    /// One more job of this tenant waits.
    pub(super) fn joined(&mut self, tenant: &TenantId) {
        if self.tenants.len() > MAX_IDLE {
            // Of those that do not wait, a slot is forgotten at most.
            self.tenants.retain(|_, tenant| tenant.waiting > 0);
        }
        let now = self.now;
        let entry = self.tenants.entry(tenant.clone()).or_default();
        if entry.waiting == 0 {
            entry.clock = entry.clock.max(now);
        }
        entry.waiting += 1;
    }

    /// One fewer.
    pub(super) fn left(&mut self, tenant: &TenantId) {
        if let Some(entry) = self.tenants.get_mut(tenant) {
            entry.waiting = entry.waiting.saturating_sub(1);
        }
    }

    /// A job of this tenant got a slot.
    pub(super) fn served(&mut self, tenant: &TenantId) {
        let step = 1.0 / self.share(tenant);
        let entry = self.tenants.entry(tenant.clone()).or_default();
        self.now = self.now.max(entry.clock);
        entry.clock += step;
    }

    /// The slot was not granted.
    pub(super) fn not_served(&mut self, tenant: &TenantId) {
        let step = 1.0 / self.share(tenant);
        if let Some(entry) = self.tenants.get_mut(tenant) {
            entry.clock = (entry.clock - step).max(0.0);
        }
    }

    /// Whether this tenant is served before the other.
    pub(super) fn is_before(&self, one: &TenantId, other: &TenantId) -> bool {
        let clock = |tenant| self.tenants.get(tenant).map_or(self.now, |entry| entry.clock);
        clock(one) < clock(other)
    }

    /// So many jobs of a tenant, divided by its share.
    pub(super) fn weighed(&self, tenant: &TenantId, jobs: usize) -> f64 {
        jobs as f64 / self.share(tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    /// Hands out slots while all of these always wait; how many each got.
    fn hand_out(shares: &mut Shares, tenants: &[TenantId], slots: usize) -> Vec<usize> {
        let mut got = vec![0; tenants.len()];
        for _ in 0..slots {
            let next = (0..tenants.len()).reduce(|best, at| {
                if shares.is_before(&tenants[at], &tenants[best]) { at } else { best }
            });
            let next = next.unwrap();
            shares.left(&tenants[next]);
            shares.served(&tenants[next]);
            shares.joined(&tenants[next]);
            got[next] += 1;
        }
        got
    }

    #[test]
    fn everybody_gets_a_share_however_much_they_ask_for() {
        let tenants = [tenant("flood"), tenant("quiet")];
        let mut shares = Shares::new(HashMap::new());
        (0..1_000).for_each(|_| shares.joined(&tenants[0]));
        shares.joined(&tenants[1]);
        assert_eq!(hand_out(&mut shares, &tenants, 1_000), [500, 500]);
    }

    #[test]
    fn a_larger_share_gets_more() {
        let tenants = [tenant("a"), tenant("b"), tenant("c")];
        let mut shares = Shares::new(HashMap::from([(tenant("a"), 3)]));
        tenants.iter().for_each(|tenant| shares.joined(tenant));
        assert_eq!(hand_out(&mut shares, &tenants, 500), [300, 100, 100]);
        assert!(shares.weighed(&tenant("a"), 3) <= shares.weighed(&tenant("b"), 1));
    }

    #[test]
    fn a_slot_that_was_not_there_does_not_count() {
        let tenants = [tenant("lucky"), tenant("unlucky")];
        let mut shares = Shares::new(HashMap::new());
        tenants.iter().for_each(|tenant| shares.joined(tenant));
        let mut got = [0_u32, 0];
        for n in 0..1_000 {
            let next = usize::from(shares.is_before(&tenants[1], &tenants[0]));
            shares.left(&tenants[next]);
            shares.served(&tenants[next]);
            // Of the one's slots every other is not there.
            if next == 1 && n % 2 == 0 {
                shares.not_served(&tenants[1]);
            } else {
                got[next] += 1;
            }
            shares.joined(&tenants[next]);
        }
        assert!(got[0].abs_diff(got[1]) <= 1, "{got:?}");
    }

    #[test]
    fn nothing_is_saved_up_by_not_asking() {
        let tenants = [tenant("busy"), tenant("late")];
        let mut shares = Shares::new(HashMap::new());
        shares.joined(&tenants[0]);
        hand_out(&mut shares, &tenants[..1], 1_000);
        shares.joined(&tenants[1]);
        let got = hand_out(&mut shares, &tenants, 100);
        assert!(got[1] <= 51, "{got:?}");
    }

    #[test]
    fn tenants_that_are_gone_are_forgotten() {
        let mut shares = Shares::new(HashMap::new());
        for n in 0..10_000 {
            let tenant = tenant(&format!("t{n}"));
            shares.joined(&tenant);
            shares.left(&tenant);
            shares.served(&tenant);
        }
        assert!(shares.tenants.len() <= MAX_IDLE + 2, "{}", shares.tenants.len());
    }
}
