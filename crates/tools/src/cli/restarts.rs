//! `lingua load restarts`: what restarts and broken connections cost.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::duration;

const EXAMPLES: &str = "\
Examples:
  lingua load restarts                              all cases, with current and with existing agents
  lingua load restarts --case kill,lines --agents existing --after 60s
  lingua load restarts --nodes 2 --slots 4 --job 200ms --at-once 6 --every 100ms --before 1s --after 3s

Every scheduler is a process with the default configuration on a free port of this machine; `kill-one` starts
a private redis-server, the `-file` cases keep the store in a directory of their own. Speakers are current clients: each says the next sentence when the last one has ended,
but not before --every has passed.

Columns: `back` is the time from the fault to the registration of the last node. `session` counts sentences lost
with their session (a killed embedded store loses its sessions). `meanwhile` counts sentences said before all
nodes were back that ended without a result. `refused` (no_capable_node, all_nodes_busy) and `missing` (any other
reason) count sentences said after that. `until` is the time from the return of the nodes to the last of those
sentences. Target: none after the return for current agents, and none later than 2 s after it for existing ones.

Exit code 1 if a sentence had no ending, two endings or the wrong order, or if nodes did not return; with --strict
also if a target is missed.";

/// Other kinds of runs.
#[derive(Debug, Subcommand)]
pub enum LoadPart {
    /// Kill, restart and disconnect schedulers under load, and count the sentences lost
    Restarts(Restarts),
}

/// `lingua load restarts`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restarts {
    /// Faults to measure, separated by commas
    #[arg(long = "case", value_enum, value_delimiter = ',', value_name = "CASE",
          default_values_t = [Case::Kill, Case::Drain, Case::KillFile, Case::DrainFile, Case::KillOne, Case::Lines])]
    pub(crate) cases: Vec<Case>,

    /// Node software, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Agents::Current, Agents::Existing])]
    pub(crate) agents: Vec<Agents>,

    /// Number of simulated nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=200))]
    pub(crate) nodes: u32,

    /// Slots per node
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Time that a node takes for one job
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) job: Duration,

    /// Number of speakers, each with one sentence at a time
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) at_once: u32,

    /// Shortest time between the starts of two sentences of one speaker
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) every: Duration,

    /// Time before the fault
    #[arg(long, default_value = "6s", value_parser = duration)]
    pub(crate) before: Duration,

    /// Time after the return of all nodes
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) after: Duration,

    /// Exit with code 1 if a target is missed
    #[arg(long)]
    pub(crate) strict: bool,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Case {
    /// kill -9 of a single scheduler with the embedded store, and an immediate restart
    Kill,
    /// SIGTERM to a single scheduler, and a restart when it has exited
    Drain,
    /// As kill, with the store kept in a directory (file:DIR)
    KillFile,
    /// As drain, with the store kept in a directory (file:DIR)
    DrainFile,
    /// kill -9 of one of two schedulers over a private redis-server, behind a load balancer
    KillOne,
    /// Cut all node connections once
    Lines,
}

impl Case {
    /// As the table has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Case::Kill => "kill -9, restart",
            Case::Drain => "SIGTERM, restart",
            Case::KillFile => "kill -9, file",
            Case::DrainFile => "SIGTERM, file",
            Case::KillOne => "kill -9 of 1 of 2",
            Case::Lines => "node lines cut",
        }
    }
}

/// Which agents the nodes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agents {
    /// Node software that sends `supports` and reports its running jobs
    Current,
    /// Older node software without `supports`
    Existing,
}

impl Agents {
    /// As the table has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agents::Current => "current",
            Agents::Existing => "existing",
        }
    }
}
