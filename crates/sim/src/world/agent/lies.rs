//! Things that a node says although they are not so.

use bytes::Bytes;
use lingua_engine::job::{JobReport, NodeResult};
use lingua_engine::nodes::Heartbeat;
use lingua_protocol::node::message::read_message;
use serde_json::json;

use super::{Agent, Wire};
use crate::canary::TEXT;
use crate::plan::NodeKind;

/// Attempts that no job ever has.
const UNHEARD_OF: u32 = 50;

impl Agent {
    /// Says something wrong with a heartbeat, if it is one who does.
    pub(super) fn lie(&self, beat: &mut Heartbeat, wire: &Wire) {
        if self.plan.kind != NodeKind::Liar || !self.world.is_troubled() {
            return;
        }
        let body = read_message(Bytes::from(json!({ "text_asr": TEXT }).to_string()));
        let result = || JobReport::Result(NodeResult::Success(body.clone()));
        let one = self.running.first();
        match (self.dice.below(6), one, &mut beat.running) {
            // It runs something that nobody gave it.
            (0, Some(one), Some(running)) => running.push((one.job, one.attempt + UNHEARD_OF)),
            // It runs nothing.
            (1, _, Some(running)) => running.clear(),
            // The answer of an attempt that there is not.
            (2, Some(one), _) => {
                self.say(wire, one.job, one.attempt + UNHEARD_OF, one.token.clone(), result());
            }
            // The right attempt in the name of another lease.
            (3, Some(one), _) => {
                let token = Some("00000000000000000000000000000bad".to_owned());
                self.say(wire, one.job, one.attempt, token, result());
            }
            // An ack once more.
            (4, Some(one), _) => {
                self.say(wire, one.job, one.attempt, one.token.clone(), JobReport::Ack);
            }
            _ => {}
        }
    }
}
