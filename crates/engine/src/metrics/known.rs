//! The values that labels can have. Each is there at zero from the start: Prometheus sees what a
//! counter gained since it read it last, and never the first count of one that was not there.

use lingua_core::outcome::{Code, MissingReason};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

pub(super) type Labels = [(&'static str, &'static str); 1];
pub(super) type By = Family<Labels, Counter>;

pub(super) const RESERVE: [&str; 12] = [
    "granted",
    "full",
    "spent",
    "unknown_node",
    "changed",
    "closed",
    "stale",
    "missing_model",
    "unconfirmed",
    "held",
    "lapsed",
    "store_down",
];
pub(super) const STALE: [&str; 9] =
    ["ack", "started", "reject", "partial", "result", "late", "ended", "far", "moved"];
pub(super) const REGISTRATIONS: [&str; 7] =
    ["new", "back", "invalid", "limited", "blocked", "conflict", "store_down"];
pub(super) const GAPS: [&str; 4] = ["reacted", "debounced", "unnamed", "limited"];
pub(super) const LIMITS: &[&str] = &[
    "jobs",
    "jobs_per_tenant",
    "jobs_per_tenant_per_s",
    "sessions",
    "sessions_per_tenant",
    "sessions_per_subject",
    "calls_per_subject_per_s",
    "connections_per_address",
    "session_messages_per_s",
    "node_messages_per_s",
    "handshake_timeout_ms",
    "message_timeout_ms",
    "unfinished_bytes",
    "unfinished_bytes_per_address",
    "unfinished_bytes_per_tenant",
    "node_registrations_per_min",
    "node_updates_per_s",
    "node_lookups_per_s",
    "result_bytes",
    "audio_keep_bytes",
    "job_watches",
    "job_watches_per_tenant",
];
pub(super) const CUTS: [&str; 6] =
    ["final", "pause", "max_duration", "max_bytes", "language_change", "close"];
pub(super) const DROPPED: [&str; 8] = [
    "too_large",
    "held_bytes",
    "open_utterances",
    "seq_exhausted",
    "draining",
    "closed",
    "abandoned",
    "unframed",
];
pub(super) const IGNORED: [&str; 7] =
    ["stale_attempt", "late", "unknown", "stale_epoch", "closed", "no_job", "repeated_utterance"];
pub(super) const RESUMED: [&str; 4] = ["whole", "partly", "not", "spent_token"];
pub(super) const OPENED: [&str; 3] = ["new", "resumed", "refused"];
pub(super) const SPANS: [&str; 3] = ["exported", "dropped", "refused"];
pub(super) const BUS: [&str; 3] = ["sent", "received", "bounced"];
pub(super) const AUDIT: [&str; 2] = ["written", "lost"];
pub(super) const SLOTS: [&str; 2] = ["used", "free"];

/// Codes that callers see.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    Code::ALL.iter().map(|code| code.as_str())
}

/// What a job can end with. A node's own codes are one of them.
pub(super) fn ended() -> impl Iterator<Item = &'static str> {
    codes().chain(["ok", "empty", "NODE_CODE"])
}

/// What an utterance can end with.
pub(super) fn endings() -> impl Iterator<Item = &'static str> {
    MissingReason::ALL.iter().map(|reason| reason.as_str()).chain(["result"])
}

/// A counter for each value.
pub(super) fn by(label: &'static str, values: impl IntoIterator<Item = &'static str>) -> By {
    let family = By::default();
    for value in values {
        drop(family.get_or_create(&[(label, value)]));
    }
    family
}
