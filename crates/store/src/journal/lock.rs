//! One process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The name of the file. It stays when its process is gone; what counts is whether somebody holds it.
pub(super) const NAME: &str = "lock";

/// Held until it is dropped, also by the operating system when the process dies.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, never read")] File);

/// Why there is no lock.
pub(super) enum NoLock {
    /// Somebody has it, as they say of themselves.
    Held(String),
    /// The file cannot be used.
    Io(io::Error),
}

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Lock, NoLock> {
        let path = directory.join(NAME);
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        };
        let mut file = open().map_err(NoLock::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut who = String::new();
                // One that is just being taken says nothing yet.
                let _ = file.take(200).read_to_string(&mut who);
                let who = who.lines().next().unwrap_or_default().trim();
                return Err(NoLock::Held(
                    if who.is_empty() { "another process" } else { who }.to_owned(),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(NoLock::Io(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", myself())).map_err(NoLock::Io)?;
        Ok(Lock(file))
    }
}

/// This process, for people.
fn myself() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => format!("process {}", std::process::id()),
        host => format!("process {} on {host}", std::process::id()),
    }
}
