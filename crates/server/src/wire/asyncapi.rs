//! AsyncAPI 3.0 of both sockets, put together from what the messages say of themselves.

use serde_json::{Map, Value, json};

use lingua_protocol::described::Described;
use lingua_protocol::{client, node};

/// A socket.
struct Channel {
    name: &'static str,
    address: &'static str,
    title: &'static str,
    about: &'static str,
    /// Who is at the other end.
    peer: &'static str,
    heard: Vec<Described>,
    told: Vec<Described>,
}

fn channels() -> [Channel; 2] {
    [
        Channel {
            name: "session",
            address: "/ws/session",
            title: "Session socket",
            about: "A client opens a session with `session_init`, sends speech, and hears for every \
                utterance exactly one ending, `translation_result` or `missing_result`, in order.",
            peer: "client",
            heard: client::from_client(),
            told: client::to_client(),
        },
        Channel {
            name: "node",
            address: "/ws/node",
            title: "Node socket",
            about: "A node registers with `node_register`, gets `job_assign`, and ends each job with \
                `job_result`.",
            peer: "node",
            heard: node::from_node(),
            told: node::to_node(),
        },
    ]
}

/// The description.
pub fn document() -> Value {
    let (mut described, mut operations) = (Map::new(), Map::new());
    let mut messages = Map::new();
    for channel in channels() {
        let mut of_channel = Map::new();
        // Seen from the scheduler, whose description this is.
        let sides = [
            ("receive", "says", channel.peer, &channel.heard),
            ("send", "is told", "scheduler", &channel.told),
        ];
        for (action, verb, sender, said) in sides {
            let mut said_here = Vec::new();
            for message in said {
                let key = format!("{}.{sender}.{}", channel.name, message.name);
                let in_channel = format!("{sender}.{}", message.name);
                said_here.push(json!({
                    "$ref": format!("#/channels/{}/messages/{in_channel}", channel.name)
                }));
                of_channel
                    .insert(in_channel, json!({ "$ref": format!("#/components/messages/{key}") }));
                messages.insert(key, describe(message));
            }
            operations.insert(
                format!("{}.{action}", channel.name),
                json!({
                    "action": action,
                    "title": format!("What a {} {verb}", channel.peer),
                    "channel": { "$ref": format!("#/channels/{}", channel.name) },
                    "messages": said_here,
                }),
            );
        }
        described.insert(
            channel.name.to_owned(),
            json!({
                "address": channel.address,
                "title": channel.title,
                "description": channel.about,
                "messages": of_channel,
                "bindings": { "ws": { "method": "GET", "bindingVersion": "0.1.0" } },
            }),
        );
    }
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Lingua Scheduler",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0" },
            "description": "Text frames are one JSON object each, whose `type` says which message it \
                is. Unknown fields of what is sent to the scheduler are passed over, and `null` is \
                the same as absent. Where tokens are asked for, one is shown in `Authorization: \
                Bearer` of the request or as `token` of the first message.",
        },
        "defaultContentType": "application/json",
        "channels": described,
        "operations": operations,
        "components": { "messages": messages },
    })
}

fn describe(message: &Described) -> Value {
    let mut described = json!({
        "name": message.name,
        "title": message.name,
        "summary": message.about,
        "contentType": "application/json",
        "payload": message.payload,
    });
    if let Some(frame) = &message.frame {
        described["contentType"] = "application/octet-stream".into();
        described["x-frame"] = frame.clone();
    }
    described
}
