//! Processes of ours: started, told, hurt with signals, and a scheduler among them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, kill_process};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

pub use rustix::process::Signal;

/// How long a scheduler may take to its greeting; it opens the store before.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Lines that a scheduler says when it listens.
const GREETING_LINES: usize = 3;

/// How a process is started. It inherits no `LINGUA_` variable but the level of its log, so that what
/// the caller was configured with does not reach it.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Its name in errors, and of its log.
    name: String,
    /// Standard error goes to the end of this file; without one, to our own.
    log: Option<PathBuf>,
    /// The level of the log, unless the environment names another.
    level: String,
}

impl Launch {
    /// This program with these arguments.
    pub fn new<A: Into<String>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            name: "the process".to_owned(),
            log: None,
            level: "error".to_owned(),
        }
    }

    /// `lingua serve` with its default configuration, which ends with whoever started it. The store is
    /// not on the command line: it may hold a password.
    pub fn serve(program: impl Into<PathBuf>, listen: &str, store: &str) -> Self {
        let arguments = ["serve", "--listen", listen, "--with-parent"];
        Self::new(program, arguments).with_env("LINGUA_STORE", store).named("the scheduler")
    }

    /// Adds arguments.
    pub fn with<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its name in errors.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Standard error goes to the end of this file, and what it logs begins at `info`.
    pub fn logging_to(mut self, log: impl Into<PathBuf>) -> Self {
        self.log = Some(log.into());
        self.level = "info".to_owned();
        self
    }

    /// Starts it.
    pub fn start(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("LINGUA_")) {
            command.env_remove(key);
        }
        command.env("LINGUA_LOG", std::env::var("LINGUA_LOG").as_ref().unwrap_or(&self.level));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(log) = &self.log {
            command.stderr(File::options().create(true).append(true).open(log)?);
        }
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = child.with_context(|| format!("{} does not start", self.name))?;
        let input = child.stdin.take();
        Ok(Process { child, input, name: self.name.clone() })
    }

    /// Starts a scheduler, or what greets as one, and waits until it listens.
    pub async fn start_scheduler(&self) -> Result<SchedulerProcess, StartError> {
        let mut process = self.start()?;
        let output = process.output().context("its output is taken")?;
        let mut output = BufReader::new(output);
        let said = timeout(START_LIMIT, lines(&mut output, GREETING_LINES)).await;
        let said = said.map_err(|_| StartError::Silent(START_LIMIT))?;
        match said.first().and_then(|line| address_in(line)) {
            Some(address) => Ok(SchedulerProcess { process, address, _output: output }),
            None => {
                // What was wrong it has said itself, on standard error.
                let ended = process.wait(START_LIMIT).await;
                Err(ended.map_or(StartError::Silent(START_LIMIT), StartError::Ended))
            }
        }
    }
}

/// Why there is no scheduler.
#[derive(Debug, Error)]
pub enum StartError {
    /// It ended instead of listening.
    #[error("the scheduler ended as it began, {0}")]
    Ended(ExitStatus),
    /// It neither listens nor ends.
    #[error("the scheduler said nothing for {0:?}")]
    Silent(Duration),
    /// It could not be started.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// A child in a process group of its own, so that a Ctrl-C meant for its parent does not reach it.
/// Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept apart from the child: a wait for its end would close it.
    input: Option<ChildStdin>,
    name: String,
}

impl Process {
    /// Its id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
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

    /// Waits until it has ended.
    pub async fn gone(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills it, stopped or not, and waits until it is gone.
    pub async fn kill(&mut self) {
        // Fails if it has ended, and then it is gone.
        let _ = self.child.kill().await;
    }
}

/// A scheduler that listens, as a process of its own. Dropping it kills it.
#[derive(Debug)]
pub struct SchedulerProcess {
    /// The process itself.
    pub process: Process,
    address: SocketAddr,
    /// Kept open: it may say more than its greeting.
    _output: BufReader<ChildStdout>,
}

impl SchedulerProcess {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id; 0 once it has ended.
    pub fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    /// Has it drain and end; how it ended. One that does not within the limit is killed and an error.
    pub async fn end(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        let ended = self.process.wait(limit).await;
        if ended.is_none() {
            self.process.kill().await;
        }
        ended.with_context(|| format!("the scheduler did not end within {limit:?} and was killed"))
    }
}

async fn lines(output: &mut BufReader<impl AsyncRead + Unpin>, count: usize) -> Vec<String> {
    let mut said = Vec::new();
    while said.len() < count {
        let mut line = String::new();
        match output.read_line(&mut line).await {
            Ok(1..) => said.push(line),
            _ => break,
        }
    }
    said
}

/// The address in `listens on http://127.0.0.1:5010 …`
fn address_in(line: &str) -> Option<SocketAddr> {
    line.split("://").nth(1)?.split([' ', '/', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_a_greeting() {
        let local: SocketAddr = "127.0.0.1:5010".parse().unwrap();
        for line in [
            "lingua 0.1.0 listens on http://127.0.0.1:5010 (memory)\n",
            "listens on https://127.0.0.1:5010\n",
            "http://127.0.0.1:5010/x",
        ] {
            assert_eq!(address_in(line), Some(local), "{line}");
        }
        assert_eq!(address_in("no address"), None);
        assert_eq!(address_in("http://nonsense "), None);
    }

    #[tokio::test]
    async fn what_ends_instead_of_listening_says_with_which_code() {
        let launch = Launch::new("/bin/sh", ["-c", "echo no; exit 7"]);
        let Err(StartError::Ended(status)) = launch.start_scheduler().await else {
            panic!("it does not listen")
        };
        assert_eq!(status.code(), Some(7));
    }

    #[tokio::test]
    async fn what_greets_has_an_address_and_ends_on_demand() {
        let greeting = "echo on http://127.0.0.1:9; echo; echo; exec sleep 60";
        let mut scheduler =
            Launch::new("/bin/sh", ["-c", greeting]).start_scheduler().await.unwrap();
        assert_eq!(scheduler.address().port(), 9);
        let ended = scheduler.end(Duration::from_secs(20)).await.unwrap();
        assert!(!ended.success() && ended.code().is_none(), "{ended}");
        assert_eq!(scheduler.pid(), 0);
    }

    #[tokio::test]
    async fn variables_of_the_caller_do_not_reach_it() {
        let script = "echo \"http://127.0.0.1:${LINGUA_PORT:-9}\"; echo; echo; exec sleep 60";
        let launch = Launch::new("/bin/sh", ["-c", script]).with_env("LINGUA_PORT", "8");
        assert_eq!(launch.start_scheduler().await.unwrap().address().port(), 8);
    }
}
