//! Keeping the store's record of a node true, and the clockwork around it.
//!
//! Heartbeats and changes only note what the store is to be told; one task for each node at a time
//! tells it, at most so often. So a store that hangs delays no word of the node about its jobs, and
//! whatever came in between is told in one go.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_store::nodes::{Beat, BeatReply, Claim, Put, Registration};
use lingua_store::slots::{Confirm, Report};
use tokio::time::Instant;

use super::state::{Held, Inner, NodeState, Todo};
use super::{JobEvent, Nodes, breaker, limits};
use crate::cluster::words::PeerWord;
use crate::job::ToNode;
use crate::rate::Rate;
use crate::tasks;

/// How often overdue heartbeats, ended pauses and lapsed leases are looked for.
const TICK: Duration = Duration::from_millis(250);

/// A node that is back sends the results that it made while it was away: it has so long for them.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often the slots of a node are counted while others hold some of them.
const RECOUNT_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether a node rests, and whether its slots are counted right.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A node that has been gone for so long is forgotten.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(600);

impl Nodes {
    /// Has the store told, unless somebody is at it already.
    pub(crate) fn sync(self: &Arc<Self>, node: &Arc<NodeState>) {
        {
            let mut inner = node.lock();
            if inner.elsewhere.is_some() {
                inner.todo = Todo::default();
            }
            if inner.syncing || !inner.todo.any() {
                return;
            }
            inner.syncing = true;
        }
        let (nodes, node) = (Arc::clone(self), Arc::clone(node));
        tasks::spawn("node record", async move {
            loop {
                let todo = match node.next_update(nodes.rates.updates, Instant::now()) {
                    Update::None => return,
                    Update::Later(wait) => {
                        nodes.shared.metrics.limited(limits::UPDATES);
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                    Update::Now(todo) => todo,
                };
                if let Err(error) = nodes.tell_store(&node, todo).await {
                    tracing::debug!(node.id = %node.id, %error, "the node's record was not written");
                    // A store that is back is told everything anew; until then there is no hurry.
                    node.lock().syncing = false;
                    return;
                }
            }
        });
    }

    async fn tell_store(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        todo: Todo,
    ) -> lingua_store::Result<()> {
        let (epoch, registration, beat) = {
            let inner = node.lock();
            let registration = Registration {
                claim: Claim::Again(inner.epoch),
                owner: self.shared.instance.clone(),
                profile: (*inner.profile).clone(),
                vitals: inner.vitals(),
                known: true,
            };
            let (version, vitals) = (inner.version, inner.vitals());
            (inner.epoch, registration, Beat { epoch: inner.epoch, version, vitals })
        };
        let store = &self.shared.store;
        let mut owed = false;
        let mut put = todo.put;
        if !put {
            match store.nodes.beat(&node.id, &beat).await? {
                BeatReply::Kept { confirmed } => owed = !confirmed,
                BeatReply::PutAgain => put = true,
                BeatReply::Superseded { .. } => return self.superseded(node, epoch),
            }
        }
        if put {
            match store.nodes.put(&node.id, &registration).await? {
                // Whether grants wait for a report, the next beat tells; one too many does no harm.
                Put::Stored { .. } => owed = true,
                Put::Superseded { .. } => return self.superseded(node, epoch),
            }
        }
        self.refresh(node);
        let mut todo = todo;
        if let Some((running, said)) = todo.count.take() {
            todo.report = self.reconcile_count(node, running, said).await?;
        }
        self.report(node, epoch, todo, owed).await
    }

    /// Tells the store what the node runs, or keeps its leases alive.
    async fn report(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        epoch: u64,
        todo: Todo,
        owed: bool,
    ) -> lingua_store::Result<()> {
        let (timing, calls) = (&self.shared.settings.timing, node.supports().calls);
        let (reports, lease, held, newer) = {
            let inner = node.lock();
            // What was given up is left to lapse.
            let held = inner.held.values().filter(|held| held.job.is_some());
            let said = todo.report.as_ref().map(|running| running.said);
            let serial = inner.link.as_ref().map(|link| link.serial);
            let is_newer = |held: &&Held| {
                said.zip(serial).is_some_and(|(said, serial)| held.is_newer_than(said, serial))
            };
            let newer: Vec<LeaseToken> =
                held.clone().filter(is_newer).map(|held| held.token).collect();
            let held: Vec<LeaseToken> = held.map(|held| held.token).collect();
            (inner.reports && inner.link.is_some(), inner.lease, held, newer)
        };
        let said = todo.report.is_some();
        let running = match todo.report {
            Some(running) => {
                let mut running = self.tokens(node, running).await?;
                // On a slow day the store is told late. What it did not know of then is no reason to
                // take the slot of what it accepted since.
                let unnamed = newer.into_iter().filter(|token| !running.contains(token));
                let unnamed: Vec<LeaseToken> = unnamed.collect();
                running.extend(unnamed);
                Some(running)
            }
            // Its word and what it was sent since: together they are all that it can run.
            None if reports && owed => Some(held.clone()),
            None => None,
        };
        if running.is_none() && !owed {
            for token in held.into_iter().filter(|_| todo.renew) {
                if self.shared.store.slots.renew(&node.id, token, lease).await?.is_some() {
                    node.renewed(token, lease);
                }
            }
            return Ok(());
        }
        let report = Report {
            epoch,
            running: running.as_deref(),
            lease,
            grace: Duration::from_millis(timing.send_ms + timing.ack_ms_of(calls)).min(lease / 2),
            reserve_lease: Duration::from_millis(timing.reserve_lease_ms_of(calls)),
            quarantine: Duration::from_millis(timing.quarantine_ms),
        };
        match self.shared.store.slots.confirm(&node.id, &report).await? {
            Confirm::Superseded { .. } => self.superseded(node, epoch),
            Confirm::Unknown => {
                node.lock().todo.put = true;
                Ok(())
            }
            Confirm::Confirmed(confirmed) => {
                if said && node.lock().unsaid_until.take().is_some() {
                    self.refresh(node);
                }
                for token in running.iter().flatten() {
                    node.renewed(*token, lease);
                }
                for token in confirmed.unknown {
                    self.stop(node, token);
                }
                if let Some(running) = running.filter(|_| said) {
                    let lost = node.named(epoch, running);
                    for token in confirmed.dropped.into_iter().filter(|t| !lost.contains(t)) {
                        if node.dropped(token) {
                            self.slot_came_back(node);
                        }
                    }
                    self.wait_for_last_words(node, lost);
                }
                Ok(())
            }
        }
    }

    /// What a node had over an earlier connection and does not run any more is tried elsewhere, unless
    /// it brings the results that it has made meanwhile.
    pub(super) fn wait_for_last_words(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        lost: Vec<LeaseToken>,
    ) {
        if lost.is_empty() {
            return;
        }
        let (nodes, node) = (Arc::clone(self), Arc::clone(node));
        tasks::start(async move {
            tokio::time::sleep(LAST_WORDS).await;
            for token in lost {
                if node.has_lost(token) && node.dropped(token) {
                    nodes.slot_came_back(&node);
                }
            }
        });
    }

    /// The store has no slot for this: the node is to stop it, and the job to look elsewhere.
    fn stop(&self, node: &NodeState, token: LeaseToken) {
        let job = self.shared.secret.masked(token.job);
        node.tell(ToNode::Cancel { job, attempt: token.attempt, reason: "no_lease" });
        if node.dropped(token) {
            self.slot_came_back(node);
        }
    }

    /// Another instance has a newer connection of the node: this one closes.
    fn superseded(&self, node: &NodeState, epoch: u64) -> lingua_store::Result<()> {
        let mut inner = node.lock();
        if inner.epoch == epoch
            && let Some(link) = inner.link.take()
        {
            let _ = link.out.try_send(ToNode::Superseded);
            inner.tell_jobs(|attempt| JobEvent::NodeGone { attempt });
            inner.gone_at = Some(Instant::now());
        }
        drop(inner);
        self.refresh(node);
        Ok(())
    }

    /// A slot of the node is free again: whoever waits gets it.
    pub(crate) fn slot_came_back(&self, node: &NodeState) {
        // Others may have somebody in line for it, whom nobody here knows of.
        let full = self.shared.fleet.lock().get(&node.id).is_some_and(|node| node.is_full());
        if full {
            for (peer, _) in self.shared.post.peers() {
                let _ = self.shared.post.send(&peer, PeerWord::SlotFreed { node: node.id.clone() });
            }
        }
        if !self.waiting.hand_over(&self.shared.fleet, &node.id) {
            self.shared.fleet.ended(&node.id);
        }
    }

    /// The store counts more slots than this instance gave: it is asked again until it does not, for
    /// nobody tells when those of others come free.
    pub(crate) fn recount(self: &Arc<Self>, node: &Arc<NodeState>) {
        if std::mem::replace(&mut node.lock().recounting, true) {
            return;
        }
        let (nodes, node) = (Arc::clone(self), Arc::clone(node));
        tasks::start(async move {
            let mut pause = TICK;
            loop {
                tokio::time::sleep(pause).await;
                pause = RECOUNT_EVERY;
                if let Ok(usage) = nodes.shared.store.slots.usage(&node.id).await {
                    let (open, taken) = {
                        let inner = node.lock();
                        (inner.open_slots(), inner.taken(Instant::now()))
                    };
                    nodes.shared.fleet.true_load(&node.id, usage.used().max(taken), open);
                    nodes.refresh(&node);
                }
                // What the store said may be old by now; what this instance gave is certain.
                let seen = nodes.shared.fleet.used(&node.id) as usize;
                let mut inner = node.lock();
                inner.recounting = seen > inner.held.len();
                if !inner.recounting {
                    return;
                }
            }
        });
    }

    /// Runs until the engine ends: overdue heartbeats, ended pauses, lapsed leases, a store that is
    /// back.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut status = self.shared.store.status.clone();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.tick(),
                changed = status.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if status.borrow_and_update().is_up() {
                        self.assert_all();
                    }
                }
            }
        }
    }

    /// Tells a store that is back everything about every node here.
    fn assert_all(self: &Arc<Self>) {
        let nodes = self.all();
        tracing::info!(nodes = nodes.len(), "the store is back; telling it about the nodes here");
        for node in nodes {
            {
                let mut inner = node.lock();
                if inner.link.is_none() {
                    continue;
                }
                inner.todo.put = true;
            }
            self.sync(&node);
        }
    }

    fn tick(self: &Arc<Self>) {
        let now = Instant::now();
        let mut counts = [0i64; lingua_core::node::Health::ALL.len()];
        for node in self.all() {
            let (changed, forget, freed, (look, rests), held) = {
                let mut inner = node.lock();
                let mut changed = false;
                let here = inner.elsewhere.is_none();
                if here && inner.link.is_some() && !inner.overdue && inner.fresh_until <= now {
                    inner.overdue = true;
                    inner.todo.beat = true;
                    tracing::warn!(node.id = %node.id, "heartbeat overdue");
                    changed = true;
                }
                if inner.breaker.tick(now) {
                    inner.todo.beat = true;
                    changed = true;
                }
                let Inner { inhibited_until, unsaid_until, .. } = &mut *inner;
                for until in [inhibited_until, unsaid_until] {
                    if until.is_some_and(|until| until <= now) {
                        *until = None;
                        changed = true;
                    }
                }
                let gaps = inner.gaps.len();
                inner.gaps.retain(|(_, until)| *until > now);
                changed |= gaps != inner.gaps.len();
                let freed = inner.lapse(now);
                if freed > 0 && inner.breaker.state() == breaker::State::Probing {
                    // One slot fewer is open beside the probe's.
                    inner.todo.beat = true;
                    changed = true;
                }
                let gone = inner.gone_at.is_some_and(|at| now - at > FORGET_AFTER);
                if here {
                    counts[inner.health() as usize] += 1;
                }
                let looked = inner.look(now, LOOK_EVERY);
                let held = inner.held.len();
                (changed, gone && held == 0, freed, looked, held)
            };
            for _ in 0..freed {
                self.slot_came_back(&node);
            }
            if changed {
                self.refresh(&node);
                self.sync(&node);
            }
            if rests {
                self.shared.fleet.fade(&node.id);
            }
            // Whatever went wrong on the way, a slot that nobody has does not count as taken for long.
            if look && self.shared.fleet.used(&node.id) as usize > held {
                self.recount(&node);
            }
            if forget {
                self.forget(&node);
            }
        }
        self.shared.metrics.set_nodes(counts);
    }

    fn forget(self: &Arc<Self>, node: &Arc<NodeState>) {
        self.table.write().remove(&node.id);
        self.shared.fleet.remove(&node.id);
        if node.lock().elsewhere.is_some() {
            return;
        }
        let (nodes, id) = (Arc::clone(self), node.id.clone());
        tasks::spawn("forget a node", async move {
            let _ = nodes.shared.store.nodes.forget(&id, FORGET_AFTER).await;
        });
    }
}

impl Todo {
    fn any(&self) -> bool {
        self.put || self.beat || self.report.is_some() || self.count.is_some()
    }
}

/// What the store is to be told next of a node.
enum Update {
    /// Nothing.
    None,
    /// This.
    Now(Todo),
    /// Something, once its rate allows it.
    Later(Duration),
}

impl NodeState {
    /// Takes what the store is to be told, if the node's rate allows it; whoever asks is no longer the
    /// one who tells it if there is nothing.
    fn next_update(&self, rate: Rate, now: Instant) -> Update {
        let mut inner = self.lock();
        if inner.elsewhere.is_some() {
            inner.todo = Todo::default();
        }
        if !inner.todo.any() {
            inner.syncing = false;
            return Update::None;
        }
        match inner.store_use.updates.take(rate, 1, now) {
            Ok(()) => Update::Now(std::mem::take(&mut inner.todo)),
            Err(wait) => Update::Later(wait),
        }
    }

    /// The node no longer has this attempt: its job looks after the slot. Says whether there is no
    /// such job any more.
    pub(super) fn dropped(&self, token: LeaseToken) -> bool {
        let mut inner = self.lock();
        if inner.held.get(&token.job).is_none_or(|held| held.token != token) {
            return false;
        }
        let held = inner.held.remove(&token.job).and_then(|held| held.job);
        match held {
            Some(job) => {
                let _ = job.try_send(JobEvent::Dropped { attempt: token.attempt });
                false
            }
            None => true,
        }
    }
}

impl Inner {
    /// Forgets attempts that were given up and whose leases are over. Says how many.
    fn lapse(&mut self, now: Instant) -> usize {
        let before = self.held.len();
        for held in self.held.values_mut().filter(|held| held.until.is_some_and(|at| at <= now)) {
            held.job = None;
        }
        self.held.retain(|_, held| held.job.is_some() || held.renewed + held.lease > now);
        before - self.held.len()
    }
}
