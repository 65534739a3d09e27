//! One server group for all tests of a binary that run at the same time.
//!
//! Statics are not dropped when a process ends, so nothing that owns a process is kept in one: each
//! test holds the group, and the last one that lets go of it stops it.

use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

/// The group that is running, if any test holds it.
pub struct Shared<G>(Mutex<Weak<G>>);

impl<G> Shared<G> {
    pub const fn new() -> Self {
        Shared(Mutex::const_new(Weak::new()))
    }

    /// The running group, or a new one. Who comes meanwhile waits for the same.
    pub async fn get(
        &self,
        start: impl AsyncFnOnce() -> anyhow::Result<G>,
    ) -> anyhow::Result<Arc<G>> {
        let mut running = self.0.lock().await;
        if let Some(group) = running.upgrade() {
            return Ok(group);
        }
        let group = Arc::new(start().await?);
        *running = Arc::downgrade(&group);
        Ok(group)
    }
}
