//! Two instances over one Redis that writes everything down, in which everything that is said is
//! recognisable: nothing of it may be found there, in the streams or in the append-only file.

use crate::canary;
use crate::gated;
use crate::process;

use std::net::SocketAddr;
use std::time::Duration;

use canary::{FAULT, HEARD, MEANT, Secrets, speech};
use gated::{Line, call};
use lingua_engine::chance::Chance;
use lingua_engine::secret::Secret;
use lingua_lab::{RedisConfig, RedisServer};
use process::{Lingua, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

const UNWILLING: &str = "canaryunwilling6k";
const BEFORE: &str = "canarybefore5m";

struct Pair {
    directory: TempDir,
    redis: RedisServer,
    one: Lingua,
    two: Lingua,
}

impl Pair {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let written = RedisConfig::new()
            .dir(directory.path())
            .line("appendonly yes")
            .line("appendfsync always")
            .line("auto-aof-rewrite-percentage 0");
        let redis = written.start().await.unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("cluster.key"), Secret::new_file(Chance::system())).unwrap();
        let start = |name: &str| {
            let text = format!(
                "listen = \"127.0.0.1:0\"\nstore = {:?}\ninstance_id = {name:?}\n[nodes]\nslow_start = \"off\"\n[cluster]\nkey_file = {:?}\nsnapshot_ms = 200\n",
                redis.url(),
                at("cluster.key")
            );
            std::fs::write(at(name), text).unwrap();
            Lingua::start(&["serve", "--config", at(name).to_str().unwrap()])
        };
        let (one, two) = (start("one"), start("two"));
        Pair { one, two, redis, directory }
    }

    /// All that Redis has written down.
    fn written(&self) -> String {
        let mut all = String::new();
        for entry in std::fs::read_dir(self.directory.path().join("appendonlydir")).unwrap() {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()));
        }
        all
    }

    fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::new();
        secrets.add("a refusal", UNWILLING);
        secrets.add("a caller's sentence", BEFORE);
        let key = std::fs::read_to_string(self.directory.path().join("cluster.key")).unwrap();
        secrets.add("the key", key.trim());
        secrets
    }
}

async fn node(to: SocketAddr) -> Line {
    let mut node = Line::open(to, "/ws/node", None).await;
    node.say(&json!({"type": "node_register", "running": [], "node_id": "n", "max_concurrent_jobs": 8, "supports": ["ack"],
        "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh", "en"]}}))
        .await;
    node.hear_a("node_register_ack").await;
    node
}

/// What the node says of the job that it was given.
async fn tell(node: &mut Line, assign: &Value, said: Value) {
    let mut said = said;
    let about = json!({"job_id": assign["job_id"], "attempt_id": assign["attempt_id"],
        "lease_token": assign["lease_token"]});
    said.as_object_mut().unwrap().extend(about.as_object().unwrap().clone());
    node.say(&said).await;
}

fn success() -> Value {
    json!({"type": "job_result", "success": true, "text_asr": HEARD, "text_translated": MEANT, "tts_audio": "",
        "tts_format": "pcm16"})
}

fn utterance(index: u32) -> Value {
    json!({"type": "utterance", "utterance_index": index, "src_lang": "en", "tgt_lang": "zh", "audio": speech(),
        "audio_format": "pcm16"})
}

/// A sentence that is translated, one whose node has heard of it, one that it refuses and one that it breaks.
async fn talk(pair: &Pair, secrets: &mut Secrets) {
    let mut node = node(pair.two.address()).await;
    hand_in(pair, &mut node).await;
    let mut session = Line::open(pair.one.address(), "/ws/session", None).await;
    session.say(&json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
        "tgt_lang": "zh", "codec": "pcm16", "enable_streaming_asr": true, "supports": ["resume", "events"]}))
        .await;
    let opened = session.hear_a("session_init_ack").await;
    secrets.add("resume token", opened["resume_token"].as_str().unwrap());
    for index in 0..2 {
        session.say(&utterance(index)).await;
        let assign = node.hear_a("job_assign").await;
        let context = assign["context_text"].as_str().unwrap_or_default();
        let is_known = context.contains(HEARD) || context.contains(MEANT);
        assert_eq!(
            is_known,
            index == 1,
            "a node of another instance is told what was said: {assign}"
        );
        tell(&mut node, &assign, json!({"type": "job_ack"})).await;
        tell(&mut node, &assign, json!({"type": "asr_partial", "text": HEARD, "is_final": false}))
            .await;
        tell(&mut node, &assign, success()).await;
        assert_eq!(session.hear_a("translation_result").await["text_translated"], MEANT);
    }
    session.say(&utterance(2)).await;
    let assign = node.hear_a("job_assign").await;
    tell(&mut node, &assign, json!({"type": "job_reject", "reason": UNWILLING})).await;
    session.hear_a("missing_result").await;
    let broken = json!({"type": "job_result", "success": false,
        "error": {"code": "said: canaryheard7q", "message": FAULT, "details": {"said": HEARD}}});
    session.say(&utterance(3)).await;
    let assign = node.hear_a("job_assign").await;
    tell(&mut node, &assign, json!({"type": "job_ack"})).await;
    tell(&mut node, &assign, broken).await;
    session.hear_a("missing_result").await;
}

/// A job of a caller over HTTP, with a context of its own.
async fn hand_in(pair: &Pair, node: &mut Line) {
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": speech(),
        "audio_format": "pcm16", "context_text": BEFORE});
    let hand_in = || call(pair.one.address(), "POST", "/v1/dispatch/f2f", None, &job);
    let mut handed_in = hand_in();
    // Until the instance has heard of the node.
    for _ in 0..400 {
        if handed_in.status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        handed_in = hand_in();
    }
    assert_eq!(handed_in.status, 200, "{handed_in:?}");
    let assign = node.hear_a("job_assign").await;
    assert_eq!(assign["context_text"], BEFORE, "{assign}");
    tell(node, &assign, json!({"type": "job_ack"})).await;
    tell(node, &assign, success()).await;
    let path = format!("/v1/job/{}", handed_in.body["job_id"].as_str().unwrap());
    wait_for("it is done", || {
        call(pair.one.address(), "GET", &path, None, &Value::Null).body["state"] == "DONE"
    });
}

/// The names of bodies in what is written down.
fn names(written: &str) -> Vec<&str> {
    let parts = written.split("\"name\":\"").skip(1);
    parts.filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_said_between_instances_is_found_in_the_store() {
    let pair = Pair::start().await;
    let known = || {
        let nodes = call(pair.one.address(), "GET", "/api/v1/cluster", None, &Value::Null);
        nodes.text.contains("\"two\"")
    };
    wait_for("the instances know each other", known);
    let mut secrets = pair.secrets();
    talk(&pair, &mut secrets).await;
    // What instances say of themselves for the dashboard is written every 200 ms.
    tokio::time::timeout(Duration::from_secs(10), async {
        while !pair.written().contains(":part") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    let written = pair.written();
    assert!(written.contains("\"assign\"") && written.contains("\"result\""), "no words are in it");
    let found = secrets.found_in("Redis", &written);
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n\n"));

    // Who reads all that and reaches the ports gets nothing by it.
    let names = names(&written);
    assert!(names.len() > 4, "{names:?}");
    for name in names {
        for to in [pair.one.address(), pair.two.address()] {
            let path = format!("/internal/v1/bodies/{name}");
            let answer = call(to, "GET", &path, None, &Value::Null);
            assert_eq!(answer.status, 403, "{answer:?}");
        }
    }
}
