//! What a test can have its speaker say.

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::carrier::Line;
use super::wire::Frame;
use super::{Event, Speaker};
use crate::clock::epoch_ms;
use crate::fake_node::merge;
use crate::monotonic_us;
use crate::speech::{Digest, Mark, Signal};

/// Speech in one `utterance` of a mobile client.
const MOBILE_PIECE_MS: u64 = 200;

impl Speaker {
    /// Says a piece of speech; gives its number.
    pub async fn say(&self, audio: impl Into<Bytes>) -> anyhow::Result<u32> {
        self.piece(None, audio.into(), false).await
    }

    /// Says the last piece of an utterance.
    pub async fn say_last(&self, audio: impl Into<Bytes>) -> anyhow::Result<u32> {
        self.piece(None, audio.into(), true).await
    }

    /// Ends the utterance with a final without audio.
    pub async fn end(&self) -> anyhow::Result<u32> {
        self.piece(None, Bytes::new(), true).await
    }

    /// Says a piece under this number; the numbers go on behind it.
    pub async fn say_as(
        &self,
        seq: u32,
        audio: impl Into<Bytes>,
        is_final: bool,
    ) -> anyhow::Result<u32> {
        self.piece(Some(seq), audio.into(), is_final).await
    }

    /// Says a whole sentence at once: this speech in pieces of 100 ms, and a final without audio.
    pub async fn sentence(&self, audio: impl Into<Bytes>) -> anyhow::Result<()> {
        let pieces = self.options.codec.pieces(&audio.into(), 100);
        let frames = {
            let mut session = self.session();
            let mut say = |audio, last| session.say(None, audio, last).1;
            let mut frames: Vec<_> = pieces.into_iter().map(|piece| say(piece, false)).collect();
            frames.push(say(Bytes::new(), true));
            frames
        };
        self.write(frames).await
    }

    /// Says a sentence of so many milliseconds that is recognised when it comes back.
    pub async fn marked_sentence(&self, mark: Mark, ms: u64) -> anyhow::Result<()> {
        self.sentence(self.speech(mark, ms)).await
    }

    /// So much test speech in the speaker's codec, beginning with this mark.
    pub fn speech(&self, mark: Mark, ms: u64) -> Bytes {
        let seed = u64::from(mark.speaker) << 32 | u64::from(mark.sentence);
        self.options.codec.speech(Signal::Babble, ms, Some(mark), seed)
    }

    /// `utterance`: a whole one with its own direction, `fields` over it.
    pub async fn whole(
        &self,
        index: u64,
        audio: impl Into<Bytes>,
        fields: Value,
    ) -> anyhow::Result<()> {
        let audio = audio.into();
        let event = Event::Said {
            mark: Mark::find(&audio),
            digest: Digest::of(&audio),
            whole: Some(index),
            seqs: None,
        };
        self.session().note(monotonic_us(), event);
        self.whole_again(index, audio, fields).await
    }

    /// The same `utterance` once more: the checker expects no second ending.
    pub async fn whole_again(
        &self,
        index: u64,
        audio: impl Into<Bytes>,
        fields: Value,
    ) -> anyhow::Result<()> {
        let options = &self.options;
        let mut message = json!({
            "type": "utterance",
            "session_id": self.session_id(),
            "utterance_index": index,
            "manual_cut": true,
            "src_lang": options.src_lang,
            "tgt_lang": options.tgt_lang,
            "audio": BASE64.encode(audio.into()),
            "audio_format": options.codec.name(),
            "sample_rate": 16_000,
        });
        merge(&mut message, &fields);
        self.send(message).await
    }

    /// Types a text in place of speech; `fields` go over what it would send by itself.
    pub async fn text(&self, text: &str, fields: Value) -> anyhow::Result<()> {
        let options = &self.options;
        let mut message = json!({
            "type": "text_utterance",
            "session_id": self.session_id(),
            "src_lang": options.src_lang,
            "tgt_lang": options.tgt_lang,
            "text": text,
        });
        merge(&mut message, &fields);
        self.send(message).await
    }

    /// Says a sentence as a mobile client does: every 200 ms of it as an `utterance` of its own that
    /// the speaker did not end, numbered from `first`. Gives the number behind the last.
    pub async fn mobile_sentence(
        &self,
        first: u64,
        audio: impl Into<Bytes>,
    ) -> anyhow::Result<u64> {
        let mut index = first;
        for piece in self.options.codec.pieces(&audio.into(), MOBILE_PIECE_MS) {
            self.whole_again(index, piece, json!({ "manual_cut": false })).await?;
            index += 1;
        }
        Ok(index)
    }

    /// So many ICE candidates at once, as a browser finds them.
    pub async fn ice_candidates(&self, count: usize) -> anyhow::Result<()> {
        let candidate = |n: usize| {
            let candidate =
                format!("candidate:{n} 1 udp 2122260223 192.0.2.1 {} typ host", 50_000 + n);
            Frame::json(&json!({ "type": "webrtc_ice", "session_id": self.session_id(),
                "room_code": "123456", "to": "peer",
                "candidate": { "candidate": candidate, "sdpMid": "0", "sdpMLineIndex": 0 } }))
        };
        self.write((0..count).map(candidate).collect()).await
    }

    /// `finalize`: what was said so far is to be an utterance.
    pub async fn finalize(&self) -> anyhow::Result<()> {
        self.session().said();
        self.about_session("finalize", Value::Null).await
    }

    /// Tells the checker that the scheduler ends what was said so far by itself, after a pause.
    pub fn falls_silent(&self) {
        self.session().said();
    }

    /// `set_languages`
    pub async fn set_languages(&self, from: &str, to: &str) -> anyhow::Result<()> {
        self.session().said();
        self.session().targets(&[to.to_owned()]);
        self.about_session("set_languages", json!({ "src_lang": from, "tgt_lang": to })).await
    }

    /// `set_languages` with a list of targets, for a speaker that began with one.
    pub async fn set_targets(&mut self, from: &str, to: &[&str]) -> anyhow::Result<()> {
        self.options = self.options.clone().targets(from, to);
        self.session().said();
        self.session().targets(&self.options.targets);
        let fields = json!({ "src_lang": from, "tgt_lang": self.options.tgt_lang, "targets": to });
        self.about_session("set_languages", fields).await
    }

    /// `cancel`
    pub async fn cancel(&self, index: u64) -> anyhow::Result<()> {
        self.about_session("cancel", json!({ "utterance_index": index })).await
    }

    /// `tts_started`
    pub async fn tts_started(&self, group_id: &str) -> anyhow::Result<()> {
        let fields = json!({ "trace_id": "lab", "group_id": group_id, "ts_start_ms": epoch_ms() });
        self.about_session("tts_started", fields).await
    }

    /// `tts_play_ended`
    pub async fn tts_ended(&self, group_id: &str) -> anyhow::Result<()> {
        let fields = json!({ "trace_id": "lab", "group_id": group_id, "ts_end_ms": epoch_ms() });
        self.about_session("tts_play_ended", fields).await
    }

    /// `client_heartbeat`
    pub async fn heartbeat(&self) -> anyhow::Result<()> {
        self.about_session("client_heartbeat", json!({ "timestamp": epoch_ms() })).await
    }

    /// `session_close`
    pub async fn close_session(&self, reason: &str) -> anyhow::Result<()> {
        self.about_session("session_close", json!({ "reason": reason })).await
    }

    /// A message of that type about this session, with these fields over it.
    pub async fn about_session(&self, kind: &str, fields: Value) -> anyhow::Result<()> {
        let mut message = json!({ "type": kind, "session_id": self.session_id() });
        merge(&mut message, &fields);
        self.send(message).await
    }

    /// Sends a message; once it returns, the message is with the operating system.
    pub async fn send(&self, message: Value) -> anyhow::Result<()> {
        self.write(vec![Frame::json(&message)]).await
    }

    /// Sends a text frame, whatever is in it.
    pub async fn send_text(&self, text: impl Into<String>) -> anyhow::Result<()> {
        self.write(vec![Frame::Text(text.into().into())]).await
    }

    /// Sends a binary frame, whatever is in it.
    pub async fn send_binary(&self, bytes: impl Into<Bytes>) -> anyhow::Result<()> {
        self.write(vec![Frame::Binary(bytes.into())]).await
    }

    /// Sends a ping.
    pub async fn ping(&self, payload: impl Into<Bytes>) -> anyhow::Result<()> {
        let payload = payload.into();
        self.give(|sent| Line::Ping(payload, sent)).await
    }

    async fn piece(&self, seq: Option<u32>, audio: Bytes, is_final: bool) -> anyhow::Result<u32> {
        let (seq, frame) = self.session().say(seq, audio, is_final);
        self.write(vec![frame]).await?;
        Ok(seq)
    }

    pub(super) async fn write(&self, frames: Vec<Frame>) -> anyhow::Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        self.give(|sent| Line::Frames(frames, sent)).await
    }

    async fn give(&self, line: impl FnOnce(oneshot::Sender<()>) -> Line) -> anyhow::Result<()> {
        let (sent, done) = oneshot::channel();
        let gone = || format!("{}: the connection has ended", self.name());
        let given = async {
            self.lines.send(line(sent)).await.map_err(|_| anyhow::anyhow!(gone()))?;
            done.await.with_context(gone)
        };
        let limit = self.options.patience;
        let given = timeout(limit, given).await;
        given.with_context(|| format!("{}: it takes nothing for {limit:?}", self.name()))?
    }
}
