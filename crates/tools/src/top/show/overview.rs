//! Figures, latency, endings, the pairs in trouble, and the jobs that failed lately.

use std::collections::BTreeMap;

use lingua_engine::snapshot::view::{Point, Quantiles, Snapshot};

use super::super::state::State;
use super::super::text::Line;
use super::super::words::{ago, arrow, count, number, span, sparkline, tame};
use super::table::{Row, numbers, table, words};
use super::{Palette, Tone, cells, cut, frame, pairs};

/// Pairs in trouble and failed jobs that are shown here.
const SHOWN: usize = 6;

/// Endings that are nobody's failure.
const NO_FAULT: [&str; 3] = ["ok", "empty", "JOB_CANCELLED"];

pub(super) fn lines(
    state: &State,
    snapshot: &Snapshot,
    width: usize,
    palette: Palette,
) -> Vec<Line> {
    let mut lines = frame::also(state, width, palette);
    lines.extend(first_steps(snapshot, palette));
    lines.extend(figures(state, snapshot, width, palette));
    let parts = [
        latency(snapshot, width, palette),
        endings(&state.points, width, palette),
        pairs::troubled(snapshot, SHOWN, width, palette),
        failures(snapshot, width, palette),
    ];
    for part in parts {
        lines.push(Line::default());
        lines.extend(part);
    }
    lines
}

fn first_steps(snapshot: &Snapshot, palette: Palette) -> Vec<Line> {
    if snapshot.nodes.total > 0 {
        return Vec::new();
    }
    let text = [
        "Nothing is connected yet. Start simulated nodes and a speaker:",
        "  lingua node --count 3",
        "  lingua speak --signal 3s --sentences 5",
    ];
    text.map(|text| palette.line(text, Tone::Plain)).into()
}

/// A name, a value, a remark, and how it went.
fn figures(state: &State, snapshot: &Snapshot, width: usize, palette: Palette) -> Vec<Line> {
    let (work, nodes) = (&snapshot.work, &snapshot.nodes);
    let mut ended: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, n) in state.minute().iter().flat_map(|point| &point.ended) {
        *ended.entry(code).or_default() += n;
    }
    let all: u64 = ended.values().sum();
    let fine: u64 = NO_FAULT.iter().filter_map(|code| ended.get(code)).sum();
    let (succeeded, of) = match all {
        0 => ("–".to_owned(), "no jobs yet"),
        // Rounded down: 100 % is all of them.
        all => (format!("{} %", number((1_000 * fine / all) as f64 / 10.0)), "in the last minute"),
    };
    let success = |point: &Point| {
        let all: u64 = point.ended.values().sum();
        let fine: u64 = NO_FAULT.iter().filter_map(|code| point.ended.get(*code)).sum();
        if all == 0 { 0.0 } else { fine as f64 / all as f64 }
    };
    type Of<'a> = &'a dyn Fn(&Point) -> f64;
    let rows: [(&str, String, String, Of<'_>); 5] = [
        (
            "Jobs a second",
            number(work.ended_per_s),
            format!("{} open", count(work.open_jobs)),
            &|point| point.ended_per_s,
        ),
        ("Succeeded", succeeded, of.to_owned(), &success),
        ("Slots in use", count(nodes.used), format!("of {}", count(nodes.slots)), &|point| {
            point.used as f64
        }),
        ("Queued jobs", count(work.waiting), String::new(), &|point| point.waiting as f64),
        (
            "Sessions",
            count(work.sessions),
            format!("{} connected", count(work.connected)),
            &|point| point.sessions as f64,
        ),
    ];
    let draw = |(name, value, remark, of): (&str, String, String, Of<'_>)| {
        let mut spans = vec![
            palette.span(format!("{name:<14}"), Tone::Soft),
            palette.span(format!("{value:>8} "), Tone::Strong),
        ];
        // Behind the value there is room for a remark, and behind that for how it went.
        let room = width.saturating_sub(23);
        if room >= 28 {
            let values: Vec<f64> = state.points.iter().map(of).collect();
            spans.push(palette.span(format!("{remark:<20}"), Tone::Soft));
            spans.push(palette.span(sparkline(&values, (room - 20).min(72)), Tone::Good));
        } else {
            spans.push(palette.span(cut(&remark, room), Tone::Soft));
        }
        Line::from(spans)
    };
    rows.into_iter().map(draw).collect()
}

fn latency(snapshot: &Snapshot, width: usize, palette: Palette) -> Vec<Line> {
    let columns = [
        words("Latency", 0),
        numbers("p50", 0),
        numbers("p95", 0),
        numbers("p99", 0),
        numbers("count", 1),
    ];
    let row = |(name, of): (&str, Quantiles)| {
        let shown = |ms: f64| if of.count == 0 { "–".to_owned() } else { span(ms) };
        Row::from(vec![
            (name.to_owned(), Tone::Plain),
            (shown(of.p50_ms), Tone::Plain),
            (shown(of.p95_ms), Tone::Plain),
            (shown(of.p99_ms), Tone::Plain),
            (count(of.count), Tone::Soft),
        ])
    };
    let of = &snapshot.latency;
    let rows = [("job", of.job), ("dispatch", of.dispatch), ("sentence", of.sentence)].map(row);
    table(&columns, &rows, width, palette)
}

/// Endings by reason, as long as anything is remembered.
fn endings(points: &[Point], width: usize, palette: Palette) -> Vec<Line> {
    let mut ended: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, n) in points.iter().flat_map(|point| &point.ended) {
        *ended.entry(code).or_default() += n;
    }
    let all: u64 = ended.values().sum();
    let mut ended: Vec<(&str, u64)> = ended.into_iter().collect();
    ended.sort_by_key(|(code, n)| (std::cmp::Reverse(*n), *code));
    let mut lines = vec![palette.heading("Endings by reason")];
    if ended.is_empty() {
        lines.push(palette.line("No job has ended yet.", Tone::Soft));
    }
    for (code, n) in ended {
        let tone = match code {
            "ok" | "empty" => Tone::Good,
            "JOB_CANCELLED" => Tone::Nobody,
            "ALL_NODES_BUSY" => Tone::Full,
            _ => Tone::Bad,
        };
        let name = cut(&tame(code), 28.min(width.saturating_sub(12)));
        let space = " ".repeat(28.min(width.saturating_sub(12)) - cells(&name));
        let room = width.saturating_sub(28 + 12).min(40);
        let bar = (n as f64 / all.max(1) as f64 * room as f64).ceil() as usize;
        lines.push(Line::from(vec![
            palette.span(name + &space, Tone::Plain),
            palette.span(format!("{:>10}  ", count(n)), Tone::Plain),
            palette.span("█".repeat(bar.min(room)), tone),
        ]));
    }
    lines
}

fn failures(snapshot: &Snapshot, width: usize, palette: Palette) -> Vec<Line> {
    let mut lines = vec![palette.heading("Jobs that failed lately")];
    if snapshot.failures.is_empty() {
        lines.push(palette.line("No job has failed lately.", Tone::Soft));
        return lines;
    }
    let columns = [
        words("When", 0),
        words("Reason", 0),
        words("Direction", 1),
        words("Last node", 2),
        numbers("Attempts", 4),
        words("Job", 3),
    ];
    let rows: Vec<Row> = snapshot
        .failures
        .iter()
        .take(SHOWN)
        .map(|one| {
            Row::from(vec![
                (ago(snapshot.at_ms, one.at_ms), Tone::Soft),
                (tame(&one.code), Tone::Bad),
                (arrow(&one.direction), Tone::Plain),
                (one.node_id.as_deref().map_or_else(|| "–".to_owned(), tame), Tone::Plain),
                (one.attempts.to_string(), Tone::Plain),
                (one.job_id.clone(), Tone::Soft),
            ])
        })
        .collect();
    lines.extend(table(&columns, &rows, width, palette));
    lines
}
