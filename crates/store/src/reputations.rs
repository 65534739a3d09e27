//! What is known of nodes beyond their present connections.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::NodeId;
pub use lingua_core::link::Reputation;

use crate::error::Result;
use crate::nodes::Fenced;

/// How long it is kept after it was last written: a machine that is off over a week-end is no stranger.
pub const REPUTATION_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What nodes did and failed, and what follows from it. It outlives connections, records and processes.
#[async_trait]
pub trait Reputations: Send + Sync {
    /// Keeps what is known of a node for [`REPUTATION_KEPT`], for its owner by this epoch.
    ///
    /// Atomic. A superseded owner changes nothing, and neither does one whose record is missing.
    async fn keep(&self, node: &NodeId, epoch: u64, known: &Reputation) -> Result<Fenced>;

    /// What is known of it, as much later as it was written ([`Reputation::aged`]); `None` of a stranger.
    async fn read(&self, node: &NodeId) -> Result<Option<Reputation>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first version wrote it. What is added later has to be read from this, and this from what
    /// is added later.
    const WRITTEN: &str = r#"{"since_ms":7,"done":3,"failed":1,"failed_by_code":{"NMT_TIMEOUT":1},
        "failures":[{"at_ms":8,"job":"0000000000000000000000000a","code":"NMT_TIMEOUT"}],
        "breaker":{"failures":1,"openings":0,"open_ms":null,"next_pause_ms":2000},
        "trust":{"arrival":"open","earned":4,"successes":3}}"#;

    #[test]
    fn what_neighbouring_versions_write_is_read() {
        let known: Reputation = serde_json::from_str(WRITTEN).unwrap();
        assert_eq!((known.since_ms, known.done, known.failures[0].at_ms), (7, 3, 8));
        assert_eq!(known.trust.map(|trust| trust.earned), Some(4));
        let mut json = serde_json::to_value(&known).unwrap();
        json["a_field_of_the_next_version"] = serde_json::json!([1, 2]);
        json["breaker"]["another"] = serde_json::json!("x");
        json["trust"]["one_more"] = serde_json::json!(1);
        assert_eq!(serde_json::from_value::<Reputation>(json).unwrap(), known);
        let least: Reputation = serde_json::from_str(r#"{"done":5}"#).unwrap();
        assert_eq!(least, Reputation { done: 5, ..Reputation::default() });
    }
}
