//! One run from its first process to its last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::acting::act;
use super::check::{self, Verdict};
use super::options::Options;
use super::plan::Plan;
use super::servers::SETTLES_WITHIN;
use super::world::World;
use crate::speaker::sockets;

/// How long everybody may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(40);

/// After the last fault: how long until all must work, and how long it is then watched.
const SETTLE: Duration = Duration::from_secs(20);
const QUIET: Duration = Duration::from_secs(15);

/// The last endings come by their deadlines.
const END_LIMIT: Duration = Duration::from_secs(120);

/// What became of what was said so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Figures {
    /// Speakers that have begun.
    pub speaking: u64,
    /// Sentences said to their end.
    pub said: u64,
    /// Results heard.
    pub results: u64,
    /// `missing_result`s heard.
    pub missing: u64,
    /// Sentences that have not ended.
    pub open: u64,
    /// Faults so far.
    #[serde(default)]
    pub faults: u64,
}

/// What a run tells while it lasts.
#[derive(Debug)]
pub enum Told<'a> {
    /// What it does now.
    Doing(&'a str),
    /// A fault happens.
    Fault(&'a str),
    /// A second has passed.
    Second(Figures),
}

type Seen = Arc<Mutex<Vec<Figures>>>;

/// Runs it and checks what was written down. With `stop` it ends at once, and everything that it
/// started with it.
pub async fn run(
    options: &Options,
    stop: watch::Receiver<bool>,
    tell: &(dyn Fn(Told<'_>) + Sync),
) -> anyhow::Result<Verdict> {
    let mut stopped = stop;
    let finished = tokio::select! {
        finished = whole(options, tell) => finished,
        _ = stopped.wait_for(|stop| *stop) => bail!("interrupted"),
    };
    finished?;
    tell(Told::Doing("reading what was written down"));
    let dir = options.dir.clone();
    tokio::task::spawn_blocking(move || check::check(&dir)).await?
}

async fn whole(options: &Options, tell: &(dyn Fn(Told<'_>) + Sync)) -> anyhow::Result<()> {
    let clients = options.nodes + options.speakers;
    // Each client's connection is two sockets here, and those given up linger for a while.
    sockets::make_room_for(clients as u64 * 8)?;
    let plan = Plan::draw(options);
    tell(Told::Doing("starting the store and the schedulers"));
    let mut world = World::start(options).await?;
    world.start_clients().await?;
    let seen: Seen = Arc::default();
    for (process, speakers) in world.speakers.iter().enumerate() {
        let output = speakers.lock().await.output().context("a process without output")?;
        tokio::spawn(listen(output, process, Arc::clone(&seen)));
    }
    let world = Arc::new(world);
    tell(Told::Doing("starting nodes and speakers"));
    let begun = async {
        while sum(&seen).speaking < options.speakers as u64 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(BEGIN_LIMIT, begun).await.context("not everybody could begin to speak")?;

    let mut course = Course { world: &world, seen: &seen, tell, faults: 0, acting: JoinSet::new() };
    course.hurt(&plan, options.lasts).await?;
    tell(Told::Doing("healing everything"));
    course.heal().await?;
    course.pass(SETTLE).await?;
    world.story.write("quiet", json!({}));
    tell(Told::Doing("now everybody must be understood"));
    course.pass(QUIET).await?;
    world.story.write("stop", json!({}));
    world.keep_views().await;
    tell(Told::Doing("waiting for what is open"));
    for speakers in &world.speakers {
        speakers.lock().await.tell("stop").await?;
    }
    let mut all_ended = true;
    for speakers in &world.speakers {
        all_ended &= speakers.lock().await.wait(END_LIMIT).await.is_some();
    }
    world.story.write("ended", json!({ "all": all_ended }));
    tell(Told::Doing("draining the schedulers"));
    let mut drains = JoinSet::new();
    for index in 0..options.schedulers {
        let world = Arc::clone(&world);
        drains.spawn(async move { world.drain_scheduler(index).await });
    }
    while let Some(drained) = drains.join_next().await {
        drained??;
    }
    for nodes in &world.nodes {
        nodes.lock().await.kill().await;
    }
    Ok(())
}

/// The course of a run.
struct Course<'a> {
    world: &'a Arc<World>,
    seen: &'a Seen,
    tell: &'a (dyn Fn(Told<'_>) + Sync),
    faults: u64,
    acting: JoinSet<()>,
}

impl Course<'_> {
    /// Lets the faults of the plan happen.
    async fn hurt(&mut self, plan: &Plan, lasts: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        self.world.story.write("begin", json!({ "faults": plan.faults.len() }));
        for planned in &plan.faults {
            self.pass_until(began + Duration::from_millis(planned.at_ms)).await?;
            (self.tell)(Told::Fault(&planned.to_string()));
            self.faults += 1;
            self.acting.spawn(act(Arc::clone(self.world), planned.clone()));
        }
        self.pass_until(began + lasts).await
    }

    /// Waits for faults to be undone, and makes sure.
    async fn heal(&mut self) -> anyhow::Result<()> {
        let undone = async { while self.acting.join_next().await.is_some() {} };
        let limit = super::DRAIN_LIMIT + SETTLES_WITHIN;
        timeout(limit, undone).await.context("a fault could not be undone")?;
        self.world.heal().await?;
        self.world.story.write("healed_all", json!({}));
        Ok(())
    }

    async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        self.pass_until(Instant::now() + time).await
    }

    async fn pass_until(&mut self, end: Instant) -> anyhow::Result<()> {
        let mut seconds = interval(Duration::from_secs(1));
        seconds.reset();
        loop {
            tokio::select! {
                () = sleep_until(end) => return Ok(()),
                _ = seconds.tick() => {
                    self.world.look_after_schedulers().await?;
                    (self.tell)(Told::Second(Figures { faults: self.faults, ..sum(self.seen) }));
                }
            }
        }
    }
}

/// Keeps the last figures that a process of speakers told.
async fn listen(output: ChildStdout, process: usize, seen: Seen) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(figures) = serde_json::from_str::<Figures>(&line) else { continue };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() <= process {
            seen.resize(process + 1, Figures::default());
        }
        seen[process] = figures;
    }
}

fn sum(seen: &Seen) -> Figures {
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().fold(Figures::default(), |sum, one| Figures {
        speaking: sum.speaking + one.speaking,
        said: sum.said + one.said,
        results: sum.results + one.results,
        missing: sum.missing + one.missing,
        open: sum.open + one.open,
        faults: 0,
    })
}
