//! Limits of one subject: the rate limit of its calls, and the quota of its sessions.
//!
//! A tenant has limits of its own. These keep one user or program of a tenant from using them up alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::TenantId;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_engine::job::Refusal;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::claims::{Credential, Role};

/// Subjects that are remembered before those that ask for nothing are forgotten.
const MAX_IDLE: usize = 16_384;

/// When one with too many sessions may try again.
const RETRY_MS: u64 = 1_000;

/// Whose: tokens of one subject for two tenants are two.
type Key = (Role, Option<TenantId>, String);

#[derive(Default)]
pub(crate) struct Subjects(Mutex<HashMap<Key, Used>>);

struct Used {
    sessions: usize,
    /// When the next call would come if all came evenly.
    due: Instant,
}

/// One of the sessions that a subject may have; it is given back when this is dropped.
#[must_use]
pub(crate) struct SubjectPermit {
    subjects: Arc<Subjects>,
    key: Key,
}

impl Subjects {
    /// Counts a call of who shows this, of which so many may come in a second, and as many at once; 0 for
    /// no limit.
    pub(crate) fn call(&self, who: &Credential, per_s: u32, now: Instant) -> Result<(), Refusal> {
        // A node has several calls for every job, and limits of its own.
        if per_s == 0 || who.role == Role::Node {
            return Ok(());
        }
        let mut subjects = self.0.lock();
        let used = entry(&mut subjects, key(who), now);
        let interval = Duration::from_secs(1) / per_s;
        let due = used.due.max(now);
        let earliest = due.checked_sub(Duration::from_secs(1) - interval).unwrap_or(now);
        if earliest > now {
            let detail = format!("rate limit: one subject may make {per_s} calls per second");
            let wait = millis(earliest - now).max(1);
            return Err(Refusal::new(Code::RateLimited, detail).retry_after(wait));
        }
        used.due = due + interval;
        Ok(())
    }

    /// Takes one of so many sessions.
    pub(crate) fn permit(
        self: &Arc<Self>,
        who: &Credential,
        most: usize,
    ) -> Result<SubjectPermit, Refusal> {
        let key = key(who);
        let mut subjects = self.0.lock();
        let used = entry(&mut subjects, key.clone(), Instant::now());
        if used.sessions >= most {
            let detail = format!("quota: the subject has {most} sessions, the maximum");
            return Err(Refusal::new(Code::QuotaExceeded, detail).retry_after(RETRY_MS));
        }
        used.sessions += 1;
        Ok(SubjectPermit { subjects: Arc::clone(self), key })
    }
}

fn key(who: &Credential) -> Key {
    (who.role, who.tenant.clone(), who.subject.clone())
}

fn entry(subjects: &mut HashMap<Key, Used>, key: Key, now: Instant) -> &mut Used {
    if subjects.len() >= MAX_IDLE && !subjects.contains_key(&key) {
        subjects.retain(|_, used| used.sessions > 0 || used.due > now);
    }
    subjects.entry(key).or_insert(Used { sessions: 0, due: now })
}

impl Drop for SubjectPermit {
    fn drop(&mut self) {
        if let Some(used) = self.subjects.0.lock().get_mut(&self.key) {
            used.sessions = used.sessions.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(role: Role, tenant: &str, subject: &str) -> Credential {
        Credential {
            role,
            subject: subject.to_owned(),
            tenant: Some(TenantId::new(tenant).unwrap()),
            tenants: None,
            max_slots: None,
            region: None,
            jti: "j".to_owned(),
            not_before: 0,
            expires: u64::MAX,
        }
    }

    #[test]
    fn a_second_of_calls_may_come_at_once_and_another_subject_has_its_own() {
        let subjects = Subjects::default();
        let (one, other) = (who(Role::Session, "t", "one"), who(Role::Session, "t", "other"));
        let now = Instant::now();
        let calls = |who: &Credential, now| {
            (0..1_000).filter(|_| subjects.call(who, 10, now).is_ok()).count()
        };
        assert_eq!(calls(&one, now), 10);
        let refusal = subjects.call(&one, 10, now).unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after_ms), (Code::RateLimited, Some(100)));
        assert_eq!(calls(&other, now), 10);
        assert_eq!(calls(&who(Role::Session, "u", "one"), now), 10, "of another tenant");
        assert_eq!(calls(&one, now + Duration::from_millis(500)), 5);
        assert_eq!(calls(&who(Role::Node, "t", "one"), now), 1_000, "nodes have others");
        assert!((0..1_000).all(|_| subjects.call(&one, 0, now).is_ok()), "0 is no limit");
    }

    #[test]
    fn a_subject_has_so_many_sessions_and_gets_them_back() {
        let subjects = Arc::new(Subjects::default());
        let (one, other) = (who(Role::Session, "t", "one"), who(Role::Session, "t", "other"));
        let first = subjects.permit(&one, 2).unwrap();
        let _second = subjects.permit(&one, 2).unwrap();
        let refusal = subjects.permit(&one, 2).err().unwrap();
        assert_eq!(refusal.code, Code::QuotaExceeded);
        let _others = subjects.permit(&other, 2).unwrap();
        drop(first);
        assert!(subjects.permit(&one, 2).is_ok());
    }

    #[test]
    fn who_asks_for_nothing_is_forgotten() {
        let subjects = Arc::new(Subjects::default());
        let now = Instant::now();
        let kept = subjects.permit(&who(Role::Session, "t", "kept"), 1).unwrap();
        for number in 0..3 * MAX_IDLE {
            let later = now + Duration::from_secs(number as u64);
            subjects.call(&who(Role::Session, "t", &format!("s-{number}")), 1, later).unwrap();
        }
        assert!(subjects.0.lock().len() <= MAX_IDLE);
        assert!(subjects.permit(&who(Role::Session, "t", "kept"), 1).is_err(), "it is still there");
        drop(kept);
    }
}
