//! A process of ours that is hurt with signals.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// A child in a process group of its own, so that a Ctrl-C meant for the run does not reach it.
/// Dropping it kills it. Its standard error goes to the end of a file.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Kept apart from the child: a wait for its end would close it.
    input: Option<ChildStdin>,
    name: String,
}

impl Process {
    pub fn start(
        program: &Path,
        arguments: &[String],
        name: &str,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command.args(arguments);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("LINGUA_")) {
            command.env_remove(key);
        }
        command.env("LINGUA_LOG", std::env::var("LINGUA_LOG").as_deref().unwrap_or("info"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = child.with_context(|| format!("{name} does not start"))?;
        let input = child.stdin.take();
        Ok(Self { child, input, name: name.to_owned() })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for its first line, which a scheduler says when it is ready; `false` if none comes.
    pub async fn greets(&mut self, limit: Duration) -> bool {
        let Some(output) = &mut self.child.stdout else { return false };
        let mut line = String::new();
        let greeting = timeout(limit, BufReader::new(output).read_line(&mut line)).await;
        matches!(greeting, Ok(Ok(1..)))
    }

    /// What it says; once.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Tells it a line.
    pub async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it listens no more")?;
        let told = input.write_all(format!("{line}\n").as_bytes()).await;
        told.with_context(|| format!("{} does not listen", self.name))
    }

    /// The process is not reaped while its id is known, so the id cannot be somebody else's.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().with_context(|| format!("{} has ended", self.name))?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("a signal to {}", self.name))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it has ended; `None` if it has not by then.
    pub async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        timeout(limit, self.child.wait()).await.ok()?.ok()
    }

    /// Kills it, stopped or not, and waits until it is gone.
    pub async fn kill(&mut self) {
        // Fails if it has ended, and then it is gone.
        let _ = self.child.kill().await;
    }
}
