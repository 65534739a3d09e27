//! One line. Its hash is over all of it before the hash, byte by byte, with the hash of the line
//! before: whoever changes a line has to change every line after it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::identity::Caller;

/// The hash before the first line.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A line of the kind that begins anew after a broken one; `about` is the hash of what is broken.
pub(super) const SEGMENT: &str = "audit.segment";

/// The first line of a file that took the place of another.
pub(super) const ROTATED: &str = "audit.rotated";

/// What stands before the hash.
const HASH: &str = ",\"hash\":\"";

/// Who did it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Who {
    /// `session`, `node`, `admin`, `anyone` (without a good token) or `process`.
    pub(super) role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jti: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<IpAddr>,
}

impl Who {
    /// The scheduler itself.
    pub(super) fn process() -> Self {
        let role = "process".to_owned();
        Who { role, subject: None, tenant: None, jti: None, address: None }
    }

    pub(super) fn of(caller: &Caller, address: Option<IpAddr>) -> Self {
        match caller {
            Caller::Anyone => Who { role: "anyone".to_owned(), address, ..Who::process() },
            Caller::Certified(node) => {
                let (role, subject) = ("node".to_owned(), Some(node.to_string()));
                Who { role, subject, address, ..Who::process() }
            }
            Caller::Known(known) => Who {
                role: known.role.as_str().to_owned(),
                subject: Some(known.subject.clone()),
                tenant: known.tenant.as_ref().map(ToString::to_string),
                jti: Some(known.jti.clone()),
                address,
            },
        }
    }
}

/// What is to be told.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at_ms: u64,
    pub(super) who: Who,
    pub(super) what: &'static str,
    pub(super) about: Option<String>,
    pub(super) outcome: String,
    /// How often the same was left out since it was last told.
    pub(super) again: u64,
}

/// A line but for its hash.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) at_ms: u64,
    pub(super) instance: String,
    pub(super) who: Who,
    pub(super) what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) about: Option<String>,
    pub(super) outcome: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) again: u64,
    /// Events before this one that could not be written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) lost: u64,
    pub(super) prev: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line {
    /// The text with its end of line, and its hash.
    pub(super) fn write(&self) -> (String, String) {
        let mut text = serde_json::to_string(self).expect("plain fields");
        text.pop();
        let hash = hash(text.as_bytes());
        text.extend([HASH, &hash, "\"}\n"]);
        (text, hash)
    }

    /// Reads a line without its end; says what is wrong with one that is none.
    pub(super) fn read(text: &[u8]) -> Result<(Line, String), &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "is no text")?;
        let (said, rest) = text.rsplit_once(HASH).ok_or("has no hash")?;
        let shown = rest.strip_suffix("\"}").ok_or("is incomplete")?;
        if hash(said.as_bytes()) != shown {
            return Err("was changed: its hash does not match");
        }
        let line = serde_json::from_str(&format!("{said}}}"));
        Ok((line.map_err(|_| "has a valid hash and is not an audit line")?, shown.to_owned()))
    }
}

/// In hexadecimal digits.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
