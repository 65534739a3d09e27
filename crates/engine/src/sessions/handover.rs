//! A session goes to another instance: the endings that its client may not have seen go along, and
//! those that are lost are not waited for until their deadline.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::outcome::Code;
use lingua_core::session::Ending;
use lingua_core::{JobId, SessionKey};

use super::Sessions;
use super::actor::Actor;
use super::commands::SessionCommand;
use crate::job::{Ended, JobNews, OrphanedOutcome, Refusal};
use crate::tasks;

/// How often a new owner looks what became of the jobs of the one before, and how long an ending may
/// be on its way once the store has it.
const LOOK: Duration = Duration::from_secs(2);

impl Actor {
    /// Sends to the next owner what this one knows of endings: those that were told and may not have
    /// arrived, those that wait for one before them, and those that are in the queue. What the
    /// client has seen already is of no open utterance there, and ignored.
    pub(super) fn hand_over(&mut self) {
        let mut endings = Vec::new();
        for (key, ending) in self.machine.unseen() {
            let open = self.open.iter().find(|open| open.key == key);
            match (ending, open) {
                (Ending::Result(answer), _) => endings.push(answer.ended()),
                (Ending::Missing(_), Some(open)) => {
                    let lost = || Refusal::new(Code::NodeUnavailable, "it failed before the move");
                    let refusal = open.failure.clone().unwrap_or_else(lost);
                    endings.push((open.id, Ended::Failed(refusal)));
                }
                (Ending::Missing(_), None) => {}
            }
        }
        for command in self.remaining_commands() {
            match command {
                SessionCommand::Ended(job, ended) => endings.push((job, ended)),
                SessionCommand::Job(key, JobNews::Ended(ended)) => {
                    let open = self.open.iter().find(|open| open.key == key);
                    endings.extend(open.map(|open| (open.id, ended)));
                }
                _ => {}
            }
        }
        for (job, ended) in endings {
            let orphan = OrphanedOutcome::Ended { session: self.handle.key.clone(), job, ended };
            // If there is no room, the next owner finds out that it is lost.
            let _ = self.service.shared.orphans.try_send(orphan);
        }
    }
}

impl Sessions {
    /// Looks after jobs that an earlier owner began. Of one that has ended, or of which nothing is
    /// known any more, no news will come but those that are on their way: it is not waited for until
    /// its deadline, for all that is said behind it would wait too.
    pub(super) fn look_after_inherited(self: &Arc<Self>, key: &SessionKey, jobs: Vec<JobId>) {
        let (service, key) = (Arc::clone(self), key.clone());
        if jobs.is_empty() {
            return;
        }
        tasks::start(async move {
            let mut left = jobs;
            let mut over: Vec<JobId> = Vec::new();
            let rounds = service.shared.settings.timing.deadline_ms / LOOK.as_millis() as u64;
            for _ in 0..rounds {
                tokio::time::sleep(LOOK).await;
                for job in over.drain(..) {
                    let lost = Refusal::new(Code::NodeUnavailable, "its result was lost");
                    if service.tell_job(&key, job, Ended::Failed(lost)).await.is_err() {
                        return;
                    }
                }
                if left.is_empty() {
                    return;
                }
                let mut open = Vec::new();
                for job in left {
                    match service.shared.store.jobs.get(&job).await {
                        Ok(Some(record)) if !record.state.is_terminal() => open.push(job),
                        Ok(_) => over.push(job),
                        Err(_) => open.push(job),
                    }
                }
                left = open;
            }
        });
    }
}
