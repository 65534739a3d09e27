//! What the client is told beside the endings: its greeting, the steps on the way, and what went
//! wrong.

use lingua_core::outcome::{Code, MissingReason};
use lingua_core::session::{Lane, Refusal as Dropped, ResultKey};
use lingua_core::time::millis;
use tokio::time::Instant;

use super::actor::Actor;
use super::making::OpenJob;
use super::words::{About, Detail, Opened, Step, ToClient};
use crate::job::Refusal;

/// Endings that a client may have missed beyond those that are kept, and hears of; one that names
/// no last index after hours of talk has seen the older ones.
const MOST_MISSED: u64 = 255;

impl Actor {
    /// Tells the client, if it is there.
    pub(super) fn tell(&mut self, word: ToClient<'_>) {
        if let Some(line) = &mut self.line {
            line.tell(word);
        }
    }

    /// Tells the client what was not done. An existing client is told the same thing once in a while.
    pub(super) fn refuse(&mut self, refusal: &Refusal, details: &[(&str, Detail<'_>)]) {
        if !self.supports.existing || self.shown.show(refusal.code_text(), Instant::now()) {
            self.tell(ToClient::Error { refusal, details });
        }
    }

    /// The first word of a line.
    pub(super) fn greet(&mut self, recovered: Option<bool>, next_index: u64) {
        let opened = Opened {
            session: self.handle.key.session().clone(),
            trace_id: self.trace_id.clone(),
            resume_token: self.supports.resume.then(|| self.service.token(&self.handle)),
            recovered,
            next_index,
        };
        self.tell(ToClient::Opened(&opened));
    }

    pub(super) fn input_started(&mut self) {
        let utterance_index = self.machine.next_index();
        let trace_id = std::mem::take(&mut self.trace_id);
        self.tell(ToClient::Event {
            step: Step::InputStarted,
            about: About { utterance_index, job: None, trace_id: &trace_id },
            elapsed_ms: None,
            error: None,
        });
        self.trace_id = trace_id;
    }

    /// Tells the client of a step, if it wants to hear of them.
    pub(super) fn step(&mut self, key: ResultKey, step: Step) {
        if !self.supports.events || key.lane != Lane(0) {
            return;
        }
        let open = self.open.iter().find(|open| open.key == key);
        let (Some(line), Some(open)) = (&mut self.line, open) else { return };
        line.tell(ToClient::Event {
            step,
            about: open.about(),
            elapsed_ms: Some(millis(open.cut_at.elapsed())),
            error: None,
        });
    }

    /// Tells why an utterance ends without a result, beside the ending itself: as an event, and to an
    /// existing client, which shows neither events nor absent results, as an error.
    pub(super) fn failed(&mut self, open: &OpenJob, reason: MissingReason) {
        if matches!(reason, MissingReason::SilenceDetected | MissingReason::Cancelled) {
            return;
        }
        let by_itself;
        let refusal = match &open.failure {
            Some(refusal) => refusal,
            None => {
                by_itself = match reason {
                    MissingReason::Draining => Refusal::new(Code::Draining, "the instance stops"),
                    _ => Refusal::new(Code::JobTimeout, "no result came by the deadline"),
                };
                &by_itself
            }
        };
        let code = refusal.code_text();
        if self.supports.events {
            self.tell(ToClient::Event {
                step: Step::Error,
                about: open.about(),
                elapsed_ms: Some(millis(open.cut_at.elapsed())),
                error: Some((code, &refusal.detail)),
            });
        }
        if self.supports.existing && self.shown.show(code, Instant::now()) {
            self.tell(ToClient::Failed { refusal, about: open.about() });
        }
    }

    /// The client is back: what it is told first, and what can no longer be told.
    pub(super) fn resumed(&mut self, next_index: u64, forgotten: Option<(u64, u64)>) {
        self.service.shared.metrics.resumed(if forgotten.is_none() { "whole" } else { "partly" });
        self.greet(Some(forgotten.is_none()), next_index);
        self.tell_acked_again();
        // Endings that were told on an earlier line and are gone: the client did not see them there,
        // so it hears here that they are missing.
        let forgotten =
            forgotten.map(|(first, last)| first.max(last.saturating_sub(MOST_MISSED))..=last);
        for index in forgotten.into_iter().flatten() {
            let utterance_index = self.machine.client_index_of(index).unwrap_or(index);
            let reason = MissingReason::JobFailed;
            self.tell(ToClient::Missing {
                utterance_index,
                reason,
                trace_id: None,
                audio_ack: None,
            });
        }
    }
}

/// What is said about speech that was not taken.
pub(super) fn refused(reason: Dropped) -> Refusal {
    let (code, detail) = match reason {
        Dropped::TooLarge => {
            (Code::MessageTooLarge, "one piece is more than an utterance may hold")
        }
        Dropped::HeldBytes => (Code::QuotaExceeded, "the session holds as much speech as it may"),
        Dropped::OpenUtterances => {
            (Code::QuotaExceeded, "as many utterances wait for their ending as may")
        }
        Dropped::SeqExhausted => (Code::InvalidMessage, "seq: the numbers are used up"),
        Dropped::Empty => (Code::InvalidMessage, "audio: there is no speech in the utterance"),
        Dropped::IndexNotRising => {
            (Code::InvalidMessage, "utterance_index: is not above the last one")
        }
        Dropped::Draining => {
            (Code::Draining, "the instance is stopping; reconnect and send it again")
        }
        Dropped::Closed => (Code::SessionClosed, "the session is closed"),
        Dropped::Abandoned => (Code::SessionClosed, "the utterance was not finished"),
    };
    let refusal = Refusal::new(code, detail);
    if code.is_retryable() { refusal.retry_after(500) } else { refusal }
}

/// The same in a word.
pub(super) fn word(reason: Dropped) -> &'static str {
    match reason {
        Dropped::TooLarge => "too_large",
        Dropped::HeldBytes => "held_bytes",
        Dropped::OpenUtterances => "open_utterances",
        Dropped::SeqExhausted => "seq_exhausted",
        Dropped::Empty => "empty",
        Dropped::IndexNotRising => "index_not_rising",
        Dropped::Draining => "draining",
        Dropped::Closed => "closed",
        Dropped::Abandoned => "abandoned",
    }
}
