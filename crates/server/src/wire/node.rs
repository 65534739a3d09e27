//! What the engine wants a node to be told, as the messages of the node socket.

use lingua_engine::job::{Refusal, ToNode};
use lingua_engine::nodes::{Registered, Supports};
use lingua_protocol::json::write;
use lingua_protocol::node::outbound::{
    Attempt, AuthAck, Error, HeartbeatAck, JobCancel, NodeControl, NodeRegisterAck, RegisteredAs,
    ResultAck,
};

/// Writes one message. [`ToNode::Superseded`] and [`ToNode::Blocked`] have no text: they close the
/// connection.
///
/// With `binary_audio` the assign carries no audio, and an audio frame is what follows it.
pub(crate) fn render(message: &ToNode, supports: Supports, out: &mut String) {
    match message {
        ToNode::Assign(assign) => Attempt {
            job: assign.job,
            number: assign.attempt,
            session_id: assign.session.as_str(),
            turn_id: &assign.turn,
            deadline_ms: assign.deadline_ms,
            traceparent: assign.traceparent.as_deref(),
            lease_token: supports.tokens.then_some(assign.token.as_str()),
            binary_audio: supports.binary_audio,
        }
        .write(&assign.work, out),
        ToNode::Cancel { job, attempt, reason } => {
            write(&JobCancel { job_id: job.as_str(), attempt_id: *attempt, reason }, out);
        }
        ToNode::ResultAck { job, attempt } => {
            write(&ResultAck { job_id: job.as_str(), attempt_id: *attempt }, out);
        }
        ToNode::Control { command, reason } => {
            write(&NodeControl { command, reason: reason.as_deref() }, out);
        }
        ToNode::Superseded | ToNode::Blocked => {}
    }
}

/// `node_register_ack`
pub(crate) fn register_ack(registered: &Registered, out: &mut String) {
    let ready = registered.ready;
    let ack = NodeRegisterAck {
        node_id: registered.connection.node_id().as_str(),
        message: "registered",
        status: if ready { RegisteredAs::Ready } else { RegisteredAs::Registering },
        heartbeat_interval_ms: lingua_core::time::millis(registered.heartbeat),
        epoch: registered.epoch,
        resume: registered.resumed,
    };
    write(&ack, out);
}

/// `heartbeat_ack`
pub(crate) fn heartbeat_ack(now_ms: u64, why_idle: &[String], out: &mut String) {
    let why_idle = (!why_idle.is_empty()).then_some(why_idle);
    write(&HeartbeatAck { server_time_ms: now_ms, why_idle }, out);
}

/// `auth_ack`
pub(crate) fn auth_ack(expires_ms: Option<u64>, out: &mut String) {
    write(&AuthAck { expires_ms }, out);
}

/// `job_cancel` for something that a node runs and that cannot be a job of ours.
pub(crate) fn cancel_stranger(job: &str, attempt: u32, out: &mut String) {
    write(&JobCancel { job_id: job, attempt_id: attempt, reason: "unknown" }, out);
}

/// `error`
pub(crate) fn error(refusal: &Refusal, out: &mut String) {
    let (message, retry_after_ms) = (refusal.detail.as_str(), refusal.retry_after_ms);
    write(&Error { code: refusal.code.as_str(), message, retry_after_ms }, out);
}

#[cfg(test)]
mod tests;
