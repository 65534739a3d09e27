//! What deploy/ has can be started.

use crate::process;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use lingua_lab::RedisConfig;
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

const PASSWORD: &str = "0123456789abcdef";

fn file(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// As compose puts it in; without one it does not start.
fn with_password(text: &str) -> String {
    let (before, rest) = text.split_once("${REDIS_PASSWORD:?").unwrap();
    let (_, after) = rest.split_once('}').unwrap();
    format!("{before}{PASSWORD}{after}")
}

/// The lines of each service of the compose file, with those of what it is made from.
fn services() -> BTreeMap<String, String> {
    let text = file("compose.yaml");
    let scheduler = text.split("x-scheduler:").nth(1).unwrap().split("\n\n").next().unwrap();
    let part = text.split("\nservices:\n").nth(1).unwrap().split("\nnetworks:").next().unwrap();
    let mut found = BTreeMap::new();
    let mut name = String::new();
    for line in part.lines() {
        if line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':') {
            name = line.trim().trim_end_matches(':').to_owned();
        }
        let lines: &mut String = found.entry(name.clone()).or_default();
        lines.push_str(line);
        lines.push('\n');
        if line.contains("<<: *scheduler") {
            lines.push_str(scheduler);
        }
    }
    found
}

#[test]
fn every_service_of_the_compose_file_has_no_rights_that_it_does_not_need() {
    let services = services();
    assert_eq!(services.len(), 6, "{:?}", services.keys());
    for (name, lines) in services {
        for needed in ["cap_drop: [ALL]", "no-new-privileges:true", "read_only: true"] {
            assert!(lines.contains(needed), "{name} lacks {needed}: {lines}");
        }
        assert!(!lines.contains("privileged") || lines.contains("no-new-privileges"), "{name}");
        assert!(!lines.contains(":latest"), "{name}");
    }
}

/// What stands for a password in a file must not be one.
#[tokio::test(flavor = "multi_thread")]
async fn no_file_has_a_password_that_works() {
    let users = file("redis.conf");
    let users: Vec<&str> = users.lines().filter(|line| line.starts_with("user ")).collect();
    assert_eq!(users.len(), 3, "{users:?}");
    assert!(users.iter().all(|line| !line.contains('>') && !line.contains("nopass")), "{users:?}");
    let mut config = RedisConfig::new();
    for line in users {
        config = config.line(line);
    }
    assert!(config.start().await.is_err(), "a server starts with what stands for its passwords");
    for name in ["compose.yaml", "lingua.env", "sentinel.conf", "redis.conf"] {
        let text = file(name);
        assert!(!text.contains(":password@") && !text.contains("another-password"), "{name}");
    }
    assert_eq!(file("compose.yaml").matches("${REDIS_PASSWORD:?").count(), 2);
}

/// The command of the compose file, on this machine.
#[test]
fn the_redis_of_the_compose_file_asks_for_its_password() {
    let lines = &services()["redis"];
    let command = lines.lines().find(|line| line.contains("redis-server")).unwrap();
    let command = command.trim().trim_start_matches("- ").replace("$$", "$");
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("redis.sock");
    let own = format!("{command} --port 0 --unixsocket {}", socket.display());
    let mut redis = Command::new("sh")
        .args(["-c", &own])
        .current_dir(place.path())
        .env("REDIS_PASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("Redis listens", || socket.exists());
    let ping = |more: &[&str]| {
        let path = socket.to_str().unwrap();
        let mut client = Command::new("redis-cli");
        let output = client.args(["-s", path, "--no-auth-warning"]).args(more).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(ping(&["PING"]).contains("NOAUTH"), "{}", ping(&["PING"]));
    assert_eq!(ping(&["-a", PASSWORD, "PING"]).trim(), "PONG");
    let policy = ping(&["-a", PASSWORD, "CONFIG", "GET", "maxmemory-policy"]);
    assert!(policy.contains("noeviction"), "{policy}");
    ping(&["-a", PASSWORD, "SHUTDOWN", "NOSAVE"]);
    redis.wait().unwrap();
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
    let redis = RedisConfig::new().password(PASSWORD).start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    for service in ["scheduler-1", "scheduler-2", "scheduler-3"] {
        let mut set = environment(service);
        assert_eq!(set.get("LINGUA_INSTANCE_ID").map(String::as_str), Some(service), "{set:?}");
        assert_eq!(set.get("LINGUA_INSECURE").map(String::as_str), Some("true"), "{set:?}");
        // Not loopback by its looks, as the name there is not, and yet this machine.
        let store = with_password(&set["LINGUA_STORE"]);
        let store = store.replace("redis:6379", &format!("127.1:{}", redis.port()));
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
