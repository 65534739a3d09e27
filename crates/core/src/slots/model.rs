//! Every order of events of one small node, by breadth-first search: grants, acks, ends and reports over a
//! store that loses what its replica did not have, an instance that dies, and time that passes. The
//! step function is [`Leases`] itself; what is written down here is what its callers promise.
//!
//! What must hold in every state:
//!
//! - the node never has more jobs, running or on their way, than it has slots (I1, I12),
//! - no lease lasts longer than one lease from now (I2), and none is held twice,
//! - while nothing was lost, no more slots are taken than there are,
//! - a token that was released holds nothing, unless the store lost the release (I7).

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::tests::token;
use super::*;

/// One unit of the model's time.
const TICK: Duration = Duration::from_millis(1);
const RESERVE: u64 = 2;
const RUNNING: u64 = 3;

fn ticks(n: u64) -> Duration {
    TICK * n as u32
}

/// How large the world is, and what is broken in it.
#[derive(Clone, Copy)]
struct Bounds {
    jobs: usize,
    slots: u32,
    until: u64,
    losses: u8,
    /// After a loss grants wait for the node's word.
    asks: bool,
    /// After that word grants are held for one reserve lease.
    holds: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Job {
    New,
    /// Granted at this tick and not sent.
    Granted(u64),
    /// On its way to the node.
    Sent(u64),
    /// On the node, which has not said so to the store.
    Taken(u64),
    /// On the node, with a running lease.
    Acked,
    /// No longer on the node; its slot is given back later.
    Over,
    /// Its slot was given back; with whether that may have been lost.
    Released {
        lost: bool,
    },
}

impl Job {
    /// Whether it is on the node, or will be.
    fn is_there(self) -> bool {
        matches!(self, Job::Sent(_) | Job::Taken(_) | Job::Acked)
    }

    fn is_on_node(self) -> bool {
        matches!(self, Job::Taken(_) | Job::Acked)
    }
}

#[derive(Clone)]
struct World {
    now: u64,
    leases: Leases,
    confirmed: bool,
    hold_until: u64,
    /// What a promoted replica would have.
    replica: (Leases, bool, u64),
    jobs: Vec<Job>,
    /// The instance knows its jobs; one that came after another knows what the node reported.
    knows: bool,
    losses: u8,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        World {
            now: 0,
            leases: Leases::default(),
            confirmed: true,
            hold_until: 0,
            replica: (Leases::default(), true, 0),
            jobs: vec![Job::New; bounds.jobs],
            knows: true,
            losses: 0,
        }
    }

    fn at(&self) -> Moment {
        Moment::from_millis(self.now)
    }

    fn is_recovering(&self) -> bool {
        !self.confirmed || self.hold_until > self.now
    }

    /// By which two worlds are the same: everything, with what has no order in order, and what jobs
    /// that are alike are called left out.
    fn key(&self) -> u128 {
        let of = |leases: &Leases, n: usize| {
            let nonce = n as u128;
            let until = |set: &[Lease]| {
                set.iter().find(|lease| lease.token.nonce == nonce).map(|l| l.until.as_millis())
            };
            (until(&leases.reserved), until(&leases.running), leases.spent.contains(&nonce))
        };
        let mut jobs: Vec<_> = (0..self.jobs.len())
            .map(|n| (self.jobs[n], of(&self.leases, n), of(&self.replica.0, n)))
            .collect();
        jobs.sort_unstable();
        let held = self.leases.reserved.len() + self.leases.running.len();
        let rest = (self.now, self.confirmed, self.hold_until, self.knows, self.losses, held);
        let replica = (self.replica.1, self.replica.2);
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &jobs, rest, replica).hash(&mut hasher);
            hasher.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// The same a tick later, if everybody does in time what they promise.
    fn tick(&self, bounds: Bounds) -> Option<World> {
        let next = self.now + 1;
        for (n, job) in self.jobs.iter().enumerate() {
            let in_time = match *job {
                // An instance sends nothing that the node could not have accepted in time, and gives up
                // what it has not.
                Job::Granted(at) | Job::Sent(at) | Job::Taken(at) => next < at + RESERVE,
                // The node reports before its leases lapse; after a loss the store waits for it.
                Job::Acked => {
                    let live = |lease: &Lease| {
                        lease.token.nonce == n as u128 && lease.until.as_millis() > next
                    };
                    !self.confirmed || self.leases.running.iter().any(live)
                }
                Job::New | Job::Over | Job::Released { .. } => true,
            };
            if !in_time {
                return None;
            }
        }
        (next <= bounds.until).then(|| World { now: next, ..self.clone() })
    }

    /// What may happen to one job.
    fn steps_of(&self, n: usize, bounds: Bounds, out: &mut Vec<World>) {
        let token = token(n as u128);
        let with = |job: Job| {
            let mut world = self.clone();
            world.jobs[n] = job;
            world
        };
        let released = |lost: bool| {
            let mut world = with(Job::Released { lost });
            world.leases.release(self.at(), token);
            world
        };
        match self.jobs[n] {
            Job::New => {
                let granting = (self.confirmed || !bounds.asks)
                    && (self.hold_until <= self.now || !bounds.holds);
                let mut world = self.clone();
                let grant = world.leases.reserve(self.at(), token, ticks(RESERVE), bounds.slots);
                if granting && matches!(grant, Grant::Granted(_)) {
                    world.jobs[n] = Job::Granted(self.now);
                    out.push(world);
                }
            }
            Job::Granted(at) => {
                // The answer was lost, and the wish is repeated.
                let mut again = self.clone();
                again.leases.reserve(self.at(), token, ticks(RESERVE), bounds.slots);
                out.push(again);
                if self.knows {
                    out.push(with(Job::Sent(at)));
                }
                out.push(released(false));
            }
            Job::Sent(at) => {
                out.push(with(Job::Taken(at)));
                // The connection broke before it was there.
                out.push(with(Job::Over));
            }
            Job::Taken(_) => {
                let mut world = self.clone();
                let committed = world.leases.commit(
                    self.at(),
                    token,
                    ticks(RUNNING),
                    bounds.slots,
                    self.is_recovering(),
                );
                // Without a slot the node is told to stop.
                world.jobs[n] = if committed == Commit::Lost { Job::Over } else { Job::Acked };
                out.push(world);
                out.push(with(Job::Over));
            }
            Job::Acked => out.push(with(Job::Over)),
            Job::Over => {
                out.push(released(false));
                // Its ack was on its way for long.
                let mut late = self.clone();
                let recovering = self.is_recovering();
                late.leases.commit(self.at(), token, ticks(RUNNING), bounds.slots, recovering);
                out.push(late);
            }
            Job::Released { lost } => {
                // Said again, or late.
                out.push(released(lost));
                if !lost {
                    // So is the wish that came before it.
                    let mut late = self.clone();
                    late.leases.reserve(self.at(), token, ticks(RESERVE), bounds.slots);
                    out.push(late);
                }
            }
        }
    }

    /// The node says what it runs.
    fn report(&self, bounds: Bounds) -> World {
        let mut world = self.clone();
        let runs: Vec<usize> =
            (0..self.jobs.len()).filter(|n| self.jobs[*n].is_on_node()).collect();
        let tokens: Vec<LeaseToken> = runs.iter().map(|n| token(*n as u128)).collect();
        let recovering = self.is_recovering();
        let confirmed = world.leases.confirm(
            self.at(),
            &tokens,
            ticks(RUNNING),
            TICK,
            bounds.slots,
            recovering,
        );
        for n in runs {
            let unknown = confirmed.unknown.contains(&token(n as u128));
            world.jobs[n] = if unknown { Job::Over } else { Job::Acked };
        }
        if !self.confirmed {
            world.confirmed = true;
            world.hold_until = self.now + RESERVE;
        }
        world.knows = true;
        world
    }

    /// The node names jobs that it was never sent. After a loss nobody could tell.
    fn lie(&self, bounds: Bounds) -> World {
        let mut world = self.clone();
        let never = (0..self.jobs.len()).filter(|n| self.jobs[*n] == Job::New);
        let runs = (0..self.jobs.len()).filter(|n| self.jobs[*n].is_on_node());
        let named: Vec<_> = never.chain(runs).map(|n| token(n as u128)).collect();
        world.leases.confirm(self.at(), &named, ticks(RUNNING), TICK, bounds.slots, false);
        world
    }

    /// A report from before what was acked just now.
    fn report_late(&self, bounds: Bounds) -> World {
        let mut world = self.clone();
        let until = self.at() + ticks(RUNNING);
        let fresh = |n: usize| {
            self.leases.running.iter().any(|l| l.token.nonce == n as u128 && l.until == until)
        };
        let named = (0..self.jobs.len()).filter(|n| self.jobs[*n].is_on_node() && !fresh(*n));
        let named: Vec<_> = named.map(|n| token(n as u128)).collect();
        world.leases.confirm(self.at(), &named, ticks(RUNNING), TICK, bounds.slots, false);
        world
    }

    /// The store restarts, or its replica is promoted: it knows what that had.
    fn lose(&self) -> World {
        let mut world = self.clone();
        (world.leases, _, world.hold_until) = self.replica.clone();
        world.confirmed = false;
        world.losses += 1;
        for job in &mut world.jobs {
            if let Job::Released { lost } = job {
                *lost = true;
            }
        }
        world
    }

    /// The instance dies, and the node comes to another one. What was on its way is there, or never
    /// will be.
    fn move_node(&self) -> World {
        let mut world = self.clone();
        world.knows = false;
        for job in &mut world.jobs {
            if matches!(job, Job::Granted(_) | Job::Sent(_)) {
                *job = Job::Over;
            }
        }
        world
    }

    fn next(&self, bounds: Bounds) -> Vec<World> {
        let mut out = Vec::new();
        for n in 0..self.jobs.len() {
            self.steps_of(n, bounds, &mut out);
        }
        out.push(self.report(bounds));
        if self.losses == 0 {
            out.push(self.lie(bounds));
            out.push(self.report_late(bounds));
        }
        out.push(World {
            replica: (self.leases.clone(), self.confirmed, self.hold_until),
            ..self.clone()
        });
        if self.losses < bounds.losses {
            out.push(self.lose());
            out.push(self.move_node());
        }
        out.extend(self.tick(bounds));
        out
    }

    fn broken(&self, bounds: Bounds) -> Option<&'static str> {
        let there = self.jobs.iter().filter(|job| job.is_there()).count();
        if there > bounds.slots as usize {
            return Some("more jobs than slots");
        }
        let held = |n: usize| {
            let set = self.leases.reserved.iter().chain(&self.leases.running);
            set.clone().any(|l| l.token.nonce == n as u128 && l.until > self.at())
        };
        let released = |n: &usize| self.jobs[*n] == Job::Released { lost: false };
        if (0..self.jobs.len()).filter(released).any(held) {
            return Some("a released token holds a slot");
        }
        let tokens = (0..self.jobs.len()).filter(|n| held(*n)).count();
        let used = self.leases.usage(self.at()).used();
        if used as usize > tokens {
            return Some("a token holds two slots");
        }
        if self.losses == 0 && used > bounds.slots {
            return Some("more slots taken than there are");
        }
        if self.leases.usage(self.at() + ticks(RUNNING)).used() > 0 {
            return Some("a lease outlasts one lease");
        }
        None
    }
}

/// How many worlds there are, or what is wrong with one of them.
fn explore(bounds: Bounds) -> Result<usize, &'static str> {
    let first = World::new(bounds);
    let mut seen = HashSet::from([first.key()]);
    let mut worlds = vec![first];
    while !worlds.is_empty() {
        let mut later = Vec::new();
        for world in &worlds {
            for next in world.next(bounds) {
                if seen.insert(next.key()) {
                    if let Some(wrong) = next.broken(bounds) {
                        return Err(wrong);
                    }
                    later.push(next);
                }
            }
        }
        worlds = later;
    }
    Ok(seen.len())
}

const SMALL: Bounds = Bounds { jobs: 3, slots: 1, until: 4, losses: 1, asks: true, holds: true };

/// Those of `--long` are more than a million.
#[test]
fn a_node_never_has_more_jobs_than_slots_whatever_is_lost_in_whatever_order() {
    let long = std::env::var_os("LINGUA_MODEL_CASES").is_some();
    let bounds = if long { Bounds { until: 6, ..SMALL } } else { SMALL };
    let worlds = explore(bounds).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{worlds} worlds");
    assert!(worlds > if long { 1_000_000 } else { 300_000 }, "only {worlds} worlds");
}

/// The model finds what the rules after a loss are for.
#[test]
fn without_the_nodes_word_or_the_hold_after_it_a_loss_oversells() {
    for broken in [Bounds { asks: false, ..SMALL }, Bounds { holds: false, ..SMALL }] {
        assert_eq!(explore(broken), Err("more jobs than slots"));
    }
}

/// The model finds what is broken in the leases themselves.
#[cfg(feature = "planted")]
#[test]
fn broken_leases_fail_the_model() {
    use crate::planted::Planted;

    for flaw in [
        Flaw::LeaseNeverLapses,
        Flaw::LateAckTakesSlot,
        Flaw::ReleaseFreesAnother,
        Flaw::SpentTokenForgotten,
        Flaw::RepeatTakesSecondSlot,
        Flaw::ReportDropsNewer,
        Flaw::UnknownJobsGetSlots,
    ] {
        let planted = Planted::new([flaw]);
        let found = explore(SMALL);
        drop(planted);
        println!("{flaw}: {found:?}");
        assert!(found.is_err(), "{flaw}");
    }
}
