//! A job goes to the node on which it has a slot.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::job::JobStep;
use lingua_core::select::Source;
use lingua_core::time::millis;
use lingua_store::jobs::JobRecord;
use tokio::time::Instant;

use super::asking::Asked;
use super::registry::{AttemptView, Job};
use super::run::{Run, Try};
use super::slot::Slot;
use crate::cluster::remote::Ears;
use crate::job::{Assign, Receipt};
use crate::nodes::{BEFORE, Held, INHIBITION, SendError, Supports};
use crate::secret::token_name;
use crate::sessions::mail::JobNews;
use crate::settings::SessionAlias;

impl Run {
    /// Puts the job on the node's connection.
    pub(super) async fn send(&mut self, slot: Slot, source: Source) -> Asked {
        let shared = Arc::clone(&self.d.shared);
        let token = slot.token;
        let now = Instant::now();
        let wire = shared.secret.masked(self.job.id);
        let turn = match &self.spec.turn {
            Some(turn) => {
                shared.secret.session_alias(&self.spec.session, turn.as_str()).to_string()
            }
            None => wire.to_string(),
        };
        let session = match shared.settings.node_session_alias {
            SessionAlias::Turn => shared.secret.session_alias(&self.spec.session, &turn),
            SessionAlias::Session => self.spec.session.session().clone(),
        };
        let left = self.deadline.saturating_duration_since(now);
        let now_ms = shared.clock.now().as_millis();
        let events = Ears::Here(self.ears.clone());
        let Supports { ack: acks, calls, .. } = slot.node.supports();
        let timing = &shared.settings.timing;
        let placing = self.step(timing.send_ms + timing.ack_ms_of(calls)).unwrap_or_default();
        let assign = Assign {
            job: wire,
            attempt: token.attempt,
            token: token_name(token),
            session,
            turn: turn.clone(),
            deadline_ms: now_ms + millis(left),
            send_by: now + placing,
            traceparent: self.traced.traceparent(),
            work: Arc::clone(&self.spec.work),
            receipt: Receipt((!acks).then(|| events.clone())),
        };
        let held = Held {
            attempt: token.attempt,
            token,
            turn,
            job: Some(events),
            index: self.spec.work.utterance_index,
            serial: BEFORE,
            sent: Instant::now(),
            heard: None,
            answered: false,
            lost: false,
            renewed: now,
            lease: Duration::from_millis(timing.reserve_lease_ms_of(calls)),
            until: None,
        };
        let node = Arc::clone(&slot.node);
        let over = match node.send(assign, self.job.id, held) {
            Ok(over) => over,
            Err(SendError::Full) => {
                shared.metrics.reserve("lapsed");
                tracing::debug!(node.id = %node.id, "a slot whose job is still there was granted");
                slot.release_to_rest().await;
                return Asked::Refused;
            }
            Err(error) => {
                tracing::info!(node.id = %node.id, reason = ?error, "nothing could be sent");
                node.lock().inhibited_until = Some(now + INHIBITION);
                self.d.nodes.refresh(&node);
                slot.release().await;
                return Asked::Refused;
            }
        };
        let due = now + placing;
        let hedge = !self.tries.is_empty();
        self.placed(&node.id, token.attempt, source, now_ms);
        self.tell(JobNews::Assigned { attempt: token.attempt, hedge }).await;
        let traced = self.traced.sent(&slot, &shared);
        self.tries.push(Try {
            slot,
            over,
            sent_at: now,
            acked: false,
            commit: false,
            due,
            gone: false,
            traced,
        });
        if let Some(turn) = &self.spec.turn {
            let lease = Duration::from_millis(timing.exec_max_ms);
            let bound =
                shared.store.jobs.bind_turn(&self.spec.session, turn, &node.id, lease).await;
            if let Err(error) = bound {
                tracing::debug!(%error, "a turn was not bound to its node");
            }
        }
        Asked::Placed
    }

    /// The job is on its way: counted, shown, remembered.
    pub(super) fn placed(&mut self, node: &NodeId, number: u32, source: Source, now_ms: u64) {
        let shared = &self.d.shared;
        if self.dispatches == 0 && self.rejected == 0 {
            self.d.budget.lock().fresh(shared.clock.now());
            shared.metrics.place_seconds.observe(self.began.elapsed().as_secs_f64());
        }
        self.dispatches += 1;
        if self.spec.past.is_none() {
            self.d.conversations.note(&self.spec.session, node);
        }
        let hedge = !self.tries.is_empty();
        self.job.change(|view| {
            if !hedge {
                Job::step(view, JobStep::Grant);
                Job::step(view, JobStep::Send);
            }
            view.dispatched_ms.get_or_insert(now_ms);
            view.attempts.push(AttemptView {
                number,
                node: node.clone(),
                source: source.as_str(),
                sent_ms: now_ms,
                acked_ms: None,
                ended_ms: None,
                outcome: None,
            });
        });
    }

    pub(super) fn elsewhere(&mut self, record: JobRecord) {
        self.job.change(|view| {
            view.state = record.state;
            view.elsewhere = Some(record);
        });
        self.let_be();
    }

    pub(super) fn note(&self, text: String) {
        tracing::info!(job.id = %self.job.id, reason = text, "a note on the choice");
        self.job.change(|view| view.notes.push(text));
    }
}
