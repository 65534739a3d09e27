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

/// The layout that we write: readers of the same major version understand it.
pub(crate) const SCHEMA: &str = "1.0";

/// Why a store cannot be used. Each is one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The URL is not one.
    #[error("the store URL is wrong: {0}")]
    Url(String),
    /// Nobody answers.
    #[error(
        "the store at {store} cannot be reached: {why}; start it, or check the address, the network and the firewall"
    )]
    Unreachable {
        /// The store, without credentials.
        store: String,
        /// What was seen.
        why: String,
    },
    /// Wrong user or password, or the user may not do what we need.
    #[error(
        "the store at {store} does not let us in: {why}; check user and password in the URL and the user's rights"
    )]
    Denied {
        /// The store, without credentials.
        store: String,
        /// What it said.
        why: String,
    },
    /// An old server.
    #[error("the server at {store} is Redis {found}, but scripts need at least 6.2; upgrade it")]
    TooOld {
        /// The store, without credentials.
        store: String,
        /// Its version.
        found: String,
    },
    /// A replica, which would refuse every write.
    #[error(
        "the server at {store} is a replica; give the address of the primary, or use redis+sentinel://"
    )]
    Replica {
        /// The store, without credentials.
        store: String,
    },
    /// It may throw leases away when memory gets short.
    #[error(
        "the server at {store} evicts keys (maxmemory-policy {policy}), which would lose leases; set it to noeviction with: CONFIG SET maxmemory-policy noeviction"
    )]
    Evicts {
        /// The store, without credentials.
        store: String,
        /// Its policy.
        policy: String,
    },
    /// A directory that this process cannot use: read-only, on a full disk, not a directory.
    #[error(
        "the store in {store} cannot be used: {why}; give this user a directory to write in, on a disk with room"
    )]
    Unusable {
        /// The directory.
        store: String,
        /// What the operating system said.
        why: String,
    },
    /// Another process has the directory.
    #[error(
        "the store in {store} is in use by {by}; stop that one first, or give each scheduler a directory of its own"
    )]
    InUse {
        /// The directory.
        store: String,
        /// Who, as they say of themselves.
        by: String,
    },
    /// A directory that is no store.
    #[error(
        "{store} is not a store: it has a file {found} that no scheduler wrote; give the scheduler an empty directory"
    )]
    Foreign {
        /// The directory.
        store: String,
        /// The file.
        found: String,
    },
    /// A file of which a part is missing or wrong.
    #[error(
        "{file} is damaged: {why}; nothing was changed, so put back a copy of the whole directory, or move it away to begin with an empty one"
    )]
    Torn {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another layout.
    #[error(
        "the store at {store} holds data of schema {found}, and this version reads {SCHEMA}; use another database or the matching version of the scheduler"
    )]
    Schema {
        /// The store, without credentials.
        store: String,
        /// The schema found.
        found: String,
    },
}

impl OpenError {
    /// The process's exit code: 2 usage, 69 out of reach, 78 refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            OpenError::Url(_) => 2,
            OpenError::Unreachable { .. }
            | OpenError::Denied { .. }
            | OpenError::Unusable { .. }
            | OpenError::InUse { .. } => 69,
            _ => 78,
        }
    }
}
