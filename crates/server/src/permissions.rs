//! Who else on this machine can read a file that holds a secret.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::config::Config;

/// Warns of every file of the configuration with a key or a password in it that others can read.
pub(crate) fn warn_of_open_files(config: &Config) {
    let secrets = [
        ("tls.key_file", &config.tls.key_file),
        ("store_file", &config.main.store_file),
        ("cluster.key_file", &config.cluster.key_file),
    ];
    for (option, path) in secrets {
        if let Some(path) = path {
            warn_if_open(option, path);
        }
    }
}

/// Warns if everybody on this machine can read the file.
pub(crate) fn warn_if_open(what: &str, path: &Path) {
    // One that is not there is told of by who reads it.
    let Ok(metadata) = fs::metadata(path) else { return };
    if is_open(metadata.mode()) {
        tracing::warn!(
            option = what,
            file = %path.display(),
            mode = format!("{:o}", metadata.mode() & 0o777),
            "other users can read this secret file; run chmod o-rwx on it"
        );
    }
}

/// Whether who is neither the owner nor of the group may read or change it.
fn is_open(mode: u32) -> bool {
    mode & 0o006 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_owner_and_group_is_not_open() {
        for mode in [0o100600, 0o100640, 0o100400, 0o100660, 0o100601] {
            assert!(!is_open(mode), "{mode:o}");
        }
        for mode in [0o100644, 0o100604, 0o100602, 0o100666] {
            assert!(is_open(mode), "{mode:o}");
        }
    }
}
