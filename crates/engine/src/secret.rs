//! What only the schedulers of one store know, and the names they make with it for strangers.
//!
//! A node must not learn from its jobs which of them belong to one speaker. So job ids go out with
//! the tag of their session masked, sessions under another name for every turn, and a lease's name
//! as its nonce alone. The same keys sign what one instance says to another and the tokens by which
//! clients come back. They come from a file that the instances share, and are never in the store: who
//! reads or writes the store can neither speak for an instance nor take a session.

use std::sync::Arc;

use lingua_core::{JobId, LeaseToken, SessionId, SessionKey};

use crate::chance::Chance;

/// Keys in one file: the present one, the one before, and room for a mistake.
const MAX_KEYS: usize = 4;

/// In front of a key that the version before kept in the store.
const STORED: &str = "store:";

/// Shared by all instances of one store. It is in no log and on no wire.
#[derive(Clone)]
pub struct Secret(Arc<[Key]>);

struct Key {
    bytes: [u8; 32],
    /// By which instances tell that they have the same key; the key cannot be found from it.
    fingerprint: String,
    /// It was in the store once, so whoever reads the store may have it.
    exposed: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Key {
    fn new(seed: &[u8]) -> Self {
        Key::derived("lingua cluster key v1", seed, false)
    }

    /// As the version before made its key from what stood in the store.
    fn stored(seed: &str) -> Self {
        Key::derived("lingua scheduler wire names v1", seed.as_bytes(), true)
    }

    fn derived(context: &str, seed: &[u8], exposed: bool) -> Self {
        let bytes = blake3::derive_key(context, seed);
        let print = blake3::derive_key("lingua cluster key fingerprint v1", &bytes);
        let fingerprint = print[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Key { bytes, fingerprint, exposed }
    }

    fn mask(&self, job: JobId) -> JobId {
        let digest = blake3::keyed_hash(&self.bytes, job.digest_part());
        let bits = digest.as_bytes().first_chunk::<8>().expect("a hash has 32 bytes");
        job.masked(u64::from_le_bytes(*bits))
    }

    fn mark(&self, text: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.bytes);
        hasher.update(b"signature");
        hasher.update(text.as_bytes());
        hasher.finalize().to_hex()[..MARK_CHARS].to_owned()
    }

    /// Takes as long for a wrong mark as for the right one.
    fn made(&self, text: &str, marked: &str) -> bool {
        blake3::hash(self.mark(text).as_bytes()) == blake3::hash(marked.as_bytes())
    }
}

/// Letters of a mark.
pub(crate) const MARK_CHARS: usize = 32;

/// Letters of a fingerprint.
pub(crate) const FINGERPRINT_CHARS: usize = 16;

impl Secret {
    /// A secret with one key, grown from this.
    pub fn from_seed(seed: &[u8]) -> Self {
        Secret(Arc::new([Key::new(seed)]))
    }

    /// A secret of this process alone.
    pub fn random(chance: Chance) -> Self {
        let seed = [chance.nonce().to_le_bytes(), chance.nonce().to_le_bytes()].concat();
        Secret::from_seed(&seed)
    }

    /// The text of a new key file.
    pub fn new_file(chance: Chance) -> String {
        format!("{:032x}{:032x}\n", chance.nonce(), chance.nonce())
    }

    /// The secret of a key file: one key on a line, 64 hexadecimal digits each. The first one signs,
    /// and what any of them signed is believed. Never says what stands in the file.
    pub fn read(file: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (number, line) in file.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = match line.strip_prefix(STORED) {
                Some(seed) => stored_seed(seed).map(Key::stored),
                None => hexadecimal(line).map(|seed| Key::new(&seed)),
            };
            keys.push(
                key.ok_or_else(|| format!("line {}: a key has 64 hexadecimal digits", number + 1))?,
            );
        }
        match keys.len() {
            0 => Err("there is no key in it".to_owned()),
            1..=MAX_KEYS => Ok(Secret(keys.into())),
            _ => Err(format!("there are more than {MAX_KEYS} keys in it")),
        }
    }

    fn first(&self) -> &Key {
        &self.0[0]
    }

    /// By which instances tell that they have the same first key.
    pub fn fingerprint(&self) -> &str {
        &self.first().fingerprint
    }

    /// Whether it has the key with this fingerprint.
    pub(crate) fn knows(&self, fingerprint: &str) -> bool {
        self.0.iter().any(|key| key.fingerprint == fingerprint)
    }

    /// Whether instances that sign nothing are believed: the first key was in the store, so a mark made
    /// with it proves nothing, and instances of the version before have no other.
    pub fn takes_unsigned(&self) -> bool {
        self.first().exposed
    }

    /// Whether instances of the version before may be about: then the presence of this one has the
    /// form that they read.
    pub(crate) fn speaks_unsigned(&self) -> bool {
        self.first().exposed && self.0.len() == 1
    }

    /// The id under which nodes know the job; of such an id, the job's own.
    pub fn masked(&self, job: JobId) -> JobId {
        self.first().mask(job)
    }

    /// The job's own id, from one under which nodes know it: one for each key that may have masked it.
    pub(crate) fn unmasked(&self, job: JobId) -> impl Iterator<Item = JobId> {
        self.0.iter().map(move |key| key.mask(job))
    }

    /// The masked id of a job as this instance masks it, from that of an instance whose first key has
    /// this fingerprint.
    pub(crate) fn renamed(&self, job: JobId, fingerprint: &str) -> JobId {
        let theirs = self.0.iter().find(|key| key.fingerprint == fingerprint);
        theirs.map_or(job, |theirs| self.masked(theirs.mask(job)))
    }

    /// The session as a node sees it in this turn.
    pub fn session_alias(&self, session: &SessionKey, turn: &str) -> SessionId {
        let mut hasher = blake3::Hasher::new_keyed(&self.first().bytes);
        for part in [session.tenant().as_str(), session.session().as_str(), turn] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let hex = hasher.finalize().to_hex();
        SessionId::new(format!("s-{}", &hex[..24])).expect("hexadecimal is within an id's letters")
    }

    /// From which the names of a session's turns grow: the same on every instance.
    pub fn turn_seed(&self, session: &SessionKey) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.first().bytes);
        hasher.update(b"turns");
        hasher.update(session.tag().as_str().as_bytes());
        hasher.update(session.session().as_str().as_bytes());
        *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// A number of the session's own, to choose sessions by: the same on every instance, and nobody
    /// can pick a name for its number.
    pub fn lot(&self, session: &SessionKey) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.first().bytes);
        hasher.update(b"lot");
        hasher.update(session.tag().as_str().as_bytes());
        hasher.update(session.session().as_str().as_bytes());
        u64::from_le_bytes(
            *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"),
        )
    }

    /// A mark on `text` that only holders of the secret can make.
    pub fn sign(&self, text: &str) -> String {
        self.first().mark(text)
    }

    /// Whether the mark is right, by any of the keys.
    pub fn verify(&self, text: &str, marked: &str) -> bool {
        self.0.iter().any(|key| key.made(text, marked))
    }

    /// The same, by the keys that were in the store alone.
    pub(crate) fn verify_exposed(&self, text: &str, marked: &str) -> bool {
        self.0.iter().filter(|key| key.exposed).any(|key| key.made(text, marked))
    }

    /// The same, by the key with this fingerprint.
    pub(crate) fn verify_by(&self, fingerprint: &str, text: &str, marked: &str) -> bool {
        let by = self.0.iter().find(|key| key.fingerprint == fingerprint);
        by.is_some_and(|key| key.made(text, marked))
    }
}

fn hexadecimal(line: &str) -> Option<Vec<u8>> {
    let is_key = line.len() == 64 && line.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |at| u8::from_str_radix(line.get(at..at + 2)?, 16).ok();
    if is_key { (0..64).step_by(2).map(byte).collect() } else { None }
}

/// What the version before put into the store: a time and 256 bits, in hexadecimal.
fn stored_seed(seed: &str) -> Option<&str> {
    let (born, bits) = seed.split_once('-')?;
    let is_hex = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    (born.len() == 16 && bits.len() == 64 && is_hex(born) && is_hex(bits)).then_some(seed)
}

/// What a node is told as the name of its lease: the nonce, without the job.
pub fn token_name(token: LeaseToken) -> String {
    format!("{:032x}", token.nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lingua_core::Lang;
    use lingua_core::TenantId;
    use lingua_core::eligibility::Route;
    use lingua_core::job_key::{JobKey, Origin};

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

    fn session() -> SessionKey {
        SessionKey::new(TenantId::new("t").unwrap(), SessionId::new("s").unwrap())
    }

    const OLD: &str =
        "store:0000019a2b3c4d5e-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn hex(digit: char) -> String {
        std::iter::repeat_n(digit, 64).collect()
    }

    #[test]
    fn nodes_cannot_tell_that_two_jobs_are_of_one_session() {
        let session = session();
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

    #[test]
    fn a_key_file_has_keys_of_64_digits_and_a_refusal_does_not_show_them() {
        let made = Secret::new_file(Chance::system());
        let secret = Secret::read(&made).unwrap();
        assert!(!secret.takes_unsigned());
        assert_eq!(secret.fingerprint().len(), FINGERPRINT_CHARS);
        assert_ne!(
            Secret::read(&Secret::new_file(Chance::system())).unwrap().fingerprint(),
            secret.fingerprint()
        );
        let commented = format!("# made today\n\n  {}  \n", made.trim());
        assert_eq!(Secret::read(&commented).unwrap().fingerprint(), secret.fingerprint());
        let five = [hex('1'), hex('2'), hex('3'), hex('4'), hex('5')].join("\n");
        for wrong in
            ["", "# nothing", "abcd", &format!("{}0", hex('a')), &hex('g'), "store:x", &five]
        {
            let error = Secret::read(wrong).unwrap_err();
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }

    /// A file with both keys, in either order, believes what instances with one of them sign, and knows
    /// the jobs that they sent.
    #[test]
    fn a_key_is_changed_one_instance_after_the_other() {
        let (a, b) = (hex('a'), hex('b'));
        let read = |keys: &[&String]| {
            let lines: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            Secret::read(&lines.join("\n")).unwrap()
        };
        let steps = [read(&[&a]), read(&[&a, &b]), read(&[&b, &a]), read(&[&b])];
        let job = job(&session(), 1);
        for two in steps.windows(2) {
            for (from, to) in [(&two[0], &two[1]), (&two[1], &two[0])] {
                assert!(to.knows(from.fingerprint()));
                assert!(to.verify("x", &from.sign("x")));
                assert!(to.verify_by(from.fingerprint(), "x", &from.sign("x")));
                let there = to.renamed(from.masked(job), from.fingerprint());
                assert_eq!(to.masked(there), job);
            }
        }
        assert!(!steps[3].verify("x", &steps[0].sign("x")));
        assert!(!steps[3].knows(steps[0].fingerprint()));
        assert!(!steps[2].verify_by(steps[2].fingerprint(), "x", &steps[0].sign("x")));
    }

    /// What the version before signed and masked with the secret in the store.
    #[test]
    fn the_key_of_the_version_before_is_taken_from_the_store_for_an_upgrade() {
        let seed = OLD.strip_prefix(STORED).unwrap();
        let bytes = blake3::derive_key("lingua scheduler wire names v1", seed.as_bytes());
        let mut hasher = blake3::Hasher::new_keyed(&bytes);
        hasher.update(b"signature");
        hasher.update(b"resume t s 7");
        let theirs = hasher.finalize().to_hex()[..32].to_owned();
        let during = Secret::read(OLD).unwrap();
        assert!(during.takes_unsigned() && during.speaks_unsigned());
        assert_eq!(during.sign("resume t s 7"), theirs);
        let after = Secret::read(&format!("{OLD}\n{}", hex('a'))).unwrap();
        assert!(after.takes_unsigned() && !after.speaks_unsigned());
        let then = Secret::read(&format!("{}\n{OLD}", hex('a'))).unwrap();
        assert!(!then.takes_unsigned() && !then.speaks_unsigned());
        assert!(then.verify_exposed("resume t s 7", &theirs));
        assert!(!then.verify_exposed("x", &then.sign("x")), "only what the stored key signed");
    }
}
