//! What is seen of the speakers' sentences.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lingua_lab::monotonic_us;
use lingua_lab::speaker::{Happening, Report};
use parking_lot::Mutex;

/// What the status line looks back on.
const WINDOW: Duration = Duration::from_secs(10);

const SECOND: Duration = Duration::from_secs(1);

/// Sentences within it that are remembered; more than a machine does in a demonstration.
const MAX_REMEMBERED: usize = 50_000;

/// Shared by all speakers.
#[derive(Clone, Default)]
pub(super) struct Meter(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the first one came back.
    first_us: Option<u64>,
    /// When sentences and text jobs came back, and how long sentences took.
    recent: VecDeque<(u64, Option<u64>)>,
    /// By kind.
    endings: BTreeMap<String, u64>,
    /// Connections that broke.
    lost: u64,
    text_jobs: u64,
    /// Of the speakers that have left.
    report: Report,
    /// Sentences that went down with a session that its client could not come back to.
    unable: u64,
}

impl Meter {
    /// Something happened to a speaker.
    pub fn note(&self, at_us: u64, happening: &Happening<'_>) {
        match happening {
            Happening::Answered(answered) if answered.echo.is_some() => {
                let took = answered.answered_us.saturating_sub(answered.said_us);
                self.0.lock().came_back(at_us, Some(took));
            }
            Happening::Message(message) => {
                let kind = match message["type"].as_str() {
                    Some("translation_result") => "result",
                    Some("missing_result") => message["reason"].as_str().unwrap_or("missing"),
                    _ => return,
                };
                *self.0.lock().endings.entry(kind.to_owned()).or_default() += 1;
            }
            Happening::Lost(_) => self.0.lock().lost += 1,
            _ => {}
        }
    }

    /// A job that somebody handed in over HTTP is done.
    pub fn text_job(&self) {
        let mut state = self.0.lock();
        state.text_jobs += 1;
        state.came_back(monotonic_us(), None);
    }

    /// A speaker has left; so many of its sentences went down with a session that it could not come
    /// back to.
    pub fn left(&self, report: &Report, lost: u64) {
        let mut state = self.0.lock();
        state.report.add(report);
        state.unable += lost;
    }

    /// How it goes, in a line.
    pub fn line(&self, speakers: usize, (connected, nodes): (usize, usize)) -> String {
        let mut state = self.0.lock();
        let now = monotonic_us();
        state.forget_before(now.saturating_sub(WINDOW.as_micros() as u64));
        // In the beginning there is less to look back on.
        let first = state.first_us.unwrap_or(now);
        let seconds = Duration::from_micros(now.saturating_sub(first)).clamp(SECOND, WINDOW);
        let per_second = state.recent.len() as f64 / seconds.as_secs_f64();
        let mut took: Vec<u64> = state.recent.iter().filter_map(|(_, took)| *took).collect();
        took.sort_unstable();
        let at = |share: f64| match took.len() {
            0 => "-".to_owned(),
            count => {
                let us = took[((count - 1) as f64 * share).round() as usize];
                format!("{:.1} s", us as f64 / 1e6)
            }
        };
        format!(
            "{per_second:.1} jobs/s, p50 {}, p99 {}, {speakers} speakers, {connected}/{nodes} \
             nodes; {}",
            at(0.5),
            at(0.99),
            state.endings(),
        )
    }

    /// How it went, in a sentence or two.
    pub fn summary(&self) -> String {
        let state = self.0.lock();
        let Report { said, sessions, counts, .. } = &state.report;
        let wrong: Vec<String> =
            counts.iter().map(|(kind, count)| format!("{count} {}", kind.word())).collect();
        let wrong = match wrong.is_empty() {
            true => "nothing lost, doubled or out of order".to_owned(),
            false => wrong.join(", "),
        };
        let unable = match state.unable {
            0 => String::new(),
            count => format!("; {count} went down with old clients, which cannot come back"),
        };
        format!(
            "{said} sentences in {sessions} sessions ({}), {} text jobs, {} connections broke: \
             {wrong}{unable}.",
            state.endings(),
            state.text_jobs,
            state.lost,
        )
    }
}

impl State {
    fn came_back(&mut self, at_us: u64, took_us: Option<u64>) {
        self.first_us.get_or_insert(at_us);
        if self.recent.len() == MAX_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((at_us, took_us));
    }

    fn forget_before(&mut self, us: u64) {
        while self.recent.front().is_some_and(|(at, _)| *at < us) {
            self.recent.pop_front();
        }
    }

    fn endings(&self) -> String {
        let each: Vec<String> =
            self.endings.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        if each.is_empty() { "no endings".to_owned() } else { each.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endings_are_counted_by_kind_and_only_the_last_seconds_make_the_rate() {
        let meter = Meter::default();
        let now = monotonic_us();
        for message in [
            json!({ "type": "translation_result" }),
            json!({ "type": "translation_result" }),
            json!({ "type": "missing_result", "reason": "all_nodes_busy" }),
            json!({ "type": "asr_partial" }),
        ] {
            meter.note(now, &Happening::Message(&message));
        }
        meter.0.lock().came_back(1, Some(9_000_000));
        meter.0.lock().came_back(now, Some(400_000));
        meter.text_job();
        let line = meter.line(2, (3, 4));
        assert_eq!(
            line,
            "0.2 jobs/s, p50 0.4 s, p99 0.4 s, 2 speakers, 3/4 nodes; all_nodes_busy 1, result 2"
        );
        assert!(meter.summary().contains("nothing lost"), "{}", meter.summary());
    }
}
