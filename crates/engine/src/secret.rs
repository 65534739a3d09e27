//! What only the schedulers of one store know, and the names they make with it for strangers.
//!
//! A node must not learn from its jobs which of them belong to one speaker. So job ids go out with
//! the tag of their session masked, sessions under another name for every turn, and a lease's name
//! as its nonce alone. Every instance of one store has the same secret, so that any of them
//! understands what a node says about a job that another instance sent.

use std::time::Duration;

use lingua_core::{JobId, LeaseToken, SessionId, SessionKey};
use lingua_store::Backend;
use lingua_store::once::{Agreed, Name};

use crate::chance::Chance;

/// How long a store keeps the secret that nobody asks for.
const KEEP: Duration = lingua_store::error::MAX_DURATION;

/// How often the store is told the secret again. A store that lost everything looks like one that
/// did not, so this is not left to the next reconnect: an instance that starts before the others have
/// told it would come up with a secret of its own, and nobody would understand it.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Shared by all instances of one store. It is in no log and on no wire.
#[derive(Clone)]
pub struct Secret {
    key: [u8; 32],
    /// What the key grew from, to tell it to a store that lost it; `None` of a secret for tests.
    seed: Option<Agreed>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The secret grown from what the instances agreed on.
    pub fn from_seed(seed: &[u8]) -> Self {
        let key = blake3::derive_key("lingua scheduler wire names v1", seed);
        Secret { key, seed: None }
    }

    /// The secret of the instances of this store: the first one's proposal. Told again by every
    /// instance, it lasts while one of them runs.
    pub async fn agree(store: &Backend, chance: Chance) -> lingua_store::Result<Self> {
        let seed = format!("{:032x}{:032x}", chance.nonce(), chance.nonce());
        let agreed = store.once.agree(&name(), &Agreed::new(seed)?, KEEP).await?;
        Ok(Secret { seed: Some(agreed.clone()), ..Secret::from_seed(agreed.as_str().as_bytes()) })
    }

    /// Keeps the store's copy alive, and brings it back when the store lost it. Runs until the
    /// engine ends.
    pub(crate) async fn keep(self, store: Backend) {
        let Some(seed) = self.seed else { return std::future::pending().await };
        let mut status = store.status.clone();
        let mut differs = false;
        loop {
            match store.once.agree(&name(), &seed, KEEP).await {
                Ok(agreed) => {
                    let differed = std::mem::replace(&mut differs, agreed != seed);
                    if differs && !differed {
                        tracing::warn!(
                            "another instance has another secret: nodes that move between the two \
                             are told to stop what they run; restart one of the two"
                        );
                    }
                }
                Err(error) => tracing::debug!(%error, "the secret is kept alive later"),
            }
            let changed = tokio::time::timeout(TELL_EVERY, status.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }

    /// The id under which nodes know the job; of such an id, the job's own.
    pub fn masked(&self, job: JobId) -> JobId {
        let digest = blake3::keyed_hash(&self.key, job.digest_part());
        let bits = digest.as_bytes().first_chunk::<8>().expect("a hash has 32 bytes");
        job.masked(u64::from_le_bytes(*bits))
    }

    /// The session as a node sees it in this turn.
    pub fn session_alias(&self, session: &SessionKey, turn: &str) -> SessionId {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [session.tenant().as_str(), session.session().as_str(), turn] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let hex = hasher.finalize().to_hex();
        SessionId::new(format!("s-{}", &hex[..24])).expect("hexadecimal is within an id's letters")
    }

    /// From which the names of a session's turns grow: the same on every instance.
    pub fn turn_seed(&self, session: &SessionKey) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"turns");
        hasher.update(session.tag().as_str().as_bytes());
        hasher.update(session.session().as_str().as_bytes());
        *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// A mark on `text` that only holders of the secret can make.
    pub fn sign(&self, text: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"signature");
        hasher.update(text.as_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Whether the mark is right. Takes as long for a wrong one as for the right one.
    pub fn verify(&self, text: &str, mark: &str) -> bool {
        let right = blake3::hash(self.sign(text).as_bytes());
        right == blake3::hash(mark.as_bytes())
    }
}

fn name() -> Name {
    Name::new("names-for-strangers").expect("within a name's letters")
}

/// What a node is told as the name of its lease: the nonce, without the job.
pub fn token_name(token: LeaseToken) -> String {
    format!("{:032x}", token.nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_core::eligibility::Route;
    use lingua_core::job_key::{JobKey, Origin};
    use lingua_core::{Lang, TenantId};

    fn job(session: &SessionKey, n: u128) -> JobId {
        let en = Lang::new("en").unwrap();
        let key = JobKey {
            session,
            origin: Origin::Unnamed(n),
            job_type: "f2f",
            route: Route::Directed(en, en),
            features: &[],
        };
        key.job_id()
    }

    #[test]
    fn nodes_cannot_tell_that_two_jobs_are_of_one_session() {
        let session = SessionKey::new(TenantId::new("t").unwrap(), SessionId::new("s").unwrap());
        let secret = Secret::from_seed(b"seed");
        let (a, b) = (job(&session, 1), job(&session, 2));
        assert_eq!(a.session_tag(), b.session_tag());
        let (a_out, b_out) = (secret.masked(a), secret.masked(b));
        assert_ne!(a_out.session_tag(), b_out.session_tag());
        assert_eq!((secret.masked(a_out), secret.masked(b_out)), (a, b));
        let other = Secret::from_seed(b"other");
        assert_ne!(other.masked(a_out), a, "without the secret there is no way back");
        assert_ne!(secret.session_alias(&session, "1"), secret.session_alias(&session, "2"));
    }

    #[test]
    fn a_mark_is_right_for_its_text_and_its_secret_only() {
        let secret = Secret::from_seed(b"seed");
        let mark = secret.sign("a");
        assert!(secret.verify("a", &mark));
        assert!(!secret.verify("b", &mark) && !secret.verify("a", "") && !secret.verify("a", "é"));
        assert!(!Secret::from_seed(b"other").verify("a", &mark));
    }
}
