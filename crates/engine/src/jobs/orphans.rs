//! Jobs without a session whose instance died: the leader ends them at their deadline, exactly once.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::JobId;
use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};

use super::Dispatcher;
use crate::nodes::{LinkCommand, NodePort};

/// How often overdue jobs are read. An instance ends its own jobs itself, and sooner.
const INTERVAL: Duration = Duration::from_secs(1);

/// Jobs ended in one go.
const BATCH: usize = 256;

impl Dispatcher {
    /// Runs for as long as this instance leads. What is ended is fenced by the job's own record, so a
    /// leader that lingers does no harm.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if let Err(error) = self.sweep_once().await {
                tracing::debug!(%error, "overdue jobs were not ended");
            }
        }
    }

    async fn sweep_once(&self) -> lingua_store::Result<()> {
        for job in self.shared.store.deadlines.due(BATCH).await? {
            // A job of this instance is ended by its own task.
            if self.job(&job).is_none_or(|job| job.view().ended.is_some()) {
                self.end_overdue(&job).await?;
            }
        }
        Ok(())
    }

    async fn end_overdue(&self, job: &JobId) -> lingua_store::Result<()> {
        let jobs = &self.shared.store.jobs;
        let record = jobs.get(job).await?;
        let code = Code::JobTimeout.as_str().to_owned();
        let ending = Ending { state: JobState::Failed, code };
        let finish = jobs.finish(job, &EndedBy::Owner, &ending).await?;
        if finish == Finish::Finished {
            self.shared.metrics.jobs.swept.inc();
            tracing::info!(job.id = %job, "an orphaned job was ended at its deadline");
            if let Some(assignment) = record.and_then(|record| record.assignment) {
                self.stop_orphan(&assignment);
            }
        }
        self.shared.store.deadlines.unwatch(job).await
    }

    /// Tells the node of an orphaned job to stop. The owner of the node's connection releases the slot.
    fn stop_orphan(&self, assignment: &Assignment) {
        if let Some(port) = NodePort::find(&self.router, &assignment.node) {
            let (job, attempt) = (assignment.token.job, assignment.token.attempt);
            port.post(LinkCommand::Abandon { job, attempt, reason: "deadline", slot: None });
        }
    }
}
