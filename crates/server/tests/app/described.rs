//! Holds all that simulated clients and nodes say and hear in this process against the description
//! of the sockets.
//!
//! What the scheduler says must be as described, and have no field that is not. What others say and
//! is not as described must be refused: with an `error` or a close. A test that is about such
//! messages need not say so.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

#[path = "http_schema.rs"]
mod schema;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::LazyLock;

use lingua_lab::overheard::{self, Overheard, What};
use parking_lot::Mutex;
use serde_json::Value;

static DESCRIPTION: LazyLock<Value> = LazyLock::new(lingua_server::asyncapi);
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct State {
    /// By link: what was said that is not as described, and has not been refused yet.
    unrefused: HashMap<u64, VecDeque<String>>,
    /// What is wrong for good.
    wrong: Vec<String>,
    /// Messages that were as described, as the description names them.
    seen: BTreeSet<String>,
}

/// Listens from now on.
pub fn listen() {
    overheard::listen(hear);
}

/// Fails if anything was not as described in any test of this process.
pub fn verdict() {
    let wrong = STATE.lock().wrong.clone();
    assert!(wrong.is_empty(), "not as /asyncapi.json says: {wrong:#?}");
}

/// The messages that were heard so far.
pub fn seen() -> BTreeSet<String> {
    STATE.lock().seen.clone()
}

fn hear(overheard: &Overheard<'_>) {
    let (socket, peer) = match overheard.path {
        "/ws/session" => ("session", "client"),
        "/ws/node" => ("node", "node"),
        _ => return,
    };
    let link = overheard.link;
    match overheard.what {
        What::Said(text) => match differences(socket, peer, text) {
            Ok(name) => _ = STATE.lock().seen.insert(name),
            Err(wrong) => STATE.lock().unrefused.entry(link).or_default().push_back(wrong),
        },
        What::Told(text) => {
            let told = differences(socket, "scheduler", text);
            let mut state = STATE.lock();
            match told {
                Ok(name) => {
                    if name.ends_with(".error") {
                        state.unrefused.get_mut(&link).and_then(VecDeque::pop_front);
                    }
                    state.seen.insert(name);
                }
                Err(wrong) => state.wrong.push(wrong),
            }
        }
        What::SaidBytes(bytes) => {
            if let Some(frame) = frame(socket, peer, bytes) {
                STATE.lock().seen.insert(frame);
            }
        }
        What::ToldBytes(bytes) => {
            let frame = frame(socket, "scheduler", bytes);
            let mut state = STATE.lock();
            match frame {
                Some(frame) => _ = state.seen.insert(frame),
                None => state.wrong.push(format!("a frame that begins with {:?}", bytes.first())),
            }
        }
        What::Ended(closed) => {
            let unrefused = STATE.lock().unrefused.remove(&link).unwrap_or_default();
            if closed.is_none() {
                STATE.lock().wrong.extend(unrefused);
            }
        }
    }
}

/// The name under which a message is described, if it is as described.
fn differences(socket: &str, sender: &str, text: &str) -> Result<String, String> {
    let message: Value =
        serde_json::from_str(text).map_err(|error| format!("{sender}: {error}: {text}"))?;
    let kind = match message["type"].as_str().unwrap_or_default() {
        "register" => "node_register",
        "heartbeat" => "node_heartbeat",
        kind => kind,
    };
    let name = format!("{socket}.{sender}.{kind}");
    let described = &DESCRIPTION["components"]["messages"][&name]["payload"];
    if described.is_null() {
        return Err(format!("{name}: there is no such message"));
    }
    let wrong = match sender {
        "scheduler" => schema::differences(&DESCRIPTION, described, &message),
        _ => schema::differences_but_more(&DESCRIPTION, described, &message),
    };
    match wrong.is_empty() {
        true => Ok(name),
        false => Err(format!("{name}: {wrong:?}")),
    }
}

/// The name under which a binary frame is described, by its first byte.
fn frame(socket: &str, sender: &str, bytes: &[u8]) -> Option<String> {
    let first = format!("{:#04x}", bytes.first()?);
    let messages = DESCRIPTION["components"]["messages"].as_object().unwrap();
    let is_it = |name: &str, message: &Value| {
        name.starts_with(&format!("{socket}.{sender}.")) && message["x-frame"][0]["what"] == first
    };
    messages.iter().find(|(name, message)| is_it(name, message)).map(|(name, _)| name.clone())
}
