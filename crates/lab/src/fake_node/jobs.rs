//! What a simulated node remembers: the jobs it works on, the results nobody acked yet, and every
//! job that ever came.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::behaviour::Fate;
use super::wire::Ids;

/// When a job that is never answered is due. Longer than any process lives, and the timers of tokio
/// reach that far.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Beyond this the oldest result is given up: the scheduler does not ack.
const MAX_UNACKED: usize = 4096;

/// Jobs remembered to tell duplicates. A scheduler that repeats itself does so soon.
const MAX_SEEN: usize = 64 * 1024;

/// A job that is worked on.
#[derive(Debug)]
pub(super) struct Job {
    pub ids: Ids,
    pub fate: Fate,
    pub began: Instant,
    pub latency: Duration,
    pub next: Step,
    /// Its audio comes in the binary frame behind the assign, and nothing is done before.
    pub awaits_audio: bool,
}

/// What a job does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Partial,
    Progress,
    End,
}

impl Job {
    /// When its next step is due.
    pub fn due(&self) -> Instant {
        if self.awaits_audio {
            return self.began + NEVER;
        }
        let after = match (self.next, self.fate) {
            (Step::Partial, _) => self.latency * 2 / 5,
            (Step::Progress, _) => self.latency * 7 / 10,
            (Step::End, Fate::NeverAnswer) => NEVER,
            (Step::End, Fate::Crash) => self.latency * 4 / 5,
            (Step::End, _) => self.latency,
        };
        self.began + after
    }
}

/// The jobs that are worked on, in the order in which they have something to do.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// By when they are due, then by arrival.
    by_due: BTreeMap<Place, Job>,
    arrivals: u64,
}

/// Where a job stands among those that are worked on, until its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(Instant, u64);

impl Running {
    pub fn len(&self) -> usize {
        self.by_due.len()
    }

    pub fn insert(&mut self, job: Job) -> Place {
        self.arrivals += 1;
        let place = Place(job.due(), self.arrivals);
        self.by_due.insert(place, job);
        place
    }

    /// Takes out the job at this place, if it is still there.
    pub fn take(&mut self, place: Place) -> Option<Job> {
        self.by_due.remove(&place)
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|(place, _)| place.0)
    }

    pub fn pop_due(&mut self, now: Instant) -> Option<Job> {
        let first = self.by_due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Takes out a job that was cancelled; without an attempt, whichever it is in. Few are running
    /// and few are cancelled, so it looks at all.
    pub fn cancel(&mut self, job_id: &str, attempt_id: Option<u64>) -> Option<Job> {
        let (key, _) = self.by_due.iter().find(|(_, job)| {
            *job.ids.job_id == *job_id && attempt_id.is_none_or(|id| id == job.ids.attempt_id)
        })?;
        let key = *key;
        self.by_due.remove(&key)
    }

    pub fn find(&self, job_id: &str, attempt_id: u64) -> Option<&Job> {
        self.iter().find(|job| *job.ids.job_id == *job_id && job.ids.attempt_id == attempt_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.by_due.values()
    }

    pub fn take_all(&mut self) -> impl Iterator<Item = Job> + use<> {
        std::mem::take(&mut self.by_due).into_values()
    }
}

/// A result as it was sent.
#[derive(Debug)]
pub(super) struct Unacked {
    pub job_id: Box<str>,
    pub attempt_id: u64,
    pub message: Bytes,
    /// Heartbeats sent before it.
    pub heartbeat: u64,
}

/// Results that were sent and not acked, oldest first. Acks come in about that order, so the one
/// asked for is near the front.
#[derive(Debug, Default)]
pub(super) struct UnackedResults(VecDeque<Unacked>);

impl UnackedResults {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn push(&mut self, result: Unacked) {
        if self.0.len() == MAX_UNACKED {
            self.0.pop_front();
        }
        self.0.push_back(result);
    }

    pub fn ack(&mut self, job_id: &str, attempt_id: u64) {
        let acked = |result: &Unacked| *result.job_id == *job_id && result.attempt_id == attempt_id;
        if let Some(position) = self.0.iter().position(acked) {
            self.0.remove(position);
        }
    }

    pub fn find(&self, job_id: &str, attempt_id: u64) -> Option<&Unacked> {
        self.0.iter().find(|result| *result.job_id == *job_id && result.attempt_id == attempt_id)
    }

    /// Those sent before that many heartbeats.
    pub fn older_than(&self, heartbeat: u64) -> impl Iterator<Item = &Unacked> {
        self.0.iter().take_while(move |result| result.heartbeat < heartbeat)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What has come before, by hash: two in 2^64 are not met by chance.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hasher: RandomState,
    hashes: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    /// Remembers it; `true` if it has come before.
    pub fn again(&mut self, what: impl Hash) -> bool {
        let hash = self.hasher.hash_one(what);
        if !self.hashes.insert(hash) {
            return true;
        }
        if self.order.len() == MAX_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        self.order.push_back(hash);
        false
    }
}
