//! What a node's next owner begins from, and what an owner vouches for.

use lingua_core::inventory::{Inventory, Model};
use lingua_core::lang::LangSet;
use lingua_core::link::BreakerState;
use lingua_core::{Lang, LeaseToken};
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::ProfileVersion;
use lingua_store::slots::{Refusal as NoGrant, Reserve, Wish};
use lingua_store::{Backend, Clock, Instance};

use super::*;
use crate::secret::Secret;
use crate::testing::World;
use crate::{Engine, Settings};

fn start(store: &Backend, name: &str, settings: Settings) -> Engine {
    let instance = Instance { id: name.parse().unwrap(), boot: 1 };
    Engine::start(store.clone(), instance, settings, Secret::from_seed(b"test"))
}

fn store() -> Backend {
    MemoryStore::open(Clock::system())
}

fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn declaration() -> Declaration {
    let semantic = LangSet::new(["en", "zh"].map(|tag| Lang::new(tag).unwrap())).unwrap();
    Declaration { semantic, max_slots: 8, ..Declaration::default() }
}

type Says = (Option<Vec<(JobId, u32)>>, Option<u32>);

/// The node registers, as a stranger. What it is sent comes out of the second value.
async fn register(
    engine: &Engine,
    name: &str,
    (running, running_jobs): Says,
) -> (Registered, mpsc::Receiver<ToNode>) {
    let (out, sent) = mpsc::channel(64);
    let wish = Register {
        node: id(name),
        declaration: declaration(),
        health: Health::Ready,
        supports: Supports { ack: true, cancel: true, ..Supports::default() },
        arrival: Arrival::Open,
        out,
        reports: running.is_some(),
        running,
        running_jobs,
        detail: NodeDetail::default(),
    };
    let registered = engine.nodes.register(wish).await;
    (registered.unwrap_or_else(|refusal| panic!("{}", refusal.detail)), sent)
}

fn fails(engine: &Engine, name: &str) {
    let node = engine.nodes.get(&id(name)).unwrap();
    let job = "0000000000000000000000000a".parse().unwrap();
    node.apply(Event::FailureNoted { at_ms: 5, job, code: "GPU_LOST".into() });
    node.apply(Event::Faulted);
}

/// Waits until the store knows so many failures of the node.
async fn kept(store: &Backend, name: &str, failed: u64) -> Reputation {
    loop {
        let known = store.reputations.read(&id(name)).await.unwrap();
        if let Some(known) = known.filter(|known| known.failed == failed) {
            return known;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn breaker(engine: &Engine, name: &str) -> BreakerState {
    engine.nodes.get(&id(name)).unwrap().lock().machine.breaker()
}

#[tokio::test(start_paused = true)]
async fn whoever_gets_a_nodes_connection_begins_from_what_the_store_knows() {
    let store = store();
    let (a, b) = (start(&store, "a", Settings::stable()), start(&store, "b", Settings::stable()));
    let (_first, _sent) = register(&a, "n", (Some(Vec::new()), None)).await;
    for _ in 0..3 {
        fails(&a, "n");
    }
    let known = kept(&store, "n", 3).await;
    assert_eq!(known.failed_by_code["GPU_LOST"], 3);
    // The process is gone, and nobody said goodbye.
    drop(a);
    let (_second, _sent) = register(&b, "n", (Some(Vec::new()), None)).await;
    assert!(matches!(breaker(&b, "n"), BreakerState::Open { .. }), "it is left alone here too");
    let record = store.nodes.get(&id("n")).await.unwrap().unwrap();
    assert_eq!(record.health, Health::Degraded, "from the first moment");
    let view = b.own_node_view(&id("n")).await.unwrap();
    assert_eq!((view.past.failed, view.past.latest_failures().len()), (3, 3));
    assert_ne!(
        view.past.failures[0].job.to_string(),
        "0000000000000000000000000a",
        "as it was told"
    );
    assert!(view.why_idle[0].starts_with("it failed too often"), "{:?}", view.why_idle);
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_node_that_was_put_aside_reads_why_and_brings_it_back() {
    let store = store();
    let engine = start(&store, "a", Settings::stable());
    let (_registered, mut sent) = register(&engine, "n", (Some(Vec::new()), None)).await;
    let mut told = || match sent.try_recv() {
        Ok(ToNode::Control { command, reason }) => Some((command, reason.unwrap_or_default())),
        _ => None,
    };
    while engine.node_view(&id("n")).unwrap().aside.is_none() {
        fails(&engine, "n");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (command, reason) = told().expect("its owner is told");
    assert_eq!(command, "drain");
    assert!(reason.contains("the last one GPU_LOST"), "{reason}");
    let why = engine.why_idle(&id("n"));
    assert!(why.iter().any(|why| why.starts_with("it was put aside after ")), "{why:?}");
    assert!(engine.request_probe(&id("n")).unwrap());
    assert_eq!(told().map(|(command, _)| command), Some("resume"));
    assert_eq!(breaker(&engine, "n"), BreakerState::Probing);
    assert!(engine.request_probe(&id("n")).is_ok());
    let refusal = engine.request_probe(&id("n")).unwrap_err();
    assert_eq!(refusal.code_text(), "RATE_LIMITED");
    assert!(!engine.request_probe(&id("nobody")).unwrap());
}

/// Whether the store grants a slot of the node right after it registered.
async fn is_granted(store: &Backend, name: &str) -> bool {
    let node = id(name);
    let record = store.nodes.get(&node).await.unwrap().unwrap();
    let job = "0000000000000000000000000b".parse().unwrap();
    let token = LeaseToken { job, attempt: 1, nonce: u128::from(record.epoch) };
    let version = ProfileVersion::of(&record.profile);
    let lease = Duration::from_secs(3);
    let wish = Wish { node: &node, token, version, models: &[], lease };
    match store.slots.reserve(&wish).await.unwrap() {
        Reserve::Granted { .. } => true,
        Reserve::Refused(NoGrant::Unconfirmed | NoGrant::Held(_)) => false,
        other => panic!("{other:?}"),
    }
}

/// C6: the store and the process that knew the nodes were lost together.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_young_process_takes_a_node_for_new_only_if_that_says_that_it_runs_nothing() {
    let (store, job) = (store(), "0000000000000000000000000c".parse().unwrap());
    let engine = start(&store, "a", Settings::stable());
    for (name, says, granted) in [
        ("silent", (None, None), false),
        ("idle", (Some(Vec::new()), None), true),
        ("counts-none", (None, Some(0)), true),
        ("busy", (Some(vec![(job, 1)]), None), false),
        ("counts-one", (None, Some(1)), false),
    ] {
        let (_registered, _sent) = register(&engine, name, says).await;
        assert_eq!(is_granted(&store, name).await, granted, "{name}");
    }
    let (silent, _sent) = register(&engine, "patient", (None, None)).await;
    let held = |name: &str| engine.node_view(&id(name)).unwrap();
    assert!(held("patient").why_idle[0].contains("or in 45 s"), "{:?}", held("patient").why_idle);
    assert_eq!(held("idle").held_for, None);
    for _ in 0..10 {
        engine.nodes.heartbeat(&silent.connection, Heartbeat::default()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(is_granted(&store, "patient").await, "all leases of its earlier life are over");
    assert_eq!(held("patient").held_for, None);
    let (_registered, _sent) = register(&engine, "later", (None, None)).await;
    assert!(is_granted(&store, "later").await, "it would have been known");
    let mut settings = Settings::stable();
    settings.restart_hold_ms = 0;
    let first = start(&store, "b", settings);
    let (_registered, _sent) = register(&first, "new", (None, None)).await;
    assert!(is_granted(&store, "new").await, "nobody was there before");
}

fn with_model(version: &str) -> Declaration {
    let model = Model {
        id: "whisper".parse().unwrap(),
        version: Some(version.parse().unwrap()),
        kind: Some("asr".parse().unwrap()),
        langs: LangSet::default(),
        loaded: true,
    };
    let inventory = Inventory { models: Some(vec![model]), ..Inventory::default() };
    Declaration { inventory, ..declaration() }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_is_in_its_record_and_said_again_it_is_written_no_second_time() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, _) = world.instance("b", Settings::stable()).await;
    let store = &world.store;
    let (registered, _sent) = register(&a, "n", (Some(Vec::new()), None)).await;
    let says = |declaration: Declaration| {
        let beat = Heartbeat { declaration: Some(declaration), ..Heartbeat::default() };
        a.nodes.heartbeat(&registered.connection, beat).unwrap();
        tokio::time::sleep(Duration::from_secs(5))
    };
    says(with_model("2")).await;
    let record = store.nodes.get(&id("n")).await.unwrap().unwrap();
    assert_eq!(record.profile.inventory, with_model("2").inventory);
    let elsewhere = b.node_view(&id("n")).unwrap();
    assert_eq!(elsewhere.profile.inventory, record.profile.inventory, "as other instances see it");

    let end = store.feed.changes(None, Duration::ZERO).await.unwrap().cursor;
    for _ in 0..5 {
        says(with_model("2")).await;
    }
    let changes = store.feed.changes(Some(&end), Duration::ZERO).await.unwrap();
    assert_eq!(changes.nodes, [], "nothing changed");
    says(with_model("3")).await;
    let changes = store.feed.changes(Some(&end), Duration::ZERO).await.unwrap();
    assert_eq!(changes.nodes, [id("n")]);
}
