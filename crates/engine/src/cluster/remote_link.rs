//! The route to a node's connection on another instance.

use std::sync::Arc;

use bytes::Bytes;
use lingua_core::NodeId;
use lingua_core::link::NewAttempt;
use lingua_protocol::peer::{PeerMessage, RemoteAdopt, RemoteAssign};
use lingua_store::Instance;

use crate::job::{Assign, JobEvents, Unheard};
use crate::peers::outbox::Outbox;
use crate::secret::token_name;

/// The route to a node's connection.
#[derive(Clone)]
pub(super) struct RemoteLink {
    pub outbox: Arc<Outbox>,
    pub owner: Instance,
    pub node: NodeId,
    /// Epoch of the connection.
    pub epoch: u64,
}

impl RemoteLink {
    pub fn send(&self, message: PeerMessage) -> Result<(), Unheard> {
        self.outbox.send(&self.owner, message).map_err(|_| Unheard)
    }

    pub fn assign(&self, assign: Assign) -> PeerMessage {
        let (audio, context) = (&assign.work.audio, assign.work.context_text.as_ref());
        let context = context.filter(|text| !text.is_empty());
        PeerMessage::Assign(Box::new(RemoteAssign {
            node: self.node.clone(),
            epoch: self.epoch,
            job: assign.job,
            attempt: assign.attempt,
            token: assign.token,
            session: assign.session,
            turn: assign.turn,
            deadline_ms: assign.deadline_ms,
            audio: (!audio.is_empty()).then(|| self.outbox.put_body(audio.clone())),
            context: context.map(|text| self.outbox.put_body(Bytes::from(text.clone()))),
            work: assign.work,
            traceparent: assign.traceparent,
        }))
    }

    /// Asks the node's instance to report about an attempt.
    pub fn adopt(&self, attempt: &NewAttempt<JobEvents>) {
        let adopt = RemoteAdopt {
            node: self.node.clone(),
            epoch: self.epoch,
            job: attempt.token.job,
            attempt: attempt.token.attempt,
            token: token_name(attempt.token),
            turn: attempt.turn.clone(),
            index: attempt.index,
        };
        let _ = self.send(PeerMessage::Adopt(Box::new(adopt)));
    }
}
