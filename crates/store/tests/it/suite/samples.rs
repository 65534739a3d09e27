//! The words that scenarios are told in: things of chance, and nodes that are ready for work.

use std::time::Duration;

use anyhow::{anyhow, bail};
use lingua_core::eligibility::Route;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_core::slots::Commit;
use lingua_core::{
    InstanceId, JobId, Lang, LeaseToken, ModelId, Moment, NodeId, SessionId, SessionKey, TenantId,
};
use lingua_store::bus::Envelope;
use lingua_store::jobs::{Assignment, NewJob};
use lingua_store::nodes::{Beat, Claim, NodeRecord, ProfileVersion, Put, Registration, Vitals};
use lingua_store::slots::{Report, Reserve, Wish};
use lingua_store::{Backend, Instance};

/// Longer than any test takes.
pub const LONG: Duration = Duration::from_secs(60);

/// A name that nobody else has.
pub fn chance() -> String {
    format!("x{:032x}", rand::random::<u128>())
}

pub fn node_id() -> NodeId {
    NodeId::new(chance()).expect("a checked alphabet")
}

pub fn model_id() -> ModelId {
    ModelId::new(chance()).expect("a checked alphabet")
}

pub fn tenant() -> TenantId {
    TenantId::new(chance()).expect("a checked alphabet")
}

pub fn instance() -> Instance {
    let id = InstanceId::new(chance()).expect("a checked alphabet");
    Instance { id, boot: rand::random() }
}

/// Another life of the same instance.
pub fn reborn(instance: &Instance) -> Instance {
    Instance { boot: instance.boot.wrapping_add(1), ..instance.clone() }
}

pub fn session() -> SessionKey {
    let session = SessionId::new(chance()).expect("a checked alphabet");
    SessionKey::new(tenant(), session)
}

pub fn job_of(session: &SessionKey) -> JobId {
    let lang = |tag| Lang::new(tag).expect("a language");
    JobKey {
        session,
        origin: Origin::Unnamed(rand::random()),
        job_type: "f2f",
        route: Route::Directed(lang("en"), lang("zh")),
        features: &[],
    }
    .job_id()
}

/// A job without a session actor that ends `LONG` from now.
pub fn new_job<'a>(id: JobId, session: &'a SessionKey) -> NewJob<'a> {
    NewJob { id, session, epoch: None, first: None, deadline_in: LONG, keep_for: LONG }
}

/// A token of a job of its own.
pub fn token() -> LeaseToken {
    token_of(job_of(&session()), 1)
}

pub fn tokens(number: usize) -> Vec<LeaseToken> {
    (0..number).map(|_| token()).collect()
}

pub fn token_of(job: JobId, attempt: u32) -> LeaseToken {
    LeaseToken { job, attempt, nonce: rand::random() }
}

/// An attempt of `job` on some node.
pub fn assignment(job: JobId, attempt: u32) -> Assignment {
    Assignment { node: node_id(), token: token_of(job, attempt) }
}

/// A node that speaks `tags` and declares `max_slots`.
pub fn profile(tags: &[&str], max_slots: u32) -> NodeProfile {
    let langs = tags.iter().map(|tag| Lang::new(tag).expect("a language"));
    let semantic = LangSet::new(langs).expect("a short list");
    let inventory = serde_json::json!({
        "models": [{ "id": "whisper", "version": "3", "kind": "asr", "langs": tags, "loaded": true }],
        "services": [{ "id": "your-tts", "kind": "tone", "status": "stopped" }],
        "features": [{ "name": "emotion_detection" }],
        "hardware": { "cpu_millis": 7_500, "gpus": [{ "name": "RTX", "memory_mb": 24_000 }] },
    });
    let declared = Declaration {
        tts: Some(semantic.clone()),
        semantic,
        max_slots,
        inventory: serde_json::from_value(inventory).expect("an inventory"),
        ..Default::default()
    };
    NodeProfile::from_declaration(declared).expect("a complete declaration")
}

pub fn vitals(max: u32) -> Vitals {
    Vitals { max, health: Health::Ready, overloaded: false, fresh_for: LONG }
}

/// A new node, ready, with `max` open slots.
pub fn registration(max: u32) -> Registration {
    Registration {
        claim: Claim::Newest,
        owner: instance(),
        profile: profile(&["en", "zh"], 8),
        vitals: vitals(max),
        known: false,
    }
}

pub fn envelope(body: &str) -> Envelope {
    let body = body.as_bytes().to_vec();
    Envelope { id: rand::random(), from: instance(), body, live_for: LONG }
}

/// A node in the store, as its owner knows it.
#[derive(Clone, Debug)]
pub struct TestNode {
    pub id: NodeId,
    pub epoch: u64,
    pub version: ProfileVersion,
    pub registration: Registration,
}

impl TestNode {
    /// A new node, ready, with `max` open slots.
    pub async fn ready(store: &Backend, max: u32) -> anyhow::Result<Self> {
        Self::put(store, node_id(), registration(max)).await
    }

    /// A node that was known before and that the store has no record of: it lost its data.
    pub async fn lost(store: &Backend, max: u32) -> anyhow::Result<Self> {
        Self::put(store, node_id(), Registration { known: true, ..registration(max) }).await
    }

    /// Writes the record; the answer must be that it is stored.
    pub async fn put(
        store: &Backend,
        id: NodeId,
        registration: Registration,
    ) -> anyhow::Result<Self> {
        let epoch = match store.nodes.put(&id, &registration).await? {
            Put::Stored { epoch, .. } => epoch,
            put => bail!("not stored: {put:?}"),
        };
        let version = ProfileVersion::of(&registration.profile);
        Ok(TestNode { id, epoch, version, registration })
    }

    /// The node connects to another instance.
    pub async fn taken_over(&self, store: &Backend) -> anyhow::Result<Self> {
        let registration =
            Registration { claim: Claim::Newest, owner: instance(), ..self.registration.clone() };
        Self::put(store, self.id.clone(), registration).await
    }

    pub fn wish(&self, token: LeaseToken) -> Wish<'_> {
        Wish { node: &self.id, token, version: self.version, models: &[], lease: LONG }
    }

    pub fn beat(&self, vitals: Vitals) -> Beat {
        Beat { epoch: self.epoch, version: self.version, vitals }
    }

    /// What the node runs, with long leases and holds and no grace.
    pub fn report<'a>(&self, running: &'a [LeaseToken]) -> Report<'a> {
        Report {
            epoch: self.epoch,
            running: Some(running),
            lease: LONG,
            grace: Duration::from_millis(1),
            reserve_lease: LONG,
            quarantine: LONG,
        }
    }

    /// Reserves a slot that must be free.
    pub async fn reserve(
        &self,
        store: &Backend,
        token: LeaseToken,
        lease: Duration,
    ) -> anyhow::Result<Moment> {
        match store.slots.reserve(&Wish { lease, ..self.wish(token) }).await? {
            Reserve::Granted { until, .. } => Ok(until),
            reserve => bail!("not granted: {reserve:?}"),
        }
    }

    /// Reserves a slot that must be free, and acks.
    pub async fn run(
        &self,
        store: &Backend,
        token: LeaseToken,
        lease: Duration,
    ) -> anyhow::Result<Moment> {
        self.reserve(store, token, LONG).await?;
        match store.slots.commit(&self.id, token, lease).await? {
            Commit::Committed(until) => Ok(until),
            commit => bail!("not committed: {commit:?}"),
        }
    }

    /// Slots reserved and running.
    pub async fn usage(&self, store: &Backend) -> anyhow::Result<(u32, u32)> {
        let usage = store.slots.usage(&self.id).await?;
        Ok((usage.reserved, usage.running))
    }

    /// The record, apart from the time of reading it.
    pub async fn record(&self, store: &Backend) -> anyhow::Result<NodeRecord> {
        let record = store.nodes.get(&self.id).await?.ok_or_else(|| anyhow!("no record"))?;
        Ok(NodeRecord { read_at: Moment::ZERO, ..record })
    }

    /// The store's time.
    pub async fn now(&self, store: &Backend) -> anyhow::Result<Moment> {
        Ok(store.nodes.get(&self.id).await?.ok_or_else(|| anyhow!("no record"))?.read_at)
    }
}

/// Checks that a moment given between `before` and `after` lies `later` after its giving.
pub fn assert_lasts(given: Moment, before: Moment, later: Duration, after: Moment) {
    assert!(
        (before + later..=after + later).contains(&given),
        "{given:?} is not {later:?} after a moment from {before:?} to {after:?}"
    );
}
