use std::sync::Arc;

use bytes::Bytes;
use lingua_core::JobId;
use lingua_core::SessionId;
use lingua_core::outcome::Code;
use lingua_engine::job::{Assign, JobInput, JobOptions, Json, Receipt};
use lingua_protocol::node::outbound::audio_frame;
use lingua_protocol::options::{JsonObject, JsonWords, Switch};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

const JOB: &str = "0123456789abcdefghjkmnpqrs";

fn job() -> JobId {
    JOB.parse().unwrap()
}

fn raw(text: &str) -> Json {
    Arc::from(RawValue::from_string(text.to_owned()).unwrap())
}

fn rendered(message: &ToNode, supports: Supports) -> Value {
    let mut out = String::new();
    render(message, supports, &mut out);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn assign(work: JobInput) -> ToNode {
    ToNode::Assign(Box::new(Assign {
        job: job(),
        attempt: 2,
        token: "L".into(),
        session: SessionId::new("s-1").unwrap(),
        turn: "turn".into(),
        deadline_ms: 99,
        send_by: tokio::time::Instant::now(),
        traceparent: None,
        work: Arc::new(work),
        receipt: Receipt::default(),
    }))
}

fn plain() -> JobInput {
    let options =
        JobOptions { src_lang: "en".into(), tgt_lang: "zh".into(), ..JobOptions::default() };
    JobInput {
        options,
        audio: Bytes::from_static(b"\x00\xff\x10"),
        audio_format: "opus".into(),
        sample_rate: 16_000,
        trace_id: "t".into(),
        ..JobInput::default()
    }
}

#[test]
fn an_assign_says_what_the_nodes_own_spans_are_a_part_of() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ToNode::Assign(mut message) = assign(plain()) else { panic!("it is an assign") };
    message.traceparent = Some(PARENT.to_owned());
    let found = rendered(&ToNode::Assign(message), Supports::default());
    assert_eq!((&found["traceparent"], &found["trace_id"]), (&json!(PARENT), &json!("t")));
}

#[test]
fn an_assign_leaves_out_what_is_not_said() {
    let found = rendered(&assign(plain()), Supports::default());
    let wanted = json!({ "type": "job_assign", "job_id": JOB, "attempt_id": 2, "session_id": "s-1",
        "utterance_index": 0, "src_lang": "en", "tgt_lang": "zh", "audio": "AP8Q",
        "audio_format": "opus", "sample_rate": 16000, "enable_streaming_asr": false,
        "trace_id": "t", "turn_id": "turn", "deadline_ms": 99 });
    assert_eq!(found, wanted);
}

#[test]
fn an_assign_says_everything_there_is() {
    let options = JobOptions {
        dialect: Some("d".into()),
        features: Some(JsonObject(raw(r#"{"a": true}"#))),
        pipeline: Some(JsonObject(raw(r#"{"use_asr":true,"new":[1]}"#))),
        mode: Some("two_way_auto".into()),
        lang_a: Some("en".into()),
        lang_b: Some("zh".into()),
        auto_langs: Some(JsonWords(raw(r#"["en","zh"]"#))),
        enable_streaming_asr: Switch(Some(true)),
        partial_update_interval_ms: Some(500),
        ..plain().options
    };
    let work = JobInput {
        options,
        utterance_index: 7,
        group_id: Some("g".into()),
        part_index: Some(1),
        context_text: Some("said \"before\"\n\u{1}é".into()),
        padding_ms: Some(280),
        manual_cut: true,
        timeout_cut: true,
        max_duration_cut: true,
        ..plain()
    };
    let supports = Supports { tokens: true, ..Supports::default() };
    let found = rendered(&assign(work), supports);
    for (field, wanted) in [
        ("utterance_index", json!(7)),
        ("dialect", json!("d")),
        ("features", json!({ "a": true })),
        ("pipeline", json!({ "use_asr": true, "new": [1] })),
        ("mode", json!("two_way_auto")),
        ("lang_a", json!("en")),
        ("lang_b", json!("zh")),
        ("auto_langs", json!(["en", "zh"])),
        ("enable_streaming_asr", json!(true)),
        ("partial_update_interval_ms", json!(500)),
        ("group_id", json!("g")),
        ("part_index", json!(1)),
        ("context_text", json!("said \"before\"\n\u{1}é")),
        ("padding_ms", json!(280)),
        ("is_manual_cut", json!(true)),
        ("is_timeout_triggered", json!(true)),
        ("is_max_duration_triggered", json!(true)),
        ("lease_token", json!("L")),
    ] {
        assert_eq!(found[field], wanted, "{field}");
    }
}

#[test]
fn binary_audio_goes_in_a_frame_of_its_own() {
    let supports = Supports { binary_audio: true, ..Supports::default() };
    assert_eq!(rendered(&assign(plain()), supports).get("audio"), None);
    let frame = audio_frame(job(), &Bytes::from_static(b"sound"));
    assert_eq!(&frame[..2], [0x21, 26]);
    assert_eq!((&frame[2..28], &frame[28..]), (JOB.as_bytes(), &b"sound"[..]));
}

#[test]
fn the_small_messages_are_as_the_protocol_says() {
    let none = Supports::default();
    let cancel = ToNode::Cancel { job: job(), attempt: 1, reason: "given_up" };
    assert_eq!(
        rendered(&cancel, none),
        json!({ "type": "job_cancel", "job_id": JOB, "attempt_id": 1, "reason": "given_up" })
    );
    let ack = ToNode::ResultAck { job: job(), attempt: 1 };
    let wanted = json!({ "type": "result_ack", "job_id": JOB, "attempt_id": 1 });
    assert_eq!(rendered(&ack, none), wanted);
    let control = ToNode::Control { command: "drain", reason: Some("by \"me\"".into()) };
    assert_eq!(
        rendered(&control, none),
        json!({ "type": "node_control", "command": "drain", "reason": "by \"me\"" })
    );
    let mut out = String::new();
    error(&Refusal::new(Code::NotFound, "register first").retry_after(5), &mut out);
    let found: Value = serde_json::from_str(&out).unwrap();
    let wanted = json!({ "type": "error", "code": "NOT_FOUND", "message": "register first",
        "retry_after_ms": 5 });
    assert_eq!(found, wanted);
}

#[test]
fn a_heartbeat_is_answered_with_why_the_node_is_idle_and_without_it_if_nothing_is_in_the_way() {
    let mut out = String::new();
    heartbeat_ack(7, &[], &mut out);
    assert_eq!(out, r#"{"type":"heartbeat_ack","server_time_ms":7}"#);
    out.clear();
    heartbeat_ack(7, &["it misses \"a\"".to_owned(), "it is blocked".to_owned()], &mut out);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["why_idle"], json!(["it misses \"a\"", "it is blocked"]));
}
