//! The node that works by itself.

use std::time::Duration;

use bytes::Bytes;
use lingua_lab::fake_node::{ConnectError, JobEvent, Latency};
use lingua_lab::{Behaviour, FakeNode};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::Message;

use super::desk::{A_WHILE, Desk, assign, until};

#[tokio::test]
async fn a_node_registers_with_what_it_was_told_to_be() {
    let desk = Desk::open().await;
    let options = desk
        .options()
        .languages(&["en", "de"])
        .pairs(&[("en", "de")])
        .max_jobs(9)
        .token("secret")
        .register_with(json!({ "hardware": { "cpu_cores": 99 } }));
    let (node, line) = desk.automatic(options).await;
    let register = &line.register;
    assert_eq!(register["type"], "node_register");
    assert_eq!(register["node_id"], "node-1");
    assert_eq!(register["max_concurrent_jobs"], 9);
    assert_eq!(register["token"], "secret");
    assert_eq!(register["hardware"]["cpu_cores"], 99);
    assert_eq!(
        register["supports"],
        json!(["ack", "cancel", "binary_audio", "tokens", "progress", "result_ack", "text"])
    );
    let languages = &register["language_capabilities"];
    assert_eq!(languages["semantic_languages"], json!(["en", "de"]));
    assert_eq!(languages["nmt_pairs"], json!([["en", "de"]]));
    assert_eq!(node.node_id(), "node-1");
    assert_eq!(node.registration().epoch, Some(3));
    assert!(node.is_connected());
}

#[tokio::test]
async fn a_refused_registration_is_an_error_with_its_code() {
    let desk = Desk::open().await;
    let refusal = json!({ "type": "error", "code": "INVALID_CAPABILITY",
                          "message": "no semantic languages" });
    let (node, _line) = tokio::join!(FakeNode::connect(desk.options()), desk.answer(refusal));
    let error = node.unwrap_err();
    let Some(ConnectError::Refused { code, message }) = error.downcast_ref() else {
        panic!("{error:#}");
    };
    assert_eq!((code.as_str(), message.as_str()), ("INVALID_CAPABILITY", "no semantic languages"));
}

#[tokio::test]
async fn a_close_instead_of_an_answer_is_an_error_with_its_code() {
    let desk = Desk::open().await;
    let refuse = async {
        let mut line = desk.accept().await;
        line.next().await;
        line.close(1008, "no token").await;
    };
    let (node, ()) = tokio::join!(FakeNode::connect(desk.options()), refuse);
    let error = node.unwrap_err();
    let Some(ConnectError::Closed(closed)) = error.downcast_ref() else { panic!("{error:#}") };
    assert_eq!((closed.code, closed.reason.as_str()), (Some(1008), "no token"));
}

#[tokio::test]
async fn a_job_is_acked_and_answered_with_the_ids_of_its_assign() {
    let desk = Desk::open().await;
    let (node, mut line) = desk.automatic(desk.options().logging(10)).await;
    line.send(assign("job-1", 2)).await;
    let ack = line.next().await;
    assert_eq!(
        ack,
        json!({ "type": "job_ack", "job_id": "job-1", "attempt_id": 2, "node_id": "node-1",
                "session_id": "s-job-1", "trace_id": "t-1", "lease_token": "L-1" })
    );
    let result = line.next().await;
    assert_eq!(result["type"], "job_result");
    assert_eq!(result["success"], true);
    assert_eq!(result["utterance_index"], 7);
    assert_eq!(result["text_translated"], "job-1 attempt 2 by node-1");
    for id in ["job_id", "attempt_id", "node_id", "session_id", "trace_id", "lease_token"] {
        assert_eq!(result[id], ack[id], "{id}");
    }
    until(&node, |stats| stats.done == 1 && stats.unacked == 1).await;
    line.send(json!({ "type": "result_ack", "job_id": "job-1", "attempt_id": 2 })).await;
    until(&node, |stats| stats.unacked == 0).await;

    let log = node.log();
    let events: Vec<_> = log.iter().map(|entry| (entry.job_id.as_str(), entry.event)).collect();
    let expected = [JobEvent::Received, JobEvent::Acked, JobEvent::Done];
    assert_eq!(events, expected.map(|event| ("job-1", event)));
    assert_eq!(log[0].turn_id.as_deref(), Some("turn-1"));
    assert!(log.is_sorted_by_key(|entry| entry.at_ms) && log[0].at_ms > 1_700_000_000_000);
}

#[tokio::test]
async fn a_job_takes_its_time_and_tells_what_happens_on_the_way() {
    let desk = Desk::open().await;
    let behaviour =
        Behaviour { started: true, partials: true, progress: true, ..Behaviour::taking_ms(100) };
    let (node, mut line) = desk.automatic(desk.options().behaviour(behaviour)).await;
    let began = Instant::now();
    line.send(assign("job-1", 1)).await;
    let kinds = line.kinds().await;
    assert_eq!(kinds, ["job_ack", "job_started", "asr_partial", "job_progress", "job_result"]);
    assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
    assert_eq!(node.stats().highest_running, 1);
    until(&node, |stats| stats.running == 0).await;
}

#[tokio::test]
async fn jobs_of_one_node_run_beside_each_other() {
    let desk = Desk::open().await;
    let options = desk.options().max_jobs(50).behaviour(Behaviour::taking_ms(200));
    let (node, mut line) = desk.automatic(options).await;
    let began = Instant::now();
    line.send_together((0..50).map(|n| assign(&format!("job-{n}"), 1)).collect()).await;
    for _ in 0..100 {
        line.next().await;
    }
    assert!(began.elapsed() < Duration::from_millis(2000), "{:?}", began.elapsed());
    let stats = node.stats();
    assert_eq!((stats.highest_running, stats.breaches, stats.done), (50, 0, 50));
}

#[tokio::test]
async fn one_job_too_many_is_counted_and_refused() {
    let desk = Desk::open().await;
    let options = desk.options().max_jobs(2).behaviour(Behaviour::taking_ms(60_000));
    let (node, mut line) = desk.automatic(options).await;
    line.send_together((0..3).map(|n| assign(&format!("job-{n}"), 1)).collect()).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_ack"]);
    let reject = line.next().await;
    assert_eq!((&reject["type"], &reject["job_id"]), (&json!("job_reject"), &json!("job-2")));
    assert_eq!(reject["reason"], "BUSY");
    let stats = node.stats();
    assert_eq!((stats.breaches, stats.rejected, stats.highest_running), (1, 1, 2));
}

#[tokio::test]
async fn a_cancelled_job_is_never_answered_and_makes_room() {
    let desk = Desk::open().await;
    let options = desk.options().max_jobs(1).behaviour(Behaviour::taking_ms(50));
    let (node, mut line) = desk.automatic(options).await;
    line.send(assign("job-1", 2)).await;
    assert_eq!(line.kinds().await, ["job_ack"]);
    line.cancel("job-1", 1).await;
    line.cancel("job-1", 2).await;
    until(&node, |stats| stats.cancelled == 1 && stats.running == 0).await;
    line.is_silent().await;
    line.send(assign("job-2", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_result"]);
    assert_eq!((node.stats().done, node.stats().breaches), (1, 0));
}

#[tokio::test]
async fn a_node_that_cannot_cancel_goes_on() {
    let desk = Desk::open().await;
    let options = desk.options().without("cancel").behaviour(Behaviour::taking_ms(50));
    let (node, mut line) = desk.automatic(options).await;
    line.send_together(vec![assign("job-1", 1)]).await;
    line.cancel("job-1", 1).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_result"]);
    assert_eq!(node.stats().cancelled, 0);
}

#[tokio::test]
async fn every_way_not_to_work_looks_as_the_contract_says() {
    let desk = Desk::open().await;
    let good = Behaviour::default();
    let (node, mut line) = desk.automatic(desk.options()).await;
    for (number, (behaviour, answers)) in [
        (Behaviour { reject: 1.0, ..good.clone() }, json!([["job_reject", "BUSY"]])),
        (
            Behaviour { model_missing: 1.0, ..good.clone() },
            json!([["job_reject", "MODEL_NOT_AVAILABLE"]]),
        ),
        (
            Behaviour { fail: 1.0, fail_code: "NMT_TIMEOUT".into(), ..good.clone() },
            json!([["job_ack", null], ["job_result", "NMT_TIMEOUT"]]),
        ),
        (Behaviour { drop_ack: 1.0, ..good.clone() }, json!([["job_result", null]])),
        (Behaviour { never_answer: 1.0, ..good.clone() }, json!([["job_ack", null]])),
    ]
    .into_iter()
    .enumerate()
    {
        node.set_behaviour(behaviour.clone()).await.unwrap();
        // Orders and messages come by different ways.
        sleep(Duration::from_millis(20)).await;
        let job_id = format!("job-{number}");
        line.send(assign(&job_id, 1)).await;
        for answer in answers.as_array().unwrap() {
            let message = line.next().await;
            let reason = message.get("reason").unwrap_or(&message["error"]["code"]);
            assert_eq!((&message["type"], reason), (&answer[0], &answer[1]), "{behaviour:?}");
            assert_eq!(message["job_id"], *job_id);
        }
        line.is_silent().await;
    }
    let stats = node.stats();
    assert_eq!((stats.rejected, stats.model_missing, stats.failed), (1, 1, 1));
    assert_eq!((stats.dropped_acks, stats.done, stats.running), (1, 1, 1));

    line.cancel("job-4", 1).await;
    until(&node, |stats| stats.running == 0 && stats.cancelled == 1).await;
}

#[tokio::test]
async fn the_same_attempt_twice_is_worked_on_once() {
    let desk = Desk::open().await;
    let options = desk.options().behaviour(Behaviour::taking_ms(60)).logging(20);
    let (node, mut line) = desk.automatic(options).await;
    line.send_together(vec![assign("job-1", 1), assign("job-1", 1), assign("job-1", 2)]).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_ack", "job_ack", "job_result", "job_result"]);
    line.send(assign("job-1", 1)).await;
    let again = line.next().await;
    assert_eq!((&again["type"], &again["attempt_id"]), (&json!("job_result"), &json!(1)));
    let stats = node.stats();
    assert_eq!((stats.received, stats.duplicates, stats.done), (4, 2, 2));
    let duplicates = node.log().into_iter().filter(|entry| entry.event == JobEvent::Duplicate);
    assert_eq!(duplicates.count(), 2);
}

#[tokio::test]
async fn the_audio_behind_an_assign_is_counted_and_any_other_frame_is_stray() {
    let desk = Desk::open().await;
    let (node, mut line) = desk.automatic(desk.options()).await;
    line.send(assign("job-1", 1)).await;
    line.send_frame(Message::binary(Bytes::from_static(b"\x21\x05job-1audio"))).await;
    line.send_frame(Message::binary(Bytes::from_static(b"\x21\x05job-0audio"))).await;
    line.send_frame(Message::binary(Bytes::from_static(b"?"))).await;
    until(&node, |stats| stats.stray_frames == 2).await;
    let stats = node.stats();
    assert_eq!((stats.audio_frames, stats.audio_bytes), (1, 5));
}

#[tokio::test]
async fn pings_are_answered_and_nonsense_is_survived() {
    let desk = Desk::open().await;
    let (node, mut line) = desk.automatic(desk.options()).await;
    line.ping().await;
    line.send_frame(Message::text("not JSON")).await;
    line.send(json!({ "type": "job_assign" })).await;
    line.send(json!({ "type": "news_of_tomorrow" })).await;
    line.send(json!({ "type": "error", "code": "RATE_LIMITED", "message": "slow down" })).await;
    line.send(assign("job-1", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_result"]);
    assert_eq!(node.stats().errors, 3);
    assert!(node.last_error().unwrap().contains("RATE_LIMITED"));
}

#[tokio::test]
async fn heartbeats_tell_what_is_running_and_whether_the_node_drains() {
    let desk = Desk::open().await;
    let options = desk
        .options()
        .heartbeat_every(Duration::from_millis(50))
        .behaviour(Behaviour::taking_ms(60_000));
    let (node, mut line) = desk.automatic(options).await;
    let idle = line.next().await;
    assert_eq!((&idle["type"], &idle["running"]), (&json!("node_heartbeat"), &json!([])));
    assert_eq!(idle["health"], "ready");
    assert!(idle["timestamp"].as_u64().unwrap() > 1_700_000_000_000);

    line.send(assign("job-1", 3)).await;
    line.send(json!({ "type": "node_control", "command": "drain" })).await;
    let busy = loop {
        let message = line.next().await;
        if message["health"] == "draining" {
            break message;
        }
    };
    assert_eq!(busy["running"], json!([{ "job_id": "job-1", "attempt_id": 3 }]));
    assert_eq!(busy["resource_usage"]["running_jobs"], 1);

    node.heartbeat(json!({ "resource_usage": { "gpu_percent": 99.5 } })).await.unwrap();
    while line.next().await["resource_usage"]["gpu_percent"] != 99.5 {}
}

#[tokio::test]
async fn a_node_that_is_closed_says_goodbye_and_one_that_is_dropped_does_not() {
    let desk = Desk::open().await;
    let (node, mut line) = desk.automatic(desk.options()).await;
    let (closed, code) = tokio::join!(node.close(), async {
        let code = line.close_code().await;
        assert_eq!(line.close_code().await, None);
        code
    });
    assert_eq!((closed.code, code), (Some(1000), Some(1000)));

    let (node, mut line) = desk.automatic(desk.options()).await;
    node.abort();
    assert_eq!(line.close_code().await, None);
}

#[tokio::test]
async fn impossible_behaviour_is_refused_before_anything_is_sent() {
    let desk = Desk::open().await;
    let bad =
        Behaviour { latency: Latency::Uniform { min_ms: 2, max_ms: 1 }, ..Behaviour::default() };
    FakeNode::connect(desk.options().behaviour(bad.clone())).await.unwrap_err();
    let (node, mut line) = desk.automatic(desk.options()).await;
    node.set_behaviour(bad).await.unwrap_err();
    sleep(A_WHILE).await;
    assert!(!line.has_frame());
}

#[tokio::test]
async fn two_thousand_answers_wait_for_a_scheduler_that_reads_late() {
    let desk = Desk::open().await;
    let behaviour = Behaviour { tts_audio_bytes: 6_000, ..Behaviour::default() };
    let (node, mut line) = desk.automatic(desk.options().behaviour(behaviour)).await;
    // 16 MB of answers: more than the sockets hold, so the node reads on while it cannot write.
    for n in 0..2_000 {
        line.send(assign(&format!("job-{n}"), 1)).await;
    }
    until(&node, |stats| stats.done == 2_000).await;
    for n in 0..2_000 {
        assert_eq!(line.next().await["type"], "job_ack");
        assert_eq!(line.next().await["job_id"], format!("job-{n}"));
    }
}
