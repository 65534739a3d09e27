//! What can be asked of the laboratory on the command line.

use clap::Subcommand;
pub(crate) use lingua_server::Failure;
pub(crate) use lingua_server::client::{
    Authority, address, duration, ms, runtime, seconds, share, socket_url,
};

mod bench;
mod chaos;
mod demo;
mod dispatch;
mod node;
mod restarts;
mod sim;
mod speakers;
mod top;

pub use bench::Bench;
pub(crate) use bench::{BenchDashboard, BenchDispatch, BenchHostile, BenchSessions, BenchStore};
pub use chaos::Chaos;
pub(crate) use chaos::{Part as ChaosPart, Run as ChaosRun, Share as ChaosShare};
pub use demo::Demo;
pub use dispatch::Dispatch;
pub use node::Node;
pub use restarts::LoadPart;
pub(crate) use restarts::{Agents, Case, Restarts};
pub use sim::Sim;
pub use speakers::{Load, Speak};
pub use top::Top;

/// The commands that look at a scheduler, use it, measure it and break it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a demo of the whole system on this machine: schedulers, nodes, speakers and optional faults
    Demo(Demo),
    /// Monitor all instances in the terminal
    Top(Top),
    /// Run simulated nodes over the real node socket
    Node(Node),
    /// Submit one job and wait for its result
    Dispatch(Dispatch),
    /// Speak to the scheduler as a client, and print the results
    Speak(Speak),
    /// Load test with thousands of speakers and nodes that checks every sentence
    Load(Box<Load>),
    /// Inject random faults and check every guarantee
    Chaos(Box<Chaos>),
    /// Simulate worlds of schedulers, nodes and clients in virtual time, and check every guarantee
    Sim(Sim),
    /// Benchmark one part of the system against a baseline in the same run
    Bench {
        /// Which benchmark.
        #[command(subcommand)]
        what: Bench,
    },
}
