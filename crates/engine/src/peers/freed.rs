//! Slots that came free are announced to the instances with waiting jobs.
//!
//! An instance announces that jobs wait there when the first begins to, and repeats it while any does. Then it is
//! told of every slot that others free, and of those that they freed a moment before. So a slot that comes free on
//! any instance reaches a waiting job on any other, and nothing is sent while no job waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::hash::{HashMap, HashSet};
use lingua_core::planted::{self, Flaw};
use lingua_core::time::millis;
use lingua_protocol::peer::PeerMessage;
use lingua_store::Instance;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::outbox::Outbox;

/// How long jobs of an instance count as waiting after it said so.
pub(crate) const JOBS_WAIT_FOR: Duration = Duration::from_millis(2_500);

/// How often an instance repeats that while any job waits.
pub(crate) const ANNOUNCE_WAITING_EVERY: Duration = Duration::from_secs(1);

/// The longest time that is believed.
const AT_MOST: Duration = Duration::from_secs(10);

/// A slot that came free so long before the message that jobs wait is announced all the same: that message was on
/// its way.
const BEFORE: Duration = Duration::from_millis(100);

/// Freed slots that are remembered for [`BEFORE`].
const REMEMBERED: usize = 256;

/// Who is told of freed slots.
#[derive(Default)]
pub(crate) struct FreedSlotNews {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Until when jobs wait at each instance. Instances of the version before do not announce that.
    waiting: HashMap<Instance, Instant>,
    recent: VecDeque<(Instant, NodeId)>,
}

impl FreedSlotNews {
    /// Notes a freed slot; says who of `peers` is to be told.
    fn freed(&self, node: &NodeId, was_full: bool, peers: Vec<Instance>) -> Vec<Instance> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.recent.len() == REMEMBERED {
            state.recent.pop_front();
        }
        state.recent.push_back((now, node.clone()));
        let wanted = |peer: &Instance| match state.waiting.get(peer) {
            _ if planted::on(Flaw::FreedSlotNotTold) => was_full,
            Some(until) => *until > now,
            // An instance of the version before is told of nodes that were full.
            None => was_full,
        };
        peers.into_iter().filter(wanted).collect()
    }

    /// Jobs wait at an instance for so long. Returns the nodes of which it is to be told at once.
    fn jobs_wait(&self, from: &Instance, lasting: Duration) -> Vec<NodeId> {
        let now = Instant::now();
        let until = now + lasting.min(AT_MOST);
        let mut state = self.state.lock();
        let before = state.waiting.insert(from.clone(), until);
        if until <= now || before.is_some_and(|before| before > now) {
            return Vec::new();
        }
        let recent = state.recent.iter().filter(|(at, _)| now - *at <= BEFORE);
        let recent: HashSet<NodeId> = recent.map(|(_, node)| node.clone()).collect();
        recent.into_iter().collect()
    }

    /// Forgets all other instances.
    pub(super) fn retain(&self, alive: impl Fn(&Instance) -> bool) {
        self.state.lock().waiting.retain(|instance, _| alive(instance));
    }
}

impl Outbox {
    /// Tells instances with waiting jobs, and the one that held it, that a slot of this node came free.
    pub fn tell_freed(self: &Arc<Self>, node: &NodeId, was_full: bool, holder: Option<&Instance>) {
        let peers = self.peers().into_iter().map(|(peer, _)| peer).collect();
        let mut told = self.freed.freed(node, was_full, peers);
        if let Some(holder) = holder
            && !told.contains(holder)
        {
            told.push(holder.clone());
        }
        for peer in told {
            let _ = self.send(&peer, PeerMessage::SlotFreed { node: node.clone() });
        }
    }

    /// Tells all instances that jobs wait here.
    pub fn tell_jobs_wait(self: &Arc<Self>) {
        let for_ms = millis(JOBS_WAIT_FOR);
        for (peer, _) in self.peers() {
            let _ = self.send(&peer, PeerMessage::JobsWait { for_ms });
        }
    }

    /// Tells an instance that joined whether jobs wait here.
    pub fn greet(self: &Arc<Self>, peer: &Instance, jobs_wait: bool) {
        let for_ms = if jobs_wait { millis(JOBS_WAIT_FOR) } else { 0 };
        let _ = self.send(peer, PeerMessage::JobsWait { for_ms });
    }

    /// Jobs wait at another instance.
    pub fn on_jobs_wait(self: &Arc<Self>, from: &Instance, lasting: Duration) {
        for node in self.freed.jobs_wait(from, lasting) {
            let _ = self.send(from, PeerMessage::SlotFreed { node });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str) -> Instance {
        Instance { id: id.parse().unwrap(), boot: 1 }
    }

    fn node() -> NodeId {
        NodeId::new("n").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_and_who_does_not_is_not() {
        let news = FreedSlotNews::default();
        let (b, old) = (instance("b"), instance("old"));
        let told = |was_full| news.freed(&node(), was_full, vec![b.clone(), old.clone()]);
        assert_eq!(told(false), []);
        news.jobs_wait(&b, Duration::ZERO);
        assert_eq!(told(true), std::slice::from_ref(&old), "b says of itself that nothing waits");
        tokio::time::sleep(BEFORE * 2).await;
        assert_eq!(news.jobs_wait(&b, JOBS_WAIT_FOR), []);
        assert_eq!(told(false), std::slice::from_ref(&b));
        tokio::time::sleep(JOBS_WAIT_FOR).await;
        assert_eq!(told(false), [], "it has not said so again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_begins_to_wait_hears_of_what_came_free_a_moment_before() {
        let news = FreedSlotNews::default();
        let b = instance("b");
        news.freed(&NodeId::new("old").unwrap(), false, vec![]);
        tokio::time::sleep(BEFORE * 2).await;
        news.freed(&node(), false, vec![]);
        assert_eq!(news.jobs_wait(&b, JOBS_WAIT_FOR), [node()]);
        assert_eq!(news.jobs_wait(&b, JOBS_WAIT_FOR), [], "once");
        for n in 0..REMEMBERED * 2 {
            news.freed(&NodeId::new(format!("n{n}")).unwrap(), false, vec![]);
        }
        assert_eq!(news.state.lock().recent.len(), REMEMBERED);
    }
}
