//! Which fault happens when, and to whom: drawn from a seed before anything is started.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::options::{Options, Store};

mod fault;

pub use fault::{Fault, Kind, Way, Wire};

/// Nothing fails before everybody has begun.
const FIRST_AFTER: Duration = Duration::from_secs(5);

/// How often a fault that does not fit beside the others is drawn anew.
const DRAWS: usize = 50;

/// Faults at the same time.
const AT_ONCE: usize = 5;

/// How likely a second scheduler is away beside one that already is.
const DOUBLE: f64 = 0.15;

/// A store that was hurt is left alone for that long, to be whole again.
const STORE_REST: Duration = Duration::from_secs(6);

/// A process that was killed needs that long to be back.
const START_TIME: Duration = Duration::from_secs(3);

/// All faults of a run, in the order in which they begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What happens.
    pub faults: Vec<Planned>,
}

/// One fault with its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Its number.
    pub id: usize,
    /// When, in milliseconds from the beginning of the run.
    pub at_ms: u64,
    /// How long it lasts, or how long a killed process stays away.
    pub lasts_ms: u64,
    /// The fault itself.
    pub fault: Fault,
}

/// What is there to be hurt.
#[derive(Debug, Clone, Copy)]
struct Victims {
    store: Store,
    schedulers: usize,
    node_processes: usize,
    speaker_processes: usize,
}

impl Plan {
    /// The faults of a run; the same for the same options.
    pub fn draw(options: &Options) -> Self {
        let victims = Victims {
            store: options.store,
            schedulers: options.schedulers,
            node_processes: options.node_processes(),
            speaker_processes: options.speaker_processes(),
        };
        let mut dice = SmallRng::seed_from_u64(options.seed);
        let total = options.lasts.saturating_sub(FIRST_AFTER);
        let mean = total.div_f64(f64::from(options.faults.max(1)));
        let mut faults: Vec<Planned> = Vec::new();
        for id in 0..options.faults as usize {
            // Evenly spread with jitter: neither a long quiet time nor all at once.
            let at = FIRST_AFTER + mean.mul_f64(id as f64 + dice.random_range(0.0..1.0));
            let drawn = (0..DRAWS).find_map(|_| {
                let one = victims.draw(&mut dice, options, id, at);
                victims.fits(&mut dice, &faults, &one).then_some(one)
            });
            faults.extend(drawn);
        }
        faults.sort_by_key(|planned| planned.at_ms);
        for (id, planned) in faults.iter_mut().enumerate() {
            planned.id = id;
        }
        Self { faults }
    }
}

impl Planned {
    /// When nothing of it is left.
    fn over_ms(&self) -> u64 {
        let more = match self.fault {
            Fault::KillScheduler { .. } | Fault::KillNodes { .. } => START_TIME,
            // As long as it may take without anything else going wrong.
            Fault::DrainScheduler { .. } => Duration::from_secs(12),
            _ if self.fault.hurts_the_store() => STORE_REST,
            _ => Duration::ZERO,
        };
        self.at_ms + self.lasts_ms + more.as_millis() as u64
    }
}

impl Victims {
    fn draw(&self, dice: &mut SmallRng, options: &Options, id: usize, at: Duration) -> Planned {
        let kinds: Vec<_> = Kind::ALL
            .into_iter()
            .filter(|kind| options.only.is_empty() || options.only.contains(kind))
            .filter(|kind| kind.happens_on(self.store))
            .collect();
        let sum: u32 = kinds.iter().map(|kind| kind.weight()).sum();
        let mut left = dice.random_range(0..sum.max(1));
        let mut kind = Kind::Cut;
        for one in kinds {
            kind = one;
            if left < one.weight() {
                break;
            }
            left -= one.weight();
        }
        let fault = self.fault(dice, kind);
        let (least, most) = kind.lasts_ms();
        let at_ms = at.as_millis() as u64;
        // All is healed when the time is over.
        let end_ms = options.lasts.as_millis() as u64;
        let drawn = dice.random_range(least..=most);
        let lasts_ms = drawn.min(end_ms.saturating_sub(at_ms)).max(least.min(500));
        Planned { id, at_ms, lasts_ms, fault }
    }

    fn fault(&self, dice: &mut SmallRng, kind: Kind) -> Fault {
        let scheduler = dice.random_range(0..self.schedulers);
        let nodes = dice.random_range(0..self.node_processes);
        let speakers = dice.random_range(0..self.speaker_processes);
        let server = dice.random_range(0..3);
        let wire = self.wire(dice);
        match kind {
            Kind::KillScheduler => {
                Fault::KillScheduler { scheduler, new_name: dice.random_bool(0.5) }
            }
            Kind::StopScheduler => Fault::StopScheduler { scheduler },
            Kind::DrainScheduler => Fault::DrainScheduler { scheduler },
            Kind::KillNodes => Fault::KillNodes { process: nodes },
            Kind::StopNodes => Fault::StopNodes { process: nodes },
            Kind::StopSpeakers => Fault::StopSpeakers { process: speakers },
            Kind::Cut => Fault::Cut { wire },
            Kind::CutMidMessage => {
                Fault::CutMidMessage { wire, after_bytes: dice.random_range(1..6_000) }
            }
            Kind::Partition => {
                let ways = [Way::Both, Way::ToServer, Way::FromServer];
                Fault::Partition { wire, way: ways[dice.random_range(0..ways.len())] }
            }
            Kind::Delay => Fault::Delay { wire, delay_ms: dice.random_range(50..=500) },
            Kind::FlushAll => Fault::FlushAll,
            Kind::FlushScripts => Fault::FlushScripts,
            Kind::KillStore => Fault::KillStore { server },
            Kind::StopStore => Fault::StopStore { server },
            Kind::Failover => Fault::Failover { server },
            Kind::KillSentinel => Fault::KillSentinel { server },
            Kind::StopSentinel => Fault::StopSentinel { server },
        }
    }

    fn wire(&self, dice: &mut SmallRng) -> Wire {
        let scheduler = dice.random_range(0..self.schedulers);
        match dice.random_range(0..10) {
            0..=3 => {
                Wire::Speakers { process: dice.random_range(0..self.speaker_processes), scheduler }
            }
            4..=6 => Wire::Nodes { process: dice.random_range(0..self.node_processes), scheduler },
            7..=8 if self.store == Store::Standalone => Wire::Store { scheduler },
            _ => Wire::Peers { scheduler },
        }
    }

    /// Whether the system could work beside this fault and those that last.
    fn fits(&self, dice: &mut SmallRng, before: &[Planned], one: &Planned) -> bool {
        let second = dice.random_bool(DOUBLE);
        let together =
            |other: &&Planned| other.at_ms <= one.over_ms() && one.at_ms <= other.over_ms();
        let lasting: Vec<_> = before.iter().filter(together).map(|other| other.fault).collect();
        if lasting.len() >= AT_ONCE || lasting.iter().any(|other| other.meets(one.fault)) {
            return false;
        }
        let away = lasting.iter().filter(|fault| fault.takes_a_scheduler()).count();
        if one.fault.takes_a_scheduler() {
            let most = if second { 2 } else { 1 };
            return away < most.min(self.schedulers - 1);
        }
        let nodes = lasting.iter().filter(|fault| fault.takes_nodes()).count();
        !(one.fault.takes_nodes() && nodes >= (self.node_processes / 4).max(1))
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.1} s  {}", self.at_ms as f64 / 1e3, self.fault)?;
        match self.fault {
            Fault::DrainScheduler { .. } | Fault::Failover { .. } => Ok(()),
            _ if self.lasts_ms == 0 => Ok(()),
            _ => write!(f, ", for {:.1} s", self.lasts_ms as f64 / 1e3),
        }
    }
}

#[cfg(test)]
mod tests;
