//! `lingua load restarts` in its quick form: every case is run and counted.

use crate::process::lingua;

use std::path::Path;

use serde_json::Value;

/// Small enough for a gate, and real: processes, signals, a private redis-server.
const QUICK: [&str; 14] = [
    "--nodes",
    "2",
    "--slots",
    "4",
    "--job",
    "200ms",
    "--at-once",
    "4",
    "--every",
    "100ms",
    "--before",
    "1500ms",
    "--after",
    "2s",
];

fn measure(arguments: &[&str], json: &Path) -> Vec<Value> {
    let json_flag = ["--json", json.to_str().unwrap()];
    let all = [&["load", "restarts"], arguments, &QUICK, &json_flag].concat();
    let (code, said) = lingua(&all);
    assert_eq!(code, Some(0), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    report["cases"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_restart_is_survived_and_counted() {
    let _turn = crate::app::heavy_turn().await;
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("report.json");
    let run = move || measure(&["--agents", "current"], &json);
    let cases = tokio::task::spawn_blocking(run).await.unwrap();
    let names: Vec<_> = cases.iter().map(|one| one["case"].as_str().unwrap()).collect();
    assert_eq!(names, ["kill", "drain", "kill_file", "drain_file", "kill_one", "lines"]);
    for one in &cases {
        assert_eq!(one["agents"], "current");
        assert!(one["results"].as_u64().unwrap() > 20, "nobody was served: {one:#}");
        assert_eq!(one["violations"], serde_json::json!([]), "{one:#}");
        assert!(one["back_after_ms"].as_u64().unwrap() > 0, "nothing was broken: {one:#}");
    }
    let lost = |name: &str| {
        let one = cases.iter().find(|one| one["case"] == name).unwrap();
        one["lost_with_session"].as_u64().unwrap()
    };
    assert!(
        lost("kill") > 0,
        "four speak all the time, and the embedded store forgets their sessions"
    );
    for kept in ["kill_file", "drain_file"] {
        assert_eq!(lost(kept), 0, "{kept}: the store in a directory forgets no session");
    }
    assert_eq!(lost("lines"), 0, "the lines of nodes are no sessions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_without_supports_are_measured_too() {
    let _turn = crate::app::heavy_turn().await;
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("report.json");
    let run = move || measure(&["--agents", "existing", "--case", "lines"], &json);
    let cases = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!((&cases[0]["agents"], &cases[0]["case"]), (&"existing".into(), &"lines".into()));
    assert!(cases[0]["results"].as_u64().unwrap() > 10, "{:#}", cases[0]);
}

#[test]
fn a_run_that_makes_no_sense_is_refused() {
    for wrong in [
        &["--nodes", "1"][..],
        &["--job", "5"],
        &["--case", "flood"],
        &["--agents", "none"],
        &["--at-once", "0"],
    ] {
        let (code, said) = lingua(&[&["load", "restarts"], wrong].concat());
        assert_eq!(code, Some(2), "{wrong:?}: {said}");
    }
    let (code, said) = lingua(&["load", "--sessions", "2", "restarts"]);
    assert_eq!(code, Some(2), "{said}");
}
