//! What refusals say: in words of ours, whatever is wrong, and parameters that a call does not have are among it.

use crate::app::http::{Api, calm};
use crate::app::{On, TestApp};
use crate::http_edge::real;

use serde_json::{Value, json};

/// What serde, Rust's parsers and other libraries say.
const OF_LIBRARIES: &[&str] = &[
    "u8",
    "u16",
    "u32",
    "u64",
    "i64",
    "f64",
    "usize",
    "struct",
    "variant",
    "invalid type",
    "invalid value",
    "invalid length",
    "missing field",
    "duplicate field",
    "expected value",
    "expected `",
    "EOF",
    "trailing",
    "at line 1 column",
    "invalid digit",
    "provided string",
    "floating point",
    "sequence",
    "Invalid symbol",
    "Invalid byte",
    "offset",
    "Some(",
    "Error",
];

fn assert_plain(about: &str, body: &Value) {
    let detail = body["detail"].as_str().unwrap_or_default();
    let found: Vec<_> = OF_LIBRARIES.iter().filter(|word| detail.contains(**word)).collect();
    assert!(found.is_empty(), "{about}: {detail} has {found:?}");
}

/// Every call of the description: method, path and what is said of it.
fn calls(description: &Value) -> Vec<(String, String, &Value)> {
    let mut calls = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            calls.push((method.clone(), path.clone(), call));
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_body_is_refused_without_words_of_a_library() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    let values = [
        json!("x"),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!([1]),
        json!({"a": 1}),
        json!(true),
        json!([{"a": [1]}]),
    ];
    let texts = ["", "{", "[]", "7", "\"a\"", "{\"a\": 01}", "{\"a\" 1}", "\u{feff}{}", "{}x"];
    let (mut bodies, description) = (0, api.description.clone());
    for (method, path, call) in calls(&description) {
        let schema = &call["requestBody"]["content"]["application/json"]["schema"];
        if !schema.is_object() {
            continue;
        }
        let real = real(&path);
        for text in texts {
            let told = api.post_bytes(&real, text.to_owned()).await;
            assert_plain(&format!("{method} {path} {text:?}"), &told.body);
        }
        for (body, about) in wrong_bodies(&description, schema, &values) {
            let told = api.post(&real, &body).await;
            assert_plain(&format!("{method} {path} {about}"), &told.body);
            bodies += 1;
        }
    }
    assert!(bodies > 300, "{bodies}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_parameter_is_refused_without_words_of_a_library() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    let (mut queries, description) = (0, api.description.clone());
    for (_, path, call) in calls(&description).iter().filter(|(method, ..)| method == "get") {
        let parameters = call["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in parameters.iter().filter(|one| one["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let values =
                ["x%20y", "-1", "1.5", "%2B1", "99999999999999999999999", "true1", "%C3%A9"];
            for value in values {
                let told = api.get(&format!("{}?{name}={value}", real(path))).await;
                assert_plain(&format!("{path} {name}={value}"), &told.body);
                queries += 1;
            }
        }
    }
    assert!(queries > 100, "{queries}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_asks_for_a_token_refuses_parameters_that_it_does_not_have() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    let (mut refused, description) = (0, api.description.clone());
    for (method, path, call) in calls(&description) {
        if method != "get" || !call["security"].is_array() {
            continue;
        }
        let told = api.get(&format!("{}?nonsense=1", real(&path))).await;
        assert_eq!((told.status, &told.body["error"]), (400, &json!("INVALID_MESSAGE")), "{path}");
        let detail = told.body["detail"].as_str().unwrap();
        assert!(detail.contains("is no parameter of this call; it takes "), "{path}: {detail}");
        refused += 1;
    }
    assert!(refused > 12, "{refused}");
    let told = api.post("/v1/dispatch/f2f?nonsense=1", &crate::app::http::job("s")).await;
    assert_eq!(told.status, 400, "{}", told.body);
    app.finish().await;
}

/// Bodies with one wrong field each, to the second level.
fn wrong_bodies(description: &Value, schema: &Value, values: &[Value]) -> Vec<(Value, String)> {
    let mut found = Vec::new();
    let schema = resolved(description, schema);
    let good = schema["example"].as_object().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let mut put = |value: Value, about: String| {
            let mut body = Value::Object(good.clone());
            body[name] = value;
            found.push((body, about));
        };
        for value in values {
            put(value.clone(), format!("{name} = {value}"));
            put(json!([value]), format!("{name} = [{value}]"));
        }
        let inner = resolved(description, field);
        for inner_name in
            inner["properties"].as_object().into_iter().flat_map(|fields| fields.keys())
        {
            for value in values {
                put(json!({ inner_name: value }), format!("{name}.{inner_name} = {value}"));
            }
        }
    }
    found
}

/// Without a reference, and without the `null` beside it.
fn resolved<'a>(description: &'a Value, schema: &'a Value) -> &'a Value {
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    let inner = alternatives.clone().find(|one| one["type"] != "null").unwrap_or(schema);
    match inner["$ref"].as_str() {
        Some(name) => &description["components"]["schemas"][name.rsplit('/').next().unwrap()],
        None => inner,
    }
}
