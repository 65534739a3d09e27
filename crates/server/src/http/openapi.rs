//! The description of this door, made from its code.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{
    admin, all_jobs, asyncapi, audio, board, catalogue, dispatch, explain, health, jobs, languages,
    metrics, nodes, owner, revocations, sessions, usage,
};
use crate::wire::http::{ErrorBody, ProblemBody};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lingua Scheduler",
        description = "Submit speech, register nodes, and see the state of the system and its reasons.\n\n\
            JSON in, JSON out. Unknown fields are ignored and `null` equals absent. Times are epoch \
            milliseconds. An error has a stable code, a sentence and, if a retry makes sense, \
            the time to wait.",
    ),
    tags(
        (name = "jobs", description = "Submit an utterance and follow it"),
        (name = "audio", description = "Upload audio before its job"),
        (name = "nodes", description = "For nodes"),
        (name = "admin", description = "For operators and node owners"),
        (name = "probes", description = "Health checks and metrics"),
    ),
    paths(
        dispatch::f2f, jobs::view, jobs::cancel,
        audio::keep, audio::fetch, languages::languages,
        nodes::register, nodes::heartbeat, nodes::next, owner::view, owner::resume, jobs::ack, jobs::done, jobs::fail,
        admin::nodes, admin::node, admin::pools, explain::explain,
        admin::drain, admin::resume, admin::block, revocations::revoke, revocations::list,
        board::stats, board::history, usage::usage, catalogue::catalogue, board::cluster, board::node_history, all_jobs::jobs, all_jobs::job, all_jobs::cancel,
        sessions::sessions, sessions::session, sessions::disconnect, board::events,
        health::health, health::ready, metrics::metrics, openapi,
        asyncapi::asyncapi,
    ),
    components(schemas(ErrorBody, ProblemBody)),
)]
struct Description;

static TEXT: LazyLock<String> =
    LazyLock::new(|| match serde_json::to_value(Description::openapi()) {
        Ok(mut described) => {
            add_guards(&mut described);
            add_descriptions(&mut described);
            described.to_string()
        }
        Err(error) => format!("{{\"error\":\"{error}\"}}"),
    });

/// What the guard in front of a call answers, by the same table that it goes by.
fn add_guards(described: &mut Value) {
    described["components"]["securitySchemes"]["token"] = json!({
        "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
        "description": "Needed where the scheduler has keys; see `lingua token`."
    });
    for (method, path, who) in super::calls() {
        let item = described["paths"].get_mut(path);
        let Some(call) = item.and_then(|item| item.get_mut(method.to_lowercase())) else {
            continue;
        };
        let mut codes = vec![Code::MisdirectedRequest];
        if who != "everybody" {
            call["security"] = json!([{ "token": [] }, {}]);
            let guards =
                [Code::InvalidMessage, Code::Unauthorized, Code::Forbidden, Code::RateLimited];
            codes.extend(guards);
        }
        for code in codes {
            let answer = &mut call["responses"][code.http_status().to_string()];
            // The call may have other reasons for the same status.
            let mut all: Vec<&str> = answer["description"]
                .as_str()
                .map(|codes| codes.split(", ").collect())
                .unwrap_or_default();
            if !all.contains(&code.as_str()) {
                all.push(code.as_str());
            }
            *answer = json!({
                "description": all.join(", "),
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/ErrorBody" }
                }, "application/problem+json": {
                    "schema": { "$ref": "#/components/schemas/ProblemBody" }
                } }
            });
        }
    }
}

/// Every answer needs a description: one without is described as its body is.
fn add_descriptions(described: &mut Value) {
    let bodies = described["components"]["schemas"].clone();
    let calls = described["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    let calls = calls.filter_map(Value::as_object_mut).flat_map(|item| item.values_mut());
    let answers = calls.filter_map(|call| call["responses"].as_object_mut());
    for answer in answers.flat_map(|answers| answers.values_mut()) {
        if answer["description"].is_string() {
            continue;
        }
        let body = answer["content"]["application/json"]["schema"]["$ref"].as_str();
        let name = body.and_then(|body| body.rsplit('/').next()).unwrap_or_default();
        let text = bodies[name]["description"].as_str().and_then(|text| text.lines().next());
        answer["description"] = json!(text.unwrap_or("The answer."));
    }
}

/// The query parameters of each call, by method and path.
static PARAMETERS: LazyLock<HashMap<(String, String), BTreeSet<String>>> = LazyLock::new(|| {
    let described: Value = serde_json::from_str(&TEXT).unwrap_or_default();
    let mut known = HashMap::new();
    for (path, item) in described["paths"].as_object().into_iter().flatten() {
        for (method, call) in item.as_object().into_iter().flatten() {
            let all = call["parameters"].as_array().into_iter().flatten();
            let names =
                all.filter(|one| one["in"] == "query").filter_map(|one| one["name"].as_str());
            let names = names.map(str::to_owned).collect();
            known.insert((method.to_uppercase(), path.clone()), names);
        }
    }
    known
});

/// The query parameters that a call takes; `None` of one that is not described here.
pub(crate) fn parameters(method: &str, path: &str) -> Option<&'static BTreeSet<String>> {
    PARAMETERS.get(&(method.to_owned(), path.to_owned()))
}

/// Get this description
#[utoipa::path(
    get, path = "/openapi.json", tag = "probes",
    responses((status = 200, body = Object, description = "OpenAPI 3.1"))
)]
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::LEAD_THERE;

    fn routes() -> BTreeSet<(String, String)> {
        let routes = crate::http::calls().into_iter();
        routes.map(|(method, path, _)| (path.to_owned(), method.to_lowercase())).collect()
    }

    #[test]
    fn every_answer_has_a_description() {
        let described: Value = serde_json::from_str(&TEXT).unwrap();
        let mut answers = 0;
        for (path, item) in described["paths"].as_object().unwrap() {
            for (method, call) in item.as_object().unwrap() {
                for (status, answer) in call["responses"].as_object().unwrap() {
                    let text = answer["description"].as_str().unwrap_or_default();
                    assert!(!text.is_empty(), "{method} {path} {status}");
                    answers += 1;
                }
            }
        }
        assert!(answers > 100, "{answers}");
    }

    #[test]
    fn the_parameters_of_a_call_are_known() {
        let names = parameters("GET", "/api/v1/nodes").unwrap();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(names, ["after", "instance", "limit", "src", "state", "tgt"]);
        assert!(parameters("GET", "/api/v1/nodes/{id}").is_none_or(BTreeSet::is_empty));
        assert_eq!(parameters("GET", "/internal/v1/sessions"), None);
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let described: serde_json::Value = serde_json::from_str(&TEXT).unwrap();
        let paths = described["paths"].as_object().unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(move |method| (path.clone(), method.clone()))
            })
            .collect();
        let routes: BTreeSet<_> = routes()
            .into_iter()
            .filter(|(path, _)| {
                let others = ["/ws/", "/internal/", "/dashboard", "/talk", "/node"];
                !LEAD_THERE.contains(&path.as_str())
                    && !others.iter().any(|other| path.starts_with(other))
            })
            .collect();
        assert_eq!(described, routes);
        assert!(described.len() >= 22, "{}", described.len());
    }
}
