//! The messages of the node socket, which nodes over HTTP use too.
//!
//! - [`inbound`]: what a node says about jobs. [`registration`]: what it says of itself, with [`capability`] and [`inventory`].
//! - [`message`]: finds the fields of a node's message, once. [`result`]: those of a `job_result` that reach the
//!   client. [`timings`]: how long its steps took.
//! - [`outbound`]: what a node is told.
//! - `describe`: all of them, described.

pub mod capability;
pub mod inventory;
pub mod registration;
pub mod message;
pub mod result;
pub mod timings;
pub mod inbound;
pub mod outbound;
mod describe;

pub use capability::Abilities;
pub use describe::{from_node, to_node};
pub use inbound::{FromNode, JobMessage, JobReport, decode};
pub use registration::{NodeDetail, NodeStatus};
pub use result::ResultFields;
