//! One node whose connection another instance has: an entry of the fleet with a route.
//!
//! Messages to it and from it go by way of its owner, which alone knows the node's attempts. Here it is remembered
//! which attempts of this instance's jobs were sent there: when the node moves, its new owner is told to report
//! about them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Standing;
use lingua_core::fleet::{self, NodeEntry};
use lingua_core::link::{
    Audience, BreakerState, BreakerView, FORGET_AFTER, HealthFacts, MAX_GAPS, NewAttempt, Supports,
};
use lingua_core::node::{Health, NodeProfile, Order};
use lingua_core::{JobId, ModelId, NodeId};
use lingua_protocol::peer::PeerMessage;
use lingua_store::Instance;
use lingua_store::nodes::{NodeRecord, ProfileVersion};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::closed_gaps::{ClosedGaps, Gaps};
use super::remote_link::RemoteLink;
use super::remote_nodes::GapEnds;
use crate::fleet::FleetView;
use crate::job::{Assign, JobEvent, JobEvents, is_code};
use crate::nodes::link::{Reach, SlotGuard};
use crate::nodes::{LinkCommand, NodeDetail, NodeLink, NodeStatus, SendError};
use crate::shared::Shared;

/// A node of another instance.
pub(crate) struct RemoteNode {
    id: NodeId,
    shared: Arc<Shared>,
    state: Mutex<State>,
    gaps_end: GapEnds,
}

struct State {
    /// What the owner's record says.
    known: Known,
    /// The route to it, while its owner is alive.
    route: Option<RemoteLink>,
    /// Since when there is no route.
    lost_at: Option<Instant>,
    /// Attempts of this instance's jobs that it was sent.
    sent: HashMap<JobId, Sent, lingua_core::hash::Fast>,
    closed_gaps: ClosedGaps,
    /// It is connected to this instance now: this value no longer updates its entry in the fleet.
    is_here: bool,
}

/// What the owner's record says of a node.
pub(super) struct Known {
    owner: Instance,
    epoch: u64,
    /// It was connected when the record was read.
    is_there: bool,
    profile: Arc<NodeProfile>,
    version: ProfileVersion,
    /// Slots open to jobs.
    open_slots: u32,
    health: Health,
    overloaded: bool,
    order: Order,
    /// Models and services it misses, each until when.
    gaps: Gaps,
}

/// An attempt of a job of this instance.
struct Sent {
    attempt: NewAttempt<JobEvents>,
    /// Its job reported that it failed by the node's fault.
    failed: bool,
    /// The code of the failure.
    code: Option<String>,
    /// After this its job is over.
    until: Instant,
}

impl RemoteNode {
    pub fn new(id: NodeId, shared: Arc<Shared>, gaps_end: GapEnds, known: Known) -> Self {
        let state = State {
            known,
            route: None,
            lost_at: Some(Instant::now()),
            sent: HashMap::default(),
            closed_gaps: ClosedGaps::default(),
            is_here: false,
        };
        RemoteNode { id, shared, state: Mutex::new(state), gaps_end }
    }

    pub fn apply_record(&self, record: NodeRecord) {
        let mut state = self.state.lock();
        if state.known.epoch > record.epoch {
            return;
        }
        let moved = state.known.epoch < record.epoch;
        let same_profile = *state.known.profile == record.profile;
        let profile = Arc::clone(&state.known.profile);
        state.known = Known::of(record);
        let State { known, closed_gaps, .. } = &mut *state;
        closed_gaps.remove_from(&mut known.gaps);
        self.watch_gaps(&state.known.gaps);
        if same_profile {
            state.known.profile = profile;
        }
        self.follow_owner(state, moved);
    }

    /// Instances came or are gone.
    pub fn on_peers_changed(&self) {
        let state = self.state.lock();
        if self.is_reachable(&state) != state.route.is_some() {
            self.follow_owner(state, false);
        }
    }

    fn is_reachable(&self, state: &State) -> bool {
        state.known.is_there && self.shared.outbox.is_alive(&state.known.owner)
    }

    /// There is a route while the record says that the node is connected, and its owner is alive.
    fn follow_owner(&self, mut state: MutexGuard<'_, State>, moved: bool) {
        if !self.is_reachable(&state) {
            if state.route.is_some() {
                tracing::info!(node.id = %self.id, "nothing reaches the node");
            }
            state.lose();
        } else if moved || state.route.is_none() {
            let route = RemoteLink {
                outbox: Arc::clone(&self.shared.outbox),
                owner: state.known.owner.clone(),
                node: self.id.clone(),
                epoch: state.known.epoch,
            };
            state.sent.values().for_each(|sent| route.adopt(&sent.attempt));
            (state.route, state.lost_at) = (Some(route), None);
            state.tell_jobs(|attempt| JobEvent::NodeBack { attempt });
        }
        self.put_entry(state);
    }

    /// Has the entry updated when the first of these gaps is over.
    fn watch_gaps(&self, gaps: &[(ModelId, Instant)]) {
        if let Some(first) = gaps.iter().map(|(_, until)| *until).min() {
            self.gaps_end.lock().insert(self.id.clone(), first);
        }
    }

    /// Updates the entry when gaps are over.
    pub fn expire_gaps(&self, now: Instant) {
        let mut state = self.state.lock();
        state.known.gaps.retain(|(_, until)| *until > now);
        self.watch_gaps(&state.known.gaps);
        self.put_entry(state);
    }

    /// The store no longer knows the node.
    pub fn lose(&self) {
        let mut state = self.state.lock();
        state.known.is_there = false;
        self.follow_owner(state, false);
    }

    /// Whether there was no route for long and no job waits for it.
    pub fn is_forgettable(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.sent.retain(|_, sent| sent.until > now);
        let lost = state.lost_at.is_some_and(|at| now - at > FORGET_AFTER);
        lost && state.sent.is_empty()
    }

    /// The node is connected to this instance now. Returns the attempts that it was sent by way of another.
    pub fn come_here(&self) -> Vec<NewAttempt<JobEvents>> {
        let mut state = self.state.lock();
        (state.is_here, state.route) = (true, None);
        state.sent.drain().map(|(_, sent)| sent.attempt).collect()
    }

    /// Remembers an attempt that the node has.
    pub fn remember(&self, attempt: NewAttempt<JobEvents>) {
        let sent = self.sent(attempt);
        self.state.lock().sent.insert(sent.attempt.token.job, sent);
    }

    fn sent(&self, attempt: NewAttempt<JobEvents>) -> Sent {
        let timing = &self.shared.settings.timing;
        let longest = Duration::from_millis(timing.deadline_ms + timing.margin_ms);
        Sent { attempt, failed: false, code: None, until: Instant::now() + longest }
    }

    pub fn apply_order(&self, order: Order) {
        let mut state = self.state.lock();
        state.known.order = order;
        self.put_entry(state);
    }

    /// Updates the node's entry in the fleet view, and offers free slots to waiting jobs.
    fn put_entry(&self, state: MutexGuard<'_, State>) {
        if state.is_here {
            return;
        }
        let fleet: &Arc<FleetView> = &self.shared.fleet;
        fleet.put(&self.id, state.entry(Instant::now()), state.known.open_slots);
        drop(state);
        fleet.offer_if_ready(&self.id, u32::MAX);
    }

    /// The epoch of its newest connection that is known here.
    pub fn epoch(&self) -> u64 {
        self.state.lock().known.epoch
    }

    pub fn status(&self) -> NodeStatus {
        let state = self.state.lock();
        let known = &state.known;
        NodeStatus {
            instance: known.owner.id.clone(),
            health: state.health(),
            connected: state.route.is_some(),
            fresh: true,
            overloaded: known.overloaded,
            order: known.order,
            breaker: BreakerView::Closed,
            epoch: known.epoch,
            aside: None,
            held_for: None,
            open_slots: known.open_slots,
            // Only its owner knows the node's trust.
            trusted_slots: known.profile.max_slots,
            running: state.sent.len(),
            here: (0, 0),
            past: None,
            profile: Arc::clone(&known.profile),
            supports: state.supports(),
            missing_models: known.gaps.iter().map(|(model, _)| model.to_string()).collect(),
            detail: Arc::<NodeDetail>::default(),
        }
    }

    /// No job waits for an attempt any more. The owner is told even without a route: the node may reconnect to
    /// it.
    fn forget_attempt(&self, job: JobId, attempt: u32, over: bool) {
        let mut state = self.state.lock();
        let is_sent = state.sent.get(&job).is_some_and(|s| s.attempt.token.attempt == attempt);
        // Nothing is told of an attempt that was not sent: another instance may have sent one of the same job.
        let Some(sent) = is_sent.then(|| state.sent.remove(&job)).flatten() else { return };
        let owner = state.known.owner.clone();
        drop(state);
        if self.shared.outbox.is_alive(&owner) {
            let (node, blame, code) = (self.id.clone(), sent.failed, sent.code);
            let message = PeerMessage::Forget { node, job, attempt, over, blame, code };
            let _ = self.shared.outbox.send(&owner, message);
        }
    }

    fn tell_owner(&self, message: PeerMessage) {
        let route = self.state.lock().route.clone();
        if let Some(route) = route {
            let _ = route.send(message);
        }
    }

    fn abandon(&self, job: JobId, attempt: u32, reason: &'static str, slot: Option<SlotGuard>) {
        // This comes first: the owner may forget the attempt with the cancel.
        self.forget_attempt(job, attempt, false);
        let route = self.state.lock().route.clone();
        if let Some(route) = route {
            let (node, epoch) = (self.id.clone(), route.epoch);
            let masked = self.shared.secret.masked(job);
            let reason = reason.to_owned();
            let _ = route.send(PeerMessage::Cancel { node, epoch, job: masked, attempt, reason });
        }
        // The owner releases the slot and announces that.
        if let Some(SlotGuard::Placed(placement)) = slot {
            placement.leave_to_peer();
        }
    }
}

impl NodeLink for RemoteNode {
    fn reach(&self) -> Reach {
        let state = self.state.lock();
        let timing = &self.shared.settings.timing;
        let supports = state.supports();
        let heartbeat_ms =
            if supports.any() { timing.heartbeat_ms } else { timing.compat_heartbeat_ms };
        Reach {
            instance: state.known.owner.id.clone(),
            supports,
            running_lease: Duration::from_millis(timing.running_lease_for_ms(heartbeat_ms)),
        }
    }

    fn assign(
        &self,
        assign: Assign,
        attempt: NewAttempt<JobEvents>,
    ) -> Result<Supports, SendError> {
        let mut state = self.state.lock();
        let route = state.route.clone().ok_or(SendError::NotConnected)?;
        let job = attempt.token.job;
        state.sent.insert(job, self.sent(attempt));
        if route.send(route.assign(assign)).is_err() {
            state.sent.remove(&job);
            return Err(SendError::Congested);
        }
        Ok(state.supports())
    }

    fn post(&self, command: LinkCommand) {
        match command {
            LinkCommand::End { job, attempt } => self.forget_attempt(job, attempt, true),
            LinkCommand::Abandon { job, attempt, reason, slot } => {
                self.abandon(job, attempt, reason, slot);
            }
            LinkCommand::AttemptFailed { job, attempt } => {
                let mut state = self.state.lock();
                let sent = state.sent.get_mut(&job);
                if let Some(sent) = sent.filter(|sent| sent.attempt.token.attempt == attempt) {
                    sent.failed = true;
                }
            }
            LinkCommand::AcknowledgeResult { job, attempt } => {
                let route = self.state.lock().route.clone();
                if let Some(route) = route {
                    let (node, epoch) = (self.id.clone(), route.epoch);
                    let job = self.shared.secret.masked(job);
                    let _ = route.send(PeerMessage::ResultAck { node, epoch, job, attempt });
                }
            }
            LinkCommand::Update { reason } => {
                let route = self.state.lock().route.clone();
                if let Some(route) = route {
                    let (node, epoch) = (self.id.clone(), route.epoch);
                    let (command, reason) = ("update".to_owned(), Some(reason));
                    let _ = route.send(PeerMessage::Control { node, epoch, command, reason });
                }
            }
            LinkCommand::NoteGap { model, until } => {
                let mut state = self.state.lock();
                state.known.gaps.retain(|(known, _)| *known != model);
                if state.known.gaps.len() < MAX_GAPS {
                    state.known.gaps.push((model, until));
                    self.watch_gaps(&state.known.gaps);
                }
                self.put_entry(state);
            }
            LinkCommand::CloseGaps(models) => {
                let mut state = self.state.lock();
                let State { known, closed_gaps, .. } = &mut *state;
                closed_gaps.close(&mut known.gaps, &models);
                self.put_entry(state);
            }
            // The owner is told of it with `Forget`, unless the node reported the failure itself.
            LinkCommand::NoteFailure { job, code, .. } => {
                if let Some(sent) = self.state.lock().sent.get_mut(&job) {
                    sent.code = Some(code).filter(|code| is_code(code));
                }
            }
            // The owner extends the leases.
            LinkCommand::Extended { .. } => {}
            LinkCommand::Fault => self.tell_owner(PeerMessage::NodeFault { node: self.id.clone() }),
            LinkCommand::RequestProbe => {
                self.tell_owner(PeerMessage::Vouch { node: self.id.clone() })
            }
        }
    }
}

impl State {
    /// The health in the owner's record, and what is known here before the owner applies it: an order of a
    /// moment ago, or that nothing reaches the node.
    fn health(&self) -> Health {
        let facts = HealthFacts {
            connected: self.route.is_some(),
            declared: self.known.health,
            order: self.known.order,
            breaker: BreakerState::Closed,
            aside: false,
            overdue: false,
            held_back: false,
        };
        facts.health(Audience::Instances)
    }

    fn supports(&self) -> Supports {
        match self.route {
            Some(_) => Supports::from_bits(self.known.profile.agent),
            None => Supports::default(),
        }
    }

    /// The node as choosing sees it.
    fn entry(&self, now: Instant) -> NodeEntry {
        let missing = self.known.gaps.iter().filter(|(_, until)| *until > now);
        NodeEntry {
            profile: Arc::clone(&self.known.profile),
            version: fleet::ProfileVersion::new(self.known.version.bits()),
            standing: Standing {
                health: self.health(),
                fresh: true,
                overloaded: self.known.overloaded,
                trusted: u32::MAX,
                missing_models: missing.map(|(model, _)| model.clone()).collect(),
            },
        }
    }

    fn lose(&mut self) {
        if self.route.take().is_some() {
            self.tell_jobs(|attempt| JobEvent::NodeGone { attempt });
            self.lost_at = Some(Instant::now());
        }
    }

    fn tell_jobs(&self, event: impl Fn(u32) -> JobEvent) {
        for Sent { attempt, .. } in self.sent.values() {
            let _ = attempt.listener.tell(self.known.epoch, event(attempt.token.attempt));
        }
    }
}

impl Known {
    /// Whether a node is connected, by its record.
    pub fn is_there(record: &NodeRecord) -> bool {
        record.fresh_until > record.read_at && record.health != Health::Offline
    }

    pub fn of(record: NodeRecord) -> Self {
        let is_there = Known::is_there(&record);
        let (now, read_at) = (Instant::now(), record.read_at);
        let gaps = record.gaps.into_iter();
        Known {
            owner: record.owner,
            epoch: record.epoch,
            is_there,
            profile: Arc::new(record.profile),
            version: record.version,
            open_slots: record.max,
            health: record.health,
            overloaded: record.overloaded,
            order: record.order,
            gaps: gaps.map(|(model, until)| (model, now + read_at.until(until))).collect(),
        }
    }

    /// Of a node of which only its name is known.
    pub fn unknown(owner: Instance) -> Self {
        let profile = NodeProfile::none();
        Known {
            owner,
            epoch: 0,
            is_there: false,
            version: ProfileVersion::of(&profile),
            profile: Arc::new(profile),
            open_slots: 0,
            health: Health::Offline,
            overloaded: false,
            order: Order::Serve,
            gaps: Vec::new(),
        }
    }
}
