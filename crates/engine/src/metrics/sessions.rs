//! Sessions: what is said, and how it ends.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::known::By;
use super::registrar::{counter, gauge, metric};
use super::{Metrics, Registrar, Timed, known, spans};

/// Sessions: what is said, and how it ends.
pub(crate) struct SessionMetrics {
    pub(crate) sessions: Gauge,
    pub(crate) session_panics: Counter,
    pub(crate) audio_gaps: Counter,
    pub(super) backpressure: Counter,
    pub(crate) told_again: Counter,
    pub(crate) ending_seconds: Timed,
    pub(super) utterances: By,
    pub(super) endings: By,
    pub(super) dropped: By,
    pub(super) session_ignored: By,
    pub(super) resumed: By,
    pub(super) opened: By,
}

impl SessionMetrics {
    pub(super) fn register(to: &mut Registrar<'_>) -> Self {
        SessionMetrics {
            sessions: gauge!(
                to,
                "sessions",
                "Sessions of this instance, including those whose client may still resume"
            ),
            session_panics: counter!(to, "session_panics", "Sessions ended by a panic"),
            audio_gaps: counter!(to, "audio_gaps", "Gaps in the sequence numbers of audio chunks"),
            backpressure: counter!(to, "backpressure", "Backpressure messages sent to clients"),
            told_again: counter!(to, "endings_told_again", "Endings repeated after a resume"),
            ending_seconds: Timed::of(metric!(
                to,
                "ending",
                "Time from the end of an utterance to its ending on the client connection",
                spans(),
                Seconds
            )),
            utterances: metric!(
                to,
                "utterances",
                "Utterances by what ended them",
                known::by("cut", known::CUTS)
            ),
            endings: metric!(
                to,
                "endings",
                "Endings sent to clients: result, or the reason why it is missing",
                known::by("ending", known::endings())
            ),
            dropped: metric!(
                to,
                "audio_dropped_bytes",
                "Audio bytes dropped before they became part of an utterance, by reason",
                known::by("reason", known::DROPPED)
            ),
            session_ignored: metric!(
                to,
                "session_ignored",
                "Events ignored by their session, by reason",
                known::by("reason", known::IGNORED)
            ),
            resumed: metric!(
                to,
                "resumed",
                "Session resume attempts by result",
                known::by("how", known::RESUMED)
            ),
            opened: metric!(
                to,
                "sessions_opened",
                "Session open requests by outcome",
                known::by("outcome", known::OPENED)
            ),
        }
    }
}

impl Metrics {
    /// A client was asked to hold on.
    pub fn pressed(&self) {
        self.sessions.backpressure.inc();
    }

    /// Bytes of speech that never became a packet or a sample.
    pub fn audio_unframed(&self, bytes: usize) {
        self.audio_dropped("unframed", bytes);
    }

    pub(crate) fn utterance(&self, cut_by: &'static str) {
        self.sessions.utterances.get_or_create(&[("cut", cut_by)]).inc();
    }

    pub(crate) fn ending(&self, how: &'static str) -> u64 {
        self.sessions.endings.get_or_create(&[("ending", how)]).inc()
    }

    pub(crate) fn audio_dropped(&self, reason: &'static str, bytes: usize) {
        self.sessions.dropped.get_or_create(&[("reason", reason)]).inc_by(bytes as u64);
    }

    pub(crate) fn session_ignored(&self, reason: &'static str) {
        self.sessions.session_ignored.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn resumed(&self, how: &'static str) {
        self.sessions.resumed.get_or_create(&[("how", how)]).inc();
    }

    pub(crate) fn opened(&self, outcome: &'static str) {
        self.sessions.opened.get_or_create(&[("outcome", outcome)]).inc();
    }
}
