use std::path::{Path, PathBuf};

use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use tempfile::TempDir;

use super::check::{Found, check};
use super::ledger::Ledger;
use super::line::{Event, Line, Who};
use super::reason;
use super::recent::Recent;
use crate::cli::AuditCheck;

fn event(about: &str) -> Event {
    let (about, outcome) = (Some(about.to_owned()), "ok".to_owned());
    Event { at_ms: 7, who: Who::process(), what: "node.drain", about, outcome, again: 0 }
}

fn open(path: &Path) -> Ledger {
    Ledger::open(path, "i-1".to_owned(), 9).unwrap()
}

fn checked(files: &[&Path]) -> Result<Found, String> {
    let files = files.iter().map(|file| file.to_path_buf()).collect();
    check(&AuditCheck { files, after: None, has: None })
}

/// A log of so many lines.
fn written(lines: usize) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let mut ledger = open(&path);
    for index in 0..lines {
        ledger.write(&[event(&format!("node-{index}"))], 0).unwrap();
    }
    (directory, path)
}

#[test]
fn a_log_that_nobody_touched_is_found_good_over_restarts() {
    let (_directory, path) = written(3);
    open(&path).write(&[event("a"), event("b")], 4).unwrap();
    let found = checked(&[&path]).unwrap();
    assert_eq!((found.lines, found.seq), (5, 5));
    assert!(found.notes[0].contains(":4: 4 events"), "{:?}", found.notes);
}

#[test]
fn every_changed_byte_is_found_in_its_line() {
    let (_directory, path) = written(3);
    let good = std::fs::read(&path).unwrap();
    let second = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let third = second + good[second..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in second..third {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        let why = checked(&[&path]).err().unwrap();
        assert!(why.contains("audit.log:2 "), "byte {at}: {why}");
    }
}

#[test]
fn lines_that_are_deleted_swapped_added_or_doubled_are_found() {
    let (_directory, path) = written(5);
    let good = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let (_other, foreign) = written(2);
    let foreign = std::fs::read_to_string(foreign).unwrap();
    let foreign: Vec<&str> = foreign.lines().collect();
    let l = |order: &[usize]| order.iter().map(|at| lines[*at]).collect::<Vec<_>>();
    for (what, bad, line) in [
        ("first deleted", l(&[1, 2, 3, 4]), 1),
        ("one deleted", l(&[0, 1, 3, 4]), 3),
        ("two swapped", l(&[0, 2, 1, 3, 4]), 2),
        ("one doubled", l(&[0, 1, 1, 2, 3, 4]), 3),
        ("another's added", [&l(&[0, 1, 2])[..], &foreign[1..], &l(&[3, 4])].concat(), 4),
        ("garbage added", [&l(&[0, 1])[..], &["{}"], &l(&[2, 3, 4])].concat(), 3),
        ("an empty line added", [&l(&[0, 1])[..], &[""], &l(&[2, 3, 4])].concat(), 3),
        ("another chain after it", [&l(&[0, 1, 2, 3, 4])[..], &foreign].concat(), 6),
    ] {
        std::fs::write(&path, bad.join("\n") + "\n").unwrap();
        let why = checked(&[&path]).err().unwrap_or_else(|| panic!("{what} is not found"));
        assert!(why.contains(&format!("audit.log:{line} ")), "{what}: {why}");
    }
}

#[test]
fn a_cut_off_end_is_found_also_between_lines_if_its_hash_was_kept() {
    let (_directory, path) = written(3);
    let good = std::fs::read(&path).unwrap();
    let last = checked(&[&path]).unwrap().last;
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(checked(&[&path]).err().unwrap().contains("audit.log:3 is cut off"));
    let two = good.len() / 3 * 2;
    std::fs::write(&path, &good[..two]).unwrap();
    let kept = AuditCheck { files: vec![path.clone()], after: None, has: Some(last) };
    assert!(check(&kept).err().unwrap().contains("missing at the end"));
    std::fs::write(&path, &good).unwrap();
    check(&kept).unwrap();
}

#[test]
fn after_a_crash_in_a_line_a_new_segment_says_so_and_its_remains_are_kept() {
    for cut in [2, 30, 100] {
        let (_directory, path) = written(3);
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, &good[..good.len() - cut]).unwrap();
        open(&path).write(&[event("after")], 0).unwrap();
        let found = checked(&[&path]).unwrap();
        assert_eq!(found.seq, 4, "two whole ones, the segment's and the next");
        assert!(found.notes[0].contains("audit.log:3 "), "{:?}", found.notes);
        // What was broken cannot be changed afterwards either.
        let mut text = std::fs::read(&path).unwrap();
        let third =
            text.split(|byte| *byte == b'\n').take(2).map(|line| line.len() + 1).sum::<usize>();
        text[third + 5] ^= 1;
        std::fs::write(&path, text).unwrap();
        assert!(checked(&[&path]).err().unwrap().contains("audit.log:3 "));
    }
}

#[test]
fn a_line_that_only_lacks_its_end_is_whole() {
    let (_directory, path) = written(3);
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    open(&path).write(&[event("after")], 0).unwrap();
    let found = checked(&[&path]).unwrap();
    assert_eq!((found.seq, found.notes.len()), (4, 0));
}

#[test]
fn a_rotated_log_goes_on_in_the_new_file_and_is_checked_in_any_order() {
    let (directory, path) = written(3);
    let old = directory.path().join("audit.log.1");
    let mut ledger = open(&path);
    assert!(!ledger.reopen(8).unwrap(), "it is where it was");
    std::fs::rename(&path, &old).unwrap();
    assert!(ledger.reopen(8).unwrap());
    ledger.write(&[event("new")], 0).unwrap();
    drop(ledger);
    open(&path).write(&[event("newer")], 0).unwrap();
    for files in [[&*old, &*path], [&*path, &*old]] {
        assert_eq!(checked(&files).unwrap().seq, 6);
    }
    let why = checked(&[&path]).err().unwrap();
    let after = why.rsplit(' ').next().unwrap().to_owned();
    let rest = AuditCheck { files: vec![path], after: Some(after), has: None };
    assert_eq!(check(&rest).unwrap().lines, 3);
}

#[test]
fn two_do_not_write_to_one_file() {
    let (_directory, path) = written(1);
    let _first = open(&path);
    let why = Ledger::open(&path, "i-2".to_owned(), 9).err().unwrap();
    assert!(why.contains("another process writes to it"), "{why}");
}

#[test]
fn what_does_not_fit_on_the_disk_leaves_the_chain_where_it_was() {
    let mut full = open(Path::new("/dev/full"));
    for _ in 0..3 {
        full.write(&[event("x")], 0).unwrap_err();
    }
}

#[test]
fn a_line_reads_as_it_was_written() {
    let (_directory, path) = written(1);
    let text = std::fs::read_to_string(path).unwrap();
    let (line, _) = Line::read(text.trim_end().as_bytes()).unwrap();
    assert_eq!((line.seq, line.what.as_str(), line.instance.as_str()), (1, "node.drain", "i-1"));
    assert_eq!(line.write().0, text);
}

#[test]
fn what_is_told_once_in_a_while_is_counted_in_between() {
    let mut recent = Recent::default();
    assert_eq!(recent.first("a", 0, 10), Some(0));
    assert_eq!(recent.first("a", 5, 10), None);
    assert_eq!(recent.first("b", 5, 10), Some(0));
    assert_eq!(recent.first("a", 9, 10), None);
    assert_eq!(recent.first("a", 10, 10), Some(2));
    assert_eq!(recent.first("a", 20, 10), Some(0));
}

#[test]
fn reasons_are_words_and_never_what_the_sentence_quotes() {
    let refusal = |code| Refusal::new(code, "a sentence with a secret");
    assert_eq!(reason(&refusal(Code::Unauthorized).because("expired")), "expired");
    assert_eq!(reason(&refusal(Code::Unauthorized)), "unauthorized");
    assert_eq!(reason(&refusal(Code::Forbidden)), "not_theirs");
}
