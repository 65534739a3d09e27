//! How things end: the stable error codes a client can see, and the word for a result that will not
//! come.
//!
//! Every code stands in one table with all that is known about it, so that the HTTP door, the two
//! sockets and the documentation cannot disagree.

use std::fmt;

/// Why an utterance ends without a translation, as `missing_result` says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MissingReason {
    /// Nothing was said.
    SilenceDetected,
    /// No result by the deadline.
    GapTimeout,
    /// No node is able to take it.
    NoCapableNode,
    /// Every able node stayed full for as long as the job could wait.
    AllNodesBusy,
    /// Every attempt failed.
    JobFailed,
    /// The speaker or the session gave it up.
    Cancelled,
    /// The store was out of reach.
    DependencyDown,
    /// The scheduler is shutting down.
    Draining,
}

impl MissingReason {
    /// All of them, in the order of the protocol.
    pub const ALL: [MissingReason; 8] = [
        MissingReason::SilenceDetected,
        MissingReason::GapTimeout,
        MissingReason::NoCapableNode,
        MissingReason::AllNodesBusy,
        MissingReason::JobFailed,
        MissingReason::Cancelled,
        MissingReason::DependencyDown,
        MissingReason::Draining,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            MissingReason::SilenceDetected => "silence_detected",
            MissingReason::GapTimeout => "gap_timeout",
            MissingReason::NoCapableNode => "no_capable_node",
            MissingReason::AllNodesBusy => "all_nodes_busy",
            MissingReason::JobFailed => "job_failed",
            MissingReason::Cancelled => "cancelled",
            MissingReason::DependencyDown => "dependency_down",
            MissingReason::Draining => "draining",
        }
    }

    /// The reason that `word` names.
    pub fn parse(word: &str) -> Option<MissingReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who may try once more after an error, with hope of another ending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retry {
    /// Nobody: the same thing said again fails again.
    Never,
    /// The caller, later: what was in the way passes by itself.
    Caller,
    /// The scheduler, at once and on another node; if no attempt is left, the caller.
    OtherNode,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $status:literal, $retry:ident, $missing:ident;)+) => {
        /// A stable error code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $name),+ }

        impl Code {
            /// Every code, in the order of the protocol.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $word),+ }
            }

            /// The HTTP status it travels with.
            pub fn http_status(self) -> u16 {
                match self { $(Code::$name => $status),+ }
            }

            /// Who may try once more.
            pub fn retry(self) -> Retry {
                match self { $(Code::$name => Retry::$retry),+ }
            }

            /// What a speaker is told whose utterance ended with this code.
            pub fn missing_reason(self) -> MissingReason {
                match self { $(Code::$name => MissingReason::$missing),+ }
            }
        }
    };
}

codes! {
    /// Not JSON, or a field is missing or wrong.
    InvalidMessage = "INVALID_MESSAGE", 400, Never, JobFailed;
    /// A message type this door does not serve.
    UnsupportedMessage = "UNSUPPORTED_MESSAGE", 400, Never, JobFailed;
    /// The path does not take this HTTP method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405, Never, JobFailed;
    /// Over a size limit.
    MessageTooLarge = "MESSAGE_TOO_LARGE", 413, Never, JobFailed;
    /// No credential, or a wrong one.
    Unauthorized = "UNAUTHORIZED", 401, Never, JobFailed;
    /// The credential does not allow it, or an administrator blocked the node.
    Forbidden = "FORBIDDEN", 403, Never, JobFailed;
    /// The request is for a host that this scheduler is not.
    MisdirectedRequest = "MISDIRECTED_REQUEST", 421, Never, JobFailed;
    /// Too many messages of a node, or jobs of a tenant, in a short time.
    RateLimited = "RATE_LIMITED", 429, Caller, JobFailed;
    /// The tenant's or session's share is used up.
    QuotaExceeded = "QUOTA_EXCEEDED", 429, Caller, JobFailed;
    /// No such session, or not the one this socket opened.
    InvalidSession = "INVALID_SESSION", 404, Never, Cancelled;
    /// The session has ended.
    SessionClosed = "SESSION_CLOSED", 409, Never, Cancelled;
    /// A newer connection took the session over.
    SessionSuperseded = "SESSION_SUPERSEDED", 409, Never, Cancelled;
    /// Not a language tag, or one that is not allowed here.
    InvalidLanguage = "INVALID_LANGUAGE", 422, Never, NoCapableNode;
    /// What a node says about itself cannot be.
    InvalidCapability = "INVALID_CAPABILITY", 422, Never, JobFailed;
    /// A newer connection of the same node registered at the same moment.
    NodeIdConflict = "NODE_ID_CONFLICT", 409, Never, JobFailed;
    /// No node is able to take the job.
    NoCapableNode = "NO_CAPABLE_NODE", 422, Caller, NoCapableNode;
    /// Every able node is full.
    AllNodesBusy = "ALL_NODES_BUSY", 503, Caller, AllNodesBusy;
    /// The one node asked for cannot take the job, and no other is wanted.
    PreferredNodeNotCapable = "PREFERRED_NODE_NOT_CAPABLE", 422, Never, NoCapableNode;
    /// The one node asked for is full, and no other is wanted.
    PreferredNodeBusy = "PREFERRED_NODE_BUSY", 503, Caller, AllNodesBusy;
    /// The node misses a model the job needs.
    ModelNotAvailable = "MODEL_NOT_AVAILABLE", 503, OtherNode, JobFailed;
    /// The node went away or could not be reached.
    NodeUnavailable = "NODE_UNAVAILABLE", 503, OtherNode, JobFailed;
    /// The node did not accept the job in time.
    AckTimeout = "ACK_TIMEOUT", 503, OtherNode, JobFailed;
    /// The job's deadline passed.
    JobTimeout = "JOB_TIMEOUT", 503, Caller, GapTimeout;
    /// The node tried and failed.
    ProcessingError = "PROCESSING_ERROR", 503, OtherNode, JobFailed;
    /// Nobody wants the job any more.
    JobCancelled = "JOB_CANCELLED", 409, Never, Cancelled;
    /// A word about an attempt that is not the current one.
    StaleAttempt = "STALE_ATTEMPT", 409, Never, JobFailed;
    /// No such thing.
    NotFound = "NOT_FOUND", 404, Never, JobFailed;
    /// The same id was used for something else.
    Conflict = "CONFLICT", 409, Never, JobFailed;
    /// This instance takes no new work.
    Draining = "DRAINING", 503, Caller, Draining;
    /// The store is out of reach.
    SchedulerDependencyDown = "SCHEDULER_DEPENDENCY_DOWN", 503, Caller, DependencyDown;
    /// A mistake of ours.
    InternalError = "INTERNAL_ERROR", 500, Caller, JobFailed;
}

impl Code {
    /// The code that `word` names; `None` for a node's own.
    pub fn parse(word: &str) -> Option<Code> {
        Self::ALL.iter().copied().find(|code| code.as_str() == word)
    }

    /// Whether the caller may send the same thing again with hope of another ending.
    pub fn is_retryable(self) -> bool {
        self.retry() != Retry::Never
    }

    /// The name this code had for callers of the older HTTP door.
    pub fn legacy_code(self) -> Option<&'static str> {
        (self == Code::AllNodesBusy).then_some("ALL_CANDIDATES_FULL_OR_FAILED")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list as the protocol prints it.
    const PROTOCOL: &str = "INVALID_MESSAGE, UNSUPPORTED_MESSAGE, METHOD_NOT_ALLOWED, MESSAGE_TOO_LARGE, \
        UNAUTHORIZED, FORBIDDEN, MISDIRECTED_REQUEST, RATE_LIMITED, QUOTA_EXCEEDED, INVALID_SESSION, SESSION_CLOSED, \
        SESSION_SUPERSEDED, INVALID_LANGUAGE, INVALID_CAPABILITY, NODE_ID_CONFLICT, \
        NO_CAPABLE_NODE, ALL_NODES_BUSY, PREFERRED_NODE_NOT_CAPABLE, PREFERRED_NODE_BUSY, \
        MODEL_NOT_AVAILABLE, NODE_UNAVAILABLE, ACK_TIMEOUT, JOB_TIMEOUT, PROCESSING_ERROR, \
        JOB_CANCELLED, STALE_ATTEMPT, NOT_FOUND, CONFLICT, DRAINING, SCHEDULER_DEPENDENCY_DOWN, \
        INTERNAL_ERROR";

    #[test]
    fn the_codes_are_those_of_the_protocol_and_parse_back() {
        let words: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.join(", "), PROTOCOL);
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
        assert_eq!(Code::parse("NMT_TIMEOUT"), None, "a node's own code is not one of ours");
    }

    #[test]
    fn statuses_are_those_the_protocol_lists() {
        let listed = [400, 401, 403, 404, 405, 409, 413, 421, 422, 429, 500, 503];
        for code in Code::ALL {
            assert!(listed.contains(&code.http_status()), "{code}");
        }
        assert_eq!(Code::NoCapableNode.http_status(), 422);
        assert_eq!(Code::AllNodesBusy.http_status(), 503);
        assert_eq!(Code::StaleAttempt.http_status(), 409);
    }

    /// Flaw 35: callers must be able to tell "again later" from "give up".
    #[test]
    fn busy_can_be_tried_again_and_a_wrong_message_cannot() {
        for code in [Code::AllNodesBusy, Code::SchedulerDependencyDown, Code::Draining] {
            assert_eq!((code.retry(), code.http_status()), (Retry::Caller, 503), "{code}");
        }
        for code in [Code::InvalidMessage, Code::Forbidden, Code::StaleAttempt] {
            assert!(!code.is_retryable(), "{code}");
        }
        for code in [Code::ModelNotAvailable, Code::AckTimeout, Code::NodeUnavailable] {
            assert_eq!(code.retry(), Retry::OtherNode, "{code}");
        }
    }

    #[test]
    fn only_busy_has_an_older_name() {
        let old: Vec<_> = Code::ALL.iter().filter(|c| c.legacy_code().is_some()).collect();
        assert_eq!(old, [&Code::AllNodesBusy]);
        assert_eq!(Code::AllNodesBusy.legacy_code(), Some("ALL_CANDIDATES_FULL_OR_FAILED"));
    }

    #[test]
    fn a_missing_result_says_why_in_the_words_of_the_protocol() {
        let words: Vec<&str> = MissingReason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(
            words.join(" "),
            "silence_detected gap_timeout no_capable_node all_nodes_busy job_failed cancelled \
             dependency_down draining"
        );
        for reason in MissingReason::ALL {
            assert_eq!(MissingReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Code::AllNodesBusy.missing_reason(), MissingReason::AllNodesBusy);
        assert_eq!(Code::JobTimeout.missing_reason(), MissingReason::GapTimeout);
        assert_eq!(Code::ProcessingError.missing_reason(), MissingReason::JobFailed);
    }
}
