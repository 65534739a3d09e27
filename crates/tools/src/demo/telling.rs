//! What is told of the speakers' sentences: a line now and then, and a sentence at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use lingua_lab::meter::{Counts, Recent};
use lingua_lab::{CrowdReport, Meter};

/// How it goes, in a line.
pub(super) fn line(meter: &Meter, speakers: usize, (connected, nodes): (usize, usize)) -> String {
    let Recent { per_second, p50, p99 } = meter.recent();
    let seconds = |took: Option<Duration>| {
        took.map_or_else(|| "-".to_owned(), |took| format!("{:.1} s", took.as_secs_f64()))
    };
    format!(
        "{per_second:.1} jobs/s, p50 {}, p99 {}, {speakers} speakers, {connected}/{nodes} nodes; {}",
        seconds(p50),
        seconds(p99),
        endings(&meter.counts().endings),
    )
}

/// How it went, in a sentence or two.
pub(super) fn summary(told: &CrowdReport, counts: &Counts) -> String {
    let report = &told.report;
    let wrong: Vec<String> =
        report.counts.iter().map(|(kind, count)| format!("{count} {}", kind.word())).collect();
    let wrong = match wrong.is_empty() {
        true => "nothing lost, duplicated or out of order".to_owned(),
        false => wrong.join(", "),
    };
    let unable = match told.unrecoverable {
        0 => String::new(),
        count => format!("; {count} were lost with old clients, which cannot resume"),
    };
    format!(
        "{} sentences in {} sessions ({}), {} text jobs, {} broken connections: {wrong}{unable}.",
        report.said,
        report.sessions,
        endings(&counts.endings),
        counts.other_jobs,
        counts.reconnects,
    )
}

fn endings(endings: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> = endings.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    if each.is_empty() { "no endings".to_owned() } else { each.join(", ") }
}

#[cfg(test)]
mod tests {
    use lingua_lab::speaker::Kind;

    use super::*;

    #[test]
    fn a_line_says_how_it_goes_also_before_anything_came_back() {
        let meter = Meter::default();
        assert_eq!(
            line(&meter, 0, (3, 4)),
            "0.0 jobs/s, p50 -, p99 -, 0 speakers, 3/4 nodes; no endings"
        );
        meter.other_job();
        assert!(
            line(&meter, 2, (4, 4)).starts_with("1.0 jobs/s, p50 -"),
            "{}",
            line(&meter, 2, (4, 4))
        );
    }

    #[test]
    fn a_summary_names_what_went_wrong_and_what_was_meant() {
        let mut told = CrowdReport::default();
        let endings = [("result".to_owned(), 7), ("all_nodes_busy".to_owned(), 1)];
        let counts = Counts { endings: endings.into(), reconnects: 2, ..Counts::default() };
        let good = summary(&told, &counts);
        assert!(good.contains("(all_nodes_busy 1, result 7)"), "{good}");
        assert!(
            good.ends_with("2 broken connections: nothing lost, duplicated or out of order."),
            "{good}"
        );
        told.report.counts.insert(Kind::Doubled, 3);
        told.unrecoverable = 4;
        let bad = summary(&told, &counts);
        assert!(bad.contains("3 doubled; 4 were lost with old clients"), "{bad}");
    }
}
