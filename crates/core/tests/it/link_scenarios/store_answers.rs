//! What a node's machine asks of the store again, and what it makes of the answers.

use std::time::Duration;

use lingua_core::link::event::{Answer, Call, Heartbeat, MessageKind};
use lingua_core::link::{Effect, Event, Supports, TELL_AGAIN};
use lingua_core::slots::Confirmed;

use super::node::{Node, OURS, Plain, token};

/// A node that names what nobody knows after a loss, and that stops for nobody.
#[test]
fn after_a_loss_jobs_that_nobody_knows_hold_grants_until_they_are_over_or_stopped() {
    for (obeys, hold_ms) in [(true, 3_000), (false, 45_000)] {
        let mut node = Node::new();
        let supports = Supports { cancel: obeys, ..OURS };
        node.register(supports, None);
        let named = Heartbeat { running: Some(vec![(token(5).job, 1)]), ..Heartbeat::default() };
        let epoch = node.epoch;
        node.feed(Event::Heartbeat { epoch, beat: named });
        let confirmed = Answer::Kept { confirmed: false };
        assert_eq!(node.answer(confirmed), ["look 1 up"]);
        let answered = Event::Answered { epoch, answer: Answer::Found(vec![None]) };
        let effects = node.machine.on_event(node.now, answered);
        let report = effects.into_iter().find_map(|effect| match effect {
            Effect::Store { call: Call::Confirm(report), .. } => Some(report),
            _ => None,
        });
        let hold = report.expect("it is told to the store").reserve_lease;
        assert_eq!(hold, Duration::from_millis(hold_ms), "{obeys}");
    }
}

fn calls(effects: Vec<Effect<Plain>>) -> Vec<&'static str> {
    let call = |effect| match effect {
        Effect::Store { call, .. } => Some(match call {
            Call::Put(..) => "put",
            Call::Beat(..) => "beat",
            Call::LookUp(_) => "look up",
            Call::Confirm(_) => "confirm",
            Call::Renew { .. } => "renew",
        }),
        _ => None,
    };
    effects.into_iter().filter_map(call).collect()
}

/// A store that does not answer for a moment loses nothing by it, and is not told everything anew.
#[test]
fn what_the_store_did_not_take_is_told_again_and_nothing_else() {
    let mut node = Node::new();
    node.register(OURS, Some(vec![]));
    node.answer(Answer::Stored);
    node.answer(Answer::Confirmed(Confirmed::default()));
    node.assign(1);
    node.says(1, MessageKind::Ack);
    node.now = node.now + Duration::from_secs(5);
    let beat = Heartbeat { running: Some(vec![(token(1).job, 1)]), ..Heartbeat::default() };
    let event = Event::Heartbeat { epoch: node.epoch, beat };
    assert_eq!(calls(node.machine.on_event(node.now, event)), ["beat"]);
    let mut answered = |answer, wait| {
        let event = Event::Answered { epoch: node.epoch, answer };
        let at_once = calls(node.machine.on_event(node.now, event));
        node.now = node.now + wait;
        (at_once, calls(node.machine.on_event(node.now, Event::Tick)))
    };
    let none: Vec<&str> = Vec::new();
    // Not at once: a store that is away is not asked again and again.
    assert_eq!(answered(Answer::Failed, TELL_AGAIN), (none.clone(), vec!["beat"]));
    let kept = Answer::Kept { confirmed: true };
    assert_eq!(answered(kept.clone(), TELL_AGAIN), (vec!["confirm"], none.clone()));
    assert_eq!(answered(Answer::Failed, TELL_AGAIN), (none.clone(), vec!["beat"]));
    assert_eq!(answered(kept, TELL_AGAIN), (vec!["confirm"], none.clone()));
    let confirmed = Answer::Confirmed(Confirmed::default());
    assert_eq!(answered(confirmed, TELL_AGAIN * 3), (none.clone(), none), "it was told");
}

/// A lookup that the store did not answer may have cost it as much: it is not repeated for nothing.
#[test]
fn a_lookup_that_failed_is_repeated_within_the_rate_of_lookups() {
    let mut node = Node::new();
    node.register(OURS, None);
    let report = |node: &mut Node, jobs: u32| {
        let running = (100..100 + jobs).map(|n| (token(n).job, 1)).collect();
        let beat = Heartbeat { running: Some(running), ..Heartbeat::default() };
        node.feed(Event::Heartbeat { epoch: node.epoch, beat })
    };
    let kept = || Answer::Kept { confirmed: true };
    let none = Vec::<String>::new();
    // Ten at once, ten a second: what is left pays for four once more.
    report(&mut node, 4);
    assert_eq!(node.answer(kept()), ["look 4 up"]);
    node.answer(Answer::Failed);
    assert_eq!(node.wait(TELL_AGAIN), none, "the heartbeat comes first");
    assert_eq!(node.answer(kept()), ["look 4 up"]);
    node.answer(Answer::Found(vec![None; 4]));
    node.answer(Answer::Confirmed(Confirmed::default()));
    node.wait(TELL_AGAIN);
    // For eight it does not: the node's next report brings them again.
    report(&mut node, 8);
    assert_eq!(node.answer(kept()), ["look 8 up"]);
    node.answer(Answer::Failed);
    assert_eq!(node.wait(TELL_AGAIN), none);
    assert_eq!(node.answer(kept()), none);
    report(&mut node, 8);
    assert_eq!(node.answer(kept()), ["look 8 up"]);
}
