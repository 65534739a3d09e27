//! What comes late: a store or a bus that takes its time with a single word.

use crate::app;

use std::sync::Arc;
use std::time::Duration;

use app::held::{self, Gate};
use app::jobs::{done, is, job};
use app::{TestApp, calm, wait_until};
use lingua_core::job::JobState;
use lingua_engine::Settings;
use lingua_engine::jobs::Job;
use lingua_lab::speech::Mark;
use lingua_lab::{FakeNode, NodeOptions, ScriptedNode, Speaker, SpeakerOptions};
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Whoever does not hear of a job within a moment has not got it.
fn hasty() -> Settings {
    let mut settings = calm();
    settings.timing.send_ms = 300;
    settings.timing.ack_ms = 300;
    settings.timing.http_ack_ms = 300;
    settings.timing.reserve_lease_ms = 1_500;
    settings.timing.check().unwrap();
    settings
}

fn options(app: &TestApp, id: &str) -> NodeOptions {
    NodeOptions {
        patience: Duration::from_secs(15),
        ..NodeOptions::new(app.ws("/ws/node")).node_id(id)
    }
}

/// A node that takes jobs without an ack, and does nothing but what the test says.
async fn node(app: &TestApp, id: &str) -> ScriptedNode {
    FakeNode::scripted(options(app, id).without("ack")).await.unwrap()
}

/// Two instances over one store; what others say to the second waits at the gate.
async fn two(store: Backend, settings: Settings) -> (TestApp, TestApp, Arc<Gate>) {
    let gate = Gate::new();
    let (one, two) = over(store.clone(), held::inbox(store, &gate), settings).await;
    (one, two, gate)
}

async fn over(store: Backend, seen_by_two: Backend, settings: Settings) -> (TestApp, TestApp) {
    let one = TestApp::over(store, "test-1", settings.clone()).await;
    let two = TestApp::over(seen_by_two, "test-2", settings).await;
    let met = || one.engine.peers().len() == 1 && two.engine.peers().len() == 1;
    assert!(wait_until(Duration::from_secs(5), met).await, "they do not see each other");
    (one, two)
}

/// Waits until an instance knows of a node of the other one.
async fn hears_of(app: &TestApp, node: &str) {
    let known = || app.engine.node_view(&node.parse().unwrap()).is_some();
    assert!(wait_until(Duration::from_secs(5), known).await, "nobody hears of {node}");
}

/// The job is tried on this node too, and ends there.
async fn ends_on(node: &mut ScriptedNode, job: &Job) {
    let again = node.next_of("job_assign").await.unwrap();
    node.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(job).await, "elsewhere");
}

/// How many words of others an instance has dealt with.
fn received(app: &TestApp) -> u64 {
    app.counter("lingua_bus_words_total{what=\"received\"}")
}

/// I1: while the store is told late what a node ran, the node takes a job; that it did not name it is
/// no reason to give its slot away.
#[tokio::test]
async fn a_report_that_is_older_than_a_job_does_not_take_its_slot() {
    let gate = Gate::new();
    let store = held::beats(MemoryStore::open(Clock::system()), &gate);
    let app = TestApp::over(store, "test-1", hasty()).await;
    let (mut a, mut b) = (node(&app, "a").await, node(&app, "b").await);
    gate.close();
    a.heartbeat(json!({ "running": [] })).await.unwrap();
    gate.has_caught().await;
    let job = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    // So long that its youth alone would not save it.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    gate.open();
    b.hears_nothing_for(Duration::from_millis(500)).await.unwrap();
    assert_eq!((app.used("a").await, job.view().state), (1, JobState::Acked));
    a.result(&assign, "kept").await.unwrap();
    assert_eq!(done(&job).await, "kept");
    app.finish().await;
}

/// I1: the store is told so late that a node took a job that the lease has run out by then. The node
/// works on it all the same, and gets no other in its place.
#[tokio::test]
async fn a_lease_that_runs_out_is_not_a_job_that_is_over() {
    let gate = Gate::new();
    let store = held::commits(MemoryStore::open(Clock::system()), &gate);
    let app = TestApp::over(store, "test-1", hasty()).await;
    let small = NodeOptions { max_concurrent_jobs: Some(1), ..options(&app, "a").without("ack") };
    let mut a = FakeNode::scripted(small).await.unwrap();
    gate.close();
    let first = job().submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    gate.has_caught().await;
    let lapsed = async {
        while app.used("a").await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), lapsed).await.unwrap();
    let second = job().submit(&app);
    let refused = || app.counter("lingua_reserve_total{outcome=\"lapsed\"}") > 0;
    assert!(wait_until(Duration::from_secs(3), refused).await, "nobody wants the slot");
    a.hears_nothing_for(Duration::from_millis(300)).await.unwrap();
    a.result(&assign, "first").await.unwrap();
    gate.open();
    assert_eq!(done(&first).await, "first");
    let assign = a.next_of("job_assign").await.unwrap();
    a.result(&assign, "second").await.unwrap();
    assert_eq!(done(&second).await, "second");
    app.finish().await;
}

/// I1: an assign that was so long on its way that its job has looked elsewhere does not reach the node.
#[tokio::test]
async fn an_assign_that_comes_too_late_is_not_sent() {
    let (near, far, gate) = two(MemoryStore::open(Clock::system()), hasty()).await;
    let (mut a, mut b) = (node(&far, "a").await, node(&near, "b").await);
    hears_of(&near, "a").await;
    gate.close();
    let job = job().prefer("a").submit(&near);
    gate.has_caught().await;
    let assign = b.next_of("job_assign").await.unwrap();
    assert_eq!(assign["attempt_id"], json!(2));
    // That it was given up comes later still.
    gate.let_one_in();
    a.hears_nothing_for(Duration::from_millis(500)).await.unwrap();
    gate.open();
    b.result(&assign, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    far.finish().await;
    near.finish().await;
}

/// A node that lost its memory says so to its instance when it registers. That the instance of its job
/// asks for that job in the meantime does not keep it there.
#[tokio::test]
async fn a_job_that_its_node_forgot_is_not_kept_by_being_asked_for() {
    asked_for_before_the_node_is_heard(false).await;
}

/// The same when the node was with the instance of its job before.
#[tokio::test]
async fn a_job_that_a_node_from_elsewhere_forgot_is_not_kept_by_being_asked_for() {
    asked_for_before_the_node_is_heard(true).await;
}

async fn asked_for_before_the_node_is_heard(moves: bool) {
    let (store, gate) = (MemoryStore::open(Clock::system()), Gate::new());
    let (near, far) = over(store.clone(), held::beats(store, &gate), hasty()).await;
    let first = if moves { &near } else { &far };
    let (mut a, mut b) = (node(first, "a").await, node(&near, "b").await);
    hears_of(&near, "a").await;
    let job = job().prefer("a").submit(&near);
    a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    // So long that its youth alone would not save it.
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    gate.close();
    a.abort();
    let asked_for = received(&far);
    let back = options(&far, "a").without("ack").register_with(json!({ "running": [] }));
    let _back = FakeNode::scripted(back).await.unwrap();
    let asked = || received(&far) > asked_for;
    assert!(wait_until(Duration::from_secs(5), asked).await, "nobody asks for the job");
    gate.open();
    ends_on(&mut b, &job).await;
    far.finish().await;
    near.finish().await;
}

/// Nor is it waited for when the node's new instance hears only then that somebody waits.
#[tokio::test]
async fn a_job_that_its_node_forgot_on_its_way_elsewhere_is_tried_again() {
    let (near, far, gate) = two(MemoryStore::open(Clock::system()), hasty()).await;
    let (mut a, mut b) = (node(&near, "a").await, node(&near, "b").await);
    let job = job().prefer("a").submit(&near);
    a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    gate.close();
    let back = options(&far, "a").without("ack").register_with(json!({ "running": [] }));
    let mut back = FakeNode::scripted(back).await.unwrap();
    gate.has_caught().await;
    // What it says now is dealt with before anybody asks.
    back.heartbeat(json!({ "running": [] })).await.unwrap();
    back.next_of("heartbeat_ack").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.open();
    ends_on(&mut b, &job).await;
    far.finish().await;
    near.finish().await;
}

/// I11: while a job waits for the store, its node on another instance says the same again and again. The
/// result that follows is heard all the same.
#[tokio::test]
async fn a_result_gets_through_behind_words_that_nobody_has_heard_yet() {
    let (store, gate) = (MemoryStore::open(Clock::system()), Gate::new());
    let (far, near) = over(store.clone(), held::commits(store, &gate), calm()).await;
    let mut a = node(&far, "a").await;
    hears_of(&near, "a").await;
    gate.close();
    let job = job().submit(&near);
    let assign = a.next_of("job_assign").await.unwrap();
    gate.has_caught().await;
    let before = received(&near);
    for _ in 0..50 {
        a.ack(&assign).await.unwrap();
    }
    a.result(&assign, "heard").await.unwrap();
    let all = || received(&near) > before + 50;
    assert!(wait_until(Duration::from_secs(5), all).await, "not all words came");
    gate.open();
    assert_eq!(done(&job).await, "heard");
    near.finish().await;
    far.finish().await;
}

/// A speaker who has gone from an instance that stops to another one, while the node still works on
/// the sentence.
struct GoneAhead {
    client: Speaker,
    node: ScriptedNode,
    assign: Value,
    stopping: JoinHandle<()>,
}

async fn gone_ahead(app: TestApp, other: &TestApp) -> GoneAhead {
    let mut node = FakeNode::scripted(options(&app, "a")).await.unwrap();
    let mut client = Speaker::connect(SpeakerOptions::new(app.ws("/ws/session"))).await.unwrap();
    client.marked_sentence(Mark { speaker: 1, sentence: 0 }, 200).await.unwrap();
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.ack(&assign).await.unwrap();
    client.next_of("audio_ack").await.unwrap();
    let stopping = tokio::spawn(app.stop());
    client.next_of("go_away").await.unwrap();
    client.close(1000, "").await.unwrap();
    client.options_mut().url = other.ws("/ws/session");
    assert_eq!(client.resume().await.unwrap().recovered, Some(true));
    GoneAhead { client, node, assign, stopping }
}

impl GoneAhead {
    async fn end(mut self, other: TestApp) {
        self.stopping.await.unwrap();
        self.client.close_session("done").await.unwrap();
        self.client.next_of("session_close_ack").await.unwrap();
        other.finish().await;
    }
}

/// I16: an instance that stops stays until a translation whose speaker has gone ahead is fetched from it.
#[tokio::test]
async fn an_ending_is_fetched_before_its_instance_is_gone() {
    let (app, other, gate) = two(MemoryStore::open(Clock::system()), calm()).await;
    let mut gone = gone_ahead(app, &other).await;
    gate.close();
    gone.node.result(&gone.assign, "first").await.unwrap();
    gate.has_caught().await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    gate.open();
    let ending = gone.client.ending().await.unwrap();
    assert_eq!((ending.kind(), ending.index()), ("translation_result", Some(0)), "{ending:?}");
    gone.end(other).await;
}

/// I16: an ending in which there is nothing to fetch is at least with the bus by then.
#[tokio::test]
async fn an_ending_is_sent_before_its_instance_is_gone() {
    let (store, gate) = (MemoryStore::open(Clock::system()), Gate::new());
    let (other, app) = over(store.clone(), held::outbox(store, &gate), calm()).await;
    let mut gone = gone_ahead(app, &other).await;
    gate.close();
    let nothing = json!({ "success": true, "extra": { "reason": "ASR_EMPTY" } });
    gone.node.about(&gone.assign, "job_result", nothing).await.unwrap();
    gate.has_caught().await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(!gone.stopping.is_finished(), "it went with an ending in its hands");
    gate.open();
    assert_eq!(gone.client.ending().await.unwrap().index(), Some(0));
    gone.end(other).await;
}
