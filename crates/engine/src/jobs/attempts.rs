//! The attempts of one job: their slots and the job's record in the store. Each call to the store, and what its
//! answer means.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Need;
use lingua_core::inventory::Required;
use lingua_core::job::event::{AssignAnswer, CommitAnswer, FinishAnswer, RecordAnswer, SlotAnswer};
use lingua_core::job::{Event, JobState, MAX_REJECTED};
use lingua_core::limits::MAX_MODELS_PER_JOB;
use lingua_core::outcome::Code;
use lingua_core::planted::{self, Flaw};
use lingua_core::slots::Commit;
use lingua_core::{JobId, LeaseToken, ModelId, NodeId};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, NewJob};
use lingua_store::nodes::ProfileVersion;
use lingua_store::slots::{Refusal, Reserve, Wish};
use tokio::time::Instant;

use super::slot::{Granted, Slot, cool_down, release_later};
use super::{Dispatcher, KEEP_RECORD, finish_later};
use crate::fleet::Placement;
use crate::job::JobSpec;
use crate::nodes::{LinkCommand, NodePort};
use crate::tasks;
use crate::trace::Live;

/// The names under which a node may have reported missing what the job asks for.
fn missing_names(need: &Need) -> Vec<ModelId> {
    let names = need.asks.models.iter().filter_map(Required::gap);
    names.take(MAX_MODELS_PER_JOB).collect()
}

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

    /// Asks the store for a slot of the placement's node. With `left` until the deadline the job's record is
    /// written along: one round trip between "utterance ended" and "job on the wire".
    pub async fn reserve(
        &mut self,
        spec: &JobSpec,
        attempt: u32,
        placement: Placement,
        left: Option<Duration>,
        span: Option<Live>,
    ) -> Event {
        let dispatcher = Arc::clone(&self.dispatcher);
        let shared = &dispatcher.shared;
        let candidate = placement.candidate();
        let node = candidate.node.clone();
        let token = LeaseToken { job: spec.id, attempt, nonce: shared.chance.nonce() };
        let port = NodePort::find(&dispatcher.router, &node);
        let by_call = port.as_ref().is_some_and(|port| port.supports().calls);
        let lease = Duration::from_millis(shared.settings.timing.reserve_lease_ms_of(by_call));
        let version = ProfileVersion::from_bits(candidate.version.get());
        let models = missing_names(&spec.need);
        let wish = Wish { node: &node, token, version, models: &models, lease };
        let slots = &shared.store.slots;
        let (reserved, record) = match left {
            None => (slots.reserve(&wish).await, RecordAnswer::NotAsked),
            Some(left) => {
                let new = new_job(spec, Some(Assignment { node: node.clone(), token }), left);
                let (created, reserved) = shared.store.jobs.begin(&new, &**slots, &wish).await;
                (reserved, self.recorded(created))
            }
        };
        if let Some(mut span) = span {
            span.note("reason", answer_name(&reserved));
        }
        let granted = granted(&dispatcher, placement, token, lease, reserved);
        let slot = match (granted, port) {
            (Err(answer), _) => answer,
            (Ok((granted, placement)), Some(port)) => {
                let shared = Arc::clone(shared);
                self.slots.push(Slot::new(shared, port, token, granted, placement));
                SlotAnswer::Granted
            }
            (Ok(_), None) => {
                // The node left between the choice and the grant.
                release_later(shared, &node, token).await;
                SlotAnswer::Refused
            }
        };
        Event::Reserved { attempt, slot, record }
    }

    /// Writes the job's record, with this attempt as the first assignment.
    pub async fn write_record(
        &mut self,
        spec: &JobSpec,
        attempt: Option<u32>,
        left: Duration,
    ) -> Event {
        let first = attempt.map(|attempt| self.get(attempt).assignment());
        let created = self.dispatcher.shared.store.jobs.create(&new_job(spec, first, left)).await;
        Event::Recorded { attempt, answer: self.recorded(created) }
    }

    /// What the store answered to a new record.
    fn recorded(&mut self, created: lingua_store::Result<Create>) -> RecordAnswer {
        match created {
            Ok(Create::Created) => RecordAnswer::Written,
            // Another instance has it, or had it: the same request, the same answer.
            Ok(Create::Exists(record)) => {
                self.known = Some(record);
                RecordAnswer::Exists
            }
            Ok(Create::Superseded { .. }) => RecordAnswer::Superseded,
            Err(error) => {
                tracing::debug!(%error, "a job's record was not written");
                let left = planted::on(Flaw::UnansweredRecordStaysOpen);
                if matches!(error, lingua_store::Error::Unknown(_)) && !left {
                    // It may be there: a job that is refused leaves no open record.
                    let code = Code::SchedulerDependencyDown.as_str().to_owned();
                    let ending = Ending { state: JobState::Failed, code };
                    finish_later(&self.dispatcher, self.job, EndedBy::Owner, ending, false);
                }
                RecordAnswer::StoreDown
            }
        }
    }

    /// Makes this attempt's assignment the job's current one.
    pub async fn write_assignment(&mut self, attempt: u32) -> Event {
        let assignment = self.get(attempt).assignment();
        let most = self.dispatcher.policies.iter().map(|policy| policy.timing.max_attempts).max();
        let limit = most.unwrap_or_default() + MAX_REJECTED + 2;
        let jobs = &self.dispatcher.shared.store.jobs;
        let answer = match jobs.assign(&self.job, &assignment, limit).await {
            Ok(Assign::Assigned) => AssignAnswer::Written,
            Ok(Assign::Unknown) => AssignAnswer::Unknown,
            Ok(Assign::Ended(_)) => AssignAnswer::Ended,
            Ok(other @ (Assign::Stale { .. } | Assign::Exhausted)) => {
                tracing::warn!(answer = ?other, "an attempt was not written down");
                AssignAnswer::Refused
            }
            Err(error) => {
                tracing::debug!(%error, "an attempt was not written down");
                AssignAnswer::StoreDown
            }
        };
        Event::AssignmentWritten { attempt, answer }
    }

    /// The reserved slot becomes a running one.
    pub async fn commit(&mut self, attempt: u32) -> Event {
        let dispatcher = Arc::clone(&self.dispatcher);
        let slot = self.get(attempt);
        let (lease, token) = (slot.running_lease(), slot.token);
        let slots = &dispatcher.shared.store.slots;
        let answer = match slots.commit(slot.port.id(), token, lease).await {
            Ok(Commit::Committed(_) | Commit::Already(_) | Commit::Regained(_)) => {
                slot.port.post(LinkCommand::Extended { token, lease });
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

/// Applies the store's answer to the placement and the fleet view.
fn granted(
    dispatcher: &Dispatcher,
    mut placement: Placement,
    token: LeaseToken,
    lease: Duration,
    reserved: lingua_store::Result<Reserve>,
) -> Result<(Granted, Placement), SlotAnswer> {
    let shared = &dispatcher.shared;
    let here = Instant::now();
    match reserved {
        Ok(Reserve::Granted { until, used }) => {
            shared.metrics.jobs.granted.inc();
            placement.granted(Some(used));
            return Ok((Granted { at: Some(until - lease), here }, placement));
        }
        Ok(Reserve::Already { .. }) => {
            shared.metrics.jobs.granted.inc();
            placement.granted(None);
            return Ok((Granted { at: None, here }, placement));
        }
        Ok(Reserve::Full { used, max }) => {
            shared.metrics.reserve("full");
            placement.refused_full(used, max);
        }
        Ok(Reserve::Spent) => shared.metrics.reserve("spent"),
        Ok(Reserve::Refused(why)) => {
            shared.metrics.reserve(refusal_name(why));
            let node = &placement.candidate().node;
            tracing::debug!(node.id = %node, reason = refusal_name(why), "slot refused");
            if dispatcher.router.link(node).is_none() {
                shared.fleet.remove(node);
            }
            // The slot counts as taken for a moment, so that not every job asks in vain.
            cool_down(placement);
        }
        Err(error) => {
            shared.metrics.reserve("store_down");
            tracing::debug!(%error, "no slot was granted because the store did not answer");
            if !planted::on(Flaw::UnansweredSlotKept) {
                release_unanswered(dispatcher, placement.candidate().node.clone(), token);
            }
            return Err(SlotAnswer::StoreDown);
        }
    }
    Err(SlotAnswer::Refused)
}

/// A call without an answer may have taken a slot, which is released.
fn release_unanswered(dispatcher: &Dispatcher, node: NodeId, token: LeaseToken) {
    let shared = Arc::clone(&dispatcher.shared);
    tasks::spawn("release a slot", async move {
        release_later(&shared, &node, token).await;
    });
}

fn new_job(spec: &JobSpec, first: Option<Assignment>, deadline_in: Duration) -> NewJob<'_> {
    NewJob {
        id: spec.id,
        session: &spec.session,
        epoch: spec.epoch,
        first,
        // The store takes no deadline that has passed.
        deadline_in: deadline_in.max(Duration::from_millis(1)),
        keep_for: KEEP_RECORD,
    }
}

/// What the store answered to a request for a slot, as metrics and traces name it.
fn answer_name(answer: &lingua_store::Result<Reserve>) -> &'static str {
    match answer {
        Ok(Reserve::Granted { .. } | Reserve::Already { .. }) => "granted",
        Ok(Reserve::Full { .. }) => "full",
        Ok(Reserve::Spent) => "spent",
        Ok(Reserve::Refused(why)) => refusal_name(*why),
        Err(_) => "store_down",
    }
}

fn refusal_name(why: Refusal) -> &'static str {
    match why {
        Refusal::UnknownNode => "unknown_node",
        Refusal::Changed(_) => "changed",
        Refusal::Closed => "closed",
        Refusal::Stale => "stale",
        Refusal::MissingModel => "missing_model",
        Refusal::Unconfirmed => "unconfirmed",
        Refusal::Held(_) => "held",
    }
}
