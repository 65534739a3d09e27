//! Several instances of one store, in virtual time.

use lingua_store::Status;
use tokio::sync::watch;

use super::*;
use crate::testing::*;
use crate::{Engine, Settings};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn patient() -> Settings {
    let mut settings = Settings::stable();
    settings.timing.queue_max_ms = 20_000;
    settings
}

fn sees(engine: &Engine, node: &str) -> bool {
    let id = node_id(node);
    engine.router.status(&id).is_some_and(|status| status.connected)
}

async fn until_known(engine: &Engine, node: &str) {
    within(secs(5), "the node is known", || sees(engine, node)).await;
}

/// C2: what is said between instances is kept until the store takes it.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_result_outlasts_two_seconds_without_the_store() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let (b, faults) = world.instance("b", Settings::stable()).await;
    let mut node = TestNode::register(&b, "n", 1).await;
    until_known(&a, "n").await;
    let job = submit(&a, 1);
    let assigned = node.assigned().await;
    node.accepts(assigned);
    within(secs(2), "the ack", || job.view().acked_ms.is_some()).await;

    faults.down(&["send"]);
    node.answers(assigned);
    tokio::time::sleep(secs(2)).await;
    assert!(!is_done(&job));
    faults.heal();
    within(secs(1), "the result", || is_done(&job)).await;
}

/// C2: the same after answers that did not come; and each word has its effect once.
#[tokio::test(start_paused = true)]
pub(crate) async fn words_whose_answers_are_lost_have_their_effect_once() {
    let world = World::new();
    let (a, faults_a) = world.instance("a", Settings::stable()).await;
    let (b, faults_b) = world.instance("b", Settings::stable()).await;
    let mut node = TestNode::register(&b, "n", 1).await;
    until_known(&a, "n").await;
    // Deletions are lost as well: everything is read again.
    faults_a.unknown(&["send"]);
    faults_b.unknown(&["send"]);
    faults_a.down(&["ack"]);
    faults_b.down(&["ack"]);
    let job = submit(&a, 1);
    let assigned = node.assigned().await;
    // The link breaks, and what was not deleted is read again.
    b.shared.store.bus.rewind(&b.shared.instance).await;
    a.shared.outbox.tell_jobs_wait();
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.accepts(assigned);
    node.answers(assigned);
    within(secs(5), "the result", || is_done(&job)).await;
    assert_eq!(job.view().attempts.len(), 1, "{:?}", job.view().attempts);
    faults_a.heal();
    faults_b.heal();
    let next = tokio::time::timeout(secs(5), node.assigned()).await;
    assert!(next.is_err(), "nothing is sent twice");
}

/// A store that was away for longer than anybody's word lasts knows of nobody that lives: all have a
/// moment to say so again, and nothing is given up meanwhile.
#[tokio::test(start_paused = true)]
async fn after_an_outage_of_the_store_nobody_is_taken_for_gone() {
    const ALL: [&str; 6] = ["announce", "peers", "send", "receive", "ack", "changes"];
    let world = World::new();
    let (a, faults_a) = world.instance("a", Settings::stable()).await;
    let (b, faults_b) = world.instance("b", Settings::stable()).await;
    let mut node = TestNode::register(&b, "n", 1).await;
    until_known(&a, "n").await;
    let job = submit(&a, 1);
    let assigned = node.assigned().await;
    node.accepts(assigned);
    within(secs(2), "the ack", || job.view().acked_ms.is_some()).await;
    faults_a.down(&ALL);
    faults_b.down(&ALL);
    tokio::time::sleep(secs(2)).await;
    node.answers(assigned);
    tokio::time::sleep(secs(4)).await;
    // The one is back a while before the other.
    faults_b.heal();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!b.peers().is_empty());
    }
    faults_a.heal();
    within(secs(2), "the result", || is_done(&job)).await;
    assert!(sees(&a, "n") && !b.peers().is_empty());
    assert_eq!(job.view().attempts.len(), 1);
}

/// C4: who reads the fleet says meanwhile that it lives.
#[tokio::test(start_paused = true)]
pub(crate) async fn an_instance_that_cannot_read_the_fleet_still_says_that_it_lives() {
    let world = World::new();
    let (a, _) = world.instance("a", Settings::stable()).await;
    let store = Store::over(&world.store);
    store.faults.hang(&["shard", "changes", "get"]);
    let b = world.engine("b", &store, Settings::stable());
    world.join(&b).await;
    within(secs(2), "b is there", || !a.peers().is_empty()).await;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!a.peers().is_empty() && !b.peers().is_empty(), "both say that they live");
    }
}

/// C4: nobody reads the fleet because somebody joins, leaves or comes back.
#[tokio::test(start_paused = true)]
async fn a_join_reads_nothing() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    // A node is there before its instance is known here.
    let store = Store::over(&world.store);
    let b = world.engine("b", &store, Settings::stable());
    let _node = TestNode::register(&b, "n", 1).await;
    tokio::time::sleep(secs(5)).await;
    assert!(!sees(&a, "n"), "nobody knows how to reach it");
    let before = [faults.calls("shard"), faults.calls("get")];
    world.join(&b).await;
    until_known(&a, "n").await;
    // It is gone for a while by its own silence, and comes back.
    store.faults.down(&["announce"]);
    within(secs(5), "b is taken for gone", || a.peers().is_empty()).await;
    assert!(!sees(&a, "n"));
    store.faults.heal();
    until_known(&a, "n").await;
    assert_eq!([faults.calls("shard"), faults.calls("get")], before);
}

/// S10: changes are read beside each other.
#[tokio::test(start_paused = true)]
async fn many_changes_at_once_are_known_soon() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let (b, _) = world.instance("b", Settings::stable()).await;
    tokio::time::sleep(secs(1)).await;
    for _ in 0..100 {
        faults.delay("get", Duration::from_millis(20));
    }
    let mut nodes = Vec::new();
    for n in 0..100 {
        nodes.push(TestNode::register(&b, &format!("n{n}"), 1).await);
    }
    let known = || (0..100).filter(|n| sees(&a, &format!("n{n}"))).count();
    within(Duration::from_millis(200), "they are known", || known() == 100).await;
}

/// C10: an answer that was late on the same connection lost nothing, and nobody asserts anything again.
#[tokio::test(start_paused = true)]
pub(crate) async fn an_answer_that_was_late_has_nothing_asserted_again() {
    let world = World::new();
    let mut store = Store::over(&world.store);
    let (status, seen) = watch::channel(Status::Up { connection: 1 });
    store.backend.status = seen;
    let engine = world.engine("a", &store, Settings::stable());
    world.join(&engine).await;
    let _node = TestNode::register(&engine, "n", 1).await;
    tokio::time::sleep(secs(2)).await;
    let asserted = || ["put", "confirm"].map(|call| store.faults.calls(call));
    let (before, read) = (asserted(), store.faults.calls("shard"));
    for _ in 0..3 {
        status.send_replace(Status::Down { reason: "no answer in time".into() });
        tokio::time::sleep(Duration::from_millis(50)).await;
        status.send_replace(Status::Up { connection: 1 });
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(asserted(), before);
    let now = store.faults.calls("shard");
    assert!(now - read < 10, "nobody reads the fleet again, but the janitor a part of it");
    status.send_replace(Status::Up { connection: 2 });
    tokio::time::sleep(secs(1)).await;
    assert!(asserted()[0] > before[0], "a new connection may have lost all");
    assert!(store.faults.calls("shard") - now >= 64);
}

/// C11, S3: nobody asks full nodes again and again, and who waits hears of a slot at once, whichever
/// instance frees it and however little it knows of the node.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_slot_that_comes_free_anywhere_reaches_a_waiting_job_within_50_ms() {
    let world = World::new();
    let (a, _) = world.instance("a", patient()).await;
    let (b, _) = world.instance("b", patient()).await;
    let (c, faults) = world.instance("c", patient()).await;
    // Of b's node jobs of a and b have the two slots.
    let mut node = TestNode::register(&b, "n", 2).await;
    until_known(&a, "n").await;
    until_known(&c, "n").await;
    let held = submit(&b, 1);
    let held_assigned = node.assigned().await;
    node.accepts(held_assigned);
    let running = submit(&a, 2);
    let assigned = node.assigned().await;
    node.accepts(assigned);
    let waits = submit(&c, 3);
    within(secs(1), "it waits", || c.jobs.any_waits()).await;
    for _ in 0..5 {
        tokio::time::sleep(secs(1)).await;
        node.beats();
    }
    let asked = faults.calls("reserve");
    assert!(asked <= 6, "a full node is asked now and then at most, not {asked} times in 5 s");

    // By now a knows nothing of the slots that others hold.
    assert!(waits.view().attempts.is_empty());
    let freed = Instant::now();
    node.answers(assigned);
    node.assigned().await;
    assert!(freed.elapsed() <= Duration::from_millis(50), "after {:?}", freed.elapsed());
    within(secs(1), "the end of the other", || is_done(&running)).await;
    assert!(!is_done(&held));
}

/// The same for the slot of an attempt that was given up, which the node's instance gives back.
#[tokio::test(start_paused = true)]
async fn a_slot_that_a_nodes_instance_gives_back_reaches_a_waiting_job_elsewhere() {
    let world = World::new();
    let (a, _) = world.instance("a", patient()).await;
    let (b, _) = world.instance("b", patient()).await;
    let (c, _) = world.instance("c", patient()).await;
    let mut node = TestNode::register(&b, "n", 1).await;
    until_known(&a, "n").await;
    until_known(&c, "n").await;
    let running = submit(&a, 1);
    let assigned = node.assigned().await;
    node.accepts(assigned);
    within(secs(1), "the ack", || running.view().acked_ms.is_some()).await;
    let _waits = submit(&c, 2);
    within(secs(1), "it waits", || c.jobs.any_waits()).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let freed = Instant::now();
    running.cancel("cancelled");
    node.assigned().await;
    assert!(freed.elapsed() <= Duration::from_millis(50), "after {:?}", freed.elapsed());
}

/// S8: a refused job leaves no open record.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_record_that_may_have_been_written_is_closed() {
    let world = World::new();
    let (a, faults) = world.instance("a", Settings::stable()).await;
    let _node = TestNode::register(&a, "n", 1).await;
    faults.unknown(&["create"]);
    let job = submit(&a, 1);
    let view = job.ended_within(secs(5)).await;
    assert!(view.ended.is_some());
    faults.heal();
    tokio::time::sleep(secs(1)).await;
    let record = world.store.jobs.get(&job.id).await.unwrap().expect("it was written after all");
    assert!(record.state.is_terminal(), "nobody works on it, so it is over");
}

/// S5: a promoted server's clock may be behind that of the one before, and its replica may lack the
/// last record: epochs rise all the same.
#[tokio::test(start_paused = true)]
pub(crate) async fn a_node_registers_at_a_promoted_server_whose_clock_is_behind() {
    let behind = lingua_store::memory::MemoryStore::open(lingua_store::Clock::showing(1_000_000));
    let world = World::new();
    let store = Store::over(&world.store);
    let a = world.engine("a", &store, Settings::stable());
    world.join(&a).await;
    let _before = TestNode::register(&a, "n", 1).await;
    let epoch = a.nodes.epoch(&node_id("n")).unwrap();
    store.fail_over_to(&behind);
    let after = TestNode::register(&a, "n", 1).await;
    assert!(a.nodes.epoch(&node_id("n")).unwrap() > epoch);
    after.beats();
    let record = behind.nodes.get(&node_id("n")).await.unwrap().unwrap();
    assert_eq!(Some(record.epoch), a.nodes.epoch(&node_id("n")));
}
