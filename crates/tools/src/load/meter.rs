//! What is measured while the speakers speak.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::HumanCount;
use lingua_lab::monotonic_us;
use lingua_lab::speaker::{Answered, Happening};
use parking_lot::Mutex;
use serde::Serialize;

/// An hour, in microseconds: nothing takes longer here.
const LONGEST_US: u64 = 3_600_000_000;

/// Shared by all speakers, which live on one thread; others look at it now and then.
#[derive(Clone)]
pub(super) struct Meter(Arc<Mutex<State>>);

struct State {
    began_us: u64,
    /// What was said between these counts for the totals: all have begun, and none was told to stop.
    steady_us: (u64, u64),
    totals: Latencies,
    /// From asking for a session to having it.
    opening: Histogram<u64>,
    /// How late speakers were with their own pieces.
    late: Histogram<u64>,
    answered: u64,
    missing: u64,
    opened: u64,
    reconnects: u64,
    backpressure: u64,
    errors: u64,
    last_error: Option<String>,
    now: Second,
    seconds: Vec<Point>,
}

/// The three latencies.
#[derive(Clone)]
pub(super) struct Latencies {
    /// From the final of a sentence to its job on a node's socket.
    pub to_node: Histogram<u64>,
    /// From the node's result to the speaker who has it.
    pub to_speaker: Histogram<u64>,
    /// From the final to the ending, with the node's own time.
    pub whole: Histogram<u64>,
}

struct Second {
    number: u64,
    latencies: Latencies,
}

/// One second of the run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Point {
    pub second: u64,
    pub utterances: u64,
    pub sessions: u64,
    pub to_node_ms: Percentiles,
    pub to_speaker_ms: Percentiles,
    pub whole_ms: Percentiles,
}

/// Percentiles of a time in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// What is told of it at the end.
pub(super) struct Measured {
    pub to_node: Percentiles,
    pub to_speaker: Percentiles,
    pub whole: Percentiles,
    pub opening: Percentiles,
    pub late: Percentiles,
    pub steady_utterances: u64,
    pub reconnects: u64,
    pub backpressure: u64,
    pub errors: u64,
    pub last_error: Option<String>,
    pub seconds: Vec<Point>,
}

impl Meter {
    pub fn start(ramp: Duration) -> Self {
        let began_us = monotonic_us();
        Self(Arc::new(Mutex::new(State {
            began_us,
            steady_us: (began_us + ramp.as_micros() as u64, u64::MAX),
            totals: Latencies::new(3),
            opening: histogram(3),
            late: histogram(2),
            answered: 0,
            missing: 0,
            opened: 0,
            reconnects: 0,
            backpressure: 0,
            errors: 0,
            last_error: None,
            now: Second { number: 0, latencies: Latencies::new(2) },
            seconds: Vec::new(),
        })))
    }

    pub fn opened(&self, took_us: u64) {
        let mut state = self.0.lock();
        state.opened += 1;
        state.opening.saturating_record(took_us);
    }

    pub fn note(&self, at_us: u64, happening: &Happening<'_>) {
        match happening {
            Happening::Answered(answered) => self.0.lock().answered(at_us, answered),
            Happening::Late(us) => self.0.lock().late.saturating_record(*us),
            Happening::Lost(_) => self.0.lock().reconnects += 1,
            Happening::Message(message) => match message["type"].as_str() {
                Some("backpressure") => self.0.lock().backpressure += 1,
                Some("error") => {
                    let mut state = self.0.lock();
                    state.errors += 1;
                    state.last_error = Some(message.to_string());
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// The speakers are told to stop: from now on they are not all speaking.
    pub fn stop(&self) {
        self.0.lock().steady_us.1 = monotonic_us();
    }

    /// How it goes, in a line.
    pub fn line(&self) -> String {
        let state = self.0.lock();
        let p99 = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1_000.0;
        let last = state.seconds.last();
        let (to_node, to_speaker) = match last {
            Some(point) => (point.to_node_ms.p99, point.to_speaker_ms.p99),
            None => (p99(&state.now.latencies.to_node), p99(&state.now.latencies.to_speaker)),
        };
        format!(
            "{} sessions, {} sentences back, {} missing, p99 to the node {to_node:.1} ms, \
             to the speaker {to_speaker:.1} ms",
            HumanCount(state.opened),
            HumanCount(state.answered),
            HumanCount(state.missing),
        )
    }

    pub fn measured(&self) -> Measured {
        let mut state = self.0.lock();
        state.turn_to(u64::MAX);
        Measured {
            to_node: Percentiles::of(&state.totals.to_node),
            to_speaker: Percentiles::of(&state.totals.to_speaker),
            whole: Percentiles::of(&state.totals.whole),
            opening: Percentiles::of(&state.opening),
            late: Percentiles::of(&state.late),
            steady_utterances: state.totals.whole.len(),
            reconnects: state.reconnects,
            backpressure: state.backpressure,
            errors: state.errors,
            last_error: state.last_error.clone(),
            seconds: state.seconds.clone(),
        }
    }
}

impl State {
    fn answered(&mut self, at_us: u64, answered: &Answered) {
        self.turn_to(at_us.saturating_sub(self.began_us) / 1_000_000);
        if answered.echo.is_none() {
            self.missing += 1;
            return;
        }
        self.answered += 1;
        self.now.latencies.record(answered);
        let (from, to) = self.steady_us;
        if (from..to).contains(&answered.said_us) {
            self.totals.record(answered);
        }
    }

    /// Closes the second that was, if it is over.
    fn turn_to(&mut self, number: u64) {
        if number <= self.now.number {
            return;
        }
        let latencies = &mut self.now.latencies;
        if !latencies.whole.is_empty() {
            self.seconds.push(Point {
                second: self.now.number,
                utterances: latencies.whole.len(),
                sessions: self.opened,
                to_node_ms: Percentiles::of(&latencies.to_node),
                to_speaker_ms: Percentiles::of(&latencies.to_speaker),
                whole_ms: Percentiles::of(&latencies.whole),
            });
        }
        latencies.clear();
        self.now.number = number;
    }
}

impl Latencies {
    fn new(digits: u8) -> Self {
        Self { to_node: histogram(digits), to_speaker: histogram(digits), whole: histogram(digits) }
    }

    fn record(&mut self, answered: &Answered) {
        let &Answered { said_us, answered_us, echo, .. } = answered;
        self.whole.saturating_record(answered_us.saturating_sub(said_us));
        let Some(echo) = echo else { return };
        if let Some(assigned_us) = echo.assigned_us {
            self.to_node.saturating_record(assigned_us.saturating_sub(said_us));
        }
        if let Some(result_us) = echo.answered_us {
            self.to_speaker.saturating_record(answered_us.saturating_sub(result_us));
        }
    }

    fn clear(&mut self) {
        self.to_node.reset();
        self.to_speaker.reset();
        self.whole.reset();
    }
}

impl Percentiles {
    fn of(micros: &Histogram<u64>) -> Self {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1_000.0;
        match micros.len() {
            0 => Self::default(),
            count => {
                let max = micros.max() as f64 / 1_000.0;
                Self { count, p50: at(0.5), p90: at(0.9), p99: at(0.99), max }
            }
        }
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, digits).expect("the bounds are fixed")
}

#[cfg(test)]
mod tests {
    use lingua_lab::speech::{Digest, Echo};

    use super::*;

    #[test]
    fn each_way_is_measured_apart_and_only_the_steady_time_counts() {
        let meter = Meter::start(Duration::from_secs(1));
        let began = meter.0.lock().began_us;
        let sentence = |said_ms: u64| {
            let at = |ms: u64| began + (said_ms + ms) * 1_000;
            let digest = Digest::default();
            let echo =
                Echo { mark: None, digest, assigned_us: Some(at(2)), answered_us: Some(at(302)) };
            Answered { mark: None, said_us: at(0), answered_us: at(305), echo: Some(echo) }
        };
        for said_ms in [100, 1_200, 2_900] {
            let answered = sentence(said_ms);
            meter.note(answered.answered_us, &Happening::Answered(answered));
        }
        let missing = Answered { echo: None, ..sentence(2_950) };
        meter.note(missing.answered_us, &Happening::Answered(missing));
        meter.opened(7_000);
        meter.0.lock().steady_us.1 = began + 5_000_000;
        let too_late = sentence(5_000);
        meter.note(too_late.answered_us, &Happening::Answered(too_late));
        let measured = meter.measured();
        assert_eq!(measured.steady_utterances, 2);
        assert!((measured.to_node.p50 - 2.0).abs() < 0.01, "{:?}", measured.to_node);
        assert!((measured.to_speaker.max - 3.0).abs() < 0.01, "{:?}", measured.to_speaker);
        assert!((measured.whole.p99 - 305.0).abs() < 0.5, "{:?}", measured.whole);
        let seconds: Vec<_> = measured.seconds.iter().map(|p| (p.second, p.utterances)).collect();
        assert_eq!(seconds, [(0, 1), (1, 1), (3, 1), (5, 1)]);
    }
}
