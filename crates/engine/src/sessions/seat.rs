//! A place for every session, and not for more than there may be.

use std::sync::Arc;

use lingua_core::SessionKey;
use lingua_core::outcome::Code;

use super::Sessions;
use super::handle::Handle;
use super::mail::{Letterbox, Mailbox, mailbox};
use super::words::Opening;
use crate::job::Refusal;

/// A place among the sessions of this instance; free again when it is dropped.
pub(crate) struct Seat {
    service: Arc<Sessions>,
    pub(crate) handle: Arc<Handle>,
    mailbox: Option<Mailbox>,
}

impl Seat {
    pub(super) fn take_mailbox(&mut self) -> Mailbox {
        self.mailbox.take().expect("a seat has one session")
    }

    pub(super) fn letterbox(&self) -> Letterbox {
        self.handle.letterbox.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.leave_seat(&self.handle);
    }
}

impl Sessions {
    /// Gives the session a place, if there is one.
    pub(super) fn seat(
        self: &Arc<Self>,
        key: &SessionKey,
        opening: &Opening,
    ) -> Result<Seat, Refusal> {
        let bounds = self.shared.settings.sessions;
        let (letterbox, mailbox) = mailbox();
        let (resumes, since) = (opening.supports.resume, self.shared.clock.now().as_millis());
        let handle = Arc::new(Handle::new(key.clone(), letterbox, resumes, since, opening));
        let mut open = self.open.lock();
        let full = |limit: &'static str, what: &str, most: usize| {
            self.shared.metrics.limited(limit);
            let detail = format!("{what} has {most} sessions open, which is as many as may be");
            Err(Refusal::new(Code::QuotaExceeded, detail).retry_after(5_000))
        };
        if open.sessions.len() >= bounds.total {
            return full("sessions", "this instance", bounds.total);
        }
        let tenant = open.tenants.entry(handle.key.tenant().clone()).or_default();
        if *tenant >= bounds.per_tenant {
            return full("sessions_per_tenant", "the tenant", bounds.per_tenant);
        }
        *tenant += 1;
        open.sessions.insert(handle.key.clone(), Arc::clone(&handle));
        self.shared.metrics.sessions.set(open.sessions.len() as i64);
        drop(open);
        Ok(Seat { service: Arc::clone(self), handle, mailbox: Some(mailbox) })
    }

    fn leave_seat(&self, handle: &Arc<Handle>) {
        let mut open = self.open.lock();
        let ours = open.sessions.get(&handle.key).is_some_and(|known| Arc::ptr_eq(known, handle));
        if ours {
            open.sessions.remove(&handle.key);
        }
        let tenant = handle.key.tenant();
        if let Some(count) = open.tenants.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                open.tenants.remove(tenant);
            }
        }
        self.shared.metrics.sessions.set(open.sessions.len() as i64);
    }
}
