//! The commands of an operator, and what every command has in common.

use crate::process::{Lingua, get, lingua, run, wait_for};

use std::process::{Command, Output};

use lingua_lab::{Behaviour, FakeNode, NodeOptions, Speaker, SpeakerOptions};
use serde_json::{Value, json};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A scheduler with two nodes, one of which never answers.
async fn world() -> (Lingua, Vec<FakeNode>) {
    let server = tokio::task::spawn_blocking(|| Lingua::start(&SERVE)).await.unwrap();
    let url = format!("ws://{}/ws/node", server.address());
    let quick = NodeOptions::new(&url).node_id("gpu-1");
    let silent = Behaviour { never_answer: 1.0, ..Behaviour::default() };
    let silent = NodeOptions::new(&url).node_id("gpu-2").languages(&["ja", "ko"]).behaviour(silent);
    let mut nodes = Vec::new();
    for options in [quick, silent] {
        nodes.push(FakeNode::connect(options).await.unwrap());
    }
    (server, nodes)
}

/// Runs a command against that scheduler.
fn at(server: &Lingua, args: &[&str]) -> String {
    let url = format!("http://{}", server.address());
    run(&[args, &["--url", &url]].concat())
}

fn json_of(server: &Lingua, args: &[&str]) -> Value {
    serde_json::from_str(&at(server, &[args, &["--json"]].concat())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_listed_looked_at_drained_resumed_and_blocked() {
    let (server, nodes) = world().await;
    tokio::task::spawn_blocking(move || {
        let table = at(&server, &["nodes"]);
        assert!(table.starts_with("NODE ") && table.contains("gpu-1"), "{table}");
        assert!(table.trim_end().ends_with("2 nodes"), "{table}");
        let listed = json_of(&server, &["nodes"]);
        assert_eq!((listed["nodes"].as_array().unwrap().len(), &listed["total"]), (2, &json!(2)));
        let one = at(&server, &["nodes", "gpu-2"]);
        assert!(one.contains("languages") && one.contains("ja, ko"), "{one}");
        for (order, wanted) in [("drain", "drain"), ("resume", "serve"), ("block", "block")] {
            let said = at(&server, &[order, "gpu-1"]);
            assert!(said.starts_with("gpu-1 "), "{said}");
            wait_for("the order is known", || {
                get(server.address(), "/api/v1/nodes/gpu-1").1["order"] == wanted
            });
        }
        let url = format!("http://{}", server.address());
        let (code, said) = lingua(&["drain", "nobody/../x", "--url", &url]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("NOT_FOUND") || said.contains("INVALID_MESSAGE"), "{said}");
    })
    .await
    .unwrap();
    drop(nodes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_jobs_and_explanations_are_shown_and_sessions_and_jobs_are_ended() {
    let (server, _nodes) = world().await;
    let url = format!("ws://{}/ws/session", server.address());
    let speaker = Speaker::connect(SpeakerOptions::new(url)).await.unwrap();
    let client = lingua_lab::HttpClient::new(format!("http://{}", server.address()));
    let job = json!({"session_id": "s", "src_lang": "ja", "tgt_lang": "ko", "audio": "AAAA"});
    let handed_in = client.post("/v1/dispatch/f2f", &job).await.unwrap().json().unwrap();
    let id = handed_in["job_id"].as_str().unwrap().to_owned();
    let other = json!({"session_id": "t", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA"});
    client.post("/v1/dispatch/f2f", &other).await.unwrap().ok().unwrap();
    let session = speaker.session_id().to_owned();
    tokio::task::spawn_blocking(move || {
        let sessions = at(&server, &["sessions"]);
        assert!(sessions.contains("en → zh") && sessions.contains("\n1 session\n"), "{sessions}");
        assert_eq!(json_of(&server, &["sessions", "--connected", "true"])["total"], 1);
        assert_eq!(json_of(&server, &["sessions", "--src", "de"])["total"], 0);
        let one = at(&server, &["sessions", &session]);
        assert!(one.contains(&session) && one.contains("connected   yes"), "{one}");
        let ended = at(&server, &["disconnect", &session]);
        assert_eq!(ended.trim_end(), format!("session {session} is disconnected"));
        assert_eq!(json_of(&server, &["sessions"])["total"], 0);

        let jobs = at(&server, &["jobs", "--state", "open", "--node", "gpu-2"]);
        assert!(jobs.contains(&id) && jobs.trim_end().ends_with("\n1 job"), "{jobs}");
        for other in
            [["--state", "FAILED"], ["--node", "gpu-1"], ["--session", "t"], ["--code", "ok"]]
        {
            let jobs = at(&server, &["jobs", other[0], other[1]]);
            assert!(!jobs.contains(&id), "{other:?}: {jobs}");
        }
        let listed =
            json_of(&server, &["jobs", "--src", "ja", "--tgt", "ko", "--tenant", "default"]);
        assert_eq!((&listed["total"], &listed["jobs"][0]["job_id"]), (&json!(1), &json!(id)));
        let short = json_of(&server, &["jobs", "--limit", "1"]);
        assert_eq!((&short["total"], short["jobs"].as_array().unwrap().len()), (&json!(2), 1));
        let (code, said) =
            lingua(&["jobs", "--state", "happy", "--url", &format!("http://{}", server.address())]);
        assert!(
            code == Some(1) && said.contains("INVALID_MESSAGE: state: is open, ended or"),
            "{said}"
        );

        let shown = at(&server, &["job", &id]);
        assert!(
            shown.contains(&id) && shown.contains("attempt 1") && shown.contains("on gpu-2"),
            "{shown}"
        );
        // The node's owner asks about the id in its own log.
        let at_the_node =
            json_of(&server, &["job", &id])["node_job_id"].as_str().unwrap().to_owned();
        assert_eq!(json_of(&server, &["job", &at_the_node])["job_id"], json!(id));
        let cancelled = at(&server, &["cancel", &id]);
        assert!(cancelled.contains("CANCELLED"), "{cancelled}");
        assert_eq!(json_of(&server, &["job", &id])["state"], "CANCELLED");
        let why = at(&server, &["explain", "--src", "en", "--tgt", "sw"]);
        assert!(
            why.contains("0 of 2 nodes can take it")
                && why.contains("does not speak the target language"),
            "{why}"
        );
        let fine = json_of(&server, &["explain", "--src", "en", "--tgt", "zh", "--node", "gpu-1"]);
        assert_eq!((&fine["eligible"], &fine["node"]["eligible"]), (&json!(1), &json!(true)));
    })
    .await
    .unwrap();
    drop(speaker);
}

#[test]
fn nobody_there_is_one_sentence() {
    let (code, said) = lingua(&["nodes", "--url", "http://127.0.0.1:9"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("127.0.0.1:9") && said.lines().count() == 1, "{said}");
}

/// Runs a command whose reader is gone before it says a word.
fn unread(args: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(args).stdout(writer).env_remove("LINGUA_STORE").env_remove("LINGUA_LISTEN");
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_panics_when_nobody_reads_what_it_says() {
    let (server, _nodes) = world().await;
    let url = format!("http://{}", server.address());
    tokio::task::spawn_blocking(move || {
        for args in [
            &["--help"][..],
            &["--version"],
            &["config", "default"],
            &["config", "show"],
            &["config", "check"],
            &["completions", "bash"],
            &["load", "restarts", "--help"],
            &["nodes", "--url", &url],
            &["nodes", "gpu-1", "--json", "--url", &url],
            &["sessions", "--url", &url],
            &["jobs", "--url", &url],
            &["explain", "--src", "en", "--tgt", "zh", "--url", &url],
            &["dispatch", "--url", &url],
            &["speak", "--signal", "1s", "--url", &url],
            &["node", "--duration", "1s", "--url", &url],
            &["top", "--once", "--url", &url],
            &["bench", "store", "--store", "memory", "--in-flight", "1", "--duration", "1s"],
        ] {
            let Output { status, stderr, .. } = unread(args);
            let said = String::from_utf8_lossy(&stderr);
            assert!(!said.contains("panicked"), "{args:?}: {said}");
            assert_eq!(status.code(), Some(0), "{args:?}: {said}");
        }
    })
    .await
    .unwrap();
}

#[test]
fn completions_know_the_commands_of_this_build() {
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef lingua"), ("fish", "complete -c lingua")]
    {
        let script = run(&["completions", shell]);
        assert!(script.contains(sign), "{shell}: {}", &script[..200.min(script.len())]);
        for word in ["nodes", "drain", "jobs", "disconnect", "explain", "restarts", "advertise"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    assert_eq!(lingua(&["completions", "cmd"]).0, Some(2));
}

#[test]
fn a_name_can_be_listened_on() {
    let server = Lingua::start(&["serve", "--listen", "localhost:0"]);
    assert!(server.address().ip().is_loopback(), "{}", server.address());
    assert_eq!(get(server.address(), "/health").0, 200);
    let (code, said) = lingua(&["serve", "--listen", "localhost"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no port"), "{said}");
}

#[test]
fn an_address_that_nobody_can_call_is_not_advertised() {
    for wrong in ["foo", "foo:5010", "ftp://h:1"] {
        let (code, said) = lingua(&[&SERVE[..], &["--advertise", wrong]].concat());
        assert_eq!(code, Some(78), "{wrong}: {said}");
        assert!(said.contains("advertise") && said.contains("http://host:port"), "{said}");
    }
}

#[test]
fn the_first_line_of_a_json_log_says_what_was_started() {
    let (mut server, log) = Lingua::logged(&[&SERVE[..], &["--log-format", "json"]].concat(), &[]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let address = format!("http://{}", server.address());
    let log = log.all();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"), "{first}");
    assert_eq!(first["address"], address, "{first}");
    assert!(first["store"].as_str().is_some_and(|store| store.contains("memory")), "{first}");
}

#[test]
fn options_of_old_are_still_understood() {
    for args in [
        &["speak", "--from", "en", "--to", "zh", "--pause-ms", "500"][..],
        &["node", "--p50-ms", "10", "--p99-ms", "20", "--seconds", "1"],
        &["dispatch", "--deadline-ms", "5000"],
    ] {
        let (code, said) = lingua(&[args, &["--url", "http://127.0.0.1:9"]].concat());
        assert_eq!(code, Some(1), "nobody is there, and that is all: {args:?}: {said}");
    }
    for args in [
        &["demo", "--seconds", "x"][..],
        &["load", "--duration-s", "0"],
        &["chaos", "--seconds", "1d"],
    ] {
        assert_eq!(lingua(args).0, Some(2), "{args:?}");
    }
    let help = run(&["speak", "--help"]) + &run(&["load", "--help"]) + &run(&["node", "--help"]);
    for old in ["--from", "--pause-ms", "--duration-s", "--p50-ms"] {
        assert!(!help.contains(old), "{old} is in the help");
    }
}
