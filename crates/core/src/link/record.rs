//! Reconciles the store's record of the node, and its leases, with what is known here.
//!
//! Events only note what the store is to be told. One call at a time is under way, within a rate, and has
//! everything that was noted since the last. So a store that hangs delays no message about a job.

use std::time::Duration;

use super::event::{Answer, Call, Effect, Effects, Kinds, Report, ToNode};
use super::machine::{GRACE_FOR_LATE_RESULTS, Machine};
use super::reconcile::{Counted, Reconciled, Running, by_count};
use crate::ids::JobId;
use crate::planted::{self, Flaw};
use crate::rate::Gcra;
use crate::slots::{Confirmed, LeaseToken};
use crate::time::Moment;

/// The pause before a call is repeated that the store did not answer. After a longer outage the store is told
/// everything again.
pub const TELL_AGAIN: Duration = Duration::from_secs(1);

/// What the store is told of a node, and what is under way.
#[derive(Default)]
pub(super) struct RecordSync {
    pub pending: Pending,
    step: Step,
    updates: Gcra,
    lookups: Gcra,
}

/// What the store is to be told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Pending {
    /// The whole record, because it changed or the store may have lost it.
    pub put: bool,
    /// What changes from beat to beat.
    pub beat: bool,
    /// A heartbeat came: the leases of the node's attempts are extended.
    pub renew: bool,
    /// What is known of the node changed. It is written with the next of the two above.
    pub reputation: bool,
    /// What the node reports to run.
    pub report: Option<Running>,
    /// How many jobs it reports to run, and when it did.
    pub count: Option<(u32, Moment)>,
}

/// Which call is under way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Step {
    /// No call is under way.
    #[default]
    Idle,
    /// No call until then: the node's updates are over their rate.
    Paced { until: Moment },
    /// No call until then: the store did not answer.
    Untold { until: Moment },
    /// The record, whole or in part. What the node runs follows.
    Writing(Pending),
    /// The jobs of the report that are not known here.
    LookingUp(Running),
    /// What the node runs: by its report of that moment, or by what is known here.
    Confirming { running: Option<Vec<LeaseToken>>, reported_at: Option<Moment>, unstoppable: bool },
    /// The leases of what it has.
    Renewing,
}

impl Pending {
    /// Adds what an earlier call was to tell. What was noted since is newer.
    fn add(&mut self, untold: Pending) {
        self.put |= untold.put;
        self.beat |= untold.beat;
        self.renew |= untold.renew;
        self.reputation |= untold.reputation;
        self.report = self.report.take().or(untold.report);
        self.count = self.count.take().or(untold.count);
    }

    fn any(&self) -> bool {
        self.put || self.beat || self.report.is_some() || self.count.is_some()
    }
}

impl RecordSync {
    /// When a paced update may go on.
    pub fn due(&self) -> Option<Moment> {
        match self.step {
            Step::Paced { until } | Step::Untold { until } => Some(until),
            _ => None,
        }
    }

    /// Ends the pause after a call without an answer.
    pub fn tell_now(&mut self) {
        if let Step::Untold { .. } = self.step {
            self.step = Step::Idle;
        }
    }
}

impl<K: Kinds> Machine<K> {
    /// Charges so many lookups of unknown jobs to the node's rate, or none.
    pub(super) fn take_lookups(&mut self, jobs: usize) -> Result<(), Duration> {
        let jobs = if planted::on(Flaw::LookupsUnlimited) { 0 } else { jobs };
        let cost = u32::try_from(jobs).unwrap_or(u32::MAX);
        self.sync.lookups.take(self.policy.lookups, cost, self.now)
    }

    /// Whether the node may have one more job looked up that is not known here.
    pub fn may_look_up(&mut self, now: Moment) -> Result<(), Duration> {
        self.now = self.now.max(now);
        self.take_lookups(1)
    }

    /// Notes what the node reports to run. A report with more unknown jobs than may be looked up is refused
    /// as a whole: half of it would release slots of jobs that run.
    pub(super) fn note_running(
        &mut self,
        named: Vec<(JobId, u32)>,
        out: &mut Effects<K>,
    ) -> Result<(), Effect<K>> {
        let held = |job: &JobId, attempt| self.attempts.get(job, attempt);
        let sorted = Running::sort(self.now, named, |job, attempt| {
            held(job, attempt).map(|held| (held.token, held.is_wanted()))
        });
        // An attempt that was abandoned while the node was disconnected is to be stopped now.
        for (job, attempt) in sorted.given_up {
            self.send_cancel(job, attempt, "given_up", out);
        }
        let unknown = sorted.running.unknown.len();
        if unknown > 0 {
            let taken = self.take_lookups(unknown);
            taken.map_err(|retry_after| Effect::ReportRefused { unknown, retry_after })?;
        }
        self.sync.pending.report = Some(sorted.running);
        Ok(())
    }

    /// Tells the store what it is to be told, unless a call is under way.
    pub(super) fn start_sync(&mut self, out: &mut Effects<K>) {
        if self.sync.due().is_some_and(|until| until <= self.now) {
            self.sync.step = Step::Idle;
        }
        if self.sync.step != Step::Idle || !self.sync.pending.any() || self.epoch == 0 {
            return;
        }
        if let Err(wait) = self.sync.updates.take(self.policy.updates, 1, self.now) {
            let wait = wait.max(Duration::from_millis(1));
            self.sync.step = Step::Paced { until: self.now + wait };
            return out.push(Effect::Paced);
        }
        let update = std::mem::take(&mut self.sync.pending);
        let call = self.writing(&update, update.put);
        self.call(call, Step::Writing(update), out);
    }

    fn writing(&self, update: &Pending, whole: bool) -> Call {
        let reputation = update.reputation.then(|| Box::new(self.reputation()));
        let write = if whole { Call::Put } else { Call::Beat };
        write(self.vitals(), reputation)
    }

    fn call(&mut self, call: Call, step: Step, out: &mut Effects<K>) {
        self.sync.step = step;
        out.push(Effect::Store { epoch: self.epoch, call });
    }

    pub(super) fn on_answer(&mut self, epoch: u64, answer: Answer, out: &mut Effects<K>) {
        let step = std::mem::take(&mut self.sync.step);
        if let Step::Paced { .. } | Step::Untold { .. } = step {
            // No call was under way.
            self.sync.step = step;
            return;
        }
        // An answer to an earlier registration says nothing about this one.
        if epoch != self.epoch {
            let lost = matches!(step, Step::Writing(Pending { reputation: true, .. }));
            self.sync.pending.reputation |= lost;
            return;
        }
        match (step, answer) {
            (_, Answer::Superseded) => self.superseded(out),
            (Step::Writing(update), Answer::Kept { confirmed }) => {
                self.written(update, !confirmed, out);
            }
            (Step::Writing(update), Answer::PutAgain) => {
                let call = self.writing(&update, true);
                self.call(call, Step::Writing(update), out);
            }
            // The answer does not say whether grants wait for a report. One report too many does no harm.
            (Step::Writing(update), Answer::Stored) => self.written(update, true, out),
            (Step::LookingUp(report), Answer::Found(found)) => self.looked_up(report, found, out),
            (step, Answer::Failed) => self.untold(step),
            (Step::Writing(update), _) => self.sync.pending.reputation |= update.reputation,
            (Step::Confirming { running, reported_at, .. }, Answer::Confirmed(confirmed)) => {
                self.confirmed(running.unwrap_or_default(), reported_at, confirmed, out);
            }
            (Step::Confirming { .. }, Answer::NoRecord) => self.sync.pending.put = true,
            (Step::Renewing, Answer::Renewed(tokens)) => {
                let lease = self.running_lease();
                tokens.into_iter().for_each(|token| self.extend(token, lease));
            }
            _ => {}
        }
    }

    /// The store did not answer: the call is repeated after a pause.
    fn untold(&mut self, step: Step) {
        let untold = match step {
            Step::Writing(update) => update,
            // A repeated lookup may cost the store as much again, so it is charged to the node's rate. If it is over
            // that rate, the node's next report has the list.
            Step::LookingUp(report) => match self.take_lookups(report.unknown.len()) {
                Ok(()) => Pending { report: Some(report), ..Pending::default() },
                Err(_) => Pending { beat: true, ..Pending::default() },
            },
            // Only a report of the node is repeated; otherwise the next heartbeat asks again.
            Step::Confirming { running: Some(known), reported_at: Some(at), unstoppable } => {
                let report = Some(Running { at, known, unknown: Vec::new(), unstoppable });
                Pending { report, ..Pending::default() }
            }
            Step::Confirming { .. } => Pending { beat: true, ..Pending::default() },
            Step::Renewing => Pending { beat: true, renew: true, ..Pending::default() },
            Step::Idle | Step::Paced { .. } | Step::Untold { .. } => return,
        };
        self.sync.pending.add(untold);
        self.sync.step = Step::Untold { until: self.now + TELL_AGAIN };
    }

    /// The record is written. What the node runs is next.
    fn written(&mut self, update: Pending, owed: bool, out: &mut Effects<K>) {
        out.push(Effect::FleetChanged);
        let Pending { report, count, renew, .. } = update;
        let counted = count.and_then(|(running, at)| self.reconcile_count(running, at, out));
        if let Some(report) = report.or(counted) {
            if report.unknown.is_empty() {
                return self.confirm_report(report, out);
            }
            let unknown = report.unknown.clone();
            return self.call(Call::LookUp(unknown), Step::LookingUp(report), out);
        }
        let says = self.reporting.lists_running && self.is_connected();
        match (owed, says) {
            // Its report and what it was sent since: it can run nothing else.
            (true, true) => self.confirm(Some(self.attempts.wanted()), None, out),
            (true, false) => self.confirm(None, None, out),
            (false, _) => {
                let tokens = self.attempts.wanted();
                if renew && !tokens.is_empty() {
                    let lease = self.running_lease();
                    self.call(Call::Renew { tokens, lease }, Step::Renewing, out);
                }
            }
        }
    }

    /// Releases the slots of attempts that cannot run, as the node runs so many jobs. Returns what it runs, if
    /// the number determines that.
    fn reconcile_count(
        &mut self,
        running: u32,
        at: Moment,
        out: &mut Effects<K>,
    ) -> Option<Running> {
        let timing = &self.policy.timing;
        let crossing = Duration::from_millis(timing.send_ms + timing.ack_ms);
        let mut held: Vec<_> = self.attempts.iter().collect();
        held.sort_unstable_by_key(|held| held.sent_at);
        let attempts: Vec<Counted> =
            held.into_iter().map(|held| held.counted(at, self.epoch, crossing)).collect();
        if !self.is_connected() {
            return None;
        }
        let Reconciled { running, freed } = by_count(&attempts, running);
        for token in freed {
            self.release(token, out);
        }
        running.map(|known| Running { known, ..Running::new(at) })
    }

    /// The answer of the lookup of unknown jobs. The node is told to stop those that the store does not know
    /// either, and those that are over.
    fn looked_up(
        &mut self,
        mut report: Running,
        found: Vec<Option<LeaseToken>>,
        out: &mut Effects<K>,
    ) {
        let unknown = std::mem::take(&mut report.unknown);
        let obeys = self.supports().is_some_and(|supports| supports.cancel);
        let mut found = found.into_iter();
        for (job, attempt) in unknown {
            match found.next().flatten() {
                Some(token) => report.known.push(token),
                None => {
                    self.send_cancel(job, attempt, "unknown", out);
                    report.unstoppable |= !obeys;
                }
            }
        }
        self.confirm_report(report, out);
    }

    fn confirm_report(&mut self, report: Running, out: &mut Effects<K>) {
        let Running { at, mut known, unstoppable, .. } = report;
        // The store may be told late. What the node accepted since the report keeps its slot.
        let newer = self.attempts.iter().filter(|held| {
            held.is_wanted() && held.is_newer_than(at, self.epoch) && !known.contains(&held.token)
        });
        let newer: Vec<LeaseToken> = newer.map(|held| held.token).collect();
        known.extend(newer);
        self.confirm_for(Some(known), Some(at), unstoppable, out);
    }

    fn confirm(
        &mut self,
        running: Option<Vec<LeaseToken>>,
        reported_at: Option<Moment>,
        out: &mut Effects<K>,
    ) {
        self.confirm_for(running, reported_at, false, out);
    }

    /// With `unstoppable` the node also runs unknown jobs, and does not stop when told to.
    fn confirm_for(
        &mut self,
        running: Option<Vec<LeaseToken>>,
        reported_at: Option<Moment>,
        unstoppable: bool,
        out: &mut Effects<K>,
    ) {
        let (timing, lease) = (&self.policy.timing, self.running_lease());
        let calls = self.supports().unwrap_or_default().calls;
        let grace = Duration::from_millis(timing.send_ms + timing.ack_ms_of(calls));
        let report = Report {
            running: running.clone(),
            lease,
            grace: grace.min(lease / 2),
            // There is no lease for unstoppable jobs: after a loss of the store, only time ends them.
            reserve_lease: Duration::from_millis(match unstoppable {
                true => timing.quarantine_ms.max(timing.reserve_lease_ms_of(calls)),
                false => timing.reserve_lease_ms_of(calls),
            }),
            quarantine: self.quarantine(),
        };
        self.call(
            Call::Confirm(report),
            Step::Confirming { running, reported_at, unstoppable },
            out,
        );
    }

    /// How long a node that does not report what it runs gets no grant: the whole quarantine, or after a restart
    /// of this process the rest of it.
    fn quarantine(&self) -> Duration {
        match self.reporting.hold_until {
            Some(until) => self.now.until(until).max(Duration::from_millis(1)),
            None => Duration::from_millis(self.policy.timing.quarantine_ms),
        }
    }

    fn confirmed(
        &mut self,
        running: Vec<LeaseToken>,
        reported_at: Option<Moment>,
        confirmed: Confirmed,
        out: &mut Effects<K>,
    ) {
        if reported_at.is_some() && self.reporting.unreconciled_until.take().is_some() {
            out.push(Effect::FleetChanged);
        }
        if reported_at.is_some()
            && let Some(until) = self.reporting.unvouched_until.as_mut()
        {
            // It has reported what it runs: only jobs on their way to it are waited for.
            let hold = Duration::from_millis(self.policy.timing.reserve_lease_ms);
            *until = (*until).min(self.now + hold);
        }
        self.reporting.hold_until = None;
        let lease = self.running_lease();
        running.iter().for_each(|token| self.extend(*token, lease));
        for token in confirmed.unknown {
            // The store has no slot for this attempt: the node is to stop it, and the job to try another node.
            self.send_cancel(token.job, token.attempt, "no_lease", out);
            self.drop_attempt(token, out);
        }
        let Some(reported_at) = reported_at else { return };
        self.attempts.reported(self.epoch, &running, self.now + GRACE_FOR_LATE_RESULTS);
        for token in confirmed.dropped {
            let epoch = self.epoch;
            // An attempt that is newer than the report runs without a lease, and counts here until it ends.
            let is_gone = self
                .attempts
                .by_token(token)
                .is_some_and(|held| !held.is_missing() && !held.is_newer_than(reported_at, epoch));
            if is_gone {
                self.drop_attempt(token, out);
            }
        }
        self.reporting.reported = Some(running);
    }

    /// Tells the node to stop an attempt that has no slot.
    fn send_cancel(&self, job: JobId, attempt: u32, reason: &'static str, out: &mut Effects<K>) {
        if self.is_connected() {
            out.push(Effect::Send(ToNode::Cancel { job, attempt, reason, frees: None }));
        }
    }

    /// Another instance has a newer connection of the node: the one here closes.
    fn superseded(&mut self, out: &mut Effects<K>) {
        if self.is_connected() {
            out.push(Effect::Send(ToNode::Superseded));
            self.lose_connection(out);
        }
    }
}
