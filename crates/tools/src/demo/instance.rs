//! One scheduler as a process of its own: started, watched, started again when it dies.
//!
//! Its standard input is a pipe that this process holds. The scheduler ends when the pipe does, so it
//! outlives nobody, not even a demonstration that was killed.

use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// For its three lines: it opens the store before.
const START_LIMIT: Duration = Duration::from_secs(30);

/// For its end after SIGTERM; a little more than it allows itself.
const END_LIMIT: Duration = Duration::from_secs(50);

/// One that died stays away for so long, so that it is seen to be missing.
const AWAY: Duration = Duration::from_secs(4);

/// Orders that are not carried out yet.
const ORDERS: usize = 4;

/// How a scheduler is started.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Its number, from 1.
    pub number: u32,
    /// Where state is kept.
    pub store: String,
    /// What its name begins with.
    pub name: String,
}

/// A scheduler that is kept alive. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Instance {
    address: SocketAddr,
    pid: Arc<Mutex<Option<u32>>>,
    orders: mpsc::Sender<Order>,
    task: JoinHandle<Result<(), String>>,
}

enum Order {
    Kill,
    Freeze(Duration),
    End,
}

impl Instance {
    /// Starts it on a free port and waits until it listens. `news` hears when it dies and is back.
    pub async fn start(plan: Plan, news: mpsc::Sender<String>) -> anyhow::Result<Self> {
        let (process, address) = Process::start(&plan, 1, "127.0.0.1:0").await?;
        let pid = Arc::new(Mutex::new(process.child.id()));
        let (orders, told) = mpsc::channel(ORDERS);
        let keeper = Keeper { plan, address, pid: Arc::clone(&pid), told, news, lives: 1 };
        Ok(Instance { address, pid, orders, task: tokio::spawn(keeper.keep(process)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that lives now.
    pub fn pid(&self) -> Option<u32> {
        *self.pid.lock()
    }

    /// Kills it as `kill -9` does; it is back after some seconds.
    pub async fn kill(&self) {
        // Nobody takes orders once it has ended for good.
        let _ = self.orders.send(Order::Kill).await;
    }

    /// Stops it where it is for so long, as SIGSTOP does.
    pub async fn freeze(&self, time: Duration) {
        let _ = self.orders.send(Order::Freeze(time)).await;
    }

    /// Has it end in order, and waits; says why if it did not.
    pub async fn end(mut self) -> Result<(), String> {
        let _ = self.orders.send(Order::End).await;
        let ended = (&mut self.task).await;
        ended.unwrap_or_else(|error| Err(format!("its keeper is gone: {error}")))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The process goes with the task that holds it.
        self.task.abort();
    }
}

/// The task of one scheduler.
struct Keeper {
    plan: Plan,
    address: SocketAddr,
    pid: Arc<Mutex<Option<u32>>>,
    told: mpsc::Receiver<Order>,
    news: mpsc::Sender<String>,
    lives: u32,
}

impl Keeper {
    async fn keep(mut self, mut process: Process) -> Result<(), String> {
        let number = self.plan.number;
        loop {
            let status = tokio::select! {
                status = process.child.wait() => status,
                order = self.told.recv() => match order {
                    Some(Order::Kill) => {
                        process.signal(Signal::KILL);
                        continue;
                    }
                    Some(Order::Freeze(time)) => {
                        process.signal(Signal::STOP);
                        let ending = matches!(
                            timeout(time, self.told.recv()).await, Ok(Some(Order::End) | None));
                        process.signal(Signal::CONT);
                        if ending {
                            return process.end().await;
                        }
                        continue;
                    }
                    Some(Order::End) | None => return process.end().await,
                },
            };
            *self.pid.lock() = None;
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            self.tell(format!("scheduler {number} is gone ({how}); it is back in {AWAY:?}"));
            loop {
                tokio::select! {
                    () = sleep(AWAY) => {}
                    order = self.told.recv() => match order {
                        Some(Order::End) | None => return Ok(()),
                        Some(_) => continue,
                    },
                }
                self.lives += 1;
                let listen = self.address.to_string();
                match Process::start(&self.plan, self.lives, &listen).await {
                    Ok((again, _)) => {
                        process = again;
                        break;
                    }
                    Err(error) => self.tell(format!("scheduler {number} is not back: {error:#}")),
                }
            }
            *self.pid.lock() = process.child.id();
            self.tell(format!(
                "scheduler {number} is back, pid {}",
                process.child.id().unwrap_or_default()
            ));
        }
    }

    fn tell(&self, line: String) {
        // A line that nobody has time to read is not worth waiting for.
        let _ = self.news.try_send(line);
    }
}

/// A living process.
struct Process {
    child: Child,
    /// Kept apart, because waiting for a child closes the pipe to it.
    _stdin: ChildStdin,
    /// Kept open: it may say more than its greeting.
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this very program as `lingua serve`.
    async fn start(plan: &Plan, life: u32, listen: &str) -> anyhow::Result<(Self, SocketAddr)> {
        let program = std::env::current_exe().context("this program has no path")?;
        let log = std::env::var("LINGUA_LOG").unwrap_or_else(|_| "error".to_owned());
        let name = format!("{}-{}-{life}", plan.name, plan.number);
        let mut child = Command::new(program)
            .args(["serve", "--listen", listen, "--instance-id", &name, "--profile", "fast"])
            .args(["--threads", "1", "--with-parent"])
            // Not on the command line: it may hold a password.
            .env("LINGUA_STORE", &plan.store)
            .env("LINGUA_LOG", log)
            .env_remove("LINGUA_ADVERTISE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on a terminal is for the demonstration, which ends its parts in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("the scheduler does not start")?;
        let stdin = child.stdin.take().context("the scheduler has no input")?;
        let stdout = child.stdout.take().context("the scheduler has no output")?;
        let mut stdout = BufReader::new(stdout);
        let greeting = timeout(START_LIMIT, greeting(&mut stdout)).await;
        let greeting = greeting.with_context(|| format!("silent for {START_LIMIT:?}"))??;
        let address = greeting.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            // What was wrong it has said itself, on standard error.
            let status = timeout(START_LIMIT, child.wait()).await.context("it does not end")??;
            bail!("scheduler {} ended as it began, {}", plan.number, described(status));
        };
        Ok((Process { child, _stdin: stdin, _stdout: stdout }, address))
    }

    /// The process is not reaped while it is here, so its id cannot be somebody else's.
    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            // Fails if it has just ended, which is noticed next.
            let _ = kill_process(pid, signal);
        }
    }

    /// Has it drain and end.
    async fn end(mut self) -> Result<(), String> {
        self.signal(Signal::TERM);
        match timeout(END_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("it ended {}", described(status))),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it did not end within {END_LIMIT:?} and was killed")),
        }
    }
}

/// The first line, when all three were said.
async fn greeting(stdout: &mut BufReader<ChildStdout>) -> anyhow::Result<String> {
    let mut first = String::new();
    stdout.read_line(&mut first).await?;
    let mut rest = String::new();
    for _ in 0..2 {
        stdout.read_line(&mut rest).await?;
    }
    Ok(first)
}

fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("with exit code {code}"),
        None => format!("by {status}"),
    }
}
