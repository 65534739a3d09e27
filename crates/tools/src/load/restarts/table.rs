//! What a person reads of it.

use super::tally::sum;
use super::{Outcome, Report};
use lingua_server::say;

const HEAD: [&str; 9] =
    ["case", "agents", "back", "session", "meanwhile", "refused", "missing", "until", "aim"];

pub(super) fn print(report: &Report) {
    say!("{}", text(report));
}

fn text(report: &Report) -> String {
    let mut lines = vec![
        format!(
            "{} nodes of {} slots, jobs of {} s, {} sentences at a time, {} s after the return",
            report.nodes,
            report.slots,
            seconds(report.job_ms),
            report.at_once,
            seconds(report.after_ms),
        ),
        row(HEAD.map(str::to_owned)),
    ];
    for one in &report.cases {
        lines.push(row(cells(one)));
        lines.extend(one.violations.iter().map(|wrong| format!("  WRONG: {wrong}")));
        let tally = &one.tally;
        for (when, reasons) in [
            ("before the fault", &tally.before),
            ("meanwhile", &tally.meanwhile),
            ("refused", &tally.refused),
            ("missing", &tally.missing),
        ] {
            if !reasons.is_empty() {
                let reasons = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
                lines.push(format!("  {when}: {}", reasons.collect::<Vec<_>>().join(", ")));
            }
        }
    }
    lines.join("\n")
}

fn cells(one: &Outcome) -> [String; 9] {
    let tally = &one.tally;
    [
        one.case.name().to_owned(),
        one.agents.name().to_owned(),
        format!("{} s", seconds(tally.back_after_ms)),
        tally.lost_with_session.to_string(),
        sum(&tally.meanwhile).to_string(),
        sum(&tally.refused).to_string(),
        sum(&tally.missing).to_string(),
        tally.until_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", seconds(ms))),
        if one.aim_met { "met" } else { "missed" }.to_owned(),
    ]
}

fn row(
    [case, agents, back, session, meanwhile, refused, missing, until, aim]: [String; 9],
) -> String {
    format!(
        "{case:<18} {agents:<9} {back:>7} {session:>8} {meanwhile:>10} {refused:>8} {missing:>8} {until:>7} {aim:>7}"
    )
}

fn seconds(ms: u64) -> String {
    format!("{:.1}", ms as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::super::tally::Tally;
    use super::*;
    use crate::cli::{Agents, Case};

    #[test]
    fn every_case_has_a_row_with_its_reasons_below() {
        let tally = Tally {
            back_after_ms: 5_430,
            refused: [("all_nodes_busy".to_owned(), 12)].into(),
            until_ms: Some(900),
            ..Tally::default()
        };
        let outcome = Outcome {
            case: Case::KillOne,
            agents: Agents::Existing,
            aim_met: tally.meets_aim(Agents::Existing),
            tally,
            violations: vec!["1 doubled".to_owned()],
        };
        let report = Report {
            nodes: 8,
            slots: 8,
            job_ms: 2_000,
            at_once: 40,
            after_ms: 1,
            cases: vec![outcome],
        };
        let text = text(&report);
        let row = text.lines().find(|line| line.starts_with("kill -9 of 1 of 2")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(6).collect();
        assert_eq!(cells, ["existing", "5.4", "s", "0", "0", "12", "0", "0.9", "s", "met"]);
        assert!(text.contains("  refused: 12 all_nodes_busy"), "{text}");
        assert!(text.contains("  WRONG: 1 doubled"), "{text}");
    }
}
