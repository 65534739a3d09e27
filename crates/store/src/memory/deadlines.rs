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
use crate::journal::{Entry, Kind, NEVER};

#[derive(Default)]
pub(super) struct Deadlines(pub(super) Mutex<Watched>);

#[derive(Clone, Default)]
pub(super) struct Watched {
    deadlines: Map<JobId, Moment>,
    order: BTreeSet<(Moment, JobId)>,
}

impl Watched {
    fn watch(&mut self, job: &JobId, deadline: Moment) {
        if let Some(before) = self.deadlines.insert(*job, deadline) {
            self.order.remove(&(before, *job));
        }
        self.order.insert((deadline, *job));
    }
}

impl MemoryStore {
    /// Puts back a deadline that was kept; `None` if it cannot be read.
    pub(super) fn put_back_deadline(&self, entry: &Entry) -> Option<()> {
        self.deadlines.0.lock().watch(&entry.id(0)?, entry.json()?);
        Some(())
    }
}

#[async_trait]
impl JobDeadlines for MemoryStore {
    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()> {
        checked_ms(deadline_in)?;
        let deadline = self.change()? + deadline_in;
        let mut watched = self.deadlines.0.lock();
        watched.watch(job, deadline);
        self.note(|journal| journal.note(Kind::Deadline, &[job.as_str()], NEVER, &deadline));
        drop(watched);
        self.kept(())
    }

    async fn unwatch(&self, job: &JobId) -> Result<()> {
        self.change()?;
        let mut watched = self.deadlines.0.lock();
        if let Some(deadline) = watched.deadlines.remove(job) {
            watched.order.remove(&(deadline, *job));
            self.note(|journal| journal.note_end(Kind::Deadline, &[job.as_str()]));
        }
        drop(watched);
        self.kept(())
    }

    async fn due(&self, limit: usize) -> Result<Vec<JobId>> {
        let now = self.clock.now();
        let watched = self.deadlines.0.lock();
        let due = watched.order.iter().take_while(|(deadline, _)| *deadline <= now);
        Ok(due.take(limit).map(|(_, job)| *job).collect())
    }
}
