//! Names of things, checked once at the edge: `[A-Za-z0-9._-]{1,64}`.
//!
//! The characters are those that can neither end a key name, nor move a key to another hash slot,
//! nor need escaping in a log line or a URL.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_ID_CHARS;

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing was given.
    #[error("an id must not be empty")]
    Empty,
    /// More than [`MAX_ID_CHARS`] characters.
    #[error("an id has at most {MAX_ID_CHARS} characters, this one has {0}")]
    TooLong(usize),
    /// A character outside `[A-Za-z0-9._-]`.
    #[error("an id holds only letters, digits, '.', '_' and '-'; {0:?} is none of them")]
    Character(char),
    /// Not a job id of ours.
    #[error("a job id is {JOB_ID_CHARS} characters of 0-9 and a-z without i, l, o and u")]
    NotAJobId,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
        return Err(IdError::Character(bad));
    }
    if text.len() > MAX_ID_CHARS {
        return Err(IdError::TooLong(text.len()));
    }
    Ok(())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and makes it an id.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check(text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The id as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

id! {
    /// A GPU machine. Stable over its reconnects and bound to its credential.
    NodeId
}
id! {
    /// A conversation, unique within its tenant.
    SessionId
}
id! {
    /// A customer whose sessions, jobs and nodes others must not see.
    TenantId
}
id! {
    /// One scheduler process by the operator's name for it.
    InstanceId
}
id! {
    /// The parts of one long utterance, which prefer one node.
    TurnId
}
id! {
    /// What an HTTP caller repeats so that the same request is done once.
    RequestId
}
id! {
    /// Where a node or an instance runs, by the operator's name for it, such as `eu-west`.
    Region
}
id! {
    /// A model with its version, `name` or `name.version`, as a node reports it missing.
    ModelId
}

/// A conversation, unique everywhere. Cheap to clone.
#[derive(Clone)]
pub struct SessionKey(Arc<SessionNames>);

struct SessionNames {
    tenant: TenantId,
    session: SessionId,
    tag: SessionTag,
}

impl SessionKey {
    /// The conversation of this tenant under this id.
    pub fn new(tenant: TenantId, session: SessionId) -> Self {
        let mut names = Vec::with_capacity(2 * MAX_ID_CHARS + 2);
        for part in [tenant.as_str(), session.as_str()] {
            names.push(u8::try_from(part.len()).expect("ids are at most 64 bytes"));
            names.extend_from_slice(part.as_bytes());
        }
        let digest = blake3::keyed_hash(b"lingua scheduler session tag  v1", &names);
        let mut tag = [0; SESSION_TAG_CHARS];
        base32(&digest.as_bytes()[..5], &mut tag);
        SessionKey(Arc::new(SessionNames { tenant, session, tag: SessionTag(tag) }))
    }

    /// Whose conversation it is.
    pub fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    /// Which one of the tenant's.
    pub fn session(&self) -> &SessionId {
        &self.0.session
    }

    /// Eight characters that stand for this session in its job ids and in the store's hash tags.
    ///
    /// Sessions that share a tag only share a place in the store; nothing tells them apart by it.
    pub fn tag(&self) -> SessionTag {
        self.0.tag
    }
}

impl PartialEq for SessionKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.session == other.0.session && self.0.tenant == other.0.tenant)
    }
}

impl Eq for SessionKey {}

impl Hash for SessionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.tenant.hash(state);
        self.0.session.hash(state);
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({}/{})", self.0.tenant, self.0.session)
    }
}

const SESSION_TAG_CHARS: usize = 8;
const JOB_ID_CHARS: usize = 26;

/// See [`SessionKey::tag`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionTag([u8; SESSION_TAG_CHARS]);

impl SessionTag {
    /// The tag's characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base32 is ASCII")
    }
}

impl fmt::Debug for SessionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job: 26 characters derived from its key, of which the first eight are its session's tag, so
/// that any instance finds the record of a job from its id alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId([u8; JOB_ID_CHARS]);

impl Hash for JobId {
    // The last sixteen characters are a digest already: 80 bits are plenty for a table.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let digest = self.0.last_chunk::<16>().expect("a job id has 26 characters");
        state.write_u128(u128::from_ne_bytes(*digest));
    }
}

impl JobId {
    /// The id of the job with this digest in the session with this tag.
    pub(crate) fn derive(tag: SessionTag, digest: &[u8; 32]) -> Self {
        let mut text = [0; JOB_ID_CHARS];
        text[..SESSION_TAG_CHARS].copy_from_slice(&tag.0);
        // As `base32` does, in a quarter of the time: every job needs one.
        let bits = u128::from_be_bytes(*digest.first_chunk().expect("it has 32 bytes"));
        for (i, slot) in text[SESSION_TAG_CHARS..].iter_mut().enumerate() {
            *slot = BASE32[(bits >> (123 - 5 * i)) as usize & 31];
        }
        JobId(text)
    }

    /// The id's characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base32 is ASCII")
    }

    /// The same id with the bits of its session's tag flipped where `mask` has ones: an id for
    /// strangers, from which they cannot tell that two jobs are of one session. Masking twice with
    /// the same mask gives the id back. Only the low 40 bits of the mask count.
    pub fn masked(&self, mask: u64) -> JobId {
        let mut text = self.0;
        for (i, byte) in text[..SESSION_TAG_CHARS].iter_mut().enumerate() {
            let value = BASE32.iter().position(|c| c == byte).expect("a job id is base32");
            *byte = BASE32[value ^ (mask >> (5 * i)) as usize & 31];
        }
        JobId(text)
    }

    /// The part of the id that a mask leaves as it is, and that no two jobs share.
    pub fn digest_part(&self) -> &[u8] {
        &self.0[SESSION_TAG_CHARS..]
    }

    /// The tag of the session this job belongs to.
    pub fn session_tag(&self) -> SessionTag {
        let mut tag = [0; SESSION_TAG_CHARS];
        tag.copy_from_slice(&self.0[..SESSION_TAG_CHARS]);
        SessionTag(tag)
    }
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes: [u8; JOB_ID_CHARS] =
            text.as_bytes().try_into().map_err(|_| IdError::NotAJobId)?;
        if bytes.iter().all(|b| BASE32.contains(b)) {
            Ok(JobId(bytes))
        } else {
            Err(IdError::NotAJobId)
        }
    }
}

impl TryFrom<String> for JobId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> String {
        id.as_str().to_owned()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({})", self.as_str())
    }
}

/// Crockford's alphabet in lower case: no letter that is read as a digit.
pub(crate) const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Writes the leading bits of `bytes`, five to a character, until `out` is full.
pub(crate) fn base32(bytes: &[u8], out: &mut [u8]) {
    assert!(out.len() * 5 <= bytes.len() * 8, "not enough bits for the characters asked for");
    let (mut bits, mut held, mut next) = (0u32, 0u32, bytes.iter());
    for slot in out {
        if held < 5 {
            bits = (bits << 8) | u32::from(*next.next().expect("counted above"));
            held += 8;
        }
        held -= 5;
        *slot = BASE32[(bits >> held) as usize & 31];
        bits &= (1 << held) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_refuse_what_could_end_a_key_or_move_its_slot() {
        for bad in ["", "a b", "a:b", "a{b}", "é", "a/b", "a\nb", &"x".repeat(65)] {
            assert!(NodeId::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "node-1", "A.b_C-9", &"x".repeat(64)] {
            assert_eq!(NodeId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_job_id_spells_the_leading_bits_of_its_digest() {
        let digest: [u8; 32] =
            std::array::from_fn(|i| (i as u8).wrapping_mul(167).wrapping_add(41));
        let mut spelt = [0; JOB_ID_CHARS - SESSION_TAG_CHARS];
        base32(&digest[..12], &mut spelt);
        let id = JobId::derive(SessionTag(*b"01234567"), &digest);
        assert_eq!(id.as_str().as_bytes()[SESSION_TAG_CHARS..], spelt);
    }

    #[test]
    fn job_ids_parse_back_and_refuse_other_text() {
        let id = JobId::derive(SessionTag(*b"01234567"), &[7; 32]);
        assert_eq!(id.as_str().parse::<JobId>().unwrap(), id);
        assert_eq!(id.session_tag().as_str(), "01234567");
        for bad in ["", "01234567", "0123456789abcdefghijklmnop", "0123456789ABCDEFGHJKMNPQRS"] {
            assert_eq!(bad.parse::<JobId>(), Err(IdError::NotAJobId), "{bad:?}");
        }
    }

    #[test]
    fn a_masked_id_is_another_id_and_the_mask_takes_it_back() {
        let id = JobId::derive(SessionTag(*b"01234567"), &[7; 32]);
        let masked = id.masked(0x12_3456_789a);
        assert_ne!(masked.session_tag(), id.session_tag());
        assert_eq!(masked.digest_part(), id.digest_part());
        assert_eq!(masked.masked(0x12_3456_789a), id);
        assert_eq!(masked.as_str().parse::<JobId>().unwrap(), masked);
    }

    #[test]
    fn equal_joined_names_of_different_tenants_have_different_tags() {
        let key = |tenant: &str, session: &str| {
            SessionKey::new(TenantId::new(tenant).unwrap(), SessionId::new(session).unwrap())
        };
        assert_ne!(key("a", "bc").tag(), key("ab", "c").tag());
        assert_eq!(key("a", "bc").tag(), key("a", "bc").tag());
    }
}
