//! What a node is sent for an attempt.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_core::time::millis;
use tokio::time::Instant;

use crate::job::{Assign, JobSpec, Receipt};
use crate::secret::token_name;
use crate::settings::SessionAlias;
use crate::shared::Shared;

/// What an attempt has of its own.
pub(super) struct Terms {
    /// Until the job's deadline.
    pub left: Duration,
    /// For the way to the node and its ack.
    pub placing: Duration,
    pub traceparent: Option<String>,
}

/// The assignment of this attempt.
pub(super) fn of(shared: &Shared, spec: &JobSpec, token: LeaseToken, terms: Terms) -> Assign {
    let wire = shared.secret.masked(spec.id);
    let turn = match &spec.turn {
        Some(turn) => shared.secret.session_alias(&spec.session, turn.as_str()).to_string(),
        None => wire.to_string(),
    };
    let session = match shared.settings.node_session_alias {
        SessionAlias::Turn => shared.secret.session_alias(&spec.session, &turn),
        SessionAlias::Session => spec.session.session().clone(),
    };
    Assign {
        job: wire,
        attempt: token.attempt,
        token: token_name(token),
        session,
        turn,
        deadline_ms: shared.clock.now().as_millis() + millis(terms.left),
        send_by: Instant::now() + terms.placing,
        traceparent: terms.traceparent,
        work: Arc::clone(&spec.work),
        receipt: Receipt::default(),
    }
}
