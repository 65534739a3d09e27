//! Where a fault is shown: healthy until all are, ill until it was seen, and healthy again.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use lingua_core::link::SlowStart;
use lingua_engine::Settings;
use lingua_lab::{Behaviour, FakeNode, NodeOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::app::TestApp;
use crate::app::jobs::{JobBuilder, job};

/// How far all of them are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Act {
    Healthy,
    Ill,
    Healed,
    Over,
}

/// A scene's view of the others.
#[derive(Clone)]
pub struct Stage {
    pub name: &'static str,
    pub act: watch::Receiver<Act>,
    pub healthy: mpsc::Sender<(&'static str, Vec<SocketAddr>)>,
}

impl Stage {
    /// These are to be watched, and are well. Waits until all are.
    pub async fn is_healthy(&mut self, targets: &[SocketAddr]) {
        self.healthy.send((self.name, targets.to_vec())).await.unwrap();
        self.until(Act::Ill).await;
    }

    /// Waits for this act.
    pub async fn until(&mut self, act: Act) {
        if self.act.wait_for(|now| *now >= act).await.is_err() {
            // The test failed elsewhere, and ends this.
            std::future::pending::<()>().await;
        }
    }

    fn is_over(&self, act: Act) -> bool {
        *self.act.borrow() > act
    }

    /// Does it so often, with how many times it was done, until this act is over.
    pub async fn keep<F: Future>(&self, act: Act, every: Duration, mut todo: impl FnMut(u64) -> F) {
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for times in 0.. {
            tick.tick().await;
            if self.is_over(act) {
                return;
            }
            todo(times).await;
        }
    }

    /// Hands in so many jobs a second until this act is over; `made` makes each.
    pub async fn work(
        &self,
        act: Act,
        app: &TestApp,
        per_second: u32,
        made: impl Fn(u64, JobBuilder) -> JobBuilder,
    ) {
        let every = Duration::from_secs(1) / per_second;
        // One that is refused at the door is no job.
        let hand_in = |times| {
            let _ = made(times, job()).try_submit(app);
            std::future::ready(())
        };
        self.keep(act, every, hand_in).await;
    }
}

/// Every job is as plain as can be.
pub fn plain(_: u64, job: JobBuilder) -> JobBuilder {
    job
}

/// One job in so many is another.
pub fn one_in(
    many: u64,
    other: impl Fn(JobBuilder) -> JobBuilder,
) -> impl Fn(u64, JobBuilder) -> JobBuilder {
    move |times, job| if times % many == many - 1 { other(job) } else { job }
}

/// Settings of production, but a node is believed at once and a snapshot is made often.
pub fn settings() -> Settings {
    let mut settings = Settings::stable();
    settings.slow_start = SlowStart::Off;
    settings.restart_hold_ms = 0;
    settings.snapshot_ms = 500;
    settings
}

/// The same, with nodes that may fail as often as they like.
pub fn lenient() -> Settings {
    let mut settings = settings();
    settings.breaker.failures = u32::MAX;
    settings
}

/// A node that translates from English into Chinese, in this time.
pub fn options(address: SocketAddr, name: &str, takes_ms: u64) -> NodeOptions {
    NodeOptions::new(format!("ws://{address}/ws/node"))
        .node_id(name)
        .pairs(&[("en", "zh")])
        .behaviour(Behaviour::taking_ms(takes_ms))
}

/// The same, connected.
pub async fn node(address: SocketAddr, name: &str, takes_ms: u64) -> FakeNode {
    FakeNode::connect(options(address, name, takes_ms)).await.unwrap()
}
