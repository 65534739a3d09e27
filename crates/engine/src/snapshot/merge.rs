//! Parts become a snapshot.

use std::collections::BTreeMap;

use lingua_core::eligibility::Route;
use lingua_store::Instance;

use super::part::{MAX_VAIN, Part};
use super::view::{Latency, NodeCounts, Pair, Snapshot, Supply, Vain};
use crate::metrics::Counts;
use crate::pairs::PairView;

/// Pairs told.
const MAX_PAIRS: usize = 1_024;

/// Failures told.
const MAX_FAILURES: usize = 50;

/// An instance that has not been heard of for so long is no longer shown as missing.
const MISSED_FOR_MS: u64 = 120_000;

/// Who makes a snapshot, and when.
pub(super) struct Maker {
    pub at_ms: u64,
    pub fence: u64,
    pub leader: String,
    pub interval_ms: u64,
}

/// How the leader sees the fleet, which is everybody's.
pub(super) struct Fleet<'a> {
    pub pairs: &'a [PairView],
    /// Whether a node that takes jobs serves this direction, with speech if the second is true.
    pub serves: &'a (dyn Fn(Route, bool) -> bool + Sync),
}

/// Leaves out the parts of instances that died: the store keeps them for a while longer, and their nodes
/// and people are counted by whoever has them now.
pub(super) fn of_living(mut parts: Vec<Part>, living: &[&Instance]) -> Vec<Part> {
    parts.retain(|part| living.iter().any(|instance| part.instance.is(instance)));
    parts
}

/// Puts the parts of the living instances together. `before` is the snapshot before this one, to know
/// who is missing.
pub(super) fn merge(
    maker: Maker,
    parts: &[Part],
    fleet: &Fleet<'_>,
    before: Option<&Snapshot>,
) -> Snapshot {
    let Maker { at_ms, fence, leader, interval_ms } = maker;
    let mut snapshot = Snapshot { at_ms, fence, leader, interval_ms, ..Snapshot::default() };
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut dispatch, mut job, mut sentence) =
        (Counts::default(), Counts::default(), Counts::default());
    for part in parts {
        let work = &mut snapshot.work;
        grow(&mut work.open_jobs, part.instance.open_jobs);
        grow(&mut work.waiting, part.instance.waiting);
        grow(&mut work.sessions, part.instance.sessions);
        grow(&mut work.connected, part.connected);
        grow(&mut work.retries, part.retries);
        let ended: f64 = part.ended.values().map(|count| *count as f64).sum();
        work.ended_per_s += ended * 1_000.0 / part.interval_ms.max(1) as f64;
        for (into, from) in [
            (&mut work.ended, &part.ended),
            (&mut work.endings, &part.endings),
            (&mut work.ended_total, &part.ended_total),
        ] {
            for (code, count) in from {
                grow(into.entry(code.clone()).or_default(), *count);
            }
        }
        add(&mut snapshot.nodes, &part.nodes);
        dispatch.add(&part.dispatch);
        job.add(&part.job);
        sentence.add(&part.sentence);
        for (direction, waiting) in &part.lines {
            grow(lines.entry(direction).or_default(), *waiting);
        }
        snapshot.failures.extend(part.failures.iter().cloned());
        for vain in &part.unmet {
            let vain = Vain { served: is_served(vain, fleet), ..vain.clone() };
            if !snapshot.unmet.contains(&vain) {
                snapshot.unmet.push(vain);
            }
        }
    }
    snapshot.work.ended_per_s = (snapshot.work.ended_per_s * 100.0).round() / 100.0;
    snapshot.unmet.truncate(MAX_VAIN);
    snapshot.failures.sort_by_key(|failure| std::cmp::Reverse(failure.at_ms));
    snapshot.failures.truncate(MAX_FAILURES);
    let (dispatch, job) = (dispatch.quantiles(), job.quantiles());
    snapshot.latency = Latency { dispatch, job, sentence: sentence.quantiles() };
    snapshot.instances = instances(at_ms, parts, before);
    snapshot.pairs = matrix(fleet.pairs, &lines, &snapshot);
    snapshot
}

/// One that cannot be read, because it is of a later version, is served by nobody here.
fn is_served(vain: &Vain, fleet: &Fleet<'_>) -> bool {
    vain.direction.parse().is_ok_and(|route| (fleet.serves)(route, vain.tts))
}

/// Adds, up to what fits: an instance may say anything.
fn grow(to: &mut u64, by: u64) {
    *to = to.saturating_add(by);
}

fn add(to: &mut NodeCounts, part: &NodeCounts) {
    grow(&mut to.total, part.total);
    grow(&mut to.ready, part.ready);
    grow(&mut to.registering, part.registering);
    grow(&mut to.degraded, part.degraded);
    grow(&mut to.draining, part.draining);
    grow(&mut to.offline, part.offline);
    grow(&mut to.breaker_open, part.breaker_open);
    grow(&mut to.overdue, part.overdue);
    grow(&mut to.overloaded, part.overloaded);
    grow(&mut to.ordered, part.ordered);
    grow(&mut to.slots, part.slots);
    grow(&mut to.used, part.used);
}

fn instances(
    at_ms: u64,
    parts: &[Part],
    before: Option<&Snapshot>,
) -> Vec<super::view::InstanceView> {
    let mut all: Vec<_> = parts.iter().map(|part| part.instance.clone()).collect();
    for known in before.iter().flat_map(|before| &before.instances) {
        let heard = all.iter().any(|instance| instance.id == known.id);
        let lately = at_ms.saturating_sub(known.last_seen_ms) < MISSED_FOR_MS;
        // One that drained is gone as it said it would.
        if !heard && !known.draining && lately {
            let leads = Vec::new();
            all.push(super::view::InstanceView { missing: true, leads, ..known.clone() });
        }
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

fn matrix(pairs: &[PairView], lines: &BTreeMap<&str, u64>, snapshot: &Snapshot) -> Vec<Pair> {
    let mut told: BTreeMap<(String, String), Pair> = BTreeMap::new();
    for pair in pairs {
        let (src, tgt) = (pair.src.to_string(), pair.tgt.to_string());
        let cell = Pair {
            nodes: pair.nodes as u64,
            ready: pair.ready as u64,
            speaking: pair.speaking as u64,
            slots: pair.slots,
            free: pair.free,
            not_open: pair.not_open,
            src: src.clone(),
            tgt: tgt.clone(),
            ..Pair::default()
        };
        told.insert((src, tgt), cell);
    }
    let asked = snapshot.unmet.iter().map(|vain| (vain.direction.as_str(), 0));
    for (direction, waiting) in asked.chain(lines.iter().map(|(line, n)| (*line, *n))) {
        let Ok(route) = direction.parse::<Route>() else { continue };
        // A job in which either language may be spoken waits for a node of both directions.
        for (src, tgt) in route.directions() {
            let (src, tgt) = (src.to_string(), tgt.to_string());
            let cell = told.entry((src.clone(), tgt.clone()));
            let cell = cell.or_insert_with(|| Pair { src, tgt, ..Pair::default() });
            grow(&mut cell.waiting, waiting);
        }
    }
    // What needs no translation is no pair, unless somebody waits for it all the same.
    told.retain(|(src, tgt), pair| src != tgt || pair.waiting > 0);
    let mut told: Vec<Pair> = told.into_values().collect();
    for pair in &mut told {
        pair.supply = supply(pair);
    }
    if told.len() > MAX_PAIRS {
        told.sort_by_key(|pair| {
            (std::cmp::Reverse((pair.supply as u8, pair.waiting)), std::cmp::Reverse(pair.nodes))
        });
        told.truncate(MAX_PAIRS);
        told.sort_by(|a, b| (&a.src, &a.tgt).cmp(&(&b.src, &b.tgt)));
    }
    told
}

fn supply(pair: &Pair) -> Supply {
    if pair.ready == 0 {
        Supply::Unserved
    } else if pair.free == 0 && pair.waiting > 0 {
        Supply::Starved
    } else if pair.free == 0 && pair.not_open == 0 {
        Supply::Full
    } else if pair.free * 5 < pair.slots {
        Supply::Tight
    } else {
        Supply::Good
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Failure, InstanceView, Vain};
    use super::*;

    fn maker(at_ms: u64) -> Maker {
        Maker { at_ms, fence: 1, leader: "a".into(), interval_ms: 5_000 }
    }

    fn fleet(pairs: &[PairView]) -> Fleet<'_> {
        Fleet { pairs, serves: &|_, _| false }
    }

    fn part(id: &str, ok: u64) -> Part {
        Part {
            instance: InstanceView {
                id: id.into(),
                last_seen_ms: 1_000,
                open_jobs: 2,
                waiting: 3,
                ..InstanceView::default()
            },
            interval_ms: 5_000,
            ended: [("ok".to_owned(), ok)].into(),
            nodes: NodeCounts { total: 2, ready: 1, slots: 8, used: 3, ..NodeCounts::default() },
            lines: vec![("en->zh".into(), 3)],
            unmet: vec![Vain { direction: "xx->yy".into(), tts: true, served: false }],
            ..Part::default()
        }
    }

    fn pair(src: &str, tgt: &str, ready: usize, slots: u64, free: u64) -> PairView {
        PairView {
            src: src.parse().unwrap(),
            tgt: tgt.parse().unwrap(),
            nodes: 2,
            ready,
            speaking: ready,
            slots,
            free,
            not_open: 0,
            regions: Default::default(),
            waiting: 0,
        }
    }

    #[test]
    fn what_instances_counted_is_added() {
        let snapshot = merge(maker(1_000), &[part("b", 10), part("a", 5)], &fleet(&[]), None);
        assert_eq!(snapshot.work.ended["ok"], 15);
        assert_eq!(snapshot.work.ended_per_s, 3.0);
        assert_eq!((snapshot.work.open_jobs, snapshot.work.waiting), (4, 6));
        assert_eq!((snapshot.nodes.total, snapshot.nodes.slots, snapshot.nodes.used), (4, 16, 6));
        let ids: Vec<_> = snapshot.instances.iter().map(|i| i.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(snapshot.unmet.len(), 1, "the same wish of two instances is one");
    }

    #[test]
    fn a_pair_says_how_well_it_is_served() {
        let pairs = [
            pair("en", "zh", 1, 8, 0),
            pair("zh", "en", 1, 8, 0),
            pair("en", "fr", 1, 10, 1),
            pair("fr", "en", 1, 10, 5),
            pair("de", "en", 0, 0, 0),
        ];
        let snapshot = merge(maker(1), &[part("a", 1), part("b", 1)], &fleet(&pairs), None);
        let supply = |src: &str, tgt: &str| {
            let found = snapshot.pairs.iter().find(|p| p.src == src && p.tgt == tgt).unwrap();
            (found.supply, found.waiting)
        };
        assert_eq!(supply("en", "zh"), (Supply::Starved, 6));
        assert_eq!(supply("zh", "en"), (Supply::Full, 0));
        assert_eq!(supply("en", "fr"), (Supply::Tight, 0));
        assert_eq!(supply("fr", "en"), (Supply::Good, 0));
        assert_eq!(supply("de", "en"), (Supply::Unserved, 0));
        assert_eq!(supply("xx", "yy"), (Supply::Unserved, 0), "asked for in vain");
    }

    #[test]
    fn a_direction_of_two_ways_is_two_pairs_and_no_language_of_its_own() {
        let pairs = [pair("de", "en", 4, 8, 8), pair("en", "de", 4, 8, 8)];
        let vain = |direction: &str| Vain { direction: direction.into(), tts: true, served: false };
        let mut one = part("a", 1);
        one.lines = vec![("de<->en".into(), 2), ("de->en".into(), 1)];
        one.unmet = vec![vain("de<->en"), vain("de<->fr")];
        let serves = |route: Route, speech: bool| speech && route.to_string() == "de<->en";
        let fleet = Fleet { pairs: &pairs, serves: &serves };
        let snapshot = merge(maker(1), &[one], &fleet, None);
        let told = snapshot.pairs.iter().map(|p| (p.src.as_str(), p.tgt.as_str(), p.waiting));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [("de", "en", 3), ("de", "fr", 0), ("en", "de", 2), ("fr", "de", 0)]);
        let served: Vec<_> = snapshot.unmet.iter().map(|vain| vain.served).collect();
        assert_eq!(served, [true, false], "the warning goes when the direction is served again");
    }

    #[test]
    fn what_a_dead_instance_counted_is_not_added() {
        let life = |id: &str, boot| Instance { id: id.parse().unwrap(), boot };
        let told = |instance: &Instance| {
            let mut part = part(instance.id.as_str(), 1);
            part.instance.boot = InstanceView::boot_of(instance);
            part
        };
        let (one, before, after) = (life("a", 1), life("b", 2), life("b", 3));
        let parts = of_living(vec![told(&one), told(&before)], &[&one, &after]);
        let snapshot = merge(maker(1), &parts, &fleet(&[]), None);
        assert_eq!((snapshot.nodes.ready, snapshot.work.open_jobs), (1, 2));
    }

    #[test]
    fn who_went_without_a_word_is_missing_for_a_while() {
        let first = merge(maker(1_000), &[part("a", 1), part("b", 1)], &fleet(&[]), None);
        let second = merge(maker(6_000), &[part("a", 1)], &fleet(&[]), Some(&first));
        assert!(second.instances[1].missing && !second.instances[0].missing);
        let later = merge(maker(200_000), &[part("a", 1)], &fleet(&[]), Some(&second));
        assert_eq!(later.instances.len(), 1);
        let mut leaving = part("b", 1);
        leaving.instance.draining = true;
        let first = merge(maker(1_000), &[part("a", 1), leaving], &fleet(&[]), None);
        let second = merge(maker(6_000), &[part("a", 1)], &fleet(&[]), Some(&first));
        assert_eq!(second.instances.len(), 1, "one that drained is gone as it said");
    }

    #[test]
    fn the_largest_snapshot_fits_into_the_store() {
        let long = "x".repeat(64);
        let tags: Vec<lingua_core::Lang> = (0..33u8)
            .map(|n| {
                format!("{}{}-Latn-001", (b'a' + n / 26) as char, (b'a' + n % 26) as char)
                    .parse()
                    .unwrap()
            })
            .collect();
        let pairs: Vec<PairView> = tags
            .iter()
            .flat_map(|src| tags.iter().map(|tgt| (*src, *tgt)))
            .map(|(src, tgt)| PairView { src, tgt, ..pair("en", "zh", 1, 1 << 40, 1 << 40) })
            .collect();
        let failure = Failure {
            at_ms: u64::MAX,
            job_id: long.clone(),
            instance: long.clone(),
            code: long.clone(),
            direction: long.clone(),
            node_id: Some(long.clone()),
            attempts: u32::MAX,
        };
        let mut one = part(&long, u64::MAX / 1_000);
        one.failures = vec![failure; 32];
        one.ended = (0..64).map(|n| (format!("{n}{long}"), u64::MAX / 1_000)).collect();
        let part_bytes = serde_json::to_vec(&one).unwrap().len();
        assert!(part_bytes < lingua_store::snapshots::MAX_PART_BYTES, "{part_bytes}");
        let parts = vec![one; 100];
        let bytes =
            serde_json::to_vec(&merge(maker(1), &parts, &fleet(&pairs), None)).unwrap().len();
        assert!(bytes < lingua_store::snapshots::MAX_PUBLISHED_BYTES, "{bytes}");
    }
}
