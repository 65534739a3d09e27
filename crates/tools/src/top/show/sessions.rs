//! Who speaks, not what is said.

use std::cmp::Reverse;

use super::super::news::Session;
use super::super::state::{State, View};
use super::super::text::Line;
use super::super::words::{ago, arrow, count, tame};
use super::table::{Row, numbers, table, words};
use super::{Palette, Tone, cut};

pub(super) fn lines(state: &State, width: usize, palette: Palette) -> Vec<Line> {
    let sessions = match &state.sessions {
        None => return vec![palette.line("Loading…", Tone::Soft)],
        Some(Err(why)) => {
            let said = format!("This could not be read: {}", tame(why));
            return vec![palette.line(cut(&said, width), Tone::Bad)];
        }
        Some(Ok(sessions)) => sessions,
    };
    let mut lines = Vec::new();
    for silent in &sessions.silent {
        let said =
            format!("! Instance {} did not answer: its sessions are not shown.", tame(silent));
        lines.push(palette.line(cut(&said, width), Tone::Tight));
    }
    if sessions.sessions.is_empty() {
        lines.push(palette.line("No session is open.", Tone::Soft));
        return lines;
    }
    let mut shown: Vec<&Session> = sessions.sessions.iter().collect();
    let look = state.look_at(View::Sessions);
    match View::Sessions.orders()[look.order] {
        "instance" => shown.sort_by(|a, b| a.instance.cmp(&b.instance)),
        "newest" => shown.sort_by_key(|session| Reverse(session.since_ms)),
        "utterances" => shown.sort_by_key(|session| Reverse(session.utterances)),
        _ => {}
    }
    if look.backwards {
        shown.reverse();
    }
    let columns = [
        words("Session", 0),
        words("Direction", 0),
        words("Client", 1),
        words("Instance", 2),
        numbers("Utterances", 3),
        numbers("Since", 4),
    ];
    let now = state.stats.as_ref().map_or(0, |stats| stats.now_ms);
    let row = |one: &&Session| {
        let (client, tone) = match one.connected {
            true => ("● connected", Tone::Fine),
            false => ("◐ disconnected, may resume", Tone::Full),
        };
        Row::from(vec![
            (tame(&one.session_id), Tone::Plain),
            (arrow(&tame(&one.direction)), Tone::Plain),
            (client.to_owned(), tone),
            (tame(&one.instance), Tone::Soft),
            (count(one.utterances), Tone::Plain),
            (ago(now, one.since_ms), Tone::Soft),
        ])
    };
    let rows: Vec<Row> = shown.iter().map(row).collect();
    lines.extend(table(&columns, &rows, width, palette));
    let note = format!("{} of {} shown", count(rows.len() as u64), count(sessions.total));
    lines.push(palette.line(note, Tone::Soft));
    lines
}
