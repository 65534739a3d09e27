//! How a job gets onto a node: choose, reserve, write down, send; or wait in line.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::JobStep;
use lingua_core::outcome::Code;
use lingua_core::select::{Candidate, Selector, Source, Verdict, Wish};
use lingua_core::time::millis;
use lingua_core::{LeaseToken, NodeId};
use lingua_store::jobs::{Assign as Assigned, Assignment, Create, JobRecord, NewJob};
use lingua_store::nodes::ProfileVersion;
use lingua_store::slots::{self, Refusal as Closed, Reserve};
use tokio::time::Instant;

use super::registry::{AttemptView, Job};
use super::run::{MAX_REJECTED, Run, Try};
use super::slot::{Granted, Slot, release_later};
use super::waiting::Call;
use super::{JobEvent, KEEP_RECORD};
use crate::cluster::remote::Ears;
use crate::job::{Assign, Ended, Past, Receipt, Refusal};
use crate::nodes::{Held, INHIBITION, NodeState};
use crate::secret::token_name;
use crate::sessions::mail::JobNews;
use crate::settings::SessionAlias;
use crate::tasks;

/// Nodes that look full and are asked all the same before the job gets in line: the store may know
/// of a slot that this instance does not.
const ASKED_THOUGH_FULL: u32 = 2;

/// A slot that the store refused for a reason that passes is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What became of one candidate.
enum Asked {
    /// The job is on its way to it.
    Placed,
    /// Ask another.
    Refused,
    /// The job is over.
    Over(Option<Ended>),
}

/// What became of the job's record.
enum Written {
    /// It is there.
    Yes,
    /// The job is over.
    Over(Option<Ended>),
    /// It was there before.
    Elsewhere(Box<JobRecord>),
}

impl Run {
    /// Gets the job onto a node. With `wait` it gets in line if all is full; without, it is content
    /// with nothing. `Err` is the job's ending; `Err(None)` if another instance has it.
    pub(super) async fn place(&mut self, wait: bool) -> Result<(), Option<Ended>> {
        self.traced.searches();
        let placed = self.find_place(wait).await;
        if let Err(ended) = &placed {
            self.traced.found_nobody(ended.as_ref());
        }
        placed
    }

    async fn find_place(&mut self, wait: bool) -> Result<(), Option<Ended>> {
        if wait {
            self.job.change(|view| Job::step(view, JobStep::Select));
        }
        let wish = self.wish().await;
        let mut selector = self.selector(&wish);
        let (mut handed, mut full_asked) = (None, 0);
        // Called out of the line, and not yet back in it.
        let mut called = false;
        loop {
            if let Err(ended) = self.check_cancelled() {
                self.pass_on(handed);
                return Err(ended);
            }
            let paid = handed.is_some();
            let candidate = match handed.take().and_then(|node| self.handed(node)) {
                Some(handed) => Some(handed),
                None if !called && self.others_wait() => {
                    self.d.shared.fleet.choose_free(&mut selector)
                }
                None => self.d.shared.fleet.choose(&mut selector),
            };
            if let Some(candidate) = candidate {
                full_asked += u32::from(candidate.source == Source::Full);
                let passed = selector.preferred_passed();
                if let Some(passed) = passed.filter(|_| selector.candidates() == 1) {
                    self.note(format!("preferred node passed over: {}", passed_text(passed)));
                }
                let preferred = candidate.source == Source::Preferred;
                let asked = self.ask(candidate).await;
                match (&asked, paid) {
                    (Asked::Placed, false) if called => {
                        self.d.waiting.charge(&self.spec.need.tenant);
                        // Where one found a slot by looking there may be more.
                        self.d.waiting.look_again();
                    }
                    (Asked::Refused, true) => self.d.waiting.refund(&self.spec.need.tenant),
                    _ => {}
                }
                match asked {
                    Asked::Placed => return Ok(()),
                    Asked::Over(ended) => return Err(ended),
                    Asked::Refused if preferred => {
                        self.note("preferred node passed over: it has no slot free".into());
                        continue;
                    }
                    Asked::Refused if full_asked < ASKED_THOUGH_FULL => continue,
                    Asked::Refused => {}
                }
            }
            if !wait {
                return Err(None);
            }
            // Nodes that said they are busy are asked again, once no other is left.
            let busy = full_asked >= ASKED_THOUGH_FULL || !self.busy.is_empty();
            self.busy.clear();
            let verdict = if busy { Verdict::Busy } else { selector.verdict() };
            if let Some(ended) = self.hopeless(verdict) {
                return Err(Some(ended));
            }
            handed = self.wait_in_line(wish.strict).await?;
            called = true;
            selector = self.selector(&wish);
            full_asked = 0;
        }
    }

    /// Whether others are in line for the same. Then a slot of a node that looks full is on its way to
    /// one of them, and whoever asked for it in this moment would take it out of turn.
    fn others_wait(&self) -> bool {
        let need = &self.spec.need;
        self.d.waiting.length(need.route, need.speech) > 0
    }

    /// What the job wishes about its node, apart from those that failed it.
    async fn wish(&self) -> Wish {
        let spec = &self.spec;
        let past = match &spec.past {
            Some(past) => past.clone(),
            None => self.d.conversations.past(&spec.session),
        };
        let Past { last, heard } = past;
        let turn_node = match &spec.turn {
            Some(turn) => {
                let bound = self.d.shared.store.jobs.turn_node(&spec.session, turn).await;
                bound.unwrap_or_default()
            }
            None => None,
        };
        Wish {
            preferred: spec.preferred.clone(),
            strict: spec.strict,
            turn_node,
            avoid_last: last.filter(|_| self.d.shared.settings.avoid_last),
            excluded: Vec::new(),
            heard,
        }
    }

    fn selector(&self, wish: &Wish) -> Selector {
        let mut excluded = self.d.route_gaps.of(self.spec.need.route);
        excluded.extend_from_slice(&self.excluded);
        excluded.extend_from_slice(&self.busy);
        excluded.extend(self.tries.iter().map(|live| live.slot.node.id.clone()));
        let wish = Wish { excluded, ..wish.clone() };
        let policy = self.d.shared.settings.select;
        Selector::new(self.spec.need.clone(), wish, policy, self.d.shared.chance.bits())
    }

    /// A node whose freed slot was handed to this job.
    fn handed(&self, node: NodeId) -> Option<Candidate> {
        let fleet = self.d.shared.fleet.lock();
        let version = *fleet.get(&node)?.version();
        Some(Candidate { node, version, source: Source::Rest })
    }

    fn check_cancelled(&mut self) -> Result<(), Option<Ended>> {
        while let Ok(event) = self.events.try_recv() {
            match event {
                // Beside a live attempt everything counts, and is looked at right after.
                event if !self.tries.is_empty() => self.later.push_back(event),
                JobEvent::Cancel { reason } => return Err(Some(Ended::Cancelled(reason.into()))),
                _ => {}
            }
        }
        if Instant::now() >= self.deadline {
            let late = Refusal::new(Code::JobTimeout, "the job's deadline passed");
            return Err(Some(Ended::Failed(late)));
        }
        Ok(())
    }

    /// The ending, if waiting would not help.
    fn hopeless(&self, verdict: Verdict) -> Option<Ended> {
        let refusal = match verdict {
            Verdict::Busy | Verdict::PreferredBusy => return None,
            // Nobody is left after an attempt that failed: its failure is the ending.
            _ if self.failure.is_some() => self.failure.clone().expect("looked at a moment ago"),
            Verdict::PreferredNotCapable(_) => Refusal::new(
                Code::PreferredNodeNotCapable,
                "the node asked for cannot take this job, and no other is wanted",
            ),
            Verdict::OnlyFailed => {
                Refusal::new(Code::ModelNotAvailable, "every able node misses a model for it")
                    .retry_after(1_000)
            }
            Verdict::NoneEligible => {
                self.d.shared.metrics.pool_empty.inc();
                self.d.demand.note(self.spec.need.route, self.spec.need.speech);
                let missing = self.d.shared.fleet.missing(&self.spec.need);
                Refusal::new(Code::NoCapableNode, missing)
            }
        };
        Some(Ended::Failed(refusal))
    }

    /// Waits for a slot. `Some` is a node whose slot is this job's to ask for, `None` a hint to look
    /// again.
    async fn wait_in_line(&mut self, strict: bool) -> Result<Option<NodeId>, Option<Ended>> {
        match self.write_down(None).await {
            Written::Yes => self.created = true,
            Written::Over(ended) => return Err(ended),
            Written::Elsewhere(record) => {
                self.elsewhere(*record);
                return Err(None);
            }
        }
        let began = Instant::now();
        let queue_max = Duration::from_millis(self.d.shared.settings.timing.queue_max_ms);
        // However often it gets in line, it waits no longer than that in all.
        let until = (began + queue_max.saturating_sub(self.waited)).min(self.deadline);
        let d = Arc::clone(&self.d);
        let only = self.spec.preferred.clone().filter(|_| strict);
        let excluded = self.excluded.clone();
        let Some(mut line) = d.waiting.join(&self.spec.need, only, excluded, self.deadline) else {
            return Err(Some(self.busy("the line for this direction is full")));
        };
        self.job.change(|view| Job::step(view, JobStep::Wait));
        self.traced.waits();
        let call = loop {
            tokio::select! {
                biased;
                call = &mut line.call => break call.ok(),
                event = self.events.recv() => {
                    if let Some(JobEvent::Cancel { reason }) = event {
                        self.pass_on(line.leave());
                        return Err(Some(Ended::Cancelled(reason.into())));
                    }
                }
                () = tokio::time::sleep_until(until) => {
                    self.pass_on(line.leave());
                    return Err(Some(self.busy("every able node is full")));
                }
            }
        };
        self.traced.waited();
        let waited = began.elapsed();
        self.waited += waited;
        d.shared.metrics.wait_seconds.observe(waited.as_secs_f64());
        self.job.change(|view| {
            view.waited_ms += millis(waited);
            Job::step(view, JobStep::Select);
        });
        match call {
            Some(Call::Slot(node)) => Ok(Some(node)),
            Some(Call::Leave) => Err(Some(
                self.busy("the line for this direction is full, and others have less in it"),
            )),
            Some(Call::Look) | None if Instant::now() >= until => {
                Err(Some(self.busy("every able node is full")))
            }
            Some(Call::Look) | None => Ok(None),
        }
    }

    fn pass_on(&self, node: Option<NodeId>) {
        if let Some(node) = node {
            pass_to_next(&self.d, node);
        }
    }

    fn busy(&self, why: &str) -> Ended {
        self.d.demand.note(self.spec.need.route, self.spec.need.speech);
        let (code, detail) = if self.spec.strict && self.spec.preferred.is_some() {
            (Code::PreferredNodeBusy, "the node asked for is full, and no other is wanted")
        } else {
            (Code::AllNodesBusy, why)
        };
        Ended::Failed(Refusal::new(code, detail).retry_after(self.retry_after_ms()))
    }

    /// When a slot is likely to be free: the line's length times what a job takes, over the slots.
    fn retry_after_ms(&self) -> u64 {
        let need = &self.spec.need;
        let ahead = self.d.waiting.length(need.route, need.speech) as u64 + 1;
        let mut fleet = self.d.shared.fleet.lock();
        let (mut slots, mut latency, mut nodes) = (0u64, 0u64, 0u64);
        for node in fleet.members(need.route, need.speech).take(64) {
            slots += u64::from(node.max());
            latency += u64::from(node.latency_ms().unwrap_or(1_000));
            nodes += 1;
        }
        let each = latency / nodes.max(1);
        (ahead * each / slots.max(1)).clamp(100, 30_000)
    }

    /// Asks the store for a slot on the node, and sends the job if it has one.
    async fn ask(&mut self, candidate: Candidate) -> Asked {
        let Candidate { node, version, source } = candidate;
        let shared = Arc::clone(&self.d.shared);
        let number = self.attempt + 1;
        let token = LeaseToken { job: self.job.id, attempt: number, nonce: shared.chance.nonce() };
        let wish = slots::Wish {
            node: &node,
            token,
            version: store_version(version),
            models: &self.spec.need.models,
            lease: Duration::from_millis(shared.settings.timing.reserve_lease_ms),
        };
        let assignment = Assignment { node: node.clone(), token };
        let slots = &shared.store.slots;
        let asking = self.traced.asks(&node);
        let (reserved, written) = if self.created {
            (slots.reserve(&wish).await, None)
        } else {
            // One round trip between "utterance ended" and "job on the wire".
            let (reserved, written) = match self.new_job(Some(assignment.clone())) {
                Ok(new) => {
                    let (created, reserved) = shared.store.jobs.begin(&new, &**slots, &wish).await;
                    (reserved, written(created))
                }
                Err(over) => (slots.reserve(&wish).await, over),
            };
            self.attempt = number;
            let over = match written {
                Written::Yes => {
                    self.created = true;
                    None
                }
                Written::Over(ended) => Some(ended),
                Written::Elsewhere(record) => {
                    self.elsewhere(*record);
                    Some(None)
                }
            };
            (reserved, over)
        };
        if let Some(mut asking) = asking {
            asking.note("reason", answer_word(&reserved));
        }
        let granted = self.granted(&node, token, reserved);
        let slot = match (granted, written) {
            (Err(asked), None) => return asked,
            (Err(_), Some(ended)) => return Asked::Over(ended),
            (Ok(granted), written) => {
                let Some(state) = self.d.nodes.get(&node) else {
                    release_later(&shared, &node, token).await;
                    return written.map_or(Asked::Refused, Asked::Over);
                };
                let nodes = Arc::clone(&self.d.nodes);
                let slot = Slot::new(nodes, Arc::clone(&shared), state, token, granted);
                if let Some(ended) = written {
                    slot.release().await;
                    return Asked::Over(ended);
                }
                slot
            }
        };
        if self.attempt < number {
            let limit = shared.settings.timing.max_attempts + MAX_REJECTED + 2;
            let assigned = match shared.store.jobs.assign(&self.job.id, &assignment, limit).await {
                // The store lost the record, and this actor has been the job's only owner all along.
                Ok(Assigned::Unknown) => self.write_again(assignment).await,
                other => other,
            };
            match assigned {
                Ok(Assigned::Assigned) => self.attempt = number,
                other => {
                    slot.release().await;
                    return Asked::Over(Some(not_assigned(other)));
                }
            }
        }
        self.send(slot, source).await
    }

    /// Writes a record anew that the store lost, with the assignment that it is lost at.
    async fn write_again(&mut self, assignment: Assignment) -> lingua_store::Result<Assigned> {
        self.created = false;
        match self.write_down(Some(assignment)).await {
            Written::Yes => {
                self.created = true;
                Ok(Assigned::Assigned)
            }
            Written::Over(_) | Written::Elsewhere(_) => Ok(Assigned::Unknown),
        }
    }

    /// What the store's answer means, with the fleet view brought in line with it.
    fn granted(
        &self,
        node: &NodeId,
        token: LeaseToken,
        reserved: lingua_store::Result<Reserve>,
    ) -> Result<Granted, Asked> {
        let metrics = &self.d.shared.metrics;
        let fleet = &self.d.shared.fleet;
        match reserved {
            Ok(Reserve::Granted { until, .. }) => {
                metrics.granted.inc();
                let lease = Duration::from_millis(self.d.shared.settings.timing.reserve_lease_ms);
                Ok(Granted { at: Some(until - lease), here: Instant::now() })
            }
            Ok(Reserve::Already { .. }) => {
                metrics.granted.inc();
                Ok(Granted { at: None, here: Instant::now() })
            }
            Ok(Reserve::Full { used, max }) => {
                metrics.reserve("full");
                fleet.true_load(node, used, max);
                if let Some(state) = self.d.nodes.get(node) {
                    self.d.nodes.recount(&state);
                }
                Err(Asked::Refused)
            }
            Ok(Reserve::Spent) => {
                metrics.reserve("spent");
                fleet.ended(node);
                Err(Asked::Refused)
            }
            Ok(Reserve::Refused(why)) => {
                metrics.reserve(refused_word(why));
                tracing::debug!(node.id = %node, reason = refused_word(why), "slot refused");
                // Until it is looked at again the slot counts as taken: not everybody need ask.
                if let Some(state) = self.d.nodes.get(node) {
                    self.look_again_later(state);
                } else {
                    fleet.remove(node);
                }
                Err(Asked::Refused)
            }
            Err(error) => {
                metrics.reserve("store_down");
                fleet.ended(node);
                // The step may have happened: whatever it took is given back.
                let (shared, node) = (Arc::clone(&self.d.shared), node.clone());
                tasks::spawn("give a slot back", async move {
                    release_later(&shared, &node, token).await;
                });
                Err(Asked::Over(Some(Ended::Failed(Refusal::store_down(&error)))))
            }
        }
    }

    fn look_again_later(&self, node: Arc<NodeState>) {
        let d = Arc::clone(&self.d);
        tasks::start(async move {
            tokio::time::sleep(LOOK_AGAIN).await;
            d.nodes.slot_came_back(&node);
        });
    }

    /// Writes the job's record, once.
    async fn write_down(&self, first: Option<Assignment>) -> Written {
        if self.created {
            return Written::Yes;
        }
        match self.new_job(first) {
            Ok(new) => written(self.d.shared.store.jobs.create(&new).await),
            Err(over) => over,
        }
    }

    /// The record to write, unless the deadline is there.
    fn new_job(&self, first: Option<Assignment>) -> Result<NewJob<'_>, Written> {
        let deadline_in = self.deadline.saturating_duration_since(Instant::now());
        if deadline_in.as_millis() == 0 {
            let late = Refusal::new(Code::JobTimeout, "the job's deadline passed");
            return Err(Written::Over(Some(Ended::Failed(late))));
        }
        Ok(NewJob {
            id: self.job.id,
            session: &self.spec.session,
            epoch: self.spec.epoch,
            first,
            deadline_in,
            keep_for: KEEP_RECORD,
        })
    }

    /// Puts the job on the node's connection.
    async fn send(&mut self, slot: Slot, source: Source) -> Asked {
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
        let acks = slot.node.lock().link.as_ref().is_some_and(|link| link.supports.ack);
        let timing = &shared.settings.timing;
        let placing = self.step(timing.send_ms + timing.ack_ms).unwrap_or_default();
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
            sent: Instant::now(),
            heard: None,
            renewed: now,
            lease: Duration::from_millis(shared.settings.timing.reserve_lease_ms),
            until: None,
        };
        let node = Arc::clone(&slot.node);
        let supports = match node.send(assign, self.job.id, held) {
            Ok(supports) => supports,
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
            supports,
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
    fn placed(&mut self, node: &NodeId, number: u32, source: Source, now_ms: u64) {
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

    fn elsewhere(&mut self, record: JobRecord) {
        self.job.change(|view| {
            view.state = record.state;
            view.elsewhere = Some(record);
        });
        self.let_be();
    }

    fn note(&self, text: String) {
        tracing::info!(job.id = %self.job.id, reason = text, "a note on the choice");
        self.job.change(|view| view.notes.push(text));
    }
}

fn written(created: lingua_store::Result<Create>) -> Written {
    match created {
        Ok(Create::Created) => Written::Yes,
        // Another instance has it, or had it: the same request, the same answer.
        Ok(Create::Exists(record)) => Written::Elsewhere(Box::new(record)),
        Ok(Create::Superseded { .. }) => {
            let newer = "a newer connection has the session";
            Written::Over(Some(Ended::Cancelled(newer.into())))
        }
        Err(error) => Written::Over(Some(Ended::Failed(Refusal::store_down(&error)))),
    }
}

/// A slot that nobody took goes to the next in line.
fn pass_to_next(d: &super::Dispatcher, node: NodeId) {
    match d.nodes.get(&node) {
        Some(state) => d.nodes.slot_came_back(&state),
        None => d.shared.fleet.ended(&node),
    }
}

/// The version under which the store knows the profile.
fn store_version(version: lingua_core::pool::ProfileVersion) -> ProfileVersion {
    ProfileVersion::from_bits(version.get())
}

fn passed_text(passed: lingua_core::select::Passed) -> String {
    use lingua_core::select::Passed;
    match passed {
        Passed::Unknown => "unknown".into(),
        Passed::Excluded => "it failed this job".into(),
        Passed::NotEligible(why) => {
            let words: Vec<&str> = why.iter().map(|reason| reason.as_str()).collect();
            format!("not able ({})", words.join(", "))
        }
    }
}

/// What the store answered to a wish for a slot, in the words of the metrics.
fn answer_word(answer: &lingua_store::Result<Reserve>) -> &'static str {
    match answer {
        Ok(Reserve::Granted { .. } | Reserve::Already { .. }) => "granted",
        Ok(Reserve::Full { .. }) => "full",
        Ok(Reserve::Spent) => "spent",
        Ok(Reserve::Refused(why)) => refused_word(*why),
        Err(_) => "store_down",
    }
}

fn refused_word(why: Closed) -> &'static str {
    match why {
        Closed::UnknownNode => "unknown_node",
        Closed::Changed(_) => "changed",
        Closed::Closed => "closed",
        Closed::Stale => "stale",
        Closed::MissingModel => "missing_model",
        Closed::Unconfirmed => "unconfirmed",
        Closed::Held(_) => "held",
    }
}

fn not_assigned(answer: lingua_store::Result<Assigned>) -> Ended {
    match answer {
        Ok(Assigned::Ended(_)) => {
            Ended::Failed(Refusal::new(Code::JobTimeout, "the job had been ended before"))
        }
        Ok(other) => {
            tracing::warn!(answer = ?other, "an attempt was not written down");
            Ended::Failed(Refusal::new(Code::Conflict, "another instance has the job"))
        }
        Err(error) => Ended::Failed(Refusal::store_down(&error)),
    }
}
