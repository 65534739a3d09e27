//! The nodes, and why those that get no jobs get none.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::news::Node;
use super::super::state::{State, View};
use super::super::text::Line;
use super::super::words::{self, count, span, tame};
use super::table::{Row, numbers, table, words as column};
use super::{Palette, Tone, cut};

pub(super) fn lines(state: &State, width: usize, palette: Palette) -> Vec<Line> {
    let nodes = match &state.nodes {
        None => return vec![palette.line("Loading…", Tone::Soft)],
        Some(Err(why)) => {
            let said = format!("This could not be read: {}", tame(why));
            return vec![palette.line(cut(&said, width), Tone::Bad)];
        }
        Some(Ok(nodes)) if nodes.total == 0 => {
            let said = "No node is connected. Start one: lingua node --count 3";
            return vec![palette.line(cut(said, width), Tone::Plain)];
        }
        Some(Ok(nodes)) => nodes,
    };
    let mut shown: Vec<&Node> = nodes.nodes.iter().collect();
    let look = state.look_at(View::Nodes);
    let load = |node: &Node| node.slots.used * 1_000 / node.slots.open.max(1);
    match View::Nodes.orders()[look.order] {
        "state" => shown.sort_by_key(|node| Reverse(trouble(node))),
        "load" => shown.sort_by_key(|node| Reverse(load(node))),
        "time" => shown.sort_by_key(|node| Reverse(node.latency_ms.map_or(0, |ms| ms as u64))),
        "done" => shown.sort_by_key(|node| Reverse(node.done)),
        _ => {}
    }
    if look.backwards {
        shown.reverse();
    }
    let columns = [
        column("Node", 0),
        column("State", 0),
        numbers("Load", 0),
        column("Breaker", 1),
        numbers("Job takes", 2),
        numbers("Done", 3),
        numbers("Failed", 3),
        column("Instance", 4),
        column("Languages", 5),
    ];
    let rows: Vec<Row> = shown.into_iter().map(row).collect();
    let mut lines = table(&columns, &rows, width, palette);
    let note = format!("{} of {} shown", count(rows.len() as u64), count(nodes.total));
    lines.push(palette.line(note, Tone::Soft));
    lines
}

fn trouble(node: &Node) -> u8 {
    match node.state.as_str() {
        "offline" => 4,
        "degraded" => 3,
        "draining" => 2,
        "registering" => 1,
        _ => 0,
    }
}

fn row(node: &Node) -> Row {
    let (sign, tone) = match node.state.as_str() {
        "ready" => ("●", Tone::Fine),
        "draining" => ("◐", Tone::Full),
        "degraded" => ("▲", Tone::Bad),
        "offline" => ("○", Tone::Bad),
        _ => ("●", Tone::Nobody),
    };
    let order = match node.order.as_str() {
        "drain" => ", drained by hand",
        "block" => ", blocked",
        _ => "",
    };
    let breaker = if node.breaker == "closed" { Tone::Soft } else { Tone::Bad };
    let load = if node.slots.used >= node.slots.open { Tone::Full } else { Tone::Plain };
    let langs = node.abilities.semantic_langs.iter().chain(&node.abilities.tts_langs);
    let langs: BTreeSet<String> = langs.map(|lang| tame(lang)).collect();
    let cells = vec![
        (tame(&node.node_id), Tone::Plain),
        (format!("{sign} {}{order}", words::state(&tame(&node.state))), tone),
        (format!("{}/{}", node.slots.used, node.slots.open), load),
        (tame(&node.breaker), breaker),
        (node.latency_ms.map_or_else(|| "–".to_owned(), span), Tone::Plain),
        (count(node.done), Tone::Plain),
        (count(node.failed), Tone::Plain),
        (tame(&node.instance), Tone::Soft),
        (langs.into_iter().collect::<Vec<_>>().join(" "), Tone::Soft),
    ];
    let below = node.why_idle.iter().map(|why| (tame(why), Tone::Soft)).collect();
    Row { cells, below }
}
