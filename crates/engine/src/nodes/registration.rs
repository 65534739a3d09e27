//! Registrations and heartbeats of nodes.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::Timing;
use lingua_core::link::{
    Acquaintance, Audience, Breaker, Event, HEARTBEATS_UNTIL_OVERDUE, HealthFacts, NewAttempt,
    Reputation, Trust, event,
};
use lingua_core::node::{CapabilityError, Declaration, Health, NodeProfile};
use lingua_core::outcome::Code;
use lingua_core::planted::{self, Flaw};
use lingua_core::time::millis;
use lingua_core::{JobId, NodeId};
use lingua_store::nodes::{Claim, Order, ProfileVersion, Put, Registration, Vitals};

use super::limits::{LOOKUPS, REGISTRATIONS};
use super::{
    Arrival, Connection, Heartbeat, MAX_NODES, NodeHandle, Nodes, Register, Registered, Supports,
    gap_name,
};
use crate::job::{Refusal, store_down};

impl Nodes {
    /// Makes the connection the node's newest one. An older one of the same node is told to close.
    pub async fn register(self: &Arc<Self>, wish: Register) -> Result<Registered, Refusal> {
        self.register_over(wish, None).await
    }

    /// The same over a connection that the node has registered already: attempts that were sent over it go on.
    pub async fn register_over(
        self: &Arc<Self>,
        wish: Register,
        over: Option<&Connection>,
    ) -> Result<Registered, Refusal> {
        let registered = self.try_register(wish, over).await;
        self.shared().metrics.registration(match &registered {
            Ok(Registered { resumed: true, .. }) => "back",
            Ok(_) => "new",
            Err(refusal) => status_of(refusal.code),
        });
        registered
    }

    async fn try_register(
        self: &Arc<Self>,
        wish: Register,
        over: Option<&Connection>,
    ) -> Result<Registered, Refusal> {
        let (id, health, supports) = (wish.node.clone(), wish.health, wish.supports);
        let profile = profile_of(wish.declaration, supports)?;
        self.may_register(&id)?;
        let known = self.get(&id);
        if known.is_none() && self.host.table.read().len() >= MAX_NODES {
            return Err(too_many_nodes());
        }
        let shared = self.shared();
        let heartbeat = heartbeat_of(&shared.settings.timing, supports);
        let (order, reputation) = self.known_in_store(&id).await?;
        if order == Order::Block {
            return Err(blocked());
        }
        let begins = match &known {
            Some(node) => node.lock().machine.trust_and_breaker(wish.arrival),
            None => self.begins_with(wish.arrival, reputation.as_ref()),
        };
        let counted = wish.running_jobs.and_then(|jobs| usize::try_from(jobs).ok());
        let runs = wish.running.as_ref().map(Vec::len).or(counted);
        let knows = self.acquaintance(&id, known.is_some(), runs);
        let registration = Registration {
            claim: Claim::Newest,
            owner: shared.instance.clone(),
            profile: profile.clone(),
            vitals: first_vitals(begins, health, order, profile.max_slots, heartbeat),
            known: !knows.vouches(),
        };
        // The record is written before the node counts here: a store that is down refuses it.
        let (epoch, moved) = match self.put_newest(&id, registration).await {
            Ok(Put::Stored { epoch, replaced }) => (epoch, replaced.is_some()),
            Ok(Put::Superseded { .. }) => return Err(newer("a newer connection of it is there")),
            Err(error) => return Err(store_down(&error)),
        };
        let slots = profile.max_slots;
        let registered = event::Registered {
            epoch,
            over: over.map(|connection| connection.epoch),
            version: ProfileVersion::of(&profile).bits(),
            profile: Arc::new(profile),
            health,
            supports,
            arrival: wish.arrival,
            order,
            heartbeat,
            lists_running: wish.reports,
            running: wish.running.map(|running| self.own_ids(running)),
            moved,
            percents: wish.detail.percents,
            // A node that had a record has waited already, or the store makes it wait.
            hold: knows.hold().filter(|_| !moved),
            at_ms: shared.clock.now().as_millis(),
            reputation,
        };
        let node = self.node_for(&id, epoch, |node| {
            node.lock().detail = Arc::new(wish.detail);
            // A report that is too long is refused with the next heartbeat.
            node.connect(wish.out, Event::Registered(Box::new(registered)));
        })?;
        let resumed = known.is_some();
        tracing::info!(node.id = %id, epoch, resumed, slots, "node registered");
        let ready = health == Health::Ready;
        let connection = Connection { node, epoch };
        Ok(Registered { connection, epoch, heartbeat, ready, resumed })
    }

    /// What the store knows of the node apart from its record, read together.
    async fn known_in_store(&self, id: &NodeId) -> Result<(Order, Option<Reputation>), Refusal> {
        let store = &self.shared().store;
        let (order, known) = tokio::join!(store.orders.get(id), store.reputations.read(id));
        let order = order.map_err(|error| store_down(&error))?;
        match known {
            Ok(known) => Ok((order, known)),
            Err(error @ lingua_store::Error::Corrupt { .. }) => {
                tracing::warn!(node.id = %id, %error, "what is known of the node cannot be read");
                Ok((order, None))
            }
            Err(error) => Err(store_down(&error)),
        }
    }

    /// Trust and breaker of a node that has no machine here yet.
    fn begins_with(&self, arrival: Arrival, known: Option<&Reputation>) -> (Trust, Breaker) {
        let settings = &self.shared().settings;
        let memory = known.and_then(|known| known.trust);
        let trust = Trust::recalled(settings.slow_start, arrival, memory);
        let past = known.map(|known| known.breaker).unwrap_or_default();
        (trust, Breaker::recalled(past, self.host.now(), &settings.breaker))
    }

    /// What this instance knows of a node that reports to run so many jobs.
    fn acquaintance(&self, id: &NodeId, known: bool, runs: Option<usize>) -> Acquaintance {
        let settings = &self.shared().settings;
        Acquaintance {
            known: known || self.host.peers().epoch(id).is_some(),
            runs,
            process_age: self.host.since.elapsed(),
            longest_lease: Duration::from_millis(settings.restart_hold_ms),
        }
    }

    /// Writes the record of a new connection, with an epoch above all that are known here: that of a
    /// promoted server whose clock is behind would not be.
    async fn put_newest(
        &self,
        id: &NodeId,
        mut registration: Registration,
    ) -> lingua_store::Result<Put> {
        let nodes = &self.shared().store.nodes;
        let known = self.epoch(id).max(self.host.peers().epoch(id)).unwrap_or(0);
        let known = if planted::on(Flaw::EpochsByServerClock) { 0 } else { known };
        match nodes.put(id, &registration).await? {
            Put::Stored { epoch, replaced } if epoch <= known => {
                registration.claim = Claim::Again(known + 1);
                Ok(match nodes.put(id, &registration).await? {
                    Put::Stored { epoch, .. } => Put::Stored { epoch, replaced },
                    newer @ Put::Superseded { .. } => newer,
                })
            }
            put => Ok(put),
        }
    }

    /// The node of the table, made if it is not there, with its new connection.
    fn node_for(
        &self,
        id: &NodeId,
        epoch: u64,
        connect: impl FnOnce(&NodeHandle),
    ) -> Result<Arc<NodeHandle>, Refusal> {
        let node = {
            let mut table = self.host.table.write();
            let made = || NodeHandle::new(id.clone(), Arc::clone(&self.host));
            Arc::clone(table.entry(id.clone()).or_insert_with(made))
        };
        if node.lock().machine.epoch() > epoch {
            return Err(newer("a newer connection of this node registered at the same time"));
        }
        let timing = &self.shared().settings.timing;
        let longest = Duration::from_millis(timing.deadline_ms + timing.margin_ms);
        let wanted_until = Some(self.moment_in(longest));
        for attempt in self.host.peers().take_attempts(id) {
            node.apply(Event::Adopted(NewAttempt { wanted_until, ..attempt }));
        }
        connect(&node);
        // If the node was forgotten in between, the connection was not known there.
        let mut table = self.host.table.write();
        table.entry(id.clone()).or_insert_with(|| Arc::clone(&node));
        drop(table);
        Ok(node)
    }

    /// Applies a heartbeat. If its list of running jobs is too long, only the list is refused.
    pub fn heartbeat(&self, from: &Connection, beat: Heartbeat) -> Result<(), Refusal> {
        let node = &from.node;
        let supports = node.lock().machine.supports_of(from.epoch);
        let Some(supports) = supports else {
            return Err(Refusal::new(Code::NotFound, "register again"));
        };
        let profile = match beat.declaration {
            Some(declaration) => Some(profile_of(declaration, supports)?),
            None => None,
        };
        {
            let mut state = node.lock();
            if state.machine.order() == Order::Block {
                return Err(blocked());
            }
            if !beat.percents.is_empty() {
                Arc::make_mut(&mut state.detail).percents = beat.percents;
            }
        }
        let with_version = |profile: NodeProfile| {
            let version = ProfileVersion::of(&profile).bits();
            (Arc::new(profile), version)
        };
        let beat_event = event::Heartbeat {
            profile: profile.map(with_version),
            health: beat.health,
            running: beat.running.map(|running| self.own_ids(running)),
            running_count: beat.running_jobs,
            percents: beat.percents,
        };
        let applied = node.apply(Event::Heartbeat { epoch: from.epoch, beat: beat_event });
        if let Some(services) = beat.services {
            self.services_run(node, services);
        }
        match applied.report_refused {
            Some((unknown, wait)) => Err(self.too_many_unknown(unknown, wait)),
            None => Ok(()),
        }
    }

    /// The own ids of jobs that a node names by masked ids.
    fn own_ids(&self, named: Vec<(JobId, u32)>) -> Vec<(JobId, u32)> {
        let own = |(masked, attempt)| (self.shared().secret.masked(masked), attempt);
        named.into_iter().map(own).collect()
    }

    /// A node reports which services run: gaps of these are closed.
    fn services_run(&self, node: &Arc<NodeHandle>, running: Vec<String>) {
        let before = node.lock().services.replace(running.clone());
        self.end_marks(&node.id, &running);
        let closed = running.iter().filter_map(|service| gap_name(service)).collect();
        node.apply(Event::GapsClosed(closed));
        // The instance of a job that failed for want of a service has the mark, and may be another one.
        let begun = before.map(|known| {
            running.into_iter().filter(|id| !known.contains(id)).collect::<Vec<String>>()
        });
        if let Some(services) = begun.filter(|begun| !begun.is_empty()) {
            self.host.peers().services_run(&node.id, services);
        }
    }

    /// Whether the node may register once more.
    fn may_register(&self, id: &NodeId) -> Result<(), Refusal> {
        self.registrations.take(id, self.host.now()).map_err(|wait| {
            let most = self.shared().settings.node_limits.registrations_per_min;
            let detail = format!("a node may register {most} times a minute");
            self.limited(REGISTRATIONS, detail, wait)
        })
    }

    /// Whether the node may have one more job looked up that this instance does not know.
    pub fn may_look_up(&self, from: &Connection) -> Result<(), Refusal> {
        let taken = from.node.lock().machine.may_look_up(self.host.now());
        taken.map_err(|wait| self.too_many_unknown(1, wait))
    }

    fn too_many_unknown(&self, jobs: usize, wait: Duration) -> Refusal {
        let most = self.shared().settings.node_limits.lookups_per_s;
        let detail = format!(
            "{jobs} jobs that this instance does not know; a node may name {most} a second"
        );
        self.limited(LOOKUPS, detail, wait)
    }

    fn limited(&self, limit: &'static str, detail: String, wait: Duration) -> Refusal {
        self.shared().metrics.limited(limit);
        Refusal::new(Code::RateLimited, detail).retry_after(millis(wait).max(1))
    }
}

/// A node that registers, as other instances see it.
fn first_vitals(
    (trust, breaker): (Trust, Breaker),
    declared: Health,
    order: Order,
    max_slots: u32,
    heartbeat: Duration,
) -> Vitals {
    let facts = HealthFacts {
        connected: true,
        declared,
        order,
        breaker: breaker.state(),
        aside: breaker.is_aside(),
        overdue: false,
        held_back: false,
    };
    Vitals {
        max: trust.open(max_slots),
        health: facts.health(Audience::Instances),
        overloaded: false,
        fresh_for: heartbeat * HEARTBEATS_UNTIL_OVERDUE,
    }
}

/// Why a registration was refused, as it is counted.
fn status_of(code: Code) -> &'static str {
    match code {
        Code::RateLimited | Code::QuotaExceeded => "limited",
        Code::Forbidden => "blocked",
        Code::NodeIdConflict => "conflict",
        Code::SchedulerDependencyDown => "store_down",
        _ => "invalid",
    }
}

fn blocked() -> Refusal {
    Refusal::new(Code::Forbidden, "an administrator blocked this node")
}

fn too_many_nodes() -> Refusal {
    let full = "this instance has as many nodes as it can hold; try another one";
    Refusal::new(Code::QuotaExceeded, full).retry_after(5_000)
}

fn newer(detail: &str) -> Refusal {
    Refusal::new(Code::NodeIdConflict, detail)
}

fn profile_of(declaration: Declaration, supports: Supports) -> Result<NodeProfile, Refusal> {
    let profile =
        NodeProfile::from_declaration(declaration).map_err(|error: CapabilityError| {
            Refusal::new(Code::InvalidCapability, error.to_string())
        })?;
    Ok(NodeProfile { agent: supports.bits(), ..profile })
}

/// How often a node is to send a heartbeat.
fn heartbeat_of(timing: &Timing, supports: Supports) -> Duration {
    let modern = supports.any();
    Duration::from_millis(if modern { timing.heartbeat_ms } else { timing.compat_heartbeat_ms })
}
