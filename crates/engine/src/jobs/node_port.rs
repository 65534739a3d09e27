//! Everything that a job does with a node.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::Event;
use lingua_core::job::event::{Blame, Link, NotSent};
use lingua_core::link::{NewAttempt, Supports};
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_core::{InstanceId, JobId, LeaseToken, ModelId, NodeId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::fleet::Placement;
use crate::job::{Assign, JobEvent, JobEvents, Receipt};
use crate::nodes::link::SlotGuard;
use crate::nodes::{LinkCommand, NodeLink, NodeRouter, SendError};
use crate::shared::Shared;

/// A node, as one attempt of a job sees it. The node may move to another instance between two steps, so
/// the way to it is looked up anew each time.
#[derive(Clone)]
pub(super) struct NodePort {
    id: NodeId,
    router: Arc<dyn NodeRouter>,
}

/// What a node remembers of an attempt beside what it is sent.
pub(super) struct Order {
    pub token: LeaseToken,
    pub index: u64,
    pub lease: Duration,
    /// Where to tell what becomes of it.
    pub events: mpsc::Sender<JobEvent>,
}

impl NodePort {
    /// The node of this name, if it is known.
    pub fn find(router: &Arc<dyn NodeRouter>, id: &NodeId) -> Option<NodePort> {
        router.link(id)?;
        Some(NodePort { id: id.clone(), router: Arc::clone(router) })
    }

    pub fn id(&self) -> &NodeId {
        &self.id
    }

    fn link(&self) -> Option<Arc<dyn NodeLink>> {
        self.router.link(&self.id)
    }

    fn post(&self, command: LinkCommand) {
        if let Some(link) = self.link() {
            link.post(command);
        }
    }

    fn supports(&self) -> Supports {
        self.link().map(|link| link.reach().supports).unwrap_or_default()
    }

    /// Whether it acks by HTTP calls.
    pub fn calls(&self) -> bool {
        self.supports().calls
    }

    /// How long a slot on it is held for a running job without a word from it; `None` if it is not
    /// known any more.
    pub fn running_lease(&self) -> Option<Duration> {
        Some(self.link()?.reach().running_lease)
    }

    /// The instance that has its connection.
    pub fn owner(&self) -> Option<InstanceId> {
        Some(self.link()?.reach().instance)
    }

    /// Puts an attempt on its connection: `Sent` or `NotSent`.
    pub fn assign(&self, shared: &Shared, mut assign: Assign, order: Order) -> Event {
        let Order { token, index, lease, events } = order;
        let (attempt, listener) = (token.attempt, JobEvents::Local(events));
        let sent = self.link().ok_or(SendError::NotConnected).and_then(|link| {
            if !link.reach().supports.ack {
                assign.receipt = Receipt { listener: Some(listener.clone()), epoch: 0 };
            }
            let turn = assign.turn.clone();
            let wanted_until = None;
            link.assign(assign, NewAttempt { token, turn, index, listener, lease, wanted_until })
        });
        match sent {
            Ok(supports) => {
                let link = Link {
                    result_ack: supports.result_ack,
                    calls: supports.calls,
                    keeps_speech: !supports.any(),
                };
                Event::Sent { attempt, link }
            }
            Err(SendError::Full) => {
                shared.metrics.reserve("lapsed");
                tracing::debug!(node.id = %self.id, "a slot was granted whose job is still there");
                Event::NotSent { attempt, reason: NotSent::Full }
            }
            Err(error) => {
                tracing::info!(node.id = %self.id, reason = ?error, "nothing could be sent");
                Event::NotSent { attempt, reason: NotSent::Unreachable }
            }
        }
    }

    /// Gives an attempt up: the node is to stop it, and whoever has its connection gives the slot back.
    pub fn abandon(
        &self,
        shared: &Shared,
        token: LeaseToken,
        reason: &'static str,
        slot: Placement,
    ) {
        if !self.supports().cancel {
            shared.metrics.jobs.slots_left.inc();
        }
        let (job, attempt) = (token.job, token.attempt);
        let slot = Some(SlotGuard::Placed(slot));
        self.post(LinkCommand::Abandon { job, attempt, reason, slot });
    }

    /// The same of a job whose instance died.
    pub fn stop_orphan(&self, token: LeaseToken) {
        let (job, attempt) = (token.job, token.attempt);
        self.post(LinkCommand::Abandon { job, attempt, reason: "deadline", slot: None });
    }

    /// Tells it that its result arrived.
    pub fn acknowledge_result(&self, job: JobId, attempt: u32) {
        self.post(LinkCommand::AcknowledgeResult { job, attempt });
    }

    /// Ends an attempt: what the node still says of it has no effect.
    pub fn end_attempt(&self, token: LeaseToken) {
        self.post(LinkCommand::End { job: token.job, attempt: token.attempt });
    }

    /// The attempt's lease was extended for so long.
    pub fn renewed(&self, token: LeaseToken, lease: Duration) {
        self.post(LinkCommand::Extended { token, lease });
    }

    /// It misses a model until then.
    pub fn note_missing_model(&self, model: &ModelId, until: Instant) {
        self.post(LinkCommand::NoteGap { model: model.clone(), until });
    }

    /// It takes jobs only to refuse them.
    pub fn blame(&self) {
        self.post(LinkCommand::Fault);
    }

    /// Asks it to fetch what it misses.
    pub fn ask_for_update(&self, reason: String) {
        self.post(LinkCommand::Update { reason });
    }

    /// An attempt on it failed. What the node itself said of it is counted by its owner already.
    pub fn failed(&self, shared: &Shared, token: LeaseToken, failure: &AttemptFailure<'_>) {
        let (job, attempt) = (token.job, token.attempt);
        // A node that is full has not failed.
        if failure.code != Code::AllNodesBusy {
            let (at_ms, code) = (shared.clock.now().as_millis(), failure.text.to_owned());
            self.post(LinkCommand::NoteFailure { at_ms, job, code });
        }
        if failure.blame != Blame::None {
            shared.fleet.record_latency(&self.id, in_millis(failure.wasted));
            self.post(LinkCommand::Blame { job, attempt });
        }
    }

    /// An attempt on it succeeded after so long.
    pub fn succeeded(&self, shared: &Shared, took: Duration) {
        shared.fleet.record_latency(&self.id, in_millis(took));
    }
}

/// How an attempt failed, as its node is judged by it.
pub(super) struct AttemptFailure<'a> {
    pub code: Code,
    pub text: &'a str,
    pub blame: Blame,
    pub wasted: Duration,
}

fn in_millis(duration: Duration) -> u32 {
    u32::try_from(millis(duration)).unwrap_or(u32::MAX)
}
