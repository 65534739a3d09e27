//! The users of `deploy/redis.conf`, exactly as they stand there but for their passwords.
#![allow(dead_code, reason = "shared by several test binaries")]

use lingua_lab::{RedisConfig, RedisServer};

const FILE: &str = include_str!("../../../../../deploy/redis.conf");

/// What stands for the passwords in the file. No server starts with it.
const EXAMPLES: [&str; 2] = ["#SHA256-OF-ITS-PASSWORD", "#SHA256-OF-ANOTHER-PASSWORD"];

fn users() -> impl Iterator<Item = &'static str> {
    FILE.lines().filter(|line| line.starts_with("user "))
}

/// What the user of the schedulers may do.
pub fn rights() -> String {
    let mut lines =
        users().filter_map(|line| line.strip_prefix("user lingua on #SHA256-OF-ITS-PASSWORD "));
    let (Some(rights), None) = (lines.next(), lines.next()) else {
        panic!("one line of deploy/redis.conf is the schedulers' user")
    };
    rights.to_owned()
}

/// A server with those users; the lab's own commands are given by the administrator.
pub async fn start() -> anyhow::Result<RedisServer> {
    let mut config = RedisConfig::new();
    for line in users() {
        let line = line.replace(EXAMPLES[0], ">s3cret").replace(EXAMPLES[1], ">adm1n");
        assert!(EXAMPLES.iter().all(|example| !line.contains(example)), "{line}");
        config = config.line(line);
    }
    config.login("admin", "adm1n").start().await
}

/// Where the schedulers' user finds it.
pub fn url(server: &RedisServer) -> String {
    format!("redis://lingua:s3cret@{}/", server.addr())
}
