//! The life of a job on a store: create, reserve, commit, finish.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use lingua_core::eligibility::Route;
use lingua_core::job::JobState;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_core::slots::Commit;
use lingua_core::{InstanceId, Lang, LeaseToken, NodeId, SessionId, SessionKey, TenantId};
use lingua_store::jobs::{Assignment, Create, EndedBy, Ending, Finish, NewJob};
use lingua_store::nodes::{Beat, Claim, ProfileVersion, Put, Registration, Vitals};
use lingua_store::redis::ceiling::Ceiling;
use lingua_store::slots::{HeldSlot, Reserve, Wish};
use lingua_store::{Backend, Instance};
use rand::RngExt;
use tokio::time::Instant;

/// Store steps of one life; a store may take two of them together.
pub(crate) const CALLS: u32 = 5;

const NODES: usize = 64;
const SLOTS: u32 = 128;
const LEASE: Duration = Duration::from_secs(15);

const KEEP: Duration = Duration::from_millis(1);

/// Lives of one worker before it lets the others have a turn: about a millisecond on the embedded
/// store, so that the turns cost nothing beside the lives and the heartbeats still come in time.
const TURN: u64 = 1024;

/// The deadline of a job on Redis, as a scheduler sets it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(75);

/// The deadline on the embedded store, which ends more jobs in a second than a fleet does in an hour:
/// their records are forgotten soon, so that the store is measured and not a memory full of them.
pub(crate) const SHORT_DEADLINE: Duration = Duration::from_millis(100);

/// What one measurement gave.
pub(crate) struct Measured {
    pub(crate) lives: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latency: Histogram<u64>,
}

impl Measured {
    pub(crate) fn lives_per_second(&self) -> f64 {
        self.lives as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds below which this share of the lives stayed.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// A fleet on a store, ready to be given jobs.
pub(crate) struct Fleet {
    store: Backend,
    nodes: Vec<NodeId>,
    epochs: Vec<u64>,
    version: ProfileVersion,
    vitals: Vitals,
    session: SessionKey,
    route: Route,
    deadline: Duration,
}

impl Fleet {
    pub(crate) async fn register(store: Backend, deadline: Duration) -> anyhow::Result<Self> {
        let (en, zh) = (Lang::new("en")?, Lang::new("zh")?);
        let declared = Declaration {
            semantic: LangSet::new([en, zh])?,
            max_slots: SLOTS,
            ..Default::default()
        };
        let profile = NodeProfile::from_declaration(declared)?;
        let owner = Instance { id: InstanceId::new("bench")?, boot: rand::rng().random() };
        let fresh_for = Duration::from_secs(3600);
        let vitals = Vitals { max: SLOTS, health: Health::Ready, overloaded: false, fresh_for };
        let mut fleet = Fleet {
            store,
            nodes: Vec::new(),
            epochs: Vec::new(),
            version: ProfileVersion::of(&profile),
            vitals,
            session: SessionKey::new(TenantId::new("bench")?, SessionId::new("bench")?),
            route: Route::Directed(en, zh),
            deadline,
        };
        let registration =
            Registration { claim: Claim::Newest, owner, profile, vitals, known: false };
        for i in 0..NODES {
            let node = NodeId::new(format!("bench-{:08x}-{i}", rand::rng().random::<u32>()))?;
            match fleet.store.nodes.put(&node, &registration).await? {
                Put::Stored { epoch, .. } => fleet.epochs.push(epoch),
                other => bail!("a bench node was not registered: {other:?}"),
            }
            fleet.nodes.push(node);
        }
        Ok(fleet)
    }

    /// Takes the nodes back out of the store.
    pub(crate) async fn leave(&self) -> anyhow::Result<()> {
        for (node, epoch) in self.nodes.iter().zip(&self.epochs) {
            self.store.nodes.offline(node, *epoch).await?;
        }
        Ok(())
    }

    /// Runs lives for `time`, `in_flight` of them at once, with the heartbeats a fleet has.
    pub(crate) async fn measure(&self, in_flight: u32, time: Duration) -> anyhow::Result<Measured> {
        let stop = AtomicBool::new(false);
        let lives = async {
            let measured = repeat(in_flight, time, |number, began| self.life(number, began)).await;
            stop.store(true, Ordering::Relaxed);
            measured
        };
        let (measured, beats) = tokio::join!(lives, self.beat_until(&stop));
        beats?;
        measured
    }

    async fn beat_until(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            for (node, epoch) in self.nodes.iter().zip(&self.epochs) {
                let beat = Beat { epoch: *epoch, version: self.version, vitals: self.vitals };
                self.store.nodes.beat(node, &beat).await?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// One life, in the order and with the concurrency of a dispatch: what does not wait for each
    /// other goes out together.
    async fn life(&self, number: u64, began: Instant) -> anyhow::Result<()> {
        let nonce: u128 = rand::rng().random();
        let node = &self.nodes[number as usize % self.nodes.len()];
        let job = JobKey {
            session: &self.session,
            origin: Origin::Unnamed(nonce),
            job_type: "bench",
            route: self.route,
            features: &[],
        }
        .job_id();
        let token = LeaseToken { job, attempt: 1, nonce };
        let new = NewJob {
            id: job,
            session: &self.session,
            epoch: None,
            first: Some(Assignment { node: node.clone(), token }),
            deadline_in: self.deadline,
            keep_for: KEEP,
        };
        let wish = Wish { node, token, version: self.version, models: &[], lease: LEASE };
        let slots = &*self.store.slots;
        let (created, reserved) = self.store.jobs.begin(&new, slots, &wish).await;
        let Create::Created = created? else { bail!("a bench job was there already") };
        let granted = match reserved? {
            Reserve::Granted { until, .. } => until - LEASE,
            other => bail!("a bench job got no slot: {other:?}"),
        };
        let committed = self.store.slots.commit(node, token, LEASE).await?;
        let Commit::Committed(_) = committed else {
            bail!("a bench job lost its slot: {committed:?}")
        };
        let by = EndedBy::Assignment(new.first.context("it was assigned above")?);
        let done = Ending { state: JobState::Done, code: String::new() };
        let slot = HeldSlot { node, token, granted: Some(granted) };
        let (finished, released) = self.store.jobs.end(&job, &by, &done, slots, &slot).await;
        match (released?, finished?) {
            ((), Finish::Finished) => Ok(()),
            // Other work kept this process from running for so long that the record was forgotten.
            ((), Finish::Unknown) if began.elapsed() > self.deadline => Ok(()),
            other => bail!("a bench job did not end well: {other:?}"),
        }
    }
}

/// Runs the cheapest lives for `time`, `in_flight` of them at once.
pub(crate) async fn measure_ceiling(
    ceiling: &Ceiling,
    in_flight: u32,
    time: Duration,
) -> anyhow::Result<Measured> {
    repeat(in_flight, time, |number, _| {
        let mut ceiling = ceiling.clone();
        async move {
            let token = format!("{:052x}", rand::rng().random::<u128>());
            Ok(ceiling.life(number as usize % NODES, &token).await?)
        }
    })
    .await
}

async fn repeat<F, W>(in_flight: u32, time: Duration, work: F) -> anyhow::Result<Measured>
where
    F: Fn(u64, Instant) -> W,
    W: Future<Output = anyhow::Result<()>>,
{
    let started = Instant::now();
    let end = started + time;
    // One for all of them: a histogram is larger than a cache.
    let latency = RefCell::new(Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?);
    let workers = (0..in_flight).map(|worker| {
        let (work, latency) = (&work, &latency);
        async move {
            let mut number = u64::from(worker);
            let mut before = Instant::now();
            for done in 1_u64.. {
                if before >= end {
                    break;
                }
                work(number, before).await?;
                let now = Instant::now();
                latency.borrow_mut().saturating_record((now - before).as_nanos() as u64);
                number += u64::from(in_flight);
                before = now;
                // The embedded store never waits; the others must get their turn all the same.
                if done % TURN == 0 {
                    tokio::task::yield_now().await;
                    before = Instant::now();
                }
            }
            anyhow::Ok(())
        }
    });
    try_join_all(workers).await.context("a life did not end")?;
    let latency = latency.into_inner();
    Ok(Measured { lives: latency.len(), elapsed: started.elapsed(), latency })
}
