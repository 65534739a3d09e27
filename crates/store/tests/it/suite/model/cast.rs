//! Who plays in a history: a few nodes, tokens, jobs and instances, named by their number.

use lingua_core::node::NodeProfile;
use lingua_core::{JobId, LeaseToken, ModelId, NodeId, SessionKey};
use lingua_store::Instance;
use lingua_store::jobs::Assignment;
use lingua_store::nodes::ProfileVersion;

use crate::suite::samples::*;

pub const NODES: usize = 2;
pub const JOBS: usize = 2;
pub const TOKENS: usize = 10;

/// Attempts that a job may have; the tokens go one beyond it.
pub const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug)]
pub struct Cast {
    pub nodes: Vec<NodeId>,
    pub jobs: Vec<JobId>,
    /// Per job the attempts 1 to 4, and attempt 1 once more with another nonce.
    pub tokens: Vec<LeaseToken>,
    pub session: SessionKey,
    pub instances: [Instance; 2],
    pub profiles: [NodeProfile; 2],
    pub model: ModelId,
}

impl Cast {
    pub fn new() -> Self {
        let session = session();
        let jobs: Vec<JobId> = (0..JOBS).map(|_| job_of(&session)).collect();
        let attempts = (0..TOKENS).map(|n| (n % JOBS, 1 + (n / JOBS) as u32 % (MAX_ATTEMPTS + 1)));
        Cast {
            nodes: (0..NODES).map(|_| node_id()).collect(),
            tokens: attempts.map(|(job, attempt)| token_of(jobs[job], attempt)).collect(),
            jobs,
            session,
            instances: [instance(), instance()],
            profiles: [profile(&["en", "zh"], 8), profile(&["de"], 4)],
            model: model_id(),
        }
    }

    pub fn version(&self, profile: usize) -> ProfileVersion {
        ProfileVersion::of(&self.profiles[profile])
    }

    pub fn assignment(&self, (node, token): (usize, usize)) -> Assignment {
        Assignment { node: self.nodes[node].clone(), token: self.tokens[token] }
    }
}
