//! Traces: what became of one utterance, step by step, for an operator's collector.
//!
//! Off unless [`Engine::trace`](crate::Engine::trace) turned it on; then each traced conversation and
//! each traced job holds [`Live`] spans, and whoever asked for them reads [`Span`]s that are over.
//! Every utterance is a trace of its own: conversations last for hours, and a node must not see by a
//! trace's id who spoke before.
//!
//! A span holds names, numbers and codes. Speech, text and tokens never get here.

mod context;

pub use context::Context;

use std::num::{NonZeroU64, NonZeroU128};
use std::sync::Arc;

use lingua_core::SessionKey;
use lingua_store::Clock;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::metrics::Metrics;
use crate::secret::Secret;

/// Spans that wait for their reader. Beyond it they are dropped and counted: a collector that is away
/// must cost neither memory nor a job.
const MOST_WAITING: usize = 8_192;

/// A span that is over.
#[derive(Clone, Debug)]
pub struct Span {
    /// Which span of which trace.
    pub context: Context,
    /// The span that it is a part of.
    pub parent: Option<NonZeroU64>,
    /// A span of another trace that belongs to it.
    pub link: Option<Context>,
    /// What it is: `session`, `utterance`, `job`, `attempt`, `place`, `wait`, `reserve`, `ack` or
    /// `execute`.
    pub name: &'static str,
    /// Who is on its other end.
    pub kind: Kind,
    /// Epoch nanoseconds.
    pub start_ns: u64,
    /// Epoch nanoseconds.
    pub end_ns: u64,
    /// What is known of it, under the names that logs use.
    pub attributes: Vec<(&'static str, Value)>,
    /// It is about a failure.
    pub failed: bool,
}

/// Who is on the other end of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nobody: a step within the scheduler.
    Internal,
    /// A client asked for it.
    Server,
    /// A node is asked.
    Client,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// An id or a code.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

/// Makes spans, and knows which conversations are traced.
pub(crate) struct Tracer {
    /// A session whose number is below it is traced.
    threshold: u64,
    sink: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
    chance: Chance,
    /// One moment on both clocks.
    anchor: (Instant, u64),
}

impl Tracer {
    /// One that traces this share of all conversations, and where its spans come out.
    pub fn new(
        share: f64,
        metrics: Arc<Metrics>,
        clock: &Clock,
        chance: Chance,
    ) -> (Self, mpsc::Receiver<Span>) {
        let (sink, spans) = mpsc::channel(MOST_WAITING);
        let anchor = (Instant::now(), clock.now().as_millis().saturating_mul(1_000_000));
        // Beyond the ends the conversion stays at the ends.
        let threshold = (share * u64::MAX as f64) as u64;
        (Tracer { threshold, sink, metrics, chance, anchor }, spans)
    }

    /// Whether a conversation is traced whose client does not say: the same on every instance.
    pub fn chooses(&self, session: &SessionKey, secret: &Secret) -> bool {
        match self.threshold {
            0 => false,
            u64::MAX => true,
            threshold => secret.lot(session) < threshold,
        }
    }

    /// Begins a trace, or goes on with a caller's.
    pub fn begin(
        self: &Arc<Self>,
        name: &'static str,
        kind: Kind,
        caller: Option<Context>,
    ) -> Live {
        let trace = caller.map_or_else(|| self.fresh_trace(), |caller| caller.trace);
        self.live(name, kind, trace, caller.map(|caller| caller.span), Instant::now())
    }

    fn live(
        self: &Arc<Self>,
        name: &'static str,
        kind: Kind,
        trace: NonZeroU128,
        parent: Option<NonZeroU64>,
        began: Instant,
    ) -> Live {
        let span = NonZeroU64::new(self.chance.bits()).unwrap_or(NonZeroU64::MIN);
        let span = Span {
            context: Context { trace, span, sampled: true },
            parent,
            link: None,
            name,
            kind,
            start_ns: self.nanos(began),
            end_ns: 0,
            attributes: Vec::new(),
            failed: false,
        };
        Live { tracer: Arc::clone(self), span: Some(span) }
    }

    fn fresh_trace(&self) -> NonZeroU128 {
        NonZeroU128::new(self.chance.nonce()).unwrap_or(NonZeroU128::MIN)
    }

    fn nanos(&self, at: Instant) -> u64 {
        let (then, date) = self.anchor;
        let since = u64::try_from(at.saturating_duration_since(then).as_nanos());
        date.saturating_add(since.unwrap_or(u64::MAX))
    }
}

/// A span that is not over. Letting it go ends it.
#[must_use]
pub(crate) struct Live {
    tracer: Arc<Tracer>,
    /// Taken when it ends.
    span: Option<Span>,
}

impl Live {
    fn span(&mut self) -> &mut Span {
        self.span.as_mut().expect("it ends only when it is let go")
    }

    /// Its name in other processes.
    pub fn context(&self) -> Context {
        self.span.as_ref().expect("it ends only when it is let go").context
    }

    /// A step of it, from now on.
    pub fn child(&self, name: &'static str, kind: Kind) -> Live {
        let Context { trace, span, .. } = self.context();
        self.tracer.live(name, kind, trace, Some(span), Instant::now())
    }

    /// Something known of it.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.span().attributes.push((name, value.into()));
    }

    /// A span of another trace that it belongs to.
    pub fn link(&mut self, to: Context) {
        self.span().link = Some(to);
    }

    /// How it ends: `ok`, or a code.
    pub fn ends(&mut self, reason: &str) {
        self.span().failed = !GOOD_ENDS.contains(&reason);
        self.note("reason", reason);
    }

    /// There was nothing worth telling after all.
    pub fn discard(mut self) {
        self.span = None;
    }
}

/// Ends that nobody has to look into.
const GOOD_ENDS: [&str; 10] = [
    "ok",
    "empty",
    "cancelled",
    "JOB_CANCELLED",
    "silence_detected",
    "other_copy_won",
    "closed",
    "gone",
    "draining",
    "superseded",
];

impl Drop for Live {
    fn drop(&mut self) {
        let Some(mut span) = self.span.take() else { return };
        span.end_ns = self.tracer.nanos(Instant::now()).max(span.start_ns);
        if self.tracer.sink.try_send(span).is_err() {
            self.tracer.metrics.spans("dropped", 1);
        }
    }
}

#[cfg(test)]
mod tests;
