use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::options::SpeechOptions;
use lingua_engine::sessions::outbound::ToClient;

use super::{is_object, is_short};
use crate::wire::session::framing::{Framer, duration_of};
use crate::wire::session::{
    Bound, ClientMessage, Codec, Renderer, decode_binary, decode_init, decode_text, render,
};

const MAX_AUDIO_BYTES: usize = 1_000;

const DOOR: Renderer<'_> = Renderer {
    session_id: "s-1",
    codec: Codec::Opus,
    binary: true,
    now_ms: 1,
    heartbeat_interval_ms: 1,
};

/// Writes it for a client.
pub(super) fn told(word: &ToClient<'_>) {
    let mut out = String::new();
    if render(word, &DOOR, &mut out) {
        is_object(&out);
    }
}

fn refused(refusal: &Refusal) {
    is_short(refusal);
    told(&ToClient::Error { refusal, details: &[] });
}

fn bound() -> Bound<'static> {
    static OPTIONS: LazyLock<Arc<SpeechOptions>> = LazyLock::new(|| {
        let text = r#"{"type":"session_init","client_version":"1","platform":"web","src_lang":"en","tgt_lang":"zh"}"#;
        let init = decode_init(text, [127, 0, 0, 1].into());
        init.unwrap_or_else(|refusal| panic!("{refusal:?}")).opening.options
    });
    Bound { session_id: "s-1", options: &OPTIONS, max_audio_bytes: MAX_AUDIO_BYTES }
}

pub(super) fn init(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match decode_init(text, [127, 0, 0, 1].into()) {
        Ok(init) => assert!(init.token.is_none_or(|token| token.len() <= data.len())),
        Err(refusal) => refused(&refusal),
    }
}

pub(super) fn text(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    taken(decode_text(text, &bound()), data.len());
}

pub(super) fn binary(data: &[u8]) {
    taken(decode_binary(Bytes::copy_from_slice(data), &bound()), data.len());
}

fn taken(said: Result<ClientMessage, Refusal>, sent: usize) {
    match said {
        Ok(ClientMessage::Audio { audio, .. }) => assert!(audio.len() <= sent.min(MAX_AUDIO_BYTES)),
        Ok(_) => {}
        Err(refusal) => refused(&refusal),
    }
}

/// The first byte says how long the pieces are in which the rest is said.
pub(super) fn speech(data: &[u8]) {
    let Some((&size, audio)) = data.split_first() else { return };
    for format in ["pcm16", "wav", "opus"] {
        if let Err(refusal) = duration_of(format, 16_000, &Bytes::copy_from_slice(audio)) {
            refused(&refusal);
        }
    }
    for codec in [Codec::Opus, Codec::Pcm16] {
        let at_once = Framer::new(codec).push(Bytes::copy_from_slice(audio));
        let (mut framer, mut said, mut held) = (Framer::new(codec), Vec::new(), 0);
        for piece in audio.chunks(usize::from(size).max(1)) {
            let Ok((whole, _)) = framer.push(Bytes::copy_from_slice(piece)) else {
                assert!(at_once.is_err(), "only the pieces are refused");
                return;
            };
            held += piece.len();
            held -= whole.len();
            said.extend_from_slice(&whole);
        }
        let (whole, _) = at_once.expect("the pieces were right");
        assert_eq!((said, framer.finish().unwrap_or(0)), (whole.to_vec(), held));
    }
}
