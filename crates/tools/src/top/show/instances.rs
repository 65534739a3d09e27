//! The instances: what each has, and which tasks it leads.

use std::cmp::Reverse;

use lingua_engine::snapshot::view::{InstanceView, Snapshot};

use super::super::state::{State, View};
use super::super::text::Line;
use super::super::words::{ago, count, span, tame, task};
use super::table::{Row, numbers, table, words};
use super::{Palette, Tone, cut};

/// Messages that wait in an inbox; more are a finding.
const DEEP: u64 = 2_000;

pub(super) fn lines(
    state: &State,
    snapshot: &Snapshot,
    width: usize,
    palette: Palette,
) -> Vec<Line> {
    let mut shown: Vec<&InstanceView> = snapshot.instances.iter().collect();
    let look = state.look_at(View::Instances);
    match View::Instances.orders()[look.order] {
        "sessions" => shown.sort_by_key(|one| Reverse(one.sessions)),
        "jobs" => shown.sort_by_key(|one| Reverse(one.open_jobs)),
        "inbox" => shown.sort_by_key(|one| Reverse(one.inbox)),
        _ => {}
    }
    if look.backwards {
        shown.reverse();
    }
    let columns = [
        words("Instance", 0),
        words("State", 0),
        numbers("Nodes", 2),
        numbers("Sessions", 1),
        numbers("Open jobs", 3),
        numbers("Queued", 4),
        numbers("Inbox", 1),
        numbers("Running for", 6),
        numbers("Last seen", 5),
        words("Version", 7),
        words("Address", 8),
    ];
    let answering = state.stats.as_ref().map_or("", |stats| stats.instance.as_str());
    let row = |one: &&InstanceView| {
        let (state, tone) = match (one.missing, one.draining) {
            (true, _) => ("○ missing", Tone::Bad),
            (false, true) => ("◐ stopping", Tone::Full),
            (false, false) => ("● running", Tone::Fine),
        };
        let this = if one.id == answering { " (this one)" } else { "" };
        let tasks: Vec<&str> = one.leads.iter().map(|name| task(name)).collect();
        let does = format!("leader of: {}", tame(&tasks.join(", ")));
        let cells = vec![
            (format!("{}{this}", tame(&one.id)), Tone::Plain),
            (state.to_owned(), tone),
            (count(one.nodes), Tone::Plain),
            (count(one.sessions), Tone::Plain),
            (count(one.open_jobs), Tone::Plain),
            (count(one.waiting), Tone::Plain),
            (count(one.inbox), if one.inbox > DEEP { Tone::Bad } else { Tone::Plain }),
            (span(snapshot.at_ms.saturating_sub(one.started_ms) as f64), Tone::Soft),
            (ago(snapshot.at_ms, one.last_seen_ms), Tone::Soft),
            (tame(&one.version), Tone::Soft),
            (tame(&one.address), Tone::Soft),
        ];
        let below = if tasks.is_empty() { Vec::new() } else { vec![(does, Tone::Good)] };
        Row { cells, below }
    };
    let rows: Vec<Row> = shown.iter().map(row).collect();
    let mut lines = table(&columns, &rows, width, palette);
    let seconds = span(snapshot.interval_ms as f64);
    let note =
        format!("Figures of all instances, updated every {seconds} by {}.", tame(&snapshot.leader));
    lines.push(palette.line(cut(&note, width), Tone::Soft));
    lines
}
