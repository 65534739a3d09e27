//! The process of a node: it registers wherever it can, works, and answers.

mod lies;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::lang::LangSet;
use lingua_core::node::Declaration;
use lingua_core::{JobId, Lang, NodeId};
use lingua_engine::job::{JobMessage, JobReport};
use lingua_engine::nodes::{Heartbeat, Supports};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::World;
use super::door::{FromAgent, Registration, ToAgent, serve_node};
use crate::dice::Dice;
use crate::plan::{NodeKind, NodePlan};
use crate::record::Whose;
use crate::wire::End;
use work::Running;

/// A scheduler that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(6);

/// A registration is answered within this.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// How often an existing agent says that it lives.
const EXISTING_BEAT: Duration = Duration::from_secs(15);

type Wire = End<FromAgent, ToAgent>;

/// One life of a node's process.
pub(super) struct Agent {
    world: Arc<World>,
    number: usize,
    plan: NodePlan,
    dice: Dice,
    running: Vec<Running>,
    /// Results that nobody has acknowledged, or that wait for a connection.
    unsent: Vec<(JobId, u32, Answer)>,
    /// Jobs and utterances that an existing agent knows.
    seen: BTreeSet<String>,
    last_beat: Option<Instant>,
    beat_every: Duration,
    last_heard: Instant,
}

/// A word that can be said again.
#[derive(Clone)]
struct Answer {
    token: Option<String>,
    body: bytes::Bytes,
}

/// Runs until its process ends.
pub(super) async fn live(world: Arc<World>, number: usize, life: usize) {
    let plan = world.plan.nodes[number].clone();
    let dice = Dice::of(world.plan.seed, "node", number + 1_000 * life);
    let mut agent = Agent {
        number,
        plan,
        dice,
        running: Vec::new(),
        unsent: Vec::new(),
        seen: BTreeSet::new(),
        last_beat: None,
        beat_every: Duration::from_secs(2),
        last_heard: Instant::now(),
        world,
    };
    agent.write("begun", json!({ "slots": agent.plan.slots }));
    let mut avoid = None;
    loop {
        if let Some((wire, instance)) = agent.connect(avoid).await {
            agent.serve(wire).await;
            agent.write("gone", json!({}));
            avoid = Some(instance);
        }
        let pause = match agent.plan.kind {
            NodeKind::Existing => 5_000,
            _ => agent.dice.between(50, 600),
        };
        agent.work_alone(Duration::from_millis(pause)).await;
    }
}

impl Agent {
    fn write(&self, event: &str, fields: serde_json::Value) {
        self.world.record.write(Whose::Node(self.number), event, fields);
    }

    fn is_modern(&self) -> bool {
        matches!(self.plan.kind, NodeKind::Modern | NodeKind::Liar)
    }

    /// An existing agent says little, and hears little.
    fn silence(&self) -> Duration {
        if self.plan.kind == NodeKind::Existing { 3 * EXISTING_BEAT } else { SILENCE }
    }

    fn supports(&self) -> Supports {
        match self.plan.kind {
            NodeKind::Modern | NodeKind::Liar => Supports {
                ack: true,
                cancel: true,
                tokens: true,
                result_ack: true,
                ..Supports::default()
            },
            NodeKind::Plain => Supports { ack: true, cancel: true, ..Supports::default() },
            NodeKind::Existing => Supports::default(),
        }
    }

    /// Registers at some instance.
    async fn connect(&mut self, avoid: Option<usize>) -> Option<(Wire, usize)> {
        let instance = self.world.choose(&self.dice, avoid)?;
        let (near, far, control) = crate::wire::connect(Duration::from_millis(self.dice.below(4)));
        self.world.node_wire(self.number, control);
        self.world.as_instance(instance, |engine| serve_node(engine, far))?;
        let mut wire = near;
        let langs = LangSet::new(["en", "zh", "de"].map(|tag| Lang::new(tag).expect("a tag")));
        let semantic = langs.expect("three languages");
        let declaration = Declaration {
            tts: (!self.plan.text_only).then(|| semantic.clone()),
            semantic,
            max_slots: self.plan.slots,
            ..Declaration::default()
        };
        let node = NodeId::new(format!("node-{}", self.number)).expect("a name");
        let running = self.list();
        let registration = Registration { node, declaration, supports: self.supports(), running };
        wire.out.send(FromAgent::Register(Box::new(registration)));
        let answer = async {
            loop {
                match wire.inn.recv().await? {
                    ToAgent::Registered { heartbeat, .. } => return Some(Ok(heartbeat)),
                    ToAgent::Refused { code } => return Some(Err(code)),
                    _ => {}
                }
            }
        };
        match timeout(HANDSHAKE, answer).await {
            Ok(Some(Ok(heartbeat))) => {
                self.beat_every = match self.plan.kind {
                    NodeKind::Existing => EXISTING_BEAT,
                    _ => heartbeat.min(SILENCE / 3),
                };
                (self.last_beat, self.last_heard) = (None, Instant::now());
                self.write("connected", json!({ "via": format!("ws://127.0.0.1:{instance}/") }));
                Some((wire, instance))
            }
            Ok(Some(Err(code))) => {
                self.write("refused", json!({ "code": code.as_str() }));
                None
            }
            Ok(None) | Err(_) => None,
        }
    }

    /// What it runs, if it says so.
    fn list(&self) -> Option<Vec<(JobId, u32)>> {
        if !self.is_modern() {
            return None;
        }
        let unsent = self.unsent.iter().map(|(job, attempt, _)| (*job, *attempt));
        let running = self.running.iter().map(|job| (job.job, job.attempt));
        Some(running.chain(unsent).collect())
    }

    /// Until the connection is over.
    async fn serve(&mut self, mut wire: Wire) {
        // Once more, if nobody said that it arrived; an existing agent says it once.
        let again = std::mem::take(&mut self.unsent);
        for (job, attempt, result) in again {
            self.say_result(job, attempt, result, Some(&wire));
        }
        loop {
            let due = self.next_due();
            let heard = tokio::select! {
                biased;
                heard = wire.inn.recv() => heard,
                () = sleep_until(due) => {
                    if self.on_time(Some(&wire)).is_err() {
                        return;
                    }
                    continue;
                }
            };
            let Some(heard) = heard else { return };
            self.last_heard = Instant::now();
            match heard {
                ToAgent::Assign(work) => self.on_assign(*work, &wire),
                ToAgent::Cancel { job, attempt } => self.on_cancel(job, attempt),
                ToAgent::ResultAck { job, attempt } => {
                    self.unsent.retain(|(one, of, _)| (*one, *of) != (job, attempt));
                }
                ToAgent::Registered { .. } | ToAgent::Refused { .. } | ToAgent::Pong => {}
            }
        }
    }

    /// Works on without a connection.
    async fn work_alone(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let due = self.running.iter().filter_map(|job| job.done_at).min();
            match due.filter(|due| *due < end) {
                Some(due) => {
                    sleep_until(due).await;
                    self.finish_due(None);
                }
                None => return sleep(end.saturating_duration_since(Instant::now())).await,
            }
        }
    }

    fn next_due(&self) -> Instant {
        let now = Instant::now();
        let beat = self.last_beat.map_or(now, |last| last + self.beat_every);
        let work = self.running.iter().filter_map(|job| job.done_at);
        work.fold(beat.min(self.last_heard + self.silence()), Instant::min)
    }

    /// Does what is due; an error gives the connection up.
    fn on_time(&mut self, wire: Option<&Wire>) -> Result<(), ()> {
        let now = Instant::now();
        self.finish_due(wire);
        if self.last_heard + self.silence() <= now {
            // If its own process stood still, it has not listened yet.
            if now.duration_since(self.last_heard + self.silence()) < Duration::from_millis(500) {
                return Err(());
            }
            self.last_heard = now;
        }
        if self.last_beat.is_none_or(|last| last + self.beat_every <= now) {
            self.last_beat = Some(now);
            if let Some(wire) = wire {
                wire.out.send(FromAgent::Ping);
                let mut beat = Heartbeat { running: self.list(), ..Heartbeat::default() };
                self.lie(&mut beat, wire);
                wire.out.send(FromAgent::Beat(Box::new(beat)));
            }
        }
        Ok(())
    }

    fn say(&self, wire: &Wire, job: JobId, attempt: u32, token: Option<String>, report: JobReport) {
        let attempt = Some(attempt);
        wire.out.send(FromAgent::Message(JobMessage { job, attempt, token, report }));
    }
}
