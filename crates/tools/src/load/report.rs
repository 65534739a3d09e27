//! What a load run tells.

use lingua_server::say;
use std::collections::BTreeMap;

use lingua_lab::meter::{Measured, Percentiles, Point};
use lingua_lab::speaker::Kind;
use lingua_lab::{CrowdReport, FleetStats, Meter};
use lingua_server::client::number;
use serde::Serialize;

use super::machine::{Process, Usage};
use crate::cli::Load;

/// Speakers that are later than this with their own pieces measure themselves.
const LATE_MS: f64 = 10.0;

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    settings: Settings,
    sessions_opened: u32,
    /// Speakers that could not speak to their end, by reason.
    speakers_failed: BTreeMap<String, u64>,
    sentences_said: u64,
    results: u64,
    /// Explicit endings without a result, by reason.
    missing: BTreeMap<String, u64>,
    check: Check,
    /// While all were speaking.
    steady: Steady,
    /// Over the whole run.
    opening_ms: Percentiles,
    reconnects: u64,
    sessions_not_recovered: u64,
    backpressure: u64,
    errors: u64,
    last_error: Option<String>,
    nodes: FleetStats,
    memory: Option<Memory>,
    interrupted: bool,
    /// Second by second.
    pub seconds: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Settings {
    sessions: u32,
    nodes: u32,
    slots: u32,
    store: String,
    pace: &'static str,
    codec: &'static str,
    utterance_ms: (u64, u64),
    pause_ms: (u64, u64),
    duration_s: u64,
    seed: u64,
}

/// What went wrong with sentences.
#[derive(Debug, Serialize)]
struct Check {
    lost: u64,
    doubled: u64,
    disordered: u64,
    split: u64,
    garbled: u64,
    after_ending: u64,
    foreign: u64,
    abandoned: u64,
    /// The first of them in words.
    examples: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Steady {
    seconds: f64,
    utterances: u64,
    utterances_per_second: f64,
    /// From the final to the job on a node's socket.
    to_node_ms: Percentiles,
    /// From the node's result to the speaker who has it.
    to_speaker_ms: Percentiles,
    /// From the final to the ending, with the node's own time.
    whole_ms: Percentiles,
    /// How late the speakers were with their own pieces: the load on this side.
    speakers_late_ms: Percentiles,
    /// The share of all processors that anybody used.
    machine_load: f64,
    /// Processors that speakers and nodes used.
    own_processors: f64,
    scheduler: Option<Cost>,
    redis_processors: Option<f64>,
}

/// The scheduler's processor time.
#[derive(Debug, Serialize)]
struct Cost {
    processors: f64,
    /// For a second of one session, speaking and pausing.
    cpu_ms_per_session_second: f64,
    cpu_s_per_1000_utterances: f64,
}

/// The scheduler's memory.
#[derive(Debug, Serialize)]
struct Memory {
    before_bytes: u64,
    all_begun_bytes: u64,
    all_spoken_bytes: u64,
    peak_bytes: u64,
    per_session_bytes: u64,
}

impl Report {
    /// `usage`: before, when all had begun, when all had spoken, at the end.
    pub fn new(
        options: &Load,
        meter: &Meter,
        told: CrowdReport,
        nodes: FleetStats,
        usage: &[Usage; 4],
        interrupted: bool,
    ) -> Self {
        let measured = meter.measured();
        let [before, begun, spoken, end] = usage;
        let report = told.report;
        let processes =
            before.scheduler.zip(begun.scheduler).zip(spoken.scheduler.zip(end.scheduler));
        Self {
            settings: Settings::of(options),
            sessions_opened: told.opened,
            speakers_failed: told.failed,
            sentences_said: report.said,
            results: report.results,
            check: Check::of(&report),
            missing: report.missing,
            opening_ms: measured.opening,
            reconnects: measured.counts.reconnects,
            sessions_not_recovered: report.sessions.saturating_sub(u64::from(told.opened)),
            backpressure: measured.counts.backpressure,
            errors: measured.counts.errors,
            last_error: measured.last_error.clone(),
            nodes,
            memory: processes.map(|((before, begun), (spoken, end))| {
                Memory::of(options.sessions, &before, &begun, &spoken, &end)
            }),
            steady: Steady::of(options, &measured, begun, spoken),
            interrupted,
            seconds: measured.seconds,
        }
    }

    /// What was run, in a line.
    pub fn title(&self) -> String {
        let Settings { sessions, nodes, store, pace, codec, .. } = &self.settings;
        format!("{sessions} sessions, {nodes} nodes, {pace}, {codec}, {store}")
    }

    /// Why the run counts as failed.
    pub fn failure(&self) -> Option<String> {
        let Check {
            lost,
            doubled,
            disordered,
            split,
            garbled,
            after_ending,
            foreign,
            abandoned,
            ..
        } = &self.check;
        let wrong =
            lost + doubled + disordered + split + garbled + after_ending + foreign + abandoned;
        let failed: u64 = self.speakers_failed.values().sum();
        if wrong > 0 {
            return Some(format!("{wrong} times something did not come back as it was said"));
        }
        if failed > 0 {
            return Some(format!("{failed} speakers could not speak to their end"));
        }
        if self.nodes.breaches > 0 {
            return Some(format!("nodes were given too much, {} times", self.nodes.breaches));
        }
        (self.results == 0).then(|| "not one sentence came back with a result".to_owned())
    }

    pub fn print(&self) {
        say!("{}\n", self.title());
        say!("sessions     {} opened, {} reconnects", self.sessions_opened, self.reconnects);
        for (why, count) in &self.speakers_failed {
            say!("             {count} failed: {why}");
        }
        let missing: u64 = self.missing.values().sum();
        say!(
            "sentences    {} said, {} results, {missing} missing",
            self.sentences_said,
            self.results
        );
        for (why, count) in &self.missing {
            say!("             {count} {why}");
        }
        let check = &self.check;
        say!(
            "check        {} lost, {} doubled, {} disordered, {} split, {} garbled, {} abandoned",
            check.lost,
            check.doubled,
            check.disordered,
            check.split,
            check.garbled,
            check.abandoned
        );
        for example in &check.examples {
            say!("             {example}");
        }
        if self.errors + self.backpressure > 0 {
            let last = self.last_error.as_deref().unwrap_or("");
            say!("messages     {} errors, {} backpressure {last}", self.errors, self.backpressure);
        }
        say!("\n{:<26} {:>9} {:>9} {:>9} {:>9} {:>9}", "ms", "count", "p50", "p90", "p99", "max");
        let steady = &self.steady;
        for (name, times) in [
            ("final -> node's socket", &steady.to_node_ms),
            ("node's result -> speaker", &steady.to_speaker_ms),
            ("whole, with the node", &steady.whole_ms),
            ("opening a session", &self.opening_ms),
            ("speakers late by", &steady.speakers_late_ms),
        ] {
            let Percentiles { count, p50, p90, p99, max } = times;
            say!("{name:<26} {count:>9} {p50:>9.2} {p90:>9.2} {p99:>9.2} {max:>9.2}");
        }
        self.print_costs();
    }

    fn print_costs(&self) {
        let steady = &self.steady;
        say!(
            "\nmachine      {:.0} % busy over {:.0} s, {:.1} sentences/s; speakers and nodes {:.2} processors",
            steady.machine_load * 100.0,
            steady.seconds,
            steady.utterances_per_second,
            steady.own_processors
        );
        if let Some(cost) = &steady.scheduler {
            say!(
                "scheduler    {:.2} processors: {:.3} ms a second and session, {:.2} s per 1000 sentences",
                cost.processors,
                cost.cpu_ms_per_session_second,
                cost.cpu_s_per_1000_utterances
            );
        }
        if let Some(processors) = steady.redis_processors {
            say!("redis        {processors:.2} processors");
        }
        if let Some(memory) = &self.memory {
            say!(
                "memory       {} before, {} when all had begun, {} at most; {} a session",
                size(memory.before_bytes),
                size(memory.all_begun_bytes),
                size(memory.peak_bytes),
                size(memory.per_session_bytes)
            );
        }
        if steady.speakers_late_ms.p99 > LATE_MS {
            say!(
                "note         the speakers themselves were late: the latencies hold their delay too"
            );
        }
        if self.interrupted {
            say!("note         interrupted before its time");
        }
    }
}

impl Settings {
    fn of(options: &Load) -> Self {
        let ends = |range: &std::ops::RangeInclusive<u64>| (*range.start(), *range.end());
        Self {
            sessions: options.sessions,
            nodes: options.nodes,
            slots: options.slots,
            // A URL may hold a password.
            store: match (&options.url, options.store.split_once("://")) {
                (Some(_), _) => "a running scheduler".to_owned(),
                (None, Some((scheme, _))) => scheme.to_owned(),
                (None, None) => options.store.clone(),
            },
            pace: if options.closed_loop { "closed loop" } else { "real time" },
            codec: options.codec.name(),
            utterance_ms: ends(&options.utterance_ms),
            pause_ms: ends(&options.pause_ms),
            duration_s: options.duration_s,
            seed: options.seed,
        }
    }
}

impl Check {
    fn of(report: &lingua_lab::speaker::Report) -> Self {
        Self {
            lost: report.count(Kind::Lost),
            doubled: report.count(Kind::Doubled),
            disordered: report.count(Kind::Disordered),
            split: report.count(Kind::Split),
            garbled: report.count(Kind::Garbled),
            after_ending: report.count(Kind::AfterEnding),
            foreign: report.count(Kind::Foreign),
            abandoned: report.count(Kind::Abandoned),
            examples: report.violations.iter().take(10).cloned().collect(),
        }
    }
}

impl Steady {
    fn of(options: &Load, measured: &Measured, from: &Usage, to: &Usage) -> Self {
        let seconds = to.at.duration_since(from.at).as_secs_f64().max(f64::EPSILON);
        let utterances = measured.steady_utterances;
        let scheduler = from.scheduler.zip(to.scheduler).map(|(from, to)| {
            let cpu = to.cpu.saturating_sub(from.cpu).as_secs_f64();
            Cost {
                processors: cpu / seconds,
                cpu_ms_per_session_second: cpu * 1_000.0 / seconds / f64::from(options.sessions),
                cpu_s_per_1000_utterances: cpu * 1_000.0 / (utterances as f64).max(1.0),
            }
        });
        let redis = from.redis_cpu.zip(to.redis_cpu);
        Self {
            seconds,
            utterances,
            utterances_per_second: utterances as f64 / seconds,
            to_node_ms: measured.to_node,
            to_speaker_ms: measured.to_speaker,
            whole_ms: measured.whole,
            speakers_late_ms: measured.late,
            machine_load: to.machine_load_since(from),
            own_processors: to.own_cpu.saturating_sub(from.own_cpu).as_secs_f64() / seconds,
            scheduler,
            redis_processors: redis
                .map(|(from, to)| to.saturating_sub(from).as_secs_f64() / seconds),
        }
    }
}

impl Memory {
    fn of(
        sessions: u32,
        before: &Process,
        begun: &Process,
        spoken: &Process,
        end: &Process,
    ) -> Self {
        let more = begun.rss_bytes.max(spoken.rss_bytes).saturating_sub(before.rss_bytes);
        Self {
            before_bytes: before.rss_bytes,
            all_begun_bytes: begun.rss_bytes,
            all_spoken_bytes: spoken.rss_bytes,
            peak_bytes: end.peak_rss_bytes,
            per_session_bytes: more / u64::from(sessions),
        }
    }
}

/// Bytes in the unit that suits them.
fn size(bytes: u64) -> String {
    match bytes as f64 / 1_024.0 {
        kib if kib < 1_024.0 => format!("{} KiB", number(kib)),
        kib => format!("{} MiB", number(kib / 1_024.0)),
    }
}
