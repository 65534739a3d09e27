//! What clients say, and what is wrong with it.

mod bad;
mod init;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use serde_json::{Value, json};

use super::*;

const SESSION: &str = "s-1";

/// The options of a session from these fields.
fn options(more: Value) -> Arc<SpeechOptions> {
    let mut message = json!({ "type": "session_init", "client_version": "1", "platform": "web",
        "src_lang": "en", "tgt_lang": "zh" });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    decode_init(&message.to_string(), [127, 0, 0, 1].into()).unwrap().opening.options
}

fn bound(options: &SpeechOptions) -> Bound<'_> {
    Bound { session_id: SESSION, options, max_audio_bytes: 1_000 }
}

fn said_in(options: &SpeechOptions, message: &Value) -> ClientMessage {
    let said = decode_text(&message.to_string(), &bound(options));
    said.unwrap_or_else(|refusal| panic!("{message}: {refusal:?}"))
}

fn said(message: &Value) -> ClientMessage {
    said_in(&options(json!({})), message)
}

fn whole(options: &SpeechOptions, more: Value) -> WholeUtterance {
    let mut message = json!({ "type": "utterance", "session_id": SESSION, "utterance_index": 7,
        "src_lang": "zh", "tgt_lang": "en", "audio": STANDARD.encode([2, 0, 0x08, 1]) });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match said_in(options, &message) {
        ClientMessage::Whole(whole) => *whole,
        _ => panic!("not an utterance: {message}"),
    }
}

#[test]
fn a_text_takes_no_recognition_and_is_whole() {
    let options = options(json!({ "speech": false }));
    let message = json!({ "type": "text_utterance", "src_lang": "zh", "tgt_lang": "en",
        "text": "早上好" });
    let ClientMessage::Whole(whole) = said_in(&options, &message) else {
        panic!("not an utterance")
    };
    assert_eq!((whole.client_index, whole.manual_cut), (None, true));
    assert_eq!(whole.audio, "早上好");
    assert!(whole.options.typed && !options.typed && whole.duration.is_zero());
    let steps = whole.options.job.pipeline.as_ref().unwrap().get();
    assert!(
        steps.contains(r#""use_asr":false"#) && steps.contains(r#""use_tts":false"#),
        "{steps}"
    );
}

fn languages(options: &SpeechOptions, mut message: Value) -> Arc<SpeechOptions> {
    message["type"] = "set_languages".into();
    match said_in(options, &message) {
        ClientMessage::Other(FromClient::SetLanguages(options)) => options,
        _ => panic!("no languages: {message}"),
    }
}

#[test]
fn rooms_and_calls_are_beside_the_session_and_no_mistake() {
    for (kind, wanted) in [
        ("room_create", Aside::Room),
        ("room_join", Aside::Room),
        ("webrtc_offer", Aside::Signalling),
        ("webrtc_ice", Aside::Signalling),
    ] {
        let message = json!({ "type": kind, "session_id": "another", "seq": "x" });
        assert!(matches!(said(&message), ClientMessage::Aside(aside) if aside == wanted), "{kind}");
        assert_eq!(aside(&message.to_string()), Some(wanted));
    }
    for other in [r#"{"type":"finalize"}"#, r#"["room_join"]"#, "room_join", ""] {
        assert_eq!(aside(other), None, "{other}");
    }
}

fn audio(said: ClientMessage) -> (u32, bool, Bytes) {
    match said {
        ClientMessage::Audio { seq, is_final, audio } => (seq, is_final, audio),
        _ => panic!("not audio"),
    }
}

#[test]
fn a_piece_of_speech_is_read_whatever_else_it_says() {
    let chunk = json!({ "type": "audio_chunk", "session_id": SESSION, "seq": u32::MAX,
        "is_final": false, "payload": "AAEC", "client_timestamp_ms": 1.5, "new": [{}] });
    assert_eq!(audio(said(&chunk)), (u32::MAX, false, Bytes::from_static(&[0, 1, 2])));
    for payload in ["", r#","payload":null"#, r#","payload":"""#] {
        let text = format!(r#" {{"seq":0,"is_final":true{payload},"type":"audio_chunk"}} "#);
        let options = options(json!({}));
        let read = audio(decode_text(&text, &bound(&options)).ok().unwrap());
        assert_eq!(read, (0, true, Bytes::new()));
    }
    let escaped =
        r#"{"type":"audio_ch\u0075nk","seq":1,"is_final":false,"payload":"\/\/\/\u002f"}"#;
    let options = options(json!({}));
    let read = audio(decode_text(escaped, &bound(&options)).ok().unwrap());
    assert_eq!(read.2, [255, 255, 255][..], "some encoders escape the slash");
}

#[test]
fn base64_of_every_length_gives_its_bytes_without_room_to_spare() {
    let options = options(json!({}));
    for length in 0..=1_000 {
        let speech: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let message = json!({ "type": "audio_chunk", "seq": 1, "is_final": false,
            "payload": STANDARD.encode(&speech) });
        let (.., read) = audio(said_in(&options, &message));
        assert_eq!(read, speech);
        assert!(read.is_empty() || read.try_into_mut().unwrap().capacity() == length);
    }
}

#[test]
fn a_binary_frame_is_a_piece_of_speech_without_a_copy() {
    let options = options(json!({}));
    let mut frame = vec![1, 3];
    frame.extend(0x0403_0201_u32.to_le_bytes());
    frame.extend([9, 9, 9, 9, 0, 0]);
    frame.extend(SESSION.as_bytes());
    frame.extend([5, 6, 7]);
    let bytes = Bytes::from(frame.clone());
    let (seq, is_final, speech) =
        audio(decode_binary(bytes.clone(), &bound(&options)).ok().unwrap());
    assert_eq!((seq, is_final, &speech[..]), (0x0403_0201, false, &[5, 6, 7][..]));
    assert_eq!(speech.as_ptr(), bytes[15..].as_ptr(), "no copy");
    frame[10] = 1;
    frame.truncate(15);
    assert_eq!(
        audio(decode_binary(frame.into(), &bound(&options)).ok().unwrap()),
        (0x0403_0201, true, Bytes::new())
    );
    let last = Bytes::from_static(b"\x02\x03\x07\0\0\0\0\0\0\0s-1");
    let read = audio(decode_binary(last, &bound(&options)).ok().unwrap());
    assert_eq!(read, (7, true, Bytes::new()));
    let unnamed = Bytes::from_static(b"\x02\x00\x07\0\0\0\0\0\0\0");
    assert_eq!(audio(decode_binary(unnamed, &bound(&options)).ok().unwrap()).0, 7);
}

#[test]
fn words_for_the_session_are_read_with_and_without_its_name() {
    for (kind, wanted) in [
        ("finalize", "finalize"),
        ("tts_started", "started"),
        ("tts_play_ended", "ended"),
        ("session_close", "close"),
        ("cancel", "cancel 4"),
        ("client_heartbeat", "heartbeat 5"),
        ("session_init", "init"),
    ] {
        for id in [json!(SESSION), Value::Null] {
            let message = json!({ "type": kind, "session_id": id, "utterance_index": 4,
                "timestamp": 5, "trace_id": "t", "group_id": "g", "ts_start_ms": 1.25,
                "seq": "not ours here", "reason": {} });
            let found = match said(&message) {
                ClientMessage::Other(FromClient::Finalize) => "finalize".to_owned(),
                ClientMessage::Other(FromClient::TtsStarted) => "started".to_owned(),
                ClientMessage::Other(FromClient::TtsPlayEnded) => "ended".to_owned(),
                ClientMessage::Other(FromClient::Close) => "close".to_owned(),
                ClientMessage::Other(FromClient::Cancel { utterance_index }) => {
                    format!("cancel {utterance_index}")
                }
                ClientMessage::Heartbeat { timestamp } => {
                    format!("heartbeat {}", timestamp.unwrap())
                }
                ClientMessage::SecondInit => "init".to_owned(),
                _ => panic!("{message}"),
            };
            assert_eq!(found, wanted);
        }
    }
    assert!(matches!(
        said(&json!({ "type": "client_heartbeat" })),
        ClientMessage::Heartbeat { timestamp: None }
    ));
    assert_eq!(second_init().code, Code::InvalidMessage);
}

#[test]
fn a_whole_utterance_has_its_own_direction_and_the_defaults_of_its_own() {
    let session = options(json!({ "codec": "pcm16", "features": {"a": 1}, "dialect": "uk",
        "enable_streaming_asr": true, "partial_update_interval_ms": 300, "mode": "one_way" }));
    let whole = whole(&session, json!({}));
    assert_eq!((whole.client_index, whole.manual_cut), (Some(7), true));
    assert_eq!((&whole.audio[..], whole.trace_id), (&[2, 0, 8, 1][..], None));
    assert_eq!(whole.duration, Duration::from_millis(20));
    let options = &whole.options;
    assert_eq!(options.routes.first().to_string(), "zh->en");
    assert_eq!((options.audio_format, options.sample_rate), ("opus", 16_000));
    assert_eq!((&*options.job.src_lang, &*options.job.tgt_lang), ("zh", "en"));
    assert_eq!(options.job.features.as_ref().unwrap().get(), r#"{"a":1}"#, "as in the session");
    assert_eq!(options.job.mode.as_deref(), Some("one_way"));
    assert!(options.job.enable_streaming_asr.is_on() && options.speech);
    assert_eq!(options.job.partial_update_interval_ms, Some(300));
    assert_eq!(options.job.dialect, None, "a dialect is one of its language");
}

#[test]
fn a_whole_utterance_says_everything_there_is() {
    let whole = whole(
        &options(json!({})),
        json!({ "manual_cut": false, "audio": STANDARD.encode([0; 960]), "audio_format": "PCM16",
            "sample_rate": 48000, "dialect": "d", "features": {"f": [1]}, "trace_id": "t",
            "pipeline": {"use_asr": true, "use_tts": false, "mine": {}}, "src_lang": "AUTO",
            "lang_a": "zh", "lang_b": "en", "auto_langs": ["zh", "en"],
            "enable_streaming_asr": true, "partial_update_interval_ms": 100 }),
    );
    assert_eq!((whole.manual_cut, whole.trace_id.as_deref()), (false, Some("t")));
    assert_eq!(whole.duration, Duration::from_millis(10));
    let options = &whole.options;
    assert_eq!(options.routes.first().to_string(), "zh<->en");
    assert_eq!(options.job.mode.as_deref(), Some("two_way_auto"));
    assert_eq!((options.audio_format, options.sample_rate), ("pcm16", 48_000));
    assert_eq!(
        options.job.pipeline.as_ref().unwrap().get(),
        r#"{"mine":{},"use_asr":true,"use_tts":false}"#
    );
    assert!(!options.speech && options.job.enable_streaming_asr.is_on());
    assert_eq!(options.job.features.as_ref().unwrap().get(), r#"{"f":[1]}"#);
    assert_eq!(options.job.auto_langs.as_ref().unwrap().0.get(), r#"["zh","en"]"#);
    assert_eq!((options.job.dialect.as_deref(), &*options.job.src_lang), (Some("d"), "AUTO"));
    assert_eq!(
        (options.job.lang_a.as_deref(), options.job.lang_b.as_deref()),
        (Some("zh"), Some("en"))
    );
}

#[test]
fn new_languages_keep_what_fits_them() {
    let session = options(json!({ "src_lang": "auto", "mode": "two_way_auto", "lang_a": "en",
        "lang_b": "zh", "codec": "pcm16", "features": {"a": 1} }));
    let one = languages(&session, json!({ "src_lang": "de", "tgt_lang": "fr", "dialect": "d" }));
    assert_eq!(
        (one.routes.first().to_string().as_str(), one.job.mode.as_deref()),
        ("de->fr", None)
    );
    assert_eq!((one.audio_format, one.sample_rate), ("pcm16", 16_000));
    assert_eq!(one.job.pipeline.as_ref().unwrap().get(), whole_steps(true));
    let same = languages(&one, json!({ "src_lang": "de", "tgt_lang": "de" }));
    assert_eq!(same.job.dialect.as_deref(), Some("d"), "the same language is spoken");
    assert_eq!(same.job.pipeline.as_ref().unwrap().get(), whole_steps(false));
    let auto = languages(&one, json!({ "src_lang": "auto", "tgt_lang": "zh" }));
    assert_eq!(auto.routes.first().to_string(), "en<->zh", "the two languages of the session");
    assert_eq!(auto.job.features.as_ref().unwrap().get(), r#"{"a":1}"#);
}

fn whole_steps(translate: bool) -> String {
    format!(
        r#"{{"use_asr":true,"use_nmt":{translate},"use_tts":true,"use_semantic":true,"use_tone":false}}"#
    )
}

/// The directions, one after the other.
fn routes(options: &SpeechOptions) -> Vec<String> {
    options.routes.iter().map(|(_, route)| route.to_string()).collect()
}

#[test]
fn a_session_names_one_target_or_several() {
    let one = options(json!({ "tgt_lang": "ZH_cn" }));
    assert_eq!((routes(&one), &*one.job.tgt_lang), (vec!["en->zh-CN".to_owned()], "ZH_cn"));
    let same = options(json!({ "tgt_lang": "zh-cn", "targets": ["zh-CN"] }));
    assert_eq!(routes(&same), routes(&one));
    let several = options(json!({ "tgt_lang": "de", "targets": ["zh", "DE", "fr-CA"] }));
    assert_eq!(routes(&several), ["en->zh", "en->de", "en->fr-CA"]);
    assert_eq!(&*several.job.tgt_lang, "zh", "the first");
    assert!(several.untranslated.is_none());
}

#[test]
fn a_target_that_is_the_language_spoken_is_not_translated() {
    let captions = options(json!({ "tgt_lang": "zh", "targets": ["en", "zh"], "speech": false }));
    assert!(captions.job.pipeline.as_ref().unwrap().get().contains(r#""use_nmt":true"#));
    assert!(captions.untranslated.as_ref().unwrap().get().contains(r#""use_nmt":false"#));
    let alone = options(json!({ "tgt_lang": "en" }));
    assert!(
        alone.job.pipeline.as_ref().unwrap().get().contains(r#""use_nmt":false"#)
            && alone.untranslated.is_none()
    );
}

#[test]
fn languages_change_from_one_target_to_several_and_back() {
    let session = options(json!({}));
    let several =
        languages(&session, json!({ "src_lang": "en", "tgt_lang": "de", "targets": ["de", "fr"] }));
    assert_eq!(routes(&several), ["en->de", "en->fr"]);
    let back = languages(&several, json!({ "src_lang": "en", "tgt_lang": "fr" }));
    assert_eq!(routes(&back), ["en->fr"]);
    // A whole utterance has its own direction, whatever the session's are.
    assert_eq!(routes(&whole(&several, json!({})).options), ["zh->en"]);
}

#[test]
fn targets_that_cannot_be_are_refused_with_a_sentence() {
    let nine = ["aa", "ab", "af", "am", "ar", "as", "ay", "az", "ba"];
    let both = json!({ "src_lang": "auto", "lang_a": "en", "lang_b": "zh" });
    for (fields, code, text) in [
        (json!({ "targets": [] }), Code::InvalidMessage, "at least one target"),
        (json!({ "targets": nine }), Code::InvalidMessage, "at most 8 target languages"),
        (json!({ "targets": ["zh", "ZH"] }), Code::InvalidMessage, "zh is listed twice"),
        (json!({ "targets": ["zh", "??"] }), Code::InvalidLanguage, "targets: \"??\""),
        (json!({ "targets": ["de", "fr"] }), Code::InvalidMessage, "tgt_lang: is not among"),
        (json!({ "targets": "zh" }), Code::InvalidMessage, "targets"),
        (json!({ "tgt_lang": null, "targets": ["zh"] }), Code::InvalidMessage, "tgt_lang"),
        (
            json!({ "targets": ["zh", "de"], "mode": "two_way_auto" }),
            Code::InvalidMessage,
            "one way only",
        ),
    ] {
        let refusal = refused_init(fields.clone());
        assert_eq!(refusal.code, code, "{fields}: {refusal:?}");
        assert!(refusal.detail.contains(text), "{fields}: {refusal:?}");
    }
    let mut several = both;
    several["targets"] = json!(["zh", "de"]);
    assert!(refused_init(several).detail.contains("one way only"));
}

fn refused_init(more: Value) -> Refusal {
    let mut message = json!({ "type": "session_init", "client_version": "1", "platform": "web",
        "src_lang": "en", "tgt_lang": "zh" });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match decode_init(&message.to_string(), [127, 0, 0, 1].into()) {
        Ok(_) => panic!("taken: {message}"),
        Err(refusal) => refusal,
    }
}

fn names(list: &[lingua_core::inventory::Required]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn what_a_session_asks_for_by_name_holds_until_a_message_says_something_else() {
    let session =
        options(json!({ "models": ["whisper@3"], "features": ["emotion"], "region": "eu",
        "residency": ["eu"], "preferred_node_id": "n-1", "pipeline": { "use_tone": true } }));
    assert_eq!(names(&session.asks.models), ["whisper@3"]);
    assert_eq!(names(&session.asks.services), ["tone"], "the switch asks for its service");
    assert_eq!(session.job.features.as_ref().unwrap().get(), r#"{"emotion":true}"#);
    let same = whole(&session, json!({}));
    assert_eq!(same.options.asked, session.asked);
    assert_eq!(names(&same.options.asks.services), ["tone"]);
    let other = whole(
        &session,
        json!({ "models": [], "features": { "emotion": true }, "residency": ["us"],
            "pipeline": { "use_tone": false } }),
    );
    assert_eq!(names(&other.options.asks.models), [""; 0]);
    assert_eq!(names(&other.options.asks.features), [""; 0], "an object asks for nothing");
    assert_eq!(names(&other.options.asks.services), [""; 0]);
    assert_eq!(other.options.asks.regions[0].as_str(), "us");
    assert_eq!(other.options.asked.preferred.as_ref().unwrap().as_str(), "n-1");
    let from_now =
        languages(&session, json!({ "src_lang": "de", "tgt_lang": "en", "services": ["Pitch@2"] }));
    assert_eq!(names(&from_now.asks.services), ["pitch@2", "tone"]);
    assert_eq!(names(&from_now.asks.models), ["whisper@3"]);
}
