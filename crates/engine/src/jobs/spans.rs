//! The spans of one job.
//!
//! ```text
//! job ── attempt ── place ── reserve    one candidate is asked for a slot
//!     │          │        └─ wait       in the queue, because every able node was full
//!     │          ├─ ack                 on its way, until the node takes it
//!     │          └─ execute             until the node answers
//!     └─ attempt …                      after a failure, or as a hedge
//! ```
//!
//! For a job that is not traced all of this is nothing.

use lingua_core::NodeId;

use super::slot::Slot;
use crate::job::{Ended, JobSpec};
use crate::shared::Shared;
use crate::trace::{Context, Kind, Live};

/// The spans of a job.
pub(super) struct JobSpans {
    /// The caller's, which is passed to the node if nothing is recorded here.
    caller: Option<Context>,
    spans: Option<Box<Spans>>,
}

/// Children stand before their parents, so that they are dropped, and so end, first.
struct Spans {
    wait: Option<Live>,
    place: Option<Live>,
    attempt: Option<Live>,
    job: Live,
}

/// The spans of an attempt that is on its way.
pub(super) struct AttemptSpans {
    step: Live,
    attempt: Live,
}

impl JobSpans {
    /// Begins those of a job.
    pub fn begin(shared: &Shared, spec: &JobSpec) -> Self {
        let caller = spec.trace;
        // A session decides for all its jobs.
        let job = match (&spec.observer, caller) {
            (Some(_), None) => None,
            (Some(_), _) => shared.trace(("job", Kind::Internal), caller, &spec.session),
            (None, _) => shared.trace(("job", Kind::Server), caller, &spec.session),
        };
        let spans = job.map(|mut job| {
            job.note("job.id", spec.id.as_str());
            job.note("pair", spec.need.route.to_string().as_str());
            job.note("trace_id", spec.work.trace_id.as_str());
            Box::new(Spans { wait: None, place: None, attempt: None, job })
        });
        JobSpans { caller, spans }
    }

    /// A node is looked for.
    pub fn searches(&mut self) {
        let Some(spans) = &mut self.spans else { return };
        let attempt = spans.job.child("attempt", Kind::Client);
        spans.place = Some(attempt.child("place", Kind::Internal));
        spans.attempt = Some(attempt);
    }

    /// A node is asked for a slot.
    pub fn asks(&self, node: &NodeId) -> Option<Live> {
        let place = self.spans.as_ref()?.place.as_ref()?;
        let mut reserve = place.child("reserve", Kind::Internal);
        reserve.note("node.id", node.as_str());
        Some(reserve)
    }

    /// It joins the queue.
    pub fn waits(&mut self) {
        let Some(spans) = &mut self.spans else { return };
        spans.wait = spans.place.as_ref().map(|place| place.child("wait", Kind::Internal));
    }

    /// It left the queue.
    pub fn waited(&mut self) {
        if let Some(spans) = &mut self.spans {
            spans.wait = None;
        }
    }

    /// No node was found. Without an ending it was a hedge, and its span is discarded.
    pub fn found_nobody(&mut self, ended: Option<&Ended>) {
        let Some(spans) = &mut self.spans else { return };
        spans.wait = None;
        let ends = [spans.place.take(), spans.attempt.take()].into_iter().flatten();
        for mut live in ends {
            match ended {
                Some(ended) => live.ends(outcome(ended)),
                None => live.discard(),
            }
        }
    }

    /// The parent of the node's own spans.
    pub fn traceparent(&self) -> Option<String> {
        let attempt = self.spans.as_ref().and_then(|spans| spans.attempt.as_ref());
        let context = attempt.map(Live::context).or(self.caller);
        context.map(|context| context.to_string())
    }

    /// The attempt is on its way to a node.
    pub fn sent(&mut self, slot: &Slot, shared: &Shared) -> Option<Box<AttemptSpans>> {
        let spans = self.spans.as_mut()?;
        spans.place = None;
        let mut attempt = spans.attempt.take()?;
        attempt.note("job.id", slot.token.job.as_str());
        attempt.note("attempt", u64::from(slot.token.attempt));
        attempt.note("node.id", slot.port.id().as_str());
        let owner = slot.port.owner();
        attempt.note("instance.id", owner.as_ref().unwrap_or(&shared.instance.id).as_str());
        Some(Box::new(AttemptSpans { step: attempt.child("ack", Kind::Client), attempt }))
    }

    /// The job is over.
    pub fn ended(&mut self, ended: &Ended) {
        if let Some(spans) = &mut self.spans {
            spans.job.ends(outcome(ended));
        }
        self.spans = None;
    }

    /// Another instance has the job.
    pub fn is_remote(&mut self) {
        if let Some(spans) = &mut self.spans {
            spans.job.note("reason", "remote");
        }
        self.spans = None;
    }
}

impl AttemptSpans {
    /// The node takes it.
    pub fn acked(&mut self) {
        // Replacing the step ends it.
        self.step = self.attempt.child("execute", Kind::Client);
    }

    /// It is over: `ok`, or why not.
    pub fn ended(mut self, reason: &str) {
        self.step.ends(reason);
        self.attempt.ends(reason);
    }
}

/// How a job ended, as metrics name it.
fn outcome(ended: &Ended) -> &str {
    match ended {
        Ended::Done(_) => "ok",
        Ended::Empty { .. } => "empty",
        Ended::Failed(_) | Ended::Cancelled(_) => ended.code(),
    }
}
