//! The identity of a job: equal keys are one job, on any instance.

use crate::eligibility::Route;
use crate::ids::{JobId, RequestId, SessionKey};

/// What makes a job this job and no other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobKey<'a> {
    /// The conversation.
    pub session: &'a SessionKey,
    /// Which life of it: an index means something only within one epoch.
    pub origin: Origin<'a>,
    /// What is done, such as `f2f`.
    pub job_type: &'a str,
    /// The direction.
    pub route: Route,
    /// Wanted features, in the caller's order.
    pub features: &'a [&'a str],
}

/// Where a job came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin<'a> {
    /// A session's utterance.
    Utterance {
        /// The session's epoch.
        epoch: u64,
        /// The utterance's number within it.
        index: u64,
    },
    /// An HTTP caller's request.
    Request(&'a RequestId),
    /// One of the two jobs of a translation by way of another language.
    Leg {
        /// The job that it is done for.
        of: &'a JobId,
        /// Which of the two, from 1.
        number: u32,
    },
    /// A request without an id: 128 bits of chance, so that no two are one.
    Unnamed(u128),
}

impl JobKey<'_> {
    /// The id of the job with this key.
    pub fn job_id(&self) -> JobId {
        let key = KeyBytes::of(self);
        let digest = blake3::keyed_hash(b"lingua scheduler job key      v1", key.get());
        JobId::derive(self.session.tag(), digest.as_bytes())
    }

    /// Writes the key so that two different keys never give the same bytes: every text goes behind
    /// its length, every choice behind a number of its own.
    fn encode(&self, out: &mut KeyBytes) {
        out.text(self.session.tenant().as_str());
        out.text(self.session.session().as_str());
        match self.origin {
            Origin::Utterance { epoch, index } => {
                out.push(&[0]);
                out.push(&epoch.to_le_bytes());
                out.push(&index.to_le_bytes());
            }
            Origin::Request(id) => {
                out.push(&[1]);
                out.text(id.as_str());
            }
            Origin::Unnamed(chance) => {
                out.push(&[2]);
                out.push(&chance.to_le_bytes());
            }
            Origin::Leg { of, number } => {
                out.push(&[3]);
                out.text(of.as_str());
                out.push(&number.to_le_bytes());
            }
        }
        out.text(self.job_type);
        let (kind, a, b) = match &self.route {
            Route::Directed(src, tgt) => (0, src, tgt),
            Route::Either(a, b) => (1, a, b),
        };
        out.push(&[kind]);
        out.text(a.as_str());
        out.text(b.as_str());
        out.length(self.features.len());
        for feature in self.features {
            out.text(feature);
        }
    }
}

/// Bytes of a key that need no allocation: more than nearly every key has.
const SHORT_KEY: usize = 192;

/// The bytes of a key.
struct KeyBytes {
    short: [u8; SHORT_KEY],
    /// How many of the short ones are in use.
    len: usize,
    /// All of them, once they are more than the short ones.
    long: Vec<u8>,
}

impl KeyBytes {
    fn of(key: &JobKey<'_>) -> Self {
        let mut bytes = KeyBytes { short: [0; SHORT_KEY], len: 0, long: Vec::new() };
        key.encode(&mut bytes);
        bytes
    }

    fn get(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }

    /// Nearly all of a key are short texts: their lengths and they are one step.
    fn text(&mut self, text: &str) {
        let (start, end) = (self.len + 1, self.len + 1 + text.len());
        if text.len() < 0x80 && end <= SHORT_KEY && self.long.is_empty() {
            self.short[self.len] = text.len() as u8;
            self.short[start..end].copy_from_slice(text.as_bytes());
            self.len = end;
        } else {
            self.length(text.len());
            self.push(text.as_bytes());
        }
    }

    /// A length in as many bytes as it needs, seven bits each: most keys then fit one block of the
    /// hash.
    fn length(&mut self, mut n: usize) {
        while n >= 0x80 {
            self.push(&[(n & 0x7f) as u8 | 0x80]);
            n >>= 7;
        }
        self.push(&[n as u8]);
    }

    /// Inlined, because most are a few bytes of a known number.
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if end <= SHORT_KEY && self.long.is_empty() {
            self.short[self.len..end].copy_from_slice(bytes);
            self.len = end;
        } else {
            self.push_long(bytes);
        }
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::ids::{SessionId, TenantId};
    use crate::lang::Lang;

    fn session(tenant: &str, session: &str) -> SessionKey {
        SessionKey::new(TenantId::new(tenant).unwrap(), SessionId::new(session).unwrap())
    }

    fn route(src: &str, tgt: &str) -> Route {
        Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap())
    }

    fn bytes(key: &JobKey<'_>) -> Vec<u8> {
        KeyBytes::of(key).get().to_vec()
    }

    #[test]
    fn every_part_of_the_key_makes_another_job() {
        let (a, b) = (session("t", "s"), session("t", "s2"));
        let request = RequestId::new("r").unwrap();
        let base = JobKey {
            session: &a,
            origin: Origin::Utterance { epoch: 1, index: 0 },
            job_type: "f2f",
            route: route("en", "zh"),
            features: &["tts"],
        };
        let others = [
            base.clone(),
            JobKey { session: &b, ..base.clone() },
            JobKey { origin: Origin::Utterance { epoch: 2, index: 0 }, ..base.clone() },
            JobKey { origin: Origin::Utterance { epoch: 1, index: 1 }, ..base.clone() },
            JobKey { origin: Origin::Request(&request), ..base.clone() },
            JobKey { origin: Origin::Unnamed(0), ..base.clone() },
            JobKey { job_type: "text", ..base.clone() },
            JobKey { route: route("zh", "en"), ..base.clone() },
            JobKey { route: route("de", "zh"), ..base.clone() },
            JobKey { features: &[], ..base.clone() },
            JobKey { features: &["t", "ts"], ..base.clone() },
        ];
        let ids: HashMap<JobId, usize> =
            others.iter().enumerate().map(|(i, key)| (key.job_id(), i)).collect();
        assert_eq!(ids.len(), others.len());
        assert_eq!(base.job_id(), base.clone().job_id(), "the same key is the same job");
    }

    #[test]
    fn a_key_of_any_length_is_written_in_full() {
        let session = session("t", "s");
        for length in [0, 1, 127, 128, SHORT_KEY - 20, SHORT_KEY, 5 * SHORT_KEY] {
            let (job_type, feature) = ("j".repeat(length), "f".repeat(length));
            let key = JobKey {
                session: &session,
                origin: Origin::Utterance { epoch: 1, index: 2 },
                job_type: &job_type,
                route: route("en", "zh"),
                features: &[&feature],
            };
            let (low, high) = ((length & 0x7f) as u8, (length >> 7) as u8);
            let count = if high == 0 { vec![low] } else { vec![low | 0x80, high] };
            let mut written = b"\x01t\x01s\0".to_vec();
            written.extend([1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat());
            written.extend([&count, job_type.as_bytes(), b"\0\x02en\x02zh\x01"].concat());
            written.extend([&count, feature.as_bytes()].concat());
            assert_eq!(bytes(&key), written, "{length}");
        }
    }

    proptest! {
        /// The encoding, not only its digest, tells any two keys apart.
        #[test]
        fn keys_are_equal_exactly_when_their_bytes_are(
            tenants in ["[a-c.]{1,3}", "[a-c.]{1,3}"],
            sessions in ["[a-c.]{1,3}", "[a-c.]{1,3}"],
            indices in [0u64..3, 0..3],
            kinds in ["[a:]{0,3}", "[a:]{0,3}"],
            features in [prop::collection::vec("[a,:]{0,2}", 0..3), prop::collection::vec("[a,:]{0,2}", 0..3)],
        ) {
            let make = |i: usize| session(&tenants[i], &sessions[i]);
            let (a, b) = (make(0), make(1));
            let lists: Vec<Vec<&str>> =
                features.iter().map(|list| list.iter().map(String::as_str).collect()).collect();
            let key = |i: usize| JobKey {
                session: if i == 0 { &a } else { &b },
                origin: Origin::Utterance { epoch: 1, index: indices[i] },
                job_type: &kinds[i],
                route: route("en", "zh"),
                features: &lists[i],
            };
            prop_assert_eq!(key(0) == key(1), bytes(&key(0)) == bytes(&key(1)));
            prop_assert_eq!(key(0) == key(1), key(0).job_id() == key(1).job_id());
        }
    }
}
