//! What deploy/ has can be started.

use crate::process;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use lingua_lab::RedisServer;
use process::{Lingua, get, wait_for};

/// What a scheduler of deploy/compose.yaml has in its environment.
fn environment(service: &str) -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/compose.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut found = BTreeMap::new();
    // A line without indent, or with that of a service, begins another part.
    let (mut part, mut own) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if !line.starts_with(' ') {
            (part, own) = (line.to_owned(), String::new());
        } else if line.starts_with("  ") && !line.starts_with("   ") {
            own = line.trim().to_owned();
        }
        let Some((name, value)) = line.trim().split_once(": ") else { continue };
        let is_theirs = part.starts_with("x-settings:") || own == format!("{service}:");
        if is_theirs && name.starts_with("LINGUA_") {
            found.insert(name.to_owned(), value.trim_matches('"').to_owned());
        }
    }
    found
}

/// The key as the compose file's service `key` makes it, but for its owner.
fn made_key(directory: &Path) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/compose.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let script = text.split("      - |\n").nth(1).unwrap().split("    user:").next().unwrap();
    assert!(script.contains("chown"), "{script}");
    let lines = script.lines().map(str::trim).filter(|line| !line.starts_with("chown"));
    let script = lines.collect::<Vec<_>>().join("\n");
    let script = script.replace("/run/lingua", directory.to_str().unwrap());
    let ran = Command::new("sh").args(["-ec", &script]).status().unwrap();
    assert!(ran.success(), "{script}");
    directory.join("cluster.key").to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedulers_of_the_compose_file_start() {
    let redis = RedisServer::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    for service in ["scheduler-1", "scheduler-2", "scheduler-3"] {
        let mut set = environment(service);
        assert_eq!(set.get("LINGUA_INSTANCE_ID").map(String::as_str), Some(service), "{set:?}");
        assert_eq!(set.get("LINGUA_INSECURE").map(String::as_str), Some("true"), "{set:?}");
        // Not loopback by its looks, as the name there is not, and yet this machine.
        let store = set["LINGUA_STORE"].replace("redis:6379", &format!("127.1:{}", redis.port()));
        assert_ne!(store, set["LINGUA_STORE"]);
        set.insert("LINGUA_STORE".to_owned(), store);
        set.insert("LINGUA_LISTEN".to_owned(), "127.0.0.1:0".to_owned());
        let key = set.insert("LINGUA_CLUSTER_KEY_FILE".to_owned(), made_key(directory.path()));
        assert_eq!(key.as_deref(), Some("/run/lingua/cluster.key"), "where `key` puts it");
        let settings: Vec<(&str, &str)> =
            set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (mut lingua, log) = Lingua::logged(&["serve"], &settings);
        wait_for("it takes work", || get(lingua.address(), "/ready").0 == 200);
        lingua.signal("TERM");
        assert_eq!(lingua.exit_code(), Some(0), "{}", log.all());

        // Each of these is needed.
        set.remove("LINGUA_STORE_PLAINTEXT");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
        let output = command.arg("serve").envs(&set).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{said}");
        assert!(said.contains("store_plaintext"), "{said}");
    }
}
