//! The name of one request: in its answer, in every log line about it, and in the body of a refusal.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use lingua_engine::chance::Chance;

/// A caller may name its request; every answer has it.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of a name that a caller gives.
const MAX_CHARS: usize = 64;

/// 1 to 64 of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RequestId(String);

impl RequestId {
    /// The caller's own name if there is one and it is well-formed, else a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(X_REQUEST_ID).iter();
        let only = given.next().filter(|_| given.next().is_none());
        let given = only.and_then(|value| value.to_str().ok()).filter(|text| is_plain(text));
        RequestId(given.map_or_else(|| format!("{:032x}", Chance::system().nonce()), str::to_owned))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("letters, digits and ._- alone")
    }
}

/// It stands in logs: nothing that ends a line or means anything to who reads them.
fn is_plain(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=MAX_CHARS).contains(&text.len()) && text.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in given {
            headers.append(X_REQUEST_ID, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        RequestId::of(&headers).0
    }

    #[test]
    fn a_well_formed_name_is_kept_and_every_other_is_replaced() {
        let longest = "x".repeat(MAX_CHARS);
        for good in ["a", "7f9c24e5-0d62_b.3", &longest] {
            assert_eq!(of(&[good]), good);
        }
        let too_long = "x".repeat(MAX_CHARS + 1);
        for bad in
            [&[][..], &[""], &["a b"], &["é"], &["a\"b"], &["a=b"], &[&too_long], &["a", "b"]]
        {
            let made = of(bad);
            assert!(made.len() == 32 && !bad.contains(&made.as_str()), "{bad:?}: {made}");
            assert_ne!(made, of(bad), "each has its own");
        }
    }
}
