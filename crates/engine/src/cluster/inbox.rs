//! Messages received from other instances. Each is handled once or answered with a refusal; none is forwarded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::planted::{self, Flaw};
use lingua_protocol::node::message::read_message;
use lingua_protocol::peer::{Batch, PeerEvent, PeerMessage, PeerResult, RemoteAssign};
use lingua_store::Instance;
use lingua_store::bus::Delivery;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Cluster;
use super::watches::Notice;
use crate::job::{JobEvent, Reject, ToNode};
use crate::peers::outbox::LIVE_FOR;
use crate::peers::seal::{self, Route};
use crate::tasks;

/// How long one read of the inbox waits for a message.
const WAIT: Duration = Duration::from_secs(2);

/// After a store that did not answer.
const PAUSE: Duration = Duration::from_millis(200);

impl Cluster {
    /// Runs until the engine ends: receives messages.
    pub async fn receive(self: Arc<Self>) {
        let (bus, me) = (&self.shared.store.bus, &self.shared.instance);
        loop {
            match bus.receive(me, WAIT).await {
                Ok(deliveries) if deliveries.is_empty() => {}
                Ok(deliveries) => {
                    let entries: Vec<_> = deliveries.iter().map(|d| d.entry.clone()).collect();
                    for delivery in deliveries {
                        let now = Instant::now();
                        if self.opened.lock().open(delivery.id, delivery.live_until, now) {
                            self.open(delivery);
                        }
                    }
                    if let Err(error) = bus.ack(me, &entries).await {
                        tracing::debug!(%error, "messages were not acknowledged");
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the inbox is read later");
                    tokio::time::sleep(PAUSE).await;
                    bus.rewind(me).await;
                }
            }
        }
    }

    fn open(self: &Arc<Self>, delivery: Delivery) {
        match self.unsealed(&delivery, &self.shared.instance) {
            Ok((messages, unknown)) => {
                self.shared.metrics.bus_received(messages.len() as u64);
                if unknown > 0 {
                    tracing::debug!(instance.id = %delivery.from.id, unknown, "messages of another version");
                }
                // Counted by the store's clock until it was asked, and by ours since.
                let left = delivery.live_until.saturating_duration_since(Instant::now());
                let age = LIVE_FOR.saturating_sub(left);
                for message in messages {
                    self.on_message(&delivery.from, message, age);
                }
            }
            Err(error) => {
                tracing::warn!(instance.id = %delivery.from.id, %error, "an envelope was not accepted")
            }
        }
    }

    /// The messages of an envelope that an instance sent to `to`, and how many nobody knows.
    pub(super) fn unsealed(
        &self,
        delivery: &Delivery,
        to: &Instance,
    ) -> Result<(Vec<PeerMessage>, usize), String> {
        let secret = &self.shared.secret;
        let Delivery { id, from, body, .. } = delivery;
        let by = seal::open(secret, &Route { id: *id, from, to }, body)
            .map_err(|_| "no instance with a key of cluster.key_file sent it".to_owned())?;
        let (messages, unknown) = Batch::read(body).map_err(|error| error.to_string())?;
        let Some(by) = by.filter(|by| *by != secret.fingerprint()) else {
            return Ok((messages, unknown));
        };
        let ours = |message: PeerMessage| message.renamed(|job| secret.renamed(job, by));
        Ok((messages.into_iter().map(ours).collect(), unknown))
    }

    fn on_message(self: &Arc<Self>, from: &Instance, message: PeerMessage, age: Duration) {
        match message {
            PeerMessage::Assign(remote) => self.on_assign(from, *remote, age),
            // An attempt whose speech is being fetched is sent to the node anyway.
            PeerMessage::Adopt(remote)
                if self.is_fetching(&(remote.job, remote.attempt))
                    && !planted::on(Flaw::AdoptedBeforeSent) => {}
            PeerMessage::Adopt(remote) => self.adopt_for(from, &remote),
            PeerMessage::Cancel { node, epoch, job, attempt, reason } => {
                let job = self.shared.secret.masked(job);
                self.give_up_fetching((job, attempt));
                self.cancel_for(from, &node, epoch, (job, attempt), known_reason(&reason));
            }
            PeerMessage::ResultAck { node, epoch, job, attempt } => {
                self.tell_for(&node, epoch, ToNode::ResultAck { job, attempt });
            }
            PeerMessage::Control { node, epoch, command, reason } => {
                if let Some(command) = known_command(&command) {
                    self.tell_for(&node, epoch, ToNode::Control { command, reason });
                }
            }
            PeerMessage::Forget { node, job, attempt, over, blame, code } => {
                self.give_up_fetching((job, attempt));
                self.forget_for(from, &node, (job, attempt), over, (blame, code));
            }
            PeerMessage::NodeFault { node } => self.router.fault(&node),
            PeerMessage::Vouch { node } => {
                // A refusal is not sent back: the caller is on another instance and does not wait.
                let _ = self.nodes.request_probe(&node);
            }
            PeerMessage::Job { job, node, epoch, event } => {
                let former = planted::on(Flaw::FormerInstanceHeard);
                if self.router.speaks_for(&node, epoch) || former {
                    self.on_event(from, job, event);
                } else {
                    self.shared.metrics.stale("moved");
                }
            }
            PeerMessage::SlotFreed { node } => {
                self.shared.fleet.freed_by_peer(&node);
                self.shared.fleet.offer_if_ready(&node, 1);
            }
            PeerMessage::JobsWait { for_ms } => {
                self.shared.outbox.on_jobs_wait(from, Duration::from_millis(for_ms));
            }
            PeerMessage::ServicesRun { node, services } => {
                self.router.services_run(&node, &services)
            }
            PeerMessage::WatchJob { job, goal } => self.on_watch(from, job, goal),
            PeerMessage::JobWatched { job, goal } => {
                self.on_notice(job, goal, Notice::Promised(from.clone()));
            }
            PeerMessage::JobReached { job, goal } => self.on_notice(job, goal, Notice::Reached),
            PeerMessage::SessionMoved { tenant, session, epoch } => {
                self.sessions.moved(tenant, session, epoch);
            }
            PeerMessage::SessionJob { tenant, session, job, ended } => {
                self.on_session_job(from, tenant, session, job, ended);
            }
        }
    }

    fn on_assign(self: &Arc<Self>, from: &Instance, remote: RemoteAssign, age: Duration) {
        let timing = &self.shared.settings.timing;
        let patience = Duration::from_millis(timing.send_ms + timing.ack_ms);
        let send_by = Instant::now() + patience.saturating_sub(age);
        if remote.audio.is_none() && remote.context.is_none() {
            return self.put_on_node(from, remote, Bytes::new(), send_by);
        }
        let key = (self.shared.secret.masked(remote.job), remote.attempt);
        self.fetching.lock().insert(key, false);
        // The parts of one turn reach the node in their order, whichever speech is fetched first.
        let (placed, after) = oneshot::channel();
        let turn = remote.turn.clone();
        let before = self.turns.lock().insert(turn.clone(), (key.0, after));
        let (cluster, from) = (Arc::clone(self), from.clone());
        let mut remote = remote;
        tasks::start(async move {
            let fetched = cluster.fetch_work(&from, &mut remote).await;
            if let Some((_, before)) = before {
                // It resolves when the earlier part was sent, or failed.
                let _ = before.await;
            }
            // Locked until the attempt is on the node: an abandon is handled either before or after that.
            let mut fetching = cluster.fetching.lock();
            let unwanted = fetching.remove(&key).unwrap_or(false);
            match fetched {
                _ if unwanted => cluster.unsent_for(&from, &remote),
                Ok(audio) => cluster.put_on_node(&from, remote, audio, send_by),
                Err(error) => {
                    tracing::info!(instance.id = %from.id, error, "the speech of a job could not be fetched");
                    cluster.unsent_for(&from, &remote);
                    cluster.not_sent(&from, &remote);
                }
            }
            drop(fetching);
            let mut turns = cluster.turns.lock();
            if turns.get(&turn).is_some_and(|(last, _)| *last == key.0) {
                turns.remove(&turn);
            }
            drop((turns, placed));
        });
    }

    /// Fetches what goes along with an assign and not through the store; returns the speech.
    async fn fetch_work(
        &self,
        from: &Instance,
        remote: &mut RemoteAssign,
    ) -> Result<Bytes, String> {
        let (audio, context) = (remote.audio.clone(), remote.context.take());
        let audio = async {
            match &audio {
                Some(audio) => self.fetch_body(from, audio).await,
                None => Ok(Bytes::new()),
            }
        };
        let context = async {
            let fetched = self.fetch_body(from, context.as_ref()?).await;
            String::from_utf8(fetched.ok()?.to_vec()).ok()
        };
        let (audio, context) = tokio::join!(audio, context);
        // Without its context the sentence is translated all the same.
        if let (Some(context), Some(work)) = (context, Arc::get_mut(&mut remote.work)) {
            work.context_text = Some(context);
        }
        audio
    }

    fn is_fetching(&self, key: &(lingua_core::JobId, u32)) -> bool {
        self.fetching.lock().contains_key(key)
    }

    fn give_up_fetching(&self, key: (lingua_core::JobId, u32)) {
        if let Some(unwanted) = self.fetching.lock().get_mut(&key) {
            *unwanted = true;
        }
    }

    fn put_on_node(
        &self,
        from: &Instance,
        mut remote: RemoteAssign,
        audio: Bytes,
        send_by: Instant,
    ) {
        if self.assign_for(from, &mut remote, audio, send_by).is_err() {
            self.unsent_for(from, &remote);
            self.not_sent(from, &remote);
        }
    }

    pub(super) fn not_sent(&self, from: &Instance, remote: &RemoteAssign) {
        let _ = self.shared.outbox.send(from, self.refusal(remote));
    }

    /// What is answered when an attempt cannot be put on its node.
    fn refusal(&self, remote: &RemoteAssign) -> PeerMessage {
        PeerMessage::Job {
            job: self.shared.secret.masked(remote.job),
            node: remote.node.clone(),
            epoch: remote.epoch,
            event: PeerEvent::NotSent { attempt: remote.attempt },
        }
    }

    fn on_event(self: &Arc<Self>, from: &Instance, job: lingua_core::JobId, event: PeerEvent) {
        let event = match event {
            PeerEvent::Sent { attempt } => JobEvent::OnWire { attempt },
            PeerEvent::NotSent { attempt } => JobEvent::NotSent { attempt },
            PeerEvent::Ack { attempt } => JobEvent::Ack { attempt },
            PeerEvent::Reject { attempt, told: Some(told), .. } => {
                let (cluster, from) = (Arc::clone(self), from.clone());
                return tasks::start(async move {
                    let text = cluster.fetch_body(&from, &told).await.unwrap_or_default();
                    let reason = Reject::Other(String::from_utf8_lossy(&text).into_owned());
                    cluster.jobs.tell(&job, JobEvent::Reject { attempt, reason: Box::new(reason) });
                });
            }
            PeerEvent::Reject { attempt, reason, .. } => {
                JobEvent::Reject { attempt, reason: Box::new(reason.into()) }
            }
            PeerEvent::NodeGone { attempt } => JobEvent::NodeGone { attempt },
            PeerEvent::NodeBack { attempt } => JobEvent::NodeBack { attempt },
            PeerEvent::Dropped { attempt } => JobEvent::Dropped { attempt },
            PeerEvent::TurnClosed { attempt } => JobEvent::TurnClosed { attempt },
            PeerEvent::Partial { attempt, body } => {
                let (cluster, from) = (Arc::clone(self), from.clone());
                return tasks::start(async move {
                    if let Ok(body) = cluster.fetch_body(&from, &body).await {
                        cluster.jobs.tell(
                            &job,
                            JobEvent::Partial { attempt, body: Box::new(read_message(body)) },
                        );
                    }
                });
            }
            PeerEvent::Result { attempt, result } => {
                return self.on_result(from, job, attempt, result);
            }
        };
        self.jobs.tell(&job, event);
    }

    fn on_result(
        self: &Arc<Self>,
        from: &Instance,
        job: lingua_core::JobId,
        attempt: u32,
        result: PeerResult,
    ) {
        let (cluster, from) = (Arc::clone(self), from.clone());
        tasks::start(async move {
            let body = match result.body() {
                None => Ok(Bytes::new()),
                Some(body) => cluster.fetch_body(&from, body).await,
            };
            let event = match body {
                Ok(body) => JobEvent::Result { attempt, result: Box::new(result.with(body)) },
                Err(_) if result.stands_alone() => {
                    let result = Box::new(result.with(Bytes::new()));
                    JobEvent::Result { attempt, result }
                }
                Err(error) => {
                    tracing::info!(instance.id = %from.id, error, "a result could not be fetched");
                    JobEvent::Dropped { attempt }
                }
            };
            cluster.jobs.tell(&job, event);
        });
    }
}

/// The commands that this version knows.
fn known_command(command: &str) -> Option<&'static str> {
    ["update", "drain", "resume"].into_iter().find(|known| *known == command)
}

/// The reasons that this version knows; any other is passed on as the most general.
fn known_reason(reason: &str) -> &'static str {
    const KNOWN: [&str; 9] = [
        "cancelled",
        "deadline",
        "given_up",
        "other_copy_won",
        "no_lease",
        "unknown",
        "draining",
        "session_over",
        "superseded",
    ];
    KNOWN.into_iter().find(|known| *known == reason).unwrap_or("given_up")
}
