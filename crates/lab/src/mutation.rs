//! Kept inputs of decoders, and changed ones: what every run of the tests looks at again.
//!
//! It draws the same inputs each time and does not watch which code they reach; `scripts/fuzz` does, and what it
//! finds is kept in `fuzz/corpus`, from which this begins.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The name of a target, and what reads its inputs.
pub type Target = (&'static str, fn(&[u8]));

/// Changed inputs per target, unless `LINGUA_FUZZ_CASES` says otherwise.
const CASES: usize = 50_000;

/// Bytes of the longest input.
const MAX_BYTES: usize = 4_096;

/// What decoders look for.
const WORDS: [&str; 16] = [
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "\\ud800",
    "-1",
    "0",
    "18446744073709551615",
    "1e999",
    "é",
    "\n",
    " ",
];

/// Runs a target on its kept inputs in `corpus`, and on changed ones. Panics where it does, with the input; says how
/// many inputs there were.
pub fn run(corpus: &Path, (name, target): Target) -> usize {
    let kept = read(&corpus.join(name));
    assert!(!kept.is_empty(), "{name} has no kept inputs in {}", corpus.display());
    let cases = std::env::var("LINGUA_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut rng = StdRng::seed_from_u64(1);
    let changed = (0..cases.unwrap_or(CASES)).map(|_| change(&kept, &mut rng));
    let mut inputs = 0;
    for input in kept.iter().cloned().chain(changed) {
        let ended = catch_unwind(AssertUnwindSafe(|| target(&input)));
        assert!(ended.is_ok(), "{name} panics on b\"{}\"", input.escape_ascii());
        inputs += 1;
    }
    inputs
}

fn read(directory: &Path) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    // In an order that is the same everywhere.
    files.sort();
    files.iter().filter_map(|file| fs::read(file).ok()).collect()
}

/// A kept input with a few changes.
fn change(kept: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let mut input = kept.choose(rng).cloned().unwrap_or_default();
    for _ in 0..rng.random_range(1..=4) {
        let from = rng.random_range(0..=input.len());
        let to = rng.random_range(from..=input.len().min(from + 16));
        match rng.random_range(0..6) {
            0 => drop(input.drain(from..to)),
            1 => input.extend_from_within(from..to),
            2 => drop(input.splice(from..to, [rng.random::<u8>()])),
            3 => input.truncate(from),
            4 => {
                let word = WORDS.choose(rng).copied().unwrap_or_default();
                drop(input.splice(from..to, word.bytes()));
            }
            _ => {
                let other = kept.choose(rng).map_or(&[][..], Vec::as_slice);
                let begins = rng.random_range(0..=other.len());
                input.truncate(from);
                input.extend_from_slice(&other[begins..]);
            }
        }
    }
    input.truncate(MAX_BYTES);
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "half panics on")]
    fn an_input_that_breaks_a_decoder_is_found_and_shown() {
        let corpus = tempfile::tempdir().unwrap();
        fs::create_dir(corpus.path().join("half")).unwrap();
        fs::write(corpus.path().join("half/one"), b"whole").unwrap();
        run(corpus.path(), ("half", |input| assert_ne!(input.len(), 2)));
    }
}
