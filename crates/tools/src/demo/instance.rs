//! One scheduler as a process of its own: started, watched, started again when it dies.
//!
//! Its standard input is a pipe that this process holds. The scheduler ends when the pipe does, so it
//! outlives nobody, not even a demonstration that was killed.

use std::net::SocketAddr;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use lingua_lab::process::{Signal, StartError};
use lingua_lab::{Launch, SchedulerProcess};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::catalogue::CatalogueFile;
use crate::bench::process::program;

/// For its end after SIGTERM; a little more than it allows itself.
const END_LIMIT: Duration = Duration::from_secs(50);

/// One that died stays away for so long, so that it is seen to be missing.
const AWAY: Duration = Duration::from_secs(4);

/// Orders that are not carried out yet.
const ORDERS: usize = 4;

/// How a scheduler is started.
#[derive(Clone)]
pub(super) struct Plan {
    /// Its number, from 1.
    pub number: u32,
    /// Where state is kept.
    pub store: String,
    /// What its name begins with.
    pub name: String,
    /// The services that it shows.
    pub catalogue: Arc<CatalogueFile>,
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
        let process = start(&plan, 1, "127.0.0.1:0").await?;
        let address = process.address();
        let pid = Arc::new(Mutex::new(process.process.id()));
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
    async fn keep(mut self, mut scheduler: SchedulerProcess) -> Result<(), String> {
        let number = self.plan.number;
        loop {
            let status = tokio::select! {
                status = scheduler.process.gone() => status,
                order = self.told.recv() => match order {
                    Some(Order::Kill) => {
                        signal(&scheduler, Signal::KILL);
                        continue;
                    }
                    Some(Order::Freeze(time)) => {
                        signal(&scheduler, Signal::STOP);
                        let ending = matches!(
                            timeout(time, self.told.recv()).await, Ok(Some(Order::End) | None));
                        signal(&scheduler, Signal::CONT);
                        if ending {
                            return end(scheduler).await;
                        }
                        continue;
                    }
                    Some(Order::End) | None => return end(scheduler).await,
                },
            };
            *self.pid.lock() = None;
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            self.tell(format!("Scheduler {number} ended ({how}). It restarts in {AWAY:?}."));
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
                match start(&self.plan, self.lives, &listen).await {
                    Ok(again) => {
                        scheduler = again;
                        break;
                    }
                    Err(error) => {
                        self.tell(format!("Scheduler {number} did not restart: {error:#}"))
                    }
                }
            }
            *self.pid.lock() = scheduler.process.id();
            self.tell(format!("Scheduler {number} is running again, pid {}.", scheduler.pid()));
        }
    }

    fn tell(&self, line: String) {
        // A line that nobody has time to read is not worth waiting for.
        let _ = self.news.try_send(line);
    }
}

/// Starts this very program as `lingua serve`.
async fn start(plan: &Plan, life: u32, listen: &str) -> anyhow::Result<SchedulerProcess> {
    let name = format!("{}-{}-{life}", plan.name, plan.number);
    let launch = Launch::serve(program()?, listen, &plan.store).with([
        "--instance-id",
        &name,
        "--profile",
        "fast",
        "--threads",
        "1",
    ]);
    let launch = launch.with_env("LINGUA_CATALOGUE_FILE", &plan.catalogue.path().to_string_lossy());
    let started = launch.start_scheduler().await;
    started.map_err(|error| match error {
        StartError::Ended(status) => {
            anyhow!("scheduler {} ended as it began, {}", plan.number, described(status))
        }
        other => other.into(),
    })
}

/// Fails if it has just ended, which is noticed next.
fn signal(scheduler: &SchedulerProcess, signal: Signal) {
    let _ = scheduler.process.signal(signal);
}

/// Has it drain and end.
async fn end(mut scheduler: SchedulerProcess) -> Result<(), String> {
    match scheduler.end(END_LIMIT).await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("it ended {}", described(status))),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("with exit code {code}"),
        None => format!("by {status}"),
    }
}
