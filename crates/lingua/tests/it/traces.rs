//! What a collector is told of jobs and conversations, and what it costs them when it is away.

mod collector_faults;

use crate::app;
use crate::app::http;
use crate::collector;

use std::time::Duration;

use app::jobs::{self, done};
use app::{On, TestApp, calm};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use collector::{Collector, Mood, Seen};
use lingua_lab::speech::{Codec, Mark, Signal};
use lingua_lab::{FakeNode, HttpClient, NodeOptions, ScriptedNode, Speaker, SpeakerOptions};
use lingua_server::otlp::{Exporter, Pace};
use serde_json::{Value, json};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CALLER_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER_SPAN: &str = "00f067aa0ba902b7";
/// What is said and heard, and must be found nowhere else.
const CANARY: &str = "the canary sings at dawn";

/// Nothing takes long.
fn pace() -> Pace {
    Pace {
        gather: Duration::from_millis(20),
        request: Duration::from_millis(300),
        pause: Duration::from_millis(20),
        give_up: Duration::from_millis(500),
        last: Duration::from_millis(500),
    }
}

async fn traced(on: On, share: f64, mood: Mood) -> (TestApp, Collector, Exporter) {
    let app = TestApp::start(on, calm()).await;
    let collector = Collector::start(mood).await;
    let exporter = export(&app, &collector.url(), share);
    (app, collector, exporter)
}

fn export(app: &TestApp, url: &str, share: f64) -> Exporter {
    Exporter::start(&app.engine, url.parse().unwrap(), share, pace()).unwrap()
}

async fn finish(app: TestApp, exporter: Exporter) {
    app.finish().await;
    exporter.end().await;
}

async fn node(app: &TestApp, id: &str) -> ScriptedNode {
    let options = NodeOptions {
        patience: Duration::from_secs(15),
        ..NodeOptions::new(app.ws("/ws/node")).node_id(id)
    };
    let node = FakeNode::scripted(options).await.unwrap();
    app.meets(id).await;
    node
}

/// The next assign, acked.
async fn take(node: &mut ScriptedNode) -> Value {
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.ack(&assign).await.unwrap();
    assign
}

async fn speaker(app: &TestApp, init: Value) -> Speaker {
    let options = SpeakerOptions::new(app.ws("/ws/session")).patience(Duration::from_secs(15));
    Speaker::connect(options.init_with(init)).await.unwrap()
}

async fn leave(app: &TestApp, mut speaker: Speaker) {
    speaker.close_session("done").await.unwrap();
    speaker.next_of("session_close_ack").await.unwrap();
    drop(speaker);
    let gone = || app.engine.sessions.count() == 0;
    assert!(app::wait_until(Duration::from_secs(15), gone).await);
}

fn speech(n: u32) -> bytes::Bytes {
    let mark = Mark { speaker: 1, sentence: n };
    Codec::Opus.speech(Signal::Babble, 300, Some(mark), u64::from(n))
}

fn named<'a>(spans: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn children<'a>(spans: &'a [Seen], of: &Seen) -> Vec<&'a Seen> {
    let child = |span: &&Seen| span.parent.as_deref() == Some(&of.id) && span.trace == of.trace;
    let mut found: Vec<&Seen> = spans.iter().filter(child).collect();
    found.sort_by_key(|span| span.start);
    found
}

fn names(spans: &[&Seen]) -> Vec<String> {
    spans.iter().map(|span| span.name.clone()).collect()
}

/// Every step lies within what it is a step of.
fn check_times(spans: &[Seen]) {
    for span in spans {
        for child in children(spans, span) {
            let within = span.start <= child.start && child.end <= span.end;
            assert!(within, "{child:#?} is not within {span:#?}");
        }
    }
}

fn count(app: &TestApp, outcome: &str) -> u64 {
    let line = format!("lingua_spans_total{{outcome=\"{outcome}\"}} ");
    let text = app.engine.metrics().render();
    text.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |n| n.parse().unwrap())
}

async fn counted(app: &TestApp, outcome: &str, least: u64) {
    let enough = || count(app, outcome) >= least;
    let met = app::wait_until(Duration::from_secs(15), enough).await;
    assert!(met, "{} {outcome}, not {least}", count(app, outcome));
}

async fn hand_in(app: &TestApp, traceparent: &[&str]) -> Value {
    let mut client = HttpClient::new(app.http(""));
    for value in traceparent {
        client = client.header("traceparent", value).unwrap();
    }
    client.post("/v1/dispatch/f2f", &http::job("room")).await.unwrap().ok().unwrap()
}

fn nothing_said_was_exported(collector: &Collector, assign: &Value) {
    let sent = String::from_utf8(collector.raw()).unwrap();
    assert!(!sent.contains(CANARY) && !sent.contains("canary"), "text was exported");
    for n in [1, 2] {
        let audio = STANDARD.encode(speech(n));
        assert!(!sent.contains(&audio[..40]) && audio.len() > 400, "speech was exported");
    }
    let token = assign["lease_token"].as_str().unwrap();
    assert!(!sent.contains(token), "a lease was exported");
}

/// A sentence in a session, whose first node fails: the tree of its trace.
async fn a_conversation_is_told_from_session_to_node(on: On) {
    let (app, collector, exporter) = traced(on, 1.0, Mood::Well).await;
    let mut first = node(&app, "n-1").await;
    let mut client = speaker(&app, json!({})).await;
    let session = client.session_id().to_owned();
    client.whole(0, speech(1), json!({})).await.unwrap();
    let other = take(&mut first).await;
    first.result(&other, CANARY).await.unwrap();
    client.ending().await.unwrap();
    client.whole(1, speech(2), json!({"trace_id": "mine"})).await.unwrap();
    let failed = take(&mut first).await;
    let mut second = node(&app, "n-2").await;
    first.fail(&failed, "GPU_LOST").await.unwrap();
    let assign = take(&mut second).await;
    second.result(&assign, CANARY).await.unwrap();
    assert_eq!(client.ending().await.unwrap()["type"], "translation_result");
    leave(&app, client).await;

    let spans = collector.has("session", 1).await;
    let all = collector.has("utterance", 2).await;
    assert!(all.len() >= spans.len());
    check_times(&all);
    let session_span = named(&all, "session")[0];
    assert_eq!(
        (session_span.says("session.id"), session_span.says("reason")),
        (&*session, "closed")
    );
    assert_eq!((session_span.says("utterances"), session_span.kind), ("2", 2));
    assert!(session_span.parent.is_none());

    let utterances = named(&all, "utterance");
    assert_ne!(utterances[0].trace, utterances[1].trace, "nodes cannot tell who spoke before");
    for utterance in &utterances {
        assert_ne!(utterance.trace, session_span.trace);
        let link = (session_span.trace.clone(), session_span.id.clone());
        assert_eq!(utterance.links, [link], "it leads to its session");
        assert_eq!((utterance.says("session.id"), utterance.says("reason")), (&*session, "ok"));
    }
    let utterance = utterances.iter().find(|span| span.says("trace_id") == "mine").unwrap();
    let below = children(&all, utterance);
    let [job] = below[..] else { panic!("one job: {below:#?}") };
    assert_eq!((job.says("pair"), job.says("reason"), job.error), ("en->zh", "ok", false));
    assert_eq!((job.says("instance.id"), &*job.instance), ("test-1", "test-1"));
    assert_eq!((job.says("trace_id"), job.says("job.id").len()), ("mine", 26));

    let attempts = children(&all, job);
    let [one, two] = attempts[..] else { panic!("two attempts: {attempts:#?}") };
    let of_nodes = app.of_nodes().engine.instance().id.to_string();
    for (attempt, node, number, reason, told) in
        [(one, "n-1", "1", "GPU_LOST", &failed), (two, "n-2", "2", "ok", &assign)]
    {
        assert_eq!((attempt.name.as_str(), attempt.kind), ("attempt", 3));
        assert_eq!((attempt.says("node.id"), attempt.says("attempt")), (node, number));
        assert_eq!((attempt.says("reason"), attempt.error), (reason, reason != "ok"));
        assert_eq!(attempt.says("instance.id"), of_nodes, "who has the node's connection");
        assert_eq!(attempt.says("job.id"), job.says("job.id"));
        let steps = children(&all, attempt);
        assert_eq!(names(&steps), ["place", "ack", "execute"]);
        let asked = children(&all, steps[0]);
        assert_eq!(names(&asked), ["reserve"]);
        assert_eq!((asked[0].says("node.id"), asked[0].says("reason")), (node, "granted"));
        assert_eq!(told["traceparent"], attempt.traceparent(), "the node's own go on from there");
    }
    assert_ne!(assign["job_id"], job.says("job.id"), "which the node knows by another name");

    nothing_said_was_exported(&collector, &assign);
    counted(&app, "exported", collector.spans().len() as u64).await;
    assert_eq!((count(&app, "dropped"), count(&app, "refused")), (0, 0));
    finish(app, exporter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_told_from_session_to_node_here() {
    a_conversation_is_told_from_session_to_node(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_told_from_session_to_a_node_of_another_instance() {
    a_conversation_is_told_from_session_to_node(On::FarMemory).await;
}

#[tokio::test]
async fn a_callers_span_is_the_parent() {
    // Nothing would be traced but for the callers.
    let (app, collector, exporter) = traced(On::Memory, 0.0, Mood::Well).await;
    let mut node = node(&app, "n-1").await;
    hand_in(&app, &[CALLER]).await;
    let assign = take(&mut node).await;
    node.result(&assign, "yes").await.unwrap();
    let spans = collector.has("job", 1).await;
    let job = named(&spans, "job")[0];
    assert_eq!((job.trace.as_str(), job.parent.as_deref()), (CALLER_TRACE, Some(CALLER_SPAN)));
    assert_eq!((job.kind, job.says("session.id")), (2, "room"));
    assert!(assign["traceparent"].as_str().unwrap().starts_with(&format!("00-{CALLER_TRACE}-")));

    let mut client = speaker(&app, json!({ "traceparent": CALLER })).await;
    client.whole(0, speech(1), json!({})).await.unwrap();
    let assign = take(&mut node).await;
    node.result(&assign, "yes").await.unwrap();
    client.ending().await.unwrap();
    let own = CALLER.replace("4bf9", "aaaa");
    client.whole(1, speech(2), json!({ "traceparent": own })).await.unwrap();
    let assign = take(&mut node).await;
    node.result(&assign, "yes").await.unwrap();
    client.ending().await.unwrap();
    leave(&app, client).await;
    let spans = collector.has("session", 1).await;
    let session = named(&spans, "session")[0];
    assert_eq!(
        (session.trace.as_str(), session.parent.as_deref()),
        (CALLER_TRACE, Some(CALLER_SPAN))
    );
    let utterances = named(&spans, "utterance");
    let by_caller = |span: &&&Seen| span.parent.is_some();
    let of_caller = utterances.iter().find(by_caller).unwrap();
    assert_eq!(of_caller.trace, CALLER_TRACE.replace("4bf9", "aaaa"));
    assert_eq!(of_caller.parent.as_deref(), Some(CALLER_SPAN));
    let of_session = utterances.iter().find(|span| span.parent.is_none()).unwrap();
    assert_ne!(of_session.trace, CALLER_TRACE, "nodes cannot follow the session by it");
    finish(app, exporter).await;
}

#[tokio::test]
async fn what_is_no_traceparent_is_no_error_and_counts_as_none() {
    let (app, collector, exporter) = traced(On::Memory, 0.0, Mood::Well).await;
    let mut node = node(&app, "n-1").await;
    let upper = CALLER.to_uppercase();
    for wrong in ["", "nonsense", &upper, &CALLER[..54]] {
        hand_in(&app, &[wrong]).await;
        let assign = take(&mut node).await;
        assert_eq!(assign.get("traceparent"), None, "{wrong:?}");
        node.result(&assign, "yes").await.unwrap();
    }
    let mut client = speaker(&app, json!({ "traceparent": 5 })).await;
    for (n, wrong) in
        [json!({}), json!(""), json!("x"), json!([CALLER]), json!(null)].iter().enumerate()
    {
        client.whole(n as u64, speech(n as u32), json!({ "traceparent": wrong })).await.unwrap();
        let assign = take(&mut node).await;
        assert_eq!(assign.get("traceparent"), None, "{wrong}");
        node.result(&assign, "yes").await.unwrap();
        assert_eq!(client.ending().await.unwrap()["type"], "translation_result");
    }
    leave(&app, client).await;
    finish(app, exporter).await;
    assert_eq!(collector.requests(), 0);
}

#[tokio::test]
async fn whoever_does_not_record_is_passed_on_as_it_is() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Well).await;
    let mut node = node(&app, "n-1").await;
    let quiet = CALLER.replace("-01", "-00");
    hand_in(&app, &[&quiet]).await;
    let assign = take(&mut node).await;
    assert_eq!(assign["traceparent"], quiet);
    node.result(&assign, "yes").await.unwrap();
    finish(app, exporter).await;
    assert_eq!(collector.requests(), 0, "the caller records nothing, so nothing is recorded here");
}

#[tokio::test]
async fn without_a_collector_nothing_is_traced_and_callers_are_passed_on() {
    let app = TestApp::start(On::Memory, calm()).await;
    let mut node = node(&app, "n-1").await;
    hand_in(&app, &[]).await;
    let assign = take(&mut node).await;
    assert_eq!(assign.get("traceparent"), None);
    node.result(&assign, "yes").await.unwrap();
    hand_in(&app, &[CALLER]).await;
    let assign = take(&mut node).await;
    assert_eq!(assign["traceparent"], CALLER, "the node's spans are still the caller's");
    node.result(&assign, "yes").await.unwrap();
    let rendered = app.engine.metrics().render();
    let spans: Vec<&str> =
        rendered.lines().filter(|line| line.starts_with("lingua_spans_total")).collect();
    assert!(!spans.is_empty() && spans.iter().all(|line| line.ends_with(" 0")), "{spans:?}");
    app.finish().await;
}

#[tokio::test]
async fn a_job_that_finds_nobody_says_why() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Well).await;
    let job = jobs::job().submit(&app);
    assert_eq!(jobs::code(&job).await, "NO_CAPABLE_NODE");
    let spans = collector.has("job", 1).await;
    let job = named(&spans, "job")[0];
    assert_eq!((job.says("reason"), job.error), ("NO_CAPABLE_NODE", true));
    let attempts = children(&spans, job);
    assert_eq!(names(&attempts), ["attempt"]);
    assert_eq!((attempts[0].says("node.id"), attempts[0].error), ("", true));
    assert_eq!(names(&children(&spans, attempts[0])), ["place"]);
    finish(app, exporter).await;
}

#[tokio::test]
async fn time_in_line_is_told() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Well).await;
    let options = NodeOptions {
        patience: Duration::from_secs(15),
        ..NodeOptions::new(app.ws("/ws/node")).node_id("n-1").max_jobs(1)
    };
    let mut node = FakeNode::scripted(options).await.unwrap();
    let first = jobs::job().submit(&app);
    let assign = take(&mut node).await;
    let second = jobs::job().submit(&app);
    jobs::is(&second, lingua_core::job::JobState::Waiting).await;
    node.result(&assign, "yes").await.unwrap();
    let assign = take(&mut node).await;
    node.result(&assign, "yes").await.unwrap();
    done(&first).await;
    done(&second).await;
    let spans = collector.has("job", 2).await;
    check_times(&spans);
    let waits = named(&spans, "wait");
    assert!(!waits.is_empty());
    let place = spans.iter().find(|span| Some(&span.id) == waits[0].parent.as_ref()).unwrap();
    assert_eq!(place.name, "place");
    finish(app, exporter).await;
}
