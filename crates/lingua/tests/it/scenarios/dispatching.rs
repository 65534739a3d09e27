//! The way of a job from its hand-in to its ending.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::{RequestId, TenantId};
use lingua_engine::job::Ended;
use lingua_lab::FakeNode;
use serde_json::{Value, json};

use super::{calm, connect, hasty, metric, options, scripted, silent, take, until_used, view};
use crate::app::jobs::{attempts, code, done, ended, is, job, refused};
use crate::app::{On, TestApp};

pub async fn a_job_goes_from_its_dispatch_over_the_ack_to_its_result(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    is(&job, JobState::Dispatched).await;
    assert_eq!(app.used("a").await, 1);
    node.ack(&assign).await.unwrap();
    is(&job, JobState::Acked).await;
    node.started(&assign).await.unwrap();
    node.result(&assign, "translated").await.unwrap();
    assert_eq!(done(&job).await, "translated");
    let ack = node.next_of("result_ack").await.unwrap();
    assert_eq!((&ack["job_id"], &ack["attempt_id"]), (&assign["job_id"], &json!(1)));
    let view = job.view();
    assert_eq!((view.state, view.attempts.len()), (JobState::Done, 1));
    assert!(view.dispatched_ms <= view.acked_ms && view.acked_ms <= view.ended_ms);
    assert_eq!(attempts(&job), [("a".into(), "ok".into())]);
    app.finish().await;
}

pub async fn a_failure_is_acknowledged_like_a_result(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut bad, mut good) = (scripted(&app, "bad").await, scripted(&app, "good").await);
    let job = job().prefer("bad").submit(&app);
    let assign = bad.next_of("job_assign").await.unwrap();
    bad.fail(&assign, "PROCESSING_ERROR").await.unwrap();
    let ack = bad.next_of("result_ack").await.unwrap();
    assert_eq!((&ack["job_id"], &ack["attempt_id"]), (&assign["job_id"], &json!(1)));
    let again = good.next_of("job_assign").await.unwrap();
    good.result(&again, "translated").await.unwrap();
    assert_eq!(done(&job).await, "translated");
    app.finish().await;
}

pub async fn an_answer_before_the_ack_ends_the_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "quick").await.unwrap();
    assert_eq!(done(&job).await, "quick");
    node.ack(&assign).await.unwrap();
    super::report(&app, &mut node, Value::Null).await;
    assert_eq!(job.view().state, JobState::Done);
    // The late ack takes no slot.
    until_used(&app, "a", 0).await;
    app.finish().await;
}

pub async fn words_on_the_way_are_passed_on_and_count_as_an_ack(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.partial(&assign, "so far").await.unwrap();
    is(&job, JobState::Acked).await;
    job.until(|view| view.partial.is_some()).await;
    let partial: Value = serde_json::from_slice(&job.view().partial.unwrap()).unwrap();
    assert_eq!((&partial["type"], &partial["text"]), (&json!("asr_partial"), &json!("so far")));
    node.progress(&assign, "nmt").await.unwrap();
    let stage = |view: &lingua_engine::jobs::View| {
        let partial: Value = serde_json::from_slice(view.partial.as_ref().unwrap()).unwrap();
        partial["stage"] == "nmt"
    };
    job.until(stage).await;
    node.result(&assign, "all").await.unwrap();
    assert_eq!(done(&job).await, "all");
    app.finish().await;
}

pub async fn audio_goes_as_bytes_or_in_the_text(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut modern = scripted(&app, "modern").await;
    let mut plain =
        connect(&app, options(&app, "plain").without("binary_audio").without("tokens")).await;
    let audio: Vec<u8> = (0..=255).collect();
    let first = job().only("modern").audio(audio.clone()).submit(&app);
    let assign = modern.next_of("job_assign").await.unwrap();
    assert_eq!(assign.audio.as_deref(), Some(&audio[..]));
    assert_eq!(assign.get("audio"), None);
    assert!(assign["lease_token"].as_str().unwrap().len() >= 32, "{}", assign.message);
    modern.result(&assign, "x").await.unwrap();
    done(&first).await;

    let second = job().only("plain").audio(audio).submit(&app);
    let assign = plain.next_of("job_assign").await.unwrap();
    assert!(assign["audio"].as_str().unwrap().starts_with("AAECAwQF"), "{}", assign.message);
    assert_eq!(assign.get("lease_token"), None);
    for (field, value) in [
        ("src_lang", json!("en")),
        ("tgt_lang", json!("zh")),
        ("audio_format", json!("opus")),
        ("sample_rate", json!(16_000)),
        ("utterance_index", json!(0)),
        ("trace_id", json!("trace")),
    ] {
        assert_eq!(assign[field], value, "{field}");
    }
    let now = app.engine.now_ms();
    let deadline = assign["deadline_ms"].as_u64().unwrap();
    assert!((now..now + 41_000).contains(&deadline), "{deadline} at {now}");
    plain.result(&assign, "x").await.unwrap();
    done(&second).await;
    app.finish().await;
}

pub async fn a_failed_attempt_is_followed_by_one_elsewhere(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    a.fail(&assign, "PROCESSING_ERROR").await.unwrap();
    let again = take(&mut b).await;
    assert_eq!((&again["job_id"], &again["attempt_id"]), (&assign["job_id"], &json!(2)));
    b.result(&again, "second").await.unwrap();
    assert_eq!(done(&job).await, "second");
    let tried = attempts(&job);
    assert_eq!(tried, [("a".into(), "PROCESSING_ERROR".into()), ("b".into(), "ok".into())]);
    app.finish().await;
}

pub async fn a_job_is_tried_twice_and_then_fails_with_the_last_reason(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    a.fail(&assign, "NMT_TIMEOUT").await.unwrap();
    let again = take(&mut b).await;
    let mut spare = scripted(&app, "c").await;
    b.fail(&again, "TTS_TIMEOUT").await.unwrap();
    let refusal = refused(&job).await;
    assert_eq!((refusal.code_text(), refusal.code.as_str()), ("TTS_TIMEOUT", "PROCESSING_ERROR"));
    assert_eq!(job.view().attempts.len(), 2);
    spare.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    app.finish().await;
}

pub async fn no_node_at_all_is_told_at_once_with_what_is_missing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    let _node = connect(&app, options(&app, "a").languages(&["en", "de"])).await;
    let refusal = refused(&job().pair("zh", "en").submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    assert!(refusal.detail.contains("semantic(zh)"), "{}", refusal.detail);
    let refusal = refused(&job().pair("en", "fr").spoken().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    assert!(refusal.detail.contains("tts(fr)"), "{}", refusal.detail);
    app.finish().await;
}

pub async fn the_same_job_handed_in_twice_is_one_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let (one, two) = (job(), job());
    let spec = one.spec(&app);
    let twin = lingua_engine::job::JobSpec { id: spec.id, ..two.spec(&app) };
    let (first, second) = (app.engine.jobs.submit(spec), app.engine.jobs.submit(twin));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.id, second.id);
    let assign = take(&mut node).await;
    node.result(&assign, "once").await.unwrap();
    assert_eq!((done(&first).await, done(&second).await), ("once".into(), "once".into()));
    node.next_of("result_ack").await.unwrap();
    node.hears_nothing_for(Duration::from_millis(200)).await.unwrap();
    app.finish().await;
}

pub async fn a_request_id_stands_for_one_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (tenant, request) = (TenantId::new("t").unwrap(), RequestId::new("r").unwrap());
    let (one, two) = (job().spec(&app).id, job().spec(&app).id);
    let jobs = &app.engine.jobs;
    jobs.claim_request(&tenant, &request, one).await.unwrap();
    jobs.claim_request(&tenant, &request, one).await.unwrap();
    let refusal = jobs.claim_request(&tenant, &request, two).await.unwrap_err();
    assert_eq!(refusal.code_text(), "CONFLICT");
    app.finish().await;
}

pub async fn a_late_word_is_answered_by_what_the_store_remembers(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "x").await.unwrap();
    done(&job).await;
    let masked = assign["job_id"].as_str().unwrap().parse().unwrap();
    let jobs = &app.engine.jobs;
    jobs.past_message(masked, &super::id("a"), 1).await.unwrap();
    let stale = jobs.past_message(masked, &super::id("a"), 2).await.unwrap_err();
    assert_eq!(stale.code_text(), "STALE_ATTEMPT");
    let stale = jobs.past_message(masked, &super::id("b"), 1).await.unwrap_err();
    assert_eq!(stale.code_text(), "STALE_ATTEMPT");
    let nobody = self::job().spec(&app).id;
    let unknown = jobs.past_message(nobody, &super::id("a"), 1).await.unwrap_err();
    assert_eq!(unknown.code_text(), "NOT_FOUND");
    app.finish().await;
}

pub async fn an_answer_without_text_is_an_empty_ending(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    for reason in ["ASR_EMPTY", "NO_TEXT_ASSIGNED"] {
        let job = job().submit(&app);
        let assign = take(&mut node).await;
        let fields = json!({ "success": true, "text_asr": "", "extra": { "reason": reason } });
        node.about(&assign, "job_result", fields).await.unwrap();
        match ended(&job).await.ended {
            Some(Ended::Empty { reason: told, body: Some(_) }) => assert_eq!(told, reason),
            _ => panic!("not empty"),
        }
        assert_eq!(job.view().state, JobState::Done);
    }
    assert_eq!(view(&app, "a").past.failed, 0);
    app.finish().await;
}

pub async fn a_nodes_own_code_is_passed_on_and_nonsense_is_not(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    for (said, told) in [("NMT_TIMEOUT", "NMT_TIMEOUT"), ("<b>no</b>", "PROCESSING_ERROR")] {
        let job = job().submit(&app);
        let assign = take(&mut node).await;
        node.fail(&assign, said).await.unwrap();
        assert_eq!(code(&job).await, told);
    }
    app.finish().await;
}

pub async fn retries_are_held_to_a_budget(on: On) {
    let app = TestApp::start(on, {
        let mut settings = hasty();
        settings.breaker.failures = 1_000;
        settings
    })
    .await;
    let mut a = silent(&app, "a").await;
    let spare = FakeNode::connect(options(&app, "b").without("ack")).await.unwrap();
    app.meets("b").await;
    let (mut retried, mut refused) = (0, 0);
    for _ in 0..14 {
        let job = job().prefer("a").submit(&app);
        let assign = a.next_of("job_assign").await.unwrap();
        a.fail(&assign, "PROCESSING_ERROR").await.unwrap();
        match ended(&job).await.ended.unwrap() {
            Ended::Done(_) => retried += 1,
            _ => refused += 1,
        }
    }
    assert_eq!((retried, refused), (10, 4), "ten in ten seconds for a fleet with little work");
    assert_eq!(metric(&app, "lingua_retries_refused_total"), 4);
    assert_eq!(spare.stats().done, 10);
    app.finish().await;
}
