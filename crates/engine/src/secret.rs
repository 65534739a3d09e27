//! What only the schedulers of one store know, and the names they make with it for strangers.
//!
//! A node must not learn from its jobs which of them belong to one speaker. So job ids go out with
//! the tag of their session masked, sessions under another name for every turn, and a lease's name
//! as its nonce alone. Every instance of one store has the same secret, so that any of them
//! understands what a node says about a job that another instance sent.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::{JobId, LeaseToken, SessionId, SessionKey};
use lingua_store::once::{Agreed, Name};
use lingua_store::{Backend, Clock};

use crate::chance::Chance;
use parking_lot::RwLock;

/// How long a store keeps the secret that nobody asks for.
const KEEP: Duration = lingua_store::error::MAX_DURATION;

/// How often the store is told the secret again. A store that lost everything looks like one that
/// did not, so this is not left to the next reconnect: an instance that starts before the others have
/// told it comes up with a secret of its own, and nobody understands it until it has heard theirs.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Shared by all instances of one store. It is in no log and on no wire.
#[derive(Clone)]
pub struct Secret(Arc<RwLock<Keys>>);

struct Keys {
    key: [u8; 32],
    /// The key before, if another secret turned out to be older: what was signed with it is good.
    before: Option<[u8; 32]>,
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
        Secret(Arc::new(RwLock::new(Keys { key: key_of(seed), before: None, seed: None })))
    }

    /// The secret of the instances of this store: the oldest one's, by the time in front of each
    /// proposal. Told again by every instance, it lasts while one of them runs.
    pub async fn agree(store: &Backend, chance: Chance) -> lingua_store::Result<Self> {
        let born = Clock::system().now().as_millis();
        let seed = format!("{born:016x}-{:032x}{:032x}", chance.nonce(), chance.nonce());
        let agreed = store.once.agree(&name(), &Agreed::new(seed)?, KEEP).await?;
        let secret = Secret::from_seed(agreed.as_str().as_bytes());
        secret.0.write().seed = Some(agreed);
        Ok(secret)
    }

    /// Keeps the store's copy alive, and brings it back when the store lost it. Runs until the
    /// engine ends.
    pub(crate) async fn keep(self, store: Backend) {
        let mut status = store.status.clone();
        loop {
            let Some(seed) = self.0.read().seed.clone() else {
                return std::future::pending().await;
            };
            match store.once.agree(&name(), &seed, KEEP).await {
                Ok(agreed) if agreed != seed => self.turn_to(agreed),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the secret is kept alive later"),
            }
            let changed = tokio::time::timeout(TELL_EVERY, status.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }

    /// The others have an older secret: this instance began while the store had lost it.
    fn turn_to(&self, agreed: Agreed) {
        tracing::warn!("the other instances have an older secret; turning to theirs");
        let mut keys = self.0.write();
        keys.before = Some(keys.key);
        keys.key = key_of(agreed.as_str().as_bytes());
        keys.seed = Some(agreed);
    }

    fn key(&self) -> [u8; 32] {
        self.0.read().key
    }

    /// The id under which nodes know the job; of such an id, the job's own.
    pub fn masked(&self, job: JobId) -> JobId {
        let digest = blake3::keyed_hash(&self.key(), job.digest_part());
        let bits = digest.as_bytes().first_chunk::<8>().expect("a hash has 32 bytes");
        job.masked(u64::from_le_bytes(*bits))
    }

    /// The session as a node sees it in this turn.
    pub fn session_alias(&self, session: &SessionKey, turn: &str) -> SessionId {
        let mut hasher = blake3::Hasher::new_keyed(&self.key());
        for part in [session.tenant().as_str(), session.session().as_str(), turn] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let hex = hasher.finalize().to_hex();
        SessionId::new(format!("s-{}", &hex[..24])).expect("hexadecimal is within an id's letters")
    }

    /// From which the names of a session's turns grow: the same on every instance.
    pub fn turn_seed(&self, session: &SessionKey) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key());
        hasher.update(b"turns");
        hasher.update(session.tag().as_str().as_bytes());
        hasher.update(session.session().as_str().as_bytes());
        *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// A number of the session's own, to choose sessions by: the same on every instance, and nobody
    /// can pick a name for its number.
    pub fn lot(&self, session: &SessionKey) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key());
        hasher.update(b"lot");
        hasher.update(session.tag().as_str().as_bytes());
        hasher.update(session.session().as_str().as_bytes());
        u64::from_le_bytes(
            *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"),
        )
    }

    /// A mark on `text` that only holders of the secret can make.
    pub fn sign(&self, text: &str) -> String {
        mark(&self.key(), text)
    }

    /// Whether the mark is right. Takes as long for a wrong one as for the right one.
    pub fn verify(&self, text: &str, marked: &str) -> bool {
        let (key, before) = {
            let keys = self.0.read();
            (keys.key, keys.before)
        };
        let marked = blake3::hash(marked.as_bytes());
        let by = |key: &[u8; 32]| blake3::hash(mark(key, text).as_bytes()) == marked;
        by(&key) || before.is_some_and(|before| by(&before))
    }
}

fn mark(key: &[u8; 32], text: &str) -> String {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(b"signature");
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

fn key_of(seed: &[u8]) -> [u8; 32] {
    blake3::derive_key("lingua scheduler wire names v1", seed)
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

    /// Two instances that began apart understand each other as soon as the store has told them.
    #[tokio::test]
    async fn a_younger_secret_turns_to_the_older_one() {
        let (lost, found) = (open_store(), open_store());
        let old = Secret::agree(&lost, Chance).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        let young = Secret::agree(&found, Chance).await.unwrap();
        let token = young.sign("a");
        assert!(!old.verify("a", &token));
        let keeping = tokio::spawn(old.clone().keep(found.clone()));
        let turning = tokio::spawn(young.clone().keep(found));
        while young.sign("a") != old.sign("a") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(young.verify("a", &token), "what it gave out meanwhile is good");
        keeping.abort();
        turning.abort();
    }

    fn open_store() -> Backend {
        lingua_store::memory::MemoryStore::open(Clock::system())
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
