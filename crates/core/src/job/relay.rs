//! A translation by way of another language: two legs one after the other, one deadline, one ending.
//!
//! The job itself has no node then. It submits one job into the language between, and when that is done a
//! second one from there. While a leg runs, the job waits for its news and for its own deadline; whatever ends
//! the job cancels the leg. The record in the store is written before the first leg is submitted, so that no
//! other instance begins the same job.

use super::event::{Effect, Effects, Leg, LegNews, Note, RecordAnswer};
use super::machine::{Machine, Phase, Record};
use super::outcome::{Ended, Refusal};
use super::search::SearchStep;
use super::{JobState, JobStep};
use crate::lang::Lang;

/// The state of the two legs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Relay {
    /// The language between.
    via: Lang,
    /// The answer is spoken.
    speech: bool,
    leg: Leg,
    /// Its job was submitted, and has not ended.
    runs: bool,
}

impl Machine {
    /// The job goes by way of `via` from now on.
    pub(super) fn begin_relay(&mut self, via: Lang, speech: bool, out: &mut Effects) {
        self.request.speech = speech;
        self.relay = Some(Relay { via, speech, leg: Leg::First, runs: false });
        if self.record != Record::Missing {
            return self.begin_leg(Leg::First, out);
        }
        self.record = Record::Asked;
        if let Some(search) = &mut self.search {
            search.step = SearchStep::WritingRelay;
        }
        out.push(Effect::WriteRecord { attempt: None });
    }

    /// The store answered about the record of the job.
    pub(super) fn on_relay_recorded(&mut self, answer: RecordAnswer, out: &mut Effects) {
        match self.record_answered(answer) {
            Ok(()) => self.begin_leg(Leg::First, out),
            Err(unwritten) => self.end_unwritten(unwritten, out),
        }
    }

    fn begin_leg(&mut self, leg: Leg, out: &mut Effects) {
        self.search = None;
        let Some(relay) = &mut self.relay else { return };
        (relay.leg, relay.runs) = (leg, true);
        let Relay { via, speech, .. } = *relay;
        if leg == Leg::First {
            out.push(Effect::Note(Note::Pivot { via }));
        }
        out.push(Effect::BeginLeg { leg, via, speech });
    }

    /// A leg was submitted, or refused at once.
    pub(super) fn on_leg_begun(&mut self, leg: Leg, refused: Option<Refusal>, out: &mut Effects) {
        if let Some(refusal) = refused.filter(|_| self.is_running(leg)) {
            self.leg_over(Ended::Failed(refusal), out);
        }
    }

    pub(super) fn is_running(&self, leg: Leg) -> bool {
        let runs = |relay: &Relay| relay.runs && relay.leg == leg;
        matches!(self.phase, Phase::Open) && self.relay.as_ref().is_some_and(runs)
    }

    /// News of a leg that runs.
    pub(super) fn on_leg(&mut self, leg: Leg, news: LegNews, out: &mut Effects) {
        match news {
            LegNews::Assigned => {
                if self.state == JobState::Selecting {
                    self.step(JobStep::Grant);
                    self.step(JobStep::Send);
                }
                out.push(Effect::LegPlaced { leg });
            }
            LegNews::Accepted if self.state == JobState::Dispatched => {
                self.step(JobStep::Ack);
                out.push(Effect::LegAccepted { leg });
            }
            LegNews::Accepted => out.push(Effect::LegAccepted { leg }),
            // The partials of the first are what the person said; those of the second are translations.
            LegNews::Partial(body) if leg == Leg::First => {
                out.push(Effect::Partial { attempt: 1, body });
            }
            LegNews::Partial(_) => {}
            LegNews::Ended(ended) => self.leg_over(ended, out),
        }
    }

    /// A leg is over: the second one follows, or the job ends.
    fn leg_over(&mut self, ended: Ended, out: &mut Effects) {
        let Some(relay) = &mut self.relay else { return };
        relay.runs = false;
        let leg = relay.leg;
        out.push(Effect::LegOver { leg, outcome: ended.code().to_owned() });
        match (leg, ended) {
            (Leg::First, Ended::Done(_)) => self.begin_leg(Leg::Second, out),
            (_, ended) => self.end(ended, out),
        }
    }

    /// Cancels the leg that runs.
    pub(super) fn stop_leg(&mut self, reason: &'static str, out: &mut Effects) {
        if let Some(relay) = self.relay.as_mut().filter(|relay| relay.runs) {
            relay.runs = false;
            out.push(Effect::CancelLeg { leg: relay.leg, reason });
        }
    }
}
