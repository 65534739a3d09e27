//! What is wrong, and how it is answered.

use super::*;

const INVALID: Code = Code::InvalidMessage;
const UNSUPPORTED: Code = Code::UnsupportedMessage;
const LARGE: Code = Code::MessageTooLarge;
const SESSION_CODE: Code = Code::InvalidSession;
const LANGUAGE: Code = Code::InvalidLanguage;

fn refused_first(message: &str) -> Refusal {
    match decode_init(message, [127, 0, 0, 1].into()) {
        Ok(_) => panic!("taken: {message}"),
        Err(refusal) => refusal,
    }
}

fn refused(message: &str) -> Refusal {
    match decode_text(message, &bound(&options(json!({})))) {
        Ok(_) => panic!("taken: {message}"),
        Err(refusal) => refusal,
    }
}

fn refused_frame(frame: &[u8]) -> Refusal {
    match decode_binary(Bytes::copy_from_slice(frame), &bound(&options(json!({})))) {
        Ok(_) => panic!("taken: {frame:?}"),
        Err(refusal) => refusal,
    }
}

/// `base` with other fields; `null` takes one away.
fn with(base: &Value, more: &Value) -> String {
    let mut message = base.clone();
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    message.to_string()
}

fn check(message: &str, found: &Refusal, code: Code, words: &str) {
    assert_eq!(found.code, code, "{message}: {}", found.detail);
    assert!(found.detail.contains(words), "{message}: {}", found.detail);
    assert!(found.detail.chars().count() <= 301, "{message}");
}

#[test]
fn what_is_no_message_is_refused_first_and_later() {
    let deep = format!(r#"{{"type":"finalize","x":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(5_000));
    for (message, code, words) in [
        ("", INVALID, "one JSON object"),
        ("null", INVALID, "one JSON object"),
        ("hello", INVALID, "one JSON object"),
        ("[\"finalize\"]", INVALID, "one JSON object"),
        ("\"finalize\"", INVALID, "one JSON object"),
        ("{", INVALID, "not a JSON object"),
        ("{}", INVALID, "`type`"),
        (r#"{"type":null}"#, INVALID, "type"),
        (r#"{"type":5}"#, INVALID, "type"),
        (r#"{"type":"finalize"}{}"#, INVALID, "follows"),
        (r#"{"type":"finalize",}"#, INVALID, "not a JSON object"),
        (r#"{"type":"finalize","type":"cancel"}"#, INVALID, "`type` is given twice"),
        (r#"{"type":"\ud800"}"#, INVALID, "JSON"),
        (deep.as_str(), INVALID, "nested deeper than 64"),
        (r#"{"type":"hello"}"#, UNSUPPORTED, "\"hello\""),
        (r#"{"type":""}"#, UNSUPPORTED, "\"\""),
        (r#"{"type":"AUDIO_CHUNK"}"#, UNSUPPORTED, "AUDIO_CHUNK"),
        (r#"{"type":"session_init_ack"}"#, UNSUPPORTED, "session_init_ack"),
        (r#"{"type":"room"}"#, UNSUPPORTED, "\"room\""),
        (long.as_str(), UNSUPPORTED, "xxx"),
    ] {
        check(message, &refused(message), code, words);
        check(message, &refused_first(message), code, words);
    }
}

#[test]
fn nothing_comes_before_session_init() {
    for kind in [
        "audio_chunk",
        "utterance",
        "finalize",
        "set_languages",
        "cancel",
        "client_heartbeat",
        "tts_started",
        "tts_play_ended",
        "session_close",
    ] {
        let message = json!({ "type": kind, "session_id": "s", "seq": 1 }).to_string();
        check(&message, &refused_first(&message), INVALID, "session_init comes first");
    }
}

#[test]
fn a_wrong_session_init_is_refused_by_the_name_of_the_field() {
    let base = json!({ "type": "session_init", "client_version": "1", "platform": "web",
        "src_lang": "en", "tgt_lang": "zh" });
    let cases = [
        (json!({ "client_version": null }), INVALID, "client_version"),
        (json!({ "client_version": 1 }), INVALID, "client_version"),
        (json!({ "client_version": "v".repeat(129) }), INVALID, "client_version"),
        (json!({ "client_version": "a\u{0}" }), INVALID, "client_version"),
        (json!({ "platform": null }), INVALID, "platform"),
        (json!({ "platform": "p".repeat(129) }), INVALID, "platform"),
        (json!({ "src_lang": null }), INVALID, "src_lang"),
        (json!({ "tgt_lang": null }), INVALID, "tgt_lang"),
        (json!({ "src_lang": ["en"] }), INVALID, "src_lang"),
        (json!({ "src_lang": "" }), LANGUAGE, "src_lang"),
        (json!({ "src_lang": "klingon language" }), LANGUAGE, "src_lang"),
        (json!({ "src_lang": "e".repeat(100_000) }), LANGUAGE, "src_lang"),
        (json!({ "tgt_lang": "auto" }), LANGUAGE, "tgt_lang"),
        (json!({ "src_lang": "auto" }), LANGUAGE, "lang_a and lang_b"),
        (json!({ "src_lang": "auto", "lang_a": "en" }), LANGUAGE, "lang_a and lang_b"),
        (json!({ "src_lang": "auto", "lang_b": "en" }), LANGUAGE, "lang_a and lang_b"),
        (json!({ "lang_a": "?" }), LANGUAGE, "lang_a"),
        (json!({ "lang_b": "" }), LANGUAGE, "lang_b"),
        (json!({ "mode": "both" }), INVALID, "mode"),
        (
            json!({ "src_lang": "auto", "lang_a": "en", "lang_b": "zh", "mode": "one_way" }),
            INVALID,
            "mode",
        ),
        (json!({ "tenant_id": "" }), INVALID, "tenant_id"),
        (json!({ "tenant_id": "a b" }), INVALID, "tenant_id"),
        (json!({ "tenant_id": "t".repeat(65) }), INVALID, "tenant_id"),
        (json!({ "codec": "mp3" }), INVALID, "codec"),
        (json!({ "codec": "wav" }), INVALID, "codec"),
        (json!({ "supports": "binary" }), INVALID, "supports"),
        (json!({ "supports": [1] }), INVALID, "supports[0]"),
        (json!({ "supports": vec!["x"; 65] }), INVALID, "supports"),
        (json!({ "supports": ["x".repeat(129)] }), INVALID, "supports"),
        (json!({ "dialect": "d".repeat(129) }), INVALID, "dialect"),
        (json!({ "features": "x" }), INVALID, "features"),
        (json!({ "features": {"x": "y".repeat(65_536)} }), INVALID, "features"),
        (json!({ "auto_langs": {} }), INVALID, "auto_langs"),
        (json!({ "auto_langs": [1] }), INVALID, "auto_langs"),
        (json!({ "auto_langs": vec!["en"; 65] }), INVALID, "auto_langs"),
        (json!({ "enable_streaming_asr": "yes" }), INVALID, "enable_streaming_asr"),
        (json!({ "partial_update_interval_ms": -1 }), INVALID, "partial_update_interval_ms"),
        (json!({ "trace_id": "t".repeat(129) }), INVALID, "trace_id"),
        (json!({ "resume_token": "r".repeat(257) }), INVALID, "resume_token"),
        (json!({ "last_index": -1 }), INVALID, "last_index"),
        (json!({ "last_index": 1_u64 << 53 }), INVALID, "last_index"),
        (json!({ "pause_ms": 1.5 }), INVALID, "pause_ms"),
        (json!({ "max_utterance_ms": "10" }), INVALID, "max_utterance_ms"),
    ];
    for (more, code, words) in cases {
        let message = with(&base, &more);
        check(&message, &refused_first(&message), code, words);
    }
}

#[test]
fn a_wrong_piece_of_speech_is_refused_by_the_name_of_the_field() {
    let base = json!({ "type": "audio_chunk", "session_id": SESSION, "seq": 1, "is_final": false,
        "payload": "AAEC" });
    for (more, code, words) in [
        (json!({ "session_id": "s-2" }), SESSION_CODE, "session_id"),
        (json!({ "session_id": "" }), SESSION_CODE, "session_id"),
        (json!({ "session_id": 1 }), INVALID, "session_id"),
        (json!({ "seq": null }), INVALID, "`seq`"),
        (json!({ "seq": -1 }), INVALID, "seq"),
        (json!({ "seq": 1.5 }), INVALID, "seq"),
        (json!({ "seq": "1" }), INVALID, "seq"),
        (json!({ "seq": 1_u64 << 32 }), INVALID, "seq"),
        (json!({ "is_final": null }), INVALID, "`is_final`"),
        (json!({ "is_final": 1 }), INVALID, "is_final"),
        (json!({ "payload": [1] }), INVALID, "payload"),
        (json!({ "payload": "A" }), INVALID, "payload"),
        (json!({ "payload": "AAE" }), INVALID, "payload"),
        (json!({ "payload": "AAECAA" }), INVALID, "payload"),
        (json!({ "payload": "AA==AAEC" }), INVALID, "payload"),
        (json!({ "payload": "====" }), INVALID, "payload"),
        (json!({ "payload": "AAE\n" }), INVALID, "payload"),
        (json!({ "payload": "A_-C" }), INVALID, "payload"),
        (json!({ "payload": "AAEé" }), INVALID, "payload"),
        (json!({ "payload": STANDARD.encode([0; 1_001]) }), LARGE, "1000"),
    ] {
        let message = with(&base, &more);
        check(&message, &refused(&message), code, words);
    }
}

#[test]
fn a_wrong_binary_frame_is_refused() {
    let cases: [(&[u8], Code, &str); 11] = [
        (b"", INVALID, "is empty"),
        (b"\x00", INVALID, "0x00"),
        (b"\x21\x03", INVALID, "0x21"),
        (b"{\"type\":\"finalize\"}", INVALID, "0x7b"),
        (b"\x01", INVALID, "1 bytes"),
        (b"\x01\x03\0\0\0\0\0\0\0\0\0", INVALID, "11 bytes"),
        (b"\x01\x03\0\0\0\0\0\0\0\0\0\0s-", INVALID, "14 bytes"),
        (b"\x01\x03\0\0\0\0\0\0\0\0\0\0s-2xyz", SESSION_CODE, "session_id"),
        (b"\x01\x02\0\0\0\0\0\0\0\0\0\0s-1", SESSION_CODE, "session_id"),
        (b"\x02\xff\0\0\0\0\0\0\0\0s-1", INVALID, "13 bytes"),
        (b"\x02\x03\0\0\0\0\0\0\0\0s-1x", INVALID, "follows"),
    ];
    for (frame, code, words) in cases {
        check(&format!("{frame:?}"), &refused_frame(frame), code, words);
    }
    let mut large = b"\x01\x03\0\0\0\0\0\0\0\0\0\0s-1".to_vec();
    large.resize(large.len() + 1_001, 0);
    check("large", &refused_frame(&large), LARGE, "1000");
}

#[test]
fn a_wrong_whole_utterance_is_refused_by_the_name_of_the_field() {
    let base = json!({ "type": "utterance", "session_id": SESSION, "utterance_index": 1,
        "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC" });
    for (more, code, words) in [
        (json!({ "session_id": "other" }), SESSION_CODE, "session_id"),
        (json!({ "utterance_index": null }), INVALID, "utterance_index"),
        (json!({ "utterance_index": -1 }), INVALID, "utterance_index"),
        (json!({ "utterance_index": 1_u64 << 53 }), INVALID, "utterance_index"),
        (json!({ "src_lang": null }), INVALID, "src_lang"),
        (json!({ "tgt_lang": "??" }), LANGUAGE, "tgt_lang"),
        (json!({ "src_lang": "auto" }), LANGUAGE, "lang_a and lang_b"),
        (json!({ "audio": null }), INVALID, "audio"),
        (json!({ "audio": "" }), INVALID, "audio: is empty"),
        (json!({ "audio": "?" }), INVALID, "audio"),
        (json!({ "audio": STANDARD.encode([0; 1_001]) }), LARGE, "1000"),
        (json!({ "audio_format": "flac" }), INVALID, "audio_format"),
        (json!({ "audio_format": "pcm16" }), INVALID, "audio: pcm16"),
        (json!({ "audio_format": "wav" }), INVALID, "audio: wav"),
        (json!({ "sample_rate": 7_999 }), INVALID, "sample_rate"),
        (json!({ "sample_rate": 192_001 }), INVALID, "sample_rate"),
        (json!({ "pipeline": true }), INVALID, "pipeline"),
        (json!({ "pipeline": {"use_tts": "no"} }), INVALID, "pipeline.use_tts"),
        (json!({ "features": 1 }), INVALID, "features"),
        (json!({ "manual_cut": "no" }), INVALID, "manual_cut"),
        (json!({ "mode": "?" }), INVALID, "mode"),
        (json!({ "dialect": "d".repeat(129) }), INVALID, "dialect"),
        (json!({ "trace_id": "t".repeat(129) }), INVALID, "trace_id"),
    ] {
        let message = with(&base, &more);
        check(&message, &refused(&message), code, words);
    }
}

#[test]
fn a_wrong_text_is_refused_by_the_name_of_the_field() {
    let base = json!({ "type": "text_utterance", "session_id": SESSION, "utterance_index": 1,
        "src_lang": "en", "tgt_lang": "zh", "text": "good morning" });
    for (more, code, words) in [
        (json!({ "session_id": "other" }), SESSION_CODE, "session_id"),
        (json!({ "utterance_index": -1 }), INVALID, "utterance_index"),
        (json!({ "utterance_index": 1_u64 << 53 }), INVALID, "utterance_index"),
        (json!({ "src_lang": null }), INVALID, "src_lang"),
        (json!({ "tgt_lang": "??" }), LANGUAGE, "tgt_lang"),
        (json!({ "text": null }), INVALID, "text"),
        (json!({ "text": "" }), INVALID, "text: is empty"),
        (json!({ "text": " \n" }), INVALID, "text: is empty"),
        (json!({ "text": 5 }), INVALID, "text"),
        (json!({ "text": "a\u{0}" }), INVALID, "text: holds a control character"),
        (json!({ "text": "x".repeat(4_097) }), INVALID, "text: has more than 4096 characters"),
        (json!({ "pipeline": 1 }), INVALID, "pipeline"),
        (json!({ "trace_id": "t".repeat(129) }), INVALID, "trace_id"),
    ] {
        let message = with(&base, &more);
        check(&message, &refused(&message), code, words);
    }
}

#[test]
fn other_wrong_words_are_refused_by_the_name_of_the_field() {
    for (message, code, words) in [
        (json!({ "type": "finalize", "session_id": "x" }), SESSION_CODE, "session_id"),
        (json!({ "type": "session_close", "session_id": "x" }), SESSION_CODE, "session_id"),
        (json!({ "type": "tts_started", "session_id": "x" }), SESSION_CODE, "session_id"),
        (json!({ "type": "tts_play_ended", "session_id": [] }), INVALID, "session_id"),
        (json!({ "type": "client_heartbeat", "session_id": "x" }), SESSION_CODE, "session_id"),
        (json!({ "type": "client_heartbeat", "timestamp": "now" }), INVALID, "timestamp"),
        (json!({ "type": "cancel" }), INVALID, "utterance_index"),
        (json!({ "type": "cancel", "utterance_index": -1 }), INVALID, "utterance_index"),
        (json!({ "type": "cancel", "session_id": "x", "utterance_index": 1 }), SESSION_CODE, ""),
        (json!({ "type": "set_languages", "tgt_lang": "zh" }), INVALID, "src_lang"),
        (json!({ "type": "set_languages", "src_lang": "zh" }), INVALID, "tgt_lang"),
        (
            json!({ "type": "set_languages", "src_lang": "", "tgt_lang": "zh" }),
            LANGUAGE,
            "src_lang",
        ),
        (
            json!({ "type": "set_languages", "src_lang": "en", "tgt_lang": "zh", "session_id": "x" }),
            SESSION_CODE,
            "session_id",
        ),
    ] {
        let message = message.to_string();
        check(&message, &refused(&message), code, words);
    }
}

/// Every message that may ask for something by name refuses what cannot be, in the same words.
#[test]
fn what_cannot_be_asked_for_by_name_is_refused_wherever_it_is_said() {
    let bases = [
        json!({ "type": "session_init", "client_version": "1", "platform": "web",
            "src_lang": "en", "tgt_lang": "zh" }),
        json!({ "type": "set_languages", "src_lang": "en", "tgt_lang": "zh" }),
        json!({ "type": "utterance", "utterance_index": 1, "src_lang": "en", "tgt_lang": "zh",
            "audio": STANDARD.encode([2, 0, 8, 1]) }),
        json!({ "type": "text_utterance", "src_lang": "en", "tgt_lang": "zh", "text": "hello" }),
    ];
    for (more, words) in [
        (json!({ "services": "tone" }), "services"),
        (json!({ "services": [""] }), "services: \"\" is not a name"),
        (json!({ "services": vec!["s"; 65] }), "services: has more than 64 names"),
        (json!({ "models": [5] }), "models"),
        (json!({ "models": ["whisper@"] }), "models: \"\" is not a version"),
        (json!({ "models": vec!["m"; 9] }), "models: has more than 8 names"),
        (json!({ "features": ["a b"] }), "features: \"a b\" is not a name"),
        (json!({ "features": [5] }), "features: is neither an object nor a list of names"),
        (json!({ "features": vec!["f"; 65] }), "features: has more than 64 names"),
        (json!({ "features": "emotion" }), "features: is not an object"),
        (json!({ "residency": "eu" }), "residency"),
        (json!({ "residency": ["e u"] }), "residency: an id holds only"),
        (json!({ "residency": vec!["eu"; 17] }), "residency: has more than 16 regions"),
        (json!({ "region": "e u" }), "region: an id holds only"),
        (json!({ "region": 5 }), "region"),
        (json!({ "preferred_node_id": "a b" }), "preferred_node_id: an id holds only"),
        (json!({ "strict": true }), "strict: needs preferred_node_id"),
        (json!({ "strict": "yes" }), "strict"),
    ] {
        for base in &bases {
            let message = with(base, &more);
            let found = match base["type"].as_str() {
                Some("session_init") => refused_first(&message),
                _ => refused(&message),
            };
            check(&message, &found, INVALID, words);
        }
    }
}
