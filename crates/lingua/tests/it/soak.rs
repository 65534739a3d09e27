//! Hundreds of people talk while everything around them fails now and then: every sentence has one
//! ending, in order and in time, and no byte of it is lost, doubled or mixed up.
//!
//! Half a minute by default; `LINGUA_SOAK_SECONDS=600` for the long form. By default it runs on the
//! embedded store; `LINGUA_SOAK_STORE=file` keeps it in a directory, and `redis` starts a private redis-server. The seed is printed.

use crate::app;

use std::time::Duration;

use app::{On, TestApp, wait_until};
use lingua_core::link::SlowStart;
use lingua_engine::Settings;
use lingua_lab::fake_node::Latency;
use lingua_lab::speaker::{Pace, Report, Script, Sentences};
use lingua_lab::{AutoSpeaker, Behaviour, FakeNode, FaultProxy, NodeOptions, SpeakerOptions};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

const SPEAKERS: u32 = 200;
const NODES: u64 = 24;
const DEADLINE_MS: u64 = 12_000;

/// Times are short enough that every fault is met, long enough that a busy machine is none.
fn settings() -> Settings {
    let mut settings = Settings::stable();
    settings.slow_start = SlowStart::Off;
    settings.restart_hold_ms = 0;
    settings.timing.heartbeat_ms = 1_000;
    settings.timing.running_lease_ms = 3_000;
    settings.timing.exec_max_ms = 3_000;
    settings.timing.queue_max_ms = 1_500;
    settings.timing.deadline_ms = DEADLINE_MS;
    settings.timing.resume_window_ms = 15_000;
    settings.reconnect_grace_ms = 500;
    settings.timing.check().unwrap();
    settings
}

fn unreliable(seed: u64) -> Behaviour {
    Behaviour {
        latency: Latency::Spread { p50_ms: 150, p99_ms: 1_200 },
        fail: 0.03,
        reject: 0.03,
        drop_ack: 0.01,
        never_answer: 0.01,
        crash: 0.003,
        crash_pause: Duration::from_millis(400),
        partials: true,
        tts_audio_bytes: 3_000,
        seed,
        ..Behaviour::default()
    }
}

fn seconds() -> u64 {
    std::env::var("LINGUA_SOAK_SECONDS").map_or(30, |text| text.parse().unwrap())
}

async fn nodes(app: &TestApp, seed: u64) -> Vec<FakeNode> {
    let mut nodes = Vec::new();
    for n in 0..NODES {
        let options = NodeOptions {
            report_running: true,
            reconnect: true,
            behaviour: unreliable(seed ^ n),
            ..NodeOptions::new(app.ws("/ws/node")).node_id(format!("n-{n}")).max_jobs(8)
        };
        nodes.push(FakeNode::connect(options).await.unwrap());
    }
    nodes
}

async fn speakers(app: &TestApp, proxy: &FaultProxy, seed: u64) -> Vec<AutoSpeaker> {
    let mut speakers = Vec::new();
    for n in 0..SPEAKERS {
        // Those that cannot come back are not cut off: they would lose their session by right.
        let options = match n % 4 {
            0 => SpeakerOptions::new(app.ws("/ws/session")).existing_client(),
            _ => SpeakerOptions::new(format!("ws://{}/ws/session", proxy.addr())),
        };
        let script = Script {
            sentences: Sentences::Random {
                count: None,
                speech_ms: 300..=2_500,
                pause_ms: 100..=1_500,
                speaker: n,
                seed,
            },
            pace: Pace::Times(1.0),
            begin_after: Duration::from_millis(u64::from(n) * 10),
            patience: Duration::from_millis(DEADLINE_MS * 2),
            ..Script::default()
        };
        speakers.push(AutoSpeaker::start(options, script).await.unwrap());
    }
    speakers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sentence_has_one_ending_whatever_fails() {
    let _turn = crate::app::heavy_turn().await;
    let on = match std::env::var("LINGUA_SOAK_STORE").as_deref() {
        Ok("redis") => On::Redis,
        Ok("file") => On::File,
        _ => On::Memory,
    };
    let seed =
        std::env::var("LINGUA_SOAK_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("seed {seed}: LINGUA_SOAK_SEED={seed} draws the same faults");
    let mut dice = SmallRng::seed_from_u64(seed);
    let app = TestApp::start(on, settings()).await;
    // What the speakers go through can be cut; the nodes' own faults are in their behaviour.
    let proxy = FaultProxy::start(app.address).await.unwrap();
    let nodes = nodes(&app, seed).await;
    let speakers = speakers(&app, &proxy, seed).await;
    let end = Instant::now() + Duration::from_secs(seconds());
    let mut cuts = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(dice.random_range(1_000..4_000))).await;
        match dice.random_range(0..4) {
            0 => proxy.delay(Duration::from_millis(dice.random_range(0..80))),
            1 => {
                cuts += 1;
                proxy.cut_in_mid_reply(dice.random_range(1..4_000));
            }
            _ => {
                cuts += 1;
                proxy.cut();
            }
        }
    }
    proxy.pass();
    speakers.iter().for_each(AutoSpeaker::stop);
    let mut all = Report::default();
    for speaker in speakers {
        all.add(&speaker.finished().await.unwrap());
    }
    println!("{all}\n{cuts} times all were cut off, {} connections", all.connections);
    println!("missing: {:?}, longest {:?}", all.missing, all.longest);
    all.ensure_clean().unwrap();
    assert_eq!(all.results + all.missing(), all.said, "one ending for each");
    assert!(all.said > u64::from(SPEAKERS) * seconds() / 5, "they hardly spoke");
    // A client hears an ending late only while it is away; cut off, it comes back within seconds.
    assert!(all.longest < Duration::from_millis(DEADLINE_MS + 10_000), "{:?}", all.longest);
    let breaches: u64 = nodes.iter().map(|node| node.stats().breaches).sum();
    assert_eq!(breaches, 0, "nodes were given more than they can do");
    // Some were cut off before they knew that they had a session: nobody comes back for those.
    let over = wait_until(Duration::from_secs(30), || app.engine.sessions.count() == 0).await;
    assert!(over, "{} sessions are left", app.engine.sessions.count());
    app.stop().await;
}
