//! The command that shows the whole system on one machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, address, seconds};

const DEMO_EXAMPLES: &str = "\
Examples:
  lingua demo                                one scheduler, 12 nodes, 20 speakers, in one process
  lingua demo --faults                       the same, and something breaks every few seconds
  lingua demo --scarce                       the same, and there is too little of some languages
  lingua demo --instances 3 --redis          three schedulers over a private redis-server, with a
                                             load balancer in front
  lingua demo --instances 3 --redis --faults --duration 2m
  lingua demo --speech                       a real speech node instead: sentences are spoken in English
                                             and come back in Spanish; within a clone of the sources

Open the dashboard at the address that is printed, or talk to a simulated node at /talk. Ctrl-C ends everything in order, a second one at
once. Only a demo that is itself killed (SIGKILL) leaves something: its private redis-server. Only on
this machine.";

/// Schedulers over a Redis, unless it is said how many.
const INSTANCES: u32 = 3;

#[derive(Debug, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub struct Demo {
    /// Where the scheduler, or the load balancer before several, listens; loopback only
    #[arg(long, env = "LINGUA_LISTEN", default_value = "127.0.0.1:5010", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: SocketAddr,

    /// Simulated nodes
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) nodes: u32,

    /// Speakers at the same time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=2_000))]
    pub(crate) speakers: u32,

    /// End after so long; without it, on Ctrl-C
    #[arg(long = "duration", alias = "seconds", default_value = "0s", hide_default_value = true, value_name = "TIME",
          value_parser = seconds(0..=86_400 * 365))]
    pub(crate) seconds: u64,

    /// Break something every 10 to 15 seconds, and say what
    #[arg(long)]
    pub(crate) faults: bool,

    /// Too little of some things: a language with a single slow slot, one that no node serves, a node that
    /// fails now and then and one that is drained now and then
    #[arg(long)]
    pub(crate) scarce: bool,

    /// Schedulers, each a process of its own; needs --redis or --store. With one of these 3, else 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) instances: Option<u32>,

    /// A private redis-server for the schedulers, started and ended with the demo
    #[arg(long, conflicts_with = "store")]
    pub(crate) redis: bool,

    /// Real speech: prepares and starts the speech node of the sources, speaks some sentences through it,
    /// and goes on for who wants to talk
    #[arg(long, conflicts_with_all = ["faults", "scarce", "instances", "redis", "store", "nodes", "speakers"])]
    pub(crate) speech: bool,

    /// Where the speech node is, if not in the source tree that this is run in
    #[arg(long, value_name = "DIR", requires = "speech")]
    pub(crate) speech_node: Option<PathBuf>,

    /// A Redis that is there already, as a URL as `lingua serve --store` takes it
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
                "several schedulers need a store that they share: say --redis for a private one, \
                 or --store URL",
            )),
        }
    }
}
