//! Who did what, for those who have to know later: lines that are only ever added, each bound to the
//! one before it by a hash.
//!
//! - `line`: one line, and its hash. `ledger`: the file, over restarts and rotations.
//! - `writer`: the thread that writes. `recent`: what was told a moment ago.
//! - `check`: `lingua audit check`.
//!
//! Names stand there and never what was said, and never a token. Nobody waits for it: what does not
//! fit into the line before the writer, or onto the disk, is counted, and the next line says how many
//! are missing.

mod check;
mod ledger;
mod line;
mod recent;
mod writer;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Method;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use parking_lot::Mutex;

pub(crate) use check::run;
use ledger::Ledger;
use line::{Event, Who};
use recent::Recent;
use writer::Writer;

use crate::identity::{Caller, DismissalLog};
use crate::listener::Peer;

/// How often the use of one token by HTTP is told.
const USES_MS: u64 = 3_600_000;

/// How often one address is told of that is refused again for the same reason.
const REFUSALS_MS: u64 = 60_000;

/// Characters of what an event is about.
const MAX_ABOUT: usize = 160;

/// Where events go; nowhere if no file is named.
#[derive(Default)]
pub(crate) struct Audit {
    sink: Option<Sink>,
}

struct Sink {
    engine: Engine,
    writer: Writer,
    uses: Mutex<Recent>,
    refusals: Mutex<Recent>,
}

impl Audit {
    /// Opens the file and goes on where it ended.
    pub(crate) fn start(file: &Path, engine: &Engine) -> Result<Self, String> {
        let instance = engine.instance().id.to_string();
        let ledger = Ledger::open(file, instance, engine.now_ms());
        let ledger = ledger.map_err(|why| format!("audit.file: {}: {why}", file.display()))?;
        let sink = Sink {
            engine: engine.clone(),
            writer: Writer::start(ledger, engine.clone()),
            uses: Mutex::default(),
            refusals: Mutex::default(),
        };
        Ok(Audit { sink: Some(sink) })
    }

    /// Whether anything is written at all.
    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// The process itself did something.
    pub(crate) fn process(&self, what: &'static str, about: &str, outcome: &str) {
        self.tell(Who::process(), what, Some(about), outcome, 0);
    }

    /// Somebody showed a good token with a call. Told once in a while for each token.
    pub(crate) fn used(&self, caller: &Caller, call: Option<&Call>) {
        let (Some(sink), Caller::Known(known)) = (&self.sink, caller) else { return };
        if sink.uses.lock().first(&known.jti, sink.engine.now_ms(), USES_MS).is_some() {
            let who = Who::of(caller, call.and_then(|call| call.address));
            self.tell(who, "token.use", call.map(Call::words).as_deref(), "ok", 0);
        }
    }

    /// A socket was let in or refused.
    pub(crate) fn socket(&self, caller: &Caller, from: IpAddr, kind: &str, outcome: Outcome<'_>) {
        match outcome {
            Ok(()) => self.tell(Who::of(caller, Some(from)), "socket.open", Some(kind), "ok", 0),
            Err(refusal) => {
                self.refuse(Who::of(caller, Some(from)), "socket.open", kind, reason(refusal));
            }
        }
    }

    /// A call was refused for want of the right token.
    pub(crate) fn refused(&self, caller: &Caller, call: Option<&Call>, reason: &'static str) {
        let Some(call) = call else { return };
        self.refuse(Who::of(caller, call.address), "call", &call.words(), reason);
    }

    /// The file may have been moved away: the next line goes into a new one.
    pub(crate) fn reopen(&self) {
        if let Some(sink) = &self.sink {
            sink.writer.reopen();
        }
    }

    /// Waits until everything is written, for a moment.
    pub(crate) fn end(&self) {
        if let Some(sink) = &self.sink {
            sink.writer.end();
        }
    }

    fn refuse(&self, who: Who, what: &'static str, about: &str, reason: &'static str) {
        let Some(sink) = &self.sink else { return };
        let key = format!("{:?} {:?} {reason}", who.address, who.jti);
        let again = sink.refusals.lock().first(&key, sink.engine.now_ms(), REFUSALS_MS);
        if let Some(again) = again {
            self.tell(who, what, Some(about), &format!("refused.{reason}"), again);
        }
    }

    fn tell(&self, who: Who, what: &'static str, about: Option<&str>, outcome: &str, again: u64) {
        let Some(sink) = &self.sink else { return };
        sink.writer.tell(Event {
            at_ms: sink.engine.now_ms(),
            who,
            what,
            about: about.map(|about| about.chars().take(MAX_ABOUT).collect()),
            outcome: outcome.to_owned(),
            again,
        });
    }
}

/// How letting somebody in ended.
pub(crate) type Outcome<'a> = Result<(), &'a Refusal>;

/// Which call it is, by its route: what callers put into it stays out.
pub(crate) struct Call {
    method: Method,
    path: &'static str,
    address: Option<IpAddr>,
}

impl Call {
    pub(crate) fn of(request: &Request, path: &'static str) -> Self {
        Call {
            method: request.method().clone(),
            path,
            address: request.extensions().get::<Peer>().map(|peer| peer.address),
        }
    }

    fn words(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl DismissalLog for Audit {
    fn dismissed(&self, caller: &Caller, from: IpAddr, role: &str, why: &Refusal) {
        self.refuse(Who::of(caller, Some(from)), "socket.end", role, reason(why));
    }
}

/// Somebody who gives orders.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) audit: Arc<Audit>,
    pub(crate) caller: Caller,
    pub(crate) address: Option<IpAddr>,
}

impl Actor {
    /// Tells what they did, and how it ended.
    pub(crate) fn did(&self, what: &'static str, about: &str, ended: Result<(), Code>) {
        let outcome = ended.err().map_or("ok", Code::as_str);
        let who = Who::of(&self.caller, self.address);
        self.audit.tell(who, what, Some(about), outcome, 0);
    }
}

/// Why somebody is not let in, in a word. Sentences may change and quote.
pub(crate) fn reason(refusal: &Refusal) -> &'static str {
    match (refusal.reason, refusal.code) {
        (Some(reason), _) => reason,
        (None, Code::Unauthorized) => "unauthorized",
        // Another node, another tenant, or blocked.
        (None, _) => "not_theirs",
    }
}

#[cfg(test)]
mod tests;
