//! Words and signs: the same as on the dashboard.

use lingua_engine::snapshot::view::Supply;
pub(crate) use lingua_server::client::{ago, arrow, count, number, plural, span};

/// The sign of a supply: no colour says what a sign does not say too.
pub(crate) fn sign(supply: Supply) -> &'static str {
    match supply {
        Supply::Good => "●",
        Supply::Tight => "◐",
        Supply::Full => "○",
        Supply::Starved => "▲",
        Supply::Unserved => "∅",
    }
}

/// A supply in words.
pub(crate) fn supply(supply: Supply) -> &'static str {
    match supply {
        Supply::Good => "free slots",
        Supply::Tight => "nearly full",
        Supply::Full => "full",
        Supply::Starved => "jobs queued",
        Supply::Unserved => "no node ready",
    }
}

/// A node's state in a word.
pub(crate) fn state(state: &str) -> &str {
    match state {
        "registering" => "starting",
        other => other,
    }
}

/// A task that one instance leads, in a word.
pub(crate) fn task(task: &str) -> &str {
    match task {
        "janitor" => "cleanup",
        other => other,
    }
}

/// Text of nodes and clients without control characters, which a terminal would obey.
pub(crate) fn tame(text: &str) -> String {
    const MOST: usize = 300;
    text.chars().filter(|letter| !letter.is_control()).take(MOST).collect()
}

/// How values went, the newest last, in one line of at most so many cells.
pub(crate) fn sparkline(values: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| match most {
        most if most > 0.0 && *value > 0.0 => {
            BARS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
        }
        _ => ' ',
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_ends_with_the_newest_value_and_nothing_is_no_bar() {
        assert_eq!(sparkline(&[9.0, 1.0, 4.0, 8.0], 3), "▁▄█");
        assert_eq!(sparkline(&[0.0, 0.0], 5), "  ");
        assert_eq!(sparkline(&[], 5), "");
        assert_eq!(sparkline(&[0.001, 1_000.0], 5), "▁█", "a little is not nothing");
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        assert_eq!(tame("a\u{1b}[2Jb\u{9b}1mc\nd"), "a[2Jb1mcd");
        assert_eq!(tame(&"x".repeat(1_000)).len(), 300);
    }
}
