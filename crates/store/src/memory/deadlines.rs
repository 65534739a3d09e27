//! Deadlines of jobs that any instance looks after.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{JobId, Moment};
use parking_lot::Mutex;

use super::MemoryStore;
use super::expiring::Map;
use crate::error::{Result, checked_ms};
use crate::jobs::JobDeadlines;

#[derive(Default)]
pub(super) struct Deadlines(pub(super) Mutex<Watched>);

#[derive(Clone, Default)]
pub(super) struct Watched {
    deadlines: Map<JobId, Moment>,
    order: BTreeSet<(Moment, JobId)>,
}

#[async_trait]
impl JobDeadlines for MemoryStore {
    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()> {
        checked_ms(deadline_in)?;
        let deadline = self.clock.now() + deadline_in;
        let mut watched = self.deadlines.0.lock();
        if let Some(before) = watched.deadlines.insert(*job, deadline) {
            watched.order.remove(&(before, *job));
        }
        watched.order.insert((deadline, *job));
        Ok(())
    }

    async fn unwatch(&self, job: &JobId) -> Result<()> {
        let mut watched = self.deadlines.0.lock();
        if let Some(deadline) = watched.deadlines.remove(job) {
            watched.order.remove(&(deadline, *job));
        }
        Ok(())
    }

    async fn due(&self, limit: usize) -> Result<Vec<JobId>> {
        let now = self.clock.now();
        let watched = self.deadlines.0.lock();
        let due = watched.order.iter().take_while(|(deadline, _)| *deadline <= now);
        Ok(due.take(limit).map(|(_, job)| *job).collect())
    }
}
