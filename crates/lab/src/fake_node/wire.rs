//! The messages about jobs, read and written without a tree in between: a node under load sees
//! tens of thousands of them a second.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::said::Said;
use crate::clock::{epoch_ms, monotonic_us};
use crate::speech::{Digest, Mark};

/// First byte of a binary frame that carries the audio of a job.
const AUDIO_FRAME: u8 = 0x21;

/// Room for answers is made in pieces of this size, which are used again once they are sent.
const DRAFT_BYTES: usize = 16 * 1024;

/// What the fields common to all answers start with; the name follows.
const HEAD_START: &[u8] = br#""job_id":"#;

/// Any message of the scheduler, with the fields that jobs are answered by. What is only handed
/// back stays as it was written.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub job_id: Option<Text<'a>>,
    pub attempt_id: Option<u64>,
    #[serde(borrow)]
    pub session_id: Option<&'a RawValue>,
    pub utterance_index: Option<u64>,
    #[serde(borrow)]
    pub trace_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub turn_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub lease_token: Option<&'a RawValue>,
    #[serde(borrow)]
    pub src_lang: Option<Text<'a>>,
    #[serde(borrow)]
    pub lang_a: Option<Text<'a>>,
    #[serde(borrow)]
    pub lang_b: Option<Text<'a>>,
    #[serde(borrow)]
    pub tgt_lang: Option<Text<'a>>,
    pub is_manual_cut: Option<bool>,
    pub is_timeout_triggered: Option<bool>,
    #[serde(borrow)]
    pub audio_format: Option<Text<'a>>,
    #[serde(borrow)]
    pub audio: Option<Text<'a>>,
    #[serde(borrow)]
    pub text: Option<Text<'a>>,
}

/// A string that is borrowed unless it holds an escape. (In an `Option`, a bare `Cow` would always
/// be copied.)
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// A job as its answers need it.
#[derive(Debug)]
pub(super) struct Ids {
    pub job_id: Box<str>,
    pub attempt_id: u64,
    utterance_index: u64,
    /// The fields that every answer starts with, as JSON without the braces; the job's name first.
    head: Vec<u8>,
    /// Where the job's name ends in `head`.
    name_end: usize,
    /// When it came, on the clock of the whole machine.
    assigned_us: u64,
    /// The audio it was given; `None` while that has not come.
    audio: Option<Audio>,
    /// What it says to people.
    pub said: Said,
}

/// What is kept of the audio of a job: enough to recognise it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Audio {
    mark: Option<Mark>,
    digest: Digest,
}

/// Answers are written one behind the other into one buffer and cut off as they are finished.
#[derive(Debug, Default)]
pub(super) struct Pen {
    draft: BytesMut,
    /// The node's name as the inside of a JSON string.
    node_id: String,
}

impl Incoming<'_> {
    pub fn job_id(&self) -> Option<&str> {
        self.job_id.as_ref().map(|id| id.0.as_ref())
    }

    pub fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_ref().map(|id| id.0.as_ref())
    }

    /// The audio in the assign itself: `None` if there is none, an error if it cannot be read.
    pub fn audio(&self) -> Result<Option<Vec<u8>>, base64::DecodeError> {
        self.audio.as_ref().map(|text| BASE64.decode(text.0.as_bytes())).transpose()
    }

    /// The job says that the speaker's turn has ended.
    pub fn ends_turn(&self) -> bool {
        self.is_manual_cut == Some(true) || self.is_timeout_triggered == Some(true)
    }

    /// That field as text; empty if it is absent.
    pub fn text<'b>(field: &'b Option<Text<'_>>) -> &'b str {
        field.as_ref().map_or("", |text| text.0.as_ref())
    }

    /// Attempts count from 1, and so does a job that names none.
    pub fn attempt(&self) -> u64 {
        self.attempt_id.unwrap_or(1)
    }
}

impl Audio {
    pub fn of(audio: &[u8]) -> Self {
        Self { mark: Mark::find(audio), digest: Digest::of(audio) }
    }

    /// More of it behind what there is; the mark is of the beginning.
    pub fn add(&mut self, audio: &[u8]) {
        if self.digest.bytes == 0 {
            self.mark = Mark::find(audio);
        }
        self.digest.add(audio);
    }
}

impl Ids {
    /// What tells its result from all others, as it stands in the result and in a journal.
    pub fn told_apart_by(&self) -> Value {
        let mark = self.audio.and_then(|audio| audio.mark).map(|mark| mark.to_string());
        json!({ "job": self.job_id, "attempt": self.attempt_id, "mark": mark,
                "assigned_us": self.assigned_us })
    }

    /// The audio that came behind the assign.
    pub fn hear(&mut self, audio: Audio) {
        self.audio = Some(audio);
    }
}

/// The job and the audio in a binary frame.
pub(super) fn audio_frame(frame: &Bytes) -> Option<(&str, Bytes)> {
    let (&[kind, len], rest) = frame.split_first_chunk()?;
    let (job_id, _) = rest.split_at_checked(usize::from(len))?;
    if kind != AUDIO_FRAME {
        return None;
    }
    Some((std::str::from_utf8(job_id).ok()?, frame.slice(2 + job_id.len()..)))
}

impl Pen {
    pub fn new(node_id: &str) -> Self {
        let quoted = json_string(node_id);
        Self { draft: BytesMut::new(), node_id: quoted[1..quoted.len() - 1].to_owned() }
    }

    /// Keeps of an assign what its answers need.
    pub fn ids(&self, job_id: &str, assign: &Incoming<'_>) -> Ids {
        let attempt_id = assign.attempt();
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(HEAD_START);
        serde_json::to_writer(&mut head, job_id).expect("a string is always JSON");
        let name_end = head.len() - 1;
        let node_id = &self.node_id;
        put(&mut head, format_args!(r#","attempt_id":{attempt_id},"node_id":"{node_id}""#));
        for (name, value) in [
            ("session_id", assign.session_id),
            ("trace_id", assign.trace_id),
            ("lease_token", assign.lease_token),
        ] {
            if let Some(value) = value {
                put(&mut head, format_args!(r#","{name}":{}"#, value.get()));
            }
        }
        Ids {
            job_id: job_id.into(),
            attempt_id,
            utterance_index: assign.utterance_index.unwrap_or(0),
            head,
            name_end,
            assigned_us: monotonic_us(),
            audio: None,
            said: Said::of(assign),
        }
    }

    /// `job_ack`, `job_started`
    pub fn plain(&mut self, kind: &str, ids: &Ids) -> Bytes {
        self.begin(kind, ids);
        self.end()
    }

    /// `job_reject`
    pub fn reject(&mut self, ids: &Ids, reason: &str) -> Bytes {
        self.begin("job_reject", ids);
        self.put(format_args!(r#","reason":{}"#, json_string(reason)));
        self.end()
    }

    /// `asr_partial`
    pub fn partial(&mut self, ids: &Ids, readable: bool) -> Bytes {
        let index = ids.utterance_index;
        let text = match readable {
            true => format!("{} …", ids.said.heard(index)),
            false => format!("utterance {index} …"),
        };
        self.begin("asr_partial", ids);
        let text = json_string(&text);
        self.put(format_args!(r#","utterance_index":{index},"text":{text},"is_final":false"#));
        self.found(ids);
        self.end()
    }

    /// `job_progress`
    pub fn progress(&mut self, ids: &Ids) -> Bytes {
        self.begin("job_progress", ids);
        self.draft.put_slice(br#","stage":"nmt""#);
        self.end()
    }

    /// A `job_result` whose texts say which utterance it is of, and which attempt on which node
    /// made it. `extra.lab` tells of the audio and of the moments of the job, see
    /// [`crate::speech::Echo`].
    /// With `says` it recognised just that; `readable` texts are for people, see [`Said`].
    pub fn result(
        &mut self,
        ids: &Ids,
        took_ms: u64,
        tts_audio_bytes: usize,
        says: Option<&str>,
        readable: bool,
    ) -> Bytes {
        let index = ids.utterance_index;
        self.begin("job_result", ids);
        self.put(format_args!(r#","utterance_index":{index},"success":true,"text_asr":"#));
        match (says, ids.audio) {
            (Some(says), _) => self.put(format_args!("{}", json_string(says))),
            _ if readable => self.put(format_args!("{}", json_string(&ids.said.heard(index)))),
            (None, Some(Audio { mark: Some(mark), digest })) => {
                self.put(format_args!(r#""utterance {index}: {mark}, {digest}""#));
            }
            (None, _) => self.put(format_args!(r#""utterance {index}""#)),
        }
        self.draft.put_slice(br#","text_translated":"#);
        if readable {
            self.put(format_args!("{}", json_string(&ids.said.translated(index))));
        } else {
            self.draft.put_u8(b'"');
            self.draft.put_slice(&ids.head[HEAD_START.len() + 1..ids.name_end]);
            let by = &self.node_id;
            put(&mut self.draft, format_args!(" attempt {} by {by}\"", ids.attempt_id));
        }
        self.draft.put_slice(br#","tts_audio":""#);
        // Silence: three zero bytes are four letters A.
        self.draft.put_bytes(b'A', tts_audio_bytes.div_ceil(3) * 4);
        let at_ms = epoch_ms();
        self.put(format_args!(
            r#"","tts_format":"pcm16","processing_time_ms":{took_ms},"node_completed_at_ms":{at_ms}"#
        ));
        self.found(ids);
        self.lab(ids);
        self.end()
    }

    /// The language that was spoken, where the node was to find it out.
    fn found(&mut self, ids: &Ids) {
        if let Some(src) = ids.said.found() {
            self.put(format_args!(r#","src_lang":{}"#, json_string(src)));
        }
    }

    /// What listeners of the lab know a job by.
    fn lab(&mut self, ids: &Ids) {
        self.draft.put_slice(br#","extra":{"lab":{"#);
        if let Some(Audio { mark, digest }) = ids.audio {
            let (bytes, hash) = (digest.bytes, digest.hash());
            self.put(format_args!(r#""bytes":{bytes},"hash":"{hash:016x}","#));
            if let Some(mark) = mark {
                self.put(format_args!(r#""mark":"{mark}","#));
            }
        }
        let (assigned_us, answered_us) = (ids.assigned_us, monotonic_us());
        self.put(format_args!(r#""assigned_us":{assigned_us},"answered_us":{answered_us}}}}}"#));
    }

    /// A `job_result` with an error, and the service that it is about.
    pub fn failure(&mut self, ids: &Ids, code: &str, took_ms: u64, service: Option<&str>) -> Bytes {
        let (index, code) = (ids.utterance_index, json_string(code));
        self.begin("job_result", ids);
        self.put(format_args!(
            r#","utterance_index":{index},"success":false,"processing_time_ms":{took_ms}"#
        ));
        self.put(format_args!(
            r#","error":{{"code":{code},"message":"the simulated node was told to""#
        ));
        if let Some(service) = service {
            self.put(format_args!(r#","details":{{"service_id":{}}}"#, json_string(service)));
        }
        self.draft.put_u8(b'}');
        self.end()
    }

    fn begin(&mut self, kind: &str, ids: &Ids) {
        if self.draft.capacity() < DRAFT_BYTES / 16 {
            self.draft.reserve(DRAFT_BYTES);
        }
        self.draft.put_slice(br#"{"type":""#);
        self.draft.put_slice(kind.as_bytes());
        self.draft.put_slice(br#"","#);
        self.draft.put_slice(&ids.head);
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        put(&mut self.draft, text);
    }

    fn end(&mut self) -> Bytes {
        self.draft.put_u8(b'}');
        self.draft.split().freeze()
    }
}

fn put(out: impl BufMut, text: fmt::Arguments<'_>) {
    out.writer().write_fmt(text).expect("memory takes all that is written");
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::speech::Echo;

    const ASSIGN: &str = r#"{"type":"job_assign","job_id":"j\"1","attempt_id":2,"session_id":"s\u00e9",
        "utterance_index":3,"audio":"AAAA","pipeline":{"use_asr":true},"trace_id":null,
        "turn_id":"t1","lease_token":"L","deadline_ms":17}"#;

    fn read(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn an_assign_is_borrowed_and_its_ids_come_back_as_they_were() {
        let assign: Incoming<'_> = serde_json::from_str(ASSIGN).unwrap();
        assert!(matches!(&assign.kind.0, Cow::Borrowed("job_assign")));
        assert!(matches!(&assign.turn_id, Some(Text(Cow::Borrowed("t1")))));
        let mut pen = Pen::new("n\"1");
        let ids = pen.ids(assign.job_id().unwrap(), &assign);
        assert_eq!((&*ids.job_id, ids.attempt_id), ("j\"1", 2));
        let ack = json!({ "type": "job_ack", "job_id": "j\"1", "attempt_id": 2, "node_id": "n\"1",
                          "session_id": "sé", "lease_token": "L" });
        assert_eq!(read(&pen.plain("job_ack", &ids)), ack);
    }

    #[test]
    fn every_answer_is_json_with_the_fields_of_its_kind() {
        let assign: Incoming<'_> = serde_json::from_str(ASSIGN).unwrap();
        let mut pen = Pen::new("n\"1");
        let ids = pen.ids(assign.job_id().unwrap(), &assign);

        let result = read(&pen.result(&ids, 12, 4, None, false));
        assert_eq!(result["success"], true);
        assert_eq!(result["utterance_index"], 3);
        assert_eq!(result["text_asr"], "utterance 3");
        assert_eq!(result["text_translated"], "j\"1 attempt 2 by n\"1");
        assert_eq!(result["tts_audio"], "AAAAAAAA");
        assert_eq!(result["processing_time_ms"], 12);
        assert_eq!(Echo::read(&result), None);

        let failure = read(&pen.failure(&ids, "NMT_TIMEOUT", 1, None));
        assert_eq!(failure["success"], false);
        assert_eq!(failure["error"]["code"], "NMT_TIMEOUT");
        let missing = read(&pen.failure(&ids, "MODEL_NOT_AVAILABLE", 1, Some("nmt-1")));
        assert_eq!(missing["error"]["details"], json!({ "service_id": "nmt-1" }));
        assert_eq!(
            read(&pen.result(&ids, 1, 0, Some("a \"word\""), false))["text_asr"],
            "a \"word\""
        );
        assert_eq!(read(&pen.reject(&ids, "BUSY"))["reason"], "BUSY");
        assert_eq!(read(&pen.partial(&ids, false))["is_final"], false);
        assert_eq!(read(&pen.progress(&ids))["stage"], "nmt");
    }

    #[test]
    fn a_readable_result_is_for_people() {
        let assign = ASSIGN.replacen('{', r#"{"src_lang":"en","tgt_lang":"zh","#, 1);
        let assign: Incoming<'_> = serde_json::from_str(&assign).unwrap();
        let mut pen = Pen::new("n");
        let ids = pen.ids(assign.job_id().unwrap(), &assign);
        let result = read(&pen.result(&ids, 12, 0, None, true));
        assert_eq!(result["text_asr"], "[en] sentence 4");
        assert_eq!(result["text_translated"], "[zh] sentence 4");
        assert_eq!(read(&pen.partial(&ids, true))["text"], "[en] sentence 4 …");
    }

    #[test]
    fn a_result_tells_which_audio_it_is_of() {
        let assign: Incoming<'_> = serde_json::from_str(ASSIGN).unwrap();
        let mut pen = Pen::new("n");
        let mut ids = pen.ids(assign.job_id().unwrap(), &assign);
        ids.hear(Audio::of(&assign.audio().unwrap().unwrap()));
        let result = read(&pen.result(&ids, 12, 0, None, false));
        let echo = Echo::read(&result).unwrap();
        assert_eq!((echo.mark, echo.digest), (None, Digest::of(&[0, 0, 0])));
        assert!(echo.assigned_us.unwrap() <= echo.answered_us.unwrap());
        assert_eq!(result["text_asr"], "utterance 3");

        let mark = Mark { speaker: 1, sentence: 2 };
        ids.hear(Audio::of(&mark.to_bytes()));
        let result = read(&pen.result(&ids, 12, 0, None, false));
        assert_eq!(Echo::read(&result).unwrap().mark, Some(mark));
        assert!(result["text_asr"].as_str().unwrap().starts_with("utterance 3: 1/2, 16 bytes "));
    }

    #[test]
    fn an_audio_frame_is_split_and_a_broken_one_is_none() {
        let frame = Bytes::from_static(b"\x21\x02j1audio");
        assert_eq!(audio_frame(&frame), Some(("j1", Bytes::from_static(b"audio"))));
        let empty = Bytes::from_static(b"\x21\x02j1");
        assert_eq!(audio_frame(&empty), Some(("j1", Bytes::new())));
        for broken in [&b""[..], b"\x21", b"\x21\x03j1", b"\x22\x02j1audio", b"\x21\x01\xff"] {
            assert_eq!(audio_frame(&Bytes::from_static(broken)), None, "{broken:?}");
        }
    }
}
