//! What the tests of faults share: nodes that count what they run, load, and patience.

#![allow(dead_code, reason = "every test binary uses its own part of it")]

pub mod load;
pub mod lua;
pub mod switch;

use std::time::Duration;

use anyhow::bail;
use lingua_core::eligibility::Route;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_core::slots::{Commit, Confirmed};
use lingua_core::{
    InstanceId, JobId, Lang, LeaseToken, Moment, NodeId, SessionId, SessionKey, TenantId,
};
use lingua_store::nodes::{Beat, BeatReply, Claim, ProfileVersion, Put, Registration, Vitals};
use lingua_store::redis::Options;
use lingua_store::slots::{Confirm, Refusal, Report, Reserve, Wish};
use lingua_store::{Backend, Error, Instance, Status};
use tokio::time::{Instant, sleep};

/// How a test ends.
pub type Outcome = anyhow::Result<()>;

/// Longer than any test takes.
pub const LONG: Duration = Duration::from_secs(60);

/// What a busy machine may need for anything that is not a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Grants are held for so long after a report, and grants in the tests live for so long.
pub const HOLD: Duration = Duration::from_millis(800);

pub const UNCONFIRMED: Reserve = Reserve::Refused(Refusal::Unconfirmed);

/// A machine that compiles something else meanwhile must not turn answers into unknowns.
pub fn patient() -> Options {
    Options {
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(5),
        ..Options::default()
    }
}

pub async fn open(url: &str) -> anyhow::Result<Backend> {
    Ok(lingua_store::redis::open(url, patient()).await?)
}

/// A name that nobody else has.
pub fn chance() -> String {
    format!("x{:032x}", rand::random::<u128>())
}

pub fn node_id() -> NodeId {
    NodeId::new(chance()).expect("a checked alphabet")
}

pub fn instance() -> Instance {
    Instance { id: InstanceId::new(chance()).expect("a checked alphabet"), boot: rand::random() }
}

pub fn session() -> SessionKey {
    SessionKey::new(
        TenantId::new(chance()).expect("a checked alphabet"),
        SessionId::new(chance()).expect("a checked alphabet"),
    )
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

pub fn token() -> LeaseToken {
    LeaseToken { job: job_of(&session()), attempt: 1, nonce: rand::random() }
}

pub fn profile(max_slots: u32) -> NodeProfile {
    let langs = ["en", "zh"].map(|tag| Lang::new(tag).expect("a language"));
    let semantic = LangSet::new(langs).expect("a short list");
    let declared =
        Declaration { tts: Some(semantic.clone()), semantic, max_slots, ..Declaration::default() };
    NodeProfile::from_declaration(declared).expect("a complete declaration")
}

/// A node as the instance knows it that holds its connection.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub max: u32,
    pub epoch: u64,
    pub version: ProfileVersion,
    registration: Registration,
}

impl Node {
    /// A node that was never there before registers.
    pub async fn join(store: &Backend, max: u32) -> anyhow::Result<Self> {
        Self::join_as(store, node_id(), profile(8), max).await
    }

    pub async fn join_as(
        store: &Backend,
        id: NodeId,
        profile: NodeProfile,
        max: u32,
    ) -> anyhow::Result<Self> {
        let version = ProfileVersion::of(&profile);
        let vitals = Vitals { max, health: Health::Ready, overloaded: false, fresh_for: LONG };
        let registration =
            Registration { claim: Claim::Newest, owner: instance(), profile, vitals, known: false };
        match store.nodes.put(&id, &registration).await? {
            Put::Stored { epoch, .. } => Ok(Node { id, max, epoch, version, registration }),
            put => bail!("not stored: {put:?}"),
        }
    }

    /// A node that counts as alive for a millisecond.
    pub async fn join_brief(store: &Backend) -> anyhow::Result<NodeId> {
        let node = Self::join(store, 1).await?;
        let brief = Vitals { fresh_for: Duration::from_millis(1), ..node.registration.vitals };
        let beat = Beat { epoch: node.epoch, version: node.version, vitals: brief };
        store.nodes.beat(&node.id, &beat).await?;
        Ok(node.id)
    }

    /// Its owner writes the record again after the store came back.
    pub async fn assert_again(&self, store: &Backend) -> lingua_store::Result<Put> {
        let claim = Claim::Again(self.epoch);
        let again = Registration { claim, known: true, ..self.registration.clone() };
        store.nodes.put(&self.id, &again).await
    }

    pub async fn beat(&self, store: &Backend) -> lingua_store::Result<BeatReply> {
        let vitals = self.registration.vitals;
        let beat = Beat { epoch: self.epoch, version: self.version, vitals };
        store.nodes.beat(&self.id, &beat).await
    }

    /// Asks for a slot for so long.
    pub async fn ask(
        &self,
        store: &Backend,
        token: LeaseToken,
        lease: Duration,
    ) -> lingua_store::Result<Reserve> {
        let wish = Wish { node: &self.id, token, version: self.version, models: &[], lease };
        store.slots.reserve(&wish).await
    }

    /// Takes a slot that must be free.
    pub async fn reserve(&self, store: &Backend, token: LeaseToken) -> anyhow::Result<()> {
        match self.ask(store, token, LONG).await? {
            Reserve::Granted { .. } => Ok(()),
            reserve => bail!("not granted: {reserve:?}"),
        }
    }

    /// Takes a slot that must be free, and the node accepts.
    pub async fn run(&self, store: &Backend) -> anyhow::Result<LeaseToken> {
        let token = token();
        self.reserve(store, token).await?;
        match store.slots.commit(&self.id, token, LONG).await? {
            Commit::Committed(_) => Ok(token),
            commit => bail!("not committed: {commit:?}"),
        }
    }

    /// What the node says it runs, with a hold of [`HOLD`] after a loss.
    pub fn report<'a>(&self, running: Option<&'a [LeaseToken]>) -> Report<'a> {
        Report {
            epoch: self.epoch,
            running,
            lease: LONG,
            grace: Duration::from_secs(5),
            reserve_lease: HOLD,
            quarantine: LONG,
        }
    }

    /// Reports; the report must be taken, and nothing of it refused.
    pub async fn confirm(&self, store: &Backend, running: &[LeaseToken]) -> Outcome {
        let confirm = store.slots.confirm(&self.id, &self.report(Some(running))).await?;
        assert_eq!(confirm, Confirm::Confirmed(Confirmed::default()));
        Ok(())
    }

    /// Slots reserved and running.
    pub async fn usage(&self, store: &Backend) -> lingua_store::Result<(u32, u32)> {
        let usage = store.slots.usage(&self.id).await?;
        Ok((usage.reserved, usage.running))
    }

    /// Checks that grants are held now, and waits until the hold is over.
    pub async fn outwait_hold(&self, store: &Backend) -> anyhow::Result<Moment> {
        let held = self.ask(store, token(), LONG).await?;
        let Reserve::Refused(Refusal::Held(until)) = held else { bail!("not held: {held:?}") };
        eventually("the hold to end", async || {
            let record = store.nodes.get(&self.id).await?;
            Ok(record.filter(|record| record.read_at >= until).map(drop))
        })
        .await?;
        Ok(until)
    }

    /// The key of its record.
    pub fn record_key(&self) -> String {
        format!("lingua:v1:{{n:{}}}:record", self.id)
    }

    /// The key of its leases.
    pub fn leases_key(&self) -> String {
        format!("lingua:v1:{{n:{}}}:leases", self.id)
    }
}

/// Asks until the answer is there. `None` and errors both mean "not yet".
pub async fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let answer = ask().await;
        if let Ok(Some(value)) = answer {
            return Ok(value);
        }
        if Instant::now() >= give_up_at {
            bail!("waited {PATIENCE:?} for {what}: {:?}", answer.err());
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Repeats the same call while the store is out of reach, as every caller may.
pub async fn answered<T, F>(mut call: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = lingua_store::Result<T>>,
{
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if error.is_down() && Instant::now() < give_up_at => {}
            answer => return Ok(answer?),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the store answers again by a later connection than `before`.
pub async fn reconnected(store: &Backend, before: u64) -> anyhow::Result<u64> {
    let mut status = store.status.clone();
    let later = status.wait_for(|status| connection(status).is_some_and(|now| now > before));
    let status = tokio::time::timeout(PATIENCE, later).await??.clone();
    Ok(connection(&status).unwrap_or_default())
}

/// Waits until the store is seen to be out of reach.
pub async fn lost(store: &Backend) -> anyhow::Result<String> {
    let mut status = store.status.clone();
    let down = status.wait_for(|status| !status.is_up());
    match tokio::time::timeout(PATIENCE, down).await??.clone() {
        Status::Down { reason } => Ok(reason),
        Status::Up { .. } => bail!("it is up"),
    }
}

pub fn connection(status: &Status) -> Option<u64> {
    match status {
        Status::Up { connection } => Some(*connection),
        Status::Down { .. } => None,
    }
}

/// Checks that an answer is none, because the store is out of reach.
pub fn assert_down<T: std::fmt::Debug>(answer: &lingua_store::Result<T>) {
    assert!(matches!(answer, Err(Error::Down(_) | Error::Unknown(_))), "{answer:?}");
}
