//! A translation by way of another language: two jobs one after the other, one deadline, one ending.
//!
//! The job itself never has a node then. It hands in a job from what was said into the language between, and
//! when that is done a second one from there. While they run it waits for their news and for its own
//! deadline; whatever ends it gives up the one that runs. Its record in the store is written before the first
//! is handed in, so that no other instance begins the same.

use super::event::{Effect, Effects, Leg, LegNews, Note, RecordAnswer};
use super::machine::{Machine, Phase, Record};
use super::outcome::{Ended, Refusal};
use super::search::SearchStep;
use super::{JobState, JobStep};
use crate::lang::Lang;

/// Where the two jobs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Relay {
    /// The language between.
    via: Lang,
    /// The end of it is spoken.
    speech: bool,
    leg: Leg,
    /// Its job was handed in, and has not ended.
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

    /// The record of the job is written, or was asked for in vain.
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

    /// A leg was handed in, or refused at once.
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
            // Only the first hears the person; what the second says on the way is a translation.
            LegNews::Partial(body) if leg == Leg::First => {
                out.push(Effect::Partial { attempt: 1, body });
            }
            LegNews::Partial(_) => {}
            LegNews::Ended(ended) => self.leg_over(ended, out),
        }
    }

    /// A leg is over: the other one follows, or the job is over too.
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

    /// Whatever ends the job gives up the leg that runs.
    pub(super) fn stop_leg(&mut self, reason: &'static str, out: &mut Effects) {
        if let Some(relay) = self.relay.as_mut().filter(|relay| relay.runs) {
            relay.runs = false;
            out.push(Effect::CancelLeg { leg: relay.leg, reason });
        }
    }
}
