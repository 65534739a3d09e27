//! A job's slot and record in the store: what it is asked, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::event::{AssignAnswer, RecordAnswer, SlotAnswer};
use lingua_core::job::{JobState, MAX_REJECTED};
use lingua_core::outcome::Code;
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Ending, JobRecord, NewJob};
use lingua_store::nodes::ProfileVersion;
use lingua_store::slots::{Refusal, Reserve, Wish};
use tokio::time::Instant;

use super::node_port::NodePort;
use super::slot::{Granted, Slot, cool_down, release_later};
use super::{Dispatcher, KEEP_RECORD, finish_later};
use crate::fleet::Placement;
use crate::job::JobSpec;
use crate::tasks;

/// What became of a wish for a slot, and of the record that was written along.
pub(super) struct Reserved {
    pub slot: Result<Slot, SlotAnswer>,
    pub record: RecordAnswer,
    /// The record that was there before.
    pub known: Option<JobRecord>,
    /// What the store said of the slot, for traces.
    pub word: &'static str,
}

/// Asks the store for a slot of the placement's node. With `record_until` the job's record is written
/// along: one round trip between "utterance ended" and "job on the wire".
pub(super) async fn reserve(
    dispatcher: &Dispatcher,
    spec: &JobSpec,
    placement: Placement,
    attempt: u32,
    deadline_in: Option<Duration>,
) -> Reserved {
    let shared = &dispatcher.shared;
    let candidate = placement.candidate();
    let node = candidate.node.clone();
    let token = LeaseToken { job: spec.id, attempt, nonce: shared.chance.nonce() };
    let port = NodePort::find(&dispatcher.router, &node);
    let by_call = port.as_ref().is_some_and(NodePort::calls);
    let lease = Duration::from_millis(shared.settings.timing.reserve_lease_ms_of(by_call));
    let version = ProfileVersion::from_bits(candidate.version.get());
    let wish = Wish { node: &node, token, version, models: &spec.need.models, lease };
    let slots = &shared.store.slots;
    let (reserved, created) = match deadline_in {
        None => (slots.reserve(&wish).await, None),
        Some(deadline_in) => {
            let first = Some(Assignment { node: node.clone(), token });
            let new = new_job(spec, first, deadline_in);
            let (created, reserved) = shared.store.jobs.begin(&new, &**slots, &wish).await;
            (reserved, Some(created))
        }
    };
    let word = answer_word(&reserved);
    let (record, known) = created
        .map_or((RecordAnswer::NotAsked, None), |created| record_answer(dispatcher, spec, created));
    let granted = granted(dispatcher, placement, token, lease, reserved);
    let slot = match (granted, port) {
        (Err(answer), _) => Err(answer),
        (Ok((granted, placement)), Some(port)) => {
            Ok(Slot::new(Arc::clone(shared), port, token, granted, placement))
        }
        (Ok(_), None) => {
            // The node left between the choice and the grant.
            release_later(shared, &node, token).await;
            Err(SlotAnswer::Refused)
        }
    };
    Reserved { slot, record, known, word }
}

/// What the store's answer means, with the fleet view brought in line with it.
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
            shared.metrics.reserve(refused_word(why));
            let node = &placement.candidate().node;
            tracing::debug!(node.id = %node, reason = refused_word(why), "slot refused");
            if dispatcher.router.link(node).is_none() {
                shared.fleet.remove(node);
            }
            // For a moment the slot counts as taken: not everybody need ask.
            cool_down(placement);
        }
        Err(error) => {
            shared.metrics.reserve("store_down");
            tracing::debug!(%error, "refused for want of the store");
            if !planted::on(Flaw::UnansweredSlotKept) {
                give_back_later(dispatcher, placement.candidate().node.clone(), token);
            }
            return Err(SlotAnswer::StoreDown);
        }
    }
    Err(SlotAnswer::Refused)
}

/// A step whose answer did not come may have happened: whatever it took is given back.
fn give_back_later(dispatcher: &Dispatcher, node: NodeId, token: LeaseToken) {
    let shared = Arc::clone(&dispatcher.shared);
    tasks::spawn("give a slot back", async move {
        release_later(&shared, &node, token).await;
    });
}

/// Writes the job's record.
pub(super) async fn write_record(
    dispatcher: &Dispatcher,
    spec: &JobSpec,
    first: Option<Assignment>,
    deadline_in: Duration,
) -> (RecordAnswer, Option<JobRecord>) {
    let new = new_job(spec, first, deadline_in);
    record_answer(dispatcher, spec, dispatcher.shared.store.jobs.create(&new).await)
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

fn record_answer(
    dispatcher: &Dispatcher,
    spec: &JobSpec,
    created: lingua_store::Result<Create>,
) -> (RecordAnswer, Option<JobRecord>) {
    match created {
        Ok(Create::Created) => (RecordAnswer::Written, None),
        // Another instance has it, or had it: the same request, the same answer.
        Ok(Create::Exists(record)) => (RecordAnswer::Exists, Some(record)),
        Ok(Create::Superseded { .. }) => (RecordAnswer::Superseded, None),
        Err(error) => {
            tracing::debug!(%error, "a job's record was not written");
            let left = planted::on(Flaw::UnansweredRecordStaysOpen);
            if matches!(error, lingua_store::Error::Unknown(_)) && !left {
                // It may be there: a job that is refused leaves no open record.
                let code = Code::SchedulerDependencyDown.as_str().to_owned();
                let ending = Ending { state: JobState::Failed, code };
                finish_later(dispatcher, spec.id, EndedBy::Owner, ending, false);
            }
            (RecordAnswer::StoreDown, None)
        }
    }
}

/// Makes the assignment the job's current one.
pub(super) async fn write_assignment(
    dispatcher: &Dispatcher,
    job: &JobId,
    assignment: &Assignment,
) -> AssignAnswer {
    let shared = &dispatcher.shared;
    let most = dispatcher.policies.iter().map(|policy| policy.timing.max_attempts).max();
    let limit = most.unwrap_or_default() + MAX_REJECTED + 2;
    match shared.store.jobs.assign(job, assignment, limit).await {
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
    }
}

/// What the store answered to a wish for a slot, in the words of the metrics.
fn answer_word(answer: &lingua_store::Result<Reserve>) -> &'static str {
    match answer {
        Ok(Reserve::Granted { .. } | Reserve::Already { .. }) => "granted",
        Ok(Reserve::Full { .. }) => "full",
        Ok(Reserve::Spent) => "spent",
        Ok(Reserve::Refused(why)) => refused_word(*why),
        Err(_) => "store_down",
    }
}

fn refused_word(why: Refusal) -> &'static str {
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
