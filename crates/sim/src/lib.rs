//! Any number of instances of the real engine in one process, on one thread and in virtual time, from one seed.
//!
//! What happens between instances when the store blinks depends on the order of things, on time and on chance. Here all
//! three follow from the seed: the same seed gives the same world, byte for byte, and a world in which a promise is
//! broken can be looked at again. In reading order:
//!
//! - [`plan`]: who is there and what is done to whom when: a value that is drawn before anything begins, so that parts
//!   of it can be left out. [`fault`]: everything that can be done.
//! - `world`: instances, nodes and clients while they live. `wire`: connections between them. `store`: the embedded
//!   store behind a way that loses requests and answers. `dice`: chance of all that is not an engine.
//! - `record`: what happens, as it happens. `canary`: what must never be in the store. `verdict`: whether every promise was
//!   kept, by the checker of `lingua chaos`.
//! - `planted`: old flaws in worlds, in tests only.
//! - `run`: from a plan to its verdict. [`shrink`]: which faults it takes. [`story`]: what happened, for people.
//!
//! No sockets, no processes, no clock but the runtime's own.

mod canary;
mod dice;
pub mod fault;
mod panics;
#[cfg(feature = "planted")]
pub mod planted;
pub mod plan;
mod record;
pub mod regressions;
mod run;
pub mod shrink;
mod store;
pub mod story;
mod verdict;
mod wire;
mod world;

pub use fault::{Fault, Flaw, Planned};
pub use plan::Plan;
pub use run::{Options, run, run_plan};
pub use verdict::{Broken, Verdict};
