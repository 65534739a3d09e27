//! The mark on a question from one instance to another: for whom, about what, until when.

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

#[cfg(test)]
mod tests {
    use super::*;

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
