//! The sessions of this instance, and not more than there may be.

use std::sync::Arc;

use lingua_core::SessionKey;
use lingua_core::outcome::Code;

use super::Sessions;
use super::commands::{CommandReceiver, channel};
use super::handle::SessionHandle;
use super::inbound::Opening;
use crate::job::Refusal;

/// The entry of a session among those of this instance; removed when it is dropped.
pub(crate) struct Registration {
    service: Arc<Sessions>,
    pub(crate) handle: Arc<SessionHandle>,
    commands: Option<CommandReceiver>,
}

impl Registration {
    pub(super) fn take_commands(&mut self) -> CommandReceiver {
        self.commands.take().expect("one task takes them, once")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.service.unregister(&self.handle);
    }
}

impl Sessions {
    /// Registers a session, if there may be one more.
    pub(super) fn register(
        self: &Arc<Self>,
        key: &SessionKey,
        opening: &Opening,
    ) -> Result<Registration, Refusal> {
        let bounds = self.shared.settings.sessions;
        let (sender, commands) = channel();
        let (resumes, since) = (opening.supports.resume, self.shared.clock.now().as_millis());
        let handle = Arc::new(SessionHandle::new(key.clone(), sender, resumes, since, opening));
        let mut open = self.open.lock();
        let full = |limit: &'static str, what: &str, most: usize| {
            self.shared.metrics.limited(limit);
            let detail = format!("quota: {what} has {most} open sessions, the maximum");
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
        self.shared.metrics.sessions.sessions.set(open.sessions.len() as i64);
        drop(open);
        Ok(Registration { service: Arc::clone(self), handle, commands: Some(commands) })
    }

    fn unregister(&self, handle: &Arc<SessionHandle>) {
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
        self.shared.metrics.sessions.sessions.set(open.sessions.len() as i64);
    }
}
