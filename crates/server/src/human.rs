//! How numbers and times are written for people in a terminal: as on the dashboard.

/// A number with as many digits as it is worth: 0.25, 12.5, 1,234.
pub fn number(value: f64) -> String {
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
pub fn count(value: u64) -> String {
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
pub fn plural(value: u64, one: &str, more: &str) -> String {
    let form = if value == 1 { one } else { more };
    form.replace("{n}", &count(value))
}

/// How long something took or lasts.
pub fn span(ms: f64) -> String {
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
pub fn ago(now_ms: u64, at_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(at_ms) / 1_000;
    format!("{} ago", span(seconds.max(1) as f64 * 1_000.0).replace(" ms", " s"))
}

/// Directions with arrows.
pub fn arrow(text: &str) -> String {
    text.replace("<->", " ↔ ").replace("->", " → ")
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
    fn one_thing_and_several_have_their_forms() {
        assert_eq!(plural(1, "{n} job", "{n} jobs"), "1 job");
        assert_eq!(plural(1_200, "{n} job", "{n} jobs"), "1,200 jobs");
        assert_eq!((ago(5_400, 5_000), ago(65_000, 5_000)), ("1 s ago".into(), "60 s ago".into()));
        assert_eq!(arrow("de<->en, en->zh"), "de ↔ en, en → zh");
    }
}
