//! What a client is told, before its connection encodes it.

use lingua_core::eligibility::Route;
use lingua_core::fleet::AnswerForm;
use lingua_core::outcome::MissingReason;
use lingua_core::session::Routes;
use lingua_core::{JobId, Lang, SessionId};
pub use lingua_protocol::client::{Action, Detail, Step};

use crate::job::{NodeMessage, Refusal};

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
        body: &'a NodeMessage,
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
        body: &'a NodeMessage,
        /// In which form it is, for a client that wants to hear that.
        form: Option<AnswerForm>,
        /// The language that it went by.
        via: Option<Lang>,
        /// Speech up to this piece need not be sent again: it has its ending with this very word.
        audio_ack: Option<u32>,
    },
    /// An utterance ended without one.
    Missing {
        /// Its number, as the client counts.
        utterance_index: u64,
        /// Of which target; of all of them if it is not known.
        direction: Direction,
        /// Why there is no result.
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
        /// What the client should do.
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
        /// Why the client has to go.
        reason: &'a str,
    },
    /// Something was not done.
    Error {
        /// What was wrong.
        refusal: &'a Refusal,
        /// Facts, as pairs of a name and a number or word.
        details: &'a [(&'a str, Detail<'a>)],
    },
    /// An utterance failed; for a client that shows nothing but errors.
    Failed {
        /// What was wrong.
        refusal: &'a Refusal,
        /// Which one.
        about: About<'a>,
    },
    /// The session is closed, as asked.
    CloseAck,
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
    /// From which language into which.
    pub direction: Direction,
}

/// The direction of a message to the client, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Nothing is known, or every target is meant.
    Unknown,
    /// The node finds the language out, and has not said which it is.
    Auto,
    /// From this language into every target.
    From(Lang),
    /// From the first into the second.
    FromTo(Lang, Lang),
}

impl Direction {
    /// The direction of a job before its node said anything.
    pub(super) fn of(route: Option<Route>) -> Self {
        match route {
            None => Direction::Unknown,
            Some(Route::Either(..)) => Direction::Auto,
            Some(Route::Directed(source, target)) => Direction::FromTo(source, target),
        }
    }

    /// The direction of a job whose node said that this language was spoken. That counts only where the
    /// node was to find it out, and only if it is one of the two.
    pub(super) fn found(route: Option<Route>, spoken: Option<&str>) -> Self {
        if let Some(Route::Either(a, b)) = route
            && let Some(spoken) = spoken.and_then(|tag| Lang::new(tag).ok())
        {
            let is = |one: &Lang| *one == spoken;
            let like = |one: &Lang| one.serves(&spoken) || spoken.serves(one);
            let first = is(&a) || (like(&a) && !is(&b));
            if first || like(&b) {
                let (source, target) = if first { (a, b) } else { (b, a) };
                return Direction::FromTo(source, target);
            }
        }
        Direction::of(route)
    }

    /// The direction of an utterance as a whole.
    pub(super) fn of_all(routes: &Routes) -> Self {
        match routes.first() {
            Route::Directed(source, _) if routes.lanes() > 1 => Direction::From(source),
            route => Direction::of(Some(route)),
        }
    }

    /// The language spoken.
    pub fn src_lang(&self) -> Option<&str> {
        match self {
            Direction::Unknown => None,
            Direction::Auto => Some("auto"),
            Direction::From(source) | Direction::FromTo(source, _) => Some(source.as_str()),
        }
    }

    /// The language of the translation.
    pub fn tgt_lang(&self) -> Option<&str> {
        match self {
            Direction::FromTo(_, target) => Some(target.as_str()),
            Direction::Unknown | Direction::Auto | Direction::From(_) => None,
        }
    }
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
    /// The target languages, if they are several.
    pub targets: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_names_the_language_only_where_it_was_to_find_it_out() {
        let [en, zh, de] = ["en", "zh-CN", "de"].map(|tag| Lang::new(tag).unwrap());
        let both = Some(Route::Either(en, zh));
        let found = |spoken| Direction::found(both, Some(spoken));
        assert_eq!(found("en"), Direction::FromTo(en, zh));
        assert_eq!(found("en-GB"), Direction::FromTo(en, zh));
        assert_eq!(found("zh_cn"), Direction::FromTo(zh, en));
        assert_eq!(found("zh"), Direction::FromTo(zh, en));
        for nonsense in ["de", "", "x y"] {
            assert_eq!(found(nonsense), Direction::Auto, "{nonsense}");
        }
        assert_eq!(Direction::found(both, None), Direction::Auto);
        let one_way = Some(Route::Directed(en, de));
        assert_eq!(Direction::found(one_way, Some("zh")), Direction::FromTo(en, de));
        assert_eq!(Direction::found(None, Some("zh")), Direction::Unknown);
        let simplified = Route::Either(Lang::new("zh").unwrap(), zh);
        let found = Direction::found(Some(simplified), Some("zh-CN"));
        assert_eq!(found.src_lang(), Some("zh-CN"), "the same tag goes before a similar one");
    }
}
