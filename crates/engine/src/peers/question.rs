//! The marks on what one instance asks another over HTTP: for whom, about what, until when.
//!
//! Whoever reads the store knows the names of bodies, and whoever reaches the port can ask for them;
//! the mark is what only instances can make. A question for people holds for a moment by the clocks. A
//! body's name ends by itself, so asking for one goes by no clock: instances whose clocks are apart
//! still work together.

use lingua_store::Instance;

use crate::secret::Secret;

/// How long a question holds: as far apart as the clocks of instances may be, and no further.
const HOLDS_MS: u64 = 30_000;

fn text(to: &str, path: &str, until_ms: u64) -> String {
    format!("question {to} {until_ms:x} {path}")
}

pub(crate) fn mark(secret: &Secret, now_ms: u64, to: &str, path: &str) -> String {
    let until_ms = now_ms + HOLDS_MS;
    format!("{until_ms:x}-{}", secret.sign(&text(to, path, until_ms)))
}

pub(crate) fn holds(secret: &Secret, now_ms: u64, me: &str, path: &str, mark: &str) -> bool {
    let Some((until, mark)) = mark.split_once('-') else { return false };
    let Ok(until_ms) = u64::from_str_radix(until, 16) else { return false };
    let lately = now_ms < until_ms && until_ms <= now_ms.saturating_add(2 * HOLDS_MS);
    lately && secret.verify(&text(me, path, until_ms), mark)
}

/// Marks requests for bodies.
#[derive(Clone)]
pub struct Asker(pub(crate) Secret);

impl Asker {
    /// The mark on a request for this path of that life of an instance.
    pub fn mark(&self, to: &Instance, path: &str) -> String {
        self.0.sign(&fetch(to, path))
    }

    /// Whether an instance asked for this path, of this life of an instance. Those of the version before
    /// send no mark.
    pub(crate) fn holds(&self, me: &Instance, path: &str, mark: Option<&str>) -> bool {
        match mark {
            Some(mark) => self.0.verify(&fetch(me, path), mark),
            None => self.0.takes_unsigned(),
        }
    }
}

fn fetch(to: &Instance, path: &str) -> String {
    format!("fetch {to} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_body_holds_for_one_life_of_an_instance_and_one_path() {
        let asker = Asker(Secret::from_seed(b"ours"));
        let b = |boot| Instance { id: "b".parse().unwrap(), boot };
        let mark = asker.mark(&b(1), "/internal/v1/bodies/x");
        assert!(asker.holds(&b(1), "/internal/v1/bodies/x", Some(&mark)));
        assert!(!asker.holds(&b(2), "/internal/v1/bodies/x", Some(&mark)), "another life");
        assert!(!asker.holds(&b(1), "/internal/v1/bodies/y", Some(&mark)), "another body");
        assert!(!asker.holds(&b(1), "/internal/v1/bodies/x", None), "nobody asked");
        assert!(!asker.holds(&b(1), "/internal/v1/bodies/x", Some("")));
        let stranger = Asker(Secret::from_seed(b"theirs"));
        assert!(!stranger.holds(&b(1), "/internal/v1/bodies/x", Some(&mark)));
    }

    #[test]
    fn a_question_holds_for_one_instance_one_path_and_a_moment() {
        let secret = Secret::from_seed(b"ours");
        let mark = mark(&secret, 1_000_000, "b", "/x?limit=1");
        let asked = |now_ms, me: &str, path: &str| holds(&secret, now_ms, me, path, &mark);
        assert!(asked(1_000_000, "b", "/x?limit=1"));
        assert!(asked(1_000_000 - HOLDS_MS, "b", "/x?limit=1"), "clocks differ");
        assert!(!asked(1_000_000 + HOLDS_MS, "b", "/x?limit=1"), "too late");
        assert!(!asked(1_000_000 - 3 * HOLDS_MS, "b", "/x?limit=1"), "nobody's clock differs so");
        assert!(!asked(1_000_000, "c", "/x?limit=1"), "for another");
        assert!(!asked(1_000_000, "b", "/x?limit=2"), "about something else");
        let stranger = Secret::from_seed(b"theirs");
        assert!(!holds(&stranger, 1_000_000, "b", "/x?limit=1", &mark));
        for wrong in ["", "-", "zz-zz", "ffffffffffffffff-", "é"] {
            assert!(!holds(&secret, 1_000_000, "b", "/x?limit=1", wrong), "{wrong}");
        }
    }
}
