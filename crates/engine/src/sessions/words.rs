//! What the engine and its door say to each other about sessions.
//!
//! The door reads and writes the wire; nothing here is JSON but what only passes through.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::Route;
use lingua_core::outcome::{Code, MissingReason};
use lingua_core::{JobId, SessionId, TenantId};
use tokio::time::Instant;

use super::mail::Mailbox;
use crate::job::{Json, Refusal};
use crate::trace;

/// One connection of a client. The session's task is the only one that holds it, so what is heard
/// is handled where it is read, and nothing waits for anything but its own peer.
pub trait Line: Send {
    /// Waits for what happens next. What was told is written when there is nothing more to read.
    fn poll_event(&mut self, cx: &mut Context<'_>, mailbox: &mut Mailbox) -> Poll<LineEvent>;

    /// Asks for [`LineEvent::Due`] at that time, instead of any asked for before.
    fn wake_at(&mut self, due: Option<Instant>);

    /// Puts a word in line; never waits. Once more is in line than a client can be expected to
    /// take, the line ends.
    fn tell(&mut self, word: ToClient<'_>);

    /// Says goodbye, behind everything that was told.
    fn end(self: Box<Self>, bye: Bye) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What happens on a line, or to the session while it has one.
pub enum LineEvent {
    /// The client said something.
    Said(FromClient),
    /// Something came for the session.
    Mail(Box<super::mail::ToSession>),
    /// It is the time that [`Line::wake_at`] set.
    Due,
    /// The line is of no use any more; [`Line::end`] with this is all that is left to do.
    Ended(Bye),
}

/// How a line ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bye {
    /// The close code; `None` if there is nobody to say anything to, or the client closed.
    pub code: Option<u16>,
    /// Why, for people.
    pub reason: String,
}

impl Bye {
    /// A goodbye with a close code.
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        Bye { code: Some(code), reason: reason.into() }
    }

    /// Without one.
    pub fn lost(reason: impl Into<String>) -> Self {
        Bye { code: None, reason: reason.into() }
    }
}

/// What a client asks for when it opens a session.
#[derive(Clone)]
pub struct Opening {
    /// Whose session it is.
    pub tenant: TenantId,
    /// Who opens it, by their token; nobody else gets it back. Absent where no token is asked for.
    pub subject: Option<Arc<str>>,
    /// From where.
    pub address: IpAddr,
    /// How its speech is to be worked on.
    pub manner: Arc<Manner>,
    /// For following the session through all logs; made up if absent.
    pub trace_id: Option<String>,
    /// The client's own span that the session is a part of.
    pub traceparent: Option<trace::Context>,
    /// What it understands.
    pub supports: Supports,
    /// Time without a piece of speech that ends an utterance, if it asks for its own.
    pub pause: Option<Duration>,
    /// The longest utterance, if it asks for its own.
    pub max_utterance: Option<Duration>,
    /// It had a session before.
    pub resume: Option<Resume>,
}

/// What a client says of the session that it had.
#[derive(Clone)]
pub struct Resume {
    /// What it was given then.
    pub token: String,
    /// Up to which utterance, in its own numbers, it has seen every ending.
    pub last_index: Option<u64>,
}

/// What a client understands beyond what every client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supports {
    /// It frees speech that is acknowledged, and numbers its pieces through.
    pub audio_ack: bool,
    /// It comes back with its token, and sends again what was not acknowledged.
    pub resume: bool,
    /// It wants to hear of the steps on the way.
    pub events: bool,
    /// It is from before there was a list: of what goes wrong it shows `error` and nothing else, each
    /// in a window of its own.
    pub existing: bool,
}

/// How speech is to be worked on. What the node is told is as the client wrote it.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The direction.
    pub route: Route,
    /// The translation is to be spoken.
    pub speech: bool,
    /// Without a voice for the target language there is to be no answer, instead of text alone.
    pub insists_on_speech: bool,
    /// As the client wrote it; may be `auto`.
    pub src_lang: String,
    /// As the client wrote it.
    pub tgt_lang: String,
    /// `one_way` or `two_way_auto`.
    pub mode: Option<String>,
    /// One of the two languages of the conversation.
    pub lang_a: Option<String>,
    /// The other one.
    pub lang_b: Option<String>,
    /// Passed on.
    pub dialect: Option<String>,
    /// Passed on.
    pub features: Option<Json>,
    /// Which steps the node is to take.
    pub pipeline: Json,
    /// Passed on.
    pub auto_langs: Option<Json>,
    /// Partial results are wanted.
    pub enable_streaming_asr: bool,
    /// How often.
    pub partial_update_interval_ms: Option<u64>,
    /// `opus`, `pcm16`, …
    pub audio_format: &'static str,
    /// In Hz.
    pub sample_rate: u32,
}

/// What a client says once its session is open. What is wrong with a message, and what has nothing
/// to do with the session, the door answers by itself.
///
/// Without `Debug`: audio stays out of logs.
pub enum FromClient {
    /// A piece of speech: whole packets or samples.
    Audio {
        /// The client's number of it.
        seq: u32,
        /// The speech; may be empty.
        audio: Bytes,
        /// How much speech it is.
        duration: Duration,
        /// The utterance ends with it.
        is_final: bool,
    },
    /// A whole utterance.
    Utterance(Box<Whole>),
    /// What was said so far is an utterance.
    Finalize,
    /// From now on in this manner.
    SetLanguages(Arc<Manner>),
    /// This utterance, in the client's numbers, is no longer wanted.
    Cancel {
        /// Its number.
        utterance_index: u64,
    },
    /// The client's loudspeaker plays.
    TtsStarted,
    /// It is silent again.
    TtsPlayEnded,
    /// The conversation is over.
    Close,
}

impl FromClient {
    /// Whether it shows that the pieces before it were all of their utterance.
    pub(super) fn ends_pieces(&self) -> bool {
        match self {
            FromClient::Audio { .. }
            | FromClient::Finalize
            | FromClient::SetLanguages(_)
            | FromClient::Close => true,
            FromClient::Utterance(_)
            | FromClient::Cancel { .. }
            | FromClient::TtsStarted
            | FromClient::TtsPlayEnded => false,
        }
    }
}

/// A whole utterance of a client.
pub struct Whole {
    /// The client's number of it.
    pub client_index: u64,
    /// How it is to be worked on.
    pub manner: Arc<Manner>,
    /// The speech.
    pub audio: Bytes,
    /// How much speech it is.
    pub duration: Duration,
    /// The speaker ended it.
    pub manual_cut: bool,
    /// For following it through all logs.
    pub trace_id: Option<String>,
    /// The client's own span that it is a part of.
    pub traceparent: Option<trace::Context>,
}

/// What a client is told.
pub enum ToClient<'a> {
    /// The session is open.
    Opened(&'a Opened),
    /// What became of a wish to end the utterance.
    Finalized {
        /// The utterance made of it, or none since there was nothing.
        utterance_index: Option<u64>,
    },
    /// A step on the way of an utterance.
    Event {
        /// Which one.
        step: Step,
        /// Of which utterance.
        about: About<'a>,
        /// Milliseconds since it was cut.
        elapsed_ms: Option<u64>,
        /// What went wrong, if that is the step.
        error: Option<(&'a str, &'a str)>,
    },
    /// Something on the way: the node's message as it came.
    Partial {
        /// Of which utterance.
        about: About<'a>,
        /// The message.
        body: &'a Bytes,
    },
    /// An utterance ended with a translation.
    Result {
        /// Which one.
        about: About<'a>,
        /// The turn that it is a part of.
        turn: &'a str,
        /// Which part.
        part_index: u32,
        /// The node's message as it came.
        body: &'a Bytes,
        /// Speech up to this piece need not be sent again: it has its ending with this very word.
        audio_ack: Option<u32>,
    },
    /// An utterance ended without one.
    Missing {
        /// Its number, as the client counts.
        utterance_index: u64,
        /// Why.
        reason: MissingReason,
        /// For following it through all logs.
        trace_id: Option<&'a str>,
        /// As of a result.
        audio_ack: Option<u32>,
    },
    /// Speech up to this piece is safe.
    AudioAck {
        /// The piece.
        seq: u32,
    },
    /// Hold on.
    Backpressure {
        /// How.
        action: Action,
        /// For how long.
        resume_after_ms: Option<u64>,
        /// For people.
        message: &'a str,
    },
    /// This instance goes away.
    GoAway {
        /// How much time is left, in milliseconds.
        deadline_ms: u64,
        /// Why.
        reason: &'a str,
    },
    /// Something was not done.
    Error {
        /// Why.
        refusal: &'a Refusal,
        /// Facts, as pairs of a name and a number or word.
        details: &'a [(&'a str, Detail<'a>)],
    },
    /// An utterance failed; for a client that shows nothing but errors.
    Failed {
        /// Why.
        refusal: &'a Refusal,
        /// Which one.
        about: About<'a>,
    },
    /// The session is closed, as asked.
    CloseAck,
}

/// A fact in an error.
#[derive(Clone, Copy, Debug)]
pub enum Detail<'a> {
    /// A number.
    Number(u64),
    /// A word.
    Word(&'a str),
}

/// Which utterance a word is about.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// Its number, as the client counts.
    pub utterance_index: u64,
    /// Its job, once there is one.
    pub job: Option<JobId>,
    /// For following it through all logs.
    pub trace_id: &'a str,
}

/// A session that is open.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its id.
    pub session: SessionId,
    /// Of the session as a whole.
    pub trace_id: String,
    /// What to come back with; `None` for a client that cannot.
    pub resume_token: Option<String>,
    /// After a resume: whether the session goes on with nothing lost.
    pub recovered: Option<bool>,
    /// The number of the next utterance.
    pub next_index: u64,
}

/// A step on the way of an utterance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The first of its speech came.
    InputStarted,
    /// It was cut.
    InputEnded,
    /// It is on its way to a node.
    Dispatched,
    /// A node has it.
    NodeAccepted,
    /// Some of it is recognised.
    AsrPartial,
    /// All of it is recognised.
    AsrFinal,
    /// It is translated.
    NmtDone,
    /// It failed.
    Error,
}

impl Step {
    /// All of them, in the order in which they happen.
    pub const ALL: [Step; 8] = [
        Step::InputStarted,
        Step::InputEnded,
        Step::Dispatched,
        Step::NodeAccepted,
        Step::AsrPartial,
        Step::AsrFinal,
        Step::NmtDone,
        Step::Error,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::InputStarted => "INPUT_STARTED",
            Step::InputEnded => "INPUT_ENDED",
            Step::Dispatched => "DISPATCHED",
            Step::NodeAccepted => "NODE_ACCEPTED",
            Step::AsrPartial => "ASR_PARTIAL",
            Step::AsrFinal => "ASR_FINAL",
            Step::NmtDone => "NMT_DONE",
            Step::Error => "ERROR",
        }
    }
}

/// How a client is to hold on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing can be taken now.
    Busy,
    /// Send nothing for a while.
    Pause,
    /// Send less.
    SlowDown,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 3] = [Action::Busy, Action::Pause, Action::SlowDown];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Busy => "BUSY",
            Action::Pause => "PAUSE",
            Action::SlowDown => "SLOW_DOWN",
        }
    }
}

/// A session that was not opened: why, and how its line is to end.
pub struct NotOpened {
    /// The line, to say it on.
    pub line: Box<dyn Line>,
    /// Why.
    pub refusal: Refusal,
    /// The close says enough. An existing client comes back every second, and would show the same
    /// error each time.
    pub quiet: bool,
}

impl fmt::Debug for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotOpened").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl NotOpened {
    /// Tells the client why, and closes.
    pub async fn end(mut self) {
        if !self.quiet {
            self.line.tell(ToClient::Error { refusal: &self.refusal, details: &[] });
        }
        let code = match self.refusal.code {
            Code::Draining => 1001,
            Code::SchedulerDependencyDown | Code::QuotaExceeded | Code::InternalError => 1013,
            _ => 1008,
        };
        let reason = match self.refusal.retry_after_ms {
            Some(ms) => format!("{{\"retry_after_ms\":{ms}}}"),
            None => self.refusal.code.as_str().to_owned(),
        };
        self.line.end(Bye::new(code, reason)).await;
    }
}
