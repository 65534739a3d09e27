//! What is around a view: what is well or wrong in one sentence, the tabs, and the keys.

use lingua_engine::snapshot::view::{Severity, Snapshot};

use super::super::state::{Link, State, View};
use super::super::text::{Line, Span, Style};
use super::super::words::{ago, arrow, number, plural, span, tame};
use super::{Palette, Tone, cells, cut, wrapped};

/// The keys, for who asks.
const KEYS: [(&str, &str); 10] = [
    ("1 2 3 4 5", "Overview, Pairs, Nodes, Sessions, Instances"),
    ("tab, → l", "the next view"),
    ("⇧tab, ← h", "the view before"),
    ("j ↓  k ↑", "a line down, a line up"),
    ("space, PgDn", "a page down"),
    ("b, PgUp", "a page up"),
    ("g G", "to the beginning, to the end"),
    ("s r", "sort by the next column, reverse the order"),
    ("?", "this help; again, or esc: back"),
    ("q, Ctrl-C", "end"),
];

fn mark(severity: Severity) -> (&'static str, Tone) {
    match severity {
        Severity::Ok => ("✓", Tone::Fine),
        Severity::Warning => ("!", Tone::Tight),
        Severity::Critical => ("✕", Tone::Bad),
    }
}

/// The gravest finding, or that all is well.
fn sentence(state: &State) -> (&'static str, Tone, String) {
    let Some(stats) = &state.stats else {
        return ("…", Tone::Soft, "Waiting for the first figures…".to_owned());
    };
    let (sign, tone) = mark(stats.health);
    match stats.findings.iter().find(|finding| finding.severity != Severity::Ok) {
        Some(first) => (sign, tone, arrow(&tame(&first.text))),
        None if stats.snapshot.is_some() => (sign, tone, "All well.".to_owned()),
        None => ("…", Tone::Soft, "Waiting for the first figures…".to_owned()),
    }
}

fn summary(snapshot: &Snapshot) -> String {
    let instances = snapshot.instances.iter().filter(|one| !one.missing).count() as u64;
    format!(
        "{} · {} · {} · {} jobs a second",
        plural(instances, "{n} instance", "{n} instances"),
        plural(snapshot.nodes.ready, "{n} node ready", "{n} nodes ready"),
        plural(snapshot.work.connected, "{n} person connected", "{n} people connected"),
        number(snapshot.work.ended_per_s),
    )
}

/// What else is wrong or worth knowing.
pub(super) fn also(state: &State, width: usize, palette: Palette) -> Vec<Line> {
    let findings = state.stats.iter().flat_map(|stats| &stats.findings);
    let first = state.stats.as_ref().and_then(|stats| stats.findings.first());
    let skipped = usize::from(first.is_some_and(|first| first.severity != Severity::Ok));
    let mut lines = Vec::new();
    for finding in findings.skip(skipped) {
        let (sign, tone) = match finding.severity {
            Severity::Ok => ("i", Tone::Soft),
            other => mark(other),
        };
        for (at, part) in
            wrapped(&arrow(&tame(&finding.text)), width.saturating_sub(2)).into_iter().enumerate()
        {
            let sign = if at == 0 { sign } else { " " };
            lines.push(Line::from(vec![
                palette.span(format!("{sign} "), tone),
                palette.span(part, Tone::Plain),
            ]));
        }
    }
    lines
}

/// In one sentence, for plain text.
pub(super) fn headline(state: &State, palette: Palette) -> Vec<Line> {
    let (sign, tone, said) = sentence(state);
    let mut lines = vec![palette.line(format!("{sign} {said}"), tone)];
    lines.extend(state.snapshot().map(|snapshot| palette.line(summary(snapshot), Tone::Plain)));
    lines
}

/// Everything above the view.
pub(crate) fn head(state: &State, width: usize, roomy: bool, palette: Palette) -> Vec<Line> {
    let (live, tone) = match &state.link {
        Link::Live if state.stats.as_ref().is_some_and(|stats| stats.stale) => {
            ("● Old", Tone::Tight)
        }
        Link::Live => ("● Live", Tone::Fine),
        Link::Waiting => ("… Connecting", Tone::Soft),
        Link::Away { .. } => ("○ Not connected", Tone::Bad),
    };
    let age = match &state.stats {
        Some(_) => format!(" {}", ago(state.now_ms, state.heard_ms)),
        None => String::new(),
    };
    let right = cells(live) + cells(&age);
    let name = cut("Lingua Scheduler", width.saturating_sub(right + 2));
    let url = width.saturating_sub(cells(&name) + right + 4);
    let url = if url < 12 { String::new() } else { cut(&tame(&state.url), url) };
    let space = width.saturating_sub(cells(&name) + cells(&url) + right + 2);
    let mut lines = vec![Line::from(vec![
        palette.span(name, Tone::Strong),
        palette.span(format!("  {url}"), Tone::Soft),
        palette.span(" ".repeat(space), Tone::Plain),
        palette.span(live, tone),
        palette.span(age, Tone::Soft),
    ])];
    lines.extend(banner(state, width, palette));
    if state.stats.is_some() || state.link == Link::Waiting {
        let (sign, tone, said) = sentence(state);
        let most = if roomy { 3 } else { 1 };
        for (at, part) in wrapped(&said, width.saturating_sub(2)).into_iter().take(most).enumerate()
        {
            let sign = if at == 0 { sign } else { " " };
            lines.push(palette.line(cut(&format!("{sign} {part}"), width), tone));
        }
    }
    if let Some(snapshot) = state.snapshot().filter(|_| roomy) {
        for part in wrapped(&summary(snapshot), width.saturating_sub(2)).into_iter().take(2) {
            lines.push(palette.line(format!("  {part}"), Tone::Soft));
        }
    }
    lines.push(tabs(state, width, palette));
    lines
}

/// That the scheduler is away, or back.
fn banner(state: &State, width: usize, palette: Palette) -> Vec<Line> {
    let (said, tone) = match (&state.link, state.notice()) {
        (Link::Away { why, again_at_ms }, _) => {
            let seconds = again_at_ms.saturating_sub(state.now_ms).div_ceil(1_000);
            let again = match seconds {
                0 => "Trying again…".to_owned(),
                seconds => format!("Trying again in {}…", span(seconds as f64 * 1_000.0)),
            };
            let away = match &state.stats {
                None => format!("The scheduler at {} does not answer", tame(&state.url)),
                Some(_) => format!(
                    "The connection to the scheduler is lost. What you see is from {}",
                    ago(state.now_ms, state.heard_ms)
                ),
            };
            (format!("{away}. {again} ({})", tame(why)), Tone::Bad)
        }
        (_, Some(notice)) => (notice.to_owned(), Tone::Fine),
        (_, None) => return Vec::new(),
    };
    let parts = wrapped(&said, width).into_iter().take(4);
    parts.map(|part| palette.line(cut(&part, width), tone)).collect()
}

fn tabs(state: &State, width: usize, palette: Palette) -> Line {
    let full: usize = View::ALL.iter().map(|view| cells(view.name()) + 4).sum();
    let mut spans = Vec::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let chosen = view == state.view;
        let name = if chosen || full <= width { view.name() } else { "" };
        let text = match name {
            "" => format!(" {} ", at + 1),
            name => format!(" {} {name} ", at + 1),
        };
        let style = match chosen {
            true => Style { reversed: true, ..palette.style(Tone::Strong) },
            false => palette.style(Tone::Soft),
        };
        spans.push(Span { text, style });
    }
    Line::from(spans)
}

/// The line below the view. `more` says how much of it is not seen.
pub(crate) fn foot(state: &State, more: usize, width: usize, palette: Palette) -> Line {
    let orders = state.view.orders();
    let look = state.look();
    let mut parts = vec!["q quit".to_owned(), "? keys".to_owned()];
    if more > 0 {
        parts.insert(0, format!("↓ {more} more"));
    }
    if let Some(order) = orders.get(look.order) {
        let turned = if look.backwards { ", reversed" } else { "" };
        parts.push(format!("s sort: {order}{turned}"));
    }
    if let Some(stats) = &state.stats {
        parts.push(format!("Store: {}", tame(&stats.store)));
    }
    let mut text = String::new();
    for part in parts {
        let gap = if text.is_empty() { "" } else { "  " };
        if cells(&text) + cells(gap) + cells(&part) <= width {
            text = text + gap + &part;
        }
    }
    palette.line(text, Tone::Soft)
}

/// All keys.
pub(crate) fn help(width: usize, palette: Palette) -> Vec<Line> {
    let keys = KEYS.iter().map(|(keys, does)| {
        Line::from(vec![
            palette.span(format!("{keys:<12}"), Tone::Strong),
            palette.span(cut(does, width.saturating_sub(12)), Tone::Plain),
        ])
    });
    std::iter::once(palette.heading("Keys")).chain(keys).collect()
}
