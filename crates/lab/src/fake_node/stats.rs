//! What a simulated node has seen and done, readable at any time from any task.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Closed;
use crate::Journal;
use crate::clock::epoch_ms;

/// One counter each in [`Counters`] and one number each in [`NodeStats`].
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Counts of one node since it was made, over all its connections.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct NodeStats {
            $($(#[$doc])+ pub $name: u64,)+
        }

        /// Only the node's own task writes; each count is exact, two of them need not be of the
        /// same moment.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub $name: AtomicU64,)+
        }

        impl Counters {
            pub fn snapshot(&self) -> NodeStats {
                NodeStats { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Jobs that the scheduler assigned, duplicates included.
    received,
    /// Jobs it works on now.
    running,
    /// The most jobs it ever worked on at once.
    highest_running,
    /// Jobs assigned although as many as it said were running. Each was refused as `BUSY`.
    breaches,
    /// Jobs it acked.
    acked,
    /// Jobs it answered well.
    done,
    /// Jobs it answered with an error.
    failed,
    /// Jobs it refused as `BUSY`, breaches included.
    rejected,
    /// Jobs it refused as `MODEL_NOT_AVAILABLE`.
    model_missing,
    /// Jobs whose audio an existing agent kept for a later one of the turn. It says nothing of them.
    kept,
    /// Jobs that an existing agent worked on without a word, since it recognised in them what it had
    /// recognised last in the session.
    swallowed,
    /// Jobs that the scheduler cancelled while it worked on them.
    cancelled,
    /// Jobs it took without acking them, though it could.
    dropped_acks,
    /// Times it crashed.
    crashes,
    /// Jobs it left without an end: those of a crash, those it had when it ended itself, and those
    /// whose end fell between two connections of a node that does not keep results.
    lost,
    /// Assigns with a job and attempt that had come before. None is worked on a second time.
    duplicates,
    /// Results it sent again because they were not acked.
    repeated,
    /// Results that are not acked now.
    unacked,
    /// Connections on which it was registered.
    connections,
    /// Heartbeats it sent.
    heartbeats,
    /// Binary frames with the audio of the job that was assigned just before.
    audio_frames,
    /// Bytes of audio in them.
    audio_bytes,
    /// Binary frames that are not the audio of the last job assigned.
    stray_frames,
    /// `error` messages from the scheduler, and messages that could not be read.
    errors,
    /// Entries that the log had no room for.
    log_dropped,
}

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEvent {
    /// It was assigned.
    Received,
    /// It was assigned again with the same attempt.
    Duplicate,
    /// It was assigned to a node that was full.
    Breach,
    /// It was acked.
    Acked,
    /// It was taken without an ack.
    AckDropped,
    /// It was answered well.
    Done,
    /// It was answered with an error.
    Failed,
    /// It was refused.
    Rejected,
    /// Its audio waits for a later job of its turn.
    Kept,
    /// It was worked on and not answered.
    Swallowed,
    /// The scheduler took it back.
    Cancelled,
    /// The node forgot it.
    Lost,
    /// Its result was sent again.
    Repeated,
}

impl JobEvent {
    /// As it stands in a journal.
    pub fn word(self) -> &'static str {
        match self {
            JobEvent::Received => "received",
            JobEvent::Duplicate => "duplicate",
            JobEvent::Breach => "breach",
            JobEvent::Acked => "acked",
            JobEvent::AckDropped => "ack_dropped",
            JobEvent::Done => "done",
            JobEvent::Failed => "failed",
            JobEvent::Rejected => "rejected",
            JobEvent::Kept => "kept",
            JobEvent::Swallowed => "swallowed",
            JobEvent::Cancelled => "cancelled",
            JobEvent::Lost => "lost",
            JobEvent::Repeated => "repeated",
        }
    }
}

/// One line of a node's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// When, in epoch milliseconds; never going back within one process.
    pub at_ms: u64,
    /// The job.
    pub job_id: String,
    /// Its attempt.
    pub attempt_id: u64,
    /// Its turn; only where it was received.
    pub turn_id: Option<String>,
    /// What happened.
    pub event: JobEvent,
}

/// Where a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Connected,
    Away,
    Ended(Closed),
}

/// What the node's task and the handles to it have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub counters: Counters,
    pub phase: watch::Sender<Phase>,
    log: Mutex<VecDeque<LogEntry>>,
    log_capacity: usize,
    journal: Option<Journal>,
    last_error: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(log_capacity: usize, journal: Option<Journal>) -> Self {
        Self {
            counters: Counters::default(),
            phase: watch::Sender::new(Phase::Connected),
            log: Mutex::default(),
            log_capacity,
            journal,
            last_error: Mutex::default(),
        }
    }

    pub fn log(&self) -> MutexGuard<'_, VecDeque<LogEntry>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn last_error(&self) -> MutexGuard<'_, Option<String>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line, if anything is written down at all.
    pub fn note(&self, event: JobEvent, job_id: &str, attempt_id: u64, turn_id: Option<&str>) {
        self.write(event.word(), || json!({ "job": job_id, "attempt": attempt_id }));
        if self.log_capacity == 0 {
            return;
        }
        let entry = LogEntry {
            at_ms: epoch_ms(),
            job_id: job_id.to_owned(),
            attempt_id,
            turn_id: turn_id.map(str::to_owned),
            event,
        };
        let mut log = self.log();
        if log.len() == self.log_capacity {
            log.pop_front();
            add(&self.counters.log_dropped);
        }
        log.push_back(entry);
    }

    /// Writes one line into the file, if there is one.
    pub fn write(&self, event: &str, fields: impl FnOnce() -> Value) {
        if let Some(journal) = &self.journal {
            journal.write(event, fields());
        }
    }

    /// Counts something that should not have come from the scheduler, and keeps its text.
    pub fn complain(&self, text: String) {
        add(&self.counters.errors);
        *self.last_error() = Some(text);
    }
}

/// One more.
pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// That many more.
pub(super) fn add_many(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// At least that many.
pub(super) fn raise(counter: &AtomicU64, value: usize) {
    counter.fetch_max(value as u64, Ordering::Relaxed);
}

/// This many now.
pub(super) fn set(counter: &AtomicU64, value: usize) {
    counter.store(value as u64, Ordering::Relaxed);
}
