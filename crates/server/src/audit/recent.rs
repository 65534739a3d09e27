//! What was told a moment ago need not be told again.

use std::collections::HashMap;

/// Keys that are remembered.
const MAX_KEYS: usize = 16_384;

/// When something was last told, and how often it was not since then.
#[derive(Default)]
pub(super) struct Recent {
    told: HashMap<String, (u64, u64)>,
}

impl Recent {
    /// If it is to be told now: how often it was left out since the last time.
    pub(super) fn first(&mut self, key: &str, now_ms: u64, every_ms: u64) -> Option<u64> {
        if let Some((told_ms, again)) = self.told.get_mut(key) {
            if now_ms.saturating_sub(*told_ms) < every_ms {
                *again += 1;
                return None;
            }
            let left_out = *again;
            (*told_ms, *again) = (now_ms, 0);
            return Some(left_out);
        }
        if self.told.len() >= MAX_KEYS {
            // Then some are told sooner than they need be.
            self.told.clear();
        }
        self.told.insert(key.to_owned(), (now_ms, 0));
        Some(0)
    }
}
