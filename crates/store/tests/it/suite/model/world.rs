//! What a store must answer: lists of things with their ends, and the contract read aloud.
//!
//! Written from the contracts of the traits and from nothing else; slow, flat and in plain sight.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::node::Health;
use lingua_core::slots::{Commit, Confirmed, Usage};
use lingua_core::{LeaseToken, Moment};
use lingua_store::Instance;
use lingua_store::jobs::{Assign, Assignment, Create, Finish, JobRecord};
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
    /// `Some(None)`: by its owner.
    ended_by: Option<Option<Assignment>>,
}

impl Node {
    fn used(&self, now: Moment) -> u32 {
        self.leases.iter().filter(|lease| lease.until > now).count() as u32
    }

    fn recovering(&self, now: Moment) -> bool {
        match self.record.as_ref().map(|record| record.trust) {
            Some(Trust::Unconfirmed) => true,
            Some(Trust::HeldUntil(until)) => until > now,
            Some(Trust::Full) | None => false,
        }
    }

    fn remove(&mut self, token: LeaseToken) -> Option<Lease> {
        let at = self.leases.iter().position(|lease| lease.token == token)?;
        Some(self.leases.remove(at))
    }

    fn reserve(
        &mut self,
        now: Moment,
        token: LeaseToken,
        refusal: Option<Refusal>,
        lease: Duration,
    ) -> Reserve {
        match self.leases.iter().find(|lease| lease.token == token) {
            Some(lease) if lease.until > now => return Reserve::Already { until: lease.until },
            Some(_) => return Reserve::Spent,
            None if self.spent.contains(&token) => return Reserve::Spent,
            None => {}
        }
        if let Some(refusal) = refusal {
            return Reserve::Refused(refusal);
        }
        let (used, max) = (self.used(now), self.max());
        if used >= max {
            return Reserve::Full { used, max };
        }
        let until = now + lease;
        self.leases.push(Lease { token, running: false, until });
        Reserve::Granted { until, used: used + 1 }
    }

    fn refusal(&self, now: Moment, cast: &Cast, profile: usize, model: bool) -> Option<Refusal> {
        let Some(record) = &self.record else { return Some(Refusal::UnknownNode) };
        if record.profile != profile {
            return Some(Refusal::Changed(cast.version(record.profile)));
        }
        if record.vitals.health != Health::Ready {
            return Some(Refusal::Closed);
        }
        if record.fresh_until <= now {
            return Some(Refusal::Stale);
        }
        match record.trust {
            Trust::Unconfirmed => return Some(Refusal::Unconfirmed),
            Trust::HeldUntil(until) if until > now => return Some(Refusal::Held(until)),
            _ => {}
        }
        let missing = self.missing_model_until.is_some_and(|until| until > now);
        (model && missing).then_some(Refusal::MissingModel)
    }

    fn max(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.vitals.max)
    }

    fn commit(&mut self, now: Moment, token: LeaseToken, lease: Duration, max: u32) -> Commit {
        let known = self.leases.iter().find(|lease| lease.token == token).copied();
        let live = known.is_some_and(|lease| lease.until > now);
        let regainable = known.is_some() || (self.recovering(now) && !self.spent.contains(&token));
        if !live && (!regainable || self.used(now) >= max) {
            return Commit::Lost;
        }
        self.remove(token);
        let until = now + lease;
        self.leases.push(Lease { token, running: true, until });
        match known {
            Some(lease) if live && lease.running => Commit::Already(until),
            Some(_) if live => Commit::Committed(until),
            _ => Commit::Regained(until),
        }
    }

    fn release(&mut self, now: Moment, token: LeaseToken) -> bool {
        let freed = self.remove(token).is_some_and(|lease| lease.until > now);
        self.spent.push(token);
        freed
    }

    fn confirm(
        &mut self,
        now: Moment,
        epoch: u64,
        running: Option<Vec<LeaseToken>>,
        lease: Duration,
        hold: Duration,
    ) -> Confirm {
        let recovering = self.recovering(now);
        let Some(record) = &mut self.record else { return Confirm::Unknown };
        if record.epoch > epoch {
            return Confirm::Superseded { epoch: record.epoch };
        }
        let max = if recovering { u32::MAX } else { record.vitals.max };
        let unconfirmed = record.trust == Trust::Unconfirmed;
        let held = Trust::HeldUntil(now + if running.is_some() { hold } else { 2 * hold });
        let mut confirmed = Confirmed::default();
        if let Some(running) = running {
            let recent = now + (lease - GRACE);
            let gone = |lease: &&Lease| {
                lease.running
                    && lease.until > now
                    && lease.until <= recent
                    && !running.contains(&lease.token)
            };
            confirmed.dropped = self.leases.iter().filter(gone).map(|l| l.token).collect();
            confirmed.dropped.sort_by_key(ToString::to_string);
            // What it no longer runs makes room for what it runs, or a second report would find
            // room that the first one did not.
            for token in &confirmed.dropped {
                self.release(now, *token);
            }
            for token in running {
                if self.commit(now, token, lease, max) == Commit::Lost {
                    confirmed.unknown.push(token);
                }
            }
        }
        if let Some(record) = self.record.as_mut().filter(|_| unconfirmed) {
            record.trust = held;
        }
        Confirm::Confirmed(confirmed)
    }
}

impl Job {
    fn attempt(&self) -> u32 {
        self.record.assignment.as_ref().map_or(0, |current| current.token.attempt)
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
        match step.clone() {
            Step::Put { node, owner, claim, profile, vitals, known } => {
                let owner = cast.instances[owner].clone();
                let record = &mut self.nodes[node].record;
                let before = record.as_ref().map(|record| record.epoch);
                let epoch = match claim {
                    Claim::Newest => next_epoch(before, now),
                    Claim::Again(epoch) => epoch,
                };
                if let Some(newer) = before.filter(|before| *before > epoch) {
                    return Answer::Put(Put::Superseded { epoch: newer });
                }
                let replaced = record.as_ref().map(|record| record.owner.clone());
                let replaced = replaced.filter(|before| *before != owner);
                let new = if known { Trust::Unconfirmed } else { Trust::Full };
                let trust = record.as_ref().map_or(new, |record| record.trust);
                let fresh_until = now + vitals.fresh_for;
                *record = Some(Record { epoch, owner, profile, vitals, fresh_until, trust });
                Answer::Put(Put::Stored { epoch, replaced })
            }
            Step::Beat { node, epoch, profile, vitals } => {
                Answer::Beat(match &mut self.nodes[node].record {
                    Some(record) if record.epoch > epoch => {
                        BeatReply::Superseded { epoch: record.epoch }
                    }
                    Some(record) if record.epoch == epoch && record.profile == profile => {
                        record.vitals = vitals;
                        record.fresh_until = now + vitals.fresh_for;
                        BeatReply::Kept { confirmed: record.trust != Trust::Unconfirmed }
                    }
                    _ => BeatReply::PutAgain,
                })
            }
            Step::Offline { node, epoch } => Answer::Fenced(match &mut self.nodes[node].record {
                Some(record) if record.epoch > epoch => Fenced::Superseded { epoch: record.epoch },
                Some(record) => {
                    record.vitals.health = Health::Offline;
                    Fenced::Done
                }
                None => Fenced::Unknown,
            }),
            Step::Gap { node, lasting } => {
                let node = &mut self.nodes[node];
                if node.record.is_some() {
                    node.missing_model_until = node.missing_model_until.max(Some(now + lasting));
                }
                Answer::Noted
            }
            Step::Reserve { node, token, profile, model, lease } => {
                let node = &mut self.nodes[node];
                let refusal = node.refusal(now, cast, profile, model);
                Answer::Reserve(node.reserve(now, cast.tokens[token], refusal, lease))
            }
            Step::Commit { node, token, lease } => {
                let max = self.nodes[node].max();
                Answer::Commit(self.nodes[node].commit(now, cast.tokens[token], lease, max))
            }
            Step::Renew { node, token, lease } => {
                let token = cast.tokens[token];
                let renewed = self.nodes[node]
                    .leases
                    .iter_mut()
                    .find(|lease| lease.token == token && lease.running && lease.until > now);
                Answer::Renew(renewed.map(|known| {
                    known.until = now + lease;
                    known.until
                }))
            }
            Step::Release { node, token } => {
                Answer::Release(self.nodes[node].release(now, cast.tokens[token]))
            }
            Step::Confirm { node, epoch, running, lease, hold } => {
                let running =
                    running.map(|running| running.into_iter().map(|t| cast.tokens[t]).collect());
                Answer::Confirm(self.nodes[node].confirm(now, epoch, running, lease, hold))
            }
            Step::Create { job, epoch, first, deadline_in } => {
                let newer = self.session.as_ref().map(|owner| owner.epoch);
                let newer = newer.filter(|newer| epoch.is_some_and(|epoch| epoch < *newer));
                Answer::Create(match (&self.jobs[job], newer) {
                    (_, Some(epoch)) => Create::Superseded { epoch },
                    (Some(known), None) => Create::Exists(known.record.clone()),
                    (None, None) => {
                        let deadline = now + deadline_in;
                        let state =
                            if first.is_some() { JobState::Dispatched } else { JobState::New };
                        let record = JobRecord {
                            session: cast.session.clone(),
                            state,
                            assignment: first.map(|first| cast.assignment(first)),
                            deadline,
                            code: String::new(),
                        };
                        self.jobs[job] = Some(Job { record, ended_by: None });
                        Create::Created
                    }
                })
            }
            Step::Assign { job, to } => {
                let to = cast.assignment(to);
                Answer::Assign(match &mut self.jobs[job] {
                    None => Assign::Unknown,
                    Some(job) if job.record.state.is_terminal() => Assign::Ended(job.record.state),
                    Some(job) if job.record.assignment.as_ref() == Some(&to) => Assign::Assigned,
                    Some(job) if to.token.attempt <= job.attempt() => {
                        Assign::Stale { attempt: job.attempt() }
                    }
                    Some(_) if to.token.attempt > MAX_ATTEMPTS => Assign::Exhausted,
                    Some(job) => {
                        job.record.state = JobState::Dispatched;
                        job.record.assignment = Some(to);
                        Assign::Assigned
                    }
                })
            }
            Step::Finish { job, by, state, code } => {
                let by = by.map(|by| cast.assignment(by));
                Answer::Finish(match &mut self.jobs[job] {
                    None => Finish::Unknown,
                    Some(job) if by.is_some() && by != job.record.assignment => {
                        Finish::Stale { attempt: job.attempt() }
                    }
                    Some(job) if job.record.state.is_terminal() => {
                        // A node's attempt ends once; an owner's endings differ by their code.
                        let same_code = by.is_some() || job.record.code == code;
                        let same_way = job.record.state == state && same_code;
                        if same_way && job.ended_by == Some(by) {
                            Finish::Repeated
                        } else {
                            Finish::Ended(job.record.state)
                        }
                    }
                    Some(job) => {
                        job.record.state = state;
                        job.record.code = code.to_owned();
                        job.ended_by = Some(by);
                        Finish::Finished
                    }
                })
            }
            Step::Claim { owner, ttl } => {
                let instance = cast.instances[owner].clone();
                let epoch = next_epoch(self.session.as_ref().map(|owner| owner.epoch), now);
                let before = self.session.take().filter(|before| before.until > now);
                let replaced = before.map(|before| before.instance);
                let replaced = replaced.filter(|before| *before != instance);
                self.session = Some(Owner { instance, epoch, until: now + ttl });
                Answer::Claimed(Claimed { epoch, replaced })
            }
            Step::Keep { owner, epoch, ttl } => Answer::Fenced(match &self.session {
                Some(known) if known.epoch > epoch => Fenced::Superseded { epoch: known.epoch },
                _ => {
                    let instance = cast.instances[owner].clone();
                    self.session = Some(Owner { instance, epoch, until: now + ttl });
                    Fenced::Done
                }
            }),
            Step::GiveUp { epoch } => Answer::Fenced(match &mut self.session {
                Some(known) if known.epoch > epoch => Fenced::Superseded { epoch: known.epoch },
                Some(known) => {
                    known.until = known.until.min(now);
                    Fenced::Done
                }
                None => Fenced::Unknown,
            }),
            Step::Usage { node } => {
                let count = |running| {
                    let live = self.nodes[node].leases.iter().filter(|l| l.until > now);
                    live.filter(|lease| lease.running == running).count() as u32
                };
                Answer::Usage(Usage { reserved: count(false), running: count(true) })
            }
            Step::Node { node } => Answer::Node(self.node(now, cast, node)),
            Step::Job { job } => {
                Answer::Job(self.jobs[job].as_ref().map(|known| known.record.clone()))
            }
            Step::Owner => Answer::Owner(self.session.clone().filter(|owner| owner.until > now)),
        }
    }

    fn node(&self, now: Moment, cast: &Cast, node: usize) -> Option<NodeRecord> {
        let record = self.nodes[node].record.as_ref()?;
        let gap = self.nodes[node].missing_model_until.filter(|until| *until > now);
        Some(NodeRecord {
            node: cast.nodes[node].clone(),
            epoch: record.epoch,
            owner: record.owner.clone(),
            profile: cast.profiles[record.profile].clone(),
            version: cast.version(record.profile),
            max: record.vitals.max,
            health: record.vitals.health,
            overloaded: record.vitals.overloaded,
            fresh_until: record.fresh_until,
            gaps: gap.map(|until| (cast.model.clone(), until)).into_iter().collect(),
            order: Order::Serve,
            read_at: Moment::ZERO,
        })
    }
}
