//! What is measured while simulated speakers speak.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::monotonic_us;
use crate::speaker::{Answered, Happening};

mod latency;

pub use latency::Percentiles;
use latency::{Latencies, histogram};

/// Seconds that are remembered one by one; the oldest go first.
const MAX_SECONDS: usize = 2 * 3_600;

/// What [`Meter::recent`] looks back on.
const WINDOW: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Sentences within it that are remembered; more than a machine does.
const MAX_RECENT: usize = 50_000;

/// Shared by all speakers; others look at it now and then. Clones are the same meter.
#[derive(Debug, Clone)]
pub struct Meter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    began_us: u64,
    /// What was said between these counts for the totals: all have begun, and none was told to stop.
    steady_us: (u64, u64),
    totals: Latencies,
    /// Endings of any kind since [`Meter::take`] was called last.
    taken: Histogram<u64>,
    /// From asking for a session to having it.
    opening: Histogram<u64>,
    /// How late speakers were with their own pieces.
    late: Histogram<u64>,
    counts: Counts,
    last_error: Option<String>,
    now: Second,
    seconds: VecDeque<Point>,
    /// When the first sentence or other job came back.
    first_us: Option<u64>,
    /// When sentences and other jobs came back, and how long sentences took.
    recent: VecDeque<(u64, Option<u64>)>,
    endings: VecDeque<Ending>,
    max_endings: usize,
}

/// What was counted so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions that were opened.
    pub opened: u64,
    /// Sentences that came back.
    pub answered: u64,
    /// Sentences that ended without a result.
    pub missing: u64,
    /// Connections that broke.
    pub reconnects: u64,
    /// Times that speakers were asked to hold on.
    pub backpressure: u64,
    /// `error` messages.
    pub errors: u64,
    /// Jobs that came back to others than speakers.
    pub other_jobs: u64,
    /// Endings by kind: `result`, or the reason of a `missing_result`.
    pub endings: BTreeMap<String, u64>,
}

/// How one sentence ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// When it was said to its end, on [`crate::monotonic_us`].
    pub said_us: u64,
    /// When its ending came.
    pub ended_us: u64,
    /// Why it has no result; `None` if it has one.
    pub missing: Option<String>,
}

#[derive(Debug)]
struct Second {
    number: u64,
    latencies: Latencies,
}

/// One second of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Which one.
    pub second: u64,
    /// Sentences that came back in it.
    pub utterances: u64,
    /// Sessions that were opened until then.
    pub sessions: u64,
    /// From the final of a sentence to its job on a node's socket.
    pub to_node_ms: Percentiles,
    /// From the node's result to the speaker who has it.
    pub to_speaker_ms: Percentiles,
    /// From the final to the ending.
    pub whole_ms: Percentiles,
}

/// The last seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recent {
    /// Sentences and other jobs that came back in a second.
    pub per_second: f64,
    /// From the final of a sentence to its ending; `None` while none ended.
    pub p50: Option<Duration>,
    /// The same.
    pub p99: Option<Duration>,
}

/// Everything, at the end.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From the final of a sentence to its job on a node's socket.
    pub to_node: Percentiles,
    /// From the node's result to the speaker who has it.
    pub to_speaker: Percentiles,
    /// From the final to the ending.
    pub whole: Percentiles,
    /// From asking for a session to having it.
    pub opening: Percentiles,
    /// How late speakers were with their own pieces.
    pub late: Percentiles,
    /// Sentences in the steady time.
    pub steady_utterances: u64,
    /// What was counted.
    pub counts: Counts,
    /// The last `error` message.
    pub last_error: Option<String>,
    /// Second by second.
    pub seconds: Vec<Point>,
}

impl Default for Meter {
    fn default() -> Self {
        Self::start(Duration::ZERO)
    }
}

impl Meter {
    /// Begins now; what is said within `ramp` is no part of the steady time.
    pub fn start(ramp: Duration) -> Self {
        let began_us = monotonic_us();
        Self(Arc::new(Mutex::new(State {
            began_us,
            steady_us: (began_us + ramp.as_micros() as u64, u64::MAX),
            totals: Latencies::new(3),
            taken: histogram(3),
            opening: histogram(3),
            late: histogram(2),
            counts: Counts::default(),
            last_error: None,
            now: Second { number: 0, latencies: Latencies::new(2) },
            seconds: VecDeque::new(),
            first_us: None,
            recent: VecDeque::new(),
            endings: VecDeque::new(),
            max_endings: 0,
        })))
    }

    /// Remembers the last endings one by one, so many of them.
    pub fn keeping_endings(self, most: usize) -> Self {
        self.state().max_endings = most;
        self
    }

    /// What to tell of one speaker's happenings.
    pub fn watcher(&self) -> impl FnMut(u64, Happening<'_>) + Send + 'static {
        let meter = self.clone();
        // An ending is told first, and then the message that says why.
        let mut ending: Option<Answered> = None;
        move |at_us, happening| {
            if let Happening::Answered(answered) = &happening {
                ending = Some(*answered);
            }
            meter.note(at_us, &happening, &mut ending);
        }
    }

    /// A session was opened.
    pub fn opened(&self, took_us: u64) {
        let mut state = self.state();
        state.counts.opened += 1;
        state.opening.saturating_record(took_us);
    }

    /// A job of somebody who does not speak came back.
    pub fn other_job(&self) {
        let mut state = self.state();
        state.counts.other_jobs += 1;
        state.came_back(monotonic_us(), None);
    }

    /// The speakers are told to stop: from now on they are not all speaking.
    pub fn stop(&self) {
        self.state().steady_us.1 = monotonic_us();
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// The last endings, oldest first, as many as [`Meter::keeping_endings`] says.
    pub fn endings(&self) -> Vec<Ending> {
        self.state().endings.iter().cloned().collect()
    }

    /// The last second that is over and in which anything came back; before that, the present one.
    pub fn last_second(&self) -> Point {
        let state = self.state();
        state.seconds.back().cloned().unwrap_or_else(|| state.point())
    }

    /// How it goes now.
    pub fn recent(&self) -> Recent {
        let mut state = self.state();
        let now = monotonic_us();
        state.forget_before(now.saturating_sub(WINDOW.as_micros() as u64));
        // In the beginning there is less to look back on.
        let first = state.first_us.unwrap_or(now);
        let seconds = Duration::from_micros(now.saturating_sub(first)).clamp(SECOND, WINDOW);
        let mut took: Vec<u64> = state.recent.iter().filter_map(|(_, took)| *took).collect();
        took.sort_unstable();
        let at = |share: f64| {
            let last = took.len().checked_sub(1)?;
            Some(Duration::from_micros(took[(last as f64 * share).round() as usize]))
        };
        let per_second = state.recent.len() as f64 / seconds.as_secs_f64();
        Recent { per_second, p50: at(0.5), p99: at(0.99) }
    }

    /// From the final to the ending, of whatever ended since this was called last.
    pub fn take(&self) -> Percentiles {
        let mut state = self.state();
        let taken = Percentiles::of(&state.taken);
        state.taken.reset();
        taken
    }

    /// Everything that was measured.
    pub fn measured(&self) -> Measured {
        let mut state = self.state();
        state.turn_to(u64::MAX);
        Measured {
            to_node: Percentiles::of(&state.totals.to_node),
            to_speaker: Percentiles::of(&state.totals.to_speaker),
            whole: Percentiles::of(&state.totals.whole),
            opening: Percentiles::of(&state.opening),
            late: Percentiles::of(&state.late),
            steady_utterances: state.totals.whole.len(),
            counts: state.counts.clone(),
            last_error: state.last_error.clone(),
            seconds: state.seconds.iter().cloned().collect(),
        }
    }

    fn note(&self, at_us: u64, happening: &Happening<'_>, ending: &mut Option<Answered>) {
        match happening {
            Happening::Answered(answered) => self.state().answered(at_us, answered),
            Happening::Late(us) => self.state().late.saturating_record(*us),
            Happening::Lost(_) => self.state().counts.reconnects += 1,
            Happening::Message(message) => {
                let mut state = self.state();
                let missing = match message["type"].as_str() {
                    Some("translation_result") => None,
                    Some("missing_result") => Some(message["reason"].as_str().unwrap_or("missing")),
                    Some("backpressure") => return state.counts.backpressure += 1,
                    Some("error") => {
                        state.counts.errors += 1;
                        state.last_error = Some(message.to_string());
                        return;
                    }
                    _ => return,
                };
                let kind = missing.unwrap_or("result").to_owned();
                *state.counts.endings.entry(kind).or_default() += 1;
                if let Some(Answered { said_us, answered_us, .. }) = ending.take() {
                    let missing = missing.map(str::to_owned);
                    state.ended(Ending { said_us, ended_us: answered_us, missing });
                }
            }
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answered(&mut self, at_us: u64, answered: &Answered) {
        self.turn_to(at_us.saturating_sub(self.began_us) / 1_000_000);
        let took = answered.answered_us.saturating_sub(answered.said_us);
        self.taken.saturating_record(took);
        if answered.echo.is_none() {
            self.counts.missing += 1;
            return;
        }
        self.counts.answered += 1;
        self.came_back(at_us, Some(took));
        self.now.latencies.record(answered);
        let (from, to) = self.steady_us;
        if (from..to).contains(&answered.said_us) {
            self.totals.record(answered);
        }
    }

    fn ended(&mut self, ending: Ending) {
        if self.max_endings > 0 {
            while self.endings.len() >= self.max_endings {
                self.endings.pop_front();
            }
            self.endings.push_back(ending);
        }
    }

    fn came_back(&mut self, at_us: u64, took_us: Option<u64>) {
        self.first_us.get_or_insert(at_us);
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((at_us, took_us));
    }

    fn forget_before(&mut self, us: u64) {
        while self.recent.front().is_some_and(|(at, _)| *at < us) {
            self.recent.pop_front();
        }
    }

    /// Closes the second that was, if it is over.
    fn turn_to(&mut self, number: u64) {
        if number <= self.now.number {
            return;
        }
        if !self.now.latencies.whole.is_empty() {
            let point = self.point();
            if self.seconds.len() == MAX_SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back(point);
        }
        self.now.latencies.clear();
        self.now.number = number;
    }

    fn point(&self) -> Point {
        let latencies = &self.now.latencies;
        Point {
            second: self.now.number,
            utterances: latencies.whole.len(),
            sessions: self.counts.opened,
            to_node_ms: Percentiles::of(&latencies.to_node),
            to_speaker_ms: Percentiles::of(&latencies.to_speaker),
            whole_ms: Percentiles::of(&latencies.whole),
        }
    }
}

#[cfg(test)]
mod tests;
