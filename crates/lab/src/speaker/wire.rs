//! Pieces of speech as they go over the wire, in JSON and in binary frames.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

/// First bytes of the two binary frames.
const CHUNK: u8 = 0x01;
const FINAL: u8 = 0x02;

/// One piece of speech, or the end of an utterance without any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub seq: u32,
    /// Milliseconds since the speaker began.
    pub timestamp_ms: u32,
    pub audio: Bytes,
    pub is_final: bool,
}

/// A WebSocket message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Text(Bytes),
    Binary(Bytes),
}

impl Frame {
    pub fn json(message: &Value) -> Self {
        Frame::Text(message.to_string().into())
    }
}

impl Piece {
    pub fn frame(&self, session_id: &str, binary: bool) -> Frame {
        if binary { self.binary(session_id) } else { self.text(session_id) }
    }

    fn text(&self, session_id: &str) -> Frame {
        let mut message = json!({
            "type": "audio_chunk",
            "session_id": session_id,
            "seq": self.seq,
            "is_final": self.is_final,
            "client_timestamp_ms": crate::clock::epoch_ms(),
        });
        if !self.audio.is_empty() {
            message["payload"] = BASE64.encode(&self.audio).into();
        }
        Frame::json(&message)
    }

    fn binary(&self, session_id: &str) -> Frame {
        let bare = self.is_final && self.audio.is_empty();
        let mut frame = BytesMut::with_capacity(12 + session_id.len() + self.audio.len());
        frame.put_u8(if bare { FINAL } else { CHUNK });
        // A longer name than fits is cut off; the scheduler makes none.
        let name = &session_id.as_bytes()[..session_id.len().min(usize::from(u8::MAX))];
        frame.put_u8(name.len() as u8);
        frame.put_u32_le(self.seq);
        frame.put_u32_le(self.timestamp_ms);
        if !bare {
            frame.put_u8(u8::from(self.is_final));
            frame.put_u8(0);
        }
        frame.put_slice(name);
        frame.put_slice(&self.audio);
        Frame::Binary(frame.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(audio: &'static [u8], is_final: bool) -> Piece {
        Piece { seq: 0x0102, timestamp_ms: 0x0a0b, audio: Bytes::from_static(audio), is_final }
    }

    #[test]
    fn a_binary_chunk_has_its_fields_in_their_places() {
        let chunk = b"\x01\x03\x02\x01\0\0\x0b\x0a\0\0\0\0s-1speech";
        assert_eq!(
            piece(b"speech", false).frame("s-1", true),
            Frame::Binary(Bytes::from_static(chunk))
        );
        let last = b"\x01\x03\x02\x01\0\0\x0b\x0a\0\0\x01\0s-1speech";
        assert_eq!(
            piece(b"speech", true).frame("s-1", true),
            Frame::Binary(Bytes::from_static(last))
        );
        let bare = b"\x02\x03\x02\x01\0\0\x0b\x0a\0\0s-1";
        assert_eq!(piece(b"", true).frame("s-1", true), Frame::Binary(Bytes::from_static(bare)));
        let empty = b"\x01\x03\x02\x01\0\0\x0b\x0a\0\0\0\0s-1";
        assert_eq!(piece(b"", false).frame("s-1", true), Frame::Binary(Bytes::from_static(empty)));
    }

    #[test]
    fn a_chunk_in_json_carries_base64_and_a_bare_final_no_payload() {
        let read = |frame| match frame {
            Frame::Text(text) => serde_json::from_slice::<Value>(&text).unwrap(),
            Frame::Binary(_) => panic!("binary"),
        };
        let message = read(piece(b"speech", false).frame("s-1", false));
        assert_eq!(message["payload"], "c3BlZWNo");
        assert_eq!((&message["seq"], &message["is_final"]), (&json!(0x0102), &json!(false)));
        assert_eq!(message["session_id"], "s-1");
        let message = read(piece(b"", true).frame("s-1", false));
        assert!(message.get("payload").is_none() && message["is_final"] == true, "{message}");
    }
}
