//! The lines of jobs for which every able node is full.
//!
//! A slot that becomes free is handed to the job that ends soonest of those that can use it, and
//! stays taken in the fleet view meanwhile, so that no newcomer is quicker. Looking again now and
//! then is only the net below: for slots that lapsed or that another instance freed.

use std::collections::{BTreeMap, HashMap};

use lingua_core::NodeId;
use lingua_core::eligibility::{Need, Route};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::fleet::FleetView;
use crate::settings::WaitingBounds;

/// Jobs of one line that are looked at for one free slot: those ahead may be unable to use it.
const LOOKS_PER_LINE: usize = 16;

type Pair = (Route, bool);
type Place = (Instant, u64);

/// All lines.
pub(crate) struct Waiting {
    bounds: WaitingBounds,
    lines: Mutex<Lines>,
    gauge: Gauge,
}

#[derive(Default)]
struct Lines {
    by_pair: HashMap<Pair, BTreeMap<Place, Waiter>, foldhash::quality::RandomState>,
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
}

/// A place in line. Dropping it leaves the line.
pub(crate) struct InLine<'a> {
    waiting: &'a Waiting,
    pair: Pair,
    place: Place,
    pub call: oneshot::Receiver<Call>,
}

impl Waiting {
    pub fn new(bounds: WaitingBounds, gauge: Gauge) -> Self {
        Waiting { bounds, lines: Mutex::default(), gauge }
    }

    /// Gets in line behind those whose deadline is sooner; `None` if the line is full.
    pub fn join(
        &self,
        need: &Need,
        only: Option<NodeId>,
        excluded: Vec<NodeId>,
        deadline: Instant,
    ) -> Option<InLine<'_>> {
        let mut lines = self.lines.lock();
        let pair = (need.route, need.speech);
        let length = lines.by_pair.get(&pair).map_or(0, BTreeMap::len);
        if length >= self.bounds.per_pair || lines.total >= self.bounds.total {
            return None;
        }
        lines.total += 1;
        lines.last += 1;
        let place = (deadline, lines.last);
        let (sender, call) = oneshot::channel();
        let need = Need { named: only.is_some(), ..need.clone() };
        let waiter = Waiter { need, only, excluded, call: sender };
        lines.by_pair.entry(pair).or_default().insert(place, waiter);
        self.gauge.set(lines.total as i64);
        Some(InLine { waiting: self, pair, place, call })
    }

    /// Jobs in line for a pair.
    pub fn length(&self, route: Route, speech: bool) -> usize {
        self.lines.lock().by_pair.get(&(route, speech)).map_or(0, BTreeMap::len)
    }

    /// All lines, the longest first.
    pub fn lines(&self) -> Vec<(Route, usize)> {
        let mut lines: HashMap<Route, usize> = HashMap::new();
        for ((route, _), line) in &self.lines.lock().by_pair {
            *lines.entry(*route).or_default() += line.len();
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

    /// Has the first of every line look for itself.
    pub fn look_again(&self) {
        let mut lines = self.lines.lock();
        let heads: Vec<(Pair, Place)> = lines
            .by_pair
            .iter()
            .filter_map(|(pair, line)| line.keys().next().map(|place| (*pair, *place)))
            .collect();
        for (pair, place) in heads {
            if let Some(waiter) = lines.take(pair, place) {
                let _ = waiter.call.send(Call::Look);
            }
        }
        self.gauge.set(lines.total as i64);
    }

    /// Takes the job out of line that ends soonest of those that may use the node.
    fn first_for(&self, lines: &mut Lines, fleet: &FleetView, node: &NodeId) -> Option<Waiter> {
        let fleet = fleet.lock();
        let node = fleet.get(node)?;
        let mut best: Option<(Place, Pair)> = None;
        for (pair, line) in &lines.by_pair {
            let able = line.iter().take(LOOKS_PER_LINE).find(|(_, waiter)| {
                waiter.only.as_ref().is_none_or(|only| only == node.id())
                    && node.why_not(&waiter.need).is_empty()
                    && !waiter.excluded.contains(node.id())
            });
            if let Some((place, _)) = able
                && best.is_none_or(|(soonest, _)| *place < soonest)
            {
                best = Some((*place, *pair));
            }
        }
        let (place, pair) = best?;
        let waiter = lines.take(pair, place);
        self.gauge.set(lines.total as i64);
        waiter
    }
}

impl Lines {
    fn take(&mut self, pair: Pair, place: Place) -> Option<Waiter> {
        let line = self.by_pair.get_mut(&pair)?;
        let waiter = line.remove(&place)?;
        self.total -= 1;
        if line.is_empty() {
            self.by_pair.remove(&pair);
        }
        Some(waiter)
    }
}

impl InLine<'_> {
    /// Leaves the line. A slot that was handed over at the last moment is given back to the caller,
    /// who owes it to the next in line.
    pub fn leave(mut self) -> Option<NodeId> {
        self.waiting.lines.lock().take(self.pair, self.place);
        match self.call.try_recv() {
            Ok(Call::Slot(node)) => Some(node),
            Ok(Call::Look) | Err(_) => None,
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut lines = self.waiting.lines.lock();
        lines.take(self.pair, self.place);
        self.waiting.gauge.set(lines.total as i64);
    }
}
