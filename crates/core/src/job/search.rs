//! How a job gets onto a node: choose, reserve, write the assignment, send; or wait in the queue.

use super::attempt::{Attempt, AttemptState};
use super::event::{
    Among, AssignAnswer, ChooseFrom, Effect, Effects, Lack, Note, Pace, RecordAnswer, SlotAnswer,
};
use super::machine::{Machine, Phase, Record, deadline_passed};
use super::outcome::{Ended, Refusal};
use super::{JobStep, Link};
use crate::fleet::select::{Passed, Source, Verdict};
use crate::fleet::{Fallbacks, Way};
use crate::ids::NodeId;
use crate::outcome::Code;
use crate::planted::{self, Flaw};
use crate::time::Moment;

/// Nodes that look full and are asked for a slot all the same before the job waits: another instance may
/// have freed one.
const ASKED_THOUGH_FULL: u32 = 2;

/// The search for a node, from the first choice to the dispatch.
#[derive(Debug)]
pub(super) struct Search {
    pub kind: SearchKind,
    pub step: SearchStep,
    pub entry: Entry,
    /// Where the next choice continues.
    pub from: ChooseFrom,
    /// Nodes that looked full and were asked all the same, since the job last waited.
    full_asked: u32,
}

/// What the search is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SearchKind {
    /// The job has no node.
    Sole,
    /// It has one, and a hedge begins if a slot is free.
    Hedge,
}

/// What the search waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SearchStep {
    /// Whether the budget allows a hedge.
    HedgeBudget,
    /// Whether the budget allows a retry.
    RetryBudget,
    Choosing,
    /// An attempt that is being placed.
    Placing,
    /// A node whose mark may be left aside.
    OldestMark(Verdict),
    /// Another way to serve the job: text alone, a pivot or the original.
    AnotherWay,
    /// The record, before the first leg is submitted.
    WritingRelay,
    /// The moment of a retry.
    BackingOff {
        until: Moment,
    },
    /// A description of what the fleet lacks, for the job's ending.
    Lack,
    /// The record, before the job waits.
    WritingRecord,
    JoiningQueue,
    Waiting {
        since: Moment,
        until: Moment,
    },
}

/// How the job came to be placed, for its tenant's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// It never waited.
    Direct,
    /// It was called out of the queue to choose again.
    Called,
    /// A slot was handed to it, which counts for its tenant's share already.
    Handed,
}

impl Search {
    pub fn new(kind: SearchKind, step: SearchStep) -> Self {
        Search { kind, step, entry: Entry::Direct, from: ChooseFrom::Start, full_asked: 0 }
    }

    /// For a hedge, if the budget allows one.
    pub fn hedge() -> Self {
        Search::new(SearchKind::Hedge, SearchStep::HedgeBudget)
    }

    /// When the job waits no longer, in the queue or for a retry.
    pub fn timer(&self) -> Option<Moment> {
        match self.step {
            SearchStep::Waiting { until, .. } | SearchStep::BackingOff { until } => Some(until),
            _ => None,
        }
    }

    /// Whether the slot that it found is to be counted for its tenant's share.
    pub fn owes_share(&self) -> bool {
        self.entry == Entry::Called
    }
}

impl Machine {
    pub(super) fn on_submitted(&mut self, out: &mut Effects) {
        if matches!(self.phase, Phase::New) {
            self.phase = Phase::Open;
            self.search = Some(Search::new(SearchKind::Sole, SearchStep::Choosing));
            self.begin_search(out);
        }
    }

    /// Begins the search that is wanted.
    pub(super) fn begin_search(&mut self, out: &mut Effects) {
        self.unmarked.clear();
        if self.search.as_ref().is_some_and(|search| search.kind == SearchKind::Sole) {
            self.step(JobStep::Select);
            out.push(Effect::Selecting);
        }
        self.choose(out);
    }

    pub(super) fn choose(&mut self, out: &mut Effects) {
        if self.now >= self.request.deadline {
            return self.end(Ended::Failed(deadline_passed()), out);
        }
        let Some(search) = &mut self.search else { return };
        search.step = SearchStep::Choosing;
        let from = std::mem::replace(&mut search.from, ChooseFrom::Next);
        let among = match search.entry {
            Entry::Direct => Among::FreeIfOthersWait,
            Entry::Called | Entry::Handed => Among::Free,
        };
        out.push(Effect::Choose { from, among });
    }

    pub(super) fn is_at(&self, step: SearchStep) -> bool {
        self.is_open() && self.search.as_ref().is_some_and(|search| search.step == step)
    }

    pub(super) fn on_chosen(
        &mut self,
        node: NodeId,
        source: Source,
        passed_over: Option<Passed>,
        out: &mut Effects,
    ) {
        if !self.is_at(SearchStep::Choosing) {
            return;
        }
        if let Some(search) = &mut self.search {
            search.full_asked += u32::from(source == Source::Full);
        }
        if let Some(passed) = passed_over {
            out.push(Effect::Note(Note::PreferredPassed(passed)));
        }
        self.reserve(node, source, out);
    }

    pub(super) fn reserve(&mut self, node: NodeId, source: Source, out: &mut Effects) {
        if self.now >= self.request.deadline {
            return self.end(Ended::Failed(deadline_passed()), out);
        }
        let reused = planted::on(Flaw::AttemptNumberReused) && self.number > 0;
        let number = self.number + u32::from(!reused);
        let with_record = self.record == Record::Missing;
        if with_record {
            self.record = Record::Asked;
            self.number = number;
        }
        self.attempts.push(Attempt {
            number,
            node,
            source,
            state: AttemptState::Reserving,
            sent_at: self.now,
            due: self.request.deadline,
            link: Link::default(),
        });
        if let Some(search) = &mut self.search {
            search.step = SearchStep::Placing;
        }
        out.push(Effect::Reserve { attempt: number, with_record });
    }

    pub(super) fn on_reserved(
        &mut self,
        number: u32,
        slot: SlotAnswer,
        record: RecordAnswer,
        out: &mut Effects,
    ) {
        let Some(at) = self.position(number) else { return };
        let discarded = self.attempts[at].state == AttemptState::Discarded;
        if !discarded && self.attempts[at].state != AttemptState::Reserving {
            return;
        }
        let written = self.record_answered(record);
        if discarded || slot != SlotAnswer::Granted || written.is_err() {
            let attempt = self.attempts.remove(at);
            if slot == SlotAnswer::Granted {
                out.push(Effect::Release { attempt: number, pace: Pace::Now });
            }
            return match (written, slot) {
                _ if discarded => {}
                (Err(unwritten), _) => self.end_unwritten(unwritten, out),
                (Ok(()), SlotAnswer::StoreDown) => {
                    self.end(Ended::Failed(Refusal::store_down()), out);
                }
                (Ok(()), _) => self.refused(attempt.source, out),
            };
        }
        if self.number >= number {
            return self.send(at, out);
        }
        self.attempts[at].state = AttemptState::Recording;
        out.push(Effect::WriteAssignment { attempt: number });
    }

    /// Notes the store's answer about the record; `Err` if the job cannot go on.
    pub(super) fn record_answered(&mut self, answer: RecordAnswer) -> Result<(), RecordAnswer> {
        match answer {
            RecordAnswer::NotAsked => Ok(()),
            RecordAnswer::Written => {
                self.record = Record::Written;
                Ok(())
            }
            RecordAnswer::Exists | RecordAnswer::Superseded | RecordAnswer::StoreDown => {
                self.record = Record::Missing;
                Err(answer)
            }
        }
    }

    pub(super) fn end_unwritten(&mut self, answer: RecordAnswer, out: &mut Effects) {
        match answer {
            RecordAnswer::Exists => self.detach(out),
            RecordAnswer::Superseded => {
                let newer = "a newer connection has the session".to_owned();
                self.end(Ended::Cancelled(newer), out);
            }
            _ => self.end(Ended::Failed(Refusal::store_down()), out),
        }
    }

    pub(super) fn on_assignment_written(
        &mut self,
        number: u32,
        answer: AssignAnswer,
        out: &mut Effects,
    ) {
        let Some(at) = self.recording(number) else { return };
        let refusal = match answer {
            AssignAnswer::Written => {
                self.number = number;
                return self.send(at, out);
            }
            // The store lost the record. No other instance can have had the job in between.
            AssignAnswer::Unknown => {
                self.record = Record::Asked;
                return out.push(Effect::WriteRecord { attempt: Some(number) });
            }
            AssignAnswer::Ended => Refusal::new(Code::JobTimeout, "the job had been ended before"),
            AssignAnswer::Refused => Refusal::new(Code::Conflict, "another instance has the job"),
            AssignAnswer::StoreDown => Refusal::store_down(),
        };
        self.attempts.remove(at);
        out.push(Effect::Release { attempt: number, pace: Pace::Now });
        self.end(Ended::Failed(refusal), out);
    }

    fn recording(&self, number: u32) -> Option<usize> {
        let recording = |at: &usize| self.attempts[*at].state == AttemptState::Recording;
        self.position(number).filter(recording)
    }

    pub(super) fn on_recorded(
        &mut self,
        attempt: Option<u32>,
        answer: RecordAnswer,
        out: &mut Effects,
    ) {
        let Some(number) = attempt else {
            if self.is_at(SearchStep::WritingRelay) {
                return self.on_relay_recorded(answer, out);
            }
            if !self.is_at(SearchStep::WritingRecord) {
                return;
            }
            return match self.record_answered(answer) {
                Ok(()) => self.join_queue(out),
                Err(unwritten) => self.end_unwritten(unwritten, out),
            };
        };
        let Some(at) = self.recording(number) else { return };
        if self.record_answered(answer).is_ok() {
            self.number = number;
            return self.send(at, out);
        }
        self.attempts.remove(at);
        out.push(Effect::Release { attempt: number, pace: Pace::Now });
        let refusal = Refusal::new(Code::Conflict, "another instance has the job");
        self.end(Ended::Failed(refusal), out);
    }

    /// A candidate did not get the job: the next one is asked.
    pub(super) fn refused(&mut self, source: Source, out: &mut Effects) {
        let Some(search) = &mut self.search else { return };
        if search.entry == Entry::Handed {
            search.entry = Entry::Called;
            out.push(Effect::RefundShare);
        }
        if source == Source::Preferred {
            out.push(Effect::Note(Note::PreferredFull));
            return self.choose(out);
        }
        if search.full_asked < ASKED_THOUGH_FULL {
            return self.choose(out);
        }
        self.none_left(Verdict::Busy, out);
    }

    pub(super) fn on_none_chosen(&mut self, verdict: Verdict, out: &mut Effects) {
        if self.is_at(SearchStep::Choosing) {
            self.none_left(verdict, out);
        }
    }

    /// No candidate is left: serve the job in another way, wait, or end.
    fn none_left(&mut self, verdict: Verdict, out: &mut Effects) {
        let Some(search) = &mut self.search else { return };
        if search.kind == SearchKind::Hedge {
            self.search = None;
            return out.push(Effect::SearchEnded);
        }
        // Nodes that rejected the job as busy are asked again once no other is left.
        let busy = search.full_asked >= ASKED_THOUGH_FULL || !self.busy.is_empty();
        search.full_asked = 0;
        self.busy.clear();
        let verdict = if busy { Verdict::Busy } else { verdict };
        let only_marked = Verdict::PreferredNotCapable(Passed::Excluded);
        let may_fall_back = self.request.may_fall_back();
        if verdict == Verdict::OnlyFailed || verdict == only_marked {
            search.step = SearchStep::OldestMark(verdict);
            out.push(Effect::FindOldestMark);
        } else if verdict == Verdict::NoneEligible && self.failure.is_none() && may_fall_back {
            search.step = SearchStep::AnotherWay;
            out.push(Effect::FindAnotherWay(self.request.fallbacks));
        } else {
            self.wait_or_end(verdict, out);
        }
    }

    pub(super) fn on_oldest_mark(&mut self, node: Option<NodeId>, out: &mut Effects) {
        let Some(SearchStep::OldestMark(verdict)) = self.open_step() else { return };
        match node {
            Some(node) => {
                self.unmarked.push(node);
                self.choose_anew(out);
            }
            None => self.wait_or_end(verdict, out),
        }
    }

    /// Each way is tried once, so this ends.
    pub(super) fn on_another_way(&mut self, way: Option<Way>, out: &mut Effects) {
        if !self.is_at(SearchStep::AnotherWay) {
            return;
        }
        match way {
            None => return self.wait_or_end(Verdict::NoneEligible, out),
            Some(Way::Pivot { via, speech }) => return self.begin_relay(via, speech, out),
            Some(Way::Captions) => {
                self.request.fallbacks.captions = false;
                out.push(Effect::SwitchToText);
                out.push(Effect::Note(Note::TextOnly));
            }
            Some(Way::Original) => {
                self.request.fallbacks = Fallbacks::NONE;
                out.push(Effect::SwitchToOriginal);
                out.push(Effect::Note(Note::OriginalOnly));
            }
        }
        self.request.speech = false;
        self.choose_anew(out);
    }

    pub(super) fn open_step(&self) -> Option<SearchStep> {
        self.search.as_ref().filter(|_| self.is_open()).map(|search| search.step)
    }

    fn choose_anew(&mut self, out: &mut Effects) {
        if let Some(search) = &mut self.search {
            search.from = ChooseFrom::Anew;
        }
        self.choose(out);
    }

    fn wait_or_end(&mut self, verdict: Verdict, out: &mut Effects) {
        let refusal = match verdict {
            Verdict::Busy | Verdict::PreferredBusy => return self.wait(out),
            // No node is left after an attempt that failed: its failure is the ending.
            _ if self.failure.is_some() => return self.end_with_failure(out),
            Verdict::PreferredNotCapable(_) => Refusal::new(
                Code::PreferredNodeNotCapable,
                "the node asked for cannot take this job, and no other is wanted",
            ),
            Verdict::OnlyFailed => {
                Refusal::new(Code::ModelNotAvailable, "every able node misses a model for it")
                    .retry_after(1_000)
            }
            Verdict::NoneEligible => return self.describe(Lack::AbleNode, out),
        };
        self.end(Ended::Failed(refusal), out);
    }
}
