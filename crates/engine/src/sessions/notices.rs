//! What the client is sent beside the endings: the answer to its opening, the steps of its jobs, and
//! errors.

use lingua_core::eligibility::Route;
use lingua_core::outcome::{Code, MissingReason};
use lingua_core::session::{DropReason, ResultKey, Span};
use lingua_core::time::millis;
use tokio::time::Instant;

use super::actor::Actor;
use super::open_job::OpenJob;
use super::outbound::{About, Detail, Direction, Opened, Step, ToClient};
use crate::job::Refusal;

/// Endings of one target that a client may have missed beyond those that are kept, and hears of; one that
/// names no last index after hours of talk has seen the older ones.
const MOST_MISSED: u64 = 255;

impl Actor {
    /// Sends a message to the client, if it is there.
    pub(super) fn send(&mut self, message: ToClient<'_>) {
        if let Some(connection) = &mut self.connection {
            connection.send(message);
        }
    }

    /// Tells the client what was not done. An existing client is told the same thing once in a while.
    pub(super) fn refuse(&mut self, refusal: &Refusal, details: &[(&str, Detail<'_>)]) {
        if !self.supports.existing || self.errors.show(refusal.code_text(), Instant::now()) {
            self.send(ToClient::Error { refusal, details });
        }
    }

    /// The first message of a connection.
    pub(super) fn greet(&mut self, recovered: Option<bool>, next_index: u64) {
        let opened = Opened {
            session: self.handle.key.session().clone(),
            trace_id: self.trace_id.clone(),
            resume_token: self.supports.resume.then(|| self.service.token(&self.handle)),
            recovered,
            next_index,
            targets: self.targets(),
        };
        self.send(ToClient::Opened(&opened));
    }

    /// The target languages, if they are several.
    fn targets(&self) -> Vec<String> {
        let routes = &self.options.routes;
        let target = |(_, route)| match route {
            Route::Directed(_, target) => Some(target.to_string()),
            Route::Either(..) => None,
        };
        if routes.lanes() > 1 { routes.iter().filter_map(target).collect() } else { Vec::new() }
    }

    pub(super) fn input_started(&mut self) {
        let utterance_index = self.machine.next_index();
        let trace_id = std::mem::take(&mut self.trace_id);
        let direction = Direction::of_all(&self.options.routes);
        self.send(ToClient::Event {
            step: Step::InputStarted,
            about: About { utterance_index, job: None, trace_id: &trace_id, direction },
            elapsed_ms: None,
            error: None,
        });
        self.trace_id = trace_id;
    }

    /// Tells the client of a step, if it wants to hear of them.
    pub(super) fn step(&mut self, key: ResultKey, step: Step) {
        if !self.supports.events {
            return;
        }
        let open = self.open.iter().find(|open| open.key == key);
        let (Some(connection), Some(open)) = (&mut self.connection, open) else { return };
        connection.send(ToClient::Event {
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
            self.send(ToClient::Event {
                step: Step::Error,
                about: open.about(),
                elapsed_ms: Some(millis(open.cut_at.elapsed())),
                error: Some((code, &refusal.detail)),
            });
        }
        if self.supports.existing && self.errors.show(code, Instant::now()) {
            self.send(ToClient::Failed { refusal, about: open.about() });
        }
    }

    /// The client is back: what it is told first, and what can no longer be told.
    pub(super) fn resumed(&mut self, next_index: u64, forgotten: &[Span]) {
        self.service.shared.metrics.resumed(if forgotten.is_empty() { "whole" } else { "partly" });
        self.greet(Some(forgotten.is_empty()), next_index);
        self.send_ack_again();
        // Endings that were sent on an earlier connection and are gone: the client did not see them
        // there, so it hears here that they are missing.
        for Span { route, first, last } in forgotten {
            let direction = Direction::of(*route);
            for index in (*first).max(last.saturating_sub(MOST_MISSED))..=*last {
                let utterance_index = self.machine.client_index_of(index).unwrap_or(index);
                let reason = MissingReason::JobFailed;
                self.send(ToClient::Missing {
                    utterance_index,
                    direction,
                    reason,
                    trace_id: None,
                    audio_ack: None,
                });
            }
        }
    }
}

/// What is said about speech that was not taken.
pub(super) fn drop_refusal(reason: DropReason) -> Refusal {
    let (code, detail) = match reason {
        DropReason::TooLarge => {
            (Code::MessageTooLarge, "the audio chunk is larger than an utterance may be")
        }
        DropReason::HeldBytes => {
            (Code::QuotaExceeded, "quota: the session has buffered as much audio as it may")
        }
        DropReason::OpenJobs => (
            Code::QuotaExceeded,
            "quota: too many utterances of the session have no ending yet; each target counts",
        ),
        DropReason::SeqExhausted => (Code::InvalidMessage, "seq: no numbers are left"),
        DropReason::Empty => (Code::InvalidMessage, "audio: the utterance is empty"),
        DropReason::IndexNotRising => {
            (Code::InvalidMessage, "utterance_index: is not above the last one")
        }
        DropReason::Draining => {
            (Code::Draining, "the instance is stopping; reconnect and send it again")
        }
        DropReason::Closed => (Code::SessionClosed, "the session is closed"),
        DropReason::Abandoned => (Code::SessionClosed, "the utterance was not finished"),
    };
    let refusal = Refusal::new(code, detail);
    if code.is_retryable() { refusal.retry_after(500) } else { refusal }
}

/// The same in a word.
pub(super) fn drop_word(reason: DropReason) -> &'static str {
    match reason {
        DropReason::TooLarge => "too_large",
        DropReason::HeldBytes => "held_bytes",
        DropReason::OpenJobs => "open_utterances",
        DropReason::SeqExhausted => "seq_exhausted",
        DropReason::Empty => "empty",
        DropReason::IndexNotRising => "index_not_rising",
        DropReason::Draining => "draining",
        DropReason::Closed => "closed",
        DropReason::Abandoned => "abandoned",
    }
}
