//! The automatic node: one task that answers jobs as its [`Behaviour`] says, over as many
//! connections as it takes.
//!
//! All jobs of a node live in this one task, sorted by when they have something to do, so a node
//! costs one timer however many jobs it has.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use super::behaviour::Behaviour;
use super::existing::Memory;
use super::jobs::{Job, Place, Running, Seen, UnackedResults};
use super::messages::{self, Load};
use super::options::{Heartbeats, NodeOptions};
use super::stats::{JobEvent, Phase, Shared, add, set};
use super::wire::Pen;
use super::{Closed, ConnectError, Registration, establish};
use crate::link::{Heard, Link};

mod work;

/// Used when neither the options nor the scheduler say how often.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Messages taken in before anything is written back.
const BATCH: usize = 256;

/// The pause before the first and before any later attempt to come back; jitter goes from half to
/// one and a half of it.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
const RECONNECT_AFTER_AT_MOST: Duration = Duration::from_secs(5);

/// A timer that is so late says that the process was stopped.
const STOOD_STILL: Duration = Duration::from_millis(500);

/// What the owner of a node can tell it.
#[derive(Debug)]
pub(super) enum Told {
    Behave(Behaviour),
    Heartbeat(Value),
    Crash,
    Close,
}

/// How the service on one connection ended.
#[derive(Debug)]
enum End {
    /// The connection is gone, and not by our will.
    Gone(Closed),
    /// The node is down.
    Crashed,
    /// Its owner wants no more.
    Enough,
}

pub(super) struct Worker {
    options: NodeOptions,
    dice: SmallRng,
    shared: Arc<Shared>,
    node_id: String,
    pen: Pen,
    running: Running,
    unacked: UnackedResults,
    seen: Seen,
    /// What an existing agent remembers of turns and sessions.
    memory: Memory,
    /// When its process began.
    began: Instant,
    /// The job of the last assign: a binary frame that follows is its audio.
    last_assigned: String,
    /// Where that job stands while it waits for its audio.
    awaiting_audio: Option<Place>,
    draining: bool,
    heartbeats_sent: u64,
    /// `None`: it reports only when told to.
    heartbeat_every: Option<Duration>,
    next_heartbeat: Option<Instant>,
    /// When anything came from the scheduler last.
    last_heard: Instant,
}

impl Worker {
    pub fn new(options: NodeOptions, registration: &Registration, shared: Arc<Shared>) -> Self {
        let node_id = registration.node_id.clone();
        let mut worker = Self {
            dice: options.behaviour.dice(&node_id),
            options,
            shared,
            pen: Pen::new(&node_id),
            node_id,
            running: Running::default(),
            unacked: UnackedResults::default(),
            seen: Seen::default(),
            memory: Memory::default(),
            began: Instant::now(),
            last_assigned: String::new(),
            awaiting_audio: None,
            draining: false,
            heartbeats_sent: 0,
            heartbeat_every: None,
            next_heartbeat: None,
            last_heard: Instant::now(),
        };
        worker.registered(registration);
        worker
    }

    /// Works until its owner has had enough or the scheduler does not want it back.
    pub async fn run(mut self, mut link: Link, mut told: mpsc::Receiver<Told>) {
        let closed = loop {
            let end = self.serve(&mut link, &mut told).await;
            let (closed, pause) = match end {
                End::Enough => break link.close(1000, "").await,
                End::Gone(closed) if !self.options.reconnect || self.is_final(&closed) => {
                    break closed;
                }
                End::Gone(closed) => {
                    let pause = self.pause(closed.retry_after().unwrap_or(RECONNECT_AFTER));
                    (closed, pause)
                }
                End::Crashed => {
                    // What it had said before is said.
                    let _ = link.flush().now_or_never();
                    add(&self.shared.counters.crashes);
                    self.forget_everything();
                    (Closed::default(), self.options.behaviour.crash_pause)
                }
            };
            drop(link);
            self.shared.phase.send_replace(Phase::Away);
            self.shared.write("gone", || json!({ "code": closed.code }));
            self.options.persistence.go_elsewhere(&mut self.options.url);
            let Some(again) = self.come_back(pause, &mut told).await else { break closed };
            link = again;
        };
        self.forget_everything();
        self.shared.phase.send_replace(Phase::Ended(closed));
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, link: &mut Link, told: &mut mpsc::Receiver<Told>) -> End {
        let mut timer = pin!(sleep(Duration::ZERO));
        loop {
            if let Some(end) = self.work(link) {
                return end;
            }
            let due = self.next_due();
            if let Some(due) = due {
                set_timer(timer.as_mut(), due);
            }
            tokio::select! {
                told = told.recv() => if let Some(end) = self.obey(told, link) {
                    return end;
                },
                () = &mut timer, if due.is_some() => {}
                heard = link.hear() => if let Some(end) = self.take_in(heard, link) {
                    return end;
                },
            }
        }
    }

    /// Whether the scheduler does not want it back.
    fn is_final(&self, closed: &Closed) -> bool {
        // An existing agent knows no reason not to come back.
        !self.options.old_agent
            && closed.is_final()
            && !(self.options.persistence.after_superseded && closed.code == Some(4001))
    }

    /// How long it stays away, where a current agent would for about that long.
    fn pause(&self, current: Duration) -> Duration {
        match self.options.old_agent {
            true => self.options.existing.reconnect_after,
            false => jitter(current),
        }
    }

    /// None of the services of an existing agent runs yet.
    fn is_starting(&self) -> bool {
        self.options.starts_before_services()
            && self.began.elapsed() < self.options.existing.services_start_after
    }

    /// When the scheduler will have been silent for too long.
    fn silent_at(&self) -> Option<Instant> {
        self.options.persistence.silence_limit.map(|limit| self.last_heard + limit)
    }

    /// Handles what was heard and all that came with it.
    fn take_in(&mut self, first: Heard, link: &mut Link) -> Option<End> {
        self.last_heard = Instant::now();
        let mut next = Some(first);
        let mut left = BATCH;
        while let Some(heard) = next {
            match heard {
                Heard::Text(text) => {
                    if let Some(end) = self.on_text(&text, link) {
                        return Some(end);
                    }
                }
                Heard::Binary(frame) => {
                    if let Some(end) = self.on_audio(&frame, link) {
                        return Some(end);
                    }
                }
                Heard::Ended(closed) => return Some(End::Gone(closed)),
            }
            left -= 1;
            next = if left == 0 { None } else { link.hear_at_once() };
        }
        None
    }

    /// Does what is due now.
    fn work(&mut self, link: &mut Link) -> Option<End> {
        let now = Instant::now();
        if self.next_heartbeat.is_some_and(|due| due <= now) {
            self.report(link, &Value::Null);
        }
        while let Some(job) = self.running.pop_due(now) {
            if let Some(end) = self.step(job, now, link) {
                return Some(end);
            }
        }
        set(&self.shared.counters.running, self.running.len());
        if let Some(due) = self.silent_at().filter(|due| *due <= now) {
            // If its own process stood still, it has not listened yet.
            if now.duration_since(due) < STOOD_STILL {
                return Some(End::Gone(Closed::default()));
            }
            self.last_heard = now;
        }
        None
    }

    fn next_due(&self) -> Option<Instant> {
        let own = self.next_heartbeat.into_iter().chain(self.silent_at());
        own.chain(self.running.next_due()).min()
    }

    fn obey(&mut self, told: Option<Told>, link: &mut Link) -> Option<End> {
        match told {
            None | Some(Told::Close) => return Some(End::Enough),
            Some(Told::Crash) => return Some(End::Crashed),
            Some(Told::Heartbeat(extra)) => self.report(link, &extra),
            Some(Told::Behave(behaviour)) => self.behave(behaviour),
        }
        None
    }

    fn behave(&mut self, behaviour: Behaviour) {
        self.dice = behaviour.dice(&self.node_id);
        self.options.behaviour = behaviour;
    }

    /// Sends a heartbeat, and once more the results that were not acked since the last but one.
    fn report(&mut self, link: &mut Link, extra: &Value) {
        let load =
            Load { running: self.listed(), draining: self.draining, starting: self.is_starting() };
        link.send_json(&messages::heartbeat(&self.options, Some(&self.node_id), &load, extra));
        self.repeat_results(link, self.heartbeats_sent);
        self.heartbeats_sent += 1;
        add(&self.shared.counters.heartbeats);
        self.next_heartbeat = self.heartbeat_every.map(|every| {
            // Current nodes that were started together do not report together for ever.
            let share = if self.options.old_agent { 1.0 } else { rand::random_range(0.9..=1.0) };
            Instant::now() + every.mul_f64(share)
        });
    }

    /// What it works on.
    fn listed(&self) -> Vec<(String, u64)> {
        let name = |job: &Job| (job.ids.job_id.to_string(), job.ids.attempt_id);
        self.running.iter().map(name).collect()
    }

    /// Sends again what was sent before that many heartbeats and is not acked.
    fn repeat_results(&mut self, link: &mut Link, before: u64) {
        for result in self.unacked.older_than(before) {
            link.send_text(Bytes::clone(&result.message));
            add(&self.shared.counters.repeated);
            self.shared.note(JobEvent::Repeated, &result.job_id, result.attempt_id, None);
        }
    }

    /// A new connection is ready for use.
    fn registered(&mut self, registration: &Registration) {
        self.heartbeat_every = match self.options.heartbeats {
            Heartbeats::Never => None,
            Heartbeats::Every(interval) => Some(interval),
            Heartbeats::AsTold if self.options.old_agent => {
                Some(self.options.existing.heartbeat_every)
            }
            Heartbeats::AsTold => Some(registration.heartbeat_interval().unwrap_or(HEARTBEAT)),
        };
        // One that comes back says at once what it runs: until then it gets nothing new, for another
        // instance may have given it jobs that this one does not know. An existing agent reports
        // behind every registration.
        let back = self.shared.counters.connections.load(std::sync::atomic::Ordering::Relaxed) > 0;
        let says = self.options.old_agent || (back && self.options.report_running);
        self.next_heartbeat = self.heartbeat_every.map(|every| match says {
            true => Instant::now(),
            false => Instant::now() + every,
        });
        self.last_heard = Instant::now();
        add(&self.shared.counters.connections);
        self.shared.write("connected", || json!({ "via": self.options.url }));
        self.shared.phase.send_replace(Phase::Connected);
    }

    /// Tries until it is registered again; `None` if it is not wanted, here or there.
    async fn come_back(
        &mut self,
        mut pause: Duration,
        told: &mut mpsc::Receiver<Told>,
    ) -> Option<Link> {
        let mut after = RECONNECT_AFTER;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                told = told.recv() => match told {
                    None | Some(Told::Close) => return None,
                    Some(Told::Behave(behaviour)) => self.behave(behaviour),
                    // It is down already, and a heartbeat has no way to go.
                    Some(Told::Crash | Told::Heartbeat(_)) => {}
                },
            }
            let running = self.listed();
            let starting = self.is_starting();
            match establish(&self.options, Some(&self.node_id), starting, Some(&running)).await {
                Ok((mut link, registration)) => {
                    self.registered(&registration);
                    self.resume(&mut link);
                    return Some(link);
                }
                Err(error) => {
                    let refused = error.downcast_ref::<ConnectError>();
                    let is_final = match refused {
                        _ if self.options.old_agent => false,
                        Some(ConnectError::Closed(closed)) => self.is_final(closed),
                        refused => refused.is_some_and(ConnectError::is_final),
                    };
                    self.options.persistence.go_elsewhere(&mut self.options.url);
                    self.shared.complain(format!("{error:#}"));
                    if is_final {
                        return None;
                    }
                }
            }
            after = (after * 2).min(RECONNECT_AFTER_AT_MOST);
            pause = self.pause(after);
        }
    }

    /// On a new connection: results that nobody acked go again, those that were never sent are gone
    /// unless the node keeps them.
    fn resume(&mut self, link: &mut Link) {
        self.repeat_results(link, u64::MAX);
        // Its audio went with the connection.
        if let Some(job) = self.awaiting_audio.take().and_then(|place| self.running.take(place)) {
            self.lose(&job);
        }
        if self.options.does("result_ack") {
            return;
        }
        while let Some(job) = self.running.pop_due(Instant::now()) {
            self.lose(&job);
        }
    }
}

/// Not drawn from the node's own dice: those belong to its jobs, so that a run can be repeated.
fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.5))
}

/// Moves a timer; one that stands right already costs nothing.
fn set_timer(timer: Pin<&mut Sleep>, due: Instant) {
    if timer.deadline() != due || timer.is_elapsed() {
        timer.reset(due);
    }
}
