//! The faults between instances that were found by reading, each as a world of its own: what happens is said, and
//! not left to chance. Each is lived through with several seeds, so that the order of things varies.

use lingua_sim::plan::NodeKind;
use lingua_sim::{Fault, Flaw, Options, Plan, Planned, Verdict, run_plan, story};

/// Orders of things that are tried.
const SEEDS: u64 = 6;

fn at(at_ms: u64, lasts_ms: u64, fault: Fault) -> Planned {
    Planned { at_ms, lasts_ms, fault }
}

/// The same on every instance.
fn everywhere(plan: &Plan, fault: impl Fn(usize) -> Planned) -> Vec<Planned> {
    (0..plan.instances.len()).map(fault).collect()
}

fn begin(plan: &mut Plan, faults: Vec<Planned>) {
    plan.faults.extend(faults);
    plan.faults.sort_by_key(|planned| planned.at_ms);
}

/// Lives through it with several seeds; every promise is kept.
fn all_kept(plan: &Plan, options: &Options) -> Vec<Verdict> {
    let live = |seed| {
        let plan = Plan { seed, ..plan.clone() };
        let verdict = run_plan(&plan, options);
        assert!(verdict.is_clean(), "{}", story::page(&plan, &verdict));
        assert!(verdict.said > 5, "something is said: {verdict}");
        verdict
    };
    (0..SEEDS).map(live).collect()
}

/// And every sentence has a result.
fn all_heard(plan: &Plan) -> Vec<Verdict> {
    let verdicts = all_kept(plan, &Options::default());
    for verdict in &verdicts {
        let missing = &verdict.missing;
        let plan = Plan { seed: verdict.seed, ..plan.clone() };
        assert!(missing.is_empty(), "{missing:?} {}", story::page(&plan, verdict));
    }
    verdicts
}

/// How often a line of the nodes' journals says this.
fn count(verdict: &Verdict, event: &str) -> usize {
    verdict.journals.nodes.iter().flatten().filter(|line| line["event"] == event).count()
}

fn of_kind(mut plan: Plan, kind: NodeKind) -> Plan {
    plan.nodes.iter_mut().for_each(|node| node.kind = kind);
    plan
}

/// C1: A message is acted on twice.
#[test]
fn a_message_that_is_read_twice_is_acted_on_once() {
    let mut plan = of_kind(Plan::calm(3, 2, 3), NodeKind::Existing);
    let lost = |instance| Fault::Calls { instance, call: "Inboxes.ack".into(), how: Flaw::Lost };
    let lost = everywhere(&plan, |instance| at(4_000, 12_000, lost(instance)));
    begin(&mut plan, lost);
    for moment in [6_000, 8_500, 11_000, 13_500] {
        let reset = |instance| at(moment, 50, Fault::StoreReset { instance });
        let resets = everywhere(&plan, reset);
        begin(&mut plan, resets);
    }
    let again = everywhere(&plan, |instance| at(4_000, 12_000, Fault::Redeliver { instance }));
    begin(&mut plan, again);
    for verdict in all_kept(&plan, &Options::default()) {
        assert_eq!(count(&verdict, "duplicate"), 0, "{verdict}");
    }
}

/// C2: A message is tried once.
#[test]
fn a_message_that_does_not_get_through_is_sent_again() {
    for how in [Flaw::Down, Flaw::Lost, Flaw::Unanswered] {
        let mut plan = of_kind(Plan::calm(3, 2, 3), NodeKind::Existing);
        for moment in [4_000, 7_000, 10_000, 13_000] {
            let send =
                |instance| Fault::Call { instance, call: "Inboxes.send".into(), how, times: 1 };
            let sends = everywhere(&plan, |instance| at(moment, 0, send(instance)));
            begin(&mut plan, sends);
        }
        all_heard(&plan);
    }
}

/// C4: Who reads the fleet does not say that it lives.
#[test]
fn who_reads_the_fleet_says_meanwhile_that_it_lives() {
    let mut plan = Plan::calm(3, 2, 2);
    let slow = |instance| Fault::Calls { instance, call: "NodeFeed.shard".into(), how: Flaw::Late };
    let slow = everywhere(&plan, |instance| at(3_000, 15_000, slow(instance)));
    begin(&mut plan, slow);
    let reset = everywhere(&plan, |instance| at(4_000, 50, Fault::StoreReset { instance }));
    begin(&mut plan, reset);
    for verdict in all_kept(&plan, &Options { keep_trace: true }) {
        for instance in 0..3 {
            let said = format!(" i{instance} Presence.announce ok");
            let moments = verdict.trace.iter().filter(|line| line.contains(&said));
            let second = |line: &String| line.split_whitespace().next()?.parse::<f64>().ok();
            let moments: Vec<f64> = moments.filter_map(second).collect();
            let longest = moments.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
            assert!(longest < 3.0, "{longest} s without a word: {verdict}");
        }
    }
}

/// C5: What was said goes through the store.
#[test]
fn what_is_said_between_instances_does_not_go_through_the_store() {
    let mut plan = Plan::calm(3, 2, 4);
    plan.nodes.iter_mut().for_each(|node| node.fails = 300);
    let jobs: u64 = all_kept(&plan, &Options::default()).iter().map(|verdict| verdict.jobs).sum();
    assert!(jobs > 100, "{jobs}");
}

/// C6: A node is trusted because it is unknown.
#[test]
fn a_node_that_works_gets_no_second_job_when_store_and_process_are_lost_together() {
    for kind in [NodeKind::Modern, NodeKind::Plain] {
        let mut plan = of_kind(Plan::calm(1, 1, 3), kind);
        plan.nodes[0].slots = 1;
        plan.nodes[0].work_ms = 4_000;
        plan.settle_ms = 60_000;
        let kill = at(7_000, 300, Fault::Kill { instance: 0, same_name: true });
        begin(&mut plan, vec![kill, at(7_100, 0, Fault::Flush)]);
        for verdict in all_kept(&plan, &Options::default()) {
            assert_eq!(count(&verdict, "breach"), 0, "{verdict}");
        }
    }
}

/// C7: A result comes before its attempt is adopted.
#[test]
fn a_result_that_is_quicker_than_its_adoption_is_not_lost() {
    let mut plan = of_kind(Plan::calm(3, 1, 3), NodeKind::Plain);
    plan.nodes[0].slots = 4;
    plan.nodes[0].work_ms = 700;
    let kills = [(5_000, 0), (10_300, 1), (15_300, 2)];
    let kill = |(moment, instance)| at(moment, 800, Fault::Kill { instance, same_name: false });
    begin(&mut plan, kills.map(kill).to_vec());
    plan.settle_ms = 60_000;
    for verdict in all_kept(&plan, &Options::default()) {
        assert!(!verdict.missing.contains_key("gap_timeout"), "{verdict} {:?}", verdict.missing);
    }
}

/// C8: A newer token is newer without the store, too.
#[test]
fn an_instance_without_the_store_tells_no_ending_again_that_another_told() {
    let mut plan = Plan::calm(2, 2, 3);
    let cut = Fault::StoreCut { instance: 0, same_connection: false };
    begin(&mut plan, vec![at(5_000, 12_000, cut)]);
    for moment in (5_500..16_000).step_by(900) {
        let cuts = (0..3).map(|speaker| at(moment, 0, Fault::CutClient { speaker }));
        begin(&mut plan, cuts.collect());
    }
    all_kept(&plan, &Options::default());
}

/// C9: The oldest secret by anybody's clock counts.
#[test]
fn an_instance_with_a_slow_clock_joins_and_no_job_in_flight_is_lost() {
    let mut plan = Plan::calm(3, 3, 3);
    plan.instances[2].skew_ms = -40_000;
    let kill = Fault::Kill { instance: 2, same_name: false };
    begin(&mut plan, vec![at(6_000, 1_000, kill)]);
    all_heard(&plan);
}

/// C10: A late answer is taken for a loss.
#[test]
fn a_late_answer_on_the_same_connection_makes_nobody_say_everything_again() {
    let calm = Plan::calm(3, 4, 2);
    let mut late = calm.clone();
    for moment in [5_000, 9_000, 13_000] {
        let slow = |instance| at(moment, 700, Fault::StoreLate { instance, by_ms: 600 });
        let slow = everywhere(&late, slow);
        begin(&mut late, slow);
    }
    let calls = |verdict: &Verdict, call: &str| verdict.calls.get(call).copied().unwrap_or(0);
    for (calm, late) in
        all_kept(&calm, &Options::default()).iter().zip(&all_kept(&late, &Options::default()))
    {
        assert_eq!(calls(late, "NodeRecords.put"), calls(calm, "NodeRecords.put"), "{late}");
        // One reading of everything has more shards than that.
        let read = |verdict| calls(verdict, "NodeFeed.shard");
        assert!(read(late).abs_diff(read(calm)) < 32, "{} and {}", read(late), read(calm));
    }
}

/// C11: All full nodes are asked for again and again.
#[test]
fn while_all_is_full_nobody_asks_for_slots() {
    let mut plan = Plan::calm(3, 2, 5);
    plan.nodes.iter_mut().for_each(|node| (node.slots, node.work_ms) = (1, 900));
    for verdict in all_kept(&plan, &Options::default()) {
        let asked = verdict.calls.get("SlotLeases.usage").copied().unwrap_or(0);
        assert!(asked <= 5, "{asked} times: {verdict}");
    }
}

/// S5: Epochs go down.
#[test]
fn a_promoted_server_whose_clock_is_behind_costs_no_session() {
    let mut plan = Plan::calm(2, 2, 3);
    begin(&mut plan, vec![at(6_000, 400, Fault::Failover { skew_ms: -30_000 })]);
    let cuts = (0..3).map(|speaker| at(8_000, 0, Fault::CutClient { speaker }));
    begin(&mut plan, cuts.collect());
    plan.settle_ms = 60_000;
    all_kept(&plan, &Options::default());
}

/// A client gives its attempts up while its instance stands still; three of them spent its token once.
#[test]
fn attempts_that_were_given_up_cost_no_session() {
    let mut plan = Plan::calm(2, 2, 3);
    let kill = Fault::Kill { instance: 0, same_name: false };
    begin(&mut plan, vec![at(6_000, 11_500, Fault::Stop { instance: 1 }), at(6_500, 4_000, kill)]);
    all_kept(&plan, &Options::default());
}
