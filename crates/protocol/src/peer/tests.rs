//! What one version writes the next one reads: the words of version 1 are kept beside this file.

use std::sync::Arc;

use super::*;
use crate::JobOptions;
use crate::options::JsonObject;

/// An envelope with every word, as version 1 writes it. It is never changed: a word that gains a
/// field goes on to be read without it, and a word that cannot be read without it needs a new
/// version, and the range of versions that instances announce.
const V1: &str = include_str!("v1.json");

fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn job() -> JobId {
    id("0123456789abcdefghjkmnpqrs")
}

fn body() -> BodyRef {
    BodyRef { name: "ff".into(), bytes: 3, digest: None }
}

fn node() -> NodeId {
    id("n")
}

fn tenant() -> TenantId {
    id("t")
}

fn session() -> SessionId {
    id("s")
}

fn events() -> Vec<PeerEvent> {
    let failure = PeerResult::Failure {
        code: "GPU_LOST".into(),
        message: "gone".into(),
        missing_model: Some("m".into()),
        told: None,
    };
    let empty = PeerResult::Empty { body: body(), reason: "silence".into() };
    vec![
        PeerEvent::Sent { attempt: 1 },
        PeerEvent::NotSent { attempt: 1 },
        PeerEvent::Ack { attempt: 1 },
        PeerEvent::Reject { attempt: 1, reason: PeerReject::Busy, told: None },
        PeerEvent::Reject {
            attempt: 1,
            reason: PeerReject::MissingModel(Some("m".into())),
            told: None,
        },
        PeerEvent::Reject { attempt: 1, reason: PeerReject::Other("no".into()), told: None },
        PeerEvent::Partial { attempt: 1, body: body() },
        PeerEvent::Result { attempt: 1, result: PeerResult::Success { body: body() } },
        PeerEvent::Result { attempt: 1, result: empty },
        PeerEvent::Result { attempt: 1, result: failure },
        PeerEvent::NodeGone { attempt: 1 },
        PeerEvent::NodeBack { attempt: 1 },
        PeerEvent::Dropped { attempt: 1 },
        PeerEvent::TurnClosed { attempt: 1 },
    ]
}

/// Every way in which a session's job ends.
fn endings() -> [PeerEnded; 4] {
    [
        PeerEnded::Done { body: body() },
        PeerEnded::Empty { reason: "silence".into() },
        PeerEnded::Failed { code: "JOB_TIMEOUT".into(), detail: "late".into(), told: None },
        PeerEnded::Cancelled { reason: "by the client".into() },
    ]
}

/// Every word of the first version.
fn words() -> Vec<PeerMessage> {
    let pipeline = RawValue::from_string("{\"use_asr\":true}".to_owned()).unwrap();
    let options =
        JobOptions { pipeline: Some(JsonObject(Arc::from(pipeline))), ..JobOptions::default() };
    let work = JobInput { options, ..JobInput::default() };
    let assign = RemoteAssign {
        node: node(),
        epoch: 7,
        job: job(),
        attempt: 1,
        token: "00".into(),
        session: session(),
        turn: "t".into(),
        deadline_ms: 9,
        work: Arc::new(work),
        audio: Some(body()),
        context: None,
        traceparent: None,
    };
    let adopt = RemoteAdopt {
        node: node(),
        epoch: 7,
        job: job(),
        attempt: 1,
        token: "00".into(),
        turn: "t".into(),
        index: 3,
    };
    let mut words = vec![
        PeerMessage::Assign(Box::new(assign)),
        PeerMessage::Adopt(Box::new(adopt)),
        PeerMessage::Cancel {
            node: node(),
            epoch: 7,
            job: job(),
            attempt: 1,
            reason: "deadline".into(),
        },
        PeerMessage::ResultAck { node: node(), epoch: 7, job: job(), attempt: 1 },
        PeerMessage::Control {
            node: node(),
            epoch: 7,
            command: "update".into(),
            reason: Some("model".into()),
        },
        PeerMessage::Forget {
            node: node(),
            job: job(),
            attempt: 1,
            over: true,
            blame: false,
            code: None,
        },
        PeerMessage::SlotFreed { node: node() },
        PeerMessage::SessionMoved { tenant: tenant(), session: session(), epoch: 7 },
    ];
    words.extend(events().into_iter().map(|event| PeerMessage::Job {
        job: job(),
        node: node(),
        epoch: 7,
        event,
    }));
    words.extend(endings().into_iter().map(|ended| PeerMessage::SessionJob {
        tenant: tenant(),
        session: session(),
        job: job(),
        ended,
    }));
    words
}

/// Fails when a word is written differently than it was: then an instance of the version before may
/// misread it. A new word or a new field is added to a new file.
#[test]
fn words_are_written_as_version_1_writes_them() {
    let kept: serde_json::Value = serde_json::from_str(V1).unwrap();
    let written = serde_json::json!({ "words": words() });
    let (kept, written) = (kept["words"].as_array().unwrap(), written["words"].as_array().unwrap());
    for (kept, written) in kept.iter().zip(written) {
        assert_eq!(kept, written);
    }
    assert_eq!(kept.len(), written.len());
}

#[test]
fn words_of_this_version_are_read_as_they_are_written() {
    let (node, job, code) = (node(), job(), Some("ACK_TIMEOUT".to_owned()));
    let forget =
        PeerMessage::Forget { node: node.clone(), job, attempt: 1, over: true, blame: true, code };
    let written = serde_json::json!({ "words": [forget, PeerMessage::Vouch { node }] });
    assert_eq!(written["words"][0]["forget"]["code"], "ACK_TIMEOUT");
    let (words, unknown) = Batch::read(written.to_string().as_bytes()).unwrap();
    assert_eq!(unknown, 0);
    assert_eq!(serde_json::json!({ "words": words }), written);
}

#[test]
fn every_word_of_version_1_is_understood() {
    let (words, unknown) = Batch::read(V1.as_bytes()).unwrap();
    assert_eq!(unknown, 0);
    let again = serde_json::json!({ "words": words });
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(V1).unwrap());
}

/// A later version's fields are left alone, at every depth.
#[test]
fn a_field_that_is_not_known_spoils_no_word() {
    fn add(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(add);
                // An object with one field is a choice, and has no room for another.
                if fields.len() > 1 {
                    fields.insert("later".into(), serde_json::json!({ "a": [1] }));
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(add),
            _ => {}
        }
    }
    let mut envelope: serde_json::Value = serde_json::from_str(V1).unwrap();
    add(&mut envelope);
    let (words, unknown) = Batch::read(envelope.to_string().as_bytes()).unwrap();
    assert_eq!((words.len(), unknown), (self::words().len(), 0));
}

/// Added after version 1.
#[test]
fn services_that_run_are_told_by_name() {
    let word = PeerMessage::ServicesRun { node: node(), services: vec!["nmt-m2m100".into()] };
    let written = serde_json::json!({ "words": [word] });
    let told = serde_json::json!({ "services_run": { "node": "n", "services": ["nmt-m2m100"] } });
    assert_eq!(written["words"][0], told);
    let (words, unknown) = Batch::read(written.to_string().as_bytes()).unwrap();
    assert_eq!((words.len(), unknown), (1, 0));
}

/// Added after version 1: absent it is not written, so that words stay as they were.
#[test]
fn an_assign_carries_its_traceparent_if_it_has_one() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let PeerMessage::Assign(mut assign) = words().remove(0) else { panic!("it was an assign") };
    assign.traceparent = Some(PARENT.to_owned());
    let body = serde_json::json!({ "words": [PeerMessage::Assign(assign)] });
    assert_eq!(body["words"][0]["assign"]["traceparent"], PARENT);
    let (mut words, unknown) = Batch::read(body.to_string().as_bytes()).unwrap();
    let Some(PeerMessage::Assign(read)) = words.pop() else { panic!("it was an assign") };
    assert_eq!((read.traceparent.as_deref(), unknown), (Some(PARENT), 0));
}

/// The words of the version before have such text in their places, and it is read.
#[test]
fn the_last_sentences_are_read_in_a_word_and_never_written() {
    let PeerMessage::Assign(mut assign) = words().remove(0) else { panic!("it was an assign") };
    assign.work =
        Arc::new(JobInput { context_text: Some("said before".into()), ..JobInput::default() });
    let written = serde_json::to_value(PeerMessage::Assign(assign)).unwrap();
    assert!(written["assign"]["work"]["context_text"].is_null(), "{written}");
    let mut theirs = written;
    theirs["assign"]["work"]["context_text"] = "said before".into();
    let read: PeerMessage = serde_json::from_value(theirs).unwrap();
    let PeerMessage::Assign(read) = read else { panic!("it was an assign") };
    assert_eq!(read.work.context_text.as_deref(), Some("said before"));
}

#[test]
fn a_failure_has_the_nodes_own_words_once_they_are_here() {
    let failure = |told| PeerResult::Failure {
        code: "PROCESSING_ERROR".into(),
        message: String::new(),
        missing_model: None,
        told,
    };
    let told = serde_json::to_vec(&ErrorText { code: "GPU_LOST".into(), message: "gone".into() });
    let told = bytes::Bytes::from(told.unwrap());
    assert_eq!(failure(Some(body())).body(), Some(&body()));
    for (fetched, code, message) in
        [(told, "GPU_LOST", "gone"), (bytes::Bytes::new(), "PROCESSING_ERROR", "")]
    {
        let NodeResult::Failure { code: is, message: says, .. } = failure(None).with(fetched)
        else {
            panic!("it was a failure")
        };
        assert_eq!((is.as_str(), says.as_str()), (code, message));
    }
}

#[test]
fn a_word_that_is_not_known_spoils_no_other() {
    let assign = serde_json::to_string(&words()[0]).unwrap();
    let body = format!("{{\"words\":[{{\"sing\":{{}}}},{assign}]}}");
    let (words, unknown) = Batch::read(body.as_bytes()).unwrap();
    assert_eq!((words.len(), unknown), (1, 1));
    let PeerMessage::Assign(read) = &words[0] else { panic!("it was an assign") };
    assert_eq!(read.work.options.pipeline.as_ref().unwrap().get(), "{\"use_asr\":true}");
    assert!(Batch::read(b"[]").is_err());
}

/// Added after version 1: an instance that does not know it leaves it alone, and is told of slots that
/// came free as it was.
#[test]
fn that_jobs_wait_is_written_as_it_is_read() {
    let kept = serde_json::json!({ "words": [{ "jobs_wait": { "for_ms": 2500 } }] });
    let (words, unknown) = Batch::read(kept.to_string().as_bytes()).unwrap();
    assert_eq!((serde_json::json!({ "words": words }), unknown), (kept, 0));
}

/// Added after version 1: an instance that does not know them leaves them alone, and who asks reads
/// the record instead.
#[test]
fn words_about_watched_jobs_are_written_as_they_are_read() {
    let kept = serde_json::json!({ "words": [
        { "watch_job": { "job": job(), "goal": "over" } },
        { "job_watched": { "job": job(), "goal": "placed" } },
        { "job_reached": { "job": job(), "goal": "over" } },
    ] });
    let (words, unknown) = Batch::read(kept.to_string().as_bytes()).unwrap();
    assert_eq!((serde_json::json!({ "words": words }), unknown), (kept, 0));
}
