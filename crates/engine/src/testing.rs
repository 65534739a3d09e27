//! What tests of several engines in one process share: a store that can be made to fail, instances that
//! reach each other, and nodes that say what the test says.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lingua_core::eligibility::{Need, Route};
use lingua_core::fleet::Fallbacks;
use lingua_core::job::JobState;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health};
use lingua_core::slots::{Commit, Usage};
use lingua_core::{
    JobId, Lang, LeaseToken, ModelId, Moment, NodeId, Profile, SessionId, SessionKey, TenantId,
};
use lingua_protocol::node::message::read_message;
use lingua_store::bus::{Delivery, EntryId, Envelope, Inboxes, Posting, TakeOver};
use lingua_store::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, JobRecords, NewJob,
};
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::{
    Beat, BeatReply, Changes, FeedCursor, Fenced, NodeFeed, NodeRecord, NodeRecords, Put,
    Registration,
};
use lingua_store::owners::{Claimed, Owner, SessionOwners};
use lingua_store::presence::{Announce, Peer, Presence};
use lingua_store::slots::{Confirm, Report, Reserve, SlotLeases, Wish};
use lingua_store::usage::{Day, Posted, UsageDays};
use lingua_store::{Backend, Clock, Error, Instance, Result};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::job::{JobInput, JobMessage, JobReport, JobSpec, NodeResult, Refusal, ToNode};
use crate::jobs::Job;
use crate::nodes::{
    Arrival, Connection, Heartbeat, MessageOutcome, NodeDetail, Register, Supports,
};
use crate::peers::bodies::Fetch;
use crate::secret::Secret;
use crate::{Engine, Settings};

/// What the calls of one instance meet, by their names.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<FaultState>>);

#[derive(Default)]
struct FaultState {
    down: HashSet<&'static str>,
    unknown: HashSet<&'static str>,
    hanging: HashSet<&'static str>,
    delays: HashMap<&'static str, Vec<Duration>>,
    calls: HashMap<&'static str, u64>,
}

impl Faults {
    /// These calls find nobody.
    pub fn down(&self, calls: &[&'static str]) {
        self.0.lock().down.extend(calls);
    }

    /// These calls are carried out, and their answers are lost.
    pub fn unknown(&self, calls: &[&'static str]) {
        self.0.lock().unknown.extend(calls);
    }

    /// These calls never come back.
    pub fn hang(&self, calls: &[&'static str]) {
        self.0.lock().hanging.extend(calls);
    }

    /// The next of these calls takes so long before it is carried out.
    pub fn delay(&self, call: &'static str, by: Duration) {
        self.0.lock().delays.entry(call).or_default().push(by);
    }

    /// All is well again, but for calls that hang.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.down.clear();
        state.unknown.clear();
        state.hanging.clear();
        state.delays.clear();
    }

    /// So many calls of this name so far.
    pub fn calls(&self, call: &'static str) -> u64 {
        self.0.lock().calls.get(call).copied().unwrap_or(0)
    }

    async fn before(&self, call: &'static str) -> Result<()> {
        let (hangs, delay) = {
            let mut state = self.0.lock();
            *state.calls.entry(call).or_default() += 1;
            let delay = state.delays.get_mut(call).and_then(Vec::pop);
            (state.hanging.contains(call), delay)
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        match self.0.lock().down.contains(call) {
            true => Err(Error::Down("made to fail".into())),
            false => Ok(()),
        }
    }

    fn after(&self, call: &'static str) -> Result<()> {
        match self.0.lock().unknown.contains(call) {
            true => Err(Error::Unknown("made to fail".into())),
            false => Ok(()),
        }
    }
}

/// A part of a store, with faults before it.
struct Faulty<T: ?Sized> {
    inner: RwLock<Arc<T>>,
    faults: Faults,
}

impl<T: ?Sized> Faulty<T> {
    fn inner(&self) -> Arc<T> {
        Arc::clone(&self.inner.read())
    }
}

macro_rules! faulty {
    ($part:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)* } $($rest:tt)*) => {
        #[async_trait]
        impl $part for Faulty<dyn $part> {
            $(async fn $name(&self $(, $arg: $type)*) -> Result<$out> {
                self.faults.before(stringify!($name)).await?;
                let answer = self.inner().$name($($arg),*).await;
                self.faults.after(stringify!($name))?;
                answer
            })*
            $($rest)*
        }
    };
}

faulty!(NodeRecords {
    fn put(&self, node: &NodeId, registration: &Registration) -> Put;
    fn beat(&self, node: &NodeId, beat: &Beat) -> BeatReply;
    fn offline(&self, node: &NodeId, epoch: u64) -> Fenced;
    fn forget(&self, node: &NodeId, unseen_for: Duration) -> bool;
    fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> ();
    fn get(&self, node: &NodeId) -> Option<NodeRecord>;
});

faulty!(NodeFeed {
    fn shard(&self, shard: u32) -> Vec<NodeRecord>;
    fn changes(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Changes;
});

faulty!(SlotLeases {
    fn reserve(&self, wish: &Wish<'_>) -> Reserve;
    fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Commit;
    fn renew(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Option<Moment>;
    fn release(&self, node: &NodeId, token: LeaseToken) -> bool;
    fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Confirm;
    fn usage(&self, node: &NodeId) -> Usage;
});

faulty!(JobRecords {
    fn create(&self, job: &NewJob<'_>) -> Create;
    fn assign(&self, job: &JobId, assignment: &Assignment, max_attempts: u32) -> Assign;
    fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Finish;
    fn get(&self, job: &JobId) -> Option<JobRecord>;
});

faulty!(SessionOwners {
    fn claim(&self, session: &SessionKey, instance: &Instance, ttl: Duration) -> Claimed;
    fn renew(&self, session: &SessionKey, instance: &Instance, epoch: u64, ttl: Duration) -> Fenced;
    fn release(&self, session: &SessionKey, epoch: u64) -> Fenced;
    fn owner(&self, session: &SessionKey) -> Option<Owner>;
    fn save(&self, session: &SessionKey, epoch: u64, state: &[u8], keep_for: Duration) -> Fenced;
    fn load(&self, session: &SessionKey) -> Option<Vec<u8>>;
});

faulty!(Presence {
    fn announce(&self, me: &Instance, address: &str, ttl: Duration) -> Announce;
    fn withdraw(&self, me: &Instance) -> ();
    fn peers(&self) -> Vec<Peer>;
});

faulty!(Inboxes {
    fn send(&self, to: &Instance, envelope: &Envelope) -> Posting;
    fn receive(&self, me: &Instance, wait: Duration) -> Vec<Delivery>;
    fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> ();
    fn depth(&self, inbox: &Instance) -> usize;
    fn orphans(&self) -> Vec<Instance>;
    fn take_over(&self, dead: &Instance, heir: &Instance, ttl: Duration) -> TakeOver;
}
    async fn rewind(&self, me: &Instance) {
        self.inner().rewind(me).await;
    }
);

faulty!(UsageDays {
    fn post(&self, day: Day, me: &Instance, serial: u64, counts: &[u8]) -> Posted;
    fn posted(&self, day: Day) -> Vec<Vec<u8>>;
});

/// The store as one instance reaches it.
pub(crate) struct Store {
    pub backend: Backend,
    pub faults: Faults,
    nodes: Arc<Faulty<dyn NodeRecords>>,
    owners: Arc<Faulty<dyn SessionOwners>>,
}

impl Store {
    /// The same store once more, with faults of its own.
    pub fn over(backend: &Backend) -> Self {
        fn faulty<T: ?Sized>(inner: &Arc<T>, faults: &Faults) -> Arc<Faulty<T>> {
            let inner = RwLock::new(Arc::clone(inner));
            Arc::new(Faulty { inner, faults: faults.clone() })
        }
        let (faults, mut over) = (Faults::default(), backend.clone());
        let nodes = faulty(&backend.nodes, &faults);
        let owners = faulty(&backend.owners, &faults);
        over.nodes = Arc::clone(&nodes) as Arc<dyn NodeRecords>;
        over.owners = Arc::clone(&owners) as Arc<dyn SessionOwners>;
        over.feed = faulty(&backend.feed, &faults);
        over.slots = faulty(&backend.slots, &faults);
        over.jobs = faulty(&backend.jobs, &faults);
        over.presence = faulty(&backend.presence, &faults);
        over.bus = faulty(&backend.bus, &faults);
        over.usage = faulty(&backend.usage, &faults);
        Store { backend: over, faults, nodes, owners }
    }

    /// Records and owners are from now on in another store, which knows nothing of this one.
    pub fn fail_over_to(&self, other: &Backend) {
        *self.nodes.inner.write() = Arc::clone(&other.nodes);
        *self.owners.inner.write() = Arc::clone(&other.owners);
    }
}

/// Instances of one store in this process.
#[derive(Clone)]
pub(crate) struct World {
    pub store: Backend,
    engines: Arc<Mutex<HashMap<String, Engine>>>,
}

impl Fetch for World {
    fn fetch(
        &self,
        _from: Instance,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Bytes, String>> + Send>> {
        let body = self.engines.lock().get(&address).and_then(|engine| engine.body(&name));
        Box::pin(async move { body.ok_or_else(|| "nobody has it".to_owned()) })
    }
}

impl World {
    pub fn new() -> Self {
        World { store: MemoryStore::open(Clock::system()), engines: Arc::default() }
    }

    /// An instance that has not joined.
    pub fn engine(&self, id: &str, store: &Store, settings: Settings) -> Engine {
        let instance = Instance { id: id.parse().unwrap(), boot: 1 };
        let secret = Secret::from_seed(b"test");
        Engine::start(store.backend.clone(), instance, settings, secret)
    }

    pub async fn join(&self, engine: &Engine) {
        let address = format!("http://{}", engine.instance().id);
        self.engines.lock().insert(address.clone(), engine.clone());
        engine.join(&address, Arc::new(self.clone())).await.unwrap();
    }

    /// An instance that joined, with the faults that it meets.
    pub async fn instance(&self, id: &str, settings: Settings) -> (Engine, Faults) {
        let store = Store::over(&self.store);
        let engine = self.engine(id, &store, settings);
        self.join(&engine).await;
        (engine, store.faults)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The engines hold the world, to fetch by it.
        if Arc::strong_count(&self.engines) > 1 && std::thread::panicking() {
            self.engines.lock().clear();
        }
    }
}

/// A node that says what the test says.
pub(crate) struct TestNode {
    engine: Engine,
    connection: Connection,
    out: mpsc::Receiver<ToNode>,
}

pub(crate) fn node_id(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

impl TestNode {
    pub async fn register(engine: &Engine, id: &str, slots: u32) -> Self {
        let Ok(node) = Self::try_register(engine, id, slots).await else {
            panic!("{id} may register")
        };
        node
    }

    pub async fn try_register(
        engine: &Engine,
        id: &str,
        slots: u32,
    ) -> std::result::Result<Self, Refusal> {
        let semantic = LangSet::new(["en", "zh"].map(|tag| Lang::new(tag).unwrap())).unwrap();
        let (out, told) = mpsc::channel(64);
        let supports =
            Supports { ack: true, cancel: true, result_ack: true, ..Supports::default() };
        let register = Register {
            node: node_id(id),
            declaration: Declaration { semantic, max_slots: slots, ..Declaration::default() },
            health: Health::Ready,
            supports,
            arrival: Arrival::Local,
            out,
            reports: false,
            running: Some(Vec::new()),
            running_jobs: None,
            detail: NodeDetail::default(),
        };
        let connection = engine.nodes.register(register).await?.connection;
        Ok(TestNode { engine: engine.clone(), connection, out: told })
    }

    /// The next job that it is sent.
    pub async fn assigned(&mut self) -> (JobId, u32) {
        loop {
            match self.out.recv().await.expect("the connection stands") {
                ToNode::Assign(assign) => return (assign.job, assign.attempt),
                _ => continue,
            }
        }
    }

    pub fn says(&self, (job, attempt): (JobId, u32), report: JobReport) -> MessageOutcome {
        let word = JobMessage { job, attempt: Some(attempt), token: None, report };
        self.engine.nodes.on_job_message(&self.connection, word)
    }

    pub fn accepts(&self, job: (JobId, u32)) -> MessageOutcome {
        self.says(job, JobReport::Ack)
    }

    pub fn answers(&self, job: (JobId, u32)) -> MessageOutcome {
        let body = read_message(Bytes::from_static(b"{\"text_asr\":\"hello\"}"));
        self.says(job, JobReport::Result(NodeResult::Success(body)))
    }

    pub fn beats(&self) {
        let beat = Heartbeat { running_jobs: None, ..Heartbeat::default() };
        let beaten = self.engine.nodes.heartbeat(&self.connection, beat);
        assert!(beaten.is_ok(), "it is connected");
    }
}

/// A job of nobody's session, with a number of its own.
pub(crate) fn job(n: u128) -> JobSpec {
    let tenant = TenantId::new("t").unwrap();
    let session = SessionKey::new(tenant.clone(), SessionId::new("s").unwrap());
    let route = Route::Directed(Lang::new("en").unwrap(), Lang::new("zh").unwrap());
    let key = JobKey {
        session: &session,
        origin: Origin::Unnamed(n),
        job_type: "f2f",
        route,
        features: &[],
    };
    let id = key.job_id();
    JobSpec {
        id,
        session,
        epoch: None,
        need: Need {
            route,
            speech: false,
            typed: false,
            asks: lingua_core::inventory::Asks::NONE,
            tenant,
            named: false,
        },
        fallbacks: Fallbacks { captions: true, ..Fallbacks::NONE },
        profile: Profile::default(),
        preferred: None,
        region: None,
        strict: false,
        turn: None,
        past: None,
        work: Arc::new(JobInput::default()),
        deadline_in: Duration::from_secs(60),
        trace: None,
        observer: None,
    }
}

pub(crate) fn submit(engine: &Engine, n: u128) -> Arc<Job> {
    engine.jobs.submit(job(n)).unwrap_or_else(|_| panic!("job {n} is taken in"))
}

pub(crate) fn is_done(job: &Job) -> bool {
    job.view().state == JobState::Done
}

/// Waits until it is so; fails if it is not within this time.
pub(crate) async fn within(limit: Duration, what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
