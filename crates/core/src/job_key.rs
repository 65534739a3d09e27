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
    /// A request without an id: 128 bits of chance, so that no two are one.
    Unnamed(u128),
}

impl JobKey<'_> {
    /// The id of the job with this key.
    pub fn job_id(&self) -> JobId {
        let mut key = Vec::with_capacity(256);
        self.encode(|bytes| key.extend_from_slice(bytes));
        let digest = blake3::keyed_hash(b"lingua scheduler job key      v1", &key);
        JobId::derive(self.session.tag(), digest.as_bytes())
    }

    /// Feeds the key to `out` so that two different keys never give the same bytes: every text
    /// goes behind its length, every choice behind a number of its own.
    fn encode(&self, mut out: impl FnMut(&[u8])) {
        let text = |out: &mut dyn FnMut(&[u8]), text: &str| {
            length(out, text.len());
            out(text.as_bytes());
        };
        text(&mut out, self.session.tenant().as_str());
        text(&mut out, self.session.session().as_str());
        match self.origin {
            Origin::Utterance { epoch, index } => {
                out(&[0]);
                out(&epoch.to_le_bytes());
                out(&index.to_le_bytes());
            }
            Origin::Request(id) => {
                out(&[1]);
                text(&mut out, id.as_str());
            }
            Origin::Unnamed(chance) => {
                out(&[2]);
                out(&chance.to_le_bytes());
            }
        }
        text(&mut out, self.job_type);
        let (kind, a, b) = match &self.route {
            Route::Directed(src, tgt) => (0, src, tgt),
            Route::Either(a, b) => (1, a, b),
        };
        out(&[kind]);
        text(&mut out, a.as_str());
        text(&mut out, b.as_str());
        length(&mut out, self.features.len());
        for feature in self.features {
            text(&mut out, feature);
        }
    }
}

/// A length in as many bytes as it needs, seven bits each: most keys then fit one block of the hash.
fn length(out: &mut dyn FnMut(&[u8]), mut n: usize) {
    while n >= 0x80 {
        out(&[(n & 0x7f) as u8 | 0x80]);
        n >>= 7;
    }
    out(&[n as u8]);
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
        let mut all = Vec::new();
        key.encode(|bytes| all.extend_from_slice(bytes));
        all
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
