//! The description of the HTTP door is whole and true.

use crate::app;
use crate::app::http;

use std::collections::BTreeSet;
use std::time::Duration;

use app::{On, TestApp, quick};
use http::Api;
use http::schema::{differences, target};
use lingua_core::outcome::Code;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Every operation with its method and path.
fn operations(description: &Value) -> Vec<(String, String, &Value)> {
    let mut all = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.clone(), path.clone(), operation));
        }
    }
    all
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

async fn described() -> Value {
    let app = TestApp::start(On::Memory, quick()).await;
    let description = Api::of(&app).await.description.as_ref().clone();
    app.finish().await;
    description
}

#[tokio::test]
async fn every_operation_says_what_it_is_and_what_it_answers() {
    let description = described().await;
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let tags: BTreeSet<&str> = description["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&description) {
        let called = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{called}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{called}");
        assert!(tags.contains(operation["tags"][0].as_str().unwrap()), "{called}");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        for name in path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
            let described = parameters.iter().any(|p| p["name"] == name && p["in"] == "path");
            assert!(described, "{called}: {name}");
        }
        assert!(parameters.iter().all(|p| p["description"].is_string()), "{called}");
        // An order names what it is about in its path.
        if method == "post" && !path.contains("}/") {
            assert!(operation["requestBody"]["content"].is_object(), "{called}");
        }
        let answers = operation["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| status.starts_with('2')), "{called}");
        for (status, answer) in answers.iter().filter(|(status, _)| !status.starts_with('2')) {
            let body = &answer["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(body, "#/components/schemas/ErrorBody", "{called} {status}");
            for code in answer["description"].as_str().unwrap().split(", ") {
                let code = Code::parse(code).unwrap_or_else(|| panic!("{called}: {code}"));
                assert_eq!(code.http_status().to_string(), *status, "{called}");
            }
        }
    }
}

/// It has no end, and so the scripts that compare answers with the description leave it out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_events_is_as_described_and_so_is_each_event() {
    let app = TestApp::start(On::Memory, quick()).await;
    let api = Api::of(&app).await;
    let answers = &api.description["paths"]["/api/v1/events"]["get"]["responses"];
    assert!(answers["200"]["content"]["text/event-stream"].is_object(), "{answers}");
    let mut socket = tokio::net::TcpStream::connect(app.address).await.unwrap();
    socket.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let (mut text, mut buffer) = (String::new(), vec![0; 65_536]);
    let data = loop {
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read(&mut buffer));
        let n = read.await.unwrap().unwrap();
        assert!(n > 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
        if let Some((_, event)) = text.split_once("event: stats\ndata: ")
            && let Some((data, _)) = event.split_once("\n\n")
        {
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("\r\ncontent-type: text/event-stream"), "{head}");
    // An event is what /api/v1/stats answers.
    let stats = &api.description["paths"]["/api/v1/stats"]["get"]["responses"]["200"];
    let schema = &stats["content"]["application/json"]["schema"];
    let wrong = differences(&api.description, schema, &data);
    assert!(wrong.is_empty(), "{wrong:?} {data}");
    drop(socket);
    app.finish().await;
}

#[tokio::test]
async fn references_lead_somewhere_and_every_field_is_explained() {
    let description = described().await;
    let mut references = 0;
    walk(&description, &mut |name, value| {
        if name == "$ref" {
            references += 1;
            target(&description, value);
        }
    });
    assert!(references > 50, "{references}");
    let mut silent = Vec::new();
    for (name, schema) in description["components"]["schemas"].as_object().unwrap() {
        for (field, what) in schema["properties"].as_object().into_iter().flatten() {
            let explained =
                what["description"].is_string() || what["oneOf"][0]["description"].is_string();
            // Plain words that need no sentence.
            let plain = ["src", "tgt", "status", "version", "nodes", "pairs", "node_id"];
            if !explained && !plain.contains(&field.as_str()) {
                silent.push(format!("{name}.{field}"));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}

#[tokio::test]
async fn examples_are_as_their_schemas_say() {
    let description = described().await;
    let mut examples = 0;
    let mut see = |schema: &Value, example: &Value| {
        examples += 1;
        let wrong = differences(&description, schema, example);
        assert!(wrong.is_empty(), "{wrong:?} {example}");
    };
    for schema in description["components"]["schemas"].as_object().unwrap().values() {
        if !schema["example"].is_null() {
            see(schema, &schema["example"]);
        }
        for field in schema["properties"].as_object().into_iter().flat_map(|fields| fields.values())
        {
            if !field["example"].is_null() {
                see(field, &field["example"]);
            }
        }
    }
    for (_, _, operation) in operations(&description) {
        for answer in operation["responses"].as_object().unwrap().values() {
            let body = &answer["content"]["application/json"];
            if !body["example"].is_null() {
                see(&body["schema"], &body["example"]);
            }
        }
    }
    assert!(examples > 60, "{examples}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_parameter_is_refused_with_those_that_the_call_takes() {
    let app = TestApp::start(On::Memory, quick()).await;
    let api = Api::of(&app).await;
    for path in [
        "/api/v1/nodes?limt=5",
        "/api/v1/sessions?Limit=5",
        "/v1/job/00000000000000000000000000?wait=5",
    ] {
        let reply = api.get(path).await;
        assert_eq!(
            (reply.status, &reply.body["error"]),
            (400, &"INVALID_MESSAGE".into()),
            "{path}"
        );
        let detail = reply.body["detail"].as_str().unwrap();
        assert!(detail.contains("is no parameter of this call; it takes "), "{detail}");
    }
    assert_eq!(api.get("/api/v1/nodes?limit=5&after=").await.status, 200);
    app.finish().await;
}
