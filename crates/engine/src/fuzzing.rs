//! What the engine reads that others wrote, each as a target for `fuzz/`.

use crate::cluster::fuzzing as cluster;
use crate::sessions::fuzzing as sessions;
use crate::snapshot::fuzzing as snapshot;
use crate::trace::Context;

/// A name and what to do with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 5] = [
    ("envelope", cluster::envelope),
    ("signed_name", cluster::signed_name),
    ("saved_session", sessions::saved_session),
    ("snapshot_part", snapshot::part),
    ("traceparent", traceparent),
];

fn traceparent(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some(context) = Context::parse(text) else { return };
    assert_eq!(Context::parse(&context.to_string()), Some(context));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_another_instance_wrote_breaks_its_readers() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
        for target in TARGETS {
            lingua_lab::mutation::run(corpus.as_ref(), target);
        }
    }
}
