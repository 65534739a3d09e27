//! Faults of instances, of what is between them, and of their store.

use std::net::SocketAddr;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_engine::cluster::presence;
use lingua_lab::{FaultProxy, RedisServer};
use lingua_store::bus::{Envelope, INBOX_CAPACITY, Posting};
use lingua_store::leaders::Task;
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::{Claim, Registration, Vitals};
use lingua_store::{Clock, Instance, redis};

use super::people::speaker;
use crate::alerting::stage::{Act, Stage, lenient, node, one_in, settings};
use crate::app::{On, TestApp, secret, wait_until};
use crate::process::Lingua;

/// Longer than the test.
const LONG: Duration = Duration::from_secs(600);

const PATIENCE: Duration = Duration::from_secs(20);

/// A scheduler process; starting one blocks.
async fn start(listen: String, store: String, files: Option<u32>) -> Lingua {
    let starting = move || {
        let args = ["serve", "--listen", &listen, "--store", &store];
        match files {
            Some(files) => Lingua::start_with_files(files, &args),
            None => Lingua::start(&args),
        }
    };
    tokio::task::spawn_blocking(starting).await.unwrap()
}

const ANYWHERE: &str = "127.0.0.1:0";

/// Kills one and, once it was missed, starts another in its place.
async fn kill(stage: &mut Stage, killed: Lingua, store: &str) -> Lingua {
    let address: SocketAddr = killed.address();
    killed.signal("KILL");
    stage.until(Act::Healed).await;
    drop(killed);
    // Somebody may have the port for a moment as the near end of a connection.
    while std::net::TcpListener::bind(address).is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    start(address.to_string(), store.to_owned(), None).await
}

pub async fn one_of_two_is_killed(mut stage: Stage) {
    let redis = RedisServer::start().await.unwrap();
    let one = start(ANYWHERE.to_owned(), redis.url(), None).await;
    let _node = node(one.address(), "n", 5).await;
    leads(&one).await;
    let two = start(ANYWHERE.to_owned(), redis.url(), None).await;
    let peers = |lingua: &Lingua| sample(lingua.address(), "lingua_peers 1");
    while !(peers(&one).await && peers(&two).await) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.is_healthy(&[one.address(), two.address()]).await;
    let _two = kill(&mut stage, two, &redis.url()).await;
    stage.until(Act::Over).await;
}

pub async fn the_only_one_is_killed(mut stage: Stage) {
    let one = start(ANYWHERE.to_owned(), "memory".to_owned(), None).await;
    let _node = node(one.address(), "n", 5).await;
    leads(&one).await;
    stage.is_healthy(&[one.address()]).await;
    let one = kill(&mut stage, one, "memory").await;
    let _back = node(one.address(), "n", 5).await;
    stage.until(Act::Over).await;
}

/// Whether a scheduler says this line.
async fn sample(address: SocketAddr, line: &str) -> bool {
    let client = lingua_lab::HttpClient::new(format!("http://{address}"));
    let text = client.get("/metrics").await.unwrap().text();
    text.lines().any(|said| said == line)
}

/// Waits until this one does every task for all.
async fn leads(lingua: &Lingua) {
    for task in Task::ALL {
        let line = format!("lingua_leader{{task=\"{}\"}} 1", task.as_str());
        while !sample(lingua.address(), &line).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn app_leads(app: &TestApp) {
    let leads = || Task::ALL.into_iter().all(|task| app.engine.leads(task).is_some());
    assert!(wait_until(PATIENCE, leads).await, "nobody leads");
}

pub async fn one_of_two_loses_the_store(mut stage: Stage) {
    let server = RedisServer::start().await.unwrap();
    let wire = FaultProxy::start(server.addr()).await.unwrap();
    let near = redis::open(&server.url(), redis::Options::default()).await.unwrap();
    let one = TestApp::over(near, "one", settings()).await;
    let _node = node(one.address, "n", 5).await;
    app_leads(&one).await;
    let far = redis::open(&wire.url(), redis::Options::default()).await.unwrap();
    let two = TestApp::over(far, "two", settings()).await;
    let met = || one.engine.peers().len() == 1 && two.engine.peers().len() == 1;
    assert!(wait_until(PATIENCE, met).await, "they do not see each other");
    stage.is_healthy(&[one.address, two.address]).await;
    wire.black_hole();
    stage.until(Act::Healed).await;
    wire.pass();
    stage.until(Act::Over).await;
    two.finish().await;
    one.finish().await;
}

/// As if one of them was given the wrong address.
pub async fn two_use_two_stores(mut stage: Stage) {
    let one = TestApp::start(On::Memory, settings()).await;
    let two = TestApp::start(On::Memory, settings()).await;
    let _node = node(one.address, "n", 5).await;
    stage.is_healthy(&[one.address, two.address]).await;
    stage.until(Act::Over).await;
    two.finish().await;
    one.finish().await;
}

/// Its process is stopped: connections stand and nothing is answered.
pub async fn the_store_hangs_at_rest(mut stage: Stage) {
    let app = TestApp::start(On::Redis, settings()).await;
    let _node = node(app.address, "n", 5).await;
    app_leads(&app).await;
    stage.is_healthy(&[app.address]).await;
    app.redis.as_ref().unwrap().pause().unwrap();
    stage.until(Act::Healed).await;
    app.redis.as_ref().unwrap().resume().unwrap();
    stage.until(Act::Over).await;
    app.finish().await;
}

pub async fn the_store_dies_while_people_speak(mut stage: Stage) {
    let mut settings = settings();
    // A store that comes back empty trusts a node from its next heartbeat on.
    settings.timing.heartbeat_ms = 500;
    let mut app = TestApp::start(On::Redis, settings).await;
    let _node = node(app.address, "n", 5).await;
    app_leads(&app).await;
    stage.is_healthy(&[app.address]).await;
    let speaker = speaker(&app).await;
    app.redis.as_mut().unwrap().kill().unwrap();
    stage.until(Act::Healed).await;
    app.redis.as_mut().unwrap().restart().await.unwrap();
    stage.until(Act::Over).await;
    speaker.stop();
    let report = speaker.finished().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    app.finish().await;
}

fn other() -> Instance {
    Instance { id: "other".parse().unwrap(), boot: 3 }
}

/// Played by what it says of itself in the store.
pub async fn a_far_version_joins(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let _node = node(app.address, "n", 5).await;
    stage.is_healthy(&[app.address]).await;
    let presence = &app.engine.store().presence;
    presence.announce(&other(), "127.0.0.1:9#wire=5-6", LONG).await.unwrap();
    stage.until(Act::Healed).await;
    presence.withdraw(&other()).await.unwrap();
    stage.until(Act::Over).await;
    app.finish().await;
}

/// Another instance says that it lives and has a node, and does not read what it is sent.
pub async fn an_inbox_is_full(mut stage: Stage) {
    let store = MemoryStore::open(Clock::system());
    let app = TestApp::over(store.clone(), "one", lenient()).await;
    let _node = node(app.address, "here", 5).await;
    stage.is_healthy(&[app.address]).await;
    let said = presence::signed(&secret(), &other(), "http://127.0.0.1:9".to_owned());
    store.presence.announce(&other(), &said, LONG).await.unwrap();
    assert!(wait_until(PATIENCE, || app.engine.peers().len() == 1).await, "nobody met");
    let far: NodeId = "far".parse().unwrap();
    store.nodes.put(&far, &registration()).await.unwrap();
    assert!(wait_until(PATIENCE, || app.engine.node_view(&far).is_some()).await, "nobody learnt");
    for id in 0..INBOX_CAPACITY as u128 {
        let envelope =
            Envelope { id, from: other(), body: b"{\"words\":[]}".to_vec(), live_for: LONG };
        if store.bus.send(&other(), &envelope).await.unwrap() == Posting::Full {
            break;
        }
    }
    let some_to_it = one_in(25, |job| job.prefer("far"));
    stage.work(Act::Ill, &app, 10, some_to_it).await;
    store.presence.withdraw(&other()).await.unwrap();
    stage.until(Act::Over).await;
    app.abandon();
}

fn registration() -> Registration {
    let languages = LangSet::new(["en".parse().unwrap(), "zh".parse().unwrap()]).unwrap();
    let declaration =
        Declaration { semantic: languages, max_slots: 64, private: true, ..Declaration::default() };
    Registration {
        claim: Claim::Newest,
        owner: other(),
        profile: NodeProfile::from_declaration(declaration).unwrap(),
        vitals: Vitals { max: 64, health: Health::Ready, overloaded: false, fresh_for: LONG },
        known: false,
    }
}

pub async fn files_run_out(mut stage: Stage) {
    const FILES: u32 = 120;
    let lingua = start(ANYWHERE.to_owned(), "memory".to_owned(), Some(FILES)).await;
    let _node = node(lingua.address(), "n", 5).await;
    leads(&lingua).await;
    stage.is_healthy(&[lingua.address()]).await;
    let mut nodes = Vec::new();
    // Room is left for whoever reads the metrics.
    while open_files(lingua.address()).await < FILES * 88 / 100 {
        nodes.push(node(lingua.address(), &format!("n-{}", nodes.len()), 5).await);
    }
    stage.until(Act::Healed).await;
    drop(nodes);
    stage.until(Act::Over).await;
}

async fn open_files(address: SocketAddr) -> u32 {
    let client = lingua_lab::HttpClient::new(format!("http://{address}"));
    let text = client.get("/metrics").await.unwrap().text();
    let files = text.lines().find_map(|line| line.strip_prefix("process_open_fds "));
    files.unwrap().parse().unwrap()
}
