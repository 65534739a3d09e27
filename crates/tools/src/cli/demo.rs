//! The command that shows the whole system on one machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, address, seconds};

const DEMO_EXAMPLES: &str = "\
Examples:
  lingua demo                                one scheduler, 12 nodes, 20 speakers, in one process
  lingua demo --faults                       the same, with a fault every 10 to 15 seconds
  lingua demo --scarce                       the same, with too few nodes for some languages
  lingua demo --instances 3 --redis          three schedulers over a private redis-server, with a
                                             load balancer in front
  lingua demo --instances 3 --redis --faults --duration 2m
  lingua demo --speech                       a real speech node: English sentences come back as Spanish
                                             speech, also as WAV files; needs a clone of the sources

Open the printed address of the dashboard, or talk to a simulated node at /talk. Ctrl-C stops everything in
order, a second Ctrl-C at once. A demo that is killed (SIGKILL) leaves its private redis-server running.
The demo listens on loopback only.";

/// Schedulers over a Redis, unless it is said how many.
const INSTANCES: u32 = 3;

#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub struct Demo {
    /// Loopback address of the scheduler, or of the load balancer in front of several
    #[arg(long, env = "LINGUA_LISTEN", default_value = "127.0.0.1:5010", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: SocketAddr,

    /// Number of simulated nodes
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) nodes: u32,

    /// Number of simulated speakers
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=2_000))]
    pub(crate) speakers: u32,

    /// Stop after this time [default: on Ctrl-C]
    #[arg(long = "duration", alias = "seconds", default_value = "0s", hide_default_value = true, value_name = "TIME",
          value_parser = seconds(0..=86_400 * 365))]
    pub(crate) seconds: u64,

    /// Inject a fault every 10 to 15 seconds, and print what it is
    #[arg(long)]
    pub(crate) faults: bool,

    /// Simulate scarcity: one language with a single slow slot, one language without a node, one node
    /// that fails at times and one that is drained at times
    #[arg(long)]
    pub(crate) scarce: bool,

    /// Number of schedulers, each in its own process; needs --redis or --store [default: 3 with one of
    /// these, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) instances: Option<u32>,

    /// Use a private redis-server as the store, which stops with the demo
    #[arg(long, conflicts_with = "store")]
    pub(crate) redis: bool,

    /// Use real speech: set up and start the speech node of the source tree, speak four sentences through
    /// it, save the translations as WAV files, and keep running
    #[arg(long, conflicts_with_all = ["faults", "scarce", "instances", "redis", "store", "nodes", "speakers"])]
    pub(crate) speech: bool,

    /// Directory of the speech node [default: that of the current source tree]
    #[arg(long, value_name = "DIR", requires = "speech")]
    pub(crate) speech_node: Option<PathBuf>,

    /// URL of an existing Redis, as for `lingua serve --store`
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

impl Demo {
    /// How many schedulers, each a process of its own; `None`: one, within this process.
    pub(crate) fn processes(&self) -> Result<Option<u32>, Failure> {
        match (self.redis || self.store.is_some(), self.instances) {
            (true, count) => Ok(Some(count.unwrap_or(INSTANCES))),
            (false, None | Some(1)) => Ok(None),
            (false, Some(_)) => Err(Failure::usage(
                "several schedulers need a shared store: use --redis for a private redis-server, or \
                 --store URL",
            )),
        }
    }
}
