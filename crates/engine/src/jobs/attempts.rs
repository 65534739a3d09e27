//! The attempts of one job: their slots, and what the store is told of them.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::JobId;
use lingua_core::job::event::{CommitAnswer, FinishAnswer, SlotAnswer};
use lingua_core::job::{Event, JobState};
use lingua_core::slots::Commit;
use lingua_store::jobs::{EndedBy, Ending, Finish, JobRecord};

use super::reservation::{self, Reserved};
use super::slot::Slot;
use super::{Dispatcher, finish_later};
use crate::fleet::Placement;
use crate::job::JobSpec;
use crate::trace::Live;

/// The attempts of one job that hold a slot.
pub(super) struct Attempts {
    dispatcher: Arc<Dispatcher>,
    job: JobId,
    slots: Vec<Slot>,
    /// The record that the store had of the job before.
    known: Option<JobRecord>,
}

impl Attempts {
    pub fn new(dispatcher: Arc<Dispatcher>, job: JobId) -> Self {
        Attempts { dispatcher, job, slots: Vec::new(), known: None }
    }

    pub fn get(&mut self, attempt: u32) -> &mut Slot {
        let slot = self.slots.iter_mut().find(|slot| slot.token.attempt == attempt);
        slot.expect("the machine names attempts whose slot it was granted")
    }

    pub fn take(&mut self, attempt: u32) -> Slot {
        let at = self.slots.iter().position(|slot| slot.token.attempt == attempt);
        self.slots.swap_remove(at.expect("the machine gives each granted slot back once"))
    }

    /// The record of a job that another instance has.
    pub fn known_record(&mut self) -> JobRecord {
        self.known.take().expect("the store said that the job exists")
    }

    /// Asks for a slot; with `left` until the deadline, the job's record is written along.
    pub async fn reserve(
        &mut self,
        spec: &JobSpec,
        attempt: u32,
        placement: Placement,
        left: Option<Duration>,
        span: Option<Live>,
    ) -> Event {
        let reserving = reservation::reserve(&self.dispatcher, spec, placement, attempt, left);
        let Reserved { slot, record, known, word } = reserving.await;
        if let Some(mut span) = span {
            span.note("reason", word);
        }
        self.known = known;
        let slot = match slot {
            Ok(slot) => {
                self.slots.push(slot);
                SlotAnswer::Granted
            }
            Err(answer) => answer,
        };
        Event::Reserved { attempt, slot, record }
    }

    pub async fn write_assignment(&mut self, attempt: u32) -> Event {
        let assignment = self.get(attempt).assignment();
        let answer = reservation::write_assignment(&self.dispatcher, &self.job, &assignment).await;
        Event::AssignmentWritten { attempt, answer }
    }

    pub async fn write_record(
        &mut self,
        spec: &JobSpec,
        attempt: Option<u32>,
        left: Duration,
    ) -> Event {
        let first = attempt.map(|attempt| self.get(attempt).assignment());
        let written = reservation::write_record(&self.dispatcher, spec, first, left);
        let (answer, known) = written.await;
        self.known = known;
        Event::Recorded { attempt, answer }
    }

    /// The reserved slot becomes a running one.
    pub async fn commit(&mut self, attempt: u32) -> Event {
        let dispatcher = Arc::clone(&self.dispatcher);
        let slot = self.get(attempt);
        let (lease, token) = (slot.running_lease(), slot.token);
        let slots = &dispatcher.shared.store.slots;
        let answer = match slots.commit(slot.port.id(), token, lease).await {
            Ok(Commit::Committed(_) | Commit::Already(_) | Commit::Regained(_)) => {
                slot.port.renewed(token, lease);
                CommitAnswer::Kept
            }
            Ok(Commit::Lost) => CommitAnswer::Lost,
            Err(error) => {
                tracing::debug!(job.id = %token.job, %error, "an ack was not written down");
                CommitAnswer::StoreDown
            }
        };
        Event::Committed { attempt, answer }
    }

    /// Gives an attempt up. The owner of the node's connection gives the slot back, so the job need not.
    pub fn cancel(&mut self, attempt: u32, reason: &'static str) -> Event {
        self.get(attempt).abandon(reason);
        Event::CancelPosted { attempt, obeys: false }
    }

    pub fn acknowledge_result(&mut self, attempt: u32) {
        let job = self.job;
        self.get(attempt).port.acknowledge_result(job, attempt);
    }

    pub async fn bind_turn(&mut self, spec: &JobSpec, attempt: u32) {
        let Some(turn) = &spec.turn else { return };
        let node = self.get(attempt).port.id().clone();
        let shared = &self.dispatcher.shared;
        let timing = &self.dispatcher.policy(spec.profile).timing;
        let lease = Duration::from_millis(timing.exec_max_ms);
        let bound = shared.store.turns.bind(&spec.session, turn, &node, lease).await;
        if let Err(error) = bound {
            tracing::debug!(%error, "a turn was not bound to its node");
        }
    }

    /// Ends the job by an answer of this attempt, whose slot is given back.
    pub async fn finish_by_answer(
        &mut self,
        attempt: u32,
        by_owner: bool,
        is_watched: bool,
    ) -> Event {
        let slot = self.get(attempt);
        slot.end_spans("ok");
        let by = match by_owner {
            true => EndedBy::Owner,
            false => EndedBy::Assignment(slot.assignment()),
        };
        let ending = Ending { state: JobState::Done, code: String::new() };
        let finished = slot.release_ending(&by, &ending).await;
        self.finished(finished, by, ending, is_watched)
    }

    /// Ends the job without an answer.
    pub async fn finish(&mut self, ending: Ending, is_watched: bool) -> Event {
        let jobs = &self.dispatcher.shared.store.jobs;
        let finished = jobs.finish(&self.job, &EndedBy::Owner, &ending).await;
        self.finished(finished, EndedBy::Owner, ending, is_watched)
    }

    /// Whether the store let the job end here. A store that is down is told later: results of running
    /// jobs arrive all the same.
    fn finished(
        &self,
        finished: lingua_store::Result<Finish>,
        by: EndedBy,
        ending: Ending,
        is_watched: bool,
    ) -> Event {
        Event::Finished(match finished {
            Ok(Finish::Ended(_) | Finish::Stale { .. }) => FinishAnswer::Refused,
            // A store that lost the record: this actor has been the job's only owner all along.
            Ok(Finish::Finished | Finish::Repeated | Finish::Unknown) => FinishAnswer::Accepted,
            Err(error) => {
                tracing::debug!(job.id = %self.job, %error, "an ending is written down later");
                finish_later(&self.dispatcher, self.job, by, ending, is_watched);
                FinishAnswer::Accepted
            }
        })
    }
}
