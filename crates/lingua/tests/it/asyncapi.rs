//! The description of the sockets is whole and true: nothing is described that nobody says, what it
//! allows is taken, and what it forbids is refused. That nothing is said that it does not describe,
//! all tests see to together: see `app::described`.

use crate::app;

use std::collections::BTreeSet;
use std::time::Duration;

use app::{On, TestApp, described};
use lingua_core::link::SlowStart;
use lingua_lab::speech::{Codec, Mark};
use lingua_lab::{FakeNode, HttpClient, NodeOptions, ScriptedNode, Speaker, SpeakerOptions};
use serde_json::{Map, Value, json};

const PATIENCE: Duration = Duration::from_secs(15);

fn calm() -> lingua_engine::Settings {
    let mut settings = lingua_engine::Settings::stable();
    settings.slow_start = SlowStart::Off;
    settings.restart_hold_ms = 0;
    settings.sessions.open_utterances = 2;
    // Each message that is right is sent by itself, and there are many ways to register.
    settings.node_limits.registrations_per_min = 6_000;
    settings
}

fn speaking(app: &TestApp) -> SpeakerOptions {
    SpeakerOptions::new(app.ws("/ws/session")).patience(PATIENCE)
}

async fn node(app: &TestApp, id: &str) -> ScriptedNode {
    let options = NodeOptions { patience: PATIENCE, ..NodeOptions::new(app.ws("/ws/node")) };
    FakeNode::scripted(options.node_id(id)).await.unwrap()
}

fn messages(description: &Value) -> &Map<String, Value> {
    description["components"]["messages"].as_object().unwrap()
}

fn walk<'a>(value: &'a Value, see: &mut impl FnMut(&'a str, &'a Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                see(name, field);
                walk(field, see);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        _ => {}
    }
}

#[tokio::test]
async fn the_description_is_served_and_has_the_form_of_asyncapi_3() {
    let app = TestApp::start(On::Memory, calm()).await;
    let client = HttpClient::new(app.http(""));
    let served = client.get("/asyncapi.json").await.unwrap().ok().unwrap();
    assert_eq!(served, lingua_server::asyncapi());
    app.finish().await;

    assert_eq!(served["asyncapi"], "3.0.0");
    assert!(served["info"]["title"].is_string() && served["info"]["version"].is_string());
    let known = ["asyncapi", "info", "defaultContentType", "channels", "operations", "components"];
    assert!(served.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())));

    let sockets: BTreeSet<&str> = lingua_server::calls()
        .into_iter()
        .filter_map(|(_, path, who)| who.ends_with("socket").then_some(path))
        .collect();
    let channels = served["channels"].as_object().unwrap();
    let described = channels.values().map(|channel| channel["address"].as_str().unwrap());
    assert_eq!(described.collect::<BTreeSet<_>>(), sockets);

    // Every message is in one channel, and in one operation of that channel.
    let mut told = BTreeSet::new();
    for (name, operation) in served["operations"].as_object().unwrap() {
        assert!(["send", "receive"].contains(&operation["action"].as_str().unwrap()), "{name}");
        let channel = operation["channel"]["$ref"].as_str().unwrap();
        for message in operation["messages"].as_array().unwrap() {
            let path = message["$ref"].as_str().unwrap();
            assert!(path.starts_with(&format!("{channel}/messages/")), "{path}");
            let lead = &served.pointer(path.trim_start_matches('#')).unwrap()["$ref"];
            let key = lead.as_str().unwrap().strip_prefix("#/components/messages/").unwrap();
            assert!(told.insert(key.to_owned()), "{key} is said twice");
        }
    }
    assert_eq!(told, messages(&served).keys().cloned().collect());

    walk(&served, &mut |name, value| {
        if name == "$ref" {
            let path = value.as_str().unwrap().strip_prefix('#').unwrap();
            assert!(served.pointer(path).is_some_and(Value::is_object), "{path} names nothing");
        }
    });
}

#[test]
fn every_message_and_every_field_is_explained() {
    let description = lingua_server::asyncapi();
    for (name, message) in messages(&description) {
        assert!(message["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        let schema = &message["payload"];
        if message["contentType"] == "application/octet-stream" {
            assert!(message["x-frame"].as_array().unwrap().len() > 2, "{name}");
            continue;
        }
        assert_eq!((&schema["type"], &schema["required"][0]), (&json!("object"), &json!("type")));
        let fields = schema["properties"].as_object().unwrap();
        for (field, what) in fields.iter().filter(|(field, _)| *field != "type") {
            let text = what["description"].as_str().unwrap_or_else(|| panic!("{name}.{field}"));
            assert!(text.ends_with('.') && !text.contains("  "), "{name}.{field}: {text:?}");
        }
        for must in schema["required"].as_array().unwrap() {
            assert!(fields.contains_key(must.as_str().unwrap()), "{name}: {must}");
        }
    }
}

async fn a_text_is_translated(app: &TestApp, node: &mut ScriptedNode) {
    let mut types = Speaker::connect(speaking(app)).await.unwrap();
    types.text("good morning", json!({})).await.unwrap();
    let typed = node.next_of("job_assign").await.unwrap().message;
    node.ack(&typed).await.unwrap();
    node.result(&typed, "yes").await.unwrap();
    types.next_of("translation_result").await.unwrap();
    types.close_session("done").await.unwrap();
    types.next_of("session_close_ack").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_described_that_nobody_says() {
    let app = TestApp::start(On::Memory, calm()).await;
    let address = app.address;
    let admin = HttpClient::new(app.http(""));
    let mut node = node(&app, "a").await;
    node.heartbeat(Value::Null).await.unwrap();
    node.next_of("heartbeat_ack").await.unwrap();
    node.send(json!({"type": "auth", "token": "t"})).await.unwrap();
    node.next_of("auth_ack").await.unwrap();
    node.send(json!({"type": "node_error", "code": "FAN", "message": "loud"})).await.unwrap();
    node.send(json!({"type": "job_ack"})).await.unwrap();
    node.next_of("error").await.unwrap();

    // A client of before there were binary frames.
    let mut old = Speaker::connect(speaking(&app).existing_client()).await.unwrap();
    old.marked_sentence(Mark { speaker: 1, sentence: 0 }, 200).await.unwrap();
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.reject(&assign, "BUSY").await.unwrap();
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.ack(&assign).await.unwrap();
    node.started(&assign).await.unwrap();
    node.partial(&assign, "so far").await.unwrap();
    node.progress(&assign, "nmt").await.unwrap();
    old.next_of("asr_partial").await.unwrap();
    node.result(&assign, "yes").await.unwrap();
    node.next_of("result_ack").await.unwrap();
    old.next_of("translation_result").await.unwrap();
    old.tts_started("t").await.unwrap();
    old.tts_ended("t").await.unwrap();
    old.set_languages("zh", "en").await.unwrap();
    old.about_session("auth", json!({"token": "t"})).await.unwrap();
    old.next_of("auth_ack").await.unwrap();
    old.about_session("room_join", json!({})).await.unwrap();
    old.next_of("room_error").await.unwrap();
    old.close_session("done").await.unwrap();
    old.next_of("session_close_ack").await.unwrap();

    a_text_is_translated(&app, &mut node).await;

    let mut client = Speaker::connect(speaking(&app).without("resume")).await.unwrap();
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
    client.finalize().await.unwrap();
    client.next_of("finalized").await.unwrap();
    client.marked_sentence(Mark { speaker: 1, sentence: 1 }, 200).await.unwrap();
    let first = node.next_of("job_assign").await.unwrap().message;
    node.ack(&first).await.unwrap();
    client.next_of("audio_ack").await.unwrap();
    let speech = client.speech(Mark { speaker: 1, sentence: 2 }, 200);
    client.whole(7, speech.clone(), Value::Null).await.unwrap();
    let second = node.next_of("job_assign").await.unwrap().message;
    node.ack(&second).await.unwrap();
    client.say(speech).await.unwrap();
    client.next_of("error").await.unwrap();
    client.next_of("backpressure").await.unwrap();
    client.cancel(0).await.unwrap();
    node.next_of("job_cancel").await.unwrap();
    client.next_of("missing_result").await.unwrap();
    let drained = admin.post("/api/v1/nodes/a/drain", &json!({})).await.unwrap();
    assert_eq!(drained.status, 200);
    node.next_of("node_control").await.unwrap();
    let stopping = tokio::spawn(app.stop());
    client.next_of("go_away").await.unwrap();
    node.result(&second, "yes").await.unwrap();
    client.next_of("translation_result").await.unwrap();
    stopping.await.unwrap();

    let all: BTreeSet<String> = messages(&lingua_server::asyncapi()).keys().cloned().collect();
    let seen = described::seen(address);
    let unsaid: Vec<&String> = all.difference(&seen).collect();
    assert!(unsaid.is_empty(), "{unsaid:?}");
}

#[test]
fn a_message_that_is_not_as_described_is_noticed() {
    let wrong = |sender: &str, message: Value| {
        described::wrong_with("session", sender, &message.to_string())
    };
    let ack = json!({"type": "audio_ack", "session_id": "s", "seq": 1});
    assert_eq!(wrong("scheduler", ack.clone()), None);
    for (field, value) in [("seq", json!(-1)), ("seq", json!("1")), ("more", json!(1))] {
        let mut other = ack.clone();
        other[field] = value;
        let told = wrong("scheduler", other).unwrap();
        assert!(told.contains("audio_ack") && told.contains(&format!("$.{field}")), "{told}");
    }
    let told = wrong("scheduler", json!({"type": "audio_ack", "seq": 1})).unwrap();
    assert!(told.contains("session_id"), "{told}");
    assert!(wrong("scheduler", json!({"type": "nonsense"})).unwrap().contains("nonsense"));
    // Others may say more than is described.
    let beat = json!({"type": "client_heartbeat", "timestamp": 1, "mood": "good"});
    assert_eq!(wrong("client", beat), None);
    assert!(wrong("client", json!({"type": "cancel", "utterance_index": "0"})).is_some());
}

/// A value that is right for a field.
fn right(name: &str, schema: &Value) -> Value {
    match name {
        "src_lang" | "lang_a" => return json!("en"),
        "tgt_lang" | "lang_b" => return json!("zh"),
        "mode" => return json!("one_way"),
        "codec" | "audio_format" => return json!("pcm16"),
        "audio" | "payload" => return json!("AAAAAA=="),
        "tenant_id" => return json!("acme"),
        "node_id" => return json!("probe"),
        "session_id" => return Value::Null,
        "health" => return json!("ready"),
        "job_id" => return json!("0123456789abcdefghjkmnpqrs"),
        "language_capabilities" => return json!({"semantic_languages": ["en", "zh"]}),
        "running" => return json!([]),
        "targets" => return json!(["zh"]),
        "accept" => return json!(["speech"]),
        "profile" => return json!("fast"),
        // Without a node that is preferred there is nothing to be strict about.
        "strict" => return json!(false),
        "last_indexes" => return json!({"zh": 1}),
        _ => {}
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    match kinds.iter().find(|kind| *kind != "null").and_then(Value::as_str) {
        Some("string") => schema.get("const").cloned().unwrap_or_else(|| json!("word")),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => json!({}),
    }
}

/// What a node says for others: it only passes through, and what has another form is left out.
const PASSING: [&str; 15] = [
    "src_lang",
    "text",
    "is_final",
    "text_asr",
    "text_translated",
    "tts_audio",
    "tts_format",
    "extra",
    "service_timings",
    "network_timings",
    "asr_quality_level",
    "reason_codes",
    "quality_score",
    "rerun_count",
    "segments_meta",
];

/// Values that are wrong for a field, and for how they are.
fn wrongs(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut wrongs = Vec::new();
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.contains(&json!(kind)),
        own => own == kind,
    };
    if schema["type"].is_null() {
        return wrongs;
    }
    wrongs.push(("of another kind", if is("boolean") { json!(5) } else { json!(true) }));
    if let Some(most) = schema["maxLength"].as_u64() {
        wrongs.push(("too long", json!("x".repeat(most as usize + 1))));
    }
    if schema["minLength"].is_u64() {
        wrongs.push(("too short", json!("")));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        wrongs.push(("too many", json!(vec!["x"; most as usize + 1])));
    }
    if schema["minItems"].is_u64() {
        wrongs.push(("too few", json!([])));
    }
    if schema["pattern"].is_string() || schema["enum"].is_array() {
        wrongs.push(("of another form", json!("no such/word")));
    }
    if let Some(least) = schema["minimum"].as_f64() {
        wrongs.push(("too small", json!(least as i64 - 1)));
    }
    if let Some(most) = schema["maximum"].as_f64() {
        wrongs.push(("too large", json!(most as u64 + 1)));
    }
    wrongs
}

/// Every way to be right and wrong in one field of a message.
fn variants(schema: &Value, passing: &[&str]) -> Vec<(String, Value, bool)> {
    let mut base = Map::new();
    for name in schema["required"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        base.insert(name.to_owned(), right(name, &schema["properties"][name]));
    }
    // Where there is speech its form matters, and its number matters where there is speech.
    let known = schema["properties"].as_object().unwrap();
    for name in ["audio_format", "payload"].into_iter().filter(|name| known.contains_key(*name)) {
        base.insert(name.to_owned(), right(name, &known[name]));
    }
    let with = |name: &str, value: Value| {
        let mut message = base.clone();
        message.insert(name.to_owned(), value);
        Value::Object(message)
    };
    let mut variants = vec![("as short as can be".to_owned(), Value::Object(base.clone()), true)];
    for name in schema["required"].as_array().unwrap() {
        let mut message = base.clone();
        message.remove(name.as_str().unwrap());
        variants.push((format!("without {name}"), message.into(), false));
    }
    for (name, field) in schema["properties"].as_object().unwrap() {
        if name == "type" {
            continue;
        }
        variants.push((format!("with {name}"), with(name, right(name, field)), true));
        for (how, wrong) in wrongs(field).into_iter().filter(|_| !passing.contains(&name.as_str()))
        {
            variants.push((format!("{name} {how}"), with(name, wrong), false));
        }
    }
    variants
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_allowed_to_clients_is_taken_and_what_is_not_is_refused() {
    let app = TestApp::start(On::Memory, calm()).await;
    let description = lingua_server::asyncapi();
    let (mut tried, mut beat) = (0, 0);
    for (name, message) in messages(&description) {
        let Some(kind) = name.strip_prefix("session.client.") else { continue };
        if message["contentType"] != "application/json" {
            continue;
        }
        for (how, said, is_right) in variants(&message["payload"], &[]) {
            tried += 1;
            let unopened = Speaker::unopened_with(speaking(&app)).await.unwrap();
            let mut client = match kind {
                "session_init" => unopened,
                _ => Speaker::connect(speaking(&app).codec(Codec::Pcm16)).await.unwrap(),
            };
            client.send(said.clone()).await.unwrap();
            let refused = loop {
                if kind == "session_init" {
                    break client.next().await.unwrap().kind() == "error";
                }
                beat += 1;
                // What was said has its answer before this one.
                if kind != "session_close" || !is_right {
                    let _ =
                        client.send(json!({"type": "client_heartbeat", "timestamp": beat})).await;
                }
                let heard = client.next().await.unwrap();
                match heard.kind() {
                    "error" if heard["code"] == "NOT_FOUND" => break false,
                    "error" => break true,
                    "server_heartbeat" | "session_close_ack" => break false,
                    _ => {}
                }
            };
            assert_eq!(refused, !is_right, "{kind} {how}: {said}");
        }
    }
    assert!(tried > 100, "{tried}");
    app.abandon();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_allowed_to_nodes_is_taken_and_what_is_not_is_refused() {
    let app = TestApp::start(On::Memory, calm()).await;
    let description = lingua_server::asyncapi();
    let mut tried = 0;
    for (name, message) in messages(&description) {
        let Some(kind) = name.strip_prefix("node.node.") else { continue };
        let mut schema = message["payload"].clone();
        if schema["properties"]["type"]["enum"].is_array() {
            schema["properties"]["type"] = json!({"type": "string", "const": kind});
        }
        for (how, said, is_right) in variants(&schema, &PASSING) {
            tried += 1;
            let mut node = node(&app, "probe").await;
            node.send(said.clone()).await.unwrap();
            // What was said has its answer before this one has its own.
            node.send(json!({"type": "auth", "token": "marker"})).await.unwrap();
            let refused = loop {
                match node.next().await.unwrap()["type"].as_str().unwrap() {
                    "error" => break true,
                    "auth_ack" => break false,
                    _ => {}
                }
            };
            assert_eq!(refused, !is_right, "{kind} {how}: {said}");
        }
    }
    assert!(tried > 60, "{tried}");
    app.abandon();
}
