//! How a connection ended, and what its end asks for.

use std::fmt;
use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;

/// How a connection ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// The code of the close frame; `None` if the connection just ended.
    pub code: Option<u16>,
    /// Its reason.
    pub reason: String,
}

impl Closed {
    /// Whether the peer would say the same again: policy, or a newer connection with the same name.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.code, Some(1008 | 4001))
    }

    /// The pause that a draining scheduler asks for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let (_, after) = self.reason.split_once("retry_after_ms")?;
        let digits = after.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok().map(Duration::from_millis)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => f.write_str("without a close frame"),
            Some(code) if self.reason.is_empty() => write!(f, "{code}"),
            Some(code) => write!(f, "{code} {:?}", self.reason),
        }
    }
}

impl From<Option<CloseFrame>> for Closed {
    fn from(frame: Option<CloseFrame>) -> Self {
        // RFC 6455: a close without a code counts as 1005.
        frame.map_or(Self { code: Some(1005), reason: String::new() }, |frame| Self {
            code: Some(frame.code.into()),
            reason: frame.reason.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_of_a_drain_is_found_however_it_is_written() {
        for (reason, pause_ms) in [
            (r#"{"retry_after_ms":1500}"#, Some(1500)),
            ("retry_after_ms=20 please", Some(20)),
            ("retry_after_ms", None),
            ("drain", None),
        ] {
            let closed = Closed { code: Some(1001), reason: reason.to_owned() };
            assert_eq!(closed.retry_after(), pause_ms.map(Duration::from_millis), "{reason}");
        }
    }
}
