//! What happens in a world, as it happens: the journals that are judged, and a trace of everything.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lingua_lab::speech::Digest;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Lines of a trace that are kept, for who wants to read them.
const MAX_LINES: usize = 400_000;

/// The journals and the trace of one world.
pub(crate) struct Record {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    story: Vec<Value>,
    nodes: Vec<Vec<Value>>,
    speakers: Vec<Vec<Value>>,
    calls: BTreeMap<&'static str, u64>,
    /// Of every line of the trace.
    digest: Digest,
    /// The lines themselves, if they are wanted.
    lines: Option<Vec<String>>,
    line: String,
}

/// Whose journal a line is in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    World,
    Node(usize),
    Speaker(usize),
}

/// All that was written down.
pub(crate) struct Written {
    pub story: Vec<Value>,
    pub nodes: Vec<Vec<Value>>,
    pub speakers: Vec<Vec<Value>>,
    pub calls: BTreeMap<&'static str, u64>,
    pub digest: Digest,
    pub lines: Vec<String>,
}

impl Record {
    /// Begins now. With `keep` the lines of the trace are kept.
    pub fn new(nodes: usize, speakers: usize, keep: bool) -> Self {
        let state = State {
            nodes: vec![Vec::new(); nodes],
            speakers: vec![Vec::new(); speakers],
            lines: keep.then(Vec::new),
            ..State::default()
        };
        Record { began: Instant::now(), state: Mutex::new(state) }
    }

    /// Microseconds of virtual time since the beginning.
    pub fn at_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// A line of the trace alone.
    pub fn trace(&self, who: std::fmt::Arguments<'_>, what: std::fmt::Arguments<'_>) {
        let at = self.at_us();
        let mut state = self.state.lock();
        let State { digest, lines, line, .. } = &mut *state;
        line.clear();
        // Writing into a string cannot fail.
        let _ = writeln!(line, "{:>9.3} {who} {what}", at as f64 / 1e6);
        digest.add(line.as_bytes());
        if let Some(lines) = lines.as_mut().filter(|lines| lines.len() < MAX_LINES) {
            lines.push(line.trim_end().to_owned());
        }
    }

    /// A call of the store.
    pub fn call(&self, call: &'static str) {
        *self.state.lock().calls.entry(call).or_default() += 1;
    }

    /// A line of a journal, and of the trace.
    pub fn write(&self, whose: Whose, event: &str, fields: Value) {
        let mut line = json!({ "at_us": self.at_us(), "event": event });
        self.trace(format_args!("{whose:?}"), format_args!("{event} {fields}"));
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        let mut state = self.state.lock();
        match whose {
            Whose::World => state.story.push(line),
            Whose::Node(number) => state.nodes[number].push(line),
            Whose::Speaker(number) => state.speakers[number].push(line),
        }
    }

    /// Everything so far; nothing is left.
    pub fn take(&self) -> Written {
        let State { story, nodes, speakers, calls, digest, lines, .. } =
            std::mem::take(&mut *self.state.lock());
        Written { story, nodes, speakers, calls, digest, lines: lines.unwrap_or_default() }
    }
}
