//! What can go wrong between an instance and its store.

use std::time::Duration;

use lingua_core::time::millis;

/// The answer of every store step.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a step has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store was not reached: nothing happened.
    #[error("the store is down: {0}")]
    Down(String),
    /// The step went out and no answer came back: it may have happened or not. Calling again with
    /// the same arguments is safe and tells.
    #[error("the store did not answer: {0}")]
    Unknown(String),
    /// The store answered with an error of its own, such as a missing permission or no memory left:
    /// nothing happened.
    #[error("the store refused: {0}")]
    Refused(String),
    /// What is stored is not what we write.
    #[error("{what} in the store is not readable: {found}")]
    Corrupt {
        /// The record or reply.
        what: &'static str,
        /// What was found instead, shortened.
        found: String,
    },
    /// The caller's argument is outside its bounds: nothing was asked of the store.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Error {
    /// Stored data that is not what we write.
    pub fn corrupt(what: &'static str, found: impl std::fmt::Debug) -> Self {
        let mut found = format!("{found:?}");
        if let Some((end, _)) = found.char_indices().nth(200) {
            found.truncate(end);
        }
        Error::Corrupt { what, found }
    }

    /// Whether the store is out of reach, so that work must be refused rather than tried elsewhere.
    pub fn is_down(&self) -> bool {
        matches!(self, Error::Down(_) | Error::Unknown(_))
    }
}

/// The longest lease, deadline or window that a store keeps.
pub const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whole milliseconds of a duration that a store may keep: from one to [`MAX_DURATION`]. A zero
/// would be an expiry in the past, which Redis refuses after earlier writes of the same script.
pub fn checked_ms(duration: Duration) -> Result<u64> {
    match millis(duration) {
        ms @ 1.. if duration <= MAX_DURATION => Ok(ms),
        _ => Err(Error::Invalid("a lease, deadline or window lasts from 1 ms to 7 days")),
    }
}
