//! A `config.toml` of the older scheduler: it is not read, and whoever has one is told what its options are
//! called now.

use std::path::Path;

use toml::Value;

/// Where the older scheduler looked for it.
const FILE: &str = "config.toml";

/// More is no configuration.
const MAX_BYTES: u64 = 256 << 10;

/// Options of the older scheduler and what they are now.
const NAMES: [(&str, &str); 9] = [
    ("server.host", "listen"),
    ("server.port", "listen"),
    ("scheduler.phase2.enabled", "nothing: instances with one store know each other"),
    ("scheduler.phase2.instance_id", "instance_id"),
    ("scheduler.phase2.redis.url", "store"),
    ("scheduler.phase2.redis.cluster_urls", "store, as redis+cluster://h1:p1,h2:p2"),
    ("scheduler.phase2.owner_ttl_seconds", "cluster.owner_ttl_ms"),
    ("scheduler.phase2.heartbeat_ttl_seconds", "nothing: a node is overdue after three heartbeats"),
    ("scheduler.phase2.stream_block_ms", "nothing"),
];

/// Warns of one in this directory.
pub(crate) fn warn_of_older_file(directory: &Path) {
    let path = directory.join(FILE);
    let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_BYTES);
    let text = small.then(|| std::fs::read_to_string(&path).ok()).flatten();
    if let Some(hint) = text.as_deref().and_then(hint) {
        tracing::warn!(
            file = FILE,
            "a configuration of the older scheduler is here and is not read; give a new one with --config. {hint}"
        );
    }
}

/// What the options in this text are called now, if it is of the older scheduler. Values are not shown: one may
/// be a password.
pub(super) fn hint(text: &str) -> Option<String> {
    let document: toml::Table = text.parse().ok()?;
    if !["server", "scheduler"].iter().any(|name| document.get(*name).is_some_and(Value::is_table))
    {
        return None;
    }
    let there = |path: &str| {
        let mut names = path.split('.');
        let first = document.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name)).map(drop)
    };
    let named: Vec<String> = NAMES
        .iter()
        .filter(|(old, _)| there(old).is_some())
        .map(|(old, new)| format!("{old} is now {new}"))
        .collect();
    Some(format!("{}; docs/MIGRATING.md has more", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLDER: &str = "[server]\nhost = \"0.0.0.0\"\nport = 5010\n[scheduler.phase2]\nenabled = true\n\
                         [scheduler.phase2.redis]\nurl = \"redis://:secret@h:6379\"\n";

    #[test]
    fn options_of_the_older_scheduler_are_told_by_their_new_names() {
        let told = hint(OLDER).unwrap();
        for name in ["server.port is now listen", "scheduler.phase2.redis.url is now store"] {
            assert!(told.contains(name), "{told}");
        }
        assert!(!told.contains("secret") && !told.contains("stream_block_ms"), "{told}");
    }

    #[test]
    fn other_files_are_nothing_to_us() {
        for text in [
            "",
            "listen = \"127.0.0.1:5010\"",
            "[jobs]\nack_ms = 1",
            "server = 1",
            "[",
            "[tool]\nx=1",
        ] {
            assert_eq!(hint(text), None, "{text}");
        }
    }

    /// The page says the same as the program.
    #[test]
    fn every_older_option_is_on_the_page() {
        let page = include_str!("../../../../docs/MIGRATING.md");
        for (old, _) in NAMES {
            assert!(page.contains(&format!("`{old}`")), "{old}");
        }
    }
}
