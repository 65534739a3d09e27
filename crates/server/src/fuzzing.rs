//! What comes in through the doors, each kind as a target for `fuzz/`.
//!
//! A target panics if the decoder does, or if what it promises does not hold: what is rendered is one JSON object,
//! a refusal is a short sentence, and nothing that was read is larger than what was sent.

mod http;
mod node;
mod session;
mod setup;

use lingua_engine::job::Refusal;
use serde_json::Value;

/// A name and what to do with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// What this crate reads.
const OURS: [Target; 10] = [
    ("session_init", session::init),
    ("session_text", session::text),
    ("session_binary", session::binary),
    ("speech", session::speech),
    ("node", node::message),
    ("http_dispatch", http::dispatch),
    ("http_node", http::node),
    ("http_job_message", http::message),
    ("token", setup::token),
    ("config", setup::config),
];

/// All targets, also those of the other crates.
#[cfg(feature = "fuzzing")]
pub fn targets() -> impl Iterator<Item = Target> {
    OURS.into_iter().chain(lingua_engine::fuzzing::TARGETS).chain(lingua_store::fuzzing::TARGETS)
}

/// Bytes of the longest refusal: 300 or so characters, and no decoder quotes more than it says.
const MAX_REFUSAL_BYTES: usize = 4_096;

fn is_short(refusal: &Refusal) {
    assert!(!refusal.detail.is_empty() && refusal.detail.len() <= MAX_REFUSAL_BYTES);
}

fn is_object(message: &str) {
    let read: Result<Value, _> = serde_json::from_str(message);
    assert!(read.is_ok_and(|value| value.is_object()), "what is sent must be JSON");
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_that_comes_in_through_a_door_breaks_it() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
        for target in super::OURS {
            lingua_lab::mutation::run(corpus.as_ref(), target);
        }
    }
}
