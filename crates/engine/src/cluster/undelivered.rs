//! Messages that were not received: undeliverable ones, and those in the inboxes of dead instances. An attempt is
//! retried on another node; a result or an ending is delivered to its session.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::SessionKey;
use lingua_core::planted::{self, Flaw};
use lingua_protocol::peer::{PeerEvent, PeerMessage};
use lingua_store::Instance;
use lingua_store::bus::TakeOver;

use super::{Cluster, Inflow};
use crate::job::JobEvent;
use crate::peers::outbox::Undelivered;

/// How often inboxes of dead instances are taken over.
const TAKEOVER_EVERY: Duration = Duration::from_secs(2);

/// How long a takeover of one inbox may take.
const TAKEOVER_FOR: Duration = Duration::from_secs(5);

impl Cluster {
    /// Runs until the engine ends: handles undeliverable messages and orphaned outcomes.
    pub async fn take_back(self: Arc<Self>, inflow: Inflow) {
        let Inflow { mut undeliverable, mut orphans } = inflow;
        loop {
            tokio::select! {
                biased;
                Some(returned) = undeliverable.recv() => match returned {
                    Undelivered::Message(to, message) => self.on_undeliverable(&to, *message),
                    Undelivered::Gone => self.on_peers_lost(),
                },
                Some(orphan) = orphans.recv() => self.on_orphan(orphan),
                else => return,
            }
        }
    }

    /// A message of this instance that `to` did not get.
    pub(crate) fn on_undeliverable(self: &Arc<Self>, to: &Instance, message: PeerMessage) {
        let me = &self.shared.instance;
        match message {
            PeerMessage::SessionJob { .. } if planted::on(Flaw::EndingNotBroughtAgain) => {}
            PeerMessage::Assign(remote) => {
                let job = self.shared.secret.masked(remote.job);
                self.jobs.tell(&job, JobEvent::NotSent { attempt: remote.attempt });
            }
            // The instance of the job is gone; its session may be on another one.
            PeerMessage::Job {
                job, node, event: PeerEvent::Result { attempt, result }, ..
            } => self.on_orphan_result(me, job, &node, attempt, result),
            // The session may be on another instance now, or return to the same one.
            PeerMessage::SessionJob { tenant, session, job, ended } => {
                tracing::debug!(instance.id = %to.id, job.id = %job, "an ending is delivered again");
                self.deliver_again(me, SessionKey::new(tenant, session), job, ended);
            }
            _ => {}
        }
    }

    /// Runs until the engine ends: answers what was sent to instances that died.
    pub async fn take_over_inboxes(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TAKEOVER_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let Ok(orphans) = self.shared.store.bus.orphans().await else { continue };
            for dead in orphans.into_iter().filter(|dead| *dead != self.shared.instance) {
                if let Err(error) = self.take_over_inbox(&dead).await {
                    tracing::debug!(instance.id = %dead.id, %error, "an inbox is taken over later");
                }
            }
        }
    }

    async fn take_over_inbox(self: &Arc<Self>, dead: &Instance) -> lingua_store::Result<()> {
        let (bus, me) = (&self.shared.store.bus, &self.shared.instance);
        while let TakeOver::Entries(entries) = bus.take_over(dead, me, TAKEOVER_FOR).await? {
            if entries.is_empty() {
                return Ok(());
            }
            let ids: Vec<_> = entries.iter().map(|delivery| delivery.entry.clone()).collect();
            for delivery in entries {
                let Ok((messages, _)) = self.unsealed(&delivery, dead) else { continue };
                for message in messages {
                    self.on_taken_over(&delivery.from, message);
                }
            }
            bus.ack(dead, &ids).await?;
        }
        Ok(())
    }

    /// A message to an instance that is dead.
    pub(crate) fn on_taken_over(self: &Arc<Self>, from: &Instance, message: PeerMessage) {
        match message {
            PeerMessage::SessionJob { .. } if planted::on(Flaw::EndingNotBroughtAgain) => {}
            PeerMessage::Assign(remote) if *from == self.shared.instance => {
                let job = self.shared.secret.masked(remote.job);
                self.jobs.tell(&job, JobEvent::NotSent { attempt: remote.attempt });
            }
            PeerMessage::Assign(remote) => self.not_sent(from, &remote),
            // The body is fetched from the sender, which still keeps it.
            PeerMessage::Job {
                job, node, event: PeerEvent::Result { attempt, result }, ..
            } => self.on_orphan_result(from, job, &node, attempt, result),
            PeerMessage::SessionJob { tenant, session, job, ended } => {
                self.deliver_again(from, SessionKey::new(tenant, session), job, ended);
            }
            _ => {}
        }
    }
}
