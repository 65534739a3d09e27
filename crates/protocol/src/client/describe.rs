//! What a client says, described by the types that it is read with.

use lingua_core::Profile;

use super::inbound::{
    AUDIO_FRAME, Addressed, AudioChunk, Auth, Cancel, Codec, FINAL_FRAME, Heartbeat, SessionInit,
    Targets, TextUtterance, Utterance,
};
use crate::JobOptions;
use crate::asked::AskedFields;
use crate::described::{Described, of, only};
use crate::fields::{AUDIO_FORMATS, MODES};

/// Every message of a client.
pub fn from_client() -> Vec<Described> {
    let options = only(of::<JobOptions>(), "mode", &MODES);
    let profiles = Profile::ALL.map(Profile::as_str);
    let init = only(of::<SessionInit<'_>>(), "profile", &profiles);
    let (targets, asked) = (of::<Targets>(), of::<AskedFields>());
    let codecs = Codec::ALL.map(Codec::as_str);
    let one = |name, about, schema| Described::read(&[name], about, &[schema]);
    let bare = |name, about| one(name, about, of::<Addressed<'_>>());
    vec![
        Described::read(
            &["session_init"],
            "The first message: opens a session, or goes on with one.",
            &[only(init, "codec", &codecs), options.clone(), targets.clone(), asked.clone()],
        ),
        one("audio_chunk", "A piece of speech.", of::<AudioChunk<'_>>()),
        Described::read(
            &["utterance"],
            "A whole utterance with a direction of its own.",
            &[
                only(of::<Utterance<'_>>(), "audio_format", &AUDIO_FORMATS),
                options.clone(),
                asked.clone(),
            ],
        ),
        Described::read(
            &["text_utterance"],
            "A text in place of speech, with a direction of its own.",
            &[of::<TextUtterance<'_>>(), options.clone(), asked.clone()],
        ),
        bare("finalize", "What was said so far is an utterance."),
        Described::read(
            &["set_languages"],
            "From now on in these languages; what was said so far is cut.",
            &[of::<Addressed<'_>>(), options, targets, asked],
        ),
        one("cancel", "An utterance is no longer wanted.", of::<Cancel<'_>>()),
        one("client_heartbeat", "A sign of life.", of::<Heartbeat<'_>>()),
        bare("tts_started", "The client's loudspeaker begins to play."),
        bare("tts_play_ended", "It is silent again."),
        one("auth", "A newer token.", of::<Auth>()),
        bare("session_close", "The conversation is over."),
        Described::binary(
            "audio_frame",
            "A piece of speech as bytes, from a client with `binary`. Numbers are little-endian.",
            AUDIO_FRAME,
            &[
                ("length", "1", "of session_id; may be 0"),
                ("seq", "4", "the number of the piece"),
                ("timestamp", "4", "not looked at"),
                ("is_final", "1", "0 or 1: the utterance ends with this piece"),
                ("reserved", "1", "0"),
                ("session_id", "length", "the session of the socket"),
                ("audio", "rest", "the speech"),
            ],
        ),
        Described::binary(
            "final_frame",
            "The end of an utterance as bytes. Numbers are little-endian.",
            FINAL_FRAME,
            &[
                ("length", "1", "of session_id; may be 0"),
                ("seq", "4", "its number among the pieces"),
                ("timestamp", "4", "not looked at"),
                ("session_id", "length", "the session of the socket"),
            ],
        ),
    ]
}
