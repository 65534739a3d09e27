//! Why a token is not good here, whatever the time is: a word for logs and programs, a sentence for people.
//!
//! Neither quotes the token. What follows from its claims is said only of a token with a good signature.

use lingua_engine::job::Refusal;

use super::Role;
use super::authenticator::{MAX_TOKEN_CHARS, unauthorized};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flaw {
    TooLong,
    Unreadable,
    CriticalHeader,
    UnknownKey,
    OtherAlgorithm,
    BadSignature,
    OtherAudience,
    OtherIssuer,
    OtherType,
    BadClaims,
    /// With the limit of its role, in seconds.
    LivesTooLong(Role, u64),
}

impl Flaw {
    /// Stable; the audit log and `reason` of a refusal have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Flaw::TooLong => "too_long",
            Flaw::Unreadable => "unreadable",
            Flaw::CriticalHeader => "critical_header",
            Flaw::UnknownKey => "unknown_key",
            Flaw::OtherAlgorithm => "other_algorithm",
            Flaw::BadSignature => "bad_signature",
            Flaw::OtherAudience => "other_audience",
            Flaw::OtherIssuer => "other_issuer",
            Flaw::OtherType => "other_type",
            Flaw::BadClaims => "bad_claims",
            Flaw::LivesTooLong(..) => "lives_too_long",
        }
    }

    fn sentence(self) -> String {
        match self {
            Flaw::TooLong => format!("it has more than {MAX_TOKEN_CHARS} characters"),
            Flaw::Unreadable => "it cannot be read as a signed JWT".to_owned(),
            Flaw::CriticalHeader => "its header has crit, which is not supported".to_owned(),
            Flaw::UnknownKey => {
                "it is signed with a key that identity.key_files does not have".to_owned()
            }
            Flaw::OtherAlgorithm => "it is not signed with EdDSA".to_owned(),
            Flaw::BadSignature => "its signature is not by the key that it names".to_owned(),
            Flaw::OtherAudience => "its audience (aud) is not identity.audience".to_owned(),
            Flaw::OtherIssuer => "its issuer (iss) is not identity.issuer".to_owned(),
            Flaw::OtherType => "its typ is not that of its role".to_owned(),
            Flaw::BadClaims => "a claim is missing, or is not as its role needs it".to_owned(),
            Flaw::LivesTooLong(role, limit_s) => format!(
                "from nbf to exp are more than {limit_s} s, which is identity.{}_life_s",
                role.as_str()
            ),
        }
    }

    pub(super) fn refusal(self) -> Refusal {
        unauthorized(self.word(), &format!("the token is not good here: {}", self.sentence()))
    }
}
