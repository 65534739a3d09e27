use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::config::{effective, of_text};
use crate::identity::{Authenticator, Caller, Keys, Rules, claims_of};

/// The public half of a key whose private half nobody has any more.
const KEY: [u8; 32] = [
    0x17, 0x60, 0x34, 0x50, 0x1e, 0x05, 0x02, 0x0e, 0x43, 0x57, 0x1d, 0xd2, 0x0a, 0xcf, 0xcc, 0xb2,
    0x22, 0xc5, 0xe7, 0x70, 0x71, 0x88, 0x16, 0x15, 0xb0, 0xfd, 0xb5, 0x31, 0x53, 0xd3, 0xaf, 0xc8,
];

/// Within the life of the kept tokens.
const NOW_S: u64 = 1_790_000_000;

/// Only the kept tokens were signed, and all of them for one subject.
pub(super) fn token(data: &[u8]) {
    static GATE: LazyLock<Arc<Authenticator>> = LazyLock::new(|| Authenticator::new(rules()));
    let Ok(token) = str::from_utf8(data) else { return };
    let _ = claims_of(token);
    if let Ok(caller) = GATE.caller(Some(token), NOW_S) {
        assert!(matches!(caller, Caller::Known(known) if known.subject == "fuzz-1"));
    }
}

fn rules() -> Rules {
    Rules {
        keys: Keys::one("one", &KEY),
        issuer: "lingua".to_owned(),
        audience: "lingua".to_owned(),
        session_life_s: 900,
        node_life_s: 900,
        admin_life_s: 900,
        viewer_life_s: 900,
        metrics_life_s: 900,
        leeway_s: 5,
        ..Rules::default()
    }
}

/// What is in force is printed in a form that means the same.
pub(super) fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(loaded) = of_text(text).inspect_err(|problems| assert!(!problems.0.is_empty())) else {
        return;
    };
    let printed = effective(&loaded.config, &BTreeMap::new());
    // But a secret is not printed.
    if !printed.contains('…') {
        let again = of_text(&printed).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(again.config, loaded.config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would only ever see refusals.
    #[test]
    fn the_kept_tokens_are_good() {
        for role in ["session", "node", "admin"] {
            let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/token");
            let token = std::fs::read_to_string(format!("{corpus}/{role}")).unwrap();
            let authenticator = Authenticator::new(rules());
            assert!(authenticator.caller(Some(&token), NOW_S).is_ok(), "{role}");
        }
    }
}
