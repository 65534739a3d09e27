//! The messages that a node sends rarely: what it is, and how it is.

use serde_json::{Map, Value, json};

use super::options::{NmtPairs, NodeOptions};
use crate::clock::epoch_ms;

/// Types of services; a current node has the first four.
const ALL_KINDS: [&str; 5] = ["asr", "nmt", "tts", "semantic", "tone"];

/// Memory that a node's services take.
const MEMORY_PERCENT: f64 = 40.0;

/// How busy a node is, as a heartbeat tells it.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub running: Vec<(String, u64)>,
    pub draining: bool,
    /// None of its services runs yet.
    pub starting: bool,
}

/// `node_register`; `starting` while none of its services runs.
pub(super) fn register(options: &NodeOptions, node_id: Option<&str>, starting: bool) -> Value {
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
        "installed_services": services(options, starting),
        "capability_by_type": capabilities(options, starting),
        "features_supported": {
            "emotion_detection": false,
            "voice_style_detection": false,
            "speech_rate_detection": false,
            "speech_rate_control": false,
            "speaker_identification": false,
            "persona_adaptation": false,
        },
        "accept_public_jobs": options.accept_public_jobs,
        "language_capabilities": language_capabilities(options, starting),
    });
    let fields = fields_of(&mut message);
    if !options.old_agent {
        fields.insert("supports".to_owned(), json!(options.supports));
        if let Some(max) = options.max_concurrent_jobs {
            fields.insert("max_concurrent_jobs".to_owned(), json!(max));
        }
    }
    if let Some(token) = &options.token {
        fields.insert("token".to_owned(), json!(token));
    }
    merge(&mut message, &options.register_overrides);
    message
}

/// Adds to a `node_register` what a current node still works on, unless its test said so already.
pub(super) fn say_running(message: &mut Value, options: &NodeOptions, running: &[(String, u64)]) {
    if options.report_running && !options.old_agent {
        fields_of(message).entry("running").or_insert_with(|| named(running));
    }
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
            "mem_percent": MEMORY_PERCENT,
            "running_jobs": load.running.len(),
        },
    });
    if options.old_agent {
        let used = MEMORY_PERCENT + options.existing.page_cache_percent;
        message["resource_usage"]["mem_percent"] = json!(used);
    } else {
        message["resource_usage"]["gpu_mem_percent"] = json!(30.0);
    }
    let fields = fields_of(&mut message);
    if options.old_agent {
        // Old agents repeat everything each time; a current one told it at registration.
        let starting = load.starting;
        fields.insert("installed_services".to_owned(), services(options, starting));
        fields.insert("capability_by_type".to_owned(), capabilities(options, starting));
        let languages = language_capabilities(options, starting);
        fields.insert("language_capabilities".to_owned(), languages);
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

fn language_capabilities(options: &NodeOptions, starting: bool) -> Value {
    if starting {
        return json!({ "asr_languages": [], "semantic_languages": [], "tts_languages": [],
                       "semantic_core_ready": false });
    }
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

fn services(options: &NodeOptions, starting: bool) -> Value {
    if let Some(services) = &options.installed_services {
        return services.clone();
    }
    if options.old_agent {
        // The spellings differ from service to service, as they do in the field.
        let mut services = json!([
            { "service_id": "faster-whisper-vad", "type": "ASR", "device": "gpu",
              "status": "Running", "version": "2.0.0", "engine": "faster-whisper", "mem_mb": 1536 },
            { "service_id": "nmt-m2m100", "type": "nmt", "device": "GPU", "status": "running",
              "version": "2.0.0", "model_id": "m2m100-en-zh" },
            { "service_id": "piper-tts", "type": "Tts", "device": "cpu", "status": "running" },
            { "service_id": "semantic-repair", "type": "SEMANTIC", "device": "gpu",
              "status": "running", "warmup_ms": 8200 },
            { "service_id": "your-tts", "type": "tone", "device": "gpu", "status": "running",
              "last_error": null },
        ]);
        for service in services.as_array_mut().into_iter().flatten() {
            let runs = service["type"].as_str().is_some_and(|kind| runs(options, kind, starting));
            if !runs {
                service["status"] = json!("stopped");
            }
        }
        return services;
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

/// Whether that service of an existing agent runs.
fn runs(options: &NodeOptions, kind: &str, starting: bool) -> bool {
    !starting && !options.existing.stopped.iter().any(|stopped| stopped.eq_ignore_ascii_case(kind))
}

fn capabilities(options: &NodeOptions, starting: bool) -> Value {
    if let Some(capabilities) = &options.capability_by_type {
        return capabilities.clone();
    }
    let kind = |kind: &str| {
        if options.old_agent && !runs(options, kind, starting) {
            return json!({ "type": kind, "ready": false, "reason": format!("{kind}_impl_not_running") });
        }
        json!({ "type": kind, "ready": true, "ready_impl_ids": [format!("lab-{kind}")],
                "devices": ["gpu"] })
    };
    // An existing agent lists what is installed, whether it runs or not.
    let installed = if options.old_agent { &ALL_KINDS[..] } else { &ALL_KINDS[..4] };
    installed.iter().map(|name| kind(name)).collect()
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
        let message = register(&options, Some("old"), false);
        for new in ["supports", "max_concurrent_jobs", "token"] {
            assert!(message.get(new).is_none(), "{new}: {message}");
        }
        assert!(message["language_capabilities"].get("nmt_pairs").is_none());
        assert_eq!(message["installed_services"][0]["type"], "ASR");

        let load = Load { running: vec![("j".into(), 1)], ..Load::default() };
        let message = heartbeat(&options, Some("old"), &load, &Value::Null);
        assert!(message.get("running").is_none() && message.get("health").is_none(), "{message}");
        assert_eq!(message["resource_usage"]["running_jobs"], 1);
        assert!(message["installed_services"].is_array());
        let usage = message["resource_usage"].as_object().unwrap();
        let figures: Vec<_> = usage.keys().map(String::as_str).collect();
        assert_eq!(figures, ["cpu_percent", "gpu_percent", "mem_percent", "running_jobs"]);
        assert_eq!(usage["mem_percent"], 85.0, "with the page cache");
    }

    #[test]
    fn an_old_agent_lists_what_is_installed_and_says_what_does_not_run() {
        let ready = |message: &Value| -> Vec<(String, bool)> {
            let kinds = message["capability_by_type"].as_array().unwrap().iter();
            let kind = |kind: &Value| kind["type"].as_str().unwrap().to_owned();
            kinds.map(|one| (kind(one), one["ready"] == true)).collect()
        };
        let statuses = |message: &Value| -> Vec<String> {
            let services = message["installed_services"].as_array().unwrap().iter();
            services.map(|one| one["status"].as_str().unwrap().to_lowercase()).collect()
        };
        let mut options = NodeOptions::default().old_agent();
        options.existing.stopped = ["semantic", "tone"].map(str::to_owned).to_vec();
        let message = register(&options, None, false);
        let kinds =
            [("asr", true), ("nmt", true), ("tts", true), ("semantic", false), ("tone", false)];
        assert_eq!(ready(&message), kinds.map(|(kind, ready)| (kind.to_owned(), ready)));
        assert_eq!(statuses(&message), ["running", "running", "running", "stopped", "stopped"]);
        assert_eq!(message["language_capabilities"]["semantic_languages"], json!(["en", "zh"]));

        for message in [
            register(&options, None, true),
            heartbeat(&options, None, &Load { starting: true, ..Load::default() }, &Value::Null),
        ] {
            assert!(ready(&message).iter().all(|(_, ready)| !ready), "{message}");
            assert_eq!(statuses(&message), ["stopped"; 5]);
            let languages = &message["language_capabilities"];
            assert_eq!(languages["semantic_core_ready"], false);
            for list in ["asr_languages", "semantic_languages", "tts_languages"] {
                assert_eq!(languages[list], json!([]), "{list}");
            }
        }
    }

    #[test]
    fn a_current_node_says_what_it_runs_when_it_registers() {
        let said = |options: &NodeOptions, running: &[(String, u64)]| {
            let mut message = register(options, Some("n"), false);
            say_running(&mut message, options, running);
            message.get("running").cloned()
        };
        let options = NodeOptions::default();
        assert_eq!(said(&options, &[]), Some(json!([])));
        let named = json!([{ "job_id": "j", "attempt_id": 2 }]);
        assert_eq!(said(&options, &[("j".to_owned(), 2)]), Some(named));
        let own = NodeOptions::default().register_with(json!({ "running": "nonsense" }));
        assert_eq!(said(&own, &[]), Some(json!("nonsense")));
        let quiet = NodeOptions { report_running: false, ..NodeOptions::default() };
        assert_eq!(said(&quiet, &[]), None);
        assert_eq!(said(&NodeOptions::default().old_agent(), &[]), None);
    }

    #[test]
    fn a_test_can_put_anything_over_a_message() {
        let mut options = NodeOptions::default()
            .register_with(json!({ "node_id": 7, "language_capabilities": { "nmt_pairs": [] } }));
        options.installed_services = Some(json!("nonsense"));
        options.heartbeat_overrides = json!({ "resource_usage": { "cpu_percent": 99.0 } });
        let message = register(&options, Some("n"), false);
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
