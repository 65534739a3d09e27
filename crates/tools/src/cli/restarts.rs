//! `lingua load restarts`: what restarts and broken connections cost.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::duration;

const EXAMPLES: &str = "\
Examples:
  lingua load restarts                              all cases, for current and for existing agents
  lingua load restarts --case kill,lines --agents existing --after 60s
  lingua load restarts --nodes 2 --slots 4 --job 200ms --at-once 6 --every 100ms --before 1s --after 3s

Every scheduler is a process of its own with the default configuration, on a free port of this machine;
`kill-one` starts a private redis-server. Speakers are current clients: each says the next sentence as soon as
the last one has ended, and not before --every.

Columns: `back` is the time from the fault until the last node was registered again; `session` the sentences that
went down with a session (the embedded store forgets sessions when it is killed); `meanwhile` the sentences
said before all nodes were back that ended without a result; `refused` (no_capable_node, all_nodes_busy) and
`missing` (any other reason) the sentences said after that; `until` how long after the return of the nodes
the last of those was said. The aim: none after the return for current agents, and none later than 2 s
after it for existing ones.

Ends with 1 if a sentence was lost without an ending, doubled or mixed up, or if nodes did not come back; with
--strict also if an aim is missed.";

/// Other kinds of runs.
#[derive(Debug, Subcommand)]
pub enum LoadPart {
    /// Kill, restart and cut off schedulers under load, and count the sentences that it costs
    Restarts(Restarts),
}

/// `lingua load restarts`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Restarts {
    /// What happens, with commas between several
    #[arg(long = "case", value_enum, value_delimiter = ',', value_name = "CASE",
          default_values_t = [Case::Kill, Case::Drain, Case::KillOne, Case::Lines])]
    pub(crate) cases: Vec<Case>,

    /// The agents on the nodes
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Agents::Current, Agents::Existing])]
    pub(crate) agents: Vec<Agents>,

    /// Simulated nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=200))]
    pub(crate) nodes: u32,

    /// Jobs that each node takes at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// How long a node works on a job
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) job: Duration,

    /// Speakers, each with one sentence at a time
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) at_once: u32,

    /// The shortest time from one sentence of a speaker to the next
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) every: Duration,

    /// How long they speak before the fault
    #[arg(long, default_value = "6s", value_parser = duration)]
    pub(crate) before: Duration,

    /// How long they go on after all nodes are back
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) after: Duration,

    /// End with 1 if an aim is missed
    #[arg(long)]
    pub(crate) strict: bool,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Case {
    /// kill -9 of the only scheduler, with the embedded store, and a restart at once
    Kill,
    /// SIGTERM to it, and a restart as soon as it has ended
    Drain,
    /// kill -9 of one of two schedulers over a private redis-server, behind a load balancer
    KillOne,
    /// All connections of nodes are cut once
    Lines,
}

impl Case {
    /// As the table has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Case::Kill => "kill -9, restart",
            Case::Drain => "SIGTERM, restart",
            Case::KillOne => "kill -9 of 1 of 2",
            Case::Lines => "node lines cut",
        }
    }
}

/// Which agents the nodes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agents {
    /// Those that list what they support and report what they run
    Current,
    /// Those from before `supports`
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
