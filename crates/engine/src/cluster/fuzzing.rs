//! Words and names of other instances, as targets for `fuzz/`.

use std::sync::LazyLock;

use crate::peers::bodies::Bodies;
use crate::peers::question;
use crate::secret::Secret;
use lingua_protocol::peer::Batch;

/// What is read is written in a form that is read the same.
pub(crate) fn envelope(data: &[u8]) {
    let Ok((words, unknown)) = Batch::read(data) else { return };
    assert!(words.len() + unknown <= data.len());
    let written = |words: &[_]| serde_json::json!({ "words": words }).to_string();
    let once = written(&words);
    let (again, unknown) = Batch::read(once.as_bytes()).expect("what was written is an envelope");
    assert_eq!((unknown, written(&again)), (0, once));
}

/// Nobody without the secret makes a name of a body or the mark of a question.
pub(crate) fn signed_name(data: &[u8]) {
    static SECRET: LazyLock<Secret> = LazyLock::new(|| Secret::from_seed(b"nobody guesses this"));
    let Ok(text) = str::from_utf8(data) else { return };
    assert!(Bodies::new(SECRET.clone()).get(text).is_none());
    assert!(!question::holds(&SECRET, 1_000_000, "b", "/x?limit=1", text));
    let (path, mark) = text.split_once('\n').unwrap_or((text, ""));
    let made = question::mark(&SECRET, 1_000_000, "b", path);
    assert!(question::holds(&SECRET, 1_000_000, "b", path, &made));
    assert!(!question::holds(&SECRET, 1_000_000, "b", path, mark));
}
