//! What writing the two large messages costs, beside what serde alone would take, in one run:
//! `cargo bench -p lingua-protocol --bench rendering`. The ratios are what counts; they are steadier than the
//! times.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures by the wall clock")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people at a terminal")]

use std::hint::black_box;
use std::time::Instant;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lingua_core::job::NodeMessage;
use lingua_protocol::client::outbound::TranslationResult;
use lingua_protocol::node::message::read_message;
use lingua_protocol::node::outbound::Attempt;
use lingua_protocol::node::{ResultFields, decode};
use lingua_protocol::options::JsonObject;
use lingua_protocol::{JobInput, JobOptions};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

const ROUNDS: usize = 40;
const MESSAGES: usize = 200;
const JOB: &str = "0123456789abcdefghjkmnpqrs";
const ID: &str = "0123456789abcdef0123456789abcdef";
const SPEECH_BYTES: usize = 30_000;
const TTS_BYTES: usize = 60_000;

fn main() {
    let speech: Vec<u8> =
        (0..TTS_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let input = input(&speech[..SPEECH_BYTES]);
    let assign = Attempt {
        job: JOB.parse().unwrap(),
        number: 1,
        session_id: ID,
        turn_id: ID,
        deadline_ms: 1_700_000_000_000,
        traceparent: None,
        lease_token: None,
        binary_audio: false,
    };
    compare(
        "job_assign, 30 kB of speech",
        &mut [
            ("as sent", &mut |out| assign.write(&input, out)),
            ("serde alone", &mut |out| {
                *out = serde_json::to_string(&plain_assign(&input)).unwrap()
            }),
        ],
    );
    let text = format!(
        "{{\"type\":\"job_result\",\"job_id\":\"{JOB}\",\"attempt_id\":1,\"success\":true,\
         \"text_asr\":\"And then we went home.\",\"text_translated\":\"Und dann gingen wir.\",\
         \"tts_audio\":\"{}\",\"tts_format\":\"opus\",\"extra\":{{}},\"processing_time_ms\":420}}",
        STANDARD.encode(&speech)
    );
    let message = read_message(Bytes::from(text.clone()));
    compare(
        "translation_result, 60 kB",
        &mut [
            ("as sent", &mut |out| result(&message, out)),
            ("serde alone", &mut |out| {
                *out = serde_json::to_string(&PlainResult::of(&text)).unwrap()
            }),
        ],
    );
    let body = Bytes::from(text.clone());
    compare(
        "job_result read, 60 kB",
        &mut [("as read", &mut |_| drop(black_box(decode(&text, || body.clone()))))],
    );
}

/// A name, and what writes one message.
type Case<'a> = (&'a str, &'a mut dyn FnMut(&mut String));

/// Prints the least time of each. Rounds alternate, so that what disturbs one disturbs all.
fn compare(what: &str, cases: &mut [Case<'_>]) {
    let mut least = vec![f64::MAX; cases.len()];
    let mut bytes = vec![0; cases.len()];
    for _ in 0..ROUNDS {
        for (at, (_, write)) in cases.iter_mut().enumerate() {
            let began = Instant::now();
            for _ in 0..MESSAGES {
                let mut out = String::new();
                write(&mut out);
                bytes[at] = black_box(out).len();
            }
            least[at] = least[at].min(began.elapsed().as_nanos() as f64 / MESSAGES as f64);
        }
    }
    for (at, (name, _)) in cases.iter().enumerate() {
        let (ns, bytes, ratio) = (least[at], bytes[at], least[at] / least[0]);
        println!("{what:<30}{name:<14}{bytes:>8} bytes{ns:>9.0} ns  {ratio:.2}");
    }
}

fn input(speech: &[u8]) -> JobInput {
    let steps =
        r#"{"use_asr":true,"use_nmt":true,"use_tts":true,"use_semantic":true,"use_tone":false}"#;
    let steps = RawValue::from_string(steps.to_owned()).unwrap();
    JobInput {
        options: JobOptions {
            src_lang: "en".into(),
            tgt_lang: "de".into(),
            pipeline: Some(JsonObject(steps.into())),
            ..JobOptions::default()
        },
        utterance_index: 7,
        audio: Bytes::copy_from_slice(speech),
        audio_format: "opus".into(),
        sample_rate: 16_000,
        trace_id: ID.into(),
        group_id: Some(ID.into()),
        part_index: Some(0),
        context_text: Some("And then we went home. It was late.".into()),
        padding_ms: Some(220),
        manual_cut: true,
        ..JobInput::default()
    }
}

/// The same message by serde alone.
#[derive(Serialize)]
#[serde(tag = "type", rename = "job_assign")]
struct PlainAssign<'a> {
    job_id: &'a str,
    attempt_id: u32,
    session_id: &'a str,
    utterance_index: u64,
    #[serde(flatten)]
    options: &'a JobOptions,
    #[serde(serialize_with = "as_base64")]
    audio: &'a [u8],
    audio_format: &'a str,
    sample_rate: u32,
    trace_id: &'a str,
    group_id: Option<&'a str>,
    part_index: Option<u64>,
    context_text: Option<&'a str>,
    padding_ms: Option<u64>,
    is_manual_cut: bool,
    turn_id: &'a str,
    deadline_ms: u64,
}

fn as_base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Base64Display::new(bytes, &STANDARD))
}

fn plain_assign(input: &JobInput) -> PlainAssign<'_> {
    PlainAssign {
        job_id: JOB,
        attempt_id: 1,
        session_id: ID,
        utterance_index: input.utterance_index,
        options: &input.options,
        audio: &input.audio,
        audio_format: &input.audio_format,
        sample_rate: input.sample_rate,
        trace_id: &input.trace_id,
        group_id: input.group_id.as_deref(),
        part_index: input.part_index,
        context_text: input.context_text.as_deref(),
        padding_ms: input.padding_ms,
        is_manual_cut: input.manual_cut,
        turn_id: ID,
        deadline_ms: 1_700_000_000_000,
    }
}

fn result(message: &NodeMessage, out: &mut String) {
    TranslationResult {
        session_id: ID,
        utterance_index: 7,
        src_lang: Some("en"),
        tgt_lang: Some("de"),
        job_id: JOB,
        trace_id: ID,
        group_id: ID,
        part_index: 0,
        scheduler_sent_at_ms: 1_700_000_000_000,
        form: None,
        via: None,
        audio_ack: None,
        node: ResultFields::of(message),
    }
    .write(message.len(), out);
}

/// The same message by serde alone, which reads the node's fields again to know that they are JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename = "translation_result")]
struct PlainResult<'a> {
    session_id: &'a str,
    utterance_index: u64,
    src_lang: &'a str,
    tgt_lang: &'a str,
    job_id: &'a str,
    trace_id: &'a str,
    group_id: &'a str,
    part_index: u32,
    scheduler_sent_at_ms: u64,
    #[serde(flatten)]
    node: NodeFields<'a>,
}

#[derive(Serialize, serde::Deserialize)]
struct NodeFields<'a> {
    #[serde(borrow)]
    text_asr: &'a RawValue,
    #[serde(borrow)]
    text_translated: &'a RawValue,
    #[serde(borrow)]
    tts_audio: &'a RawValue,
    #[serde(borrow)]
    tts_format: &'a RawValue,
    #[serde(borrow)]
    extra: &'a RawValue,
}

impl<'a> PlainResult<'a> {
    fn of(message: &'a str) -> Self {
        PlainResult {
            session_id: ID,
            utterance_index: 7,
            src_lang: "en",
            tgt_lang: "de",
            job_id: JOB,
            trace_id: ID,
            group_id: ID,
            part_index: 0,
            scheduler_sent_at_ms: 1_700_000_000_000,
            node: serde_json::from_str(message).unwrap(),
        }
    }
}
