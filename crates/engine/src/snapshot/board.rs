//! The tasks around the snapshot, and what readers hold on to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::NodeId;
use lingua_store::Instance;
use lingua_store::history::Series;
use lingua_store::leaders::Task;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::findings;
use super::merge::{Fleet, Maker, merge, of_living};
use super::minutes::{self, Day, Minute};
use super::node_history::{NodeHistory, NodePoint};
use super::part::{Part, troubled_of};
use super::view::{Point, Severity, Snapshot, Stats};
use crate::jobs::Dispatcher;
use crate::leader::{Leader, Mandate};
use crate::metrics::Counters;
use crate::nodes::Nodes;
use crate::pairs::{pair_views, serves_now};
use crate::sessions::Sessions;
use crate::shared::Shared;

/// Points kept: half an hour of one every five seconds.
const HISTORY: usize = 360;

/// A snapshot that is older than this when an instance starts is of another life.
const ANOTHER_LIFE_MS: u64 = 60_000;

/// How everything stands, for however many readers.
pub struct Board {
    pub(super) shared: Arc<Shared>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) jobs: Arc<Dispatcher>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) leader: Arc<Leader>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) started_ms: u64,
    pub(super) address: OnceLock<String>,
    pub(super) counted: Mutex<(Instant, Counters)>,
    kept: Mutex<Kept>,
    day: Mutex<Day>,
    pub(super) node_history: NodeHistory,
    frame: watch::Sender<Frame>,
    /// Something changed that should be told before its time.
    nudge: Notify,
}

#[derive(Default)]
struct Kept {
    last: Option<(Arc<Snapshot>, Instant)>,
    /// One that is of another life, as long as no other comes.
    ignored: Option<(u64, u64)>,
    history: VecDeque<Point>,
}

/// What readers are told: written once, shared by all.
#[derive(Clone, Debug)]
pub struct Frame {
    /// How everything stands.
    pub stats: Arc<Stats>,
    /// The same as JSON.
    pub json: Bytes,
}

impl Board {
    pub(crate) fn new(
        shared: Arc<Shared>,
        nodes: Arc<Nodes>,
        jobs: Arc<Dispatcher>,
        sessions: Arc<Sessions>,
        leader: Arc<Leader>,
        draining: Arc<AtomicBool>,
    ) -> Arc<Self> {
        let stats = Arc::new(stats(&shared, None, false, false));
        let json = render(&stats);
        Arc::new(Board {
            started_ms: shared.clock.now().as_millis(),
            counted: Mutex::new((Instant::now(), shared.metrics.counters())),
            frame: watch::Sender::new(Frame { stats, json }),
            address: OnceLock::new(),
            kept: Mutex::default(),
            day: Mutex::default(),
            node_history: NodeHistory::default(),
            nudge: Notify::new(),
            shared,
            nodes,
            jobs,
            sessions,
            leader,
            draining,
        })
    }

    /// How everything stands now, and every change of it.
    pub fn frames(&self) -> watch::Receiver<Frame> {
        self.frame.subscribe()
    }

    /// How everything stands now.
    pub fn frame(&self) -> Frame {
        self.frame.borrow().clone()
    }

    /// The last half an hour, the oldest point first.
    pub fn history(&self) -> Vec<Point> {
        self.kept.lock().history.iter().cloned().collect()
    }

    /// The last day by the minute, the oldest point first.
    pub fn day(&self) -> Vec<Point> {
        self.day.lock().points()
    }

    /// What a node did by the minute, as this instance saw it, the oldest first.
    pub fn node_history(&self, id: &NodeId) -> Vec<NodePoint> {
        self.node_history.of(id)
    }

    pub(crate) fn set_address(&self, address: &str) {
        let _ = self.address.set(address.to_owned());
        self.nudge.notify_one();
    }

    /// Tells at once that this instance is on its way out.
    pub(crate) fn drain(&self) {
        self.nudge.notify_one();
        self.tell();
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.shared.settings.snapshot_ms)
    }

    /// Until the next moment that all instances have in common, give or take their clocks, and so
    /// much later.
    fn until_next(&self, later: Duration) -> Duration {
        let every = self.interval().as_millis() as u64;
        let now = self.shared.clock.now().as_millis();
        let past = (now + every - later.as_millis() as u64 % every) % every;
        Duration::from_millis(every - past)
    }

    /// Runs until the engine ends: says what this instance counted.
    pub(crate) async fn say(self: Arc<Self>) {
        loop {
            let part = self.part().await;
            let text = serde_json::to_vec(&part).expect("a part has only string keys");
            let (store, me) = (&self.shared.store, &self.shared.instance);
            let ttl = findings::OLD * self.interval();
            if let Err(error) = store.snapshots.post_part(me, &text, ttl).await {
                tracing::debug!(%error, "what was counted is told later");
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(self.until_next(Duration::ZERO)) => {}
                () = self.nudge.notified() => {}
            }
        }
    }

    /// Runs for as long as this instance leads: puts all parts together.
    pub(crate) async fn aggregate(self: Arc<Self>, mandate: Mandate) {
        let store = &self.shared.store;
        let before = store.snapshots.published(Task::Snapshot).await.ok().flatten();
        let mut before: Option<Snapshot> =
            before.and_then(|text| serde_json::from_slice(&text).ok());
        // One that was made a moment ago holds these parts already.
        let just_made = before.as_ref().is_some_and(|before| {
            let age = self.shared.clock.now().as_millis().saturating_sub(before.at_ms);
            age < self.shared.settings.snapshot_ms
        });
        if just_made {
            tokio::time::sleep(self.until_next(self.interval() / 5)).await;
        }
        let mut minute = Minute::default();
        loop {
            match self.put_together(&mandate, before.as_ref(), &mut minute).await {
                Ok(snapshot) => before = Some(snapshot),
                Err(error) => tracing::debug!(%error, "the snapshot is made later"),
            }
            // A fifth later than the parts are told, so that each is read once.
            tokio::time::sleep(self.until_next(self.interval() / 5)).await;
        }
    }

    async fn put_together(
        &self,
        mandate: &Mandate,
        before: Option<&Snapshot>,
        minute: &mut Minute,
    ) -> lingua_store::Result<Snapshot> {
        let store = &self.shared.store;
        let parts = store.snapshots.parts().await?;
        // One of a later version that cannot be read is left out.
        let parts = parts.iter().filter_map(|part| serde_json::from_slice(part).ok());
        let parts: Vec<Part> = parts.collect();
        let peers = store.presence.peers().await?;
        let mut living: Vec<&Instance> = peers.iter().map(|peer| &peer.instance).collect();
        living.push(&self.shared.instance);
        let parts = of_living(parts, &living);
        let maker = Maker {
            at_ms: self.shared.clock.now().as_millis(),
            fence: mandate.fence,
            leader: self.shared.instance.id.to_string(),
            interval_ms: self.shared.settings.snapshot_ms,
        };
        let connected = parts.iter().map(|part| part.connected).fold(0, u64::saturating_add);
        self.shared.usage.people(self.shared.today(), connected);
        let pairs = pair_views(&self.shared.fleet, &self.jobs);
        let serves = serves_now(&self.shared.fleet);
        let fleet = Fleet { pairs: &pairs, serves: &serves };
        let mut snapshot = merge(maker, &parts, &fleet, before);
        let mut lately = self.minute(snapshot.at_ms);
        lately.push(Point::of(&snapshot));
        snapshot.findings = findings::of_all(&snapshot, &lately, &troubled_of(&parts));
        let text = serde_json::to_vec(&snapshot).expect("a snapshot has only string keys");
        store.snapshots.publish(Task::Snapshot, mandate.fence, &text).await?;
        self.accept(snapshot.clone());
        minute.add(&parts, &snapshot);
        minutes::write(minute, &*store.history).await;
        Ok(snapshot)
    }

    fn minute(&self, at_ms: u64) -> Vec<Point> {
        let kept = self.kept.lock();
        let lately = |point: &&Point| point.at_ms + 60_000 > at_ms;
        kept.history.iter().filter(lately).cloned().collect()
    }

    /// Runs until the engine ends: reads what the leader published, and tells readers.
    pub(crate) async fn read(self: Arc<Self>) {
        let mut tick = tokio::time::interval(self.interval() * 2 / 5);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut status = self.shared.store.status.clone();
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => {}
                changed = status.changed() => match changed {
                    Ok(()) => self.tell(),
                    Err(_) => return,
                },
            }
            // Whoever makes it has it.
            if self.leader.fence(Task::Snapshot).is_none()
                && status.borrow().is_up()
                && let Ok(Some(text)) = self.shared.store.snapshots.published(Task::Snapshot).await
                && let Ok(snapshot) = serde_json::from_slice(&text)
            {
                self.accept(snapshot);
            }
            if status.borrow().is_up() {
                self.read_day().await;
            }
            if self.is_stale() != self.frame.borrow().stats.stale {
                self.tell();
            }
        }
    }

    /// Reads what is new of the last day, once a minute.
    async fn read_day(&self) {
        let now_ms = self.shared.clock.now().as_millis();
        let Some(count) = self.day.lock().wants(now_ms) else { return };
        if let Ok(read) = self.shared.store.history.last(&Series::snapshots(), count).await {
            self.day.lock().add(now_ms, &read);
        }
    }

    fn is_stale(&self) -> bool {
        let kept = self.kept.lock();
        let last = kept.last.as_ref().map(|(_, at)| *at);
        last.is_some_and(|at| at.elapsed() > findings::OLD * self.interval())
    }

    /// Takes over a snapshot that is newer than the last.
    fn accept(&self, snapshot: Snapshot) {
        {
            let mut kept = self.kept.lock();
            let stamp = (snapshot.fence, snapshot.at_ms);
            let known = kept.last.as_ref().map(|(last, _)| (last.fence, last.at_ms));
            if known.is_some_and(|known| stamp <= known) || kept.ignored == Some(stamp) {
                return;
            }
            let now = self.shared.clock.now().as_millis();
            if known.is_none() && kept.ignored.is_none() && snapshot.at_ms + ANOTHER_LIFE_MS < now {
                kept.ignored = Some(stamp);
                return;
            }
            if kept.history.len() >= HISTORY {
                kept.history.pop_front();
            }
            kept.history.push_back(Point::of(&snapshot));
            kept.last = Some((Arc::new(snapshot), Instant::now()));
        }
        self.tell();
    }

    /// Writes down how everything stands, once for all readers.
    fn tell(&self) {
        let (stale, last) = (self.is_stale(), self.kept.lock().last.clone());
        let draining = self.draining.load(Ordering::Relaxed);
        let stats = stats(&self.shared, last.map(|(last, _)| last), stale, draining);
        let json = render(&stats);
        self.frame.send_replace(Frame { stats: Arc::new(stats), json });
    }
}

fn stats(shared: &Shared, last: Option<Arc<Snapshot>>, stale: bool, draining: bool) -> Stats {
    let mut stats = Stats {
        now_ms: shared.clock.now().as_millis(),
        instance: shared.instance.id.to_string(),
        store: shared.store.description.to_string(),
        store_up: shared.store.status.borrow().is_up(),
        stale,
        health: Severity::Ok,
        findings: Vec::new(),
        snapshot: last.map(|last| (*last).clone()),
    };
    stats.findings = findings::of_one(&stats, draining);
    let of_all = stats.snapshot.iter().flat_map(|snapshot| snapshot.findings.clone());
    stats.findings.extend(of_all.collect::<Vec<_>>());
    stats.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    stats.health = stats.findings.first().map_or(Severity::Ok, |worst| worst.severity);
    stats
}

fn render(stats: &Stats) -> Bytes {
    serde_json::to_vec(stats).expect("stats have only string keys").into()
}
