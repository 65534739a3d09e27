//! One node whose connection this instance has, or had.
//!
//! The value outlives a connection, so that a node that reconnects finds its jobs. The machine of
//! [`lingua_core::link`] decides; its effects are performed here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lingua_core::fleet::{self, NodeEntry};
use lingua_core::link::event::{NotAssigned, ToNode as Message};
use lingua_core::link::{Attempt, Audience, Effect, Event, Machine, NewAttempt, Supports};
use lingua_core::node::Health;
use lingua_core::time::millis;
use lingua_core::{JobId, Moment, NodeId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::link::{LinkCommand, NodeLink, Outgoing, Reach, SendError, Wire};
use super::{NodeDetail, NodeHost};
use crate::job::{Assign, FOR_ENDINGS, JobEvent, JobEvents, JobReport, ToNode};

/// One node.
pub(crate) struct NodeHandle {
    pub id: NodeId,
    pub(super) host: Arc<NodeHost>,
    me: Weak<NodeHandle>,
    state: Mutex<NodeState>,
    /// When time alone changes something, in milliseconds of the host's clock.
    timer: AtomicU64,
}

/// Its machine, and what belongs to its present connection.
pub(super) struct NodeState {
    pub machine: Machine<Wire>,
    /// Where to put what is for the node, while it has a connection.
    out: Option<mpsc::Sender<ToNode>>,
    /// The queue of the connection before, until that was told to close.
    older: Option<mpsc::Sender<ToNode>>,
    pub detail: Arc<NodeDetail>,
    /// Services that run by its last report; `None` before the first.
    pub services: Option<Vec<String>>,
    /// Another instance has the node: this value no longer updates the node's entry in the fleet.
    detached: bool,
}

/// The immediate results of an event.
#[derive(Default)]
pub(crate) struct Applied {
    /// The message had no effect.
    pub stale: bool,
    /// A report named so many unknown jobs, which is too many; when to report again.
    pub report_refused: Option<(usize, Duration)>,
    /// Probes were requested too often; when to request one again.
    pub probe_refused: Option<Duration>,
    not_assigned: Option<SendError>,
}

impl NodeHandle {
    pub fn new(id: NodeId, host: Arc<NodeHost>) -> Arc<Self> {
        let machine = Machine::new(Arc::clone(&host.policy), host.now());
        Arc::new_cyclic(|me| NodeHandle {
            id,
            host,
            me: me.clone(),
            state: Mutex::new(NodeState {
                machine,
                out: None,
                older: None,
                detail: Arc::default(),
                services: None,
                detached: false,
            }),
            timer: AtomicU64::new(u64::MAX),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }

    /// Feeds the machine an event and performs its effects.
    pub(crate) fn apply(&self, event: Event<Wire>) -> Applied {
        self.apply_to(self.state.lock(), event)
    }

    /// The same, with the queue of a new connection.
    pub(super) fn connect(&self, out: mpsc::Sender<ToNode>, event: Event<Wire>) -> Applied {
        let mut state = self.state.lock();
        state.older = state.out.replace(out);
        self.apply_to(state, event)
    }

    fn apply_to(&self, mut state: MutexGuard<'_, NodeState>, event: Event<Wire>) -> Applied {
        let (mut applied, mut later) = (Applied::default(), Vec::new());
        let mut changed = false;
        let mut effects = VecDeque::from(state.machine.on_event(self.host.now(), event));
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Send(message) => {
                    let follows = self.send(&mut state, message, &mut applied);
                    if let Some(event) = follows {
                        effects.extend(state.machine.on_event(self.host.now(), event));
                    }
                }
                Effect::CloseOlder => {
                    if let Some(older) = state.older.take() {
                        let _ = older.try_send(ToNode::Superseded);
                    }
                    tracing::info!(node.id = %self.id, "a newer connection of the node took over");
                }
                Effect::Tell { listener, attempt, news } => {
                    let epoch = state.machine.epoch();
                    self.tell(&listener, epoch, attempt, news, &mut applied);
                }
                Effect::NotAssigned(why) => applied.not_assigned = Some(send_error(why)),
                Effect::Stale(kind) => {
                    self.host.shared.metrics.stale(kind.as_str());
                    applied.stale = true;
                }
                Effect::ReportRefused { unknown, retry_after } => {
                    applied.report_refused = Some((unknown, retry_after));
                }
                Effect::ProbeRefused { retry_after } => applied.probe_refused = Some(retry_after),
                Effect::SetTimer(at) => self.timer.store(at.as_millis(), Ordering::Relaxed),
                Effect::FleetChanged => changed = true,
                other => later.push(other),
            }
        }
        state.older = None;
        if !state.machine.is_connected() {
            state.out = None;
        }
        let put = changed && self.put_entry(&state);
        drop(state);
        for effect in later {
            self.perform(effect);
        }
        if put {
            self.host.shared.fleet.offer_if_ready(&self.id, u32::MAX);
        }
        applied
    }

    /// Puts a message on the connection. Returns the event that follows from it, for the machine.
    fn send(
        &self,
        state: &mut NodeState,
        message: Message<Outgoing>,
        applied: &mut Applied,
    ) -> Option<Event<Wire>> {
        let put =
            |message: ToNode| state.out.as_ref().is_some_and(|out| out.try_send(message).is_ok());
        match message {
            Message::Assign(Outgoing { token, assign }) => {
                if put(ToNode::Assign(assign)) {
                    return None;
                }
                applied.not_assigned = Some(SendError::Congested);
                return Some(Event::NotQueued { token });
            }
            Message::Cancel { job, attempt, reason, frees } => {
                let job = self.host.shared.secret.masked(job);
                let told = put(ToNode::Cancel { job, attempt, reason });
                return frees.filter(|_| told).map(|token| Event::CancelSent { token });
            }
            Message::Control { command, reason } => {
                put(ToNode::Control { command, reason: Some(reason.into_owned()) });
            }
            Message::Superseded => drop(put(ToNode::Superseded)),
            Message::Blocked => drop(put(ToNode::Blocked)),
        }
        None
    }

    fn tell(
        &self,
        listener: &JobEvents,
        epoch: u64,
        attempt: u32,
        news: lingua_core::link::event::News<JobReport>,
        applied: &mut Applied,
    ) {
        use lingua_core::link::event::News;
        let (event, kind) = match news {
            News::Message(kind, report) => {
                // A node may repeat these: there must be room left for endings.
                if !kind.frees_slot() && !listener.has_room(FOR_ENDINGS) {
                    return;
                }
                (report.into_event(attempt), Some(kind))
            }
            News::NotSent => (JobEvent::NotSent { attempt }, None),
            News::NodeGone => (JobEvent::NodeGone { attempt }, None),
            News::NodeBack => (JobEvent::NodeBack { attempt }, None),
            News::Dropped => (JobEvent::Dropped { attempt }, None),
            News::TurnClosed => (JobEvent::TurnClosed { attempt }, None),
        };
        if listener.tell(epoch, event).is_err()
            && let Some(kind) = kind
        {
            self.host.shared.metrics.stale(kind.as_str());
            applied.stale = true;
        }
    }

    /// Performs an effect that needs no lock.
    fn perform(&self, effect: Effect<Wire>) {
        let host = &self.host;
        match effect {
            Effect::Store { epoch, call } => self.host.call_store(self.strong(), epoch, call),
            Effect::Renew { token, lease } => host.renew(self.id.clone(), token, lease),
            Effect::Release { token, slot } => host.release(self.strong(), token, slot),
            // Free in the store already: only the view counts it.
            Effect::SlotFreed(slot) => drop(slot),
            Effect::Orphaned(message) => host.orphaned(&self.id, message),
            Effect::Detached(attempts) => self.detach(attempts),
            Effect::Idle => host.shared.fleet.decay_latency(&self.id),
            Effect::LookupLimited => host.shared.metrics.limited(super::limits::LOOKUPS),
            Effect::Paced => host.shared.metrics.limited(super::limits::UPDATES),
            Effect::Overdue => tracing::warn!(node.id = %self.id, "heartbeat overdue"),
            Effect::BreakerOpened => {
                tracing::warn!(node.id = %self.id, "the node failed too often and gets no jobs");
            }
            Effect::PutAside => {
                host.shared.metrics.nodes.put_aside.inc();
                tracing::warn!(node.id = %self.id, "the node keeps failing and is put aside");
            }
            Effect::BackInService => {
                tracing::info!(node.id = %self.id, "a node that was put aside is back");
            }
            Effect::Forget => host.remove_unseen(self),
            Effect::Send(_)
            | Effect::CloseOlder
            | Effect::Tell { .. }
            | Effect::NotAssigned(_)
            | Effect::Stale(_)
            | Effect::ReportRefused { .. }
            | Effect::ProbeRefused { .. }
            | Effect::SetTimer(_)
            | Effect::FleetChanged => unreachable!("performed under the lock"),
        }
    }

    fn strong(&self) -> Arc<NodeHandle> {
        self.me.upgrade().expect("whoever calls it holds it")
    }

    /// The node is on another instance now, and its attempts with it.
    fn detach(&self, attempts: Vec<Attempt<Wire>>) {
        let wanted = attempts.into_iter().filter(Attempt::is_wanted).map(|attempt| NewAttempt {
            token: attempt.token,
            turn: attempt.turn,
            index: attempt.index,
            listener: attempt.listener,
            lease: Duration::ZERO,
            wanted_until: None,
        });
        // Other instances hand over the attempts of their own jobs.
        let local = wanted.filter(|attempt| matches!(attempt.listener, JobEvents::Local(_)));
        let local: Vec<_> = local.collect();
        self.state.lock().detached = true;
        self.host.remove(self);
        self.host.peers().take_over(&self.id, local);
    }

    /// Updates the node's entry in the fleet view; `false` if the entry is another instance's now.
    fn put_entry(&self, state: &NodeState) -> bool {
        if state.detached {
            return false;
        }
        let (profile, version) = state.machine.profile();
        let entry = NodeEntry {
            profile: Arc::clone(profile),
            version: fleet::ProfileVersion::new(version),
            standing: state.machine.standing(),
        };
        let open = state.machine.open_slots();
        // Under the node's lock, so that an older entry never overwrites a newer one.
        self.host.shared.fleet.put(&self.id, entry, open);
        true
    }

    /// Updates the node's entry in the fleet view, and offers free slots to waiting jobs.
    pub fn refresh(&self) {
        let put = self.put_entry(&self.state.lock());
        if put {
            self.host.shared.fleet.offer_if_ready(&self.id, u32::MAX);
        }
    }

    /// Tells the machine that time has passed, if its timer is due.
    pub(super) fn tick(&self, now: Moment) {
        if self.timer.load(Ordering::Relaxed) <= now.as_millis() {
            self.timer.store(u64::MAX, Ordering::Relaxed);
            self.apply(Event::Tick);
        }
    }

    /// The protocol features of the node's present connection.
    pub fn supports(&self) -> Supports {
        self.state.lock().machine.supports().unwrap_or_default()
    }

    /// Whether a job waits for this attempt of the node.
    pub fn holds(&self, job: &JobId, attempt: u32) -> bool {
        let state = self.state.lock();
        state.machine.listener(job, attempt).is_some_and(JobEvents::is_alive)
    }

    /// Sends something that needs no answer; a connection that is full or gone does without.
    pub fn send_to_node(&self, message: ToNode) -> bool {
        let state = self.state.lock();
        state.out.as_ref().is_some_and(|out| out.try_send(message).is_ok())
    }

    /// The node's health, for people.
    pub(super) fn health(&self) -> Health {
        self.state.lock().machine.health(Audience::People)
    }
}

impl NodeLink for NodeHandle {
    fn reach(&self) -> Reach {
        let state = self.state.lock();
        Reach {
            instance: self.host.shared.instance.id.clone(),
            supports: state.machine.supports().unwrap_or_default(),
            running_lease: state.machine.running_lease(),
        }
    }

    fn assign(
        &self,
        assign: Assign,
        attempt: NewAttempt<JobEvents>,
    ) -> Result<Supports, SendError> {
        let assignment = Outgoing { token: attempt.token, assign: Box::new(assign) };
        let state = self.state.lock();
        let supports = state.machine.supports().unwrap_or_default();
        let applied = self.apply_to(state, Event::AssignWanted { attempt, assignment });
        applied.not_assigned.map_or(Ok(supports), Err)
    }

    fn post(&self, command: LinkCommand) {
        let event = match command {
            LinkCommand::Extended { token, lease } => Event::Extended { token, lease },
            LinkCommand::End { job, attempt } => Event::Ended { job, attempt },
            LinkCommand::Abandon { job, attempt, reason, slot } => {
                Event::GivenUp { job, attempt, reason, slot }
            }
            LinkCommand::AttemptFailed { job, attempt } => {
                Event::AttemptFailed { job, attempt, failed: None }
            }
            LinkCommand::Fault => Event::Faulted,
            LinkCommand::RequestProbe => Event::ProbeRequested,
            LinkCommand::NoteGap { model, until } => {
                Event::GapNoted { model, until: self.host.moment(until) }
            }
            LinkCommand::CloseGaps(models) => Event::GapsClosed(models),
            LinkCommand::AcknowledgeResult { job, attempt } => {
                let job = self.host.shared.secret.masked(job);
                self.send_to_node(ToNode::ResultAck { job, attempt });
                return;
            }
            LinkCommand::Update { reason } => {
                let update = ToNode::Control { command: "update", reason: Some(reason) };
                self.send_to_node(update);
                return;
            }
            LinkCommand::NoteFailure { at_ms, job, code } => {
                Event::FailureNoted { at_ms, job, code }
            }
        };
        self.apply(event);
    }
}

fn send_error(why: NotAssigned) -> SendError {
    match why {
        NotAssigned::Full => SendError::Full,
        NotAssigned::NotConnected => SendError::NotConnected,
    }
}

/// A moment of the host's clock.
pub(super) fn moment(since: Instant, at: Instant) -> Moment {
    Moment::from_millis(millis(at.saturating_duration_since(since)))
}
