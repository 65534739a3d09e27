//! The first message.

use std::net::{IpAddr, Ipv4Addr};

use lingua_engine::sessions::inbound::Supports;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn init(more: Value) -> Init {
    let mut message = json!({ "type": "session_init", "client_version": "1.0", "platform": "web",
        "src_lang": "en", "tgt_lang": "zh" });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    decode_init(&message.to_string(), HERE).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

#[test]
fn an_existing_client_has_the_defaults() {
    let Init { opening, codec, binary, .. } =
        init(json!({ "pairing_code": null, "tenant_id": null,
        "dialect": null, "features": null, "supports": null, "mode": null, "auto_langs": null }));
    assert_eq!((opening.tenant.as_str(), opening.address), ("default", HERE));
    assert_eq!((codec, binary), (Codec::Opus, false));
    assert_eq!(opening.supports, Supports { events: true, existing: true, ..Supports::default() });
    assert!(opening.resume.is_none() && opening.trace_id.is_none());
    assert!(opening.pause.is_none() && opening.max_utterance.is_none());
    let options = &opening.options;
    assert_eq!(options.routes.first().to_string(), "en->zh");
    assert_eq!((options.audio_format, options.sample_rate), ("opus", 16_000));
    assert_eq!(options.job.pipeline.as_ref().unwrap().get(), whole_steps(true));
    assert!(options.speech && options.job.enable_streaming_asr.is_on());
    assert!(
        options.job.features.is_none()
            && options.job.mode.is_none()
            && options.job.auto_langs.is_none()
    );
}

#[test]
fn partials_are_wanted_unless_a_client_says_otherwise_or_lists_what_it_supports() {
    let wanted = |more| init(more).opening.options.job.enable_streaming_asr.is_on();
    assert!(wanted(json!({})));
    assert!(!wanted(json!({ "enable_streaming_asr": false })));
    assert!(!wanted(json!({ "supports": [] })));
    assert!(wanted(json!({ "supports": [], "enable_streaming_asr": true })));
    assert!(!init(json!({ "supports": [] })).opening.supports.existing);
}

#[test]
fn a_new_client_says_everything_there_is() {
    let Init { opening, codec, binary, .. } =
        init(json!({ "tenant_id": "acme", "mode": "two_way_auto",
        "src_lang": "auto", "lang_a": "en", "lang_b": "zh-CN", "auto_langs": ["en", "zh"],
        "dialect": "d", "features": {"x": {"y": [1]}}, "enable_streaming_asr": true,
        "partial_update_interval_ms": 500, "trace_id": "t", "token": "eyJ0",
        "resume_token": "r", "last_index": 9, "codec": "pcm16", "pause_ms": 2000,
        "supports": ["binary", "audio_ack", "RESUME", "new"], "max_utterance_ms": 8000 }));
    assert_eq!((opening.tenant.as_str(), opening.trace_id.as_deref()), ("acme", Some("t")));
    assert_eq!((codec, binary), (Codec::Pcm16, true));
    assert_eq!(opening.supports, Supports { audio_ack: true, resume: true, ..Supports::default() });
    let resume = opening.resume.unwrap();
    assert_eq!((resume.token.as_str(), resume.last_index), ("r", Some(9)));
    assert_eq!(opening.pause, Some(Duration::from_millis(2_000)));
    assert_eq!(opening.max_utterance, Some(Duration::from_millis(8_000)));
    let options = &opening.options;
    assert_eq!(options.routes.first().to_string(), "en<->zh-CN");
    assert_eq!(options.job.mode.as_deref(), Some("two_way_auto"));
    assert_eq!(options.job.features.as_ref().unwrap().get(), r#"{"x":{"y":[1]}}"#);
    assert_eq!(options.job.auto_langs.as_ref().unwrap().0.get(), r#"["en","zh"]"#);
    assert_eq!((options.audio_format, options.job.dialect.as_deref()), ("pcm16", Some("d")));
    assert_eq!(options.job.partial_update_interval_ms, Some(500));
    assert!(options.job.enable_streaming_asr.is_on());
}

#[test]
fn what_was_heard_of_each_target_is_read_by_language() {
    let opening =
        init(json!({ "resume_token": "r", "last_indexes": { "ZH_cn": 4, "de": 0 } })).opening;
    let resume = opening.resume.unwrap();
    let heard: Vec<(String, u64)> =
        resume.last_indexes.iter().map(|(tag, index)| (tag.to_string(), *index)).collect();
    assert_eq!(heard, [("zh-CN".to_owned(), 4), ("de".to_owned(), 0)]);
    assert_eq!(resume.last_index, None);
    for wrong in [json!({ "?": 1 }), json!({ "de": 1_u64 << 53 }), json!({ "de": -1 }), json!([3])]
    {
        let refusal = refused_init(json!({ "resume_token": "r", "last_indexes": wrong }));
        assert!(refusal.detail.contains("last_indexes") || wrong["de"] == -1, "{refusal:?}");
    }
}

#[test]
fn an_empty_list_of_what_is_understood_is_a_list() {
    let Init { opening, binary, .. } = init(json!({ "supports": [] }));
    assert_eq!((opening.supports, binary), (Supports::default(), false));
}

#[test]
fn what_is_at_its_bound_is_taken() {
    let opening = init(json!({ "client_version": "é".repeat(128), "resume_token": "r".repeat(256),
        "trace_id": "t".repeat(128), "supports": vec!["x"; 64], "dialect": "d".repeat(128),
        "features": {"x": "y".repeat(64 * 1024 - 8)}, "last_index": (1_u64 << 53) - 1 }))
    .opening;
    assert_eq!(opening.resume.unwrap().token.len(), 256);
    let opening = init(json!({ "resume_token": "", "last_index": 3, "trace_id": "" })).opening;
    assert!(opening.resume.is_none() && opening.trace_id.is_none(), "empty words say nothing");
}
