//! The queue of jobs for which every able node is full.
//!
//! A slot that becomes free is handed to a job that can use it. It counts as taken in the fleet view meanwhile, so
//! that no later job gets ahead. [`Shares`] says which tenant is next; of its jobs it is the one with the earliest
//! deadline. When the queue is full, the last job of the tenant with the longest queue makes room for a job of a
//! tenant with a shorter one. Besides, waiting jobs choose again now and then, for slots whose lease expired.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lingua_core::eligibility::{Need, Route};
use lingua_core::hash;
use lingua_core::inventory::Asks;
use lingua_core::{NodeId, TenantId};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::fairness::Shares;
use crate::fleet::{FleetView, FreedSlots, Placement};
use crate::peers::outbox::Outbox;
use crate::settings::WaitingBounds;

/// Jobs of one tenant and pair that are considered for one free slot: the first may be unable to use it.
const LOOKS_PER_QUEUE: usize = 16;

/// What jobs wait for: a direction, with or without speech.
type Pair = (Route, bool);
/// Each tenant has a queue of its own for each pair, and for each thing that is asked for by name: a job that
/// waits for a certain model keeps nobody from a node without it.
type QueueKey = (Pair, TenantId, Asks);
/// Earlier deadlines come first, and of equal ones the job that joined first.
type Position = (Instant, u64);

/// All waiting jobs.
pub(crate) struct WaitQueue {
    bounds: WaitingBounds,
    queues: Mutex<Queues>,
    /// Number of waiting jobs, which can be read without the lock.
    total: AtomicUsize,
    /// A job began to wait.
    pub joined: Notify,
    gauge: Gauge,
}

/// Hands slots that come free to waiting jobs.
pub(crate) struct FreedSlotQueue {
    queue: Arc<WaitQueue>,
    fleet: Weak<FleetView>,
    outbox: Arc<Outbox>,
}

impl FreedSlotQueue {
    pub fn new(queue: &Arc<WaitQueue>, fleet: &Arc<FleetView>, outbox: &Arc<Outbox>) -> Self {
        let fleet = Arc::downgrade(fleet);
        FreedSlotQueue { queue: Arc::clone(queue), fleet, outbox: Arc::clone(outbox) }
    }
}

impl FreedSlots for FreedSlotQueue {
    fn is_wanted(&self) -> bool {
        !self.queue.is_empty()
    }

    fn offer(&self, slot: Placement) -> Option<Placement> {
        match self.fleet.upgrade() {
            Some(fleet) => self.queue.hand_over(slot, &fleet),
            None => Some(slot),
        }
    }

    fn announce(&self, node: &NodeId, was_full: bool) {
        self.outbox.tell_freed(node, was_full, None);
    }
}

struct Queues {
    queues: HashMap<QueueKey, BTreeMap<Position, Waiter>, lingua_core::hash::Quality>,
    /// Waiting jobs by pair.
    by_pair: HashMap<Pair, usize, lingua_core::hash::Quality>,
    shares: Shares,
    total: usize,
    last: u64,
}

struct Waiter {
    need: Need,
    /// No other node than this.
    only: Option<NodeId>,
    excluded: Vec<NodeId>,
    wakeup: oneshot::Sender<Wakeup>,
}

/// What a waiting job is called for.
pub(crate) enum Wakeup {
    /// A slot that came free.
    Slot(Placement),
    /// To choose again.
    Look,
    /// To leave: the queue is full, and other tenants have fewer jobs in it.
    Leave,
}

/// A waiting job's place in the queue. Dropping it leaves the queue, and a slot that was handed over at
/// the last moment goes to the next.
pub(crate) struct Ticket {
    queue: Arc<WaitQueue>,
    key: QueueKey,
    position: Position,
    pub wakeup: oneshot::Receiver<Wakeup>,
}

impl WaitQueue {
    pub fn new(bounds: WaitingBounds, shares: HashMap<TenantId, u32>, gauge: Gauge) -> Self {
        let queues = Queues {
            queues: HashMap::default(),
            by_pair: HashMap::default(),
            shares: Shares::new(shares),
            total: 0,
            last: 0,
        };
        WaitQueue {
            bounds,
            queues: Mutex::new(queues),
            total: AtomicUsize::new(0),
            joined: Notify::new(),
            gauge,
        }
    }

    /// Joins behind the tenant's jobs with an earlier deadline; `None` if the queue is full and no tenant has
    /// more jobs in it.
    pub fn join(
        self: &Arc<Self>,
        need: &Need,
        only: Option<NodeId>,
        excluded: Vec<NodeId>,
        deadline: Instant,
    ) -> Option<Ticket> {
        let mut queues = self.queues.lock();
        let pair = (need.route, need.speech);
        let length = queues.by_pair.get(&pair).copied().unwrap_or(0);
        if length >= self.bounds.per_pair && !queues.make_room(&need.tenant, Some(pair)) {
            return None;
        }
        if queues.total >= self.bounds.total && !queues.make_room(&need.tenant, None) {
            return None;
        }
        let key = (pair, need.tenant.clone(), need.asks.clone());
        queues.total += 1;
        queues.last += 1;
        queues.shares.joined(&need.tenant);
        *queues.by_pair.entry(pair).or_default() += 1;
        let position = (deadline, queues.last);
        let (sender, wakeup) = oneshot::channel();
        let need = Need { named: only.is_some(), ..need.clone() };
        let waiter = Waiter { need, only, excluded, wakeup: sender };
        queues.queues.entry(key.clone()).or_default().insert(position, waiter);
        self.show(&queues);
        self.joined.notify_one();
        Some(Ticket { queue: Arc::clone(self), key, position, wakeup })
    }

    /// Jobs that wait for a pair.
    pub fn length(&self, route: Route, speech: bool) -> usize {
        self.queues.lock().by_pair.get(&(route, speech)).copied().unwrap_or(0)
    }

    /// Waiting jobs by direction, the most first.
    pub fn lengths(&self) -> Vec<(Route, usize)> {
        let mut queues: hash::HashMap<Route, usize> = hash::HashMap::default();
        for ((route, _), length) in &self.queues.lock().by_pair {
            *queues.entry(*route).or_default() += length;
        }
        let mut queues: Vec<_> = queues.into_iter().collect();
        queues.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        queues
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.total.load(Ordering::Acquire) == 0
    }

    /// Hands a slot that came free to a job that can use it; returns it if none can.
    pub fn hand_over(&self, mut slot: Placement, fleet: &FleetView) -> Option<Placement> {
        let mut queues = self.queues.lock();
        while let Some(waiter) = self.first_for(&mut queues, fleet, &slot.candidate().node) {
            match waiter.wakeup.send(Wakeup::Slot(slot)) {
                Ok(()) => return None,
                Err(Wakeup::Slot(unheard)) => slot = unheard,
                Err(Wakeup::Look | Wakeup::Leave) => unreachable!("it is what was sent"),
            }
        }
        Some(slot)
    }

    /// A waiting job of this tenant found a slot by choosing again, which counts like one that was handed over.
    pub fn charge(&self, tenant: &TenantId) {
        self.queues.lock().shares.served(tenant);
    }

    /// A slot that was handed over to this tenant was not granted.
    pub fn refund(&self, tenant: &TenantId) {
        self.queues.lock().shares.not_served(tenant);
    }

    /// Has the next job of every pair choose again.
    pub fn look_again(&self) {
        let mut queues = self.queues.lock();
        let mut heads: hash::HashMap<(Pair, &Asks), &QueueKey> = hash::HashMap::default();
        for key in queues.queues.keys() {
            let head = heads.entry((key.0, &key.2)).or_insert(key);
            if queues.shares.is_before(&key.1, &head.1) {
                *head = key;
            }
        }
        let heads: Vec<QueueKey> = heads.into_values().cloned().collect();
        for key in heads {
            let first = queues.queues.get(&key).and_then(|queue| queue.keys().next().copied());
            if let Some(waiter) = first.and_then(|position| queues.take(&key, position)) {
                let _ = waiter.wakeup.send(Wakeup::Look);
            }
        }
        self.show(&queues);
    }

    fn show(&self, queues: &Queues) {
        self.total.store(queues.total, Ordering::Release);
        self.gauge.set(queues.total as i64);
    }

    /// Takes the next job that can use the node out of its queue.
    fn first_for(&self, queues: &mut Queues, fleet: &FleetView, node: &NodeId) -> Option<Waiter> {
        let fleet = fleet.lock();
        let node = fleet.get(node)?;
        let mut best: Option<(&QueueKey, Position)> = None;
        for (key, queue) in &queues.queues {
            let sooner = |position: &Position| match &best {
                None => true,
                Some((other, _)) if queues.shares.is_before(&key.1, &other.1) => true,
                Some((other, soonest)) => other.1 == key.1 && position < soonest,
            };
            // Most queues need no closer look.
            if !queue.keys().next().is_some_and(sooner) {
                continue;
            }
            let able = queue.iter().take(LOOKS_PER_QUEUE).find(|(_, waiter)| {
                waiter.only.as_ref().is_none_or(|only| only == node.id())
                    && node.why_not(&waiter.need).is_empty()
                    && !waiter.excluded.contains(node.id())
            });
            if let Some((position, _)) = able.filter(|(position, _)| sooner(position)) {
                best = Some((key, *position));
            }
        }
        let (key, position) = best.map(|(key, position)| (key.clone(), position))?;
        let waiter = queues.take(&key, position);
        queues.shares.served(&key.1);
        self.show(queues);
        waiter
    }
}

impl Queues {
    fn take(&mut self, key: &QueueKey, position: Position) -> Option<Waiter> {
        let queue = self.queues.get_mut(key)?;
        let waiter = queue.remove(&position)?;
        if queue.is_empty() {
            self.queues.remove(key);
        }
        self.total -= 1;
        self.shares.left(&key.1);
        if let Some(length) = self.by_pair.get_mut(&key.0) {
            *length -= 1;
            if *length == 0 {
                self.by_pair.remove(&key.0);
            }
        }
        Some(waiter)
    }

    /// Removes the last job of the tenant with most jobs waiting for the pair, or in all, if those are more than
    /// the newcomer's would be. Both are weighed by the tenants' shares.
    fn make_room(&mut self, newcomer: &TenantId, pair: Option<Pair>) -> bool {
        let mut lengths: hash::HashMap<&TenantId, usize> = hash::HashMap::default();
        for (key, queue) in &self.queues {
            if pair.is_none_or(|pair| pair == key.0) {
                *lengths.entry(&key.1).or_default() += queue.len();
            }
        }
        let own = lengths.get(newcomer).copied().unwrap_or(0) + 1;
        let most = lengths.into_iter().max_by(|(one, length), (other, longer)| {
            self.shares.weighed(one, *length).total_cmp(&self.shares.weighed(other, *longer))
        });
        let Some((most, length)) = most.map(|(tenant, length)| (tenant.clone(), length)) else {
            return false;
        };
        if self.shares.weighed(&most, length) <= self.shares.weighed(newcomer, own) {
            return false;
        }
        let last = self
            .queues
            .iter()
            .filter(|(key, _)| key.1 == most && pair.is_none_or(|pair| pair == key.0))
            .filter_map(|(key, queue)| Some((queue.keys().next_back().copied()?, key.clone())))
            .max_by_key(|(position, _)| *position);
        let Some((position, key)) = last else { return false };
        if let Some(waiter) = self.take(&key, position) {
            let _ = waiter.wakeup.send(Wakeup::Leave);
        }
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.queue.queues.lock();
        queues.take(&self.key, self.position);
        self.queue.show(&queues);
    }
}
