//! What a node says it runs, and when that is believed.

use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_core::link::event::{Answer, Call, Heartbeat, MessageKind};
use lingua_core::link::{Audience, Effect, Event};
use lingua_core::node::Health;
use lingua_core::slots::Confirmed;

use super::node::{Node, OURS, Plain, token};

/// What the store is told that the node runs.
fn confirmed_for(effects: Vec<Effect<Plain>>) -> Option<Vec<LeaseToken>> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Store { call: Call::Confirm(report), .. } => report.running,
        _ => None,
    })
}

#[test]
pub fn a_report_that_is_older_than_an_attempt_does_not_take_its_slot() {
    let mut node = Node::new();
    node.register(OURS, Some(vec![]));
    node.answer(Answer::Stored);
    node.answer(Answer::Confirmed(Confirmed::default()));
    let beat = Heartbeat { running: Some(vec![]), ..Heartbeat::default() };
    node.feed(Event::Heartbeat { epoch: node.epoch, beat });
    // Sent and acked while the store is told of the heartbeat.
    node.now = node.now + Duration::from_millis(50);
    node.assign(1);
    node.says(1, MessageKind::Ack);
    let answer = Answer::Kept { confirmed: true };
    let told = node.machine.on_event(node.now, Event::Answered { epoch: node.epoch, answer });
    assert_eq!(confirmed_for(told), Some(vec![token(1)]));
}

#[test]
pub fn a_node_that_comes_from_another_instance_is_not_chosen_before_it_has_said_what_it_runs() {
    let mut node = Node::new();
    node.register_as(OURS, None, true);
    let health = |node: &Node| node.machine.health(Audience::Choosing);
    node.answer(Answer::Stored);
    assert_eq!(health(&node), Health::Degraded);
    node.answer(Answer::Confirmed(Confirmed::default()));
    node.reports(&[], Confirmed::default());
    assert_eq!(health(&node), Health::Ready);
}
