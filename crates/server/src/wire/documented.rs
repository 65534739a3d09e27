//! `docs/PROTOCOL.md` says what the code does: every message, field and route, and examples that
//! are taken.

use std::collections::BTreeSet;

use bytes::Bytes;
use lingua_protocol::client::{from_client, to_client};
use lingua_protocol::described::Described;
use lingua_protocol::node::{Abilities, FromNode, decode, from_node, to_node};
use serde_json::Value;

use super::http::dispatch::DispatchRequest;
use super::http::job_message::{AckRequest, DoneRequest, FailRequest};
use super::http::node::NodeReport;
use super::{http, session};

const PAGE: &str = include_str!("../../../../docs/PROTOCOL.md");
const SESSION_INBOUND: &str = include_str!("session/inbound.rs");
const NODE_INBOUND: &str = include_str!("../../../protocol/src/node/inbound.rs");
const HTTP_DISPATCH: &str = include_str!("http/dispatch.rs");
const HTTP_JOB_MESSAGE: &str = include_str!("http/job_message.rs");

/// The session of the examples.
const SESSION: &str = "s-9f1c2b7d04e85a6631f0";

/// A `###` part of the page.
struct Part {
    chapter: &'static str,
    heading: &'static str,
    text: String,
}

impl Part {
    /// The names of the messages that it is about, if `side` sends them.
    fn names(&self, side: &str) -> Vec<&'static str> {
        match self.heading.strip_prefix(side) {
            Some(names) => quoted(names, '`'),
            None => Vec::new(),
        }
    }

    /// Its examples.
    fn examples(&self) -> Vec<String> {
        let blocks = self.text.split("```json\n").skip(1);
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
    }
}

fn parts() -> Vec<Part> {
    let (mut chapter, mut parts) = ("", Vec::<Part>::new());
    for line in PAGE.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            chapter = name;
            parts.push(Part { chapter, heading: "", text: String::new() });
        } else if let Some(heading) = line.strip_prefix("### ") {
            parts.push(Part { chapter, heading, text: String::new() });
        } else if let Some(part) = parts.last_mut() {
            part.text.push_str(line);
            part.text.push('\n');
        }
    }
    parts
}

/// What stands between two of these marks.
fn quoted(text: &str, mark: char) -> Vec<&str> {
    text.split(mark).skip(1).step_by(2).collect()
}

fn documented(chapter: &str, side: &str) -> BTreeSet<&'static str> {
    let parts = parts().into_iter().filter(|part| part.chapter == chapter);
    parts.flat_map(|part| part.names(side)).collect()
}

/// The words that the code matches a message's type with.
fn arms(code: &str) -> BTreeSet<&str> {
    let pieces: Vec<&str> = code.split('"').collect();
    let words = pieces.windows(2).skip(1).step_by(2);
    let is_arm = |behind: &str| {
        let behind = behind.trim_start();
        behind.starts_with("=>") || behind.starts_with('|')
    };
    words.filter(|pair| is_arm(pair[1])).map(|pair| pair[0]).collect()
}

/// The names of messages that have text.
fn names(described: &[Described]) -> BTreeSet<&'static str> {
    described.iter().filter(|message| message.frame.is_none()).flat_map(names_of).collect()
}

/// Some messages have two.
fn names_of(message: &Described) -> Vec<&'static str> {
    match message.name {
        "node_register" => vec!["node_register", "register"],
        "node_heartbeat" => vec!["node_heartbeat", "heartbeat"],
        name => vec![name],
    }
}

/// The fields of messages.
fn fields(described: &[Described]) -> BTreeSet<String> {
    let of = |message: &Described| -> Vec<String> {
        let fields = message.payload["properties"].as_object().into_iter().flatten();
        fields.map(|(name, _)| name.clone()).collect()
    };
    described.iter().flat_map(of).collect()
}

/// All fields of messages, also those of objects within them.
fn nested_fields(described: &[Described]) -> BTreeSet<String> {
    fn add(schema: &Value, fields: &mut BTreeSet<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            fields.insert(name.clone());
            add(field, fields);
        }
        let forms = schema["oneOf"].as_array().into_iter().flatten();
        forms.chain(schema.get("items")).for_each(|schema| add(schema, fields));
    }
    let mut fields = BTreeSet::new();
    described.iter().for_each(|message| add(&message.payload, &mut fields));
    fields
}

/// What is told on the socket of a chapter.
fn told(chapter: &str) -> Vec<Described> {
    match chapter {
        "Session socket" => to_client(),
        _ => to_node(),
    }
}

#[test]
fn every_message_of_the_sockets_is_on_the_page_and_no_other() {
    assert_eq!(documented("Session socket", "client: "), arms(SESSION_INBOUND));
    assert_eq!(documented("Node socket", "node: "), arms(NODE_INBOUND));
    assert_eq!(documented("Session socket", "scheduler: "), names(&to_client()));
    assert_eq!(documented("Node socket", "scheduler: "), names(&to_node()));
    assert_eq!(names(&from_client()), arms(SESSION_INBOUND));
    assert_eq!(names(&from_node()), arms(NODE_INBOUND));
    assert!(documented("Node socket", "node: ").len() > 8 && arms(SESSION_INBOUND).len() > 8);
}

#[test]
fn every_field_that_is_sent_is_on_the_page() {
    let parts = parts();
    for chapter in ["Session socket", "Node socket"] {
        let said: String = parts
            .iter()
            .filter(|part| part.chapter == chapter && part.heading.starts_with("scheduler: "))
            .map(|part| part.text.as_str())
            .collect();
        let sent = fields(&told(chapter));
        assert!(sent.len() > 20);
        let missing: Vec<&String> = sent
            .iter()
            .filter(|field| *field != "type" && !said.contains(&format!("`{field}`")))
            .collect();
        assert!(missing.is_empty(), "{chapter}: {missing:?}");
    }
}

#[test]
fn examples_of_what_is_sent_have_the_fields_that_the_code_writes() {
    let mut checked = 0;
    for part in parts() {
        let names = part.names("scheduler: ");
        for example in part.examples().iter().filter(|_| !names.is_empty()) {
            let message: Value = serde_json::from_str(example).unwrap();
            assert!(names.contains(&message["type"].as_str().unwrap()), "{example}");
            let told = told(part.chapter);
            let described = told.iter().find(|one| one.name == message["type"]).unwrap();
            let fields = message.as_object().unwrap();
            for name in fields.keys() {
                let known = &described.payload["properties"][name];
                assert!(known.is_object(), "{name}: {example}");
            }
            for must in described.payload["required"].as_array().unwrap() {
                assert!(fields.contains_key(must.as_str().unwrap()), "{must}: {example}");
            }
            checked += 1;
        }
        assert!(names.is_empty() || !part.examples().is_empty(), "{} has none", part.heading);
    }
    assert!(checked > 15);
}

#[test]
fn examples_of_what_clients_say_are_taken() {
    let mut options = None;
    for part in parts().iter().filter(|part| part.chapter == "Session socket") {
        let names = part.names("client: ");
        assert!(names.is_empty() || !part.examples().is_empty(), "{} has none", part.heading);
        for example in part.examples().iter().filter(|_| !names.is_empty()) {
            let message: Value = serde_json::from_str(example).unwrap();
            assert_eq!(names, [message["type"].as_str().unwrap()], "{example}");
            if names == ["session_init"] {
                let init = session::decode_init(example, [127, 0, 0, 1].into());
                let init = init.unwrap_or_else(|refusal| panic!("{example}: {refusal:?}"));
                options = Some(init.opening.options);
                continue;
            }
            let options = options.as_ref().expect("session_init comes first");
            let bound = session::Bound { session_id: SESSION, options, max_audio_bytes: 1_000 };
            if let Err(refusal) = session::decode_text(example, &bound) {
                panic!("{example}: {refusal:?}");
            }
        }
    }
    assert!(options.is_some());
}

#[test]
fn examples_of_what_nodes_say_are_taken() {
    for part in parts().iter().filter(|part| part.chapter == "Node socket") {
        let names = part.names("node: ");
        assert!(names.is_empty() || !part.examples().is_empty(), "{} has none", part.heading);
        for example in part.examples().iter().filter(|_| !names.is_empty()) {
            let message: Value = serde_json::from_str(example).unwrap();
            assert!(names.contains(&message["type"].as_str().unwrap()), "{example}");
            match decode(example, || Bytes::from(example.clone())) {
                Ok(FromNode::Register(mut said)) => {
                    let mut abilities = Abilities::default();
                    said.put_over(&mut abilities);
                    abilities.declaration(1).unwrap();
                    assert!(said.running().unwrap().strangers.is_empty());
                }
                Ok(FromNode::Heartbeat(mut said)) => {
                    assert!(said.running().unwrap().strangers.is_empty());
                }
                Ok(_) => {}
                Err(refusal) => panic!("{example}: {refusal:?}"),
            }
        }
    }
}

#[test]
fn examples_of_http_bodies_are_taken_and_every_route_is_on_the_page() {
    let mut bodies = 0;
    for part in parts().iter().filter(|part| part.chapter == "HTTP") {
        for example in part.examples() {
            serde_json::from_str::<Value>(&example).unwrap_or_else(|e| panic!("{e}: {example}"));
        }
        let Some(body) = part.examples().into_iter().next() else { continue };
        let body = body.as_bytes();
        let taken = match part.heading {
            "POST /v1/dispatch/f2f" => DispatchRequest::parse(body)
                .and_then(|request| request.check(&lingua_engine::Settings::stable()))
                .map(drop),
            "POST /v1/node/register" | "POST /v1/node/heartbeat" => http::parse::<NodeReport>(body)
                .and_then(|mut report| {
                    report.abilities(&mut Abilities::default())?;
                    report.heartbeat().map(drop)
                }),
            "POST /v1/job/ack" => http::parse::<AckRequest>(body).and_then(|r| r.call()).map(drop),
            "POST /v1/job/done" => {
                http::parse::<DoneRequest>(body).and_then(|r| r.call()).map(drop)
            }
            "POST /v1/job/fail" => {
                http::parse::<FailRequest>(body).and_then(|r| r.call()).map(drop)
            }
            other => panic!("nobody knows who takes {other:?}"),
        };
        taken.unwrap_or_else(|refusal| panic!("{}: {refusal:?}", part.heading));
        bodies += 1;
    }
    assert_eq!(bodies, 6);

    let listed = PAGE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let call = cells.next()?.trim_end_matches('`');
        let is_call = ["GET ", "POST ", "DELETE "].iter().any(|method| call.starts_with(method));
        is_call.then(|| (call.to_owned(), cells.next().unwrap_or_default().to_owned()))
    });
    assert_eq!(listed.collect::<BTreeSet<_>>(), routes());
}

/// Every call of the HTTP door but those between instances, and whose it is.
fn routes() -> BTreeSet<(String, String)> {
    let calls = crate::http::calls().into_iter().filter(|(_, _, who)| *who != "peers");
    calls.map(|(method, path, who)| (format!("{method} {path}"), who)).collect()
}

/// The fields that a file's types are read from.
fn read_fields(code: &str) -> BTreeSet<&str> {
    let mut fields = BTreeSet::new();
    for read in code.split("Deserialize").skip(1) {
        let Some((head, body)) = read.split_once('{') else { continue };
        if !head.contains("struct ") || head.contains(';') {
            continue;
        }
        let body = body.split("\n}").next().unwrap_or(body);
        let names = body.lines().filter_map(|line| {
            let (name, _) = line.trim_start().split_once(": ")?;
            let name = name.trim_start_matches("pub(super) ").trim_start_matches("pub(crate) ");
            name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()).then_some(name)
        });
        // Renamed to `type`.
        fields.extend(names.filter(|name| *name != "kind"));
    }
    fields
}

#[test]
fn every_field_that_is_read_is_on_the_page() {
    let parts = parts();
    let options = lingua_protocol::described::of::<lingua_protocol::JobOptions>();
    let options = options["properties"].as_object().unwrap().keys().cloned();
    let http =
        [HTTP_DISPATCH, HTTP_JOB_MESSAGE].into_iter().flat_map(read_fields).map(str::to_owned);
    let http = http.chain(options);
    for (chapter, fields) in [
        ("Session socket", nested_fields(&from_client())),
        ("Node socket", nested_fields(&from_node())),
        ("HTTP", http.collect()),
    ] {
        let part = |part: &&Part| part.chapter == chapter;
        let said: String = parts.iter().filter(part).map(|part| part.text.as_str()).collect();
        assert!(fields.len() > 8, "{chapter}: only {fields:?}");
        let told = |field: &&String| {
            ["`", "\"", "options."].iter().any(|before| {
                ["`", "\""].iter().any(|after| said.contains(&format!("{before}{field}{after}")))
            })
        };
        let missing: Vec<&String> = fields.iter().filter(|field| !told(field)).collect();
        assert!(missing.is_empty(), "{chapter}: {missing:?}");
    }
}
