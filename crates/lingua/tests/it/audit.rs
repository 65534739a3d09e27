//! The audit log of a running scheduler: what is in it, and that it goes on whatever happens.

use crate::gated;
use crate::process;

use std::path::{Path, PathBuf};
use std::process::Command;

use gated::{Keys, Line, call};
use process::{Lingua, wait_for};
use serde_json::{Value, json};

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn has(file: &Path, what: &str, outcome: &str) -> bool {
    lines(file).iter().any(|line| line["what"] == what && line["outcome"] == outcome)
}

/// Exit code and everything it said.
fn check(files: &[&Path]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    let output = command.args(["audit", "check"]).args(files).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

struct Place {
    keys: Keys,
    file: PathBuf,
    config: PathBuf,
    lingua: Lingua,
}

impl Place {
    fn start(file: Option<&str>) -> Self {
        let keys = Keys::make();
        let file = file.map_or_else(|| keys.directory.path().join("audit.log"), PathBuf::from);
        let more = format!("[audit]\nfile = {:?}\n", file.to_str().unwrap());
        let config = keys.config("", &more);
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        Place { keys, file, config, lingua }
    }

    fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &Value) -> u16 {
        call(self.lingua.address(), method, path, token, body).status
    }

    fn stop(&mut self) {
        self.lingua.signal("TERM");
        assert_eq!(self.lingua.exit_code(), Some(0));
    }
}

#[test]
fn a_job_that_an_administrator_cancels_stands_there_and_one_of_its_owner_does_not() {
    let mut place = Place::start(None);
    let admin = place.keys.admin("ops", "admin-1");
    let session = place.keys.session("acme", "session-1");
    let job = "/v1/job/0000000000000000000000000a";
    assert_eq!(place.ask("DELETE", job, Some(&session), &Value::Null), 404);
    assert_eq!(place.ask("DELETE", job, Some(&admin), &Value::Null), 404);
    place.stop();
    let all = lines(&place.file);
    let cancels: Vec<_> = all.iter().filter(|line| line["what"] == "job.cancel").collect();
    assert_eq!(cancels.len(), 1, "{cancels:?}");
    assert_eq!(
        (&cancels[0]["outcome"], &cancels[0]["who"]["subject"]),
        (&json!("NOT_FOUND"), &json!("ops"))
    );
}

#[test]
fn what_an_operator_ends_stands_there_and_a_viewer_ends_nothing() {
    let mut place = Place::start(None);
    let admin = place.keys.admin("ops", "admin-1");
    let viewer = place.keys.viewer("eve", "viewer-1");
    let job = "/api/v1/jobs/0000000000000000000000000a/cancel";
    let session = "/api/v1/sessions/s-1/disconnect";
    for path in [job, session] {
        assert_eq!(place.ask("POST", path, Some(&viewer), &json!({})), 403, "{path}");
        assert_eq!(place.ask("POST", path, None, &json!({})), 401, "{path}");
        assert_eq!(place.ask("POST", path, Some(&admin), &json!({})), 404, "{path}");
    }
    for path in ["/api/v1/jobs", "/api/v1/sessions", "/api/v1/history?by=minute"] {
        assert_eq!(place.ask("GET", path, Some(&viewer), &Value::Null), 200, "{path}");
    }
    place.stop();
    let all = lines(&place.file);
    for (what, about) in
        [("job.cancel", "0000000000000000000000000a"), ("session.disconnect", "s-1")]
    {
        let told: Vec<_> = all.iter().filter(|line| line["what"] == what).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(
            (&told[0]["about"], &told[0]["outcome"], &told[0]["who"]["subject"]),
            (&json!(about), &json!("NOT_FOUND"), &json!("ops"))
        );
    }
}

#[test]
fn who_did_what_stands_there_over_rotation_and_restart_and_no_line_can_be_changed() {
    let mut place = Place::start(None);
    let admin = place.keys.admin("ops", "admin-1");
    let node = place.keys.node("node-1", "node-token-1");
    let session = place.keys.session("acme", "session-1");
    let registered = json!({"node_id": "node-1", "health": "ready", "semantic_langs": ["en"],
        "nmt_pairs": "any", "tts_langs": [], "max_concurrent_jobs": 1});
    assert_eq!(place.ask("POST", "/v1/node/register", Some(&node), &registered), 200);
    assert_eq!(place.ask("POST", "/api/v1/nodes/node-1/drain", Some(&admin), &json!({})), 200);
    assert_eq!(place.ask("POST", "/api/v1/nodes/node-9/block", Some(&admin), &json!({})), 404);
    let revoked = json!({"jti": "session-9"});
    assert_eq!(place.ask("POST", "/api/v1/revocations", Some(&admin), &revoked), 200);
    assert_eq!(place.ask("GET", "/api/v1/stats", Some("no.token.atall"), &Value::Null), 401);
    assert_eq!(place.ask("GET", "/api/v1/stats", Some(&session), &Value::Null), 403);
    let other = json!({"node_id": "node-2"});
    assert_eq!(place.ask("POST", "/v1/node/heartbeat", Some(&node), &other), 403);
    wait_for("the refusals are written", || {
        has(&place.file, "call", "refused.unreadable")
            && has(&place.file, "call", "refused.other_role")
            && has(&place.file, "call", "refused.not_theirs")
    });
    let first = lines(&place.file);
    let find = |what: &str| first.iter().find(|line| line["what"] == what).unwrap().clone();
    assert_eq!(first[0]["what"], "process.start");
    let drain = find("node.drain");
    assert_eq!((&drain["about"], &drain["outcome"]), (&json!("node-1"), &json!("ok")));
    let who = json!({"role": "admin", "subject": "ops", "jti": "admin-1", "address": "127.0.0.1"});
    assert_eq!(drain["who"], who);
    assert_eq!(find("node.block")["outcome"], "NOT_FOUND");
    assert_eq!(find("token.revoke")["about"], "jti:session-9");
    let refused = first.iter().find(|line| line["outcome"] == "refused.other_role").unwrap();
    assert_eq!(
        (&refused["who"]["tenant"], &refused["who"]["jti"]),
        (&json!("acme"), &json!("session-1"))
    );
    assert_eq!(refused["about"], "GET /api/v1/stats");
    let uses = first.iter().filter(|line| line["what"] == "token.use");
    let uses: Vec<&Value> = uses.map(|line| &line["who"]["jti"]).collect();
    assert_eq!(uses, ["node-token-1", "admin-1"], "each once, however often it is used");

    let old = place.keys.directory.path().join("audit.log.1");
    std::fs::rename(&place.file, &old).unwrap();
    place.lingua.signal("HUP");
    wait_for("it goes on in a new file", || has(&place.file, "config.reload", "ok"));
    assert_eq!(lines(&place.file)[0]["what"], "audit.rotated");
    place.stop();
    assert!(has(&place.file, "process.stop", "ok"));
    place.lingua = Lingua::start(&["--config", place.config.to_str().unwrap()]);
    wait_for("it goes on", || {
        lines(&place.file).iter().filter(|line| line["what"] == "process.start").count() == 1
    });
    let (code, said) = check(&[&place.file, &old]);
    assert_eq!(code, Some(0), "{said}");
    for file in [&old, &place.file] {
        let text = std::fs::read_to_string(file).unwrap();
        for token in [&admin, &node, &session] {
            let signature = token.rsplit('.').next().unwrap();
            assert!(!text.contains(signature), "a token stands in the log");
        }
    }

    let text = std::fs::read_to_string(&old).unwrap();
    std::fs::write(&old, text.replacen("node.drain", "node.resume", 1)).unwrap();
    let changed = text.lines().position(|line| line.contains("node.drain")).unwrap() + 1;
    let (code, said) = check(&[&old, &place.file]);
    assert_eq!(code, Some(1));
    assert!(said.contains(&format!("audit.log.1:{changed} ")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_has_to_leave_stands_there_with_whose_it_was_and_why() {
    let place = Place::start(None);
    let admin = place.keys.admin("ops", "admin-1");
    let to = place.lingua.address();
    let opening = json!({"type": "session_init", "client_version": "1", "platform": "web",
        "src_lang": "en", "tgt_lang": "zh"});
    let registering = json!({"type": "node_register", "node_id": "node-1", "version": "1",
        "platform": "linux", "language_capabilities": {"semantic_languages": ["en"]}});
    let mut open = Vec::new();
    for (path, token, first) in [
        ("/ws/session", place.keys.short_session("acme", "session-1", 2), &opening),
        ("/ws/session", place.keys.session("acme", "session-2"), &opening),
        ("/ws/node", place.keys.node("node-1", "node-token-1"), &registering),
    ] {
        let mut line = Line::open(to, path, Some(&token)).await;
        line.say(first).await;
        let answer = line.hear().await;
        assert!(answer["type"].as_str().unwrap_or_default().ends_with("_ack"), "{answer}");
        open.push(line);
    }
    let stream = place.keys.admin("eve", "admin-2");
    let reader =
        std::thread::spawn(move || call(to, "GET", "/api/v1/events", Some(&stream), &Value::Null));
    let follows = || {
        let text = call(to, "GET", "/metrics", Some(&admin), &Value::Null).text;
        text.lines().any(|line| line == "lingua_dashboard_readers 1")
    };
    wait_for("the stream is open", follows);
    for jti in ["session-2", "node-token-1", "admin-2"] {
        let revoked = json!({"jti": jti});
        assert_eq!(place.ask("POST", "/api/v1/revocations", Some(&admin), &revoked), 200);
    }
    for line in &mut open {
        while line.hear().await.get("close").is_none() {}
    }
    reader.join().unwrap();
    let ended = || {
        let ended = lines(&place.file).into_iter().filter(|line| line["what"] == "socket.end");
        let words = ended.map(|line| {
            [&line["who"]["jti"], &line["about"], &line["outcome"]]
                .map(|word| word.as_str().unwrap_or_default().to_owned())
        });
        words.collect::<std::collections::BTreeSet<_>>()
    };
    let all = [
        ["admin-2", "admin", "refused.revoked"],
        ["node-token-1", "node", "refused.revoked"],
        ["session-1", "session", "refused.expired"],
        ["session-2", "session", "refused.revoked"],
    ];
    wait_for("all of them are written", || ended().len() >= all.len());
    assert_eq!(ended(), all.map(|line| line.map(str::to_owned)).into());
}

#[test]
fn after_a_crash_the_chain_goes_on() {
    let mut place = Place::start(None);
    wait_for("it has begun", || has(&place.file, "process.start", "ok"));
    place.lingua.signal("KILL");
    place.lingua.exit_code();
    // As if it had died in the middle of a line.
    let text = std::fs::read_to_string(&place.file).unwrap();
    std::fs::write(&place.file, format!("{text}{{\"seq\":2,\"at_")).unwrap();
    place.lingua = Lingua::start(&["--config", place.config.to_str().unwrap()]);
    wait_for("it goes on", || lines(&place.file).len() >= 3);
    let (code, said) = check(&[&place.file]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("audit.log:2 is cut off") || said.contains("audit.log:2 has no hash"),
        "{said}"
    );
}

#[test]
fn a_disk_that_is_full_stops_nothing_and_is_counted() {
    let place = Place::start(Some("/dev/full"));
    let admin = place.keys.admin("ops", "admin-1");
    let lost = || {
        let text = call(place.lingua.address(), "GET", "/metrics", Some(&admin), &Value::Null).text;
        let line = text.lines().find_map(|line| {
            line.strip_prefix("lingua_audit_lines_total{outcome=\"lost\"} ")?.parse::<u64>().ok()
        });
        line.unwrap()
    };
    wait_for("what could not be written is counted", || lost() >= 2);
    let session = place.keys.session("acme", "session-1");
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA"});
    // Nobody can do it, and that is said at once.
    assert_eq!(place.ask("POST", "/v1/dispatch/f2f", Some(&session), &job), 422);
}

#[test]
fn a_file_that_cannot_be_opened_or_is_anothers_is_refused_at_the_start() {
    let place = Place::start(None);
    let config = place.config.to_str().unwrap();
    let (code, said) = process::lingua(&["--config", config]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("another process writes to it"), "{said}");
}

#[test]
fn a_crash_leaves_no_dump_of_the_memory() {
    let place = Place::start(None);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", place.lingua.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<&str> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
}
