//! Traces on their way to a collector: OTLP over HTTP, as JSON.
//!
//! Spans are gathered into batches, each is one `POST …/v1/traces`. A collector that is away, slow or
//! overloaded is asked again for a while; then its batch is dropped and counted. Nobody ever waits for
//! it: what comes meanwhile is kept in the engine's bounded line, and dropped there when that is full.
//!
//! - `endpoint`: where the collector is. `post`: one request. `words`: what is said in it.

mod endpoint;
mod post;
mod words;

pub use endpoint::Endpoint;

use std::time::Duration;

use bytes::Bytes;
use lingua_engine::Engine;
use lingua_engine::trace::Span;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use post::{Answer, Collector};

/// How long everything may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A batch that is not full leaves after so long.
    pub gather: Duration,
    /// For one request, from the connection to the last byte of the answer.
    pub request: Duration,
    /// The first pause before asking again; each is twice the one before.
    pub pause: Duration,
    /// Asking again ends so long after the first time.
    pub give_up: Duration,
    /// For what is left when the process ends.
    pub last: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            gather: Duration::from_secs(1),
            request: Duration::from_secs(5),
            pause: Duration::from_millis(500),
            give_up: Duration::from_secs(30),
            last: Duration::from_secs(2),
        }
    }
}

/// Spans of one request: about 300 KB of JSON, well below what collectors take.
const BATCH: usize = 512;

/// Brings an engine's spans to a collector.
pub struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Traces this share of all conversations of the engine. `None` if somebody does already.
    pub fn start(engine: &Engine, to: Endpoint, share: f64, pace: Pace) -> Option<Self> {
        let spans = engine.trace(share)?;
        let (stop, stopped) = oneshot::channel();
        let export = Export {
            collector: Collector::new(to),
            head: words::Head::of(engine.instance().id.as_str()),
            engine: engine.clone(),
            pace,
            well: true,
            not_before: Instant::now(),
        };
        Some(Exporter { stop, task: tokio::spawn(export.run(spans, stopped)) })
    }

    /// Brings what is left, for a short while.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

struct Export {
    collector: Collector,
    head: words::Head,
    engine: Engine,
    pace: Pace,
    /// The last request was answered.
    well: bool,
    /// The collector is left alone until then.
    not_before: Instant,
}

impl Export {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                // Nothing is lost if it is dropped: what was read so far is in the batch.
                () = gather(&mut spans, &mut batch, self.pace.gather) => {}
            }
            let body = self.head.body(&batch);
            let count = batch.len();
            let given_up = Instant::now() + self.pace.give_up;
            tokio::select! {
                _ = &mut stopped => break,
                () = self.bring(body, count, given_up) => batch.clear(),
            }
        }
        let end = Instant::now() + self.pace.last;
        loop {
            while batch.len() < BATCH
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let (body, count) = (self.head.body(&batch), batch.len());
            self.bring(body, count, end).await;
            batch.clear();
        }
    }

    /// Brings one batch, whatever becomes of it.
    async fn bring(&mut self, body: Bytes, count: usize, give_up: Instant) {
        let engine = self.engine.clone();
        let metrics = engine.metrics();
        let spans = count as u64;
        let mut pause = self.pace.pause;
        loop {
            if self.not_before >= give_up {
                metrics.spans("dropped", spans);
                return;
            }
            tokio::time::sleep_until(self.not_before).await;
            let limit = (Instant::now() + self.pace.request).min(give_up);
            let answer = timeout_at(limit, self.collector.post(body.clone())).await;
            let answer = answer.unwrap_or_else(|_| Answer::later("it does not answer in time"));
            let (why, after) = match answer {
                Answer::Taken { refused } => {
                    let refused = refused.min(spans);
                    if refused > 0 {
                        metrics.spans("refused", refused);
                    }
                    metrics.spans("exported", spans - refused);
                    self.note_well();
                    return;
                }
                Answer::Refused(why) => {
                    metrics.spans("refused", spans);
                    tracing::warn!(reason = why, spans, "the trace collector refused spans");
                    return;
                }
                Answer::Later { why, after } => (why, after),
            };
            self.note_away(&why);
            self.not_before = Instant::now() + after.unwrap_or_else(|| self.with_chance(pause));
            pause *= 2;
        }
    }

    /// Between a half and the whole of it, so that not all instances ask in one moment.
    fn with_chance(&self, pause: Duration) -> Duration {
        let half = pause / 2;
        let parts = u32::try_from(self.engine.chance().bits() >> 48).unwrap_or(0);
        half + half * parts / 65_536
    }

    fn note_well(&mut self) {
        if !std::mem::replace(&mut self.well, true) {
            tracing::info!(collector = %self.collector.at, "the trace collector answers again");
        }
    }

    fn note_away(&mut self, reason: &str) {
        if std::mem::replace(&mut self.well, false) {
            tracing::warn!(collector = %self.collector.at, reason, "the trace collector takes nothing");
        }
    }
}

/// Reads until the batch is full, or until `within` after its first span. Waits for ever for that.
async fn gather(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>, within: Duration) {
    if batch.is_empty() {
        match spans.recv().await {
            Some(span) => batch.push(span),
            // Nobody makes any more; the end is told otherwise.
            None => return std::future::pending().await,
        }
    }
    let full = Instant::now() + within;
    while batch.len() < BATCH {
        match timeout_at(full, spans.recv()).await {
            Ok(Some(span)) => batch.push(span),
            Ok(None) | Err(_) => return,
        }
    }
}
