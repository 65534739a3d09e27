//! A line that comes too often is held back.
//!
//! Each call_site in the code that logs may say [`BURST`] lines in [`WINDOW`]; the rest of the window is
//! counted, and told in one line when it is over. So a fault that strikes a thousand nodes in one
//! second costs ten lines and a number, not the disk. `debug` and `trace` are left alone: whoever
//! turns them on wants every line.
//!
//! Memory is bounded by the call_sites in the code that log.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use lingua_core::Moment;
use lingua_store::Clock;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, callsite};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one call_site in one window.
const BURST: u32 = 10;

/// From the first line of a call_site on.
const WINDOW: Duration = Duration::from_secs(10);

/// Of what lines about held ones are: nothing holds them back.
pub(super) const HELD_TARGET: &str = "lingua_log";

/// How often each call_site has logged lately.
pub(super) struct Repeats {
    clock: Clock,
    call_sites: Mutex<HashMap<callsite::Identifier, CallSite>>,
}

struct CallSite {
    metadata: &'static Metadata<'static>,
    began: Moment,
    said: u32,
    /// Held back in this window.
    held: u64,
    /// Held back in one before, and not told yet.
    owed: u64,
    /// What the first one of them said.
    message: String,
}

/// Lines that were held back.
#[derive(Debug, PartialEq, Eq)]
struct Suppressed {
    level: Level,
    target: &'static str,
    message: String,
    count: u64,
}

impl Repeats {
    pub fn new(clock: Clock) -> Self {
        Repeats { clock, call_sites: Mutex::default() }
    }

    /// Whether a line of this call_site is said now.
    fn lets(&self, metadata: &'static Metadata<'static>, message: impl FnOnce() -> String) -> bool {
        if *metadata.level() > Level::INFO || metadata.target() == HELD_TARGET {
            return true;
        }
        let now = self.clock.now();
        let mut call_sites = self.call_sites.lock();
        let call_site = call_sites.entry(metadata.callsite()).or_insert_with(|| CallSite {
            metadata,
            began: now,
            said: 0,
            held: 0,
            owed: 0,
            message: String::new(),
        });
        if now.since(call_site.began) >= WINDOW {
            call_site.owed += std::mem::take(&mut call_site.held);
            (call_site.began, call_site.said) = (now, 0);
        }
        if call_site.said < BURST {
            call_site.said += 1;
            return true;
        }
        if call_site.held == 0 && call_site.owed == 0 {
            call_site.message = message();
        }
        call_site.held += 1;
        false
    }

    /// What is to be told now: of windows that are over, or of all.
    fn due(&self, all: bool) -> Vec<Suppressed> {
        let now = self.clock.now();
        let mut due = Vec::new();
        for call_site in self.call_sites.lock().values_mut() {
            if all || now.since(call_site.began) >= WINDOW {
                call_site.owed += std::mem::take(&mut call_site.held);
            }
            if call_site.owed > 0 {
                due.push(Suppressed {
                    level: *call_site.metadata.level(),
                    target: call_site.metadata.target(),
                    message: call_site.message.clone(),
                    count: std::mem::take(&mut call_site.owed),
                });
            }
        }
        due
    }

    /// Tells of windows that are over.
    pub fn tell_due(&self) {
        tell(self.due(false));
    }

    /// Tells of everything that is held back.
    pub fn tell_all(&self) {
        tell(self.due(true));
    }
}

/// Not from within a filter: a line about lines is a line of its own.
fn tell(due: Vec<Suppressed>) {
    let seconds = WINDOW.as_secs();
    for Suppressed { level, target, message, count } in due {
        macro_rules! say {
            ($level:expr) => {
                tracing::event!(
                    target: HELD_TARGET, $level, held = count, of = message, from = target,
                    "… and {count} more of these in {seconds} s"
                )
            };
        }
        match level {
            Level::ERROR => say!(Level::ERROR),
            Level::WARN => say!(Level::WARN),
            _ => say!(Level::INFO),
        }
    }
}

impl<S: Subscriber> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.lets(event.metadata(), || message_of(event))
    }
}

/// The fixed part of a line, without its fields.
fn message_of(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

#[cfg(test)]
mod tests;
