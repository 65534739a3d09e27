//! A rolling restart under load: three schedulers over one Redis behind a load balancer, each ended
//! and started anew in turn, while people talk.

use crate::app::described;
use crate::process;

use std::net::SocketAddr;
use std::time::Duration;

use lingua_lab::fake_node::Latency;
use lingua_lab::speaker::{Kind, Report, Script, Sentences};
use lingua_lab::{
    AutoSpeaker, Balancer, Behaviour, FakeNode, Health, NodeOptions, RedisServer, SpeakerOptions,
};
use process::Lingua;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

const INSTANCES: usize = 3;
const NODES: u64 = 10;
const RESUMING: u32 = 60;
const EXISTING: u32 = 6;

/// People talk for so long before, between and after the restarts.
const TALK: Duration = Duration::from_secs(3);

/// What an operator gives a scheduler to end.
const END_LIMIT: Duration = Duration::from_secs(50);

async fn start(listen: String, store: &str) -> Lingua {
    let store = store.to_owned();
    let start = move || Lingua::start(&["serve", "--listen", &listen, "--store", &store]);
    tokio::task::spawn_blocking(start).await.unwrap()
}

async fn nodes(front: SocketAddr) -> Vec<FakeNode> {
    let mut nodes = Vec::new();
    for n in 0..NODES {
        let behaviour = Behaviour {
            latency: Latency::Spread { p50_ms: 200, p99_ms: 900 },
            partials: true,
            tts_audio_bytes: 3_000,
            seed: n,
            ..Behaviour::default()
        };
        let url = format!("ws://{front}/ws/node");
        let options = NodeOptions::new(url).node_id(format!("n-{n}")).max_jobs(12).reconnecting();
        nodes.push(FakeNode::connect(options.behaviour(behaviour)).await.unwrap());
    }
    nodes
}

async fn speaker(n: u32, options: SpeakerOptions) -> AutoSpeaker {
    let sentences = Sentences::Random {
        count: None,
        speech_ms: 300..=2_500,
        pause_ms: 100..=1_200,
        speaker: n,
        seed: u64::from(n),
    };
    let begin_after = Duration::from_millis(u64::from(n) * 20);
    let script = Script { sentences, begin_after, ..Script::default() };
    AutoSpeaker::start(options, script).await.unwrap()
}

/// Ends one in order and starts it anew on the same address, as an operator does; how long its end
/// took.
async fn renew(old: &mut Option<Lingua>, n: usize, balancer: &Balancer, store: &str) -> Duration {
    let mut ending = old.take().unwrap();
    let address = ending.address();
    let began = Instant::now();
    ending.signal("TERM");
    let code = tokio::task::spawn_blocking(move || ending.exit_code());
    let code = timeout(END_LIMIT, code).await.expect("it ends in time").unwrap();
    assert_eq!(code, Some(0));
    let took = began.elapsed();
    *old = Some(start(address.to_string(), store).await);
    while balancer.health()[n] != Health::Ready {
        assert!(began.elapsed() < END_LIMIT + END_LIMIT, "never ready again");
        sleep(Duration::from_millis(50)).await;
    }
    took
}

async fn all_said(speakers: Vec<AutoSpeaker>) -> Report {
    speakers.iter().for_each(AutoSpeaker::stop_after_sentence);
    let mut all = Report::default();
    for speaker in speakers {
        all.add(&speaker.finished().await.unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_doubles_and_disorders_nothing() {
    let _turn = crate::app::heavy_turn().await;
    described::listen();
    let redis = RedisServer::start().await.unwrap();
    let store = redis.url();
    let mut instances = Vec::new();
    for _ in 0..INSTANCES {
        instances.push(Some(start("127.0.0.1:0".to_owned(), &store).await));
    }
    let addresses: Vec<_> = instances.iter().flatten().map(Lingua::address).collect();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let balancer = Balancer::start(socket, &addresses).await.unwrap();
    let front = balancer.address();
    let nodes = nodes(front).await;
    let url = format!("ws://{front}/ws/session");
    let (mut resuming, mut existing) = (Vec::new(), Vec::new());
    for n in 0..RESUMING {
        resuming.push(speaker(n, SpeakerOptions::new(&url)).await);
    }
    for n in 0..EXISTING {
        let options = SpeakerOptions::new(&url).existing_client();
        existing.push(speaker(RESUMING + n, options).await);
    }
    assert!(balancer.connections().iter().all(|count| *count > 10), "{:?}", balancer.connections());

    sleep(TALK).await;
    for (n, instance) in instances.iter_mut().enumerate() {
        let took = renew(instance, n, &balancer, &store).await;
        println!("instance {n} ended within {took:?}");
        sleep(TALK).await;
    }

    let (resumed, others) = tokio::join!(all_said(resuming), all_said(existing));
    println!("resuming: {resumed}; {} connections, {:?}", resumed.connections, resumed.missing);
    println!("existing: {others}; {} sessions, {:?}", others.sessions, others.missing);
    resumed.ensure_clean().unwrap();
    assert_eq!(resumed.results, resumed.said, "each sentence is translated: {:?}", resumed.missing);
    assert_eq!(resumed.sessions, u64::from(RESUMING), "somebody did not get their session back");
    assert!(resumed.connections > u64::from(RESUMING), "nobody had to move");
    assert!(resumed.said > u64::from(RESUMING) * 4, "they hardly spoke");
    // Without a way back, a sentence that was being said is cut and ends, and is said once more in
    // the next session: that is all.
    let only_cut = others.counts.keys().all(|kind| *kind == Kind::Split);
    assert!(only_cut, "{others}");
    assert!(others.sessions > u64::from(EXISTING), "nobody of them had to move");
    let breaches: u64 = nodes.iter().map(|node| node.stats().breaches).sum();
    assert_eq!(breaches, 0, "nodes were given more than they can do");
    described::verdict();
}
