//! The rules as they are shipped, and the same rules with a minute made short.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many times faster than in production everything is: a minute takes two seconds. Only the spans
/// of the rules are scaled; thresholds, and counts within a span, are those that are shipped.
pub const FASTER: u64 = 30;

pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/alerts.yml")
}

/// The names of all rules in the file.
pub fn names(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// The rules with every `for:` and every `[range]` shortened, and nothing else changed.
pub fn quicker(text: &str) -> String {
    let mut quick = String::new();
    for line in text.lines() {
        let start = line.trim_start();
        if let Some(span) = start.strip_prefix("for: ") {
            let indent = &line[..line.len() - start.len()];
            quick += &format!("{indent}for: {}", shortened(span));
        } else if start.starts_with("expr: ") {
            let mut rest = line;
            while let Some((before, behind)) = rest.split_once('[') {
                let (span, behind) = behind.split_once(']').unwrap();
                quick += &format!("{before}[{}]", shortened(span));
                rest = behind;
            }
            quick += rest;
        } else {
            quick += line;
        }
        quick.push('\n');
    }
    quick
}

/// `5m`, `90s` or `1m30s` as fewer milliseconds.
fn shortened(span: &str) -> String {
    let (mut ms, mut number) = (0, 0);
    for letter in span.chars() {
        let unit_ms = match letter {
            's' => 1_000,
            'm' => 60_000,
            'h' => 3_600_000,
            digit => {
                number = number * 10 + u64::from(digit.to_digit(10).unwrap());
                continue;
            }
        };
        ms += std::mem::take(&mut number) * unit_ms;
    }
    assert!(ms > 0 && number == 0, "a span in seconds, minutes or hours: {span}");
    format!("{}ms", ms / FASTER)
}

#[test]
fn spans_are_shortened_and_nothing_else_is_changed() {
    let rule = "      - alert: A\n        expr: 'rate(a[5m]) / rate(b{c=\"5m\"}[1m30s]) > 10'\n        for: 90s\n        summary: 'for: 5m'\n";
    let quick = "      - alert: A\n        expr: 'rate(a[10000ms]) / rate(b{c=\"5m\"}[3000ms]) > 10'\n        for: 3000ms\n        summary: 'for: 5m'\n";
    assert_eq!(quicker(rule), quick);
}
