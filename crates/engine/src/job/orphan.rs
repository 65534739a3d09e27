//! Endings that nobody here waits for.

use lingua_core::{JobId, NodeId, SessionKey};

use super::{Ended, NodeResult};

/// An ending without anybody to hear it.
pub(crate) enum OrphanedOutcome {
    /// A session's job is over, and the session is no longer here.
    Ended { session: SessionKey, job: JobId, ended: Ended },
    /// A node brings a result of a job that is not here, and nobody has said that it wants it.
    Result(Box<OrphanedResult>),
}

/// A node's result of a job that is not here.
pub(crate) struct OrphanedResult {
    pub node: NodeId,
    pub job: JobId,
    pub attempt: u32,
    /// The nonce of the lease, if the node named it.
    pub nonce: Option<u128>,
    pub result: NodeResult,
}
