//! What a session is told and what it wants done: two closed lists.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::routes::{Lane, Routes};
use super::seen::{LastSeen, Span};
use super::utterance::Utterance;
use crate::eligibility::Route;
use crate::ids::TurnId;
pub use crate::outcome::MissingReason;
use crate::time::Moment;

/// Which job is meant: one target language of one utterance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResultKey {
    /// The utterance's number.
    pub index: u64,
    /// Which of its targets.
    pub lane: Lane,
}

/// Something that happened. `R` is what a node answers; the machine never looks into it.
///
/// Deliberately without `Debug`: audio and transcripts stay out of logs.
#[derive(Clone)]
pub enum Event<R> {
    /// A piece of speech, or its end.
    Audio {
        /// The client's number of the piece; rises, repeats are joined without doubling.
        seq: u32,
        /// The speech; may be empty, usually when `is_final`.
        bytes: Bytes,
        /// How much speech it is, by the codec.
        duration: Duration,
        /// The utterance ends with it.
        is_final: bool,
    },
    /// One utterance as a whole, with its own direction: speech, or a text in its place.
    WholeUtterance {
        /// The client's own number of it, which must rise; without one it is numbered like speech in
        /// pieces, and [`Effect::Finalized`] says how.
        client_index: Option<u64>,
        /// Into which languages.
        routes: Routes,
        /// The speech, or the text.
        audio: Bytes,
        /// How much speech it is; nothing of a text.
        duration: Duration,
        /// The speaker ended it, rather than a pause.
        manual_cut: bool,
    },
    /// The client asks that what it said so far be an utterance.
    Finalize,
    /// From now on these languages. Speech in the buffer belongs to the old ones and is cut first.
    SetLanguages(Routes),
    /// The client no longer wants this utterance.
    Cancel {
        /// The utterance's number.
        index: u64,
    },
    /// The client plays our speech; if no piece comes meanwhile, that is not a pause.
    TtsStarted,
    /// The client's loudspeaker is silent again.
    TtsPlayEnded,
    /// A dispatch goes out. Must be told before anything else about this attempt.
    Assigned {
        /// Which job.
        key: ResultKey,
        /// Its dispatch number; only grows.
        attempt: u32,
        /// The attempt before it goes on beside it, and whichever ends first counts.
        hedge: bool,
    },
    /// The node of this attempt took the job.
    NodeAccepted {
        /// Which job.
        key: ResultKey,
        /// Which dispatch of it.
        attempt: u32,
    },
    /// Something on the way to the result.
    Partial {
        /// Which job.
        key: ResultKey,
        /// Which dispatch of it.
        attempt: u32,
        /// What the node said.
        payload: R,
    },
    /// A job is over.
    Ended {
        /// Which job.
        key: ResultKey,
        /// Which dispatch of it; `None` when the dispatcher itself gave up.
        attempt: Option<u32>,
        /// How the job ended.
        ending: Ending<R>,
    },
    /// A timer set by [`Effect::SetTimer`] went off.
    TimerFired {
        /// Which one.
        timer: Timer,
        /// The generation it was set with; an older one is ignored.
        generation: u64,
    },
    /// The client's connection of this epoch is gone.
    Disconnected {
        /// The epoch of that connection; an older one is ignored.
        epoch: u64,
    },
    /// This instance claimed a newer epoch and no connection came of it: the answer was lost. What is cut from now
    /// on has this epoch, because the store takes no other.
    EpochRaised {
        /// The newer epoch; an older one is ignored.
        epoch: u64,
    },
    /// The client is back on a new connection.
    Resumed {
        /// The epoch of that connection; an older one is ignored.
        epoch: u64,
        /// Which endings the client has seen.
        last_seen: LastSeen,
    },
    /// This instance goes away: no new speech, what is open ends.
    Drain,
    /// The conversation ends: no new speech, what is open ends.
    Close {
        /// Speech in the buffer becomes a last utterance, rather than being dropped.
        finish_pending: bool,
    },
}

/// Something to do. The list of one event is performed in its order.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect<R> {
    /// Make one job for each route of this utterance.
    Dispatch(Arc<Utterance>),
    /// The answer to [`Event::Finalize`], and to a whole utterance without a number.
    Finalized {
        /// The utterance made, or none since nothing was in the buffer.
        index: Option<u64>,
    },
    /// The client repeated this utterance: answer with the job there is.
    RepeatedUtterance {
        /// The client's number.
        client_index: u64,
        /// Our number of the utterance.
        index: u64,
    },
    /// A whole utterance was not taken.
    UtteranceRefused {
        /// The client's number, if it gave one.
        client_index: Option<u64>,
        /// Why it was dropped.
        reason: DropReason,
    },
    /// Speech that will be in no utterance.
    AudioDropped {
        /// The first piece concerned.
        first_seq: u32,
        /// The last piece concerned.
        last_seq: u32,
        /// How many bytes.
        bytes: usize,
        /// Why it was dropped.
        reason: DropReason,
    },
    /// Pieces that never came; speech goes on behind them.
    AudioGap {
        /// The first one missing.
        from: u32,
        /// The last one missing.
        to: u32,
    },
    /// Every piece up to `seq` is safe with a node, over or dropped; only rises.
    AudioAck {
        /// The piece.
        seq: u32,
    },
    /// Ask the client to hold on. Said once until speech is taken again.
    Backpressure {
        /// What is exhausted.
        reason: DropReason,
    },
    /// Tell the client how a job ended.
    Deliver(Delivery<R>),
    /// Tell the client what is known so far.
    Partial {
        /// Which job.
        key: ResultKey,
        /// The client's number of a whole utterance.
        client_index: Option<u64>,
        /// What the node said.
        payload: R,
    },
    /// Nobody waits for this job any more.
    CancelJob {
        /// Which job.
        key: ResultKey,
        /// What its ending says.
        why: MissingReason,
    },
    /// Every job of this utterance is over; its audio is no longer kept.
    ReleaseAudio {
        /// The utterance's number.
        index: u64,
    },
    /// Set this timer; it replaces the one of the same name.
    SetTimer {
        /// Which one.
        timer: Timer,
        /// Comes back in [`Event::TimerFired`].
        generation: u64,
        /// When the timer is due.
        at: Moment,
    },
    /// The answer to [`Event::Resumed`]; the endings the client missed follow.
    Resumed {
        /// The number of the next utterance.
        next_index: u64,
        /// Up to which piece the client need not send again.
        audio_ack: Option<u32>,
        /// Endings that it may have missed and that are no longer kept.
        forgotten: Vec<Span>,
    },
    /// An event had no effect, and is counted.
    Ignored(Ignored),
    /// Everything has ended; the machine can be let go.
    Closed,
}

/// What one event brings about.
///
/// Most pieces of speech bring about nothing, and an empty list takes no memory. The longest holds
/// a few effects for each of `max_open_jobs` jobs and for each kept ending.
pub type Effects<R> = Vec<Effect<R>>;

/// One ending on its way to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery<R> {
    /// Which job.
    pub key: ResultKey,
    /// Its direction; not known of a job that an older version saved.
    pub route: Option<Route>,
    /// The client's number, when it sent the utterance as a whole.
    pub client_index: Option<u64>,
    /// The turn the utterance is part of.
    pub turn: TurnId,
    /// Which part of it.
    pub part_index: u32,
    /// With this ending every ending of the speech up to this piece is delivered.
    pub audio_ack: Option<u32>,
    /// How it ended.
    pub ending: Ending<R>,
    /// It was sent on an earlier connection, and the client did not see it there.
    pub again: bool,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending<R> {
    /// With an answer.
    Result(R),
    /// Without one.
    Missing(MissingReason),
}

/// Why speech was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// One piece is more than an utterance may hold.
    TooLarge,
    /// The session holds as much speech as it may.
    HeldBytes,
    /// As many jobs are open as may be.
    OpenJobs,
    /// The client's numbers are used up.
    SeqExhausted,
    /// A whole utterance without speech.
    Empty,
    /// The client's number of a whole utterance is not above the last, nor one that is remembered.
    IndexNotRising,
    /// The instance goes away.
    Draining,
    /// The conversation is over.
    Closed,
    /// The client went away in mid-utterance and did not come back.
    Abandoned,
}

impl DropReason {
    /// The piece was not taken note of: it may be sent again, here or to another instance, and is
    /// not acknowledged.
    pub fn leaves_seq_open(self) -> bool {
        matches!(self, DropReason::Draining | DropReason::Closed | DropReason::SeqExhausted)
    }
}

/// Why an event had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ignored {
    /// Not from the current attempt.
    StaleAttempt,
    /// The job had ended before.
    LateOrDuplicate,
    /// No such utterance or lane.
    UnknownKey,
    /// From a connection that is no longer the current one.
    StaleEpoch,
    /// The session is over.
    Closed,
}

/// The timers of a session; one of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timer {
    /// Silence long enough to end an utterance.
    Pause,
    /// The earliest deadline of an open job.
    Deadline,
    /// The end of the time in which a client may come back.
    Resume,
}
