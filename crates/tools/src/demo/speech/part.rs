//! A process that ends with the demonstration, and with it all that it started.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::place::is_installed;

/// After SIGTERM: its jobs may take so long to end.
const END_LIMIT: Duration = Duration::from_secs(20);

/// The same when there is nobody to wait in peace, in steps of [`STEP`].
const HASTY_STEPS: u32 = 100;
const STEP: Duration = Duration::from_millis(20);

/// Lines of a log that are shown when something went wrong.
const LAST_LINES: usize = 12;

/// Bytes at the end of a log that these lines are looked for in.
const LAST_BYTES: usize = 8 * 1024;

/// A process with a group of its own: Ctrl-C on a terminal is for the demonstration, which ends its
/// parts in order. Dropping it ends the whole group.
pub(super) struct Part {
    child: Child,
    /// Its group has the same number.
    group: Option<Pid>,
    log: PathBuf,
}

impl Part {
    /// Starts a program. What it says, on standard output and error, comes in lines in their order,
    /// and is in the log once it was read.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        log: PathBuf,
    ) -> anyhow::Result<(Self, Words)> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let (reader, writer) = std::io::pipe().context("no pipe")?;
        // A demonstration that is killed cannot end its parts: the system does it then.
        let mut command = match is_installed("setpriv") {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "TERM", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        let child = command
            .args(arguments)
            .env_remove("LINGUA_LISTEN")
            .stdin(Stdio::null())
            .stdout(writer.try_clone().context("no pipe")?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        // It holds the other end of the pipe.
        drop(command);
        let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let part = Part { child, group, log };
        let reader = Receiver::from_owned_fd(OwnedFd::from(reader)).context("no pipe")?;
        Ok((part, Words { lines: BufReader::new(reader).lines(), log: file }))
    }

    /// Waits until it ends by itself.
    pub async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Has it end in order; kills it if it does not.
    pub async fn end(mut self) -> String {
        self.signal(Signal::TERM);
        match timeout(END_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => "in order".to_owned(),
            Ok(Ok(status)) => format!("with {status}"),
            Ok(Err(error)) => format!("unseen: {error}"),
            Err(_) => format!("by force: it took more than {END_LIMIT:?}"),
        }
    }

    /// The last lines of its log and where it is.
    pub fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(LAST_BYTES)..]);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let last: String = last.iter().map(|line| format!("\n  | {line}")).collect();
        format!("{last}\n  all of it: {}", self.log.display())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Fails if all of it has ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            for _ in 0..HASTY_STEPS {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    break;
                }
                std::thread::sleep(STEP);
            }
        }
        // Also what its first process left behind.
        self.signal(Signal::KILL);
    }
}

/// What a process says.
pub(super) struct Words {
    lines: Lines<BufReader<Receiver>>,
    log: File,
}

impl Words {
    /// The next line, which is in the log by then; `None` once nobody can say more.
    pub async fn next(&mut self) -> Option<String> {
        // What is not text is the end of it too.
        let line = self.lines.next_line().await.ok().flatten()?;
        // A full disk is for the process itself to complain about.
        let _ = writeln!(self.log, "{line}");
        Some(line)
    }
}
