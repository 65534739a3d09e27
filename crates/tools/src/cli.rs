//! What can be asked of the laboratory on the command line.

use clap::Subcommand;
pub(crate) use lingua_server::Failure;
pub(crate) use lingua_server::client::{
    Authority, address, duration, ms, seconds, share, socket_url,
};

mod bench;
mod chaos;
mod demo;
mod dispatch;
mod node;
mod restarts;
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
pub use speakers::{Load, Speak};
pub use top::Top;

/// The commands that look at a scheduler, use it, measure it and break it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole system on this machine: schedulers, nodes, speakers, and faults on request
    Demo(Demo),
    /// Show in the terminal how everything stands, and follow it
    Top(Top),
    /// Run simulated nodes over the real socket
    Node(Node),
    /// Hand in one job and watch it to its end
    Dispatch(Dispatch),
    /// Speak to the scheduler as a client does, and print what comes back
    Speak(Speak),
    /// Let thousands of speakers and nodes talk, and check every sentence
    Load(Box<Load>),
    /// Break everything at random and check that every promise is kept
    Chaos(Box<Chaos>),
    /// Measure a part of the system against a ceiling in the same run
    Bench {
        /// Which part.
        #[command(subcommand)]
        what: Bench,
    },
}
