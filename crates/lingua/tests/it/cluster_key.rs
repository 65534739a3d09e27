//! Instances share a key that is not in the store: who reads or writes the store cannot speak for them.

use crate::app;
use crate::gated;
use crate::process;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use app::{On, TestApp, quick, wait_until};
use gated::Line;
use lingua_engine::chance::Chance;
use lingua_engine::cluster::presence;
use lingua_engine::secret::Secret;
use lingua_lab::{RedisServer, Reply};
use lingua_store::bus::Envelope;
use lingua_store::memory::MemoryStore;
use lingua_store::{Clock, Instance};
use process::{Lingua, lingua, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

const LONG: Duration = Duration::from_secs(60);

/// A Redis, and a place for key files.
struct Place {
    redis: RedisServer,
    directory: TempDir,
}

impl Place {
    async fn new() -> Self {
        let redis = RedisServer::start().await.unwrap();
        Place { redis, directory: tempfile::tempdir().unwrap() }
    }

    fn key(&self, name: &str) -> PathBuf {
        let file = self.directory.path().join(name);
        if !file.exists() {
            std::fs::write(&file, Secret::new_file(Chance::system())).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        file
    }

    /// What starts an instance of this name with this key.
    fn config(&self, name: &str, key: &str) -> String {
        let file = self.directory.path().join(format!("{name}.toml"));
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstore = {:?}\ninstance_id = {name:?}\n[nodes]\nslow_start = \"off\"\n[cluster]\nkey_file = {:?}\n",
            self.redis.url(),
            self.key(key)
        );
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn start(&self, name: &str, key: &str) -> Lingua {
        Lingua::start(&["serve", "--config", &self.config(name, key)])
    }
}

async fn node(to: std::net::SocketAddr) -> Line {
    let mut node = Line::open(to, "/ws/node", None).await;
    node.say(&json!({"type": "node_register", "running": [], "node_id": "n", "max_concurrent_jobs": 8,
        "supports": ["ack", "tokens", "result_ack"],
        "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh", "en"]}}))
        .await;
    node.hear_a("node_register_ack").await;
    node
}

/// Opens a session, or goes on with one of which this many endings were heard.
async fn session(to: std::net::SocketAddr, resume: Option<(&str, u32)>) -> (Line, Value) {
    let mut line = Line::open(to, "/ws/session", None).await;
    let (token, heard) = resume.unzip();
    let last = heard.map(|heard| heard - 1);
    line.say(
        &json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
        "tgt_lang": "zh", "supports": ["resume"], "resume_token": token, "last_index": last}),
    )
    .await;
    let ack = line.hear_a("session_init_ack").await;
    (line, ack)
}

async fn say(line: &mut Line, index: u32) {
    line.say(
        &json!({"type": "utterance", "utterance_index": index, "src_lang": "en", "tgt_lang": "zh",
        "audio": "AAEAAgADAAQ=", "audio_format": "pcm16"}),
    )
    .await;
}

async fn answer(node: &mut Line, assign: &Value) {
    for more in [
        json!({"type": "job_ack"}),
        json!({"type": "job_result", "success": true, "text_asr": "a", "text_translated": "b", "tts_audio": "",
            "tts_format": "opus"}),
    ] {
        let mut said = json!({"job_id": assign["job_id"], "attempt_id": assign["attempt_id"],
            "lease_token": assign["lease_token"]});
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.say(&said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_different_keys_do_not_start_on_one_store() {
    let place = Place::new().await;
    let _first = place.start("one", "right");
    let (code, said) = lingua(&["serve", "--config", &place.config("two", "wrong")]);
    assert_eq!((code, said.lines().count()), (Some(78), 1), "{said}");
    let print = |key: &str| {
        let text = std::fs::read_to_string(place.key(key)).unwrap();
        Secret::read(&text).unwrap().fingerprint().to_owned()
    };
    for part in ["one", "cluster.key_file", &print("right"), &print("wrong")] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let second = place.start("two", "right");
    wait_for("it takes work", || process::get(second.address(), "/ready").0 == 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_beyond_this_machine_needs_a_key_file() {
    let place = Place::new().await;
    // This machine, and not by its looks.
    let url = format!("redis://127.1:{}/0", place.redis.port());
    let config = place.directory.path().join("lingua.toml");
    let plain = format!("listen = \"127.0.0.1:0\"\nstore = {url:?}\nstore_plaintext = true\n");
    std::fs::write(&config, &plain).unwrap();
    let args = ["serve", "--config", config.to_str().unwrap()];
    let (code, said) = lingua(&args);
    assert_eq!((code, said.lines().count()), (Some(78), 1), "{said}");
    assert!(said.contains("cluster.key_file is not set"), "{said}");
    std::fs::write(&config, format!("{plain}[cluster]\nkey_file = {:?}\n", place.key("k")))
        .unwrap();
    let started = Lingua::start(&args);
    wait_for("it takes work", || process::get(started.address(), "/ready").0 == 200);
}

/// The version before took the oldest secret in the store, by the clock of whoever proposed it: one
/// instance with a slow clock made everything that nodes and clients hold unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_secret_in_the_store_changes_nothing() {
    const OLDER: &str =
        "0000000000000001-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let place = Place::new().await;
    let first = place.start("one", "right");
    let mut node = node(first.address()).await;
    let (mut line, opened) = session(first.address(), None).await;
    say(&mut line, 0).await;
    let assign = node.hear_a("job_assign").await;
    // At once: another instance takes longer to start than a node has for its ack.
    let mut ack = assign.clone();
    ack["type"] = json!("job_ack");
    node.say(&ack).await;
    let key = "lingua:v1:agreed:names-for-strangers";
    place.redis.command(&["SET", key, OLDER]).await.unwrap();
    let second = place.start("two", "right");
    answer(&mut node, &assign).await;
    line.hear_a("translation_result").await;
    drop(line);
    let token = opened["resume_token"].as_str().unwrap();
    let (_line, again) = session(second.address(), Some((token, 1))).await;
    assert_eq!(
        (&again["recovered"], &again["session_id"]),
        (&json!(true), &opened["session_id"]),
        "{again}"
    );
    let kept = place.redis.command(&["GET", key]).await.unwrap();
    assert!(matches!(&kept, Reply::Bulk(Some(text)) if text == OLDER.as_bytes()), "{kept:?}");
}

/// An address that somebody else put into the store, and words that they put into an inbox, lead to
/// no call and to no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_to_the_store_makes_no_instance_call_anybody() {
    let app = TestApp::start(On::Memory, quick()).await;
    while app.engine.store().presence.peers().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let rogue = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", rogue.local_addr().unwrap());
    let bus = &app.engine.store().bus;
    let me = app.engine.instance().clone();
    let forger = Secret::from_seed(b"not theirs");
    let apart = || app.engine.metrics().render().contains("lingua_peers_apart 1");
    for (boot, announced) in [
        (1, format!("{address}#wire=1-1")),
        (2, presence::signed(&forger, &rogues(2), format!("{address}#wire=1-1"))),
        (3, format!("{address}/v1/audio?x=#wire=1-1")),
    ] {
        app.engine.store().presence.withdraw(&rogues(boot - 1)).await.unwrap();
        app.engine.store().presence.announce(&rogues(boot), &announced, LONG).await.unwrap();
        assert!(wait_until(Duration::from_secs(10), apart).await, "{announced}");
        assert!(app.engine.peers().is_empty(), "{announced}");
        let body = json!({"words": [
            {"session_job": {"tenant": "default", "session": "s", "job": "0123456789abcdefghjkmnpqrs",
                "ended": {"done": {"body": {"name": "ff", "bytes": 3}}}}},
            {"job": {"job": "0123456789abcdefghjkmnpqrs", "node": "n", "epoch": 7,
                "event": {"what": "result", "attempt": 1, "result": {"success": {"body": {"name": "ff", "bytes": 3}}}}}},
        ]});
        let id = u128::from(boot);
        let body = body.to_string().into_bytes();
        bus.send(&me, &Envelope { id, from: rogues(boot), body, live_for: LONG }).await.unwrap();
        while bus.depth(&me).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let received = "lingua_bus_words_total{what=\"received\"}";
    assert_eq!(app.counter(received), 0);
    // A call would have come as soon as the words were read.
    let called = tokio::time::timeout(Duration::from_millis(300), rogue.accept()).await;
    assert!(called.is_err(), "{called:?}");
    app.finish().await;
}

fn rogues(boot: u64) -> Instance {
    Instance { id: "rogue".parse().unwrap(), boot }
}

/// Two instances in the middle of a change of keys: each signs and names with another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_changed_while_instances_work_together() {
    let (old, new) = (Secret::new_file(Chance::system()), Secret::new_file(Chance::system()));
    let both = |first: &str, second: &str| Secret::read(&format!("{first}{second}")).unwrap();
    let store = MemoryStore::open(Clock::system());
    let one = TestApp::over_with(store.clone(), "one", quick(), both(&old, &new)).await;
    let two = TestApp::over_with(store, "two", quick(), both(&new, &old)).await;
    let met = || one.engine.peers().len() == 1 && two.engine.peers().len() == 1;
    assert!(wait_until(Duration::from_secs(10), met).await, "they do not meet");
    let mut node = node(two.address).await;
    let known = || one.engine.fleet().lock().get(&"n".parse().unwrap()).is_some();
    assert!(wait_until(Duration::from_secs(10), known).await, "nobody hears of the node");
    let (mut line, opened) = session(one.address, None).await;
    for index in 0..2 {
        say(&mut line, index).await;
        let assign = node.hear_a("job_assign").await;
        answer(&mut node, &assign).await;
        line.hear_a("translation_result").await;
        let acked = node.hear_a("result_ack").await;
        assert_eq!(acked["job_id"], assign["job_id"], "the node is told of the job that it knows");
    }
    drop(line);
    let token = opened["resume_token"].as_str().unwrap();
    let (mut line, again) = session(two.address, Some((token, 2))).await;
    assert_eq!((&again["recovered"], &again["session_id"]), (&json!(true), &opened["session_id"]));
    line.say(&json!({"type": "session_close"})).await;
    drop((line, node));
    one.finish().await;
    two.finish().await;
}
