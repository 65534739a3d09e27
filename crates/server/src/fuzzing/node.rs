use bytes::Bytes;
use lingua_engine::job::{JobMessage, JobReport, NodeResult};
use lingua_engine::sessions::outbound::{About, Direction, ToClient};
use lingua_protocol::node::capability::Abilities;
use lingua_protocol::node::{FromNode, decode};

use super::session::told;
use super::{is_object, is_short};
use crate::wire::node::error;

pub(super) fn message(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match decode(text, || Bytes::copy_from_slice(data)) {
        Ok(FromNode::Register(mut said) | FromNode::Heartbeat(mut said)) => {
            let mut abilities = Abilities::default();
            said.put_over(&mut abilities);
            // Refusals are an answer as good as any.
            let _ = abilities.declaration(1);
            let _ = (said.health(), said.supports(), said.usage(), said.running(), said.detail());
        }
        Ok(FromNode::Job(message)) => passed_on(&message),
        Ok(FromNode::Auth(_) | FromNode::Error { .. }) => {}
        Err(refusal) => {
            is_short(&refusal);
            let mut out = String::new();
            error(&refusal, &mut out);
            is_object(&out);
        }
    }
}

/// What a node says of a job is told to a client, who must be able to read it.
pub(super) fn passed_on(message: &JobMessage) {
    let direction = Direction::Unknown;
    let about = || About { utterance_index: 1, job: Some(message.job), trace_id: "t", direction };
    match &message.report {
        JobReport::Partial(body) => told(&ToClient::Partial { about: about(), body }),
        JobReport::Result(NodeResult::Success(body) | NodeResult::Empty { body, .. }) => {
            told(&ToClient::Result {
                about: about(),
                turn: "t",
                part_index: 1,
                body,
                form: None,
                via: None,
                audio_ack: None,
            });
        }
        _ => {}
    }
}
