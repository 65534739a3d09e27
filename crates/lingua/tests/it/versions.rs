//! Two neighbouring versions run side by side; versions further apart leave each other alone.
//!
//! The other version is played by what it would say of itself in the store, and by the words it would
//! send.

use crate::app;
use crate::process;

use std::time::Duration;

use app::{TestApp, secret, wait_until};
use lingua_engine::Settings;
use lingua_engine::cluster::presence;
use lingua_engine::secret::Secret;
use lingua_lab::RedisServer;
use lingua_store::bus::Envelope;
use lingua_store::memory::MemoryStore;
use lingua_store::{Clock, Instance, redis};
use process::{Lingua, get, lingua};

const LONG: Duration = Duration::from_secs(60);

fn other() -> Instance {
    Instance { id: "other".parse().unwrap(), boot: 3 }
}

/// The key of the version before, which signs nothing and has its secret in the store.
const OLD_KEY: &str =
    "store:0000019a2b3c4d5e-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What another version with the same key says of itself.
fn signed(said: &str) -> String {
    presence::signed(&secret(), &other(), said.to_owned())
}

/// An instance that the others know of.
async fn joined(secret: Secret) -> TestApp {
    let store = MemoryStore::open(Clock::system());
    let app = TestApp::over_with(store, "test-1", Settings::stable(), secret).await;
    while app.engine.store().presence.peers().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    app
}

#[tokio::test]
async fn who_comes_last_and_is_too_far_apart_does_not_start() {
    let server = RedisServer::start().await.unwrap();
    let store = redis::open(&server.url(), redis::Options::default()).await.unwrap();
    store.presence.announce(&other(), "127.0.0.1:9#wire=2-3", LONG).await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &server.url()];
    let (code, error) = lingua(&args);
    assert_eq!((code, error.lines().count()), (Some(78), 1), "{error}");
    assert!(error.contains("other at 127.0.0.1:9 speaks wire version 2 to 3"), "{error}");
    // The version before had no key file: with one of their own nobody joins it.
    let old = "http://127.0.0.1:9#wire=1-1";
    store.presence.announce(&other(), old, LONG).await.unwrap();
    let (code, error) = lingua(&args);
    assert_eq!((code, error.lines().count()), (Some(78), 1), "{error}");
    assert!(error.contains("other at http://127.0.0.1:9 signs nothing"), "{error}");
    // With the key that it has in the store its neighbour is welcome, and so is data with additions
    // that this version does not know.
    let directory = tempfile::tempdir().unwrap();
    let (key, config) = (directory.path().join("k"), directory.path().join("c.toml"));
    std::fs::write(&key, OLD_KEY).unwrap();
    std::fs::write(&config, format!("[cluster]\nkey_file = {key:?}\n")).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let args: Vec<&str> = args.into_iter().chain(config).collect();
    server.command(&["SET", "lingua:v1:schema", "1.9"]).await.unwrap();
    let neighbour = Lingua::start(&args);
    assert_eq!(get(neighbour.address(), "/ready").0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_turns_up_and_is_too_far_apart_is_left_alone() {
    let app = joined(secret()).await;
    let (presence, metrics) = (&app.engine.store().presence, || app.engine.metrics().render());
    let apart = |n: u32| metrics().contains(&format!("lingua_peers_apart {n}"));
    presence.announce(&other(), "127.0.0.1:9#wire=5-6", LONG).await.unwrap();
    assert!(wait_until(Duration::from_secs(5), || apart(1)).await, "{}", metrics());
    assert!(app.engine.peers().is_empty());
    presence.announce(&other(), &signed("http://127.0.0.1:9#wire=1-2"), LONG).await.unwrap();
    assert!(wait_until(Duration::from_secs(5), || apart(0)).await);
    assert_eq!(app.engine.peers(), [(other(), "http://127.0.0.1:9".to_owned())]);
    app.finish().await;
}

/// Words and fields of another version are left alone, and what is known among them is heard. The version
/// before seals no envelope; that is taken while its key is in force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_a_neighbour_that_nobody_knows_spoil_nothing() {
    let app = joined(Secret::read(OLD_KEY).unwrap()).await;
    let bus = &app.engine.store().bus;
    let me = Instance { id: "test-1".parse().unwrap(), boot: 7 };
    app.engine
        .store()
        .presence
        .announce(&other(), "http://127.0.0.1:9#wire=1-2", LONG)
        .await
        .unwrap();
    let body = br#"{"later":1,"words":[{"sing":{"loud":true}},"hum",{"slot_freed":{"node":"n","since":3}}]}"#;
    let envelope = Envelope { id: 1, from: other(), body: body.to_vec(), live_for: LONG };
    bus.send(&me, &envelope).await.unwrap();
    let metrics = || app.engine.metrics().render();
    let heard = || metrics().contains("lingua_bus_words_total{what=\"received\"} 1\n");
    assert!(wait_until(Duration::from_secs(5), heard).await, "{}", metrics());
    app.finish().await;
}
