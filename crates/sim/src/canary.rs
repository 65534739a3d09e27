//! Nothing that is said, heard or signed is ever in the store. Everything that goes into it is looked
//! through for marks that speech, texts and tokens carry.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// What all speech consists of behind its mark: three bytes, so that base64 has only three forms of it.
pub(crate) const SPEECH: &[u8; 3] = b"SpK";

/// What every text of a node has in it.
pub(crate) const TEXT: &str = "canary-text-of-somebody";

/// What every error message of a node has in it: it may quote what was said.
pub(crate) const NODE_ERROR: &str = "canary-error-of-a-node";

/// The letters of a signature.
const SIGNATURE: usize = 32;

/// What is looked for, and what it is called.
const MARKS: [(&[u8], &str); 7] = [
    (b"SpKSpKSpKSpK", "speech"),
    (b"U3BLU3BLU3BL", "speech in base64"),
    (b"NwS1NwS1NwS1", "speech in base64"),
    (b"TcEtTcEtTcEt", "speech in base64"),
    (b"83, 112, 75, 83, 112, 75", "speech as numbers"),
    (TEXT.as_bytes(), "a text"),
    (NODE_ERROR.as_bytes(), "an error message of a node"),
];

/// Looks through what goes into the store.
#[derive(Default)]
pub(crate) struct Canary(Mutex<State>);

#[derive(Default)]
struct State {
    /// The signatures of the tokens that clients were given.
    signatures: BTreeSet<String>,
    /// What looks like one and went into the store.
    stored: BTreeSet<(String, &'static str)>,
    found: BTreeSet<String>,
}

impl Canary {
    /// A client was given this token.
    pub fn token(&self, token: &str) {
        let mut state = self.0.lock();
        state.signatures.extend(signatures(token.as_bytes()));
    }

    /// This goes into the store by this call.
    pub fn stored(&self, call: &'static str, bytes: &[u8]) {
        let marks = MARKS.iter().filter(|(mark, _)| contains(bytes, mark));
        let found: Vec<_> =
            marks.map(|(_, name)| format!("{name} went into the store by {call}")).collect();
        let looks_signed: Vec<_> = signatures(bytes).collect();
        if found.is_empty() && looks_signed.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.found.extend(found);
        state.stored.extend(looks_signed.into_iter().map(|text| (text, call)));
    }

    /// What was found.
    pub fn found(&self) -> Vec<String> {
        let state = self.0.lock();
        let tokens = state.stored.iter().filter(|(text, _)| state.signatures.contains(text));
        let tokens =
            tokens.map(|(_, call)| format!("a client's token went into the store by {call}"));
        let all: BTreeSet<String> = tokens.chain(state.found.iter().cloned()).collect();
        all.into_iter().collect()
    }
}

fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    let first = mark[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(mark) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// The runs of exactly as many hexadecimal digits as a signature has.
fn signatures(bytes: &[u8]) -> impl Iterator<Item = String> {
    let runs = bytes.split(|byte| !byte.is_ascii_hexdigit());
    let long = runs.filter(|run| run.len() == SIGNATURE);
    long.map(|run| String::from_utf8_lossy(run).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Vec<String> {
        let canary = Canary::default();
        canary.token("s-1.7.0123456789abcdef0123456789abcdef");
        canary.stored("Some.call", bytes);
        canary.found()
    }

    #[test]
    fn speech_texts_and_tokens_are_found_in_whatever_form() {
        let speech = SPEECH.repeat(20);
        assert_eq!(found(&speech), ["speech went into the store by Some.call"]);
        let numbers = format!("{speech:?}");
        assert_eq!(
            found(numbers.as_bytes()),
            ["speech as numbers went into the store by Some.call"]
        );
        for encoded in ["xxU3BLU3BLU3BLU3BL", "aNwS1NwS1NwS1NwS1", "TcEtTcEtTcEtTcEt"] {
            assert_eq!(
                found(encoded.as_bytes()),
                ["speech in base64 went into the store by Some.call"]
            );
        }
        assert_eq!(
            found(format!("a {TEXT}").as_bytes()),
            ["a text went into the store by Some.call"]
        );
        let token = b"{\"token\":\"0123456789abcdef0123456789abcdef\"}";
        assert_eq!(found(token), ["a client's token went into the store by Some.call"]);
        assert!(found(b"0123456789abcdef0123456789abcdee and SpK").is_empty());
    }
}
