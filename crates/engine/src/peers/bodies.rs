//! Bodies (speech, texts and results) on their way to another instance: they are kept here for a while and
//! fetched by name. A name is signed and has an expiry; one that this instance did not make, or that expired, is
//! not looked up. The receiver has the digest with the name, and accepts only that body.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use lingua_protocol::peer::BodyRef;
use lingua_store::Instance;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::secret::Secret;

/// How long a body waits to be fetched: longer than any job may take to be placed again.
const KEEP: Duration = Duration::from_secs(90);

/// How long it is kept after it was fetched: the answer may be lost, and the instance that fetched it may die.
const KEEP_FETCHED: Duration = Duration::from_secs(20);

/// Bytes of all bodies; beyond it the oldest are dropped.
const MAX_BYTES: usize = 256 << 20;

/// How often it is checked whether a body was fetched.
const LOOK: Duration = Duration::from_millis(20);

/// Fetches bodies of other instances. The server implements it: the engine has no HTTP.
pub trait Fetch: Send + Sync {
    /// The body of this name at an instance, which is at this address.
    fn fetch(
        &self,
        from: Instance,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;
}

/// Bodies that wait to be fetched.
pub(crate) struct Bodies {
    kept: Mutex<Kept>,
    secret: Secret,
    /// The zero of the expiries in names.
    since: Instant,
}

#[derive(Default)]
struct Kept {
    /// With whether it was fetched.
    by_name: HashMap<u128, (Bytes, bool), lingua_core::hash::Quality>,
    order: VecDeque<(Instant, u128)>,
    /// Those that were fetched, and when first.
    fetched: VecDeque<(Instant, u128)>,
    bytes: usize,
}

impl Kept {
    fn remove(&mut self, name: u128) {
        if let Some((body, _)) = self.by_name.remove(&name) {
            self.bytes -= body.len();
        }
    }

    /// Drops expired bodies, and beyond the bound the oldest.
    fn tidy(&mut self, now: Instant) {
        while let Some((_, name)) = self.fetched.pop_front_if(|(at, _)| now - *at > KEEP_FETCHED) {
            self.remove(name);
        }
        while let Some((at, name)) = self.order.front().copied()
            && (now - at > KEEP || self.bytes > MAX_BYTES || !self.by_name.contains_key(&name))
        {
            self.order.pop_front();
            self.remove(name);
        }
    }
}

impl Bodies {
    pub fn new(secret: Secret) -> Self {
        Bodies { kept: Mutex::default(), secret, since: Instant::now() }
    }

    /// Keeps a body for a while. Its name has 128 random bits, and is sent only to the instance that is to fetch
    /// it.
    pub fn keep(&self, body: Bytes, chance: &Chance) -> BodyRef {
        let (name, now) = (chance.nonce(), Instant::now());
        let (bytes, digest) = (body.len(), digest(&body));
        let mut kept = self.kept.lock();
        kept.by_name.insert(name, (body, false));
        kept.order.push_back((now, name));
        kept.bytes += bytes;
        kept.tidy(now);
        drop(kept);
        let until = (now + KEEP - self.since).as_secs();
        let signed = format!("{name:032x}-{until:x}");
        let mark = self.secret.sign(&signed);
        BodyRef { name: format!("{signed}-{mark}"), bytes, digest: Some(digest) }
    }

    /// The body of this name, if it is still kept. It stays, because the answer may be lost.
    pub fn get(&self, name: &str) -> Option<Bytes> {
        let number = self.number(name)?;
        let mut kept = self.kept.lock();
        let (body, fetched) = kept.by_name.get_mut(&number)?;
        let (body, first) = (body.clone(), !std::mem::replace(fetched, true));
        if first {
            kept.fetched.push_back((Instant::now(), number));
        }
        Some(body)
    }

    /// Drops what nobody will fetch any more.
    pub fn tidy(&self) {
        self.kept.lock().tidy(Instant::now());
    }

    /// Waits until the body is fetched, at most for so long.
    pub async fn fetched(&self, body: &BodyRef, within: Duration) {
        let end = Instant::now() + within;
        let Some(number) = self.number(&body.name) else { return };
        let is_waited_for =
            || self.kept.lock().by_name.get(&number).is_some_and(|(_, fetched)| !fetched);
        while is_waited_for() && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What stands in a name that this instance made and that still holds.
    fn number(&self, name: &str) -> Option<u128> {
        let (signed, mark) = name.rsplit_once('-')?;
        let (number, until) = signed.split_once('-')?;
        let until = Duration::from_secs(u64::from_str_radix(until, 16).ok()?);
        if !self.secret.verify(signed, mark) || self.since.elapsed() > until {
            return None;
        }
        u128::from_str_radix(number, 16).ok()
    }
}

/// By which a body is known again.
fn digest(body: &[u8]) -> String {
    blake3::hash(body).to_hex()[..32].to_owned()
}

/// Whether this is the body that is meant. One without a digest is of the version before.
pub(super) fn is_meant(by: &BodyRef, body: &[u8], secret: &Secret) -> bool {
    let same = match &by.digest {
        Some(kept) => *kept == digest(body),
        None => secret.takes_unsigned(),
    };
    same && body.len() == by.bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> Bodies {
        Bodies::new(Secret::from_seed(b"here"))
    }

    #[tokio::test]
    async fn a_body_is_found_by_its_name_alone() {
        let bodies = bodies();
        let kept = bodies.keep(Bytes::from_static(b"speech"), &Chance::system());
        assert_eq!(kept.bytes, 6);
        assert_eq!(bodies.get(&kept.name).as_deref(), Some(&b"speech"[..]));
        for wrong in ["", "00", "é", "-", "--", "a-b-c"] {
            assert!(bodies.get(wrong).is_none(), "{wrong}");
        }
    }

    /// Knowing what is kept is not enough: who asks must have been told the name.
    #[tokio::test]
    async fn a_name_that_was_changed_or_that_a_stranger_made_is_none() {
        let bodies = bodies();
        let kept = bodies.keep(Bytes::from_static(b"speech"), &Chance::system());
        let (signed, mark) = kept.name.rsplit_once('-').unwrap();
        let (nonce, _) = signed.split_once('-').unwrap();
        let longer = format!("{nonce}-ffffff");
        let forged = Secret::from_seed(b"elsewhere").sign(signed);
        for name in [format!("{longer}-{mark}"), format!("{signed}-{forged}"), signed.to_owned()] {
            assert!(bodies.get(&name).is_none(), "{name}");
        }
    }

    /// Who answers in the place of an instance, or changes what it answers, is not believed.
    #[tokio::test]
    async fn a_body_is_the_one_that_was_kept() {
        let secret = Secret::from_seed(b"here");
        let kept = bodies().keep(Bytes::from_static(b"speech"), &Chance::system());
        assert!(is_meant(&kept, b"speech", &secret));
        assert!(!is_meant(&kept, b"Speech", &secret) && !is_meant(&kept, b"", &secret));
        let bare = BodyRef { digest: None, ..kept };
        assert!(
            !is_meant(&bare, b"speech", &secret),
            "the version before is believed in an upgrade alone"
        );
    }

    #[tokio::test]
    async fn a_name_holds_for_a_while_only() {
        let mut bodies = bodies();
        let kept = bodies.keep(Bytes::from_static(b"speech"), &Chance::system());
        bodies.since = bodies.since.checked_sub(KEEP + Duration::from_secs(2)).unwrap();
        assert!(bodies.get(&kept.name).is_none());
    }

    /// S14: on a busy instance everything is fetched within moments, and need not stay for long.
    #[tokio::test(start_paused = true)]
    async fn what_was_fetched_goes_before_what_was_not() {
        let bodies = bodies();
        let keep = |body: &'static [u8]| bodies.keep(Bytes::from_static(body), &Chance::system());
        let (fetched, waits) = (keep(b"fetched"), keep(b"waits"));
        for _ in 0..2 {
            assert!(bodies.get(&fetched.name).is_some(), "an answer may be lost");
        }
        tokio::time::advance(KEEP_FETCHED + Duration::from_millis(1)).await;
        bodies.tidy();
        assert!(bodies.get(&fetched.name).is_none() && bodies.get(&waits.name).is_some());
        assert_eq!(bodies.kept.lock().bytes, 5);
        tokio::time::advance(KEEP).await;
        bodies.tidy();
        let kept = bodies.kept.lock();
        assert_eq!((kept.bytes, kept.order.len(), kept.fetched.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let bodies = bodies();
        let first = bodies.keep(Bytes::from(vec![0; MAX_BYTES / 2]), &Chance::system());
        bodies.keep(Bytes::from(vec![0; MAX_BYTES / 2]), &Chance::system());
        assert!(bodies.get(&first.name).is_some());
        bodies.keep(Bytes::from_static(b"one more"), &Chance::system());
        assert!(bodies.get(&first.name).is_none(), "the oldest goes first");
    }
}
