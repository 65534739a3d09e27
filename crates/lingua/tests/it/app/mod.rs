//! A scheduler in this process, on real sockets, over the embedded store or a real redis-server.
//!
//! [`TestApp::finish`] ends every test: it fails if a job is still open, a slot still taken or
//! somebody still in line.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

pub mod clusters;
pub mod described;
pub mod forwarder;
pub mod held;
pub mod http;
pub mod http_node;
pub mod jobs;
pub mod schema;

use std::net::SocketAddr;
use std::time::Duration;

use clusters::Lent;
use lingua_core::NodeId;
use lingua_core::link::SlowStart;
use lingua_engine::secret::Secret;
use lingua_engine::{Engine, Settings};
use lingua_lab::RedisServer;
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock, Instance, redis};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Which store a scenario runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Memory,
    /// The embedded store, kept in a directory.
    File,
    Redis,
    /// Nodes on one instance, everybody else on another, over one embedded store.
    FarMemory,
    /// The same over a real redis-server.
    FarRedis,
    /// The same over a Redis Cluster.
    FarCluster,
}

impl On {
    fn is_far(self) -> bool {
        matches!(self, On::FarMemory | On::FarRedis | On::FarCluster)
    }
}

/// A scheduler in this process.
pub struct TestApp {
    pub engine: Engine,
    pub address: SocketAddr,
    pub redis: Option<RedisServer>,
    cluster: Option<Lent>,
    /// Of a store that is kept in one.
    directory: Option<tempfile::TempDir>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    finished: bool,
    /// The instance that the nodes are on, if it is another one.
    far: Option<Box<TestApp>>,
}

/// What the instances of a test share.
pub fn secret() -> Secret {
    Secret::from_seed(b"test")
}

/// Settings under which nothing is believed slowly and nothing takes long.
pub fn quick() -> Settings {
    let mut settings = Settings::stable();
    settings.slow_start = SlowStart::Off;
    // Each test is the first that its nodes hear of.
    settings.restart_hold_ms = 0;
    settings.snapshot_ms = 500;
    settings.timing.heartbeat_ms = 500;
    settings.timing.compat_heartbeat_ms = 1_000;
    settings.timing.running_lease_ms = 1_500;
    settings.timing.quarantine_ms = 3_000;
    settings.timing.send_ms = 300;
    settings.timing.ack_ms = 200;
    settings.timing.http_ack_ms = 200;
    settings.timing.reserve_lease_ms = 800;
    settings.timing.queue_max_ms = 600;
    settings.timing.exec_max_ms = 3_000;
    settings.timing.margin_ms = 200;
    settings.timing.deadline_ms = 6_000;
    settings.timing.check().unwrap();
    settings
}

/// Nothing takes long, and nothing is given up only because the machine is busy.
pub fn calm() -> Settings {
    let mut settings = Settings::stable();
    settings.slow_start = SlowStart::Off;
    // Each test is the first that its nodes hear of.
    settings.restart_hold_ms = 0;
    settings.timing.send_ms = 2_000;
    settings.timing.ack_ms = 3_000;
    settings.timing.reserve_lease_ms = 6_000;
    settings.timing.queue_max_ms = 4_000;
    settings.timing.exec_max_ms = 15_000;
    settings.timing.margin_ms = 500;
    settings.timing.deadline_ms = 40_000;
    settings.reconnect_grace_ms = 3_000;
    settings.timing.check().unwrap();
    settings
}

impl TestApp {
    pub async fn start(on: On, settings: Settings) -> Self {
        let (store, servers) = open(on).await;
        let mut app = TestApp::over(store.clone(), "test-1", settings.clone()).await;
        (app.redis, app.cluster) = (servers.redis, servers.cluster);
        app.directory = servers.directory;
        if on.is_far() {
            let far = Box::pin(TestApp::over(store, "far-1", settings)).await;
            let met = || app.engine.peers().len() == 1 && far.engine.peers().len() == 1;
            assert!(wait_until(Duration::from_secs(5), met).await, "they do not see each other");
            app.far = Some(Box::new(far));
        }
        app
    }

    /// One more instance over a store that another has open.
    pub async fn over(store: Backend, id: &str, settings: Settings) -> Self {
        Self::over_with(store, id, settings, secret()).await
    }

    /// The same with another secret than all others have.
    pub async fn over_with(store: Backend, id: &str, settings: Settings, secret: Secret) -> Self {
        show_logs();
        described::listen();
        let instance = Instance { id: id.parse().unwrap(), boot: 7 };
        let engine = Engine::start(store, instance, settings, secret);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(lingua_server::serve(socket, engine.clone(), async {
            let _ = stopped.await;
        }));
        let (stop, serving) = (Some(stop), Some(serving));
        TestApp {
            engine,
            address,
            redis: None,
            cluster: None,
            directory: None,
            stop,
            serving,
            finished: false,
            far: None,
        }
    }

    pub fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn ws(&self, path: &str) -> String {
        let there = self.far.as_ref().filter(|_| path == "/ws/node");
        format!("ws://{}{path}", there.map_or(self.address, |far| far.address))
    }

    /// The instance that the nodes are on.
    pub fn of_nodes(&self) -> &TestApp {
        self.far.as_deref().unwrap_or(self)
    }

    /// Waits until this instance has heard of a node that just registered, here or elsewhere.
    pub async fn meets(&self, node: &str) {
        if self.far.is_none() {
            return;
        }
        let id = NodeId::new(node).unwrap();
        let met = || {
            let here = self.engine.node_view(&id);
            let there = self.of_nodes().engine.node_view(&id);
            // What is shown of it changes a moment before it can be chosen.
            let chosen_as = self.engine.fleet().lock().get(&id).map(|node| node.standing().health);
            here.zip(there).is_some_and(|(here, there)| {
                (here.epoch, here.health) == (there.epoch, there.health)
                    && chosen_as == Some(here.health)
            })
        };
        assert!(wait_until(Duration::from_secs(15), met).await, "nobody hears of {node}");
    }

    /// Waits until this instance has heard what the node's own instance knows of it.
    pub async fn follows(&self, node: &str) {
        let id = NodeId::new(node).unwrap();
        let seen = |app: &TestApp| {
            let view = app.engine.node_view(&id)?;
            Some((view.health, view.open_slots, view.overloaded, view.profile, view.missing_models))
        };
        let same = || seen(self) == seen(self.of_nodes());
        let _ = wait_until(Duration::from_secs(5), same).await;
    }

    /// A counter of this instance; zero if it was never touched. Labels go with the name.
    pub fn counter(&self, name: &str) -> u64 {
        let text = self.engine.metrics().render();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse::<f64>().unwrap() as u64)
    }

    /// Slots taken on a node, by the store's word. A busy machine may answer late: then it is asked again.
    pub async fn used(&self, node: &str) -> u32 {
        let node = NodeId::new(node).unwrap();
        for _ in 0..20 {
            match self.engine.store().slots.usage(&node).await {
                Err(lingua_store::Error::Unknown(_) | lingua_store::Error::Down(_)) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                answer => return answer.unwrap().used(),
            }
        }
        panic!("the store does not say how many slots of {node} are taken");
    }

    /// Fails unless all slots are free within the time, by the store's word and in the view.
    pub async fn settled(&self, within: Duration) {
        let end = tokio::time::Instant::now() + within;
        loop {
            let mut taken = Vec::new();
            for node in self.engine.node_views() {
                let used = self.used(node.id.as_str()).await;
                if (used, node.used_slots) != (0, 0) {
                    let view = node.used_slots;
                    taken.push(format!("{}: {used} in the store, {view} in the view", node.id));
                }
            }
            if taken.is_empty() {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "slots are still taken: {taken:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the scheduler and fails if anything is left over.
    pub async fn finish(mut self) {
        self.finished = true;
        let waited =
            wait_until(Duration::from_secs(10), || self.engine.jobs.open_jobs().is_empty());
        assert!(waited.await, "{} jobs are still open", self.engine.jobs.open_jobs().len());
        // An ended job's last words to the store may still be on their way.
        self.settled(Duration::from_secs(1)).await;
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(serving) = self.serving.take() {
            tokio::time::timeout(Duration::from_secs(60), serving).await.unwrap().unwrap();
        }
        if let Some(far) = self.far.take() {
            Box::pin(far.finish()).await;
        }
        described::verdict();
    }

    /// Ends the scheduler as a signal would, whatever is under way.
    pub async fn stop(mut self) {
        self.finished = true;
        if let (Some(stop), Some(serving)) = (self.stop.take(), self.serving.take()) {
            let _ = stop.send(());
            tokio::time::timeout(Duration::from_secs(60), serving).await.unwrap().unwrap();
        }
        if let Some(far) = self.far.take() {
            Box::pin(far.stop()).await;
        }
        described::verdict();
    }

    /// Ends the scheduler of a test that leaves things over on purpose.
    pub fn abandon(mut self) {
        self.finished = true;
        described::verdict();
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        if let Some(far) = self.far.take() {
            far.abandon();
        }
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if !self.finished && !std::thread::panicking() {
            panic!("a test must end with TestApp::finish");
        }
    }
}

/// With `LINGUA_LOG=debug` a test shows what its scheduler says.
fn show_logs() {
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let level = std::env::var("LINGUA_LOG").ok();
    if let Some(filter) = level.and_then(|level| level.parse::<Targets>().ok()) {
        let lines = tracing_subscriber::fmt::layer().with_test_writer();
        // Another test of the same process may have done it.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    }
}

/// The servers below a store; dropping them ends them.
#[derive(Default)]
pub struct Servers {
    redis: Option<RedisServer>,
    cluster: Option<Lent>,
    directory: Option<tempfile::TempDir>,
}

impl Servers {
    /// Where they are; `None` of a store in this process.
    pub fn url(&self) -> Option<String> {
        let cluster = || self.cluster.as_ref().map(|lent| lent.url());
        self.redis.as_ref().map(RedisServer::url).or_else(cluster)
    }
}

/// A late answer of the store is a fault of the machine that runs all tests at once, and not the subject of a test.
fn patient() -> redis::Options {
    redis::Options { response_timeout: Duration::from_secs(3), ..redis::Options::default() }
}

/// A fresh store.
pub async fn open(on: On) -> (Backend, Servers) {
    match on {
        On::Memory | On::FarMemory => (MemoryStore::open(Clock::system()), Servers::default()),
        On::File => {
            let directory = tempfile::tempdir().unwrap();
            let store = MemoryStore::open_in(directory.path(), Clock::system()).unwrap();
            (store, Servers { directory: Some(directory), ..Servers::default() })
        }
        On::Redis | On::FarRedis => {
            let server = RedisServer::start().await.unwrap();
            let store = redis::open(&server.url(), patient()).await.unwrap();
            (store, Servers { redis: Some(server), ..Servers::default() })
        }
        On::FarCluster => {
            let cluster = Lent::take().await;
            let store = redis::open(&cluster.url(), patient()).await.unwrap();
            (store, Servers { cluster: Some(cluster), ..Servers::default() })
        }
    }
}

/// Tests that load the machine on purpose: two at a time, so that one does not fail for the load of all the others.
static HEAVY: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Waits for the turn of a test that loads the machine; held until its end.
pub async fn heavy_turn() -> tokio::sync::SemaphorePermit<'static> {
    HEAVY.acquire().await.unwrap()
}

/// Looks until `ready` says so; `false` if it does not within the time.
pub async fn wait_until(within: Duration, ready: impl Fn() -> bool) -> bool {
    let end = tokio::time::Instant::now() + within;
    while !ready() {
        if tokio::time::Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    true
}
