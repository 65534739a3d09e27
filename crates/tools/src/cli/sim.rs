//! The command that lives through simulated worlds.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  lingua sim                                 two hundred worlds
  lingua sim --seeds 0..20000 --json sim.json
  lingua sim --seeds 4711 --trace            one world, with everything that happens in it
  lingua sim --seeds 4711 --faults 0,3       the same with two of its faults only

A world has 1 to 4 instances of the scheduler over one store, nodes and clients, on one thread and in virtual time.
Everything that happens follows from the seed: killed, stopped and drained instances, a store that loses calls,
answers and its last writes, wrong clocks, old agents, nodes that lie, clients that are cut off. The same seed
is the same world, byte for byte.

If a promise is broken it prints what happened, with as few faults as it takes, and the line that makes the
world a regression test (crates/sim/regressions.txt). Needs nothing installed and opens no port. Exit code 0 if
every promise was kept, otherwise 1.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Sim {
    /// Worlds: from the first seed to below the second, or one seed
    #[arg(long, default_value = "0..200", value_name = "A..B")]
    pub(crate) seeds: Seeds,

    /// Only these faults of each plan, by their places in it
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) faults: Option<Vec<usize>>,

    /// Print everything that happens
    #[arg(long)]
    pub(crate) trace: bool,

    /// Worlds at the same time [default: one per processor]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,

    /// Write the figures and what was broken to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// A range of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub from: u64,
    pub to: u64,
}

/// Worlds of one command at most.
const MAX_SEEDS: u64 = 100_000_000;

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let seeds = match text.split_once("..") {
            Some((from, to)) => number(from).zip(number(to)),
            None => number(text).and_then(|one| Some((one, one.checked_add(1)?))),
        };
        let (from, to) = seeds.ok_or("seeds are a number, or two as in 0..500")?;
        match to.saturating_sub(from) {
            1..=MAX_SEEDS => Ok(Seeds { from, to }),
            0 => Err("there is no seed from the first to below the second".to_owned()),
            _ => Err(format!("at most {MAX_SEEDS} seeds at once")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        let read = |text: &str| text.parse::<Seeds>().map(|seeds| (seeds.from, seeds.to));
        assert_eq!(read("3..7"), Ok((3, 7)));
        assert_eq!(read("3"), Ok((3, 4)));
        for wrong in ["", "7..3", "3..3", "a..b", "0..18446744073709551615", "18446744073709551615"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
