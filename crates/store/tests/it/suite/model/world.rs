//! What a store must answer: lists of things with their ends, and the contract read aloud.
//!
//! Written from the contracts of the traits and from nothing else; slow, flat and in plain sight.

mod node;
mod steps;

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::node::Health;
use lingua_core::slots::{Commit, Confirmed, Usage};
use lingua_core::{LeaseToken, Moment};
use lingua_store::Instance;
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Finish, JobRecord};
use lingua_store::nodes::{BeatReply, Claim, Fenced, NodeRecord, Order, Put, Vitals};
use lingua_store::owners::{Claimed, Owner};
use lingua_store::slots::{Confirm, Refusal, Reserve};

use super::cast::{Cast, JOBS, MAX_ATTEMPTS, NODES};
use super::step::{Answer, GRACE, KEPT, Step};

#[derive(Clone, PartialEq, Debug)]
pub struct World {
    nodes: Vec<Node>,
    jobs: Vec<Option<Job>>,
    session: Option<Owner>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Node {
    record: Option<Record>,
    /// Live and lapsed.
    leases: Vec<Lease>,
    spent: Vec<LeaseToken>,
    missing_model_until: Option<Moment>,
}

#[derive(Clone, PartialEq, Debug)]
struct Record {
    epoch: u64,
    owner: Instance,
    profile: usize,
    vitals: Vitals,
    fresh_until: Moment,
    trust: Trust,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Trust {
    Full,
    Unconfirmed,
    HeldUntil(Moment),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Lease {
    token: LeaseToken,
    running: bool,
    until: Moment,
}

#[derive(Clone, PartialEq, Debug)]
struct Job {
    record: JobRecord,
    ended_by: Option<EndedBy>,
}

impl Job {
    fn attempt(&self) -> u32 {
        self.record.assignment.as_ref().map_or(0, |current| current.token.attempt)
    }

    /// Whether this is an assignment other than the current one.
    fn is_stale(&self, by: &EndedBy) -> bool {
        matches!(by, EndedBy::Assignment(by) if Some(by) != self.record.assignment.as_ref())
    }
}

/// Not below the clock, and above what was.
fn next_epoch(previous: Option<u64>, now: Moment) -> u64 {
    previous.map_or(0, |epoch| epoch + 1).max(now.as_millis())
}

impl World {
    pub fn new() -> Self {
        World { nodes: vec![Node::default(); NODES], jobs: vec![None; JOBS], session: None }
    }

    /// The same world with jobs forgotten whose time is over. One that ends right now may be
    /// forgotten or not: servers do it in the millisecond after.
    pub fn forgetting(&self, now: Moment) -> Vec<World> {
        let mut worlds = vec![self.clone()];
        for job in 0..JOBS {
            let Some(known) = &self.jobs[job] else { continue };
            let end = known.record.deadline + KEPT;
            if end > now {
                continue;
            }
            let forgotten = worlds.iter().cloned().map(|mut world| {
                world.jobs[job] = None;
                world
            });
            let forgotten: Vec<_> = forgotten.collect();
            if end < now {
                worlds.clear();
            }
            worlds.extend(forgotten);
        }
        worlds
    }

    /// Makes equal what differs only by when it ended: no answer depends on it any more.
    pub fn settle(&mut self, now: Moment) {
        for node in &mut self.nodes {
            for lease in node.leases.iter_mut().filter(|lease| lease.until <= now) {
                lease.until = Moment::ZERO;
            }
            node.missing_model_until = node.missing_model_until.filter(|until| *until > now);
            if let Some(record) = &mut node.record
                && matches!(record.trust, Trust::HeldUntil(until) if until <= now)
            {
                record.trust = Trust::Full;
            }
        }
        if let Some(owner) = self.session.as_mut().filter(|owner| owner.until <= now) {
            owner.until = Moment::ZERO;
        }
    }

    /// Whether something ends by itself after `from` and not after `to`.
    pub fn ends_within(&self, from: Moment, to: Moment) -> bool {
        let nodes = self.nodes.iter().flat_map(|node| {
            let record = node.record.iter().flat_map(|record| {
                let held = match record.trust {
                    Trust::HeldUntil(until) => Some(until),
                    _ => None,
                };
                held.into_iter().chain([record.fresh_until])
            });
            let leases = node.leases.iter().map(|lease| lease.until);
            record.chain(leases).chain(node.missing_model_until)
        });
        let jobs = self.jobs.iter().flatten().flat_map(|job| {
            let end = job.record.deadline + KEPT;
            [end, end + Duration::from_millis(1)]
        });
        let owner = self.session.iter().map(|owner| owner.until);
        nodes.chain(jobs).chain(owner).any(|end| from < end && end <= to)
    }

    /// What `step` is answered at `now`, and what it changes.
    pub fn apply(&mut self, now: Moment, cast: &Cast, step: &Step) -> Answer {
        let answer = self
            .about_nodes(now, cast, step)
            .or_else(|| self.about_slots(now, cast, step))
            .or_else(|| self.about_jobs(now, cast, step))
            .or_else(|| self.about_owner(now, cast, step));
        answer.expect("every step is about one of them")
    }
}
