//! What is wrong, in order of weight, each with a stable code and a sentence.

use super::part::Troubled;
use super::view::{Finding, Point, Severity, Snapshot, Stats, Supply, Vain};

/// Findings of one kind that are told one by one; the rest is in the matrix and the lists.
const EACH: usize = 3;

/// Fewer jobs in a minute say nothing about a share of them.
const FEW: u64 = 20;

/// Words that wait in one inbox; it holds 10,000.
const DEEP: u64 = 2_000;

/// Findings that name nodes.
pub(super) const BREAKER_OPEN: &str = "breaker_open";
pub(super) const OVERDUE: &str = "nodes_overdue";
pub(super) const OVERLOADED: &str = "nodes_overloaded";
pub(super) const ORDERED: &str = "nodes_ordered";

/// How old a snapshot may be, in intervals.
pub(super) const OLD: u32 = 3;

/// Endings that are nobody's failure: of the caller's wish, or with nothing to say.
const NO_FAULT: [&str; 3] = ["ok", "empty", "JOB_CANCELLED"];

fn finding(
    code: &str,
    severity: Severity,
    subject: Option<&str>,
    count: Option<u64>,
    text: String,
) -> Finding {
    let subject = subject.map(str::to_owned);
    Finding { code: code.to_owned(), severity, subject, nodes: Vec::new(), count, text }
}

/// What all instances can tell. `minute` are the points of the last minute, `troubled` some nodes of those
/// that are counted.
pub(super) fn of_all(snapshot: &Snapshot, minute: &[Point], troubled: &Troubled) -> Vec<Finding> {
    use Severity::{Critical, Warning};
    let mut all = Vec::new();
    let nodes = &snapshot.nodes;
    if nodes.total == nodes.offline {
        let (severity, text) = match snapshot.work.sessions + snapshot.work.waiting {
            0 => (Warning, "No node is connected yet, so nothing can be translated."),
            _ => (Critical, "No node is connected, and sessions or jobs wait for one."),
        };
        all.push(finding("no_nodes", severity, None, None, text.into()));
    } else if nodes.ready == 0 {
        let text = "Nodes are connected, but none of them is ready for jobs.";
        all.push(finding("no_ready_node", Critical, None, None, text.into()));
    }
    let starved = snapshot.pairs.iter().filter(|pair| pair.supply == Supply::Starved);
    let mut starved: Vec<_> = starved.collect();
    starved.sort_by_key(|pair| std::cmp::Reverse(pair.waiting));
    for pair in starved.into_iter().take(EACH) {
        let direction = format!("{}->{}", pair.src, pair.tgt);
        let text = match pair.waiting {
            1 => format!("1 job for {direction} waits and no slot is free."),
            waiting => format!("{waiting} jobs for {direction} wait and no slot is free."),
        };
        all.push(finding("pair_starved", Critical, Some(&direction), Some(pair.waiting), text));
    }
    all.extend(rates(minute));
    for instance in snapshot.instances.iter().filter(|instance| instance.missing).take(EACH) {
        let id = instance.id.as_str();
        let text = format!("Instance {id} is missing: it stopped reporting without a shutdown.");
        all.push(finding("instance_missing", Warning, Some(id), None, text));
    }
    all.extend(unserved(&snapshot.unmet));
    all.extend(nodes_in_trouble(snapshot, troubled));
    if nodes.slots > 0 && nodes.used >= nodes.slots {
        let text = "Every slot of every node is taken.";
        all.push(finding("all_slots_taken", Warning, None, Some(nodes.slots), text.into()));
    }
    for instance in snapshot.instances.iter().filter(|instance| instance.inbox > DEEP) {
        let (id, inbox) = (instance.id.as_str(), instance.inbox);
        let text =
            format!("{inbox} messages from other instances wait in the inbox of instance {id}.");
        all.push(finding("inbox_deep", Warning, Some(id), Some(inbox), text));
    }
    all
}

/// Findings that count nodes, with the names of some.
fn nodes_in_trouble(snapshot: &Snapshot, troubled: &Troubled) -> Vec<Finding> {
    use Severity::{Ok, Warning};
    let nodes = &snapshot.nodes;
    let all = [
        (BREAKER_OPEN, Warning, nodes.breaker_open, "failed too often: jobs go elsewhere for now"),
        (OVERDUE, Warning, nodes.overdue, "with an overdue heartbeat"),
        (OVERLOADED, Warning, nodes.overloaded, "above a resource threshold"),
        (ORDERED, Ok, nodes.ordered, "drained or blocked by an administrator"),
    ];
    let find = |(code, severity, count, what): (&str, Severity, u64, &str)| {
        let named = troubled.get(code).cloned().unwrap_or_default();
        let who = if count == 1 { "node" } else { "nodes" };
        let names = match named.is_empty() {
            true => String::new(),
            false if (named.len() as u64) < count => format!(" ({}, …)", named.join(", ")),
            false => format!(" ({})", named.join(", ")),
        };
        let text = format!("{count} {who} {what}{names}.");
        Finding { nodes: named, ..finding(code, severity, None, Some(count), text) }
    };
    all.into_iter().filter(|(_, _, count, _)| *count > 0).map(find).collect()
}

/// Directions that were requested lately and that no node serves now, each once.
fn unserved(unmet: &[Vain]) -> Vec<Finding> {
    let mut told: Vec<&str> = Vec::new();
    for vain in unmet.iter().filter(|vain| !vain.served) {
        if !told.contains(&vain.direction.as_str()) {
            told.push(&vain.direction);
        }
    }
    let find = |direction: &str| {
        let text = format!("{direction} was requested lately and no node serves it.");
        finding("pair_unserved", Severity::Warning, Some(direction), None, text)
    };
    told.into_iter().take(EACH).map(find).collect()
}

/// What the last minute says.
fn rates(minute: &[Point]) -> Vec<Finding> {
    let sum = |of: &dyn Fn(&str) -> bool| -> u64 {
        let ended = minute.iter().flat_map(|point| &point.ended);
        ended.filter(|(code, _)| of(code)).map(|(_, count)| count).sum()
    };
    let mut all = Vec::new();
    let (ended, failed) = (sum(&|_| true), sum(&|code| !NO_FAULT.contains(&code)));
    let percent = (failed * 100).checked_div(ended).unwrap_or(0);
    if ended >= FEW && percent >= 5 {
        let severity = if percent >= 20 { Severity::Critical } else { Severity::Warning };
        let text = format!("{percent} % of the jobs of the last minute failed.");
        all.push(finding("error_rate", severity, None, Some(percent), text));
    }
    let busy = sum(&|code| code == "ALL_NODES_BUSY");
    if busy > 0 {
        let jobs = if busy == 1 { "1 job was".to_owned() } else { format!("{busy} jobs were") };
        let text =
            format!("{jobs} dropped within the last minute because no slot came free in time.");
        all.push(finding("queue_timeouts", Severity::Warning, None, Some(busy), text));
    }
    all
}

/// What only the instance that answers knows.
pub(super) fn of_one(stats: &Stats, draining: bool) -> Vec<Finding> {
    let mut all = Vec::new();
    if !stats.store_up {
        let text = "The store does not answer; new jobs and sessions are refused until it does.";
        all.push(finding("store_down", Severity::Critical, None, None, text.into()));
    } else if stats.stale {
        let text = "No new figures have arrived for a while; these are old.";
        all.push(finding("snapshot_old", Severity::Warning, None, None, text.into()));
    }
    if draining {
        let text = format!("Instance {} is stopping and takes no new work.", stats.instance);
        all.push(finding("draining", Severity::Warning, Some(&stats.instance), None, text));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::view::{InstanceView, NodeCounts, Pair};
    use super::*;

    fn codes(snapshot: &Snapshot, minute: &[Point]) -> Vec<(String, Severity)> {
        of_all(snapshot, minute, &Troubled::new())
            .into_iter()
            .map(|found| (found.code, found.severity))
            .collect()
    }

    fn well() -> Snapshot {
        let nodes = NodeCounts { total: 3, ready: 3, slots: 12, used: 4, ..NodeCounts::default() };
        Snapshot { nodes, ..Snapshot::default() }
    }

    fn minute(ended: &[(&str, u64)]) -> Vec<Point> {
        let mut point = Point::of(&well());
        point.ended = ended.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
        vec![point]
    }

    #[test]
    fn when_all_is_well_nothing_is_found() {
        let calm = [("ok", 1_000), ("empty", 400), ("JOB_CANCELLED", 200), ("JOB_TIMEOUT", 3)];
        assert_eq!(codes(&well(), &minute(&calm)), []);
    }

    #[test]
    fn without_nodes_it_depends_on_who_waits() {
        let found = codes(&Snapshot::default(), &[]);
        assert_eq!(found, [("no_nodes".to_owned(), Severity::Warning)]);
        let mut waited_for = Snapshot::default();
        waited_for.work.sessions = 1;
        assert_eq!(codes(&waited_for, &[]), [("no_nodes".to_owned(), Severity::Critical)]);
        let mut unable = well();
        unable.nodes.ready = 0;
        assert_eq!(codes(&unable, &[]), [("no_ready_node".to_owned(), Severity::Critical)]);
    }

    #[test]
    fn a_share_of_failures_counts_once_there_are_enough() {
        assert_eq!(codes(&well(), &minute(&[("JOB_TIMEOUT", 10)])), []);
        let some = [("ok", 90), ("JOB_TIMEOUT", 10)];
        assert_eq!(codes(&well(), &minute(&some)), [("error_rate".to_owned(), Severity::Warning)]);
        let many = [("ok", 70), ("ALL_NODES_BUSY", 30)];
        assert_eq!(
            codes(&well(), &minute(&many)),
            [
                ("error_rate".to_owned(), Severity::Critical),
                ("queue_timeouts".to_owned(), Severity::Warning)
            ]
        );
    }

    #[test]
    fn pairs_nodes_and_instances_are_named() {
        let mut snapshot = well();
        let pair = |src: &str, supply, waiting| Pair {
            src: src.into(),
            tgt: "zh".into(),
            supply,
            waiting,
            ..Pair::default()
        };
        snapshot.pairs = vec![
            pair("en", Supply::Starved, 12),
            pair("fr", Supply::Unserved, 0),
            pair("de", Supply::Unserved, 0),
        ];
        let vain = |direction: &str, tts, served| Vain { direction: direction.into(), tts, served };
        snapshot.unmet = vec![
            vain("fr->zh", true, false),
            vain("fr->zh", false, false),
            vain("de<->zh", true, false),
            vain("en->zh", true, true),
        ];
        snapshot.nodes.breaker_open = 2;
        snapshot.nodes.ordered = 1;
        snapshot.instances =
            vec![InstanceView { id: "b".into(), missing: true, ..InstanceView::default() }];
        let troubled = [("breaker_open".to_owned(), vec!["gpu-7".to_owned()])].into();
        let found = of_all(&snapshot, &[], &troubled);
        let broken = found.iter().find(|found| found.code == "breaker_open").unwrap();
        assert_eq!(broken.nodes, ["gpu-7"]);
        assert!(broken.text.contains("(gpu-7, …)"), "two are counted: {}", broken.text);
        let told: Vec<_> =
            found.iter().map(|f| (f.code.as_str(), f.subject.as_deref(), f.count)).collect();
        assert_eq!(
            told,
            [
                ("pair_starved", Some("en->zh"), Some(12)),
                ("instance_missing", Some("b"), None),
                ("pair_unserved", Some("fr->zh"), None),
                ("pair_unserved", Some("de<->zh"), None),
                ("breaker_open", None, Some(2)),
                ("nodes_ordered", None, Some(1)),
            ]
        );
        assert!(found.iter().all(|found| found.text.ends_with('.')));
    }
}
