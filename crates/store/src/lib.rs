//! Where the scheduler keeps what must outlive a process or be agreed between several.
//!
//! Six small traits, each with what an implementer owes; two backends, `memory` and `redis`, that
//! give the same answers. In reading order:
//!
//! - [`error`], [`clock`], [`instance`], [`backend`]: what can go wrong, whose time it is, who asks, and
//!   the six together.
//! - [`nodes`]: who is there and what they can do. [`slots`]: who holds which slot until when.
//! - [`jobs`]: which attempt of a job counts. [`owners`]: who speaks for a session or a task.
//! - [`bus`]: how one instance tells another. [`once`]: what happens once per window.
//! - [`memory`]: one process, no server. [`redis`]: standalone, Sentinel or Cluster.
//!
//! Every method may be called again with the same arguments: the second time changes nothing and
//! says so. [`Error::Unknown`] means the step may or may not have happened; calling again tells.

pub mod error;
pub mod clock;
pub mod instance;
pub mod backend;
pub mod nodes;
pub mod slots;
pub mod jobs;
pub mod owners;
pub mod bus;
pub mod once;
pub mod memory;
pub mod redis;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

pub use backend::{Backend, Pulse, Status};
pub use clock::Clock;
pub use error::{Error, Result};
pub use instance::Instance;
