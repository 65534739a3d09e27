//! What happened in a world, on a page, for people.

use std::fmt::Write as _;

use serde_json::Value;

use crate::plan::Plan;
use crate::verdict::Verdict;

/// Lines of one part of the page.
const MAX_LINES: usize = 60;

/// Who did what when, around the promises that were broken.
pub fn page(plan: &Plan, verdict: &Verdict) -> String {
    let mut page = format!("{verdict}\n\n");
    // Writing into a string cannot fail.
    let _ = writeln!(page, "instances {}, profile {}", plan.instances.len(), profile(plan));
    for (number, node) in plan.nodes.iter().enumerate() {
        let _ = writeln!(
            page,
            "node {number}: {:?}, {} slots, {} ms a job",
            node.kind, node.slots, node.work_ms
        );
    }
    for (number, speaker) in plan.speakers.iter().enumerate() {
        let _ = writeln!(page, "speaker {number}: {:?}, {} targets", speaker.kind, speaker.targets);
    }
    page.push_str("\nfaults\n");
    for planned in &plan.faults {
        let _ = writeln!(page, "  {planned}");
    }
    page.push_str("\nwhat was done to instances\n");
    lines(&mut page, &verdict.journals.story, u64::MAX);
    for (name, lines_of) in concerned(verdict) {
        let _ = writeln!(page, "\n{name}");
        lines(&mut page, lines_of, moment(verdict));
    }
    page
}

fn profile(plan: &Plan) -> &'static str {
    if plan.fast { "fast" } else { "stable" }
}

/// The journals of those whom the broken promises name; of everybody, if they name nobody.
fn concerned(verdict: &Verdict) -> Vec<(String, &Vec<Value>)> {
    let named = |name: &str| {
        verdict.broken.iter().any(|broken| {
            let text = broken.text.as_str();
            text.starts_with(&format!("{name} ")) || text.starts_with(&format!("{name}:"))
        })
    };
    let number =
        |kind: &str, all: usize| (0..all).map(|n| format!("{kind} {n}")).collect::<Vec<_>>();
    let journals = &verdict.journals;
    let nodes = number("node", journals.nodes.len()).into_iter().zip(&journals.nodes);
    let speakers = number("speaker", journals.speakers.len()).into_iter().zip(&journals.speakers);
    let all: Vec<_> = nodes.chain(speakers).collect();
    let some: Vec<_> = all.iter().filter(|(name, _)| named(name)).cloned().collect();
    if some.is_empty() { all } else { some }
}

/// The moment that the first text names, in microseconds.
fn moment(verdict: &Verdict) -> u64 {
    let named = verdict.broken.iter().find_map(|broken| {
        let (_, rest) = broken.text.split_once(" at ")?;
        rest.split(' ').next()?.parse::<f64>().ok()
    });
    named.map_or(u64::MAX, |second| ((second + 2.0) * 1e6) as u64)
}

/// The last lines until then.
fn lines(page: &mut String, all: &[Value], until_us: u64) {
    let at = |line: &Value| line["at_us"].as_u64().unwrap_or(0);
    let until: Vec<&Value> = all.iter().filter(|line| at(line) <= until_us).collect();
    let left_out = until.len().saturating_sub(MAX_LINES);
    if left_out > 0 {
        let _ = writeln!(page, "  {left_out} lines before");
    }
    for line in &until[left_out..] {
        let _ = write!(
            page,
            "  {:>8.3}  {}",
            at(line) as f64 / 1e6,
            line["event"].as_str().unwrap_or("")
        );
        let fields = line.as_object().into_iter().flatten();
        for (name, value) in
            fields.filter(|(name, _)| !["at_us", "event", "planned"].contains(&name.as_str()))
        {
            let _ = write!(page, "  {name} {value}");
        }
        page.push('\n');
    }
}
