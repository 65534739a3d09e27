//! Conversations while the store or a whole process goes away.

use crate::app;
use crate::process;

use std::time::Duration;

use app::forwarder::Forwarder;
use app::{On, TestApp, quick};
use lingua_lab::speech::{Codec, Mark, Signal};
use lingua_lab::{
    Behaviour, FakeNode, FaultProxy, NodeOptions, RedisServer, Speaker, SpeakerOptions,
};
use process::Lingua;
use serde_json::json;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(20);

fn mark(sentence: u32) -> Mark {
    Mark { speaker: 1, sentence }
}

async fn speaker(url: String) -> Speaker {
    Speaker::connect(SpeakerOptions::new(url).patience(PATIENCE)).await.unwrap()
}

async fn node(url: String, takes_ms: u64) -> FakeNode {
    let options = NodeOptions {
        report_running: true,
        reconnect: true,
        behaviour: Behaviour::taking_ms(takes_ms),
        ..NodeOptions::new(url).node_id("node")
    };
    FakeNode::connect(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_sessions_stay_running_work_ends_and_new_work_is_refused() {
    let mut settings = quick();
    settings.timing.exec_max_ms = 8_000;
    settings.timing.deadline_ms = 12_000;
    let mut app = TestApp::start(On::Redis, settings).await;
    let node = node(app.ws("/ws/node"), 1_500).await;
    let mut client = speaker(app.ws("/ws/session")).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    while node.stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    app.redis.as_mut().unwrap().kill().unwrap();
    // What runs still ends, in spite of it all.
    let ending = client.ending().await.unwrap();
    assert_eq!(
        (&ending["type"], &ending["utterance_index"]),
        (&json!("translation_result"), &json!(0))
    );
    let began = Instant::now();
    client.marked_sentence(mark(1), 300).await.unwrap();
    let ending = client.ending().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "refused after {:?}", began.elapsed());
    assert_eq!(
        (&ending["type"], &ending["reason"]),
        (&json!("missing_result"), &json!("dependency_down"))
    );
    assert!(ending["audio_ack"].is_u64(), "what has its ending is not said again: {ending:?}");
    let refused = Speaker::connect(SpeakerOptions::new(app.ws("/ws/session"))).await.unwrap_err();
    assert!(format!("{refused:#}").contains("SCHEDULER_DEPENDENCY_DOWN"), "{refused:#}");
    // Even the client's own connection may break meanwhile.
    client.reset().await;
    let ack = client.resume().await.unwrap();
    assert_eq!(ack.recovered, Some(true));
    app.redis.as_mut().unwrap().restart().await.unwrap();
    app.redis.as_ref().unwrap().command(&["FLUSHALL"]).await.unwrap();
    let began = Instant::now();
    for n in 2.. {
        client.marked_sentence(mark(n), 300).await.unwrap();
        if client.ending().await.unwrap().kind() == "translation_result" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(8), "still nothing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.report().ensure_clean().unwrap();
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_conversations_end_and_the_process_with_zero() {
    let mut lingua = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
    let address = lingua.address();
    let node = node(format!("ws://{address}/ws/node"), 700).await;
    let mut client = speaker(format!("ws://{address}/ws/session")).await;
    let idle = speaker(format!("ws://{address}/ws/session")).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    while node.stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lingua.signal("TERM");
    client.next_of("go_away").await.unwrap();
    let ready = lingua_lab::HttpClient::new(format!("http://{address}")).get("/ready").await;
    assert_eq!(ready.unwrap().status, 503);
    assert_eq!(client.ending().await.unwrap().kind(), "translation_result");
    assert_eq!(client.closed().await.unwrap().code, Some(1001));
    assert_eq!(idle.closed().await.unwrap().code, Some(1001));
    let code = tokio::task::spawn_blocking(move || lingua.exit_code()).await.unwrap();
    assert_eq!(code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_at_once() {
    let mut lingua = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
    let address = lingua.address();
    let node = node(format!("ws://{address}/ws/node"), 20_000).await;
    let mut client = speaker(format!("ws://{address}/ws/session")).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    while node.stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lingua.signal("TERM");
    client.next_of("go_away").await.unwrap();
    let began = Instant::now();
    lingua.signal("TERM");
    let code = tokio::task::spawn_blocking(move || lingua.exit_code()).await.unwrap();
    assert_eq!(code, Some(1));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_instance_loses_no_word_that_was_not_acknowledged() {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let one = Lingua::start(&args);
    let two = Lingua::start(&args);
    let _node = node(format!("ws://{}/ws/node", two.address()), 20).await;
    let mut client = speaker(format!("ws://{}/ws/session", one.address())).await;
    let id = client.session_id().to_owned();
    let said = Codec::Opus.speech(Signal::Babble, 1_000, Some(mark(0)), 1);
    let pieces = Codec::Opus.pieces(&said, 100);
    for piece in &pieces[..5] {
        client.say(piece.clone()).await.unwrap();
    }
    one.signal("KILL");
    client.closed().await.unwrap();
    client.options_mut().url = format!("ws://{}/ws/session", two.address());
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.session_id.as_str()), (Some(true), id.as_str()));
    for piece in &pieces[5..] {
        client.say(piece.clone()).await.unwrap();
    }
    client.end().await.unwrap();
    let ending = client.ending().await.unwrap();
    assert_eq!(ending.kind(), "translation_result");
    client.report().ensure_clean().unwrap();
}

/// A sentence is being worked on and its speech acknowledged when the instance that has the session
/// is killed: it still comes back.
async fn the_result_finds_its_session(node_at_the_dead_instance: bool) {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let (one, two) = (Lingua::start(&args), Lingua::start(&args));
    // The node goes to the first instance that takes it, and after its death to the other.
    let targets = match node_at_the_dead_instance {
        true => vec![one.address(), two.address()],
        false => vec![two.address()],
    };
    let way = Forwarder::start(targets).await;
    let node = node(format!("ws://{}/ws/node", way.address), 2_500).await;
    let mut client = speaker(format!("ws://{}/ws/session", one.address())).await;
    let id = client.session_id().to_owned();
    // Until the instance has heard of the node, there is none.
    let began = Instant::now();
    let mut index = 0;
    while node.stats().running == 0 {
        client.marked_sentence(mark(index), 300).await.unwrap();
        index += 1;
        let known = client.until(|m| m.is_ending() || m["event"] == "NODE_ACCEPTED").await.unwrap();
        if known.is_ending() {
            assert_eq!(known["reason"], "no_capable_node");
            assert!(began.elapsed() < Duration::from_secs(5), "it never hears of the node");
            tokio::time::sleep(Duration::from_millis(50)).await;
        } else {
            break;
        }
    }
    client.next_of("audio_ack").await.unwrap();
    one.signal("KILL");
    client.closed().await.unwrap();
    client.options_mut().url = format!("ws://{}/ws/session", two.address());
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.session_id.as_str()), (Some(true), id.as_str()));
    let ending = client.ending().await.unwrap();
    assert_eq!(ending.kind(), "translation_result", "{ending:?}");
    assert_eq!(ending.index(), Some(u64::from(index) - 1));
    client.report().ensure_clean().unwrap();
}

/// Three targets are being worked on, one without a node, when the instance that has the session is
/// killed: each ends once, and nothing is heard twice.
#[tokio::test(flavor = "multi_thread")]
async fn every_target_outlives_the_instance_of_its_session() {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let (one, two) = (Lingua::start(&args), Lingua::start(&args));
    let served = |id: &str, target: &str, ms: u64| NodeOptions {
        report_running: true,
        behaviour: Behaviour::taking_ms(ms),
        ..NodeOptions::new(format!("ws://{}/ws/node", two.address()))
            .node_id(id)
            .languages(&["en", target])
            .pairs(&[("en", target)])
    };
    let (quick, slow) = (served("quick", "zh", 300), served("slow", "de", 2_500));
    let _quick = FakeNode::connect(quick).await.unwrap();
    let slow = FakeNode::connect(slow).await.unwrap();
    let options = SpeakerOptions::new(format!("ws://{}/ws/session", one.address()));
    let options = options.targets("en", &["zh", "de", "fr"]).patience(PATIENCE);
    let mut client = Speaker::connect(options).await.unwrap();
    // Until the instance has heard of both nodes, some targets have none.
    let began = Instant::now();
    let mut sentences = 0;
    while slow.stats().running == 0 {
        client.marked_sentence(mark(sentences), 300).await.unwrap();
        sentences += 1;
        let german = |m: &lingua_lab::speaker::Received| {
            m["tgt_lang"] == "de" && (m.is_ending() || m["event"] == "NODE_ACCEPTED")
        };
        client.until(german).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "it never hears of the nodes");
    }
    client.until(|m| m.kind() == "translation_result" && m["tgt_lang"] == "zh").await.unwrap();
    one.signal("KILL");
    client.closed().await.unwrap();
    client.options_mut().url = format!("ws://{}/ws/session", two.address());
    assert_eq!(client.resume().await.unwrap().recovered, Some(true));
    // One more in every target, while the last German one is still worked on.
    client.marked_sentence(mark(sentences), 300).await.unwrap();
    let last = u64::from(sentences);
    let mut ended = Vec::new();
    while ended.len() < 3 {
        let ending = client.ending().await.unwrap();
        if ending.index() == Some(last) {
            let (target, kind) = (ending["tgt_lang"].as_str().unwrap(), ending.kind());
            ended.push(format!("{target} {kind}"));
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, ["de translation_result", "fr missing_result", "zh translation_result"]);
    client.report().ensure_clean().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_outlives_the_instance_of_its_session() {
    the_result_finds_its_session(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_outlives_the_instance_of_its_node_and_session() {
    the_result_finds_its_session(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_starts_on_a_store_that_lost_everything_is_understood_by_the_others() {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let one = Lingua::start(&args);
    let _node = node(format!("ws://{}/ws/node", one.address()), 20).await;
    redis.command(&["FLUSHALL"]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let two = Lingua::start(&args);
    let mut client = speaker(format!("ws://{}/ws/session", two.address())).await;
    // The node is known and trusted again within some seconds, and what it says is understood.
    let began = Instant::now();
    for index in 0.. {
        client.marked_sentence(mark(index), 300).await.unwrap();
        if client.ending().await.unwrap().kind() == "translation_result" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "nobody understands the node");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ending_that_was_told_and_did_not_arrive_goes_along_to_another_instance() {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let (one, two) = (Lingua::start(&args), Lingua::start(&args));
    let node = node(format!("ws://{}/ws/node", one.address()), 300).await;
    let way = FaultProxy::start(one.address()).await.unwrap();
    let mut client = speaker(format!("ws://{}/ws/session", way.addr())).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    client.next_of("audio_ack").await.unwrap();
    // From here on the client hears nothing, and the scheduler does not know.
    way.black_hole_downstream();
    while node.stats().done == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.options_mut().url = format!("ws://{}/ws/session", two.address());
    assert_eq!(client.resume().await.unwrap().recovered, Some(true));
    let ending = client.ending().await.unwrap();
    assert_eq!((ending.kind(), ending.index()), ("translation_result", Some(0)), "{ending:?}");
    client.report().ensure_clean().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ending_that_died_with_its_instance_holds_nobody_up_until_its_deadline() {
    let redis = RedisServer::start().await.unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let (one, two) = (Lingua::start(&args), Lingua::start(&args));
    let node = node(format!("ws://{}/ws/node", two.address()), 300).await;
    let way = FaultProxy::start(one.address()).await.unwrap();
    let mut client = speaker(format!("ws://{}/ws/session", way.addr())).await;
    let began = Instant::now();
    let mut index = 0;
    while node.stats().running == 0 {
        // Until the instance has heard of the node, there is none.
        client.marked_sentence(mark(index), 300).await.unwrap();
        index += 1;
        let known = client.until(|m| m.is_ending() || m["event"] == "NODE_ACCEPTED").await.unwrap();
        assert!(!known.is_ending() || began.elapsed() < Duration::from_secs(5));
    }
    client.next_of("audio_ack").await.unwrap();
    way.black_hole_downstream();
    while node.stats().done == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    one.signal("KILL");
    client.options_mut().url = format!("ws://{}/ws/session", two.address());
    assert_eq!(client.resume().await.unwrap().recovered, Some(true));
    let began = Instant::now();
    let ending = client.endings_within(1, Duration::from_secs(8)).await.unwrap().remove(0);
    assert_eq!(ending.kind(), "missing_result", "{ending:?}");
    assert!(began.elapsed() < Duration::from_secs(8));
    client.report().ensure_clean().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_over_a_slow_store_is_not_taken_for_somebody_else() {
    let redis = RedisServer::start().await.unwrap();
    let slow = FaultProxy::start(redis.addr()).await.unwrap();
    // Owners are renewed all the time, so also while a session comes.
    let often = [("LINGUA_CLUSTER_OWNER_TTL_MS", "600")];
    let start = |store: String| {
        Lingua::logged(&["serve", "--listen", "127.0.0.1:0", "--store", &store], &often)
    };
    let ((one, _log_one), (two, _log_two)) = (start(redis.url()), start(slow.url()));
    let _node = node(format!("ws://{}/ws/node", one.address()), 50).await;
    let mut client = speaker(format!("ws://{}/ws/session", one.address())).await;
    slow.delay(Duration::from_millis(100));
    // There, there once more, and back.
    for (n, to) in (0..).zip([&two, &two, &one, &two, &two]) {
        client.reset().await;
        client.options_mut().url = format!("ws://{}/ws/session", to.address());
        assert_eq!(client.resume().await.unwrap().recovered, Some(true), "the {n}th time");
        // Slow as the store is, not every sentence finds a node; but each has its ending here.
        client.marked_sentence(mark(n), 300).await.unwrap();
        let ending = client.ending().await.unwrap();
        assert_eq!(ending.index(), Some(u64::from(n)), "{ending:?}");
    }
    client.report().ensure_clean().unwrap();
}
