//! What the store reads that others wrote, each as a target for `fuzz/`.

use lingua_core::slots::LeaseToken;

use crate::redis::{Target, fuzzing as stored};

/// A name and what to do with bytes.
pub type Named = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Named; 4] = [
    ("job_record", stored::job_record),
    ("node_record", stored::node_record),
    ("store_url", store_url),
    ("lease_token", lease_token),
];

fn store_url(data: &[u8]) {
    let Ok(url) = str::from_utf8(data) else { return };
    match Target::parse(url) {
        Ok(target) => assert!(!target.to_string().is_empty()),
        Err(why) => assert!(!why.is_empty()),
    }
}

fn lease_token(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(token) = text.parse::<LeaseToken>() else { return };
    assert_eq!(token.to_string().parse::<LeaseToken>().ok(), Some(token));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_written_into_the_store_breaks_its_readers() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
        for target in TARGETS {
            lingua_lab::mutation::run(corpus.as_ref(), target);
        }
    }
}
