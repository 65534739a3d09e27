//! The messages that a node sends rarely: what it is, and how it is.

use serde_json::{Map, Value, json};

use super::options::{NmtPairs, NodeOptions};
use crate::clock::epoch_ms;

/// How busy a node is, as a heartbeat tells it.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub running: Vec<(String, u64)>,
    pub draining: bool,
}

/// `node_register`. `running` is what the node still works on; `None` leaves it to its test to say so.
pub(super) fn register(
    options: &NodeOptions,
    node_id: Option<&str>,
    running: Option<&[(String, u64)]>,
) -> Value {
    let mut message = json!({
        "type": "node_register",
        "node_id": node_id,
        "version": if options.old_agent { "2.0.0" } else { env!("CARGO_PKG_VERSION") },
        "platform": std::env::consts::OS,
        "capability_schema_version": "2.0",
        "hardware": {
            "cpu_cores": 8,
            "memory_gb": 15.87,
            "gpus": [{ "name": "NVIDIA GeForce RTX 4060", "memory_gb": 7.99 }],
        },
        "installed_models": models(options),
        "installed_services": services(options),
        "capability_by_type": capabilities(options),
        "features_supported": {
            "emotion_detection": false,
            "voice_style_detection": false,
            "speech_rate_detection": false,
            "speech_rate_control": false,
            "speaker_identification": false,
            "persona_adaptation": false,
        },
        "accept_public_jobs": options.accept_public_jobs,
        "language_capabilities": language_capabilities(options),
    });
    let fields = fields_of(&mut message);
    if !options.old_agent {
        fields.insert("supports".to_owned(), json!(options.supports));
        if let Some(max) = options.max_concurrent_jobs {
            fields.insert("max_concurrent_jobs".to_owned(), json!(max));
        }
        if let Some(running) = running.filter(|_| options.report_running) {
            fields.insert("running".to_owned(), named(running));
        }
    }
    if let Some(token) = &options.token {
        fields.insert("token".to_owned(), json!(token));
    }
    merge(&mut message, &options.register_overrides);
    message
}

/// `node_heartbeat`; `extra` has the last word.
pub(super) fn heartbeat(
    options: &NodeOptions,
    node_id: Option<&str>,
    load: &Load,
    extra: &Value,
) -> Value {
    let mut message = json!({
        "type": "node_heartbeat",
        "node_id": node_id,
        "timestamp": epoch_ms(),
        "resource_usage": {
            "cpu_percent": 12.5,
            "gpu_percent": 20.0,
            "gpu_mem_percent": 30.0,
            "mem_percent": 40.0,
            "running_jobs": load.running.len(),
        },
    });
    let fields = fields_of(&mut message);
    if options.old_agent {
        // Old agents repeat everything each time; a current one told it at registration.
        fields.insert("installed_services".to_owned(), services(options));
        fields.insert("capability_by_type".to_owned(), capabilities(options));
        fields.insert("language_capabilities".to_owned(), language_capabilities(options));
    } else {
        let health = if load.draining { "draining" } else { "ready" };
        fields.insert("health".to_owned(), json!(health));
        if options.report_running {
            fields.insert("running".to_owned(), named(&load.running));
        }
    }
    merge(&mut message, &options.heartbeat_overrides);
    merge(&mut message, extra);
    message
}

fn named(running: &[(String, u64)]) -> Value {
    let job = |(job_id, attempt_id): &(String, u64)| json!({ "job_id": job_id, "attempt_id": attempt_id });
    running.iter().map(job).collect()
}

/// Puts `over` over `base`: objects merge, `Null` as a whole changes nothing, anything else
/// replaces.
pub(crate) fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                match base.get_mut(name) {
                    Some(old) if !value.is_null() => merge(old, value),
                    _ => {
                        base.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn language_capabilities(options: &NodeOptions) -> Value {
    let mut languages = json!({
        "asr_languages": options.asr_languages,
        "semantic_languages": options.semantic_languages,
        "tts_languages": options.tts_languages,
        "semantic_core_ready": !options.semantic_languages.is_empty(),
    });
    let pairs = match &options.nmt_pairs {
        NmtPairs::Unsaid => return languages,
        NmtPairs::Any => json!("any"),
        NmtPairs::List(pairs) => json!(pairs),
    };
    // The field is newer than the old agents.
    if !options.old_agent {
        fields_of(&mut languages).insert("nmt_pairs".to_owned(), pairs);
    }
    languages
}

fn services(options: &NodeOptions) -> Value {
    if let Some(services) = &options.installed_services {
        return services.clone();
    }
    if options.old_agent {
        // The spellings differ from service to service, as they do in the field.
        return json!([
            { "service_id": "faster-whisper-vad", "type": "ASR", "device": "gpu",
              "status": "Running", "version": "2.0.0", "engine": "faster-whisper", "mem_mb": 1536 },
            { "service_id": "nmt-m2m100", "type": "nmt", "device": "GPU", "status": "running",
              "version": "2.0.0", "model_id": "m2m100-en-zh" },
            { "service_id": "piper-tts", "type": "Tts", "device": "cpu", "status": "running" },
            { "service_id": "semantic-repair", "type": "SEMANTIC", "device": "gpu",
              "status": "running", "warmup_ms": 8200 },
            { "service_id": "your-tts", "type": "tone", "device": "gpu", "status": "stopped",
              "last_error": null },
        ]);
    }
    let service = |kind: &str| {
        json!({ "service_id": format!("lab-{kind}"), "type": kind, "device": "gpu",
                "status": "running", "version": env!("CARGO_PKG_VERSION") })
    };
    ["asr", "semantic", "nmt", "tts"].into_iter().map(service).collect()
}

fn models(options: &NodeOptions) -> Value {
    if let Some(models) = &options.installed_models {
        return models.clone();
    }
    if !options.old_agent {
        return json!([]);
    }
    json!([{ "model_id": "m2m100-en-zh", "kind": "nmt", "src_lang": "en", "tgt_lang": "zh",
             "dialect": null, "version": "1.0.0", "enabled": true }])
}

fn capabilities(options: &NodeOptions) -> Value {
    if let Some(capabilities) = &options.capability_by_type {
        return capabilities.clone();
    }
    let kind = |kind: &str| {
        json!({ "type": kind, "ready": true, "ready_impl_ids": [format!("lab-{kind}")],
                "devices": ["gpu"] })
    };
    let mut kinds: Vec<_> = ["asr", "nmt", "tts", "semantic"].into_iter().map(kind).collect();
    if options.old_agent {
        kinds.push(json!({ "type": "tone", "ready": false, "reason": "tone_impl_not_running" }));
    }
    kinds.into()
}

fn fields_of(message: &mut Value) -> &mut Map<String, Value> {
    message.as_object_mut().expect("made as an object above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_merge_and_everything_else_replaces() {
        let mut message = json!({ "a": { "b": 1, "c": [1, 2] }, "d": 4 });
        merge(&mut message, &json!({ "a": { "c": [3], "e": 5 }, "d": null }));
        assert_eq!(message, json!({ "a": { "b": 1, "c": [3], "e": 5 }, "d": null }));
        merge(&mut message, &Value::Null);
        assert_eq!(message["a"]["b"], 1);
        merge(&mut message, &json!("not an object"));
        assert_eq!(message, "not an object");
    }

    #[test]
    fn an_old_agent_sends_no_field_that_is_newer_than_it() {
        let options = NodeOptions::default().old_agent();
        let message = register(&options, Some("old"), Some(&[]));
        for new in ["supports", "max_concurrent_jobs", "token", "running"] {
            assert!(message.get(new).is_none(), "{new}: {message}");
        }
        assert!(message["language_capabilities"].get("nmt_pairs").is_none());
        assert_eq!(message["installed_services"][0]["type"], "ASR");

        let load = Load { running: vec![("j".into(), 1)], draining: false };
        let message = heartbeat(&options, Some("old"), &load, &Value::Null);
        assert!(message.get("running").is_none() && message.get("health").is_none(), "{message}");
        assert_eq!(message["resource_usage"]["running_jobs"], 1);
        assert!(message["installed_services"].is_array());
    }

    #[test]
    fn a_current_node_says_what_it_runs_when_it_registers() {
        let options = NodeOptions::default();
        assert_eq!(register(&options, Some("n"), Some(&[]))["running"], json!([]));
        let message = register(&options, Some("n"), Some(&[("j".to_owned(), 2)]));
        assert_eq!(message["running"], json!([{ "job_id": "j", "attempt_id": 2 }]));
        let quiet = NodeOptions { report_running: false, ..NodeOptions::default() };
        assert!(register(&quiet, Some("n"), Some(&[])).get("running").is_none());
    }

    #[test]
    fn a_test_can_put_anything_over_a_message() {
        let mut options = NodeOptions::default()
            .register_with(json!({ "node_id": 7, "language_capabilities": { "nmt_pairs": [] } }));
        options.installed_services = Some(json!("nonsense"));
        options.heartbeat_overrides = json!({ "resource_usage": { "cpu_percent": 99.0 } });
        let message = register(&options, Some("n"), None);
        assert_eq!(message["node_id"], 7);
        assert_eq!(message["installed_services"], "nonsense");
        assert_eq!(message["language_capabilities"]["nmt_pairs"], json!([]));
        assert_eq!(message["language_capabilities"]["asr_languages"], json!(["en", "zh"]));

        let extra = json!({ "health": "degraded" });
        let message = heartbeat(&options, Some("n"), &Load::default(), &extra);
        assert_eq!(message["resource_usage"]["cpu_percent"], 99.0);
        assert_eq!(message["resource_usage"]["mem_percent"], 40.0);
        assert_eq!(message["health"], "degraded");
    }
}
