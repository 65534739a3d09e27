//! Holds all that simulated clients and nodes say and hear in this process against the description
//! of the sockets.
//!
//! What the scheduler says must be as described, and have no field that is not. What others say and
//! is not as described must be refused: with an `error` or a close. A test that is about such
//! messages need not say so. Of a kind that a process has heard hundreds of times only some are looked
//! at from then on: tests of many thousand jobs are about something else.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::LazyLock;

use lingua_lab::overheard::{self, Overheard, What};
use parking_lot::Mutex;
use serde_json::Value;

use super::schema;

static DESCRIPTION: LazyLock<Value> = LazyLock::new(lingua_server::asyncapi);
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// So many of a kind are all looked at; after that one of [`ONE_OF`].
const ALL_OF_FIRST: u32 = 500;
const ONE_OF: u32 = 64;

/// Closes that refuse what was said.
const REFUSALS: [u16; 4] = [1002, 1007, 1008, 1009];

#[derive(Default)]
struct State {
    /// By link: what was said that is not as described, and has not been refused yet.
    unrefused: HashMap<u64, VecDeque<String>>,
    /// How often each kind was heard.
    heard: HashMap<String, u32>,
    /// What is wrong for good.
    wrong: Vec<String>,
    /// By address: messages that were as described, as the description names them.
    seen: HashMap<String, BTreeSet<String>>,
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

/// The messages that were heard so far at this address.
pub fn seen(address: SocketAddr) -> BTreeSet<String> {
    STATE.lock().seen.get(&address.to_string()).cloned().unwrap_or_default()
}

/// What is wrong with a message of this sender on this socket.
pub fn wrong_with(socket: &str, sender: &str, text: &str) -> Option<String> {
    differences(socket, sender, text).err()
}

fn hear(overheard: &Overheard<'_>) {
    let (socket, peer) = match overheard.path {
        "/ws/session" => ("session", "client"),
        "/ws/node" => ("node", "node"),
        _ => return,
    };
    if is_usual(&overheard.what) || is_beside(&overheard.what) {
        return;
    }
    let link = overheard.link;
    let see = |state: &mut State, name| {
        state.seen.entry(overheard.address.to_owned()).or_default().insert(name);
    };
    match overheard.what {
        What::Said(text) => match differences(socket, peer, text) {
            Ok(name) => see(&mut STATE.lock(), name),
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
                    see(&mut state, name);
                }
                Err(wrong) => state.wrong.push(wrong),
            }
        }
        What::SaidBytes(bytes) => {
            if let Some(frame) = frame(socket, peer, bytes) {
                see(&mut STATE.lock(), frame);
            }
        }
        What::ToldBytes(bytes) => {
            let frame = frame(socket, "scheduler", bytes);
            let mut state = STATE.lock();
            match frame {
                Some(frame) => see(&mut state, frame),
                None => state.wrong.push(format!("a frame that begins with {:?}", bytes.first())),
            }
        }
        What::Ended(closed) => {
            let unrefused = STATE.lock().unrefused.remove(&link).unwrap_or_default();
            let refused = closed.and_then(|closed| closed.code);
            if !refused.is_some_and(|code| REFUSALS.contains(&code)) {
                STATE.lock().wrong.extend(unrefused);
            }
        }
    }
}

/// Whether it is of a kind that was looked at often enough. Refusals never are: they are waited for.
fn is_usual(what: &What<'_>) -> bool {
    let kind = match what {
        What::Said(text) | What::Told(text) => {
            // The first that is found may be of something within: that is a kind too.
            let behind = text.split_once("\"type\":\"").map_or("", |(_, behind)| behind);
            behind.split('"').next().unwrap_or_default().to_owned()
        }
        What::SaidBytes(bytes) | What::ToldBytes(bytes) => format!("{:?}", bytes.first()),
        What::Ended(_) => return false,
    };
    if kind == "error" || kind.is_empty() {
        return false;
    }
    let mut state = STATE.lock();
    let count = state.heard.entry(kind).or_default();
    *count += 1;
    *count > ALL_OF_FIRST && !count.is_multiple_of(ONE_OF)
}

/// Whether a client speaks of rooms and calls: nothing of that is described, and it is not refused.
fn is_beside(what: &What<'_>) -> bool {
    let What::Said(text) = what else { return false };
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let kind = message["type"].as_str().unwrap_or_default();
    kind.starts_with("room_") || kind.starts_with("webrtc_")
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
