//! What comes from the scheduler: its events, and what it is asked for beside them.

use lingua_engine::snapshot::view::{Point, Stats};
use serde::Deserialize;

/// The largest event: a snapshot has at most a fraction of it.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Something was heard, or not.
#[derive(Debug)]
pub(crate) enum News {
    /// How everything stands.
    Stats(Box<Stats>),
    /// How it was before.
    History(Vec<Point>),
    /// The nodes, or why they could not be read.
    Nodes(Result<Nodes, String>),
    /// The sessions, or why they could not be read.
    Sessions(Result<Sessions, String>),
    /// The scheduler does not answer, and is asked again after so long.
    Away {
        /// The reason, for people.
        why: String,
        /// The pause.
        again_ms: u64,
    },
}

/// The last half an hour.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct History {
    pub(crate) points: Vec<Point>,
}

/// Nodes by name.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    pub(crate) total: u64,
}

/// A node, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) node_id: String,
    pub(crate) state: String,
    pub(crate) instance: String,
    pub(crate) order: String,
    pub(crate) breaker: String,
    pub(crate) slots: Slots,
    pub(crate) latency_ms: Option<f64>,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) abilities: Abilities,
    pub(crate) why_idle: Vec<String>,
}

/// Room for jobs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Slots {
    pub(crate) open: u64,
    pub(crate) used: u64,
}

/// What a node can do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Abilities {
    pub(crate) semantic_langs: Vec<String>,
    pub(crate) tts_langs: Vec<String>,
}

/// Sessions by name.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Sessions {
    pub(crate) sessions: Vec<Session>,
    pub(crate) total: u64,
    /// Instances that could not be asked.
    #[serde(default)]
    pub(crate) silent: Vec<String>,
}

/// A session, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Session {
    pub(crate) session_id: String,
    pub(crate) instance: String,
    pub(crate) direction: String,
    pub(crate) connected: bool,
    pub(crate) utterances: u64,
    pub(crate) since_ms: u64,
}

/// Takes a stream of server-sent events apart.
#[derive(Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
}

impl Events {
    /// The data of every event `stats` that is whole after these bytes. An error if one is larger
    /// than any can be.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut whole = Vec::new();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
                return Err("an event is larger than 8 MiB".to_owned());
            }
            if lines.peek().is_none() {
                break;
            }
            let mut line = std::mem::take(&mut self.line);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            whole.extend(self.end_of_line(&line));
        }
        Ok(whole)
    }

    fn end_of_line(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return (name == "stats" && !data.is_empty()).then_some(data);
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"retry: 2000\n\n: alive\n\nevent: stats\ndata: {\"a\":1}\n\nevent: other\n\
        data: no\n\nevent:stats\r\ndata: one\r\ndata:two\r\n\r\nevent: stats\ndata: cut";

    #[test]
    fn events_are_whole_however_they_arrive() {
        let wanted = [b"{\"a\":1}".to_vec(), b"one\ntwo".to_vec()];
        assert_eq!(Events::default().feed(STREAM).unwrap(), wanted);
        for size in [1, 2, 3, 7] {
            let mut events = Events::default();
            let found = STREAM.chunks(size).flat_map(|part| events.feed(part).unwrap());
            assert_eq!(found.collect::<Vec<_>>(), wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let fed = (0..9).map(|_| events.feed(&piece)).collect::<Result<Vec<_>, _>>();
        assert!(fed.is_err());
    }
}
