//! One node as this instance holds it: its connection, its record, and the attempts it has.
//!
//! It outlives a connection, so that a node that comes back finds its jobs. Everything is behind one
//! lock that is held for a few steps and never over an await.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Standing;
use lingua_core::link::{Arrival, Counted, Overload, Trust};
use lingua_core::node::{Health, NodeProfile};
use lingua_core::pool::{self, NodeEntry};
use lingua_core::{JobId, LeaseToken, ModelId, NodeId};
use lingua_store::nodes::{Order, ProfileVersion, Vitals};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::breaker::{self, Breaker, Fault};
use super::failures::RecentFailures;
use super::limits::StoreUse;
use super::{NodeDetail, Supports};
use crate::cluster::remote::{Ears, Outbox, There};
use crate::cluster::words::PeerWord;
use crate::job::{Assign, ToNode};
use crate::settings::Settings;

/// One node.
pub(crate) struct NodeState {
    pub id: NodeId,
    inner: Mutex<Inner>,
}

/// What is known of one node.
pub(crate) struct Inner {
    /// The connection, while there is one.
    pub link: Option<Link>,
    /// The epoch of the latest connection.
    pub epoch: u64,
    pub profile: Arc<NodeProfile>,
    pub version: ProfileVersion,
    /// Where it is in its life, by its own word.
    pub declared: Health,
    /// What its reports of its resources say.
    pub overload: Overload,
    /// What an administrator wants of it.
    pub order: Order,
    pub breaker: Breaker,
    pub trust: Trust,
    /// How it last came in; `None` if it never did here.
    pub arrival: Option<Arrival>,
    /// A send failed: not chosen here until then or its next sign of life.
    pub inhibited_until: Option<Instant>,
    /// It came from another instance, whose last jobs it may still have without a lease that lasts:
    /// not chosen until it has said what it runs, at most so long.
    pub unsaid_until: Option<Instant>,
    /// Its heartbeat is overdue after this.
    pub fresh_until: Instant,
    /// Choosing knows that it is overdue.
    pub overdue: bool,
    pub heartbeat: Duration,
    pub lease: Duration,
    /// It says in its heartbeats what it runs.
    pub reports: bool,
    /// What it runs by its last word over this connection; `None` before it said so.
    pub said: Option<Vec<LeaseToken>>,
    /// Attempts that it has, or may have.
    pub held: HashMap<JobId, Held, foldhash::fast::RandomState>,
    /// Models and services it misses, each until when.
    pub gaps: Vec<(ModelId, Instant)>,
    /// Services that run by its last word; `None` before it said so.
    pub services: Option<Vec<String>>,
    /// What the store is to be told.
    pub todo: Todo,
    /// Somebody is telling it.
    pub syncing: bool,
    /// What the node has had the store do.
    pub store_use: StoreUse,
    /// Somebody is counting its slots anew.
    pub recounting: bool,
    pub detail: Arc<NodeDetail>,
    pub done: u64,
    pub failed: u64,
    pub failures: RecentFailures,
    /// How many jobs had ended when it was last looked whether it rests, and when that was.
    pub rested: (u64, Instant),
    /// When it lost its connection.
    pub gone_at: Option<Instant>,
    /// Another instance has its connection, and this is what that one says of it.
    pub elsewhere: Option<Elsewhere>,
}

/// A node of another instance, by that one's word.
pub(crate) struct Elsewhere {
    /// Who has, or last had, its connection.
    pub there: There,
    /// Slots open to jobs.
    pub max: u32,
    /// Where it is in its life.
    pub health: Health,
}

/// A connection of a node.
#[derive(Clone)]
pub(crate) struct Link {
    /// Tells this connection from every other of this process.
    pub serial: u64,
    pub out: Outbox,
    pub supports: Supports,
}

/// The serial of no connection of this process: attempts that came with their node from elsewhere.
pub(crate) const BEFORE: u64 = 0;

/// An attempt that a node has.
pub(crate) struct Held {
    pub attempt: u32,
    pub token: LeaseToken,
    pub turn: String,
    /// The job's ears; `None` once it was given up and only its slot is still out.
    pub job: Option<Ears>,
    /// Which utterance of its session it is.
    pub index: u64,
    /// The connection over which it was sent; [`BEFORE`] until it is, and if another instance sent it.
    pub serial: u64,
    /// When it was put on its way to the node, and when the node first said something of it.
    pub sent: Instant,
    pub heard: Option<Instant>,
    /// The node has said how it ended, or that it does not take it: it has room for another.
    pub answered: bool,
    /// By its last word the node does not run what it was sent over an earlier connection.
    pub lost: bool,
    /// Its lease was last extended then.
    pub renewed: Instant,
    /// For so long.
    pub lease: Duration,
    /// After this nobody can want it any more; `None` of a job that is here and ends by itself.
    pub until: Option<Instant>,
}

/// What the store is to be told of a node.
#[derive(Default)]
pub(crate) struct Todo {
    /// The whole record, because it changed or the store may have lost it.
    pub put: bool,
    /// What changes from beat to beat.
    pub beat: bool,
    /// The node gave a sign of life: the leases of what it has go on.
    pub renew: bool,
    /// What the node says it runs: tokens that this instance knows, and jobs that it does not.
    pub report: Option<Running>,
    /// How many jobs it runs by its own word, and when it said so.
    pub count: Option<(u32, Instant)>,
}

impl Held {
    /// Whether the node could not name it when it said at that moment, over the connection with this
    /// serial, what it runs: it was sent, or the node first spoke of it, later.
    pub fn is_newer_than(&self, said: Instant, serial: u64) -> bool {
        let later = self.sent >= said || self.heard.is_some_and(|heard| heard >= said);
        later && self.serial == serial
    }

    /// How it stands to a number of running jobs that the node said at that moment over the connection
    /// with this serial. What was sent within `crossing` of it may have crossed with it.
    pub fn counted(&self, said: Instant, serial: u64, crossing: Duration) -> Counted {
        Counted {
            token: self.token,
            given_up: self.job.is_none(),
            earlier: self.serial != serial,
            had: self.sent + crossing <= said,
        }
    }

    fn takes_a_slot(&self, now: Instant) -> bool {
        !self.answered && !self.lost && (self.job.is_some() || self.renewed + self.lease > now)
    }
}

/// What a node says it runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// When it said so.
    pub said: Instant,
    pub known: Vec<LeaseToken>,
    /// Jobs by their own ids, with the attempts, that were not sent by this process.
    pub foreign: Vec<(JobId, u32)>,
}

/// The connection over which a job was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SentOver {
    /// What the node understands.
    pub supports: Supports,
    /// Tells it from every other of this process.
    pub serial: u64,
    /// It is of this instance.
    pub here: bool,
}

impl SentOver {
    /// What the loss of a job counts as, over this connection and while `present` is the node's. Whether
    /// a node of another instance or that instance broke, nobody here knows.
    pub fn fault(self, present: Option<u64>) -> Option<Fault> {
        match self.here {
            _ if present == Some(self.serial) => Some(Fault::Job),
            true => Some(Fault::Break(self.serial)),
            false => None,
        }
    }
}

/// Why a job did not get to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendError {
    /// It has as many as it can do, although the store gave it one more.
    Full,
    /// It has no connection.
    NotConnected,
    /// It does not read what it is sent.
    Congested,
}

impl NodeState {
    pub fn new(id: NodeId, inner: Inner) -> Self {
        NodeState { id, inner: Mutex::new(inner) }
    }

    pub fn lock(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Puts an attempt on the node's connection, and remembers it before the node can answer.
    pub fn send(&self, assign: Assign, job: JobId, mut held: Held) -> Result<SentOver, SendError> {
        let mut inner = self.inner.lock();
        let link = inner.link.as_ref().ok_or(SendError::NotConnected)?;
        let here = link.out.there().is_none();
        let sent = SentOver { supports: link.supports, serial: link.serial, here };
        if !inner.has_room_for(&job) {
            return Err(SendError::Full);
        }
        held.serial = link.serial;
        let out = link.out.clone();
        inner.held.insert(job, held);
        if out.try_send(ToNode::Assign(Box::new(assign))).is_err() {
            inner.held.remove(&job);
            return Err(SendError::Congested);
        }
        Ok(sent)
    }

    /// Sends something that needs no answer; a connection that is full or gone does without.
    pub fn tell(&self, message: ToNode) -> bool {
        let inner = self.inner.lock();
        inner.link.as_ref().is_some_and(|link| link.out.try_send(message).is_ok())
    }

    /// Ends an attempt here. Whatever the node still says about it has no effect.
    pub fn forget(&self, job: &JobId, attempt: u32) {
        let mut inner = self.inner.lock();
        if inner.held.get(job).is_some_and(|held| held.attempt == attempt) {
            inner.held.remove(job);
            // Not of one that was never sent: another instance may have sent its own.
            inner.tell_owner(job, attempt, true);
        }
    }

    /// Notes what the node runs by its own word over the connection of this epoch. Says what it has
    /// lost: over an earlier connection it was sent more than it names over this one.
    pub fn named(&self, epoch: u64, tokens: Vec<LeaseToken>) -> Vec<LeaseToken> {
        let mut inner = self.inner.lock();
        let Some(serial) = inner.link.as_ref().map(|link| link.serial) else { return Vec::new() };
        if inner.epoch != epoch {
            return Vec::new();
        }
        let mut lost = Vec::new();
        for held in inner.held.values_mut().filter(|held| held.serial != serial) {
            held.lost = held.job.is_some() && !tokens.contains(&held.token);
            lost.extend(held.lost.then_some(held.token));
        }
        inner.said = Some(tokens);
        lost
    }

    /// Whether an attempt is still lost: neither named since nor answered.
    pub fn has_lost(&self, token: LeaseToken) -> bool {
        let inner = self.inner.lock();
        let held = inner.held.get(&token.job).filter(|held| held.token == token);
        held.is_some_and(|held| held.lost && !held.answered)
    }

    /// The lease of an attempt was extended for so long.
    pub fn renewed(&self, token: LeaseToken, lease: Duration) {
        let mut inner = self.inner.lock();
        if let Some(held) = inner.held.get_mut(&token.job).filter(|held| held.token == token) {
            (held.renewed, held.lease) = (Instant::now(), lease);
        }
    }

    /// Gives an attempt up while the node may still work on it: its slot stays out until its lease
    /// lapses or the node says that it is done. Says whether another instance looks after it.
    pub fn disown(&self, job: &JobId, attempt: u32) -> bool {
        let mut inner = self.inner.lock();
        let Some(held) = inner.held.get_mut(job).filter(|held| held.attempt == attempt) else {
            return false;
        };
        held.job = None;
        if inner.elsewhere.is_none() {
            return false;
        }
        inner.held.remove(job);
        inner.tell_owner(job, attempt, false);
        true
    }
}

impl Inner {
    /// Whether the node can do one job more than it has by what this process knows. The store counts
    /// leases, and those run out when a busy machine is late to renew them; the node works on.
    fn has_room_for(&self, job: &JobId) -> bool {
        let max = self.profile.max_slots as usize;
        self.held.len() < max || {
            let now = Instant::now();
            let others = self.held.iter().filter(|(other, _)| *other != job);
            others.filter(|(_, held)| held.takes_a_slot(now)).count() < max
        }
    }

    /// Slots that are taken by what this process knows.
    pub fn taken(&self, now: Instant) -> u32 {
        let taken = self.held.values().filter(|held| held.takes_a_slot(now)).count();
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    /// A node without a connection, of which nobody has heard yet.
    pub fn new(
        profile: Arc<NodeProfile>,
        version: ProfileVersion,
        heartbeat_ms: u64,
        settings: &Settings,
    ) -> Self {
        let now = Instant::now();
        Inner {
            link: None,
            epoch: 0,
            profile,
            version,
            declared: Health::Registering,
            overload: Overload::default(),
            order: Order::Serve,
            breaker: Breaker::new(settings.breaker),
            trust: Trust::new(settings.slow_start, Arrival::Open),
            arrival: None,
            inhibited_until: None,
            unsaid_until: None,
            fresh_until: now,
            overdue: false,
            heartbeat: Duration::from_millis(heartbeat_ms),
            lease: Duration::from_millis(settings.timing.running_lease_for_ms(heartbeat_ms)),
            reports: false,
            said: None,
            held: HashMap::default(),
            gaps: Vec::new(),
            services: None,
            todo: Todo::default(),
            syncing: false,
            store_use: StoreUse::default(),
            recounting: false,
            detail: Arc::default(),
            done: 0,
            failed: 0,
            failures: RecentFailures::default(),
            rested: (0, now),
            gone_at: Some(now),
            elsewhere: None,
        }
    }

    /// Where the node is in its life, by everybody's word.
    pub fn health(&self) -> Health {
        if let Some(Elsewhere { health, .. }) = self.elsewhere {
            let paused = matches!(self.breaker.state(), breaker::State::Open { .. });
            return match health {
                _ if self.link.is_none() => Health::Offline,
                // Its own instance hears of the order a moment later.
                Health::Ready if self.order != Order::Serve => Health::Draining,
                Health::Ready if paused => Health::Degraded,
                health => health,
            };
        }
        let served = match (self.order, self.breaker.state()) {
            (Order::Drain | Order::Block, _) => Health::Draining,
            (Order::Serve, breaker::State::Open { .. }) => Health::Degraded,
            (Order::Serve, _) => Health::Ready,
        };
        match self.declared {
            _ if self.link.is_none() => Health::Offline,
            Health::Ready => served,
            other => other,
        }
    }

    /// Slots open to jobs now.
    pub fn open_slots(&self) -> u32 {
        match (self.breaker.state(), &self.elsewhere) {
            // One job, to see, beside those that were given up and keep their slots for a while.
            (breaker::State::Probing, _) => {
                (self.given_up(Instant::now()) + 1).min(self.profile.max_slots)
            }
            (_, Some(elsewhere)) => elsewhere.max,
            (_, None) => self.trust.open(self.profile.max_slots),
        }
    }

    /// Slots of attempts that were given up.
    fn given_up(&self, now: Instant) -> u32 {
        let slots = self.held.values().filter(|held| held.job.is_none() && held.takes_a_slot(now));
        u32::try_from(slots.count()).unwrap_or(u32::MAX - 1)
    }

    /// The trust that a node has that comes in like this.
    pub fn trust_of(&self, arrival: Arrival, settings: &Settings) -> Trust {
        let as_before = self.arrival == Some(arrival);
        if as_before { self.trust } else { Trust::new(settings.slow_start, arrival) }
    }

    pub fn vitals(&self) -> Vitals {
        // Others do not see its heartbeats.
        let health = match self.health() {
            Health::Ready if self.overdue => Health::Degraded,
            other => other,
        };
        Vitals {
            max: self.open_slots(),
            health,
            overloaded: self.overload.is_overloaded(),
            fresh_for: self.heartbeat * 3,
        }
    }

    /// The node as choosing sees it.
    pub fn entry(&self, now: Instant) -> NodeEntry {
        let inhibited = [self.inhibited_until, self.unsaid_until]
            .into_iter()
            .flatten()
            .any(|until| until > now);
        let health = match self.health() {
            Health::Ready if inhibited => Health::Degraded,
            other => other,
        };
        NodeEntry {
            profile: Arc::clone(&self.profile),
            version: pool::ProfileVersion::new(self.version.bits()),
            standing: Standing {
                health,
                fresh: self.elsewhere.is_some() || self.fresh_until > now,
                overloaded: self.overload.is_overloaded(),
                trusted: match self.elsewhere {
                    None => self.trust.trusted(self.profile.max_slots),
                    Some(_) => u32::MAX,
                },
                missing_models: self.gaps.iter().map(|(model, _)| model.clone()).collect(),
            },
            usage: None,
        }
    }

    /// The other instance that has the node's connection.
    pub fn there(&self) -> Option<&There> {
        self.link.as_ref()?.out.there()
    }

    /// Tells the instance that has the connection that nobody waits for this attempt any more. One
    /// that lost it a moment ago is told too: the node may come back to it.
    fn tell_owner(&self, job: &JobId, attempt: u32, over: bool) {
        if let Some(Elsewhere { there, .. }) = &self.elsewhere
            && there.post.is_alive(&there.owner)
        {
            let (node, job) = (there.node.clone(), *job);
            let _ = there.say(PeerWord::Forget { node, job, attempt, over });
        }
    }

    /// Looks now and then at the node. Says whether it is time, and whether nothing ended since.
    pub fn look(&mut self, now: Instant, every: Duration) -> (bool, bool) {
        let (ended, at) = self.rested;
        if now - at < every {
            return (false, false);
        }
        self.rested = (self.done + self.failed, now);
        (true, ended == self.rested.0)
    }

    /// Notes a sign of life.
    pub fn alive(&mut self, now: Instant) {
        self.fresh_until = now + self.heartbeat * 3;
        self.overdue = false;
        self.inhibited_until = None;
    }

    /// A job failed by the node's fault. Says whether that changes what it gets.
    pub fn failure(&mut self, now: Instant, fault: Fault) -> bool {
        self.failed += 1;
        self.breaker.failure(now, fault)
    }

    /// A job succeeded. Says whether that changes what the node gets.
    pub fn success(&mut self, settings: &Settings) -> bool {
        self.done += 1;
        let closed = self.breaker.success();
        if closed && let Some(arrival) = self.arrival {
            self.trust = Trust::new(settings.slow_start, arrival);
        }
        self.trust.success(self.profile.max_slots) || closed
    }
}
