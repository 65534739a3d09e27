//! A world while it lives: instances of the real engine over one store, nodes and clients, all of one
//! thread and in virtual time.
//!
//! - `instances`: processes that come and go. `door`: their side of the connections, `told` what goes over those
//!   of clients.
//! - `agent`: nodes. `speaker`: clients.
//! - `acting`: doing and undoing a fault. `bodies`: what instances fetch from each other.

mod acting;
mod agent;
mod bodies;
mod door;
mod instances;
mod speaker;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lingua_core::time::millis;
use lingua_engine::chance::Chance;
use lingua_engine::tasks::{self, Host, Turns};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::canary::Canary;
use crate::dice::Dice;
use crate::plan::Plan;
use crate::record::{Record, Whose, Written};
use crate::store::{EPOCH_MS, Servers};
use crate::wire::Control;
use instances::Instance;

/// Instances begin one after the other, and everybody else after them.
const BETWEEN_STARTS: Duration = Duration::from_millis(20);
const NODES_BEGIN: Duration = Duration::from_millis(300);
const SPEAKERS_BEGIN: Duration = Duration::from_millis(1_500);

/// How long speakers may take to come to their end, beyond their patience.
const END_LIMIT: Duration = Duration::from_secs(140);

/// Where a world is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Faults happen.
    Trouble,
    /// All is healed, and comes to rest.
    Settle,
    /// All works.
    Quiet,
    /// Nothing more is begun.
    Stop,
}

/// A world.
pub(crate) struct World {
    plan: Plan,
    record: Arc<Record>,
    canary: Arc<Canary>,
    servers: Arc<Servers>,
    /// In which order everybody goes on.
    turns: Turns,
    began: Instant,
    phase: watch::Sender<Phase>,
    instances: Vec<Mutex<Instance>>,
    nodes: Vec<Mutex<Peer>>,
    speakers: Vec<Mutex<Peer>>,
    unique: AtomicU64,
    /// Speakers that have not come to their end.
    speaking: AtomicUsize,
}

/// The process of a node or a client.
#[derive(Default)]
struct Peer {
    host: Host,
    lives: usize,
    wire: Option<Arc<dyn Control>>,
    delay: Duration,
    held: bool,
}

/// What a world leaves behind.
pub(crate) struct Ended {
    pub written: Written,
    pub leaks: Vec<String>,
    /// Virtual time.
    pub lasted: Duration,
}

/// Lives through a plan. `keep` keeps the lines of the trace.
pub(crate) async fn live(plan: &Plan, keep: bool) -> Ended {
    let record = Arc::new(Record::new(plan.nodes.len(), plan.speakers.len(), keep));
    let fill = |count: usize| (0..count).map(|_| Mutex::new(Peer::default())).collect();
    let turns = Turns::new(Chance::seeded(Dice::of(plan.seed, "turns", 0).bits()));
    let world = Arc::new(World {
        turns: turns.clone(),
        record: Arc::clone(&record),
        canary: Arc::default(),
        servers: Arc::new(Servers::new()),
        began: Instant::now(),
        phase: watch::Sender::new(Phase::Trouble),
        instances: plan.instances.iter().map(|_| Mutex::default()).collect(),
        nodes: fill(plan.nodes.len()),
        speakers: fill(plan.speakers.len()),
        unique: AtomicU64::new(0),
        speaking: AtomicUsize::new(plan.speakers.len()),
        plan: plan.clone(),
    });
    let giver = tokio::spawn(turns.give());
    let course = Arc::clone(&world);
    let course = Host::taking_turns(&turns)
        .enter(|| tasks::spawn("course", async move { course.course().await }));
    // A course that panics is told by its panic.
    let _ = course.await;
    giver.abort();
    for instance in &world.instances {
        instance.lock().leave();
    }
    let leaks = world.canary.found();
    Ended { written: record.take(), leaks, lasted: world.began.elapsed() }
}

impl World {
    /// From the first instance to the last ending.
    async fn course(self: &Arc<Self>) {
        self.story("begin", json!({}));
        for number in 0..self.instances.len() {
            self.start(number, true);
            sleep(BETWEEN_STARTS).await;
        }
        sleep(NODES_BEGIN).await;
        for number in 0..self.nodes.len() {
            self.start_node(number);
        }
        sleep(SPEAKERS_BEGIN).await;
        for number in 0..self.speakers.len() {
            self.start_speaker(number);
        }
        for (id, planned) in self.plan.faults.iter().enumerate() {
            let at = self.began + Duration::from_millis(planned.at_ms);
            sleep_until(at).await;
            let (world, planned) = (Arc::clone(self), planned.clone());
            tasks::start(async move { world.befall(id, planned).await });
        }
        sleep_until(self.began + Duration::from_millis(self.plan.faults_end_ms)).await;
        // Drains and starts that are under way come to their end.
        self.all_back().await;
        self.phase.send_replace(Phase::Settle);
        sleep(Duration::from_millis(self.plan.settle_ms)).await;
        // A node that failed by itself may still be left alone.
        if self.plan.is_gentle() {
            self.story("quiet", json!({}));
        }
        self.phase.send_replace(Phase::Quiet);
        sleep(speaker::QUIET_TURN * (self.speakers.len() as u32 + 1)).await;
        self.story("stop", json!({}));
        self.phase.send_replace(Phase::Stop);
        let give_up_at = Instant::now() + END_LIMIT;
        while self.speaking.load(Ordering::Relaxed) > 0 && Instant::now() < give_up_at {
            sleep(Duration::from_millis(100)).await;
        }
        let all = self.speaking.load(Ordering::Relaxed) == 0;
        self.story("ended", json!({ "all": all }));
    }

    fn story(&self, event: &str, fields: serde_json::Value) {
        self.record.write(Whose::World, event, fields);
    }

    fn start_node(self: &Arc<Self>, number: usize) {
        let (host, life) = {
            let mut node = self.nodes[number].lock();
            node.host = Host::taking_turns(&self.turns);
            node.lives += 1;
            (node.host.clone(), node.lives)
        };
        let world = Arc::clone(self);
        host.enter(|| tasks::start(agent::live(world, number, life)));
    }

    fn start_speaker(self: &Arc<Self>, number: usize) {
        let (world, host) = (Arc::clone(self), Host::taking_turns(&self.turns));
        self.speakers[number].lock().host = host.clone();
        host.enter(|| {
            tasks::start(async move {
                speaker::live(Arc::clone(&world), number).await;
                world.speaking.fetch_sub(1, Ordering::Relaxed);
            });
        });
    }

    fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Faults happen, and nodes do what they should not.
    fn is_troubled(&self) -> bool {
        *self.phase.borrow() == Phase::Trouble
    }

    /// A moment that nothing else has.
    fn unique_us(&self) -> u64 {
        self.record.at_us() + self.unique.fetch_add(1, Ordering::Relaxed) % 1_000
    }

    /// The date, as clients have it.
    fn date_ms(&self) -> u64 {
        EPOCH_MS + millis(self.began.elapsed())
    }

    /// From the end of a sentence to its ending.
    fn deadline(&self) -> Duration {
        Duration::from_millis(self.settings().timing.deadline_ms)
    }

    fn node_wire(&self, number: usize, wire: Arc<dyn Control>) {
        self.nodes[number].lock().connected(wire);
    }

    fn speaker_wire(&self, number: usize, wire: Arc<dyn Control>) {
        self.speakers[number].lock().connected(wire);
    }
}

impl Peer {
    fn connected(&mut self, wire: Arc<dyn Control>) {
        if !self.delay.is_zero() {
            wire.delay(self.delay);
        }
        wire.hold(self.held);
        self.wire = Some(wire);
    }

    fn cut(&mut self) {
        if let Some(wire) = self.wire.take() {
            wire.cut();
        }
    }

    fn hold(&mut self, held: bool) {
        self.held = held;
        self.wire.iter().for_each(|wire| wire.hold(held));
    }

    fn delay(&mut self, by: Duration) {
        self.delay = by;
        self.wire.iter().for_each(|wire| wire.delay(by));
    }
}
