//! What a speaker knows of its session: its numbers, what it has said and is not acknowledged, and
//! where it would go on. No socket and no clock of its own.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, bail};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::options::SpeakerOptions;
use super::wire::{Frame, Piece};
use crate::link::ConnectError;

/// What the scheduler answered to the `session_init`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct SessionAck {
    /// The session's name.
    pub session_id: String,
    /// Whether audio goes in binary frames.
    #[serde(default)]
    pub use_binary_frame: bool,
    /// How speech is to be written.
    pub negotiated_codec: Option<String>,
    /// What it comes back with.
    pub resume_token: Option<String>,
    /// Whether the session of the resume token goes on; not said to one that did not ask.
    pub recovered: Option<bool>,
    /// The number of the next utterance.
    pub next_index: Option<u64>,
    /// How often the scheduler wants to hear of the client.
    pub heartbeat_interval_ms: Option<u64>,
    /// The whole `session_init_ack`.
    #[serde(skip)]
    pub message: Value,
}

/// Where a speaker that comes back was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Continuing {
    pub resume_token: String,
    pub last_index: Option<u64>,
    /// The last ending seen of each target.
    pub last_indexes: BTreeMap<String, u64>,
}

/// The speaker's side of one session.
#[derive(Debug, Clone, Default)]
pub(super) struct Voice {
    pub session_id: String,
    pub binary: bool,
    resume_token: Option<String>,
    /// The last ending seen, of any target and of each.
    last_index: Option<u64>,
    last_indexes: BTreeMap<String, u64>,
    next_seq: u32,
    seq_per_utterance: bool,
    /// Whether pieces are kept until they are acknowledged.
    keeps: bool,
    kept: VecDeque<Piece>,
    kept_bytes: usize,
    keep_bytes: usize,
    /// Pieces that were forgotten although they were not acknowledged.
    forgotten: u64,
}

impl SessionAck {
    pub(super) fn read(message: Value) -> anyhow::Result<Self> {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        match message["type"].as_str() {
            Some("session_init_ack") => {
                let read = Self::deserialize(&message);
                let mut ack = read.with_context(|| format!("in {message}"))?;
                ack.message = message;
                Ok(ack)
            }
            Some("error") => {
                Err(ConnectError::Refused { code: text("code"), message: text("message") }.into())
            }
            _ => bail!("came instead of the session_init_ack: {message}"),
        }
    }
}

impl Voice {
    pub fn new(options: &SpeakerOptions) -> Self {
        Self {
            seq_per_utterance: options.seq_per_utterance,
            keeps: options.does("audio_ack"),
            keep_bytes: options.keep_bytes,
            ..Self::default()
        }
    }

    /// A connection is open. Gives the pieces that go again.
    pub fn opened(&mut self, ack: &SessionAck) -> Vec<Frame> {
        self.binary = ack.use_binary_frame;
        self.resume_token.clone_from(&ack.resume_token);
        let goes_on = self.goes_on(ack);
        self.session_id.clone_from(&ack.session_id);
        if !goes_on {
            // Another session: nothing of the old one counts there.
            self.last_index = None;
            self.last_indexes.clear();
            self.next_seq = 0;
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept.iter().map(|piece| piece.frame(&self.session_id, self.binary)).collect()
    }

    /// Whether this is the session from before. It can be, and not be recovered: the scheduler then
    /// has lost something of it, and says of what.
    pub fn goes_on(&self, ack: &SessionAck) -> bool {
        ack.recovered == Some(true)
            || (ack.recovered == Some(false) && ack.session_id == self.session_id)
    }

    /// What to come back with; `None` if the scheduler gave nothing for it.
    pub fn continuing(&self) -> Option<Continuing> {
        let resume_token = self.resume_token.clone()?;
        let last_indexes = self.last_indexes.clone();
        Some(Continuing { resume_token, last_index: self.last_index, last_indexes })
    }

    /// The next piece of speech; without a number of its own it gets the next one.
    pub fn say(
        &mut self,
        seq: Option<u32>,
        audio: Bytes,
        is_final: bool,
        timestamp_ms: u32,
    ) -> (u32, Frame) {
        let seq = seq.unwrap_or(self.next_seq);
        let restarts = is_final && self.seq_per_utterance;
        self.next_seq = if restarts { 0 } else { seq.wrapping_add(1) };
        let piece = Piece { seq, timestamp_ms, audio, is_final };
        let frame = piece.frame(&self.session_id, self.binary);
        if self.keeps {
            self.kept_bytes += piece.audio.len();
            self.kept.push_back(piece);
            while self.kept_bytes > self.keep_bytes {
                let Some(oldest) = self.kept.pop_front() else { break };
                self.kept_bytes -= oldest.audio.len();
                self.forgotten += 1;
            }
        }
        (seq, frame)
    }

    /// Notes what a message changes.
    pub fn hear(&mut self, message: &Value) {
        match message["type"].as_str() {
            Some("audio_ack") => {
                if let Some(seq) = message["seq"].as_u64() {
                    self.acknowledged(seq);
                }
            }
            Some("translation_result" | "missing_result") => {
                let index = message["utterance_index"].as_u64();
                self.last_index = self.last_index.max(index);
                self.heard_of(message["tgt_lang"].as_str(), index.unwrap_or(0));
                if let Some(seq) = message["audio_ack"].as_u64() {
                    self.acknowledged(seq);
                }
            }
            _ => {}
        }
    }

    /// An ending of this target, or without one of every target that was heard of.
    fn heard_of(&mut self, target: Option<&str>, index: u64) {
        match target {
            Some(target) => match self.last_indexes.get_mut(target) {
                Some(last) => *last = (*last).max(index),
                None => drop(self.last_indexes.insert(target.to_owned(), index)),
            },
            None => self.last_indexes.values_mut().for_each(|last| *last = (*last).max(index)),
        }
    }

    fn acknowledged(&mut self, seq: u64) {
        while let Some(first) = self.kept.front().filter(|piece| u64::from(piece.seq) <= seq) {
            self.kept_bytes -= first.audio.len();
            self.kept.pop_front();
        }
    }

    /// Pieces that are not acknowledged.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Pieces that were forgotten although they were not acknowledged.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn voice(options: &SpeakerOptions) -> Voice {
        let mut voice = Voice::new(options);
        assert!(voice.opened(&ack(None)).is_empty());
        voice
    }

    fn ack(recovered: Option<bool>) -> SessionAck {
        SessionAck {
            session_id: "s".into(),
            use_binary_frame: true,
            resume_token: Some("R".into()),
            recovered,
            ..SessionAck::default()
        }
    }

    fn say(voice: &mut Voice, audio: &'static [u8], is_final: bool) -> u32 {
        voice.say(None, Bytes::from_static(audio), is_final, 0).0
    }

    #[test]
    fn what_is_not_acknowledged_goes_again_and_the_rest_does_not() {
        let mut voice = voice(&SpeakerOptions::default());
        for _ in 0..4 {
            say(&mut voice, b"speech", false);
        }
        say(&mut voice, b"", true);
        voice.hear(&json!({ "type": "audio_ack", "seq": 2 }));
        voice.hear(&json!({ "type": "missing_result", "utterance_index": 0 }));
        let was = voice.continuing().unwrap();
        assert_eq!((was.resume_token.as_str(), was.last_index), ("R", Some(0)));
        let again = voice.opened(&ack(Some(true)));
        assert_eq!(again.len(), 2);
        assert_eq!(say(&mut voice, b"", false), 5);
        voice.hear(&json!({ "type": "audio_ack", "seq": 5 }));
        assert_eq!(voice.kept(), 0);
    }

    #[test]
    fn another_session_begins_anew() {
        let mut voice = voice(&SpeakerOptions::default());
        say(&mut voice, b"speech", false);
        voice.hear(&json!({ "type": "translation_result", "utterance_index": 3 }));
        let another = SessionAck { session_id: "another".into(), ..ack(Some(false)) };
        assert!(voice.opened(&another).is_empty());
        assert_eq!(say(&mut voice, b"speech", false), 0);
        assert_eq!(voice.continuing().unwrap().last_index, None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let options = SpeakerOptions { keep_bytes: 10, ..SpeakerOptions::default() };
        let mut voice = voice(&options);
        for _ in 0..3 {
            say(&mut voice, b"speech", false);
        }
        assert_eq!((voice.kept(), voice.forgotten()), (1, 2));
        let mut old = self::voice(&SpeakerOptions::default().existing_client());
        say(&mut old, b"speech", false);
        assert_eq!(old.kept(), 0);
    }

    #[test]
    fn numbers_go_through_or_begin_anew_with_each_utterance() {
        let mut through = voice(&SpeakerOptions::default());
        let numbers = [false, true, false].map(|last| say(&mut through, b"a", last));
        assert_eq!(numbers, [0, 1, 2]);
        let options = SpeakerOptions { seq_per_utterance: true, ..SpeakerOptions::default() };
        let mut anew = voice(&options);
        let numbers = [false, true, false].map(|last| say(&mut anew, b"a", last));
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!(anew.say(Some(9), Bytes::new(), false, 0).0, 9);
        assert_eq!(say(&mut anew, b"a", false), 10);
    }

    #[test]
    fn a_refusal_keeps_its_code() {
        let refused = json!({ "type": "error", "code": "DRAINING", "message": "later" });
        let error = SessionAck::read(refused).unwrap_err();
        let Some(ConnectError::Refused { code, .. }) = error.downcast_ref() else { panic!() };
        assert_eq!(code, "DRAINING");
        assert!(SessionAck::read(json!({ "type": "session_init_ack" })).is_err());
    }
}
