//! The tasks around the snapshot, and what readers hold on to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::node::Health as NodeHealth;
use lingua_store::Instance;
use lingua_store::owners::Task;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::findings;
use super::merge::{Fleet, Maker, merge, of_living};
use super::part::{Counters, MAX_LINES, MAX_VAIN, Part, since};
use super::view::{InstanceView, NodeCounts, Point, Severity, Snapshot, Stats, Vain};
use crate::dispatch::Dispatcher;
use crate::explain::{pair_views, serves_now};
use crate::leader::{Leader, Mandate};
use crate::nodes::{BreakerView, Nodes, Order};
use crate::sessions::Sessions;
use crate::shared::Shared;

/// Points kept: half an hour of one every five seconds.
const HISTORY: usize = 360;

/// A snapshot that is older than this when an instance starts is of another life.
const ANOTHER_LIFE_MS: u64 = 60_000;

/// How everything stands, for however many readers.
pub struct Board {
    shared: Arc<Shared>,
    nodes: Arc<Nodes>,
    jobs: Arc<Dispatcher>,
    sessions: Arc<Sessions>,
    leader: Arc<Leader>,
    draining: Arc<AtomicBool>,
    started_ms: u64,
    address: OnceLock<String>,
    counted: Mutex<(Instant, Counters)>,
    kept: Mutex<Kept>,
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
            let (bus, me) = (&self.shared.store.bus, &self.shared.instance);
            if let Err(error) = bus.post_part(me, &text, findings::OLD * self.interval()).await {
                tracing::debug!(%error, "what was counted is told later");
            }
            tokio::select! {
                () = tokio::time::sleep(self.until_next(Duration::ZERO)) => {}
                () = self.nudge.notified() => {}
            }
        }
    }

    /// Runs for as long as this instance leads: puts all parts together.
    pub(crate) async fn aggregate(self: Arc<Self>, mandate: Mandate) {
        let store = &self.shared.store;
        let before = store.owners.published(Task::Snapshot).await.ok().flatten();
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
        loop {
            match self.put_together(&mandate, before.as_ref()).await {
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
    ) -> lingua_store::Result<Snapshot> {
        let store = &self.shared.store;
        let parts = store.bus.parts().await?;
        // One of a later version that cannot be read is left out.
        let parts = parts.iter().filter_map(|part| serde_json::from_slice(part).ok());
        let parts: Vec<Part> = parts.collect();
        let peers = store.bus.peers().await?;
        let mut living: Vec<&Instance> = peers.iter().map(|peer| &peer.instance).collect();
        living.push(&self.shared.instance);
        let parts = of_living(parts, &living);
        let maker = Maker {
            at_ms: self.shared.clock.now().as_millis(),
            fence: mandate.fence,
            leader: self.shared.instance.id.to_string(),
            interval_ms: self.shared.settings.snapshot_ms,
        };
        let pairs = pair_views(&self.shared.fleet, &self.jobs);
        let serves = serves_now(&self.shared.fleet);
        let fleet = Fleet { pairs: &pairs, serves: &serves };
        let mut snapshot = merge(maker, &parts, &fleet, before);
        let mut minute = self.minute(snapshot.at_ms);
        minute.push(Point::of(&snapshot));
        snapshot.findings = findings::of_all(&snapshot, &minute);
        let text = serde_json::to_vec(&snapshot).expect("a snapshot has only string keys");
        store.owners.publish(Task::Snapshot, mandate.fence, &text).await?;
        self.accept(snapshot.clone());
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
                _ = tick.tick() => {}
                changed = status.changed() => match changed {
                    Ok(()) => self.tell(),
                    Err(_) => return,
                },
            }
            // Whoever makes it has it.
            if self.leader.fence(Task::Snapshot).is_none()
                && status.borrow().is_up()
                && let Ok(Some(text)) = self.shared.store.owners.published(Task::Snapshot).await
                && let Ok(snapshot) = serde_json::from_slice(&text)
            {
                self.accept(snapshot);
            }
            if self.is_stale() != self.frame.borrow().stats.stale {
                self.tell();
            }
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

    /// What this instance counted since the last time, and how it stands.
    async fn part(&self) -> Part {
        let shared = &self.shared;
        let inbox = shared.store.bus.depth(&shared.instance).await;
        if let Ok(envelopes) = inbox {
            shared.metrics.set_inbox(envelopes);
        }
        let counters = shared.metrics.counters();
        let (began, before) = {
            let mut counted = self.counted.lock();
            std::mem::replace(&mut *counted, (Instant::now(), counters.clone()))
        };
        let nodes = self.count_nodes();
        shared.metrics.set_counts(&nodes);
        let mut lines = self.jobs.lines();
        lines.truncate(MAX_LINES);
        let unmet = self.jobs.unmet().into_iter().take(MAX_VAIN);
        let vain = |(route, tts): (lingua_core::eligibility::Route, bool)| Vain {
            direction: route.to_string(),
            tts,
            served: false,
        };
        let (sessions, connected) = self.sessions.counts();
        let leads = Task::ALL.into_iter().filter(|task| self.leader.fence(*task).is_some());
        Part {
            instance: InstanceView {
                id: shared.instance.id.to_string(),
                boot: InstanceView::boot_of(&shared.instance),
                address: self.address.get().cloned().unwrap_or_default(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_ms: self.started_ms,
                last_seen_ms: shared.clock.now().as_millis(),
                draining: self.draining.load(Ordering::Relaxed),
                missing: false,
                nodes: nodes.total,
                sessions,
                open_jobs: shared.metrics.open_jobs.get().max(0) as u64,
                waiting: shared.metrics.waiting.get().max(0) as u64,
                inbox: inbox.unwrap_or(0) as u64,
                leads: leads.map(|task| task.as_str().to_owned()).collect(),
            },
            interval_ms: (began.elapsed().as_millis() as u64).max(1),
            ended: since(&counters.ended, &before.ended),
            endings: since(&counters.endings, &before.endings),
            retries: counters.retries.saturating_sub(before.retries),
            dispatch: counters.dispatch.since(&before.dispatch),
            job: counters.job.since(&before.job),
            sentence: counters.sentence.since(&before.sentence),
            ended_total: counters.ended,
            connected,
            nodes,
            lines,
            unmet: unmet.map(vain).collect(),
            failures: shared.failures.latest(),
        }
    }

    /// The nodes whose connection this instance has.
    fn count_nodes(&self) -> NodeCounts {
        let mut counts = NodeCounts::default();
        let now = Instant::now();
        for node in self.nodes.all() {
            let (health, open) = {
                let inner = node.lock();
                if inner.elsewhere.is_some() {
                    continue;
                }
                let here = inner.link.is_some();
                counts.total += 1;
                let breaker = BreakerView::of(inner.breaker.state(), now);
                counts.breaker_open += u64::from(here && breaker != BreakerView::Closed);
                counts.overdue += u64::from(here && inner.fresh_until <= now);
                counts.overloaded += u64::from(here && inner.overload.is_overloaded());
                counts.ordered += u64::from(inner.order != Order::Serve);
                (if here { inner.health() } else { NodeHealth::Offline }, inner.open_slots())
            };
            match health {
                NodeHealth::Ready => {
                    counts.ready += 1;
                    counts.slots += u64::from(open);
                    counts.used += u64::from(self.shared.fleet.used(&node.id));
                }
                NodeHealth::Registering => counts.registering += 1,
                NodeHealth::Degraded => counts.degraded += 1,
                NodeHealth::Draining => counts.draining += 1,
                NodeHealth::Offline => counts.offline += 1,
            }
        }
        counts
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
