//! Commands of other instances to the nodes here. Each names one connection of its node, and has no effect on
//! another.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::link::{Event, NewAttempt};
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_protocol::peer::{RemoteAdopt, RemoteAssign};
use lingua_store::Instance;
use tokio::time::Instant;

use super::Cluster;
use super::remote_job::{PeerJob, PeerSlot, lease_of};
use crate::job::{Assign, JobEvents, Receipt, ToNode, Unheard};
use crate::nodes::link::SlotGuard;
use crate::nodes::{LinkCommand, NodeLink, SendError};
use crate::tasks;

impl Cluster {
    /// Puts another instance's attempt on a node's connection here.
    pub(super) fn assign_for(
        &self,
        from: &Instance,
        remote: &mut RemoteAssign,
        audio: Bytes,
        send_by: Instant,
    ) -> Result<(), Unheard> {
        let job = self.shared.secret.masked(remote.job);
        let node = self.nodes.connected(&remote.node, remote.epoch).ok_or(Unheard)?;
        let twice = planted::on(Flaw::EnvelopeActedOnTwice);
        if node.holds(&job, remote.attempt) && !twice {
            // A repeated message: the node has it.
            return Ok(());
        }
        if send_by < Instant::now() {
            return Err(Unheard);
        }
        let supports = node.supports();
        let token = lease_of(job, remote.attempt, &remote.token).ok_or(Unheard)?;
        let listener = self.peer_job(from, job, &remote.node);
        let work = std::mem::take(&mut remote.work);
        let mut work = Arc::try_unwrap(work).map_err(|_| Unheard)?;
        work.audio = audio;
        let left = remote.deadline_ms.saturating_sub(self.shared.clock.now().as_millis());
        let timing = &self.shared.settings.timing;
        let wanted_for = Duration::from_millis(left + timing.margin_ms);
        let attempt = NewAttempt {
            token,
            turn: remote.turn.clone(),
            index: work.utterance_index,
            listener: listener.clone(),
            lease: Duration::from_millis(timing.reserve_lease_ms_of(supports.calls)),
            wanted_until: Some(self.nodes.moment_in(wanted_for)),
        };
        let assign = Assign {
            job: remote.job,
            attempt: remote.attempt,
            token: remote.token.clone(),
            session: remote.session.clone(),
            turn: remote.turn.clone(),
            deadline_ms: remote.deadline_ms,
            send_by,
            traceparent: remote.traceparent.take(),
            work: Arc::new(work),
            receipt: Receipt { listener: (!supports.ack).then_some(listener), epoch: remote.epoch },
        };
        match node.assign(assign, attempt) {
            Ok(_) => Ok(()),
            Err(error) => {
                if error == SendError::Full {
                    self.shared.metrics.reserve("lapsed");
                }
                Err(Unheard)
            }
        }
    }

    /// Another instance has the job of an attempt that a node here runs.
    pub(super) fn adopt_for(&self, from: &Instance, remote: &RemoteAdopt) {
        let Some(node) = self.nodes.connected(&remote.node, remote.epoch) else { return };
        let Some(token) = lease_of(remote.job, remote.attempt, &remote.token) else { return };
        let longest = Duration::from_millis(self.shared.settings.timing.deadline_ms);
        node.apply(Event::Adopted(NewAttempt {
            token,
            turn: remote.turn.clone(),
            index: remote.index,
            listener: self.peer_job(from, remote.job, &remote.node),
            lease: node.reach().running_lease,
            wanted_until: Some(self.nodes.moment_in(longest)),
        }));
    }

    /// Another instance no longer waits for an attempt; with `over` it released the slot itself.
    pub(super) fn forget_for(
        &self,
        from: &Instance,
        id: &NodeId,
        (job, attempt): (JobId, u32),
        over: bool,
        (blame, code): (bool, Option<String>),
    ) {
        let Some(node) = self.nodes.get(id) else { return };
        if blame {
            let at_ms = self.shared.clock.now().as_millis();
            let failed = code.map(|code| (at_ms, code));
            node.apply(Event::AttemptFailed { job, attempt, failed });
        }
        match over {
            true => node.post(LinkCommand::End { job, attempt }),
            false => {
                let slot = Some(self.peer_slot(from, id));
                node.apply(Event::Abandoned { job, attempt, slot });
            }
        }
    }

    /// Another instance abandons an attempt. If the node stops when told to, the slot is released here once the
    /// cancel is on its connection: the next assignment comes after it.
    pub(super) fn cancel_for(
        &self,
        from: &Instance,
        id: &NodeId,
        epoch: u64,
        (job, attempt): (JobId, u32),
        reason: &'static str,
    ) {
        if let Some(node) = self.nodes.connected(id, epoch) {
            let slot = Some(self.peer_slot(from, id));
            node.post(LinkCommand::Abandon { job, attempt, reason, slot });
        }
    }

    /// An attempt of another instance was not sent and never will be.
    pub(super) fn unsent_for(&self, from: &Instance, remote: &RemoteAssign) {
        let job = self.shared.secret.masked(remote.job);
        let Some(token) = lease_of(job, remote.attempt, &remote.token) else { return };
        let slot = self.peer_slot(from, &remote.node);
        self.release_for(remote.node.clone(), token, slot);
    }

    fn release_for(&self, node: NodeId, token: LeaseToken, slot: SlotGuard) {
        let shared = Arc::clone(&self.shared);
        tasks::start(async move {
            if let Err(error) = shared.store.slots.release(&node, token).await {
                tracing::debug!(node.id = %node, %error, "a slot is left to expire");
            }
            drop(slot);
        });
    }

    /// Sends a message to a node here, if it is for the node's present connection.
    pub(super) fn tell_for(&self, id: &NodeId, epoch: u64, message: ToNode) {
        if let Some(node) = self.nodes.connected(id, epoch) {
            node.send_to_node(message);
        }
    }

    fn peer_job(&self, owner: &Instance, job: JobId, node: &NodeId) -> JobEvents {
        let (outbox, owner, node) = (Arc::clone(&self.shared.outbox), owner.clone(), node.clone());
        PeerJob { outbox, owner, job, node }.events()
    }

    fn peer_slot(&self, owner: &Instance, node: &NodeId) -> SlotGuard {
        let (shared, owner, node) = (Arc::clone(&self.shared), owner.clone(), node.clone());
        SlotGuard::Peer(Box::new(PeerSlot { shared, owner, node }))
    }
}
