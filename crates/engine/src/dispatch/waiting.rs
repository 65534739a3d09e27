//! The lines of jobs for which every able node is full.
//!
//! A slot that becomes free is handed to a job that can use it, and stays taken in the fleet view
//! meanwhile, so that no newcomer is quicker. Whose turn it is among tenants says [`Shares`]; of one
//! tenant's jobs it is the one that ends soonest. When the lines are full, the last job of whoever has
//! most in them makes room for one of whoever has less, so that nobody can keep others out.
//! Looking again now and then is only the net below: for slots that lapsed or that another instance
//! freed.

use std::collections::{BTreeMap, HashMap};

use lingua_core::eligibility::{Need, Route};
use lingua_core::{NodeId, TenantId};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::shares::Shares;
use crate::fleet::FleetView;
use crate::settings::WaitingBounds;

/// Jobs of one line that are looked at for one free slot: those ahead may be unable to use it.
const LOOKS_PER_LINE: usize = 16;

/// What a line is for: a direction, with or without speech, and a tenant.
type Pair = (Route, bool);
type Whose = (Pair, TenantId);
type Place = (Instant, u64);

/// All lines.
pub(crate) struct Waiting {
    bounds: WaitingBounds,
    lines: Mutex<Lines>,
    gauge: Gauge,
}

struct Lines {
    lines: HashMap<Whose, BTreeMap<Place, Waiter>, foldhash::quality::RandomState>,
    /// Jobs in line by pair.
    by_pair: HashMap<Pair, usize, foldhash::quality::RandomState>,
    shares: Shares,
    total: usize,
    last: u64,
}

struct Waiter {
    need: Need,
    /// No other node than this.
    only: Option<NodeId>,
    excluded: Vec<NodeId>,
    call: oneshot::Sender<Call>,
}

/// What a waiting job is called for.
#[derive(Debug)]
pub(crate) enum Call {
    /// A slot of this node, which counts as taken already.
    Slot(NodeId),
    /// To look for itself.
    Look,
    /// To go: the lines are full, and others have less in them.
    Leave,
}

/// A place in line. Dropping it leaves the line.
pub(crate) struct InLine<'a> {
    waiting: &'a Waiting,
    whose: Whose,
    place: Place,
    pub call: oneshot::Receiver<Call>,
}

impl Waiting {
    pub fn new(bounds: WaitingBounds, shares: HashMap<TenantId, u32>, gauge: Gauge) -> Self {
        let lines = Lines {
            lines: HashMap::default(),
            by_pair: HashMap::default(),
            shares: Shares::new(shares),
            total: 0,
            last: 0,
        };
        Waiting { bounds, lines: Mutex::new(lines), gauge }
    }

    /// Gets in line behind those of the same tenant whose deadline is sooner; `None` if the lines are
    /// full and nobody has more in them.
    pub fn join(
        &self,
        need: &Need,
        only: Option<NodeId>,
        excluded: Vec<NodeId>,
        deadline: Instant,
    ) -> Option<InLine<'_>> {
        let mut lines = self.lines.lock();
        let pair = (need.route, need.speech);
        let length = lines.by_pair.get(&pair).copied().unwrap_or(0);
        if length >= self.bounds.per_pair && !lines.make_room(&need.tenant, Some(pair)) {
            return None;
        }
        if lines.total >= self.bounds.total && !lines.make_room(&need.tenant, None) {
            return None;
        }
        let whose = (pair, need.tenant.clone());
        lines.total += 1;
        lines.last += 1;
        lines.shares.joined(&need.tenant);
        *lines.by_pair.entry(pair).or_default() += 1;
        let place = (deadline, lines.last);
        let (sender, call) = oneshot::channel();
        let need = Need { named: only.is_some(), ..need.clone() };
        let waiter = Waiter { need, only, excluded, call: sender };
        lines.lines.entry(whose.clone()).or_default().insert(place, waiter);
        self.gauge.set(lines.total as i64);
        Some(InLine { waiting: self, whose, place, call })
    }

    /// Jobs in line for a pair.
    pub fn length(&self, route: Route, speech: bool) -> usize {
        self.lines.lock().by_pair.get(&(route, speech)).copied().unwrap_or(0)
    }

    /// All lines, the longest first.
    pub fn lines(&self) -> Vec<(Route, usize)> {
        let mut lines: HashMap<Route, usize> = HashMap::new();
        for ((route, _), length) in &self.lines.lock().by_pair {
            *lines.entry(*route).or_default() += length;
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        lines
    }

    /// Hands a slot that became free, and still counts as taken, to whoever can use it. Says whether
    /// somebody could.
    pub fn hand_over(&self, fleet: &FleetView, node: &NodeId) -> bool {
        let mut lines = self.lines.lock();
        if lines.total == 0 {
            return false;
        }
        while let Some(waiter) = self.first_for(&mut lines, fleet, node) {
            if waiter.call.send(Call::Slot(node.clone())).is_ok() {
                return true;
            }
        }
        false
    }

    /// Offers up to `slots` free slots of a node that joined, opened or came back.
    pub fn offer(&self, fleet: &FleetView, node: &NodeId, slots: u32) {
        for _ in 0..slots {
            if self.lines.lock().total == 0 {
                return;
            }
            {
                let mut fleet = fleet.lock();
                if fleet.get(node).is_none_or(|node| node.is_full()) {
                    return;
                }
                fleet.placed(node);
            }
            if !self.hand_over(fleet, node) {
                fleet.ended(node);
                return;
            }
        }
    }

    /// A job of this tenant that was called to look for itself found a slot: it counts like one that
    /// was handed over.
    pub fn charge(&self, tenant: &TenantId) {
        self.lines.lock().shares.served(tenant);
    }

    /// A slot that was handed over to this tenant was not there after all.
    pub fn refund(&self, tenant: &TenantId) {
        self.lines.lock().shares.not_served(tenant);
    }

    /// Has the first of every pair's line look for itself.
    pub fn look_again(&self) {
        let mut lines = self.lines.lock();
        let mut heads: HashMap<Pair, &Whose> = HashMap::new();
        for whose in lines.lines.keys() {
            let head = heads.entry(whose.0).or_insert(whose);
            if lines.shares.is_before(&whose.1, &head.1) {
                *head = whose;
            }
        }
        let heads: Vec<Whose> = heads.into_values().cloned().collect();
        for whose in heads {
            let first = lines.lines.get(&whose).and_then(|line| line.keys().next().copied());
            if let Some(waiter) = first.and_then(|place| lines.take(&whose, place)) {
                let _ = waiter.call.send(Call::Look);
            }
        }
        self.gauge.set(lines.total as i64);
    }

    /// Takes the job out of line whose turn it is of those that may use the node.
    fn first_for(&self, lines: &mut Lines, fleet: &FleetView, node: &NodeId) -> Option<Waiter> {
        let fleet = fleet.lock();
        let node = fleet.get(node)?;
        let mut best: Option<(&Whose, Place)> = None;
        for (whose, line) in &lines.lines {
            let sooner = |place: &Place| match &best {
                None => true,
                Some((other, _)) if lines.shares.is_before(&whose.1, &other.1) => true,
                Some((other, soonest)) => other.1 == whose.1 && place < soonest,
            };
            // Most need not be looked at closely.
            if !line.keys().next().is_some_and(sooner) {
                continue;
            }
            let able = line.iter().take(LOOKS_PER_LINE).find(|(_, waiter)| {
                waiter.only.as_ref().is_none_or(|only| only == node.id())
                    && node.why_not(&waiter.need).is_empty()
                    && !waiter.excluded.contains(node.id())
            });
            if let Some((place, _)) = able.filter(|(place, _)| sooner(place)) {
                best = Some((whose, *place));
            }
        }
        let (whose, place) = best.map(|(whose, place)| (whose.clone(), place))?;
        let waiter = lines.take(&whose, place);
        lines.shares.served(&whose.1);
        self.gauge.set(lines.total as i64);
        waiter
    }
}

impl Lines {
    fn take(&mut self, whose: &Whose, place: Place) -> Option<Waiter> {
        let line = self.lines.get_mut(whose)?;
        let waiter = line.remove(&place)?;
        if line.is_empty() {
            self.lines.remove(whose);
        }
        self.total -= 1;
        self.shares.left(&whose.1);
        if let Some(length) = self.by_pair.get_mut(&whose.0) {
            *length -= 1;
            if *length == 0 {
                self.by_pair.remove(&whose.0);
            }
        }
        Some(waiter)
    }

    /// Sends away the last job of whoever has most in line for the pair, or in all lines, if that is
    /// more than one more of this tenant would be.
    fn make_room(&mut self, newcomer: &TenantId, pair: Option<Pair>) -> bool {
        let mut lengths: HashMap<&TenantId, usize> = HashMap::new();
        for (whose, line) in &self.lines {
            if pair.is_none_or(|pair| pair == whose.0) {
                *lengths.entry(&whose.1).or_default() += line.len();
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
            .lines
            .iter()
            .filter(|(whose, _)| whose.1 == most && pair.is_none_or(|pair| pair == whose.0))
            .filter_map(|(whose, line)| Some((line.keys().next_back().copied()?, whose.clone())))
            .max_by_key(|(place, _)| *place);
        let Some((place, whose)) = last else { return false };
        if let Some(waiter) = self.take(&whose, place) {
            let _ = waiter.call.send(Call::Leave);
        }
        true
    }
}

impl InLine<'_> {
    /// Leaves the line. A slot that was handed over at the last moment is given back to the caller,
    /// who owes it to the next in line.
    pub fn leave(mut self) -> Option<NodeId> {
        self.waiting.lines.lock().take(&self.whose, self.place);
        match self.call.try_recv() {
            Ok(Call::Slot(node)) => Some(node),
            Ok(Call::Look | Call::Leave) | Err(_) => None,
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut lines = self.waiting.lines.lock();
        lines.take(&self.whose, self.place);
        self.waiting.gauge.set(lines.total as i64);
    }
}
