//! Nodes whose connection another instance has.
//!
//! They are in the same table and chosen the same way; what is for them goes to the other instance,
//! and what they say comes back from there. When a node moves, the attempts that it has move along:
//! whoever has their jobs tells the new instance that it wants to hear of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::link::Overload;
use lingua_core::node::Health;
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_store::Instance;
use lingua_store::nodes::NodeRecord;
use tokio::time::Instant;

use super::state::{BEFORE, Elsewhere, Held, Inner, Link, NodeState, SendError, Todo};
use super::{Nodes, Supports};
use crate::cluster::remote::{Ears, FarEars, Outbox, Refused, There, lease_of};
use crate::cluster::words::{PeerWord, RemoteAdopt, RemoteAssign};
use crate::dispatch::JobEvent;
use crate::job::{Assign, Receipt, ToNode};
use crate::secret::token_name;
use crate::tasks;

impl Nodes {
    /// What the store says of a node of another instance.
    pub(crate) fn learn(self: &Arc<Self>, record: NodeRecord) {
        if record.owner == self.shared.instance {
            self.obey(&record.node, record.order);
            return;
        }
        let alive = record.fresh_until > record.read_at
            && record.health != Health::Offline
            && self.shared.post.is_alive(&record.owner);
        let node = match self.get(&record.node) {
            Some(node) => node,
            None if alive => self.meet(&record),
            None => return,
        };
        {
            let mut inner = node.lock();
            if inner.epoch > record.epoch {
                return;
            }
            let now = Instant::now();
            if inner.elsewhere.is_none() {
                // Its connection was here; a newer one is there.
                if inner.epoch == record.epoch {
                    return;
                }
                if let Some(link) = inner.link.take() {
                    let _ = link.out.try_send(ToNode::Superseded);
                }
                inner.tell_jobs(|attempt| JobEvent::NodeGone { attempt });
                // Those of other instances are theirs to take along.
                inner.held.retain(|_, held| held.job.as_ref().is_some_and(|ears| !ears.are_far()));
            }
            let moved = inner.epoch < record.epoch || inner.link.is_none();
            inner.epoch = record.epoch;
            inner.version = record.version;
            if *inner.profile != record.profile {
                inner.profile = Arc::new(record.profile);
            }
            inner.overload = Overload::told(record.overloaded);
            inner.order = record.order;
            let there = There {
                post: Arc::clone(&self.shared.post),
                owner: record.owner,
                node: node.id.clone(),
                epoch: record.epoch,
            };
            let missing = record.gaps.into_iter();
            inner.gaps =
                missing.map(|(model, until)| (model, now + record.read_at.until(until))).collect();
            inner.todo = Todo::default();
            if !alive {
                inner.lose(now);
            } else if moved {
                inner.adopted_by(&there);
                let supports = Supports::from_bits(inner.profile.agent);
                let serial = self.serials.fetch_add(1, Ordering::Relaxed) + 1;
                inner.link = Some(Link { serial, out: Outbox::There(there.clone()), supports });
                inner.gone_at = None;
                inner.unsaid_until = None;
                inner.inhibited_until = None;
                inner.tell_jobs(|attempt| JobEvent::NodeBack { attempt });
            }
            let (max, health) = (record.max, record.health);
            inner.elsewhere = Some(Elsewhere { there, max, health });
        }
        self.refresh(&node);
    }

    /// Instances are gone: nothing reaches their nodes until those are elsewhere.
    pub(crate) fn lose_owners(self: &Arc<Self>, alive: impl Fn(&Instance) -> bool) {
        for node in self.all() {
            let lost = {
                let mut inner = node.lock();
                let lost = inner.there().is_some_and(|there| !alive(&there.owner));
                if lost {
                    inner.lose(Instant::now());
                }
                lost
            };
            if lost {
                tracing::info!(node.id = %node.id, "the instance of a node is gone");
                self.refresh(&node);
            }
        }
    }

    /// Nodes of other instances that are known here.
    pub(crate) fn elsewhere(&self) -> Vec<NodeId> {
        let elsewhere = |node: &Arc<NodeState>| node.lock().elsewhere.is_some();
        self.all().into_iter().filter(elsewhere).map(|node| node.id.clone()).collect()
    }

    /// The store no longer knows a node that was elsewhere.
    pub(crate) fn unlearn(self: &Arc<Self>, id: &NodeId) {
        let Some(node) = self.get(id) else { return };
        {
            let mut inner = node.lock();
            if inner.elsewhere.is_none() {
                return;
            }
            inner.lose(Instant::now());
        }
        self.refresh(&node);
    }

    /// Puts another instance's attempt on a node's connection here.
    pub(crate) fn assign_for(
        &self,
        from: &Instance,
        remote: &mut RemoteAssign,
        audio: Bytes,
        send_by: Instant,
    ) -> Result<(), Refused> {
        if send_by < Instant::now() {
            return Err(Refused);
        }
        let job = self.shared.secret.masked(remote.job);
        let node = self.get(&remote.node).ok_or(Refused)?;
        let Supports { ack: acks, calls, .. } = {
            let inner = node.lock();
            let here = inner.elsewhere.is_none() && inner.epoch == remote.epoch;
            inner.link.as_ref().filter(|_| here).ok_or(Refused)?.supports
        };
        let token = lease_of(job, remote.attempt, &remote.token).ok_or(Refused)?;
        let ears = self.far_ears(from, job, &node, remote.epoch);
        let work = std::mem::take(&mut remote.work);
        let mut work = Arc::try_unwrap(work).map_err(|_| Refused)?;
        work.audio = audio;
        let index = work.utterance_index;
        let left = remote.deadline_ms.saturating_sub(self.shared.clock.now().as_millis());
        let timing = &self.shared.settings.timing;
        let held = Held {
            attempt: remote.attempt,
            token,
            turn: remote.turn.clone(),
            job: Some(ears.clone()),
            index,
            serial: BEFORE,
            sent: Instant::now(),
            heard: None,
            answered: false,
            lost: false,
            renewed: Instant::now(),
            lease: Duration::from_millis(timing.reserve_lease_ms_of(calls)),
            until: Some(Instant::now() + Duration::from_millis(left + timing.margin_ms)),
        };
        let assign = Assign {
            job: remote.job,
            attempt: remote.attempt,
            token: remote.token.clone(),
            session: remote.session.clone(),
            turn: remote.turn.clone(),
            deadline_ms: remote.deadline_ms,
            send_by,
            traceparent: remote.traceparent.take(),
            work: Arc::new(work),
            receipt: Receipt((!acks).then_some(ears)),
        };
        match node.send(assign, job, held) {
            Ok(_) => Ok(()),
            Err(error) => {
                if error == SendError::Full {
                    self.shared.metrics.reserve("lapsed");
                }
                Err(Refused)
            }
        }
    }

    /// Another instance has the job of an attempt that a node here runs.
    pub(crate) fn adopt_for(self: &Arc<Self>, from: &Instance, remote: &RemoteAdopt) {
        let Some(node) = self.get(&remote.node) else { return };
        let Some(token) = lease_of(remote.job, remote.attempt, &remote.token) else { return };
        let ears = self.far_ears(from, remote.job, &node, remote.epoch);
        let mut inner = node.lock();
        if inner.elsewhere.is_some() || inner.epoch != remote.epoch || inner.link.is_none() {
            return;
        }
        if let Some(held) = inner.held.get_mut(&remote.job).filter(|held| held.token == token) {
            held.job = Some(ears);
            return;
        }
        // The job learns later than the node's instance that the node is there, and what it had
        // before it may have forgotten: then it has said so by now.
        let lost = inner.said.as_ref().is_some_and(|named| !named.contains(&token));
        let lease = inner.lease;
        let longest = Duration::from_millis(self.shared.settings.timing.deadline_ms);
        let held = Held {
            attempt: remote.attempt,
            token,
            turn: remote.turn.clone(),
            job: Some(ears),
            index: remote.index,
            serial: BEFORE,
            sent: Instant::now(),
            heard: Some(Instant::now()),
            answered: false,
            lost,
            renewed: Instant::now(),
            lease,
            until: Some(Instant::now() + longest),
        };
        inner.held.insert(remote.job, held);
        drop(inner);
        if lost {
            self.wait_for_last_words(&node, vec![token]);
        }
    }

    /// Another instance no longer waits for an attempt.
    pub(crate) fn forget_for(&self, id: &NodeId, job: &JobId, attempt: u32, over: bool) {
        let Some(node) = self.get(id) else { return };
        if node.lock().elsewhere.is_some() {
            return;
        }
        match over {
            true => node.forget(job, attempt),
            false => drop(node.disown(job, attempt)),
        }
    }

    /// Another instance gives an attempt up. The slot of a node that obeys is given back here, behind
    /// the word on its connection: whoever gets it next is behind that word too.
    pub(crate) fn cancel_for(
        self: &Arc<Self>,
        from: &Instance,
        id: &NodeId,
        epoch: u64,
        job: &JobId,
        attempt: u32,
        reason: &'static str,
    ) {
        let Some(node) = self.get(id) else { return };
        let obeys = {
            let inner = node.lock();
            if inner.elsewhere.is_some() || inner.epoch != epoch {
                return;
            }
            inner.link.as_ref().is_some_and(|link| link.supports.cancel)
        };
        let masked = self.shared.secret.masked(*job);
        let told = node.tell(ToNode::Cancel { job: masked, attempt, reason });
        let held = {
            let mut inner = node.lock();
            let known = inner.held.get(job).filter(|held| held.attempt == attempt);
            let theirs = known.is_some_and(|held| held.job.as_ref().is_none_or(Ears::are_far));
            (told && obeys && theirs).then(|| inner.held.remove(job)).flatten()
        };
        if let Some(held) = held {
            self.give_back_for(from, id, held.token);
        }
    }

    /// An attempt of another instance was not sent and never will be.
    pub(crate) fn unsent_for(self: &Arc<Self>, from: &Instance, remote: &RemoteAssign) {
        let job = self.shared.secret.masked(remote.job);
        if let Some(token) = lease_of(job, remote.attempt, &remote.token) {
            self.give_back_for(from, &remote.node, token);
        }
    }

    /// Gives the slot of another instance's attempt back, and tells that instance, which may have
    /// somebody in line for it.
    fn give_back_for(self: &Arc<Self>, from: &Instance, id: &NodeId, token: LeaseToken) {
        let (nodes, id, from) = (Arc::clone(self), id.clone(), from.clone());
        tasks::start(async move {
            if let Err(error) = nodes.shared.store.slots.release(&id, token).await {
                tracing::debug!(node.id = %id, %error, "a slot is left to lapse");
                return;
            }
            let _ = nodes.shared.post.send(&from, PeerWord::SlotFreed { node: id.clone() });
            if let Some(node) = nodes.get(&id) {
                nodes.refresh(&node);
            }
        });
    }

    /// Tells a node here something, if it is meant for its present connection.
    pub(crate) fn tell_for(&self, id: &NodeId, epoch: u64, message: ToNode) {
        let Some(node) = self.get(id) else { return };
        let here = {
            let inner = node.lock();
            inner.elsewhere.is_none() && inner.epoch == epoch
        };
        if here {
            node.tell(message);
        }
    }

    /// Tells a node whose connection is here.
    pub(crate) fn tell_here(&self, id: &NodeId, message: ToNode) {
        if let Some(node) = self.get(id).filter(|node| node.lock().elsewhere.is_none()) {
            node.tell(message);
        }
    }

    /// Whether somebody waits for this attempt of the node.
    pub(crate) fn holds(&self, id: &NodeId, job: &JobId, attempt: u32) -> bool {
        let Some(node) = self.get(id) else { return false };
        let inner = node.lock();
        let held = inner.held.get(job).filter(|held| held.attempt == attempt);
        held.is_some_and(|held| match &held.job {
            Some(Ears::Here(_)) => true,
            Some(Ears::There(far)) => self.shared.post.is_alive(&far.to),
            None => false,
        })
    }

    /// Whether what is said about a node's attempt comes from where the node is.
    pub(crate) fn speaks_for(&self, id: &NodeId, epoch: u64) -> bool {
        self.get(id).is_some_and(|node| node.lock().epoch <= epoch)
    }

    /// A slot of a node became free somewhere else.
    pub(crate) fn freed_elsewhere(&self, id: &NodeId) {
        let Some(node) = self.get(id) else { return };
        let own = u32::try_from(node.lock().held.len()).unwrap_or(u32::MAX);
        let used = self.shared.fleet.used(id);
        if used > own {
            let open = node.lock().open_slots();
            self.shared.fleet.true_load(id, used - 1, open);
            self.refresh(&node);
        }
    }

    fn far_ears(&self, to: &Instance, job: JobId, node: &NodeState, epoch: u64) -> Ears {
        Ears::There(FarEars {
            post: Arc::clone(&self.shared.post),
            to: to.clone(),
            job,
            node: node.id.clone(),
            epoch,
        })
    }

    fn meet(&self, record: &NodeRecord) -> Arc<NodeState> {
        let profile = Arc::new(record.profile.clone());
        let heartbeat_ms = self.shared.settings.timing.heartbeat_ms;
        let inner = Inner::new(profile, record.version, heartbeat_ms, &self.shared.settings);
        let mut table = self.table.write();
        let id = record.node.clone();
        let made = || Arc::new(NodeState::new(id.clone(), inner));
        Arc::clone(table.entry(id.clone()).or_insert_with(made))
    }
}

impl Inner {
    /// A new connection of the node: what it says of attempts of others from now on is said by it.
    pub(super) fn renumber(&mut self, epoch: u64) {
        self.epoch = epoch;
        for held in self.held.values_mut() {
            if let Some(Ears::There(far)) = &mut held.job {
                far.epoch = epoch;
            }
        }
    }

    /// Nothing reaches the node any more.
    fn lose(&mut self, now: Instant) {
        if self.link.take().is_some() {
            self.tell_jobs(|attempt| JobEvent::NodeGone { attempt });
            self.gone_at = Some(now);
        }
    }

    /// Tells the node's new instance of the attempts whose jobs are here.
    fn adopted_by(&self, there: &There) {
        for (job, held) in &self.held {
            if held.job.as_ref().is_some_and(|ears| !ears.are_far()) {
                let adopt = RemoteAdopt {
                    node: there.node.clone(),
                    epoch: there.epoch,
                    job: *job,
                    attempt: held.attempt,
                    token: token_name(held.token),
                    turn: held.turn.clone(),
                    index: held.index,
                };
                let _ = there.say(PeerWord::Adopt(Box::new(adopt)));
            }
        }
    }
}
