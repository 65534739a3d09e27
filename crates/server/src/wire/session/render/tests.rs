use bytes::Bytes;
use lingua_core::outcome::{Code, MissingReason};
use lingua_core::{Lang, SessionId};
use lingua_engine::job::Refusal;
use lingua_engine::sessions::outbound::{Action, Detail, Direction};
use serde_json::{Value, json};

use lingua_protocol::node::message::read_message;

use super::*;

const JOB: &str = "0123456789abcdefghjkmnpqrs";

const DOOR: Renderer<'_> = Renderer {
    session_id: "s-1",
    codec: Codec::Opus,
    binary: false,
    now_ms: 1_700_000_000_000,
    heartbeat_interval_ms: 30_000,
};

fn en_to_zh() -> Direction {
    Direction::FromTo(Lang::new("en").unwrap(), Lang::new("zh").unwrap())
}

fn utterance() -> About<'static> {
    let job = Some(JOB.parse().unwrap());
    About { utterance_index: 4, job, trace_id: "t\"1", direction: en_to_zh() }
}

fn rendered_by(door: &Renderer<'_>, word: &ToClient<'_>) -> Value {
    let mut out = "before".to_owned();
    assert!(render(word, door, &mut out));
    let message = out.strip_prefix("before").unwrap();
    serde_json::from_str(message).unwrap_or_else(|error| panic!("{error}: {message}"))
}

fn rendered(word: &ToClient<'_>) -> Value {
    rendered_by(&DOOR, word)
}

/// A result whose node said this.
fn result_text(body: &str) -> Value {
    let body = read_message(Bytes::copy_from_slice(body.as_bytes()));
    rendered(&ToClient::Result {
        about: utterance(),
        turn: "turn",
        part_index: 2,
        body: &body,
        form: None,
        via: None,
        audio_ack: None,
    })
}

fn result(body: &Value) -> Value {
    result_text(&body.to_string())
}

/// What every result has, with these fields instead.
fn wanted(more: &Value) -> Value {
    let mut wanted = json!({ "type": "translation_result", "session_id": "s-1",
        "utterance_index": 4, "src_lang": "en", "tgt_lang": "zh", "job_id": JOB,
        "trace_id": "t\"1", "group_id": "turn",
        "part_index": 2, "scheduler_sent_at_ms": DOOR.now_ms, "text_asr": "",
        "text_translated": "", "tts_audio": "", "tts_format": "" });
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    wanted
}

#[test]
fn an_existing_client_is_told_what_it_knows_and_little_more() {
    let mut opened = Opened {
        session: SessionId::new("s-1").unwrap(),
        trace_id: "t".into(),
        resume_token: None,
        recovered: None,
        next_index: 0,
        targets: Vec::new(),
    };
    let message = rendered(&ToClient::Opened(&opened));
    assert_eq!(
        message,
        json!({ "type": "session_init_ack", "session_id": "s-1", "message": "session opened",
            "trace_id": "t", "protocol_version": "1.0", "use_binary_frame": false,
            "negotiated_codec": "opus", "negotiated_audio_format": "opus",
            "negotiated_sample_rate": 16000, "negotiated_channel_count": 1, "next_index": 0,
            "heartbeat_interval_ms": 30000 })
    );
    opened.resume_token = Some("r".into());
    opened.recovered = Some(false);
    opened.next_index = 9;
    opened.targets = vec!["zh".into(), "de".into()];
    let door = Renderer { codec: Codec::Pcm16, binary: true, session_id: "", ..DOOR };
    let message = rendered_by(&door, &ToClient::Opened(&opened));
    assert_eq!(
        (&message["session_id"], &message["targets"]),
        (&"s-1".into(), &json!(["zh", "de"]))
    );
    assert_eq!(
        (&message["use_binary_frame"], &message["negotiated_codec"]),
        (&true.into(), &"pcm16".into())
    );
    assert_eq!((&message["resume_token"], &message["recovered"]), (&"r".into(), &false.into()));
    assert_eq!(
        (&message["next_index"], &message["negotiated_audio_format"]),
        (&9.into(), &"pcm16".into())
    );
}

#[test]
fn a_failure_is_told_to_a_client_that_shows_nothing_but_errors() {
    let refusal = Refusal::new(Code::AllNodesBusy, "all busy").retry_after(500);
    assert_eq!(
        rendered(&ToClient::Failed { refusal: &refusal, about: utterance() }),
        json!({ "type": "error", "code": "ALL_NODES_BUSY", "message": "all busy",
            "details": { "utterance_index": 4 }, "trace_id": "t\"1", "retry_after_ms": 500 })
    );
    let mut out = String::new();
    room_error(&mut out);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&told["type"], &told["code"]),
        (&"room_error".into(), &"UNSUPPORTED_MESSAGE".into())
    );
}

#[test]
fn how_long_the_node_took_stands_for_times_that_it_did_not_send() {
    let own = json!({ "service_timings": { "asr_ms": 3 }, "processing_time_ms": 9 });
    assert_eq!(result(&own)["service_timings"], json!({ "asr_ms": 3 }));
    let took = result(&json!({ "processing_time_ms": 9 }));
    assert_eq!(took["service_timings"], json!({ "total_ms": 9 }));
    for unknown in
        [json!({}), json!({ "processing_time_ms": "9" }), json!({ "processing_time_ms": -1 })]
    {
        assert!(result(&unknown).get("service_timings").is_none(), "{unknown}");
    }
}

#[test]
fn short_words_are_as_the_protocol_has_them() {
    let refusal = Refusal::new(Code::AllNodesBusy, "all \"busy\"\n").retry_after(500);
    let ours = Refusal::new(Code::InvalidMessage, "seq: no");
    let theirs = Refusal { node_code: Some("NMT_\"TIMEOUT".into()), ..ours.clone() };
    let details = [("limit", Detail::Number(5)), ("field", Detail::Word("a\"b"))];
    for (word, wanted) in [
        (
            ToClient::Finalized { utterance_index: Some(3) },
            json!({ "type": "finalized", "session_id": "s-1", "utterance_index": 3 }),
        ),
        (
            ToClient::Finalized { utterance_index: None },
            json!({ "type": "finalized", "session_id": "s-1", "utterance_index": null }),
        ),
        (
            ToClient::AudioAck { seq: u32::MAX },
            json!({ "type": "audio_ack", "session_id": "s-1", "seq": u32::MAX }),
        ),
        (
            ToClient::Backpressure {
                action: Action::SlowDown,
                resume_after_ms: Some(100),
                message: "slower",
            },
            json!({ "type": "backpressure", "action": "SLOW_DOWN", "resume_after_ms": 100,
                "message": "slower" }),
        ),
        (
            ToClient::Backpressure { action: Action::Busy, resume_after_ms: None, message: "" },
            json!({ "type": "backpressure", "action": "BUSY" }),
        ),
        (
            ToClient::GoAway { deadline_ms: 5_000, reason: "drain" },
            json!({ "type": "go_away", "deadline_ms": 5000, "reason": "drain" }),
        ),
        (
            ToClient::Error { refusal: &refusal, details: &[] },
            json!({ "type": "error", "code": "ALL_NODES_BUSY", "message": "all \"busy\"\n",
                "retry_after_ms": 500 }),
        ),
        (
            ToClient::Error { refusal: &ours, details: &details },
            json!({ "type": "error", "code": "INVALID_MESSAGE", "message": "seq: no",
                "details": { "limit": 5, "field": "a\"b" } }),
        ),
        (
            ToClient::Error { refusal: &theirs, details: &[] },
            json!({ "type": "error", "code": "NMT_\"TIMEOUT", "message": "seq: no" }),
        ),
        (ToClient::CloseAck, json!({ "type": "session_close_ack", "session_id": "s-1" })),
    ] {
        assert_eq!(rendered(&word), wanted);
    }
    let mut out = String::new();
    server_heartbeat("s-1", 77, &mut out);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found, json!({ "type": "server_heartbeat", "session_id": "s-1", "timestamp": 77 }));
}

#[test]
fn a_missing_result_says_why_and_in_which_language() {
    for (word, wanted) in [
        (
            ToClient::Missing {
                utterance_index: 2,
                direction: en_to_zh(),
                reason: MissingReason::GapTimeout,
                trace_id: Some("t"),
                audio_ack: Some(7),
            },
            json!({ "type": "missing_result", "session_id": "s-1", "utterance_index": 2,
                "src_lang": "en", "tgt_lang": "zh", "reason": "gap_timeout",
                "created_at_ms": DOOR.now_ms, "trace_id": "t", "audio_ack": 7 }),
        ),
        (
            ToClient::Missing {
                utterance_index: 2,
                direction: Direction::Unknown,
                reason: MissingReason::SilenceDetected,
                trace_id: None,
                audio_ack: None,
            },
            json!({ "type": "missing_result", "session_id": "s-1", "utterance_index": 2,
                "reason": "silence_detected", "created_at_ms": DOOR.now_ms }),
        ),
    ] {
        assert_eq!(rendered(&word), wanted);
    }
}

#[test]
fn an_event_says_which_step_and_how_it_went() {
    let event = |step, about, error| {
        rendered(&ToClient::Event { step, about, elapsed_ms: Some(12), error })
    };
    assert_eq!(
        event(Step::Dispatched, utterance(), None),
        json!({ "type": "ui_event", "session_id": "s-1", "utterance_index": 4, "src_lang": "en",
            "tgt_lang": "zh", "job_id": JOB, "trace_id": "t\"1", "event": "DISPATCHED", "elapsed_ms": 12, "status": "ok" })
    );
    assert_eq!(
        event(Step::Error, utterance(), Some(("JOB_TIMEOUT", "try \"again\""))),
        json!({ "type": "ui_event", "session_id": "s-1", "utterance_index": 4, "src_lang": "en",
            "tgt_lang": "zh", "job_id": JOB, "trace_id": "t\"1", "event": "ERROR", "elapsed_ms": 12, "status": "error",
            "error_code": "JOB_TIMEOUT", "hint": "try \"again\"" })
    );
    let direction = Direction::From(Lang::new("en").unwrap());
    let early = About { job: None, direction, ..utterance() };
    let started = event(Step::InputStarted, early, None);
    assert_eq!((&started["src_lang"], started.get("tgt_lang")), (&"en".into(), None));
    assert_eq!(event(Step::InputStarted, early, None)["job_id"], "");
    assert_eq!(event(Step::Error, early, None)["status"], "error");
}

#[test]
fn a_partial_is_what_a_node_has_recognised() {
    let partial = |body: Value| {
        let body = read_message(Bytes::from(body.to_string()));
        let mut out = String::new();
        let word = ToClient::Partial { about: utterance(), body: &body };
        render(&word, &DOOR, &mut out).then(|| serde_json::from_str::<Value>(&out).unwrap())
    };
    let wanted = json!({ "type": "asr_partial", "session_id": "s-1", "utterance_index": 4,
        "src_lang": "en", "tgt_lang": "zh", "job_id": JOB, "trace_id": "t\"1",
        "text": "h\"é\n", "is_final": true });
    let node = json!({ "type": "asr_partial", "job_id": JOB, "node_id": "n", "session_id": "alias",
        "utterance_index": 9, "text": "h\"é\n", "is_final": true, "trace_id": "theirs" });
    assert_eq!(partial(node).unwrap(), wanted);
    let progress = json!({ "type": "job_progress", "stage": "asr", "text": "x", "is_final": "?" });
    assert_eq!(partial(progress).unwrap()["is_final"], false);
    for nothing in [
        json!({ "type": "job_progress", "stage": "nmt", "text": "a translation" }),
        json!({ "type": "job_progress", "text": "of what nobody knows" }),
        json!({ "type": "job_progress", "stage": "tts", "tts_chunk": "AAEC" }),
        json!({ "type": "asr_partial", "text": null }),
        json!({ "type": "asr_partial", "text": 5 }),
        json!([]),
    ] {
        assert_eq!(partial(nothing), None);
    }
    let mut out = "before".to_owned();
    let body = read_message(Bytes::from_static(b"{}"));
    assert!(!render(&ToClient::Partial { about: utterance(), body: &body }, &DOOR, &mut out));
    assert_eq!(out, "before", "nothing is written");
}

#[test]
fn a_result_is_the_nodes_with_our_names() {
    let said = json!({ "text_asr": "h\"i\u{1}é", "text_translated": "你好", "tts_audio": "AAEC",
        "tts_format": "opus", "extra": {"emotion": [1, {"a": null}], "new": 1e3},
        "service_timings": {"asr_ms": 5}, "network_timings": {"x": 1}, "asr_quality_level": "good",
        "reason_codes": ["A"], "quality_score": 0.75, "rerun_count": 2,
        "segments_meta": {"count": 1} });
    let mut body = said.clone();
    for (name, value) in [
        ("type", json!("job_result")),
        ("job_id", json!("another")),
        ("attempt_id", json!(3)),
        ("node_id", json!("node-secret")),
        ("session_id", json!("alias")),
        ("utterance_index", json!(99)),
        ("trace_id", json!("theirs")),
        ("group_id", json!("theirs")),
        ("part_index", json!(99)),
        ("success", json!(true)),
        ("lease_token", json!("secret")),
        ("hostname", json!("secret")),
        ("node_completed_at_ms", json!(1)),
    ] {
        body[name] = value;
    }
    assert_eq!(result(&body), wanted(&said));
}

#[test]
fn a_result_without_anything_has_empty_texts() {
    assert_eq!(result(&json!({})), wanted(&json!({})));
    let nulls = json!({ "text_asr": null, "tts_audio": null, "tts_format": null, "extra": null,
        "reason_codes": null, "quality_score": null, "segments_meta": null });
    assert_eq!(result(&nulls), wanted(&json!({})));
}

#[test]
fn what_has_a_wrong_form_does_not_reach_the_client() {
    let odd = json!({ "text_asr": 5, "text_translated": {"a": 1}, "tts_audio": [1, 2],
        "tts_format": true, "extra": "x", "service_timings": [1], "network_timings": 1,
        "asr_quality_level": 3, "reason_codes": "A", "quality_score": "high", "rerun_count": {},
        "segments_meta": "x" });
    assert_eq!(result(&odd), wanted(&json!({})));
    assert_eq!(result_text(r#"{"text_asr":"\ud800","quality_score":1e999}"#), wanted(&json!({})));
    let deep = format!(r#"{{"extra":{{"a":{}{}}}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(result_text(&deep), wanted(&json!({})));
    for no_message in ["", "[]", "null", "{", "\u{1}"] {
        assert_eq!(result_text(no_message), wanted(&json!({})));
    }
    let cut_off = result_text(r#"{"text_asr":"a","tts_audio":"AA"#);
    assert_eq!(cut_off, wanted(&json!({ "text_asr": "a" })));
}

#[test]
fn what_is_said_in_an_unusual_way_is_the_same() {
    let unusual = "{ \"text\\u005fasr\" : \"a\\/b\" ,\n \"tts_audio\":\"AA\\/C\", \"text_asr\": \"c\\u00e9\", \
         \"extra\" : { \"x\" : 1 } , \"segments_meta\":[ 1 ], \"quality_score\": -1.5E-3 }";
    let told = json!({ "text_asr": "cé", "tts_audio": "AA/C", "extra": {"x": 1},
        "segments_meta": [1], "quality_score": -1.5e-3 });
    assert_eq!(result_text(unusual), wanted(&told), "of two values the last counts");
}
