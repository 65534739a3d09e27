//! The directed pairs: as a matrix where there is room, and as a list.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use lingua_engine::snapshot::view::{Pair, Snapshot, Supply};

use super::super::state::{State, View};
use super::super::text::Line;
use super::super::words::{count, sign, supply};
use super::table::{Row, numbers, table, words};
use super::{Palette, Tone, cells, cut};

/// Of one side of the matrix.
const MAX_SIDE: usize = 24;

fn tone(supply: Supply) -> Tone {
    match supply {
        Supply::Good => Tone::Good,
        Supply::Tight => Tone::Tight,
        Supply::Full => Tone::Full,
        Supply::Starved => Tone::Bad,
        Supply::Unserved => Tone::Nobody,
    }
}

fn weight(pair: &Pair) -> u8 {
    match pair.supply {
        Supply::Starved => 4,
        Supply::Unserved => 3,
        Supply::Full => 2,
        Supply::Tight => 1,
        Supply::Good => 0,
    }
}

pub(super) fn lines(
    state: &State,
    snapshot: &Snapshot,
    width: usize,
    palette: Palette,
) -> Vec<Line> {
    if snapshot.pairs.is_empty() {
        return vec![palette.line("No node serves any pair yet.", Tone::Soft)];
    }
    let mut pairs: Vec<&Pair> = snapshot.pairs.iter().collect();
    let look = state.look_at(View::Pairs);
    match View::Pairs.orders()[look.order] {
        "name" => {}
        "free slots" => pairs.sort_by_key(|pair| pair.free),
        "queued" => pairs.sort_by_key(|pair| Reverse(pair.waiting)),
        _ => pairs.sort_by_key(|pair| Reverse((weight(pair), pair.waiting))),
    }
    if look.backwards {
        pairs.reverse();
    }
    let mut lines = matrix(snapshot, width, palette);
    lines.extend(list(&pairs, width, palette));
    lines
}

/// Those in trouble, the worst first.
pub(super) fn troubled(
    snapshot: &Snapshot,
    most: usize,
    width: usize,
    palette: Palette,
) -> Vec<Line> {
    let mut pairs: Vec<&Pair> = snapshot.pairs.iter().filter(|pair| weight(pair) > 0).collect();
    pairs.sort_by_key(|pair| Reverse((weight(pair), pair.waiting)));
    let all = count(snapshot.pairs.len() as u64);
    let mut lines = vec![palette.heading("Language pairs")];
    match pairs.len() {
        0 if snapshot.pairs.is_empty() => {
            lines.push(palette.line("No node serves any pair yet.", Tone::Soft));
        }
        0 => lines.push(palette.line(format!("● free slots in all {all} pairs"), Tone::Good)),
        scarce => {
            lines.extend(list(&pairs[..scarce.min(most)], width, palette));
            let scarce = count(scarce as u64);
            let said = format!("{scarce} of {all} pairs have few or no free slots");
            lines.push(palette.line(cut(&said, width), Tone::Soft));
        }
    }
    lines
}

fn list(pairs: &[&Pair], width: usize, palette: Palette) -> Vec<Line> {
    let columns = [
        words("Pair", 0),
        words("Supply", 0),
        numbers("Free", 0),
        numbers("Slots", 2),
        numbers("Queued", 0),
        numbers("Ready", 3),
        numbers("Nodes", 1),
        numbers("Sessions", 4),
    ];
    let row = |pair: &&Pair| {
        let tone = tone(pair.supply);
        let waiting = if pair.waiting > 0 { Tone::Bad } else { Tone::Soft };
        Row::from(vec![
            (format!("{} → {}", pair.src, pair.tgt), Tone::Plain),
            (format!("{} {}", sign(pair.supply), supply(pair.supply)), tone),
            (count(pair.free), tone),
            (count(pair.slots), Tone::Plain),
            (count(pair.waiting), waiting),
            (count(pair.ready), Tone::Plain),
            (count(pair.nodes), Tone::Plain),
            (count(pair.speaking), Tone::Soft),
        ])
    };
    let rows: Vec<Row> = pairs.iter().map(row).collect();
    table(&columns, &rows, width, palette)
}

/// Rows are source languages, columns target languages. Empty if the terminal is too narrow: the list has
/// everything.
fn matrix(snapshot: &Snapshot, width: usize, palette: Palette) -> Vec<Line> {
    let sources: BTreeSet<&str> = snapshot.pairs.iter().map(|pair| pair.src.as_str()).collect();
    let targets: BTreeSet<&str> = snapshot.pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let text = |pair: &Pair| match pair.waiting {
        0 => format!("{} {}/{}", sign(pair.supply), pair.free, pair.slots),
        n => format!("{} {}/{} +{n}", sign(pair.supply), pair.free, pair.slots),
    };
    let side = sources.iter().map(|lang| cells(lang)).max().unwrap_or(0).max(4) + 1;
    let cell = snapshot.pairs.iter().map(|pair| cells(&text(pair)).max(cells(&pair.tgt))).max();
    let cell = cell.unwrap_or(0) + 2;
    if targets.len().max(sources.len()) > MAX_SIDE || side + cell * targets.len() > width {
        return Vec::new();
    }
    let mut head = vec![palette.span(format!("{:side$}", ""), Tone::Soft)];
    head.extend(targets.iter().map(|tgt| palette.span(format!("{tgt:<cell$}"), Tone::Soft)));
    let mut lines = vec![Line::from(head)];
    for src in &sources {
        let mut spans = vec![palette.span(format!("{src:<side$}"), Tone::Soft)];
        for tgt in &targets {
            let pair = snapshot.pairs.iter().find(|pair| pair.src == *src && pair.tgt == *tgt);
            spans.push(match pair {
                Some(pair) => palette.span(format!("{:<cell$}", text(pair)), tone(pair.supply)),
                None => palette.span(format!("{:<cell$}", "·"), Tone::Nobody),
            });
        }
        lines.push(Line::from(spans));
    }
    let note =
        "Rows: source language. Columns: target language. Free / all slots, +n: queued jobs.";
    lines.push(palette.line(cut(note, width), Tone::Soft));
    lines.push(Line::default());
    lines
}
