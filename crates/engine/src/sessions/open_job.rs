//! The jobs of a session whose ending was not delivered.

use std::sync::Arc;

use lingua_core::eligibility::Route;
use lingua_core::session::{Lane, ResultKey, Session};
use lingua_core::{JobId, Moment, TurnId};
use tokio::time::Instant;

use super::outbound::{About, Direction};
use super::saved_state::SavedJob;
use crate::job::{Ended, JobSpec, NodeMessage, Refusal};
use crate::jobs::{Got, Job};
use crate::trace::Live;

/// What a node answered, with what the client is told along with it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub job: JobId,
    pub trace_id: Arc<str>,
    /// Not known of a job of an earlier owner of the session.
    pub got: Option<Got>,
    pub body: NodeMessage,
}

impl Answer {
    /// The ending that it was made of.
    pub fn ended(&self) -> (JobId, Ended) {
        (self.job, Ended::Done(self.body.clone()))
    }
}

/// A job whose ending was not delivered.
pub(super) struct OpenJob {
    pub key: ResultKey,
    /// The utterance's number, as the client counts.
    pub utterance_index: u64,
    pub id: JobId,
    /// `None` if it was not submitted.
    pub job: Option<Arc<Job>>,
    pub trace_id: Arc<str>,
    /// The span of its utterance, which ends with the last of its jobs.
    pub traced: Option<Arc<Live>>,
    pub cut_at: Instant,
    /// Not known of a job that an older version saved.
    pub route: Option<Route>,
    pub turn: Option<TurnId>,
    pub part_index: u32,
    /// Not submitted yet: the part before it has no node yet, and this one is to follow it.
    pub held: Option<Box<JobSpec>>,
    pub deadline: Moment,
    /// The client wants to hear of it before it ends.
    pub partials: bool,
    /// Some node was found for it.
    pub placed: bool,
    pub accepted: bool,
    pub over: bool,
    pub partial_told: bool,
    pub failure: Option<Refusal>,
}

impl OpenJob {
    pub fn answer(&self, body: NodeMessage) -> Answer {
        let got = self.job.as_ref().map(|job| job.got());
        Answer { job: self.id, trace_id: Arc::clone(&self.trace_id), got, body }
    }

    pub fn about(&self) -> About<'_> {
        self.about_in(Direction::of(self.route))
    }

    /// The same with the direction that the node found.
    pub fn about_in(&self, direction: Direction) -> About<'_> {
        About {
            utterance_index: self.utterance_index,
            job: Some(self.id),
            trace_id: &self.trace_id,
            direction,
        }
    }

    pub fn cancel(&self, reason: &'static str) {
        if let Some(job) = self.job.as_ref().filter(|_| !self.over) {
            job.cancel(reason);
        }
    }

    /// A job of an earlier owner of the session, which nodes may still work on.
    pub fn inherited(saved: SavedJob, machine: &Session<Answer>, partials: bool) -> Self {
        let key = ResultKey { index: saved.index, lane: Lane(saved.lane) };
        OpenJob {
            key,
            utterance_index: machine.client_index_of(key.index).unwrap_or(key.index),
            id: saved.id,
            job: None,
            trace_id: saved.trace.into(),
            traced: None,
            cut_at: Instant::now(),
            route: saved.route,
            turn: None,
            part_index: 0,
            held: None,
            deadline: Moment::ZERO,
            partials,
            placed: true,
            accepted: true,
            over: false,
            partial_told: false,
            failure: None,
        }
    }

    pub fn saved(&self) -> SavedJob {
        let (index, lane, route) = (self.key.index, self.key.lane.0, self.route);
        SavedJob { index, lane, id: self.id, trace: self.trace_id.to_string(), route }
    }

    /// Whether this part of a turn has to wait for `earlier`.
    pub fn follows(&self, earlier: &OpenJob) -> bool {
        earlier.turn == self.turn
            && earlier.key.lane == self.key.lane
            && earlier.part_index < self.part_index
            && !(earlier.placed || earlier.over)
    }
}
