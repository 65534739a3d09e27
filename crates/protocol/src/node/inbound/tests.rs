use serde_json::{Value, json};

use super::*;

const JOB: &str = "0123456789abcdefghjkmnpqrs";

fn told(message: &Value) -> Result<FromNode, Refusal> {
    let text = message.to_string();
    decode(&text, || Bytes::from(text.clone()))
}

fn word(message: &Value) -> JobMessage {
    match told(message) {
        Ok(FromNode::Job(word)) => word,
        Ok(_) => panic!("not about a job: {message}"),
        Err(refusal) => panic!("{message}: {refusal:?}"),
    }
}

fn refused(text: &str) -> (Code, String) {
    match decode(text, Bytes::new) {
        Ok(_) => panic!("taken: {text}"),
        Err(refusal) => (refusal.code, refusal.detail),
    }
}

fn result(fields: Value) -> JobReport {
    let mut message = json!({ "type": "job_result", "job_id": JOB, "attempt_id": 1 });
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    word(&message).report
}

fn failed(error: Value) -> (String, String, Option<String>) {
    match result(json!({ "success": false, "error": error })) {
        JobReport::Result(NodeResult::Failure { code, message, missing_model }) => {
            (code, message, missing_model)
        }
        other => panic!("{}", kind(&other)),
    }
}

fn kind(report: &JobReport) -> &'static str {
    match report {
        JobReport::Ack => "ack",
        JobReport::Started => "started",
        JobReport::Reject(_) => "reject",
        JobReport::Partial(_) => "partial",
        JobReport::Result(NodeResult::Success(_)) => "success",
        JobReport::Result(NodeResult::Empty { .. }) => "empty",
        JobReport::Result(NodeResult::Failure { .. }) => "failure",
    }
}

#[test]
fn words_about_jobs_carry_job_attempt_and_token() {
    for (message, report) in [
        ("job_ack", "ack"),
        ("job_started", "started"),
        ("asr_partial", "partial"),
        ("job_progress", "partial"),
        ("job_reject", "reject"),
    ] {
        let word = word(&json!({ "type": message, "job_id": JOB, "attempt_id": 3,
            "lease_token": "L", "node_id": "n", "utterance_index": 4, "unknown": {"a": [1, 2]} }));
        assert_eq!((word.job.as_str(), word.attempt), (JOB, Some(3)));
        assert_eq!((word.token.as_deref(), kind(&word.report)), (Some("L"), report));
    }
    let bare = word(&json!({ "type": "job_ack", "job_id": JOB, "attempt_id": null }));
    assert_eq!((bare.attempt, bare.token), (None, None), "null is absent");
}

#[test]
fn a_result_is_kept_as_it_came() {
    let message = json!({ "type": "job_result", "job_id": JOB, "attempt_id": 1, "success": true,
        "text_asr": "h\"i", "extra": { "reason": "because", "deep": [1] } });
    match word(&message).report {
        JobReport::Result(NodeResult::Success(body)) => {
            assert_eq!(**body, *message.to_string().as_bytes())
        }
        other => panic!("{}", kind(&other)),
    }
}

#[test]
fn an_ending_without_text_is_told_by_its_reason_in_any_case() {
    for reason in ["ASR_EMPTY", "asr_empty", "NO_TEXT_ASSIGNED"] {
        let report = result(json!({ "success": true, "extra": { "reason": reason } }));
        let JobReport::Result(NodeResult::Empty { reason: kept, .. }) = report else {
            panic!("{reason}")
        };
        assert_eq!(kept, reason.to_ascii_uppercase());
    }
    for extra in [json!({ "reason": "OTHER" }), json!("reason"), json!({ "reason": 7 }), json!([])]
    {
        assert_eq!(kind(&result(json!({ "success": true, "extra": extra }))), "success");
    }
    let failed = json!({ "success": false, "extra": { "reason": "ASR_EMPTY" } });
    assert_eq!(kind(&result(failed)), "failure");
}

#[test]
fn failures_bring_a_code_a_sentence_and_the_missing_model() {
    let (code, message, model) = failed(json!({ "code": "NMT_TIMEOUT", "message": "slow" }));
    assert_eq!((code.as_str(), message.as_str(), model), ("NMT_TIMEOUT", "slow", None));
    for (details, model) in [
        (json!({ "model": "m" }), Some("m")),
        (json!({ "model_id": "m", "version": "2" }), Some("m@2")),
        (json!({ "model_id": "m".repeat(65) }), None),
        (json!("none"), None),
        (Value::Null, None),
    ] {
        let error = json!({ "code": "model_not_available", "message": "", "details": details });
        let (code, _, found) = failed(error);
        assert_eq!((code.as_str(), found.as_deref()), ("MODEL_NOT_AVAILABLE", model));
    }
    assert_eq!(failed(Value::Null).0, "PROCESSING_ERROR");
    let (code, message, _) = failed(json!("out of memory"));
    assert_eq!((code.as_str(), message.as_str()), ("PROCESSING_ERROR", "out of memory"));
    let (code, message, _) = failed(json!({ "code": "X".repeat(999), "message": "é".repeat(999) }));
    assert_eq!((code.len(), message.chars().count()), (MAX_WORD, MAX_TEXT));
}

#[test]
fn busy_is_a_refusal_and_not_a_failure_whichever_way_it_is_said() {
    let busy = json!({ "success": false, "error": { "code": "BUSY", "message": "" } });
    for report in [
        result(busy),
        word(&json!({ "type": "job_reject", "job_id": JOB, "reason": "busy" })).report,
    ] {
        assert!(matches!(report, JobReport::Reject(Reject::Busy)), "{}", kind(&report));
    }
    let missing = json!({ "type": "job_reject", "job_id": JOB, "reason": "MODEL_NOT_AVAILABLE",
        "details": { "model": "m" } });
    let JobReport::Reject(reject) = word(&missing).report else { panic!() };
    assert_eq!(reject, Reject::MissingModel(Some("m".into())));
    let other = json!({ "type": "job_reject", "job_id": JOB, "reason": "no mood" });
    let JobReport::Reject(reject) = word(&other).report else { panic!() };
    assert_eq!(reject, Reject::Other("no mood".into()));
}

#[test]
fn a_node_reports_its_own_errors() {
    let message = json!({ "type": "node_error", "node_id": "n", "code": "GPU", "message": "hot",
        "details": { "t": 99 } });
    let Ok(FromNode::Error { code, message }) = told(&message) else { panic!() };
    assert_eq!((code.as_str(), message.as_str()), ("GPU", "hot"));
}

#[test]
fn refusals_name_the_field() {
    use Code::{InvalidMessage, UnsupportedMessage};
    let job = |rest: &str| format!(r#"{{"type":"job_ack","job_id":"{JOB}"{rest}}}"#);
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(999));
    for (text, code, says) in [
        ("", InvalidMessage, "one JSON object"),
        ("{", InvalidMessage, "not a JSON object"),
        (r#"{"type":"job_ack"} x"#, InvalidMessage, "something follows"),
        (r#"["job_ack"]"#, InvalidMessage, "one JSON object"),
        ("7", InvalidMessage, "one JSON object"),
        ("{}", InvalidMessage, "`type`"),
        (r#"{"type":7}"#, InvalidMessage, "type:"),
        (r#"{"type":"dance"}"#, UnsupportedMessage, "\"dance\""),
        (r#"{"type":"dance","job_id":7}"#, UnsupportedMessage, "\"dance\""),
        (&long, UnsupportedMessage, "xxx"),
        (r#"{"type":"job_ack"}"#, InvalidMessage, "`job_id`"),
        (r#"{"type":"job_ack","job_id":7}"#, InvalidMessage, "job_id:"),
        (r#"{"type":"job_ack","job_id":"short"}"#, InvalidMessage, "job_id:"),
        (&job(r#","attempt_id":"1""#), InvalidMessage, "attempt_id:"),
        (&job(r#","attempt_id":-1"#), InvalidMessage, "attempt_id:"),
        (&job("").replace("ack", "result"), InvalidMessage, "`success`"),
        (&job(r#","success":1"#).replace("ack", "result"), InvalidMessage, "success:"),
        (r#"{"type":"register","supports":"ack"}"#, InvalidMessage, "supports:"),
        (
            r#"{"type":"heartbeat","running":[{"job_id":"a"}]}"#,
            InvalidMessage,
            "running[0]: `attempt_id` is missing",
        ),
        (
            r#"{"type":"heartbeat","language_capabilities":{"asr_languages":["en",1]}}"#,
            InvalidMessage,
            "language_capabilities.asr_languages[1]:",
        ),
    ] {
        let (found, detail) = refused(text);
        assert_eq!(found, code, "{text}: {detail}");
        assert!(detail.contains(says), "{text}: {detail}");
        assert!(detail.len() <= MAX_SENTENCE, "{detail}");
    }
}

#[test]
fn a_result_with_empty_texts_is_silence_and_one_without_any_is_not() {
    let reason = |more: Value| {
        let mut message = json!({ "type": "job_result", "job_id": JOB, "success": true });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match told(&message) {
            Ok(FromNode::Job(JobMessage { report: JobReport::Result(result), .. })) => match result
            {
                NodeResult::Empty { reason, .. } => Some(reason),
                _ => None,
            },
            _ => panic!("{message}"),
        }
    };
    for empty in [
        json!({ "text_asr": "", "text_translated": "", "tts_audio": "", "extra": {} }),
        json!({ "text_asr": " \n", "text_translated": null }),
        json!({ "text_translated": "" }),
    ] {
        assert_eq!(reason(empty.clone()).as_deref(), Some("ASR_EMPTY"), "{empty}");
    }
    for said in [
        json!({ "text_asr": "", "text_translated": "x" }),
        json!({ "text_asr": "", "tts_audio": "AAAA" }),
        json!({ "text_asr": "x", "text_translated": "" }),
        json!({ "quality_score": 0.5 }),
        json!({}),
    ] {
        assert_eq!(reason(said.clone()), None, "{said}");
    }
}

#[test]
fn a_node_of_the_field_introduces_itself() {
    let message = json!({ "type": "node_register", "node_id": null, "version": "2.0.0",
        "platform": "win32", "capability_schema_version": "2.0",
        "hardware": { "cpu_cores": 8, "memory_gb": 15.87, "gpus": [{ "memory_gb": 7.99 }] },
        "installed_models": [{ "model_id": "m", "enabled": true }],
        "installed_services": [{ "service_id": "s", "type": "Whatever", "device": "GPU" }],
        "capability_by_type": [{ "type": "ASR", "ready": true }, { "type": "tone", "ready": false,
            "reason": "tone_impl_not_running" }],
        "features_supported": { "emotion_detection": false }, "accept_public_jobs": true,
        "language_capabilities": { "asr_languages": ["en"], "semantic_languages": ["en"],
            "tts_languages": [], "semantic_core_ready": true } });
    let Ok(FromNode::Register(mut said)) = told(&message) else { panic!() };
    assert_eq!(said.node_id, None);
    assert!(!said.supports().any());
    assert_eq!(said.health().unwrap(), None);
    let detail = said.detail();
    assert_eq!(detail.platform.as_deref(), Some("win32"));
    assert!(detail.hardware.unwrap().get().contains("15.87"));
    let mut abilities = Default::default();
    said.put_over(&mut abilities);
    let declared = abilities.declaration(4).unwrap();
    assert_eq!(declared.max_slots, 4);
    assert_eq!(declared.services.len(), 2);
}

#[test]
fn a_heartbeat_replaces_what_it_names_and_nothing_else() {
    let mut known = Default::default();
    let register = json!({ "type": "register", "max_concurrent_jobs": 3,
        "capability_by_type": [{ "type": "asr", "ready": true }],
        "language_capabilities": { "semantic_languages": ["en", "zh"], "tts_languages": ["en"] } });
    let Ok(FromNode::Register(mut said)) = told(&register) else { panic!() };
    said.put_over(&mut known);
    let first = known.clone();

    let quiet = json!({ "type": "node_heartbeat", "node_id": "n", "timestamp": 1,
        "resource_usage": { "cpu_percent": 1.5, "mem_percent": 99.9, "running_jobs": 0 } });
    let Ok(FromNode::Heartbeat(mut said)) = told(&quiet) else { panic!() };
    assert_eq!(said.usage().mem_percent, Some(99.9));
    assert!(said.running().is_none());
    said.put_over(&mut known);
    assert_eq!(known, first);

    let other = json!({ "type": "heartbeat", "health": "DRAINING",
        "running": [{ "job_id": JOB, "attempt_id": 2 }, { "job_id": "job-17", "attempt_id": 1 }],
        "language_capabilities": { "semantic_languages": ["en"] } });
    let Ok(FromNode::Heartbeat(mut said)) = told(&other) else { panic!() };
    assert_eq!(said.health().unwrap(), Some(lingua_core::node::Health::Draining));
    let running = said.running().unwrap();
    assert_eq!((running.jobs[0].1, &running.strangers[..]), (2, &[("job-17".to_owned(), 1)][..]));
    said.put_over(&mut known);
    assert_eq!(known.tts, None, "the whole field is replaced");
    assert_eq!((known.max_concurrent_jobs, known.types.len()), (Some(3), 1));

    let lost = json!({ "type": "heartbeat", "language_capabilities": { "semantic_languages": [],
        "semantic_core_ready": true } });
    let Ok(FromNode::Heartbeat(mut said)) = told(&lost) else { panic!() };
    said.put_over(&mut known);
    let declared = known.declaration(4).unwrap();
    assert_eq!(declared.services.get("semantic"), Some(&false), "known to be unable");
}

#[test]
fn a_result_that_is_too_large_is_a_failure_of_its_attempt() {
    let body = |bytes: usize| NodeMessage::from(Bytes::from(vec![b'x'; bytes]));
    for (report, kept) in [
        (JobReport::Result(NodeResult::Success(body(10))), true),
        (JobReport::Result(NodeResult::Success(body(11))), false),
        (JobReport::Result(NodeResult::Empty { body: body(11), reason: "x".into() }), false),
        (JobReport::Partial(body(10)), true),
        (JobReport::Partial(body(11)), false),
    ] {
        let was_partial = matches!(report, JobReport::Partial(_));
        let (bounded, too_large) = report.bounded(10);
        assert_eq!(too_large, !kept);
        match bounded {
            JobReport::Result(NodeResult::Failure { code, .. }) => {
                assert!(!kept && code == "MESSAGE_TOO_LARGE");
            }
            JobReport::Started => assert!(!kept && was_partial),
            _ => assert!(kept),
        }
    }
}
