//! Everything fails, at random and at once, and what was said still ends once, in order and in time.
//!
//! Schedulers, nodes, speakers and the store are processes of their own, and every connection
//! between them goes through a [`crate::FaultProxy`]. Faults are drawn from a seed: the same seed
//! gives the same faults for the same victims at the same moments. Nodes and speakers write down
//! what they did and heard; only when all is over the [`check`] reads these files, and knows nothing
//! else. It can be run again on the files alone.
//!
//! In reading order: `options`, `plan` (which fault when), `servers` and `world` (what is
//! there), `acting` (doing and undoing a fault), `parts` (the processes of nodes and speakers), `run`,
//! [`check`] with its [`check::Verdict`].

use std::time::Duration;

mod acting;
pub mod check;
mod options;
mod parts;
mod plan;
mod run;
mod servers;
mod world;

pub use options::{Options, Store};
pub use parts::{Nodes, Speakers, nodes, speakers};
pub use plan::{Fault, Kind, Plan, Planned, Way, Wire};
pub use run::{Figures, Told, run};

/// The first line of files and directories.
pub(crate) const MANIFEST: &str = "run.json";
pub(crate) const STORY: &str = "run.jsonl";

/// What the scheduler promises about time, in the profile that runs are made with. Written down here
/// a second time on purpose: the checker must not believe the scheduler.
pub(crate) const DEADLINE: Duration = Duration::from_secs(75);
pub(crate) const DEADLINE_SLACK: Duration = Duration::from_millis(250);
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(50);
