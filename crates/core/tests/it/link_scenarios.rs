//! What becomes of a node's attempts, event by event.

mod node;
pub mod reports;
mod store_answers;

use std::sync::Arc;
use std::time::Duration;

use lingua_core::Moment;
use lingua_core::link::event::{Answer, Heartbeat, MessageKind, Registered};
use lingua_core::link::{
    Arrival, BreakerState, Event, GRACE_FOR_LATE_RESULTS, NewAttempt, Percents, Supports,
};
use lingua_core::node::{Health, Order};
use lingua_core::slots::Confirmed;

use node::{Node, OURS, token};

#[test]
fn a_node_gets_no_more_attempts_than_it_has_slots() {
    let mut node = Node::new();
    assert_eq!(node.assign(1), ["NotConnected"]);
    node.register(OURS, None);
    assert_eq!((node.assign(1), node.assign(2)), (vec!["assign".into()], vec!["assign".into()]));
    assert_eq!(node.assign(3), ["Full"]);
    assert_eq!(node.says(1, MessageKind::Success), ["tell result"]);
    assert_eq!(node.assign(3), ["assign"], "the node has said that it has room");
}

#[test]
fn the_slot_of_a_cancelled_attempt_is_free_once_the_cancel_is_on_the_connection() {
    let (job, attempt, reason) = (token(1).job, 1, "given_up");
    let mut node = Node::new();
    node.register(OURS, None);
    node.assign(1);
    let slot = Some("slot");
    let given_up = Event::GivenUp { job, attempt, reason, slot };
    assert_eq!(node.feed(given_up), ["cancel given_up, then release"]);
    assert_eq!(node.feed(Event::CancelSent { token: token(1) }), ["release slot"]);
    assert!(node.feed(Event::CancelSent { token: token(1) }).is_empty(), "once");

    let mut deaf = Node::new();
    deaf.register(Supports { cancel: false, ..OURS }, None);
    deaf.assign(1);
    let given_up = Event::GivenUp { job, attempt, reason, slot };
    assert_eq!(deaf.feed(given_up), ["cancel given_up"]);
    assert_eq!(deaf.says(1, MessageKind::Success), ["stale result", "release slot"]);
}

#[test]
fn what_a_node_cannot_be_told_to_stop_keeps_its_slot_until_its_lease_lapses() {
    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.assign(1);
    let (job, attempt) = (token(1).job, 1);
    node.feed(Event::GivenUp { job, attempt, reason: "given_up", slot: Some("slot") });
    assert!(node.wait(Duration::from_millis(2_999)).is_empty());
    assert_eq!(node.wait(Duration::from_millis(1)), ["freed slot"]);
}

#[test]
fn what_a_node_does_not_name_after_a_reconnect_is_dropped_unless_its_result_comes() {
    for late_result in [true, false] {
        let mut node = Node::new();
        node.register(OURS, None);
        node.assign(1);
        node.says(1, MessageKind::Ack);
        let epoch = node.epoch;
        assert_eq!(node.feed(Event::Disconnected { epoch }), ["tell gone"]);
        node.answer(Answer::Failed);
        assert_eq!(node.register(OURS, Some(Vec::new())), ["tell back"]);
        node.answer(Answer::Kept { confirmed: true });
        assert!(node.answer(Answer::Confirmed(Confirmed::default())).is_empty());
        if late_result {
            assert_eq!(node.says(1, MessageKind::Success), ["tell result"]);
            assert!(node.wait(GRACE_FOR_LATE_RESULTS).is_empty());
        } else {
            assert_eq!(node.wait(GRACE_FOR_LATE_RESULTS), ["tell dropped"]);
        }
    }
}

#[test]
fn what_the_store_took_back_by_a_report_is_dropped() {
    let mut node = Node::new();
    node.register(OURS, None);
    node.assign(1);
    node.says(1, MessageKind::Ack);
    node.assign(2);
    node.now = node.now + Duration::from_secs(5);
    node.says(2, MessageKind::Ack);
    let dropped = Confirmed { dropped: vec![token(1), token(2)], ..Confirmed::default() };
    // The node spoke of the second at the moment of the report: it may have crossed with it.
    assert_eq!(node.reports(&[], dropped), ["tell dropped"]);
    let unknown = Confirmed { unknown: vec![token(2)], ..Confirmed::default() };
    assert_eq!(node.reports(&[2], unknown), ["cancel no_lease", "tell dropped", "breaker opened"]);
}

/// The instance of a job was killed; the node registers elsewhere and answers before the job's new
/// owner has said that it wants to hear of it.
#[test]
pub fn a_result_that_is_quicker_than_its_adoption_is_told_when_the_job_is_known() {
    let adopted = || NewAttempt {
        token: token(1),
        turn: "turn".to_owned(),
        index: 1,
        listener: "job",
        lease: Duration::from_secs(15),
        wanted_until: None,
    };
    let mut node = Node::new();
    node.register(Supports::default(), None);
    assert_eq!(node.says(1, MessageKind::Success), ["stale result"]);
    node.now = node.now + Duration::from_secs(1);
    assert_eq!(node.feed(Event::Adopted(adopted())), ["tell result"]);

    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.says(1, MessageKind::Success);
    assert_eq!(node.wait(Duration::from_millis(1_500)), ["orphaned"], "nobody wants it");
}

#[test]
fn unknown_jobs_are_looked_up_within_a_rate_and_a_longer_list_is_refused_whole() {
    let mut node = Node::new();
    node.register(OURS, None);
    let list = |jobs: u32| (100..100 + jobs).collect::<Vec<u32>>();
    let report = |node: &mut Node, jobs: u32| {
        let running = list(jobs).iter().map(|n| (token(*n).job, 1)).collect();
        let beat = Heartbeat { running: Some(running), ..Heartbeat::default() };
        let epoch = node.epoch;
        node.feed(Event::Heartbeat { epoch, beat })
    };
    assert_eq!(report(&mut node, 11), ["11 unknown are too many"]);
    node.answer(Answer::Kept { confirmed: true });
    assert!(report(&mut node, 10).is_empty());
    assert_eq!(node.answer(Answer::Kept { confirmed: true }), ["look 10 up"]);
    let stopped = node.answer(Answer::Found(vec![None; 10]));
    assert_eq!(stopped, vec!["cancel unknown"; 10]);
    assert_eq!(report(&mut node, 1), ["1 unknown are too many"]);
}

#[test]
fn one_break_of_the_connection_counts_once_against_the_node() {
    let mut node = Node::new();
    node.register(OURS, None);
    (1..3).for_each(|n| drop(node.assign(n)));
    let epoch = node.epoch;
    node.feed(Event::Disconnected { epoch });
    for n in 1..3 {
        node.feed(Event::AttemptFailed { job: token(n).job, attempt: 1, failed: None });
    }
    assert_eq!(node.machine.breaker(), BreakerState::Closed, "two jobs, one break");
}

#[test]
fn an_older_agent_ends_the_earlier_parts_of_a_turn_with_the_closing_one() {
    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.assign(1);
    node.assign(2);
    assert_eq!(node.says(2, MessageKind::Success), ["tell result", "tell turn closed"]);
}

/// A node whose owner made it worse: it fails everything.
fn failing() -> Node {
    let mut node = Node::new();
    node.register(OURS, None);
    node
}

fn fails(node: &mut Node) -> Vec<String> {
    let (at_ms, job) = (1, token(1).job);
    node.feed(Event::FailureNoted { at_ms, job, code: "GPU_LOST".into() });
    node.feed(Event::Faulted)
}

#[test]
fn a_node_that_keeps_failing_is_told_to_drain_and_why_until_a_probe_succeeds() {
    let mut node = failing();
    assert!(fails(&mut node).is_empty());
    assert_eq!(fails(&mut node), ["breaker opened"]);
    for _ in 0..2 {
        assert!(node.wait(Duration::from_secs(2)).is_empty());
        assert_eq!(fails(&mut node), ["breaker opened"]);
    }
    node.wait(Duration::from_secs(2));
    let why = "put aside after 5 failures in a row, the last one GPU_LOST";
    let drain = |why: &str| {
        format!("drain: {why}: it gets one job as a probe in 1 s, or when its owner resumes it")
    };
    assert_eq!(fails(&mut node), ["breaker opened".to_owned(), drain(why), "put aside".into()]);
    let resume = format!("resume: {why}: it gets one job as a probe now");
    assert_eq!(node.wait(Duration::from_secs(1)), [resume]);
    let why = "put aside after 6 failures in a row, the last one GPU_LOST";
    assert_eq!(fails(&mut node), ["breaker opened".to_owned(), drain(why)], "it is aside already");
    node.wait(Duration::from_secs(1));
    node.assign(9);
    let back = node.says(9, MessageKind::Success);
    assert_eq!(back, ["tell result", "back in service"]);
    assert!(node.machine.aside().is_none());
}

#[test]
fn the_owners_word_brings_a_probe_at_once_and_is_taken_now_and_then() {
    let mut node = failing();
    for _ in 0..2 {
        fails(&mut node);
    }
    assert!(node.feed(Event::ProbeRequested).is_empty());
    assert_eq!(node.machine.breaker(), BreakerState::Probing);
    fails(&mut node);
    node.feed(Event::ProbeRequested);
    fails(&mut node);
    assert_eq!(node.feed(Event::ProbeRequested), ["again in 30 s"]);
    assert!(matches!(node.machine.breaker(), BreakerState::Open { .. }));
}

#[test]
fn an_administrators_order_comes_before_what_the_scheduler_says() {
    let mut node = failing();
    node.feed(Event::Ordered(Order::Drain));
    for _ in 0..2 {
        fails(&mut node);
    }
    for _ in 0..3 {
        node.wait(Duration::from_secs(2));
        let said = fails(&mut node);
        assert!(!said.iter().any(|said| said.starts_with("drain")), "{said:?}");
    }
    let said = node.feed(Event::Ordered(Order::Serve));
    assert!(said.len() == 1 && said[0].starts_with("drain: put aside"), "{said:?}");
}

#[test]
fn what_a_node_did_elsewhere_is_known_where_it_comes_next() {
    let mut node = failing();
    for _ in 0..2 {
        fails(&mut node);
    }
    let known = node.machine.reputation();
    assert_eq!((known.failed, known.failed_by_code["GPU_LOST"]), (2, 2));
    let mut next = Node::new();
    let profile = Arc::clone(node.machine.profile().0);
    let registered = Registered {
        epoch: 7,
        over: None,
        profile,
        version: 1,
        health: Health::Ready,
        supports: OURS,
        arrival: Arrival::Local,
        order: Order::Serve,
        heartbeat: Duration::from_secs(5),
        lists_running: false,
        running: None,
        moved: true,
        hold: None,
        at_ms: 9,
        reputation: Some(known.aged(Duration::from_millis(100))),
        percents: Percents::default(),
    };
    next.feed(Event::Registered(Box::new(registered)));
    let until = Moment::ZERO + Duration::from_millis(400);
    assert_eq!(next.machine.breaker(), BreakerState::Open { until }, "the rest of its pause");
    assert_eq!(next.machine.reputation().since_ms, 1);
    assert_eq!(next.machine.reputation().latest_failures().len(), 2);
}
