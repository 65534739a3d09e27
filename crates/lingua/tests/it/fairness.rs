//! Two tenants, one of which asks for a hundred times as much as the other: the other keeps its share.

use crate::app;
use crate::gated::Line;
use crate::tokens;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use app::jobs::job;
use app::{On, TestApp, quick};
use lingua_core::TenantId;
use lingua_engine::Settings;
use lingua_engine::job::Ended;
use lingua_engine::jobs::Job;
use lingua_lab::fake_node::Latency;
use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions};
use serde_json::json;
use tokens::Guarded;
use tokio::time::{Instant, interval, sleep_until};

const NODES: u32 = 2;
const SLOTS: u32 = 3;
const JOB_MS: u64 = 200;
/// What the nodes can do in a second at most.
const CAPACITY: f64 = (NODES * SLOTS) as f64 * 1_000.0 / JOB_MS as f64;
/// Until the lines are as full as they will be, and then as long as is counted.
const FILLING: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_secs(8);

/// What became of a tenant's jobs within the time that is counted.
#[derive(Debug, Default)]
struct Got {
    asked: usize,
    done: usize,
    refused: Vec<String>,
}

/// When a job was handed in, and the job, or why it was refused at once.
type Handed = (Instant, Result<Arc<Job>, String>);

fn settings() -> Settings {
    let mut settings = quick();
    settings.timing.queue_max_ms = 6_000;
    settings.timing.deadline_ms = 12_000;
    settings.timing.check().unwrap();
    settings
}

async fn fleet(app: &TestApp) -> Vec<FakeNode> {
    let mut nodes = Vec::new();
    for n in 0..NODES {
        let node = NodeOptions::new(app.ws("/ws/node")).node_id(format!("n-{n}"));
        let latency = Latency::Fixed { ms: JOB_MS };
        let behaviour = Behaviour { latency, ..Behaviour::default() };
        let node = node.languages(&["en", "zh", "de"]).max_jobs(SLOTS).behaviour(behaviour);
        nodes.push(FakeNode::connect(node).await.unwrap());
    }
    nodes
}

/// Hands in so many jobs of this tenant a second until the end, evenly, whatever becomes of them.
async fn asks(app: Arc<TestApp>, tenant: &'static str, per_second: f64, from: Instant) -> Got {
    let until = from + COUNTED;
    let mut jobs: Vec<Handed> = Vec::new();
    let mut turns =
        interval(Duration::from_secs_f64(1.0 / per_second).max(Duration::from_millis(5)));
    let began = Instant::now();
    let mut before = None;
    while Instant::now() < until {
        turns.tick().await;
        if before.is_none() && Instant::now() >= from {
            before = Some(done(&jobs));
        }
        let due = (began.elapsed().as_secs_f64() * per_second) as usize;
        while jobs.len() < due {
            // Whoever floods uses whatever is there.
            let target = if jobs.len().is_multiple_of(3) { "de" } else { "zh" };
            let target = if tenant == "quiet" { "zh" } else { target };
            let job = job().tenant(tenant).pair("en", target);
            let names = tenant != "quiet" && jobs.len() % 4 == 1;
            let job = if names { job.prefer("n-0") } else { job }.try_submit(&app);
            let job = job.map_err(|refusal| refusal.code_text().to_owned());
            jobs.push((Instant::now(), job));
        }
    }
    let mut got = Got { done: done(&jobs) - before.unwrap(), ..Got::default() };
    for (at, job) in jobs {
        let counts = at >= from;
        got.asked += usize::from(counts);
        match job {
            Ok(job) => match job.ended_within(Duration::from_secs(20)).await.ended {
                Some(Ended::Failed(refusal)) if counts => {
                    got.refused.push(refusal.code_text().to_owned());
                }
                Some(_) => {}
                None => panic!("a job of {tenant} never ended"),
            },
            Err(code) if counts => got.refused.push(code),
            Err(_) => {}
        }
    }
    got
}

/// Those that have a result by now.
fn done(jobs: &[Handed]) -> usize {
    let done = |job: &Arc<Job>| matches!(job.view().ended, Some(Ended::Done(_)));
    jobs.iter().filter(|(_, job)| job.as_ref().is_ok_and(done)).count()
}

/// One tenant floods, the other asks for so much a second: what each got, and how much was done in all
/// within the time.
async fn flood(on: On, settings: Settings, quiet: f64) -> (Got, Got, f64) {
    let app = Arc::new(TestApp::start(on, settings).await);
    let nodes = fleet(&app).await;
    let done = |nodes: &[FakeNode]| nodes.iter().map(|node| node.stats().done).sum::<u64>();
    let from = Instant::now() + FILLING;
    let flooding = tokio::spawn(asks(Arc::clone(&app), "flood", quiet * 100.0, from));
    let asking = tokio::spawn(asks(Arc::clone(&app), "quiet", quiet, from));
    sleep_until(from).await;
    let before = done(&nodes);
    sleep_until(from + COUNTED).await;
    let served = (done(&nodes) - before) as f64;
    let (quiet, flood) = (asking.await.unwrap(), flooding.await.unwrap());
    drop(nodes);
    Arc::into_inner(app).unwrap().abandon();
    (quiet, flood, served)
}

/// Says what the quiet one is to have at least, of what was served.
fn keeps(quiet: &Got, share: f64, served: f64) {
    let fair = (quiet.asked as f64).min(served * share);
    assert!(quiet.done as f64 >= 0.95 * fair, "{} of {fair}: {quiet:?}", quiet.done);
    // Slots are not left idle for the sake of fairness.
    let possible = CAPACITY * COUNTED.as_secs_f64();
    assert!(served >= 0.7 * possible, "{served} of {possible}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_less_than_its_share_gets_all_of_it() {
    let _turn = crate::app::heavy_turn().await;
    let (quiet, flood, served) = flood(On::Memory, settings(), CAPACITY / 4.0).await;
    keeps(&quiet, 0.5, served);
    assert_eq!(quiet.refused, [""; 0]);
    assert!(flood.asked > 90 * quiet.asked, "{} and {}", flood.asked, quiet.asked);
    assert!(flood.refused.len() > flood.done, "it is a flood");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_its_whole_share_gets_it() {
    let _turn = crate::app::heavy_turn().await;
    let (quiet, flood, served) = flood(On::Memory, settings(), CAPACITY / 2.0).await;
    keeps(&quiet, 0.5, served);
    assert_eq!(quiet.refused, [""; 0]);
    assert!(flood.asked > 90 * quiet.asked, "{} and {}", flood.asked, quiet.asked);
}

/// The way to the store is longer, and so is the moment in which a slot is free and not yet taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_its_whole_share_gets_it_over_redis() {
    let _turn = crate::app::heavy_turn().await;
    let (quiet, flood, served) = flood(On::Redis, settings(), CAPACITY / 2.0).await;
    keeps(&quiet, 0.5, served);
    assert_eq!(quiet.refused, [""; 0]);
    assert!(flood.asked > 90 * quiet.asked, "{} and {}", flood.asked, quiet.asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_share_is_kept_too() {
    let _turn = crate::app::heavy_turn().await;
    let mut settings = settings();
    settings.admission.shares = HashMap::from([(TenantId::new("quiet").unwrap(), 3)]);
    let (quiet, _, served) = flood(On::Memory, settings, CAPACITY * 0.7).await;
    keeps(&quiet, 0.75, served);
    assert_eq!(quiet.refused, [""; 0]);
}

/// A job of the tenant whose token it is, and when to come again.
async fn hand_in(to: &HttpClient) -> (u16, String, Option<u64>) {
    let job = json!({ "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA" });
    let reply = to.post("/v1/dispatch/f2f", &job).await.unwrap();
    let retry = reply.header("retry-after").map(|seconds| seconds.parse().unwrap());
    let code = reply.json().unwrap_or_default()["error"].as_str().unwrap_or_default().to_owned();
    (reply.status, code, retry)
}

/// A scheduler with these limits, a slow node, and a client for each of two tenants.
async fn limited(limits: &'static str) -> (Guarded, FakeNode, [HttpClient; 2]) {
    let limits = format!("{limits}\n[nodes]\nslow_start = \"off\"");
    let guarded = tokio::task::spawn_blocking(move || Guarded::start(&limits)).await.unwrap();
    let slow = Behaviour { latency: Latency::Fixed { ms: 3_000 }, ..Behaviour::default() };
    let url = format!("ws://{}/ws/node", guarded.lingua.address());
    let node = NodeOptions::new(url).node_id("n").languages(&["en", "zh"]).max_jobs(32);
    let node = node.behaviour(slow).bearer(&guarded.mint("node", "n", &[]));
    let node = FakeNode::connect(node).await.unwrap();
    let clients = ["one", "other"].map(|tenant| {
        let token = guarded.mint("session", "app", &["--tenant", tenant]);
        HttpClient::new(guarded.url()).bearer(&token).unwrap()
    });
    (guarded, node, clients)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_tenant_has_so_many_jobs_open_and_the_other_as_many_beside() {
    let (_guarded, node, [one, other]) = limited("[limits]\njobs_per_tenant = 2").await;
    for _ in 0..2 {
        assert_eq!(hand_in(&one).await.0, 200);
    }
    let (status, code, retry) = hand_in(&one).await;
    assert_eq!((status, code.as_str()), (429, "QUOTA_EXCEEDED"));
    assert!((1..=5).contains(&retry.unwrap()), "{retry:?}");
    for _ in 0..2 {
        assert_eq!(hand_in(&other).await.0, 200, "the limit is each one's own");
    }
    assert_eq!(hand_in(&other).await.0, 429);
    let ended = || node.stats().done >= 2;
    assert!(app::wait_until(Duration::from_secs(20), ended).await);
    let end = Instant::now() + Duration::from_secs(10);
    while hand_in(&one).await.0 != 200 {
        assert!(Instant::now() < end, "there is room again when jobs have ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_tenant_hands_in_so_many_a_second_and_the_other_as_many_beside() {
    let limits = "[limits]\njobs_per_tenant_per_s = 2";
    let (_guarded, _node, [one, other]) = limited(limits).await;
    let mut taken = 0;
    let (began, mut retry) = (Instant::now(), None);
    for _ in 0..20 {
        let (status, code, after) = hand_in(&one).await;
        match status {
            200 => taken += 1,
            _ => {
                assert_eq!((status, code.as_str()), (429, "RATE_LIMITED"));
                retry = after;
            }
        }
    }
    // A second's worth at once, and what has come due since.
    let most = 2 + (began.elapsed().as_secs_f64() * 2.0) as usize + 1;
    assert!((2..=most).contains(&taken), "{taken} of {most}");
    assert_eq!(retry, Some(1), "in whole seconds, rounded up");
    assert_eq!(hand_in(&other).await.0, 200, "the rate is each one's own");
    tokio::time::sleep(Duration::from_secs(retry.unwrap())).await;
    assert_eq!(hand_in(&one).await.0, 200, "it may come when it was told to");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_subject_does_not_use_up_its_tenants_limits() {
    let limits = "[limits]\ncalls_per_subject_per_s = 3\nsessions_per_subject = 2";
    let guarded = tokio::task::spawn_blocking(|| Guarded::start(limits)).await.unwrap();
    let token = |subject: &str| guarded.mint("session", subject, &["--tenant", "acme"]);
    let client = |subject: &str| HttpClient::new(guarded.url()).bearer(&token(subject)).unwrap();
    let (one, other) = (client("one"), client("other"));
    let (mut good, mut limited) = (0, None);
    for _ in 0..30 {
        let reply = one.get("/v1/languages").await.unwrap();
        match reply.status {
            200 => good += 1,
            _ => limited = Some((reply.status, reply.json().unwrap()["error"].clone())),
        }
    }
    assert!((3..30).contains(&good), "{good}");
    assert_eq!(limited, Some((429, json!("RATE_LIMITED"))));
    assert_eq!(other.get("/v1/languages").await.unwrap().status, 200, "another one of the tenant");

    let mut open = Vec::new();
    for (subject, answer) in [
        ("one", "session_init_ack"),
        ("one", "session_init_ack"),
        ("one", "error"),
        ("other", "session_init_ack"),
    ] {
        let mut line =
            Line::open(guarded.lingua.address(), "/ws/session", Some(&token(subject))).await;
        line.say(&json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
            "tgt_lang": "zh"}))
            .await;
        let heard = line.hear().await;
        assert_eq!(heard["type"], answer, "{heard}");
        if answer == "error" {
            assert_eq!(heard["code"], "QUOTA_EXCEEDED", "{heard}");
            assert_eq!(line.hear().await["close"], 1013);
        }
        open.push(line);
    }
}
