//! The one deadline of a job and how its time is shared out, and the retries a fleet may afford.
//!
//! Every figure that must fit another stands in [`Timing`], and [`Timing::check`] refuses a set that
//! does not fit, so that a job is never skipped at its deadline while a retry of it still starts.

mod retries;

pub use retries::RetryBudget;

use std::fmt;
use std::time::Duration;

use crate::limits::MAX_ATTEMPTS;
use crate::profile::Profile;
use crate::time::Moment;

/// A node counts as gone after this many heartbeats in a row did not come.
const HEARTBEATS_UNTIL_STALE: u64 = 3;

/// An owner renews its lease this many times before it would lapse.
const OWNER_RENEWALS: u64 = 3;

/// Every span of time that has a relation to another, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How often a node of ours says that it lives.
    pub heartbeat_ms: u64,
    /// How often a node of the compat protocol does, whatever it is told.
    pub compat_heartbeat_ms: u64,
    /// Getting an assignment onto the node's socket, also by way of another instance.
    pub send_ms: u64,
    /// Waiting for the node's ack after that.
    pub ack_ms: u64,
    /// The same for a node that acks by an HTTP call, if that is longer.
    pub http_ack_ms: u64,
    /// How long a slot is held for a job on its way.
    pub reserve_lease_ms: u64,
    /// How long a slot is held for a running job without a word from the node.
    pub running_lease_ms: u64,
    /// How long a node may work on one job.
    pub exec_max_ms: u64,
    /// Dispatches of one job, the first one counted: 2 is one retry.
    pub max_attempts: u32,
    /// How long a job may wait in line when every able node is full.
    pub queue_max_ms: u64,
    /// What the scheduler itself needs on the way: store, bus, delivery.
    pub margin_ms: u64,
    /// From the end of an utterance to its ending, one way or the other.
    pub deadline_ms: u64,
    /// How long an instance owns a session or a node without renewing.
    pub owner_ttl_ms: u64,
    /// How long a node that cannot say what it runs gets no grant after the store lost data.
    pub quarantine_ms: u64,
    /// How long a session waits for its speaker to come back.
    pub resume_window_ms: u64,
    /// Time without a piece of speech that ends an utterance.
    pub pause_ms: u64,
    /// Speech after which an utterance is cut and its turn goes on.
    pub max_utterance_ms: u64,
}

impl Timing {
    /// The default: real nodes were seen to need 1.5 to 16 s for a sentence.
    pub const fn stable() -> Timing {
        Timing {
            heartbeat_ms: 5_000,
            compat_heartbeat_ms: 15_000,
            send_ms: 1_000,
            ack_ms: 1_000,
            // Such a node asks for jobs now and then, and connects anew for every call.
            http_ack_ms: 5_000,
            reserve_lease_ms: 3_000,
            running_lease_ms: 15_000,
            exec_max_ms: 30_000,
            max_attempts: 2,
            queue_max_ms: 1_000,
            margin_ms: 1_000,
            deadline_ms: 75_000,
            owner_ttl_ms: 12_000,
            // The longest lease is that of a compat node: three of its heartbeats.
            quarantine_ms: 45_000,
            resume_window_ms: 60_000,
            pause_ms: 3_000,
            max_utterance_ms: 10_000,
        }
    }

    /// For fleets of quick nodes, where late is as bad as never.
    pub const fn fast() -> Timing {
        Timing {
            send_ms: 500,
            ack_ms: 500,
            exec_max_ms: 15_000,
            queue_max_ms: 500,
            margin_ms: 500,
            deadline_ms: 25_000,
            ..Timing::stable()
        }
    }

    /// The figures of this profile.
    pub const fn of(profile: Profile) -> Timing {
        match profile {
            Profile::Stable => Timing::stable(),
            Profile::Fast => Timing::fast(),
        }
    }

    /// These figures with those of another profile for the jobs of whoever asks for it. Leases stay what they
    /// are: where the other profile would take longer to place a job than a slot is held for it, it places
    /// its jobs as quickly as this one.
    pub fn with_jobs_of(self, profile: Profile) -> Timing {
        let other = Timing::of(profile);
        let fits = other.send_ms + other.ack_ms < self.reserve_lease_ms;
        let (send_ms, ack_ms) =
            if fits { (other.send_ms, other.ack_ms) } else { (self.send_ms, self.ack_ms) };
        Timing {
            send_ms,
            ack_ms,
            exec_max_ms: other.exec_max_ms,
            max_attempts: other.max_attempts,
            queue_max_ms: other.queue_max_ms,
            margin_ms: other.margin_ms,
            deadline_ms: other.deadline_ms,
            ..self
        }
    }

    /// What one job can need at most, term by term.
    pub fn budget(&self) -> DeadlineBudget {
        DeadlineBudget {
            queue_max_ms: self.queue_max_ms,
            max_attempts: self.max_attempts,
            send_ms: self.send_ms,
            ack_ms: self.ack_ms,
            exec_max_ms: self.exec_max_ms,
            margin_ms: self.margin_ms,
        }
    }

    /// Waiting for the ack of a node, which may ack by an HTTP call.
    pub fn ack_ms_of(&self, by_call: bool) -> u64 {
        if by_call { self.ack_ms.max(self.http_ack_ms) } else { self.ack_ms }
    }

    /// How long a slot is held for a job on its way to such a node.
    pub fn reserve_lease_ms_of(&self, by_call: bool) -> u64 {
        let longer = self.ack_ms_of(by_call) - self.ack_ms;
        self.reserve_lease_ms.saturating_add(longer)
    }

    /// How old the last heartbeat of a node may be that was told this interval.
    pub fn fresh_ms(&self, heartbeat_ms: u64) -> u64 {
        heartbeat_ms.saturating_mul(HEARTBEATS_UNTIL_STALE)
    }

    /// The running lease of a node with this heartbeat: never so short that a healthy node's lease
    /// lapses between two of its heartbeats.
    pub fn running_lease_for_ms(&self, heartbeat_ms: u64) -> u64 {
        self.running_lease_ms.max(self.fresh_ms(heartbeat_ms))
    }

    /// The longest that any slot can stay taken with nobody renewing it.
    pub fn longest_lease_ms(&self) -> u64 {
        self.reserve_lease_ms_of(true)
            .max(self.running_lease_for_ms(self.heartbeat_ms))
            .max(self.running_lease_for_ms(self.compat_heartbeat_ms))
    }

    /// How often an owner renews.
    pub fn owner_renew_ms(&self) -> u64 {
        self.owner_ttl_ms / OWNER_RENEWALS
    }

    /// Whether a job with that many dispatches behind it may have another: one is left, and there
    /// is time to place it before the job ends.
    pub fn may_dispatch_again(&self, dispatches: u32, now: Moment, deadline: Moment) -> bool {
        let placing = Duration::from_millis(self.send_ms.saturating_add(self.ack_ms));
        dispatches < self.max_attempts && now.until(deadline) > placing
    }

    /// Refuses a set of figures that do not fit each other, with the figures in the text.
    pub fn check(&self) -> Result<(), TimingError> {
        self.check_ranges()?;
        let budget = self.budget();
        if self.deadline_ms < budget.total_ms() {
            return Err(TimingError::Deadline { deadline_ms: self.deadline_ms, budget });
        }
        let placing = self.send_ms.saturating_add(self.ack_ms);
        longer("reserve_lease_ms", self.reserve_lease_ms, "send_ms + ack_ms", placing)?;
        let beats = self.heartbeat_ms.saturating_mul(2);
        longer("running_lease_ms", self.running_lease_ms, "2 x heartbeat_ms", beats)?;
        longer("resume_window_ms", self.resume_window_ms, "owner_ttl_ms", self.owner_ttl_ms)?;
        longer("max_utterance_ms", self.max_utterance_ms, "pause_ms", self.pause_ms)?;
        let longest = self.longest_lease_ms();
        if self.quarantine_ms < longest {
            let (quarantine_ms, longest_lease_ms) = (self.quarantine_ms, longest);
            return Err(TimingError::Quarantine { quarantine_ms, longest_lease_ms });
        }
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), TimingError> {
        if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) {
            return Err(TimingError::Attempts(self.max_attempts));
        }
        let spans = [
            ("heartbeat_ms", self.heartbeat_ms),
            ("compat_heartbeat_ms", self.compat_heartbeat_ms),
            ("send_ms", self.send_ms),
            ("ack_ms", self.ack_ms),
            ("http_ack_ms", self.http_ack_ms),
            ("exec_max_ms", self.exec_max_ms),
            ("owner_ttl_ms", self.owner_ttl_ms / OWNER_RENEWALS),
            ("pause_ms", self.pause_ms),
        ];
        match spans.into_iter().find(|(_, ms)| *ms == 0) {
            Some((name, _)) => Err(TimingError::Zero(name)),
            None => Ok(()),
        }
    }
}

fn longer(
    name: &'static str,
    ms: u64,
    than: &'static str,
    than_ms: u64,
) -> Result<(), TimingError> {
    if ms > than_ms { Ok(()) } else { Err(TimingError::NotLonger { name, ms, than, than_ms }) }
}

/// The most that one job can need:
/// `queue_max + max_attempts * (send + ack) + exec_max + margin`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineBudget {
    queue_max_ms: u64,
    max_attempts: u32,
    send_ms: u64,
    ack_ms: u64,
    exec_max_ms: u64,
    margin_ms: u64,
}

impl DeadlineBudget {
    /// The sum.
    pub fn total_ms(&self) -> u64 {
        let placing = self.send_ms.saturating_add(self.ack_ms);
        self.queue_max_ms
            .saturating_add(placing.saturating_mul(u64::from(self.max_attempts)))
            .saturating_add(self.exec_max_ms)
            .saturating_add(self.margin_ms)
    }
}

impl fmt::Display for DeadlineBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlineBudget { queue_max_ms, max_attempts, send_ms, ack_ms, exec_max_ms, margin_ms } =
            self;
        write!(
            f,
            "queue_max {queue_max_ms} + max_attempts {max_attempts} x (send {send_ms} + ack \
             {ack_ms}) + exec_max {exec_max_ms} + margin {margin_ms} = {} ms",
            self.total_ms()
        )
    }
}

/// Why a set of figures is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A job could still be worked on after its deadline.
    #[error("deadline_ms = {deadline_ms} is too short: a job can need {budget}")]
    Deadline {
        /// The deadline that was set.
        deadline_ms: u64,
        /// What it must hold.
        budget: DeadlineBudget,
    },
    /// One span must outlast another.
    #[error("{name} = {ms} must be more than {than} = {than_ms}")]
    NotLonger {
        /// The span that is too short.
        name: &'static str,
        /// Its value.
        ms: u64,
        /// What it must outlast.
        than: &'static str,
        /// That one's value.
        than_ms: u64,
    },
    /// A lease that the store forgot could outlast the quarantine.
    #[error(
        "quarantine_ms = {quarantine_ms} must be at least the longest lease, {longest_lease_ms} \
         (3 x the longest heartbeat, or a longer reserve_lease_ms or running_lease_ms)"
    )]
    Quarantine {
        /// The quarantine that was set.
        quarantine_ms: u64,
        /// The longest lease.
        longest_lease_ms: u64,
    },
    /// No attempt at all, or more than any job may have.
    #[error("max_attempts is from 1 to {MAX_ATTEMPTS}, not {0}")]
    Attempts(u32),
    /// A span that cannot be nothing.
    #[error("{0} is too short to mean anything")]
    Zero(&'static str),
}

/// The time a step may take: its own timeout or what remains until the deadline, whichever is less;
/// `None` when nothing remains and the step must not start.
pub fn step_timeout(now: Moment, deadline: Moment, own: Duration) -> Option<Duration> {
    let remaining = now.until(deadline);
    (!remaining.is_zero()).then(|| own.min(remaining))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn both_presets_hold_their_own_relations() {
        assert_eq!(Timing::stable().check(), Ok(()));
        assert_eq!(Timing::fast().check(), Ok(()));
        assert!(Timing::fast().deadline_ms < Timing::stable().deadline_ms);
    }

    #[test]
    fn figures_that_fit_do_so_with_the_jobs_of_another_profile_too() {
        let tight = Timing { reserve_lease_ms: 1_500, ..Timing::fast() };
        let slow = Timing { reserve_lease_ms: 60_000, quarantine_ms: 70_000, ..Timing::stable() };
        for own in [Timing::stable(), Timing::fast(), tight, slow] {
            assert_eq!(own.check(), Ok(()));
            for profile in Profile::ALL {
                let mixed = own.with_jobs_of(profile);
                assert_eq!(mixed.check(), Ok(()), "{own:?} {profile}");
                assert_eq!(mixed.deadline_ms, Timing::of(profile).deadline_ms);
                assert_eq!(mixed.reserve_lease_ms, own.reserve_lease_ms);
            }
        }
        let placed = tight.with_jobs_of(Profile::Stable);
        assert_eq!((placed.send_ms, placed.ack_ms), (500, 500), "within the lease of a slot");
    }

    #[test]
    fn who_acks_by_a_call_has_longer_for_it_and_its_slot_is_held_as_much_longer() {
        for timing in [Timing::stable(), Timing::fast()] {
            assert_eq!(timing.ack_ms_of(false), timing.ack_ms);
            assert_eq!(timing.ack_ms_of(true), 5_000);
            assert_eq!(timing.reserve_lease_ms_of(false), timing.reserve_lease_ms);
            let placing = timing.send_ms + timing.ack_ms_of(true);
            assert!(timing.reserve_lease_ms_of(true) > placing);
        }
        let patient = Timing { ack_ms: 8_000, ..Timing::stable() };
        assert_eq!(patient.ack_ms_of(true), 8_000, "never shorter than that of the others");
    }

    /// Flaw 93.
    #[test]
    fn a_deadline_that_does_not_hold_the_sum_is_refused_with_the_sum_shown() {
        let wrong = Timing { deadline_ms: 35_999, ..Timing::stable() };
        assert_eq!(
            wrong.check().unwrap_err().to_string(),
            "deadline_ms = 35999 is too short: a job can need queue_max 1000 + max_attempts 2 x \
             (send 1000 + ack 1000) + exec_max 30000 + margin 1000 = 36000 ms"
        );
        assert_eq!(Timing { deadline_ms: 36_000, ..Timing::stable() }.check(), Ok(()));
    }

    #[test]
    fn every_relation_between_spans_is_checked() {
        let ok = Timing::stable();
        let refused = |timing: Timing| timing.check().unwrap_err().to_string();
        assert_eq!(
            refused(Timing { reserve_lease_ms: 2_000, ..ok }),
            "reserve_lease_ms = 2000 must be more than send_ms + ack_ms = 2000"
        );
        assert_eq!(
            refused(Timing { running_lease_ms: 10_000, ..ok }),
            "running_lease_ms = 10000 must be more than 2 x heartbeat_ms = 10000"
        );
        let long = Timing { running_lease_ms: 50_000, ..ok };
        assert!(refused(long).starts_with("quarantine_ms = 45000 must be at least the longest"));
        let brief = Timing { resume_window_ms: 12_000, ..ok };
        assert!(refused(brief).starts_with("resume_window_ms = 12000 must be more than owner_ttl"));
        assert!(refused(Timing { max_attempts: 0, ..ok }).contains("from 1 to 16, not 0"));
        assert!(refused(Timing { ack_ms: 0, ..ok }).starts_with("ack_ms"));
        assert!(refused(Timing { exec_max_ms: u64::MAX, ..ok }).contains("too short"));
    }

    #[test]
    fn a_lease_outlasts_two_heartbeats_of_any_node() {
        let timing = Timing::stable();
        for beat in [timing.heartbeat_ms, timing.compat_heartbeat_ms] {
            assert!(timing.running_lease_for_ms(beat) > 2 * beat);
            assert!(timing.running_lease_for_ms(beat) <= timing.quarantine_ms);
        }
    }

    /// Flaw 27.
    #[test]
    fn a_step_never_gets_more_than_what_remains_until_the_deadline() {
        let own = Duration::from_millis(1_000);
        assert_eq!(step_timeout(at(0), at(5_000), own), Some(own));
        assert_eq!(step_timeout(at(4_600), at(5_000), own), Some(Duration::from_millis(400)));
        assert_eq!(step_timeout(at(5_000), at(5_000), own), None);
        assert_eq!(step_timeout(at(6_000), at(5_000), own), None);
    }

    /// Flaw 29: the figure counts attempts, not retries, so it means what it says.
    #[test]
    fn two_attempts_are_one_dispatch_and_one_retry() {
        let timing = Timing::stable();
        let again = |dispatches| timing.may_dispatch_again(dispatches, at(0), at(60_000));
        assert_eq!([again(0), again(1), again(2), again(3)], [true, true, false, false]);
    }

    /// Flaw 93: a retry that cannot be placed before the ending does not start.
    #[test]
    fn no_retry_starts_that_the_deadline_would_cut_off() {
        let timing = Timing::stable();
        assert!(timing.may_dispatch_again(1, at(57_999), at(60_000)));
        assert!(!timing.may_dispatch_again(1, at(58_000), at(60_000)));
        assert!(!timing.may_dispatch_again(0, at(60_001), at(60_000)));
    }
}
