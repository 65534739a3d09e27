//! How often an existing client is told that something went wrong: it opens a window for every
//! `error`.

use std::collections::VecDeque;
use std::time::Duration;

use lingua_core::outcome::Code;
use tokio::time::Instant;

/// The same code is not shown again within this time.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Codes remembered; a node may make up its own.
const MAX_CODES: usize = 8;

/// What one client was shown last.
#[derive(Default)]
pub(super) struct ErrorThrottle(VecDeque<(Box<str>, Instant)>);

impl ErrorThrottle {
    /// Whether this code is to be shown now. That the instance stops is shown once: nothing that
    /// follows from it is news.
    pub fn show(&mut self, code: &str, now: Instant) -> bool {
        let known = self.0.iter_mut().find(|(known, _)| **known == *code);
        if let Some((_, last)) = known {
            let again = code != Code::Draining.as_str() && *last + AGAIN_AFTER <= now;
            if again {
                *last = now;
            }
            return again;
        }
        if self.0.len() == MAX_CODES {
            self.0.pop_front();
        }
        self.0.push_back((code.into(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_code_is_shown_once_in_a_while_and_a_drain_once() {
        let mut shown = ErrorThrottle::default();
        let began = Instant::now();
        let mut at = |code: &str, ms: u64| shown.show(code, began + Duration::from_millis(ms));
        assert!(at("NO_CAPABLE_NODE", 0));
        assert!(!at("NO_CAPABLE_NODE", 9_999));
        assert!(at("DRAINING", 0), "another code is news");
        assert!(at("NO_CAPABLE_NODE", 10_000));
        assert!(!at("NO_CAPABLE_NODE", 10_001));
        assert!(!at("DRAINING", 60_000));
    }

    #[tokio::test]
    async fn codes_without_end_take_bounded_memory() {
        let mut shown = ErrorThrottle::default();
        for n in 0..1_000 {
            shown.show(&format!("OWN_{n}"), Instant::now());
        }
        assert_eq!(shown.0.len(), MAX_CODES);
    }
}
