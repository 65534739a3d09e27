//! Agents from before `supports`, with the habits of the real ones.

use std::time::Duration;

use lingua_lab::fake_node::{ExistingAgent, JobEvent};
use lingua_lab::speech::{Codec, Digest, Mark, Signal};
use lingua_lab::{Behaviour, FakeNode, NodeOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::desk::{Desk, Line, assign, register_ack, until};

/// Habits with times for tests; its first report is all that it says by itself.
fn habits() -> ExistingAgent {
    ExistingAgent { heartbeat_every: Duration::from_secs(60), ..ExistingAgent::quick() }
}

fn options(desk: &Desk) -> NodeOptions {
    desk.options().existing_agent(habits())
}

/// An agent behind its first report.
async fn agent(desk: &Desk, options: NodeOptions) -> (FakeNode, Line) {
    let (node, mut line) = desk.automatic(options).await;
    assert_eq!(line.next().await["type"], "node_heartbeat");
    (node, line)
}

/// A job that says that the turn has ended.
fn closing(job_id: &str) -> Value {
    with(assign(job_id, 1), json!({ "is_manual_cut": true }))
}

fn with(mut message: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

#[tokio::test]
async fn it_says_nothing_that_is_newer_than_it_and_acks_nothing() {
    let desk = Desk::open().await;
    let (node, mut line) = agent(&desk, options(&desk)).await;
    for new in ["supports", "max_concurrent_jobs"] {
        assert!(line.register.get(new).is_none(), "{}", line.register);
    }
    assert_eq!(line.register["installed_services"][0]["type"], "ASR");
    line.send(closing("job-1")).await;
    assert_eq!(line.next().await["type"], "job_result", "no ack before it");
    assert_eq!(node.stats().unacked, 0);
}

#[tokio::test]
async fn a_job_it_knows_is_refused_by_its_name_and_by_its_utterance() {
    let desk = Desk::open().await;
    let (_node, mut line) = agent(&desk, options(&desk)).await;
    let again = with(closing("job-1"), json!({ "attempt_id": 2 }));
    let same_utterance = with(closing("job-2"), json!({ "session_id": "s-job-1" }));
    line.send_together(vec![closing("job-1"), again, same_utterance]).await;
    let mut codes = Vec::new();
    for _ in 0..3 {
        let result = line.next().await;
        assert_eq!(result["type"], "job_result");
        codes.push(result["error"]["code"].clone());
    }
    assert_eq!(codes, [Value::Null, json!("DUPLICATE_JOB"), json!("DUPLICATE_UTTERANCE")]);
}

#[tokio::test]
async fn it_reports_behind_every_registration_and_then_at_its_own_pace() {
    let desk = Desk::open().await;
    let every = Duration::from_millis(100);
    let existing = ExistingAgent { heartbeat_every: every, ..ExistingAgent::quick() };
    let options = desk.options().existing_agent(existing).reconnecting();
    // The scheduler asks for a report every minute, which it does not know.
    let (_node, mut line) = desk.automatic(options.behaviour(Behaviour::taking_ms(60_000))).await;
    let first = line.next().await;
    assert_eq!(first["type"], "node_heartbeat");
    let began = Instant::now();
    assert!(first.get("running").is_none() && first.get("health").is_none(), "{first}");
    assert_eq!(first["resource_usage"]["running_jobs"], 0);
    line.send(closing("job-1")).await;
    let second = line.next().await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(80), "{took:?}");
    assert_eq!(second["resource_usage"]["running_jobs"], 1);
    drop(line);
    let mut line = desk.welcome().await;
    assert_eq!(line.next().await["type"], "node_heartbeat", "and behind the second registration");
}

#[tokio::test]
async fn it_comes_back_after_its_own_pause_whatever_the_close_said() {
    let desk = Desk::open().await;
    let existing = ExistingAgent { reconnect_after: Duration::from_millis(300), ..habits() };
    let (node, line) = agent(&desk, options(&desk).existing_agent(existing).reconnecting()).await;
    line.close(4001, r#"{"retry_after_ms":30000}"#).await;
    for _ in 0..2 {
        let closed = Instant::now();
        let line = desk.welcome().await;
        let away = closed.elapsed();
        assert!(
            (Duration::from_millis(250)..Duration::from_secs(4)).contains(&away),
            "it was away for {away:?}"
        );
        line.close(1008, "not wanted").await;
    }
    assert!(node.last_error().is_none());
}

#[tokio::test]
async fn errors_mean_nothing_to_it_not_even_at_its_registration() {
    let desk = Desk::open().await;
    let error = json!({ "type": "error", "code": "INVALID_CAPABILITY", "message": "no" });
    let welcome = async {
        let mut line = desk.accept().await;
        line.next().await;
        line.send(error.clone()).await;
        line.send(register_ack()).await;
        line
    };
    let (node, mut line) = tokio::join!(FakeNode::connect(options(&desk)), welcome);
    let node = node.unwrap();
    assert_eq!(line.next().await["type"], "node_heartbeat");
    line.send(error.clone()).await;
    line.send(closing("job-1")).await;
    assert_eq!(line.next().await["type"], "job_result");
    assert!(node.is_connected());
}

#[tokio::test]
async fn a_job_waits_for_a_later_one_of_its_turn_unless_it_ends_the_turn() {
    let desk = Desk::open().await;
    let (node, mut line) = agent(&desk, options(&desk).logging(8)).await;
    let speech =
        Codec::Pcm16.speech(Signal::Babble, 400, Some(Mark { speaker: 1, sentence: 2 }), 1);
    let pieces = Codec::Pcm16.pieces(&speech, 200);
    let part = |job_id: &str, piece: usize, fields: Value| {
        use base64::Engine as _;
        let audio = base64::engine::general_purpose::STANDARD.encode(&pieces[piece]);
        with(with(assign(job_id, 1), json!({ "audio": audio })), fields)
    };
    line.send(part("job-1", 0, json!({ "is_max_duration_triggered": true }))).await;
    until(&node, |stats| stats.kept == 1).await;
    assert!(node.log().iter().any(|entry| entry.event == JobEvent::Kept));
    line.is_silent().await;

    line.send(part("job-2", 1, json!({ "is_timeout_triggered": true }))).await;
    let result = line.next().await;
    assert_eq!(result["job_id"], "job-2");
    let lab = &result["extra"]["lab"];
    assert_eq!(lab["mark"], "1/2");
    assert_eq!(lab["hash"], format!("{:016x}", Digest::of(&speech).hash()), "both pieces");
    assert_eq!((node.stats().kept, node.stats().done), (1, 1));
}

#[tokio::test]
async fn a_turn_that_is_long_enough_is_worked_on_without_being_told() {
    let desk = Desk::open().await;
    let existing = ExistingAgent { works_from: Duration::from_millis(300), ..habits() };
    let (node, mut line) = agent(&desk, options(&desk).existing_agent(existing)).await;
    use base64::Engine as _;
    let speech = Codec::Opus.speech(Signal::Babble, 200, None, 1);
    let fields = json!({ "audio_format": "opus",
        "audio": base64::engine::general_purpose::STANDARD.encode(&speech) });
    line.send(with(assign("job-1", 1), fields.clone())).await;
    until(&node, |stats| stats.kept == 1).await;
    line.send(with(assign("job-2", 1), fields)).await;
    assert_eq!(line.next().await["job_id"], "job-2");
}

#[tokio::test]
async fn what_it_recognised_last_in_a_session_is_not_told_twice() {
    let desk = Desk::open().await;
    let says = Behaviour { says: Some("yes".to_owned()), ..Behaviour::default() };
    let (node, mut line) = agent(&desk, options(&desk).behaviour(says)).await;
    let of = |job_id: &str, index: u64| {
        let fields = json!({ "session_id": "s", "utterance_index": index, "turn_id": job_id });
        with(closing(job_id), fields)
    };
    line.send(of("job-1", 1)).await;
    assert_eq!(line.next().await["text_asr"], "yes");
    line.send(of("job-2", 2)).await;
    until(&node, |stats| stats.swallowed == 1).await;
    line.is_silent().await;
    line.send(with(of("job-3", 3), json!({ "session_id": "other" }))).await;
    assert_eq!(line.next().await["job_id"], "job-3");
}

#[tokio::test]
async fn a_missing_model_is_a_failure_that_names_the_service() {
    let desk = Desk::open().await;
    let lacks = Behaviour { model_missing: 1.0, ..Behaviour::default() };
    let (node, mut line) = agent(&desk, options(&desk).behaviour(lacks)).await;
    line.send(closing("job-1")).await;
    let result = line.next().await;
    assert_eq!((&result["type"], &result["success"]), (&json!("job_result"), &json!(false)));
    assert_eq!(result["error"]["code"], "MODEL_NOT_AVAILABLE");
    assert_eq!(result["error"]["details"], json!({ "service_id": "nmt-m2m100" }));
    assert_eq!(node.stats().model_missing, 1);
}

#[tokio::test]
async fn it_may_register_before_its_services_run_and_tells_of_them_in_a_report() {
    let desk = Desk::open().await;
    let existing = ExistingAgent {
        heartbeat_every: Duration::from_millis(50),
        services_start_after: Duration::from_millis(200),
        ..ExistingAgent::quick()
    };
    let (_node, mut line) = desk.automatic(desk.options().existing_agent(existing)).await;
    assert_eq!(line.register["language_capabilities"]["semantic_core_ready"], false);
    assert_eq!(line.register["language_capabilities"]["asr_languages"], json!([]));
    let mut before = 0;
    loop {
        let report = line.next().await;
        if report["language_capabilities"]["semantic_core_ready"] == true {
            assert_eq!(report["language_capabilities"]["asr_languages"], json!(["en", "zh"]));
            break;
        }
        before += 1;
    }
    assert!(before >= 1, "the first report came while nothing ran");
}

#[tokio::test]
async fn its_memory_figure_counts_the_page_cache() {
    let desk = Desk::open().await;
    let existing = ExistingAgent { page_cache_percent: 57.5, ..habits() };
    let (_node, mut line) = desk.automatic(options(&desk).existing_agent(existing)).await;
    assert_eq!(line.next().await["resource_usage"]["mem_percent"], 97.5);
}
