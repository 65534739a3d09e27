//! A small run of `lingua bench hostile`: every kind of malice is there, and speakers are answered
//! beside each.

use std::process::Command;

use serde_json::Value;

/// Exit code, what it said, and its report.
fn bench(bounds: &[&str]) -> (Option<i32>, String, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("report.json");
    let small = ["--speakers", "20", "--seconds", "1", "--sockets", "300"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(["bench", "hostile"]).args(small).args(bounds).arg("--json").arg(&json);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let report = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (output.status.code(), String::from_utf8(said).unwrap(), report)
}

/// The bound in milliseconds is for a quiet machine and a release build: here it is only that nobody
/// waits for ever.
#[test]
fn speakers_are_answered_beside_every_kind_of_malice() {
    let (code, said, lines) = bench(&["--most-moved-ms", "2000", "--most-rss-mib", "512"]);
    assert_eq!(code, Some(0), "{said}");
    // Undisturbed at both ends, and one of each kind.
    assert_eq!(lines.len(), 2 + lingua_lab::Malice::all(300).len(), "{said}");
    for line in &lines {
        assert!(line["endings"].as_u64().unwrap() >= 3, "{line}");
    }
}
