//! How a simulated client keeps at it: where else it goes, and when it takes silence for an end.

use std::time::Duration;

use crate::link::HANDSHAKE_LIMIT;

/// What a node or a speaker does about schedulers that come and go. The default knows one address,
/// waits for ever on a silent connection and believes a 4001.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persistence {
    /// The same door of other instances: after a lost connection or a failed attempt it goes to one
    /// of them, drawn at random.
    pub others: Vec<String>,
    /// A connection on which nothing is heard for that long is given up.
    pub silence_limit: Option<Duration>,
    /// How long a connection and its first answer may take.
    pub handshake_limit: Duration,
    /// Whether it comes back after a 4001. The newer connection that it was superseded by may be an
    /// attempt of its own that it had given up.
    pub after_superseded: bool,
}

impl Default for Persistence {
    fn default() -> Self {
        Self {
            others: Vec::new(),
            silence_limit: None,
            handshake_limit: HANDSHAKE_LIMIT,
            after_superseded: false,
        }
    }
}

impl Persistence {
    /// Exchanges the address for another one, if there is any.
    pub(crate) fn go_elsewhere(&mut self, url: &mut String) {
        if !self.others.is_empty() {
            let other = rand::random_range(0..self.others.len());
            std::mem::swap(url, &mut self.others[other]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_stays_where_it_failed_while_there_is_another_place() {
        let others = vec!["b".to_owned(), "c".to_owned()];
        let mut persistence = Persistence { others, ..Persistence::default() };
        let mut url = "a".to_owned();
        for _ in 0..20 {
            let before = url.clone();
            persistence.go_elsewhere(&mut url);
            assert_ne!(url, before);
            let mut all = [&persistence.others[0], &persistence.others[1], &url];
            all.sort_unstable();
            assert_eq!(all, ["a", "b", "c"]);
        }
    }
}
