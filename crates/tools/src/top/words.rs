//! How numbers and times are written: as on the dashboard.

use lingua_engine::snapshot::view::Supply;

/// A number with as many digits as it is worth: 0.25, 12.5, 1,234.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest = rest.trim_end_matches('0');
    let whole = grouped(whole);
    if rest.is_empty() { whole } else { format!("{whole}.{rest}") }
}

/// A whole number.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One of them, or several: `{n}` is how many.
pub(crate) fn plural(value: u64, one: &str, more: &str) -> String {
    let form = if value == 1 { one } else { more };
    form.replace("{n}", &count(value))
}

/// How long something took or lasts.
pub(crate) fn span(ms: f64) -> String {
    if ms < 1_000.0 {
        return format!("{} ms", number(ms));
    }
    let seconds = ms / 1_000.0;
    match seconds {
        short if short < 120.0 => format!("{} s", number(short)),
        minutes if minutes < 7_200.0 => format!("{:.0} min", minutes / 60.0),
        hours if hours < 172_800.0 => format!("{} h", number(hours / 3_600.0)),
        days => format!("{:.0} d", (days / 86_400.0).floor()),
    }
}

/// How long ago something was, in whole seconds.
pub(crate) fn ago(now_ms: u64, at_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(at_ms) / 1_000;
    format!("{} ago", span(seconds.max(1) as f64 * 1_000.0).replace(" ms", " s"))
}

/// Directions with arrows.
pub(crate) fn arrow(text: &str) -> String {
    text.replace("<->", " ↔ ").replace("->", " → ")
}

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
        Supply::Starved => "jobs wait",
        Supply::Unserved => "nobody ready",
    }
}

/// A node's state in a word.
pub(crate) fn state(state: &str) -> &str {
    match state {
        "registering" => "starting",
        "degraded" => "unwell",
        other => other,
    }
}

/// What an instance does for all, in a word.
pub(crate) fn task(task: &str) -> &str {
    match task {
        "snapshot" => "figures",
        "janitor" => "tidying",
        other => other,
    }
}

/// Strangers' words are shown as letters and nothing else: what a terminal would obey is left out.
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
    fn numbers_are_written_as_on_the_dashboard() {
        let written = [0.0, 0.25, 0.5, 9.999, 12.34, 12.0, 123.4, 1_234_567.0].map(number);
        assert_eq!(written, ["0", "0.25", "0.5", "10", "12.3", "12", "123", "1,234,567"]);
        assert_eq!(count(1_000), "1,000");
        assert_eq!(number(f64::NAN), "–");
        let spans = [0.4, 999.0, 1_500.0, 119_000.0, 300_000.0, 9_000_000.0, 200_000_000.0];
        let spans = spans.map(span);
        assert_eq!(spans, ["0.4 ms", "999 ms", "1.5 s", "119 s", "5 min", "2.5 h", "2 d"]);
    }

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
