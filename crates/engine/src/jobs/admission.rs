//! Admission: limits on open jobs in all and per tenant, and on jobs per second.
//!
//! It comes before any work for a job. A refusal says when to try again.

use std::collections::HashMap;
use std::time::Duration;

use lingua_core::TenantId;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::job::Refusal;
use crate::settings::Admission as Limits;

/// When to try again after a limit on open jobs was reached: some job ends in about that time.
const RETRY_MS: u64 = 1_000;

/// Tenants without open jobs that are remembered for their rate.
const MAX_IDLE: usize = 4_096;

/// Counts what is open.
pub(super) struct Admission {
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    total: usize,
    tenants: HashMap<TenantId, Tenant, lingua_core::hash::Quality>,
}

struct Tenant {
    open: usize,
    /// When the next one would come if all came evenly.
    due: Instant,
}

/// Which limit was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    Jobs,
    JobsPerTenant,
    JobsPerTenantPerSecond,
}

impl Met {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Met::Jobs => "jobs",
            Met::JobsPerTenant => "jobs_per_tenant",
            Met::JobsPerTenantPerSecond => "jobs_per_tenant_per_s",
        }
    }
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Admission { limits, open: Mutex::default() }
    }

    /// Admits one more job of this tenant, or returns the limit that it reached and the refusal.
    pub(super) fn enter(&self, tenant: &TenantId) -> Result<(), (Met, Refusal)> {
        let limits = &self.limits;
        let mut open = self.open.lock();
        if open.total >= limits.jobs {
            let detail = format!("this instance has {} open jobs, as many as it may", limits.jobs);
            return Err((
                Met::Jobs,
                Refusal::new(Code::QuotaExceeded, detail).retry_after(RETRY_MS),
            ));
        }
        let now = Instant::now();
        if open.tenants.len() > MAX_IDLE && !open.tenants.contains_key(tenant) {
            open.tenants.retain(|_, tenant| tenant.open > 0 || tenant.due > now);
        }
        let entry = open.tenants.get_mut(tenant);
        let (jobs, due) = entry.map_or((0, now), |entry| (entry.open, entry.due.max(now)));
        if jobs >= limits.jobs_per_tenant {
            let detail =
                format!("the tenant has {} open jobs, as many as it may", limits.jobs_per_tenant);
            let refusal = Refusal::new(Code::QuotaExceeded, detail).retry_after(RETRY_MS);
            return Err((Met::JobsPerTenant, refusal));
        }
        let mut next = due;
        if limits.jobs_per_tenant_per_s > 0 {
            let interval = Duration::from_secs(1) / limits.jobs_per_tenant_per_s;
            // A second's worth may come at once.
            let earliest = due.checked_sub(Duration::from_secs(1) - interval).unwrap_or(now);
            if earliest > now {
                let detail = format!(
                    "the tenant may hand in {} jobs a second",
                    limits.jobs_per_tenant_per_s
                );
                let wait = millis(earliest - now).max(1);
                let refusal = Refusal::new(Code::RateLimited, detail).retry_after(wait);
                return Err((Met::JobsPerTenantPerSecond, refusal));
            }
            next = due + interval;
        }
        open.total += 1;
        match open.tenants.get_mut(tenant) {
            Some(entry) => {
                entry.open += 1;
                entry.due = next;
            }
            None => {
                open.tenants.insert(tenant.clone(), Tenant { open: 1, due: next });
            }
        }
        Ok(())
    }

    /// Counts a leg of a job that was admitted: at most one at a time.
    pub(super) fn enter_part(&self, tenant: &TenantId) {
        let mut open = self.open.lock();
        open.total += 1;
        let due = Instant::now();
        let entry = open.tenants.entry(tenant.clone());
        entry.or_insert(Tenant { open: 0, due }).open += 1;
    }

    /// A job of this tenant is over.
    pub(super) fn release(&self, tenant: &TenantId) {
        let mut open = self.open.lock();
        open.total = open.total.saturating_sub(1);
        let unlimited = self.limits.jobs_per_tenant_per_s == 0;
        if let Some(entry) = open.tenants.get_mut(tenant) {
            entry.open = entry.open.saturating_sub(1);
            if entry.open == 0 && unlimited {
                open.tenants.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn admission(jobs: usize, per_tenant: usize, per_second: u32) -> Admission {
        Admission::new(Limits {
            jobs,
            jobs_per_tenant: per_tenant,
            jobs_per_tenant_per_s: per_second,
            shares: HashMap::new(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_jobs_are_open_of_one_tenant_and_of_all() {
        let admission = admission(5, 3, 0);
        let (a, b) = (tenant("a"), tenant("b"));
        (0..3).for_each(|_| admission.enter(&a).unwrap());
        let (met, refusal) = admission.enter(&a).unwrap_err();
        assert_eq!((met, refusal.code), (Met::JobsPerTenant, Code::QuotaExceeded));
        assert!(refusal.retry_after_ms.is_some());
        (0..2).for_each(|_| admission.enter(&b).unwrap());
        assert_eq!(admission.enter(&b).unwrap_err().0, Met::Jobs);
        admission.release(&a);
        admission.enter(&b).unwrap();
        (0..3).for_each(|_| admission.release(&b));
        (0..2).for_each(|_| admission.release(&a));
        (0..3).for_each(|_| admission.enter(&a).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_of_jobs_may_come_at_once_and_then_so_many_a_second() {
        let admission = admission(100_000, 100_000, 10);
        let (a, b) = (tenant("a"), tenant("b"));
        let burst =
            |tenant: &TenantId| (0..1_000).filter(|_| admission.enter(tenant).is_ok()).count();
        assert_eq!(burst(&a), 10);
        let (met, refusal) = admission.enter(&a).unwrap_err();
        assert_eq!((met, refusal.code), (Met::JobsPerTenantPerSecond, Code::RateLimited));
        assert_eq!(refusal.retry_after_ms, Some(100));
        assert_eq!(burst(&b), 10, "another tenant's rate is its own");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(burst(&a), 5);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(burst(&a), 10, "nothing is saved up");
    }
}
