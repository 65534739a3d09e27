//! One server process: started, killed, restarted, paused.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout_at};

use crate::ports::loopback;
use crate::redis_config::{Mode, Ports, RedisConfig};
use crate::resp::{self, Reply};
use crate::wait::until;

/// A private Redis answers after some 20 ms; on a machine full of compilers, after a second.
const START_LIMIT: Duration = Duration::from_secs(10);
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// Between choosing a free port and binding it somebody else may take it; not five times over.
const START_ATTEMPTS: u32 = 5;

/// A port that must be this one is waited for: its old owner may still be going.
const PORT_RETRY_AFTER: Duration = Duration::from_millis(200);

const LOG_TAIL_LINES: usize = 20;

/// A `redis-server` process of our own. Dropping it kills the process and removes its directory.
#[derive(Debug)]
pub struct RedisServer {
    config: RedisConfig,
    ports: Ports,
    dir: PathBuf,
    /// `None` between a kill and the restart.
    child: Option<Child>,
    /// How much log earlier processes of this server had written.
    old_log: usize,
    /// Removed when dropped, after the process is gone; `None` if the caller named a directory.
    _private_dir: Option<TempDir>,
}

/// How an attempt to start ended, when it did not fail.
enum Launch {
    Answers,
    PortTaken,
}

impl RedisConfig {
    /// Starts the server and waits until it answers.
    pub async fn start(self) -> anyhow::Result<RedisServer> {
        RedisServer::start_with(self).await
    }
}

impl RedisServer {
    /// A standalone server with the defaults of [`RedisConfig`].
    pub async fn start() -> anyhow::Result<Self> {
        RedisConfig::new().start().await
    }

    pub(crate) async fn start_with(config: RedisConfig) -> anyhow::Result<Self> {
        let (dir, private_dir) = match &config.dir {
            Some(dir) => (dir.clone(), None),
            None => {
                let private = tempfile::Builder::new().prefix("lingua-redis-").tempdir()?;
                (private.path().to_owned(), Some(private))
            }
        };
        let ports = config.choose_ports()?;
        let mut server =
            Self { config, ports, dir, child: None, old_log: 0, _private_dir: private_dir };
        for _ in 0..START_ATTEMPTS {
            fs::write(server.conf_path(), server.config.render(server.ports, &server.dir))?;
            if let Launch::Answers = server.launch().await? {
                return Ok(server);
            }
            if server.config.port.is_some() {
                sleep(PORT_RETRY_AFTER).await;
            }
            server.ports = server.config.choose_ports()?;
        }
        bail!("{START_ATTEMPTS} times the port was taken; the log ends:\n{}", server.log_tail())
    }

    /// The port of plain RESP.
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// The port of TLS, of a server that has it.
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls
    }

    /// The address of plain RESP.
    pub fn addr(&self) -> SocketAddr {
        loopback(self.ports.plain)
    }

    /// `redis://127.0.0.1:PORT/`, without the password if there is one.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    /// `rediss://127.0.0.1:PORT/`, of a server that has TLS.
    pub fn tls_url(&self) -> Option<String> {
        self.ports.tls.map(|port| format!("rediss://{}/", loopback(port)))
    }

    /// The process, unless it was killed.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills the process with SIGKILL, paused or not, and waits until it is gone. What it had not
    /// written to disk is lost. Killing a server that is down is no error.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().context("cannot kill the server")?;
        child.wait().context("cannot reap the server")?;
        Ok(())
    }

    /// Starts the server again on its ports, its directory and its configuration file, as its last
    /// process left them. A server that still runs is killed first.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        for _ in 0..START_ATTEMPTS {
            if let Launch::Answers = self.launch().await? {
                return Ok(());
            }
            sleep(PORT_RETRY_AFTER).await;
        }
        bail!("port {} was taken while the server was down", self.port())
    }

    /// Asks the process to end (SIGTERM), so that it writes what it has to write, and waits for it.
    pub async fn shutdown(&mut self) -> anyhow::Result<()> {
        if self.child.is_none() {
            return Ok(());
        }
        self.resume()?;
        self.signal(Signal::TERM)?;
        let give_up_at = Instant::now() + SHUTDOWN_LIMIT;
        while self.exited()?.is_none() {
            if Instant::now() >= give_up_at {
                let tail = self.log_tail();
                self.kill()?;
                bail!("the server did not end within {SHUTDOWN_LIMIT:?}; its log ends:\n{tail}");
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Stops the process where it is (SIGSTOP): connections stay open and nothing is answered.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends one command on a connection of its own, with the login of the configuration, and waits
    /// 5 s for the answer. A refusal is [`Reply::Error`], see [`Reply::into_result`].
    pub async fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> anyhow::Result<Reply> {
        resp::command(self.addr(), self.config.login.as_ref(), args).await
    }

    /// The value of one field of `INFO section`.
    pub async fn info(&self, section: &str, field: &str) -> anyhow::Result<Option<String>> {
        let report = self.command(&["INFO", section]).await?.into_result()?.text();
        Ok(value_of(&report, field).map(str::to_owned))
    }

    /// Waits until this replica has the data of its primary and follows it.
    pub async fn wait_until_in_sync(&self) -> anyhow::Result<()> {
        let what = format!("replica {} to be in sync", self.port());
        until(START_LIMIT, &what, async || {
            let link = self.info("replication", "master_link_status").await?;
            Ok((link.as_deref() == Some("up")).then_some(()))
        })
        .await
    }

    /// The last lines that the running process, or else the last one, has logged.
    pub fn log_tail(&self) -> String {
        let log = match fs::read(self.log_path()) {
            Ok(log) => log,
            Err(error) => return format!("(no log: {error})"),
        };
        let recent = String::from_utf8_lossy(log.get(self.old_log..).unwrap_or(&log)).into_owned();
        let lines: Vec<_> = recent.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.config
    }

    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.ports.bus
    }

    fn conf_path(&self) -> PathBuf {
        self.dir.join("redis.conf")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("redis.log")
    }

    /// Starts the process and waits until it, and not somebody else on its port, answers.
    async fn launch(&mut self) -> anyhow::Result<Launch> {
        self.child = Some(self.spawn()?);
        let give_up_at = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = self.exited()? {
                let tail = self.log_tail();
                if tail.contains("Address already in use") {
                    return Ok(Launch::PortTaken);
                }
                bail!("{} ended with {status}; its log ends:\n{tail}", self.config.binary);
            }
            let reason = match timeout_at(give_up_at, self.who_answers()).await {
                Ok(Ok(Some(pid))) if Some(pid) != self.pid() => {
                    self.kill()?;
                    return Ok(Launch::PortTaken);
                }
                Ok(Ok(_)) => return Ok(Launch::Answers),
                Ok(Err(error)) => error,
                Err(_) => anyhow!("no answer"),
            };
            if Instant::now() >= give_up_at {
                let tail = self.log_tail();
                self.kill()?;
                let context = format!("not ready within {START_LIMIT:?}; the log ends:\n{tail}");
                return Err(reason.context(context));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn spawn(&mut self) -> anyhow::Result<Child> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        self.old_log = usize::try_from(log.metadata()?.len())?;
        let mut command = Command::new(&self.config.binary);
        command.arg(self.conf_path());
        if self.config.mode == Mode::Sentinel {
            command.arg("--sentinel");
        }
        if self.config.apart {
            command.process_group(0);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow!(
                "the program `{}` is missing: install the Debian package `redis-server` \
                 (`apt-get install redis-server`)",
                self.config.binary
            ),
            _ => anyhow!(error).context(format!("cannot start `{}`", self.config.binary)),
        })
    }

    /// The process that answers on our port; `None` when it does not tell us, because we have no
    /// right to ask.
    async fn who_answers(&self) -> anyhow::Result<Option<u32>> {
        if let Reply::Error(text) = resp::ping(self.addr()).await?
            && text.starts_with("LOADING")
        {
            bail!("{text}");
        }
        match self.command(&["INFO", "server"]).await? {
            Reply::Error(_) => Ok(None),
            report => {
                let report = report.text();
                let pid = value_of(&report, "process_id").context("INFO without a process_id")?;
                Ok(Some(pid.parse()?))
            }
        }
    }

    /// How the process ended, if it has; it is then forgotten.
    fn exited(&mut self) -> anyhow::Result<Option<std::process::ExitStatus>> {
        let Some(child) = &mut self.child else { bail!("the server is not running") };
        let status = child.try_wait()?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// The process is not reaped while `child` is there, so the id cannot be somebody else's.
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the server is not running")?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Nobody is left to be told; a process that cannot be killed is already gone.
        let _ = self.kill();
    }
}

/// The value of `field` in the `field:value` lines of `INFO` and `CLUSTER INFO`.
pub(crate) fn value_of<'a>(report: &'a str, field: &str) -> Option<&'a str> {
    report.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim_end)
}
