//! Attacks that no other test makes, and the table of docs/SECURITY.md.

use crate::gated;
use crate::process;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gated::{Keys, Line, call};
use process::Lingua;
use serde_json::{Value, json};

struct Place {
    keys: Keys,
    lingua: Lingua,
}

impl Place {
    fn start() -> Self {
        let keys = Keys::make();
        let config = keys.config("", "[nodes]\nslow_start = \"off\"");
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        Place { keys, lingua }
    }

    async fn node(&self, name: &str, more: Value) -> Line {
        let token = self.keys.node(name, name);
        let mut node = Line::open(self.lingua.address(), "/ws/node", Some(&token)).await;
        let mut register = json!({"type": "node_register", "running": [], "node_id": name, "max_concurrent_jobs": 8,
            "supports": ["ack", "tokens"],
            "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh", "en"]}});
        register.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.say(&register).await;
        node.hear_a("node_register_ack").await;
        node
    }

    /// A session of this tenant, and what it was told.
    async fn session(&self, tenant: &str, resume: Option<&str>) -> (Line, Value) {
        self.session_with(&self.keys.session(tenant, tenant), resume).await
    }

    async fn session_with(&self, token: &str, resume: Option<&str>) -> (Line, Value) {
        let mut line = Line::open(self.lingua.address(), "/ws/session", Some(token)).await;
        line.say(&json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
            "tgt_lang": "zh", "supports": ["resume"], "resume_token": resume}))
            .await;
        let ack = line.hear_a("session_init_ack").await;
        (line, ack)
    }
}

fn utterance(index: u32) -> Value {
    json!({"type": "utterance", "utterance_index": index, "src_lang": "en", "tgt_lang": "zh", "audio": "AAEAAgADAAQ=",
        "audio_format": "pcm16"})
}

/// A word of a node about the job that somebody was given.
fn about(assign: &Value, kind: &str, more: Value) -> Value {
    let mut said = json!({"type": kind, "job_id": assign["job_id"], "attempt_id": assign["attempt_id"],
        "lease_token": assign["lease_token"]});
    said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    said
}

fn result(text: &str) -> Value {
    json!({"success": true, "text_asr": text, "text_translated": text, "tts_audio": "", "tts_format": "opus"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_token_is_worth_nothing_to_another_tenant_and_nothing_twice() {
    let place = Place::start();
    let (line, first) = place.session("acme", None).await;
    drop(line);
    let stolen = first["resume_token"].as_str().unwrap();
    let (_thief, other) = place.session("thief", Some(stolen)).await;
    assert_eq!(other["recovered"], false, "{other}");
    assert_ne!(other["session_id"], first["session_id"]);
    let (_owner, again) = place.session("acme", Some(stolen)).await;
    assert_eq!(
        (&again["recovered"], &again["session_id"]),
        (&json!(true), &first["session_id"]),
        "the thief did no harm: {again}"
    );
    let newer = again["resume_token"].as_str().unwrap();
    let (_newest, last) = place.session("acme", Some(newer)).await;
    assert_eq!(last["recovered"], true, "{last}");
    // It is two lines old: whoever comes with it is not the owner.
    let (_replay, spent) = place.session("acme", Some(stolen)).await;
    assert_eq!(spent["recovered"], false, "{spent}");
    assert_ne!(spent["session_id"], first["session_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_token_is_worth_nothing_to_another_user_of_the_tenant() {
    let place = Place::start();
    let ann = place.keys.session_of("acme", "ann", "a-1");
    let (line, first) = place.session_with(&ann, None).await;
    drop(line);
    let stolen = first["resume_token"].as_str().unwrap();
    let bob = place.keys.session_of("acme", "bob", "b-1");
    let (_thief, other) = place.session_with(&bob, Some(stolen)).await;
    assert_eq!(other["recovered"], false, "{other}");
    assert_ne!(other["session_id"], first["session_id"]);
    // Whatever her token is called by then.
    let newer = place.keys.session_of("acme", "ann", "a-2");
    let (_ann, again) = place.session_with(&newer, Some(stolen)).await;
    let (recovered, id) = (&again["recovered"], &again["session_id"]);
    assert_eq!((recovered, id), (&json!(true), &first["session_id"]), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_a_node_by_name_does_not_learn_whether_it_exists() {
    let place = Place::start();
    let more = json!({"language_capabilities": {"semantic_languages": ["de", "fr"], "tts_languages": ["fr"]}});
    let _node = place.node("secret-node", more).await;
    let token = place.keys.session("acme", "s-1");
    let ask = |node: &str| {
        let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
            "options": {"preferred_node_id": node, "strict": true}});
        let answer = call(place.lingua.address(), "POST", "/v1/dispatch/f2f", Some(&token), &job);
        let detail = answer.body["detail"].as_str().unwrap_or_default().replace(node, "NODE");
        (answer.status, answer.body["error"].clone(), detail)
    };
    let (there, not_there) = (ask("secret-node"), ask("no-such-node"));
    assert!(there.0 >= 400, "{there:?}");
    assert_eq!(there, not_there);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_good_token_cannot_speak_for_the_job_of_another() {
    let place = Place::start();
    let mut honest = place.node("honest", json!({})).await;
    let (mut session, _) = place.session("acme", None).await;
    session.say(&utterance(0)).await;
    let assign = honest.hear_a("job_assign").await;
    // It comes after the job was given, so that it is not its own.
    let mut rogue = place.node("rogue", json!({})).await;
    honest.say(&about(&assign, "job_ack", json!({}))).await;
    let fault = json!({"success": false, "error": {"code": "FORGED", "message": "forged"}});
    for (kind, more) in [
        ("job_ack", json!({})),
        ("job_started", json!({})),
        ("asr_partial", json!({"text": "forged", "is_final": false})),
        ("job_reject", json!({"reason": "BUSY"})),
        ("job_result", result("forged")),
        ("job_result", fault),
    ] {
        rogue.say(&about(&assign, kind, more)).await;
    }
    let (to, own) = (place.lingua.address(), place.keys.node("rogue", "rogue-2"));
    for (path, more) in [
        ("/v1/job/ack", json!({})),
        ("/v1/job/done", json!({"result": result("forged")})),
        ("/v1/job/fail", json!({"reason": "error", "code": "FORGED", "message": "forged"})),
    ] {
        for node in ["rogue", "honest"] {
            let mut said = about(&assign, "", more.clone());
            said["node_id"] = json!(node);
            let answer = call(to, "POST", path, Some(&own), &said);
            assert!(
                [400, 403, 404, 409, 410].contains(&answer.status),
                "{path} as {node}: {answer:?}"
            );
            assert!(node == "rogue" || answer.status == 403, "{path}: {answer:?}");
        }
    }
    honest.say(&about(&assign, "job_result", result("true"))).await;
    let told = session.hear_a("translation_result").await;
    assert_eq!(told["text_translated"], "true", "{told}");
    assert!(!session.heard.contains("forged"), "{}", session.heard);
    // Said again later, it is still nothing.
    rogue.say(&about(&assign, "job_result", result("forged"))).await;
    session.say(&utterance(1)).await;
    assert!(!session.heard.contains("forged"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_node_says_reaches_the_client_as_text_and_unchanged() {
    const CORPUS: [&str; 12] = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "'; DROP TABLE sessions; --",
        "{{7*7}} ${7*7} <%= 7*7 %>",
        "\"}, {\"type\": \"session_close\"}",
        "\\\" \\u0022 \\ \u{8}\u{c}\n\r\t",
        "\r\nSet-Cookie: a=b\r\n\r\n",
        "\u{0}\u{1b}[2J\u{7f}",
        "\u{202e}\u{200b}\u{feff}\u{2028}\u{2029}",
        "\u{1f600}\u{1f468}\u{200d}\u{1f469} 早上好",
        "]]>&amp;&lt;<!--",
    ];
    let place = Place::start();
    let mut node = place.node("node-1", json!({})).await;
    let (mut session, _) = place.session("acme", None).await;
    for (index, text) in (0..).zip(CORPUS) {
        session.say(&utterance(index)).await;
        let assign = node.hear_a("job_assign").await;
        node.say(&about(&assign, "job_ack", json!({}))).await;
        node.say(&about(&assign, "job_result", result(text))).await;
        let told = session.hear_a("translation_result").await;
        assert_eq!((&told["text_asr"], &told["text_translated"]), (&json!(text), &json!(text)));
        assert_eq!(told["utterance_index"], index, "nothing came between: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_may_not_say_much_before_they_say_who_they_are() {
    let place = Place::start();
    let giant = "x".repeat(300 << 10);
    for (path, first) in [("/ws/node", "node_register"), ("/ws/session", "session_init")] {
        let mut stranger = Line::open(place.lingua.address(), path, None).await;
        stranger.say(&json!({"type": first, "more": giant})).await;
        let answer = stranger.hear().await;
        assert_eq!(answer["close"], 1009, "{path}: {answer}");
    }
    // Who is known may say more than that.
    let mut node = place.node("large", json!({})).await;
    node.say(&json!({"type": "node_register", "running": [], "node_id": "large", "more": giant,
        "language_capabilities": {"semantic_languages": ["en"]}}))
        .await;
    node.hear_a("node_register_ack").await;
    let (mut line, ack) = place.session("acme", None).await;
    let id = ack["session_id"].as_str().unwrap();
    line.say(&json!({"type": "client_heartbeat", "session_id": id, "more": giant})).await;
    line.hear_a("server_heartbeat").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_register_as_another() {
    let place = Place::start();
    let mut honest = place.node("honest", json!({})).await;
    let rogue = place.keys.node("rogue", "rogue");
    let mut line = Line::open(place.lingua.address(), "/ws/node", Some(&rogue)).await;
    line.say(&json!({"type": "node_register", "running": [], "node_id": "honest", "max_concurrent_jobs": 8, "supports": ["ack"],
        "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh"]}}))
        .await;
    assert_eq!(line.hear().await["code"], "FORBIDDEN");
    assert_eq!(line.hear().await["close"], 1008);
    let register = json!({"node_id": "honest", "health": "ready", "semantic_langs": ["en"], "nmt_pairs": "any",
        "tts_langs": [], "max_concurrent_jobs": 1});
    let to = place.lingua.address();
    assert_eq!(call(to, "POST", "/v1/node/register", Some(&rogue), &register).status, 403);
    // The one that it wanted to be is still there.
    let (mut session, _) = place.session("acme", None).await;
    session.say(&utterance(0)).await;
    honest.hear_a("job_assign").await;
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_threat_has_a_row_and_every_test_that_it_names_exists() {
    let manual = fs::read_to_string(root().join("docs/SECURITY.md")).unwrap();
    let chapter = manual.split("## Threats\n").nth(1).unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    let rows: Vec<Vec<&str>> = chapter
        .lines()
        .filter(|line| {
            line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit())
        })
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(numbers, (1..=20).map(|number| number.to_string()).collect::<Vec<_>>());
    let (mut named, mut missing) = (BTreeSet::new(), Vec::new());
    for row in &rows {
        let [number, _, _, tests] = row[..] else { panic!("{row:?}") };
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty() || tests.contains("No test"), "row {number} names no test");
        for name in names {
            named.insert(name);
            if !code.contains(&format!("fn {name}(")) {
                missing.push(format!("{number}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
    assert!(named.len() > 40, "{}", named.len());
}
