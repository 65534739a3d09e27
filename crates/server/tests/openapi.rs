//! The description of the HTTP door is whole and true.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
#[path = "app/http.rs"]
mod http;

use std::collections::BTreeSet;

use app::{On, TestApp, quick};
use http::Api;
use http::schema::{differences, target};
use lingua_core::outcome::Code;
use serde_json::Value;

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
        if method == "post" && !path.starts_with("/api/v1/nodes/") {
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
