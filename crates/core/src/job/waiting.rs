//! A job waits in the queue while every able node is full, and ends with a reason if none has a free slot in time.

use std::time::Duration;

use super::JobStep;
use super::event::{Busy, ChooseFrom, Effect, Effects, Lack, QueueAnswer, Wakeup};
use super::machine::{Machine, Record, deadline_passed};
use super::outcome::{Ended, Refusal};
use super::search::{Entry, SearchStep};
use crate::fleet::select::Source;

impl Machine {
    pub(super) fn describe(&mut self, lack: Lack, out: &mut Effects) {
        if let Some(search) = &mut self.search {
            search.step = SearchStep::Lack;
        }
        out.push(Effect::DescribeLack(lack));
    }

    pub(super) fn on_lack_described(&mut self, refusal: Refusal, out: &mut Effects) {
        if self.is_at(SearchStep::Lack) {
            self.end(Ended::Failed(refusal), out);
        }
    }

    pub(super) fn wait(&mut self, out: &mut Effects) {
        if self.record != Record::Missing {
            return self.join_queue(out);
        }
        if self.now >= self.request.deadline {
            return self.end(Ended::Failed(deadline_passed()), out);
        }
        self.record = Record::Asked;
        if let Some(search) = &mut self.search {
            search.step = SearchStep::WritingRecord;
        }
        out.push(Effect::WriteRecord { attempt: None });
    }

    pub(super) fn join_queue(&mut self, out: &mut Effects) {
        if let Some(search) = &mut self.search {
            search.step = SearchStep::JoiningQueue;
        }
        out.push(Effect::JoinQueue);
    }

    pub(super) fn on_queued(&mut self, answer: QueueAnswer, out: &mut Effects) {
        if !self.is_at(SearchStep::JoiningQueue) {
            return;
        }
        if answer == QueueAnswer::Full {
            return self.describe(Lack::Slot(Busy::QueueFull), out);
        }
        let queue_max = Duration::from_millis(self.policy.timing.queue_max_ms);
        // The limit is for all its waiting together.
        let until = (self.now + queue_max.saturating_sub(self.waited)).min(self.request.deadline);
        self.step(JobStep::Wait);
        if let Some(search) = &mut self.search {
            search.step = SearchStep::Waiting { since: self.now, until };
        }
        out.push(Effect::Waiting);
    }

    pub(super) fn on_called(&mut self, wakeup: Wakeup, out: &mut Effects) {
        let Some(SearchStep::Waiting { since, until }) = self.open_step() else { return };
        let waited = self.now.since(since);
        self.waited += waited;
        self.step(JobStep::Select);
        out.push(Effect::Waited(waited));
        if let Some(search) = &mut self.search {
            search.from = ChooseFrom::Anew;
            search.entry = match wakeup {
                Wakeup::Slot(_) => Entry::Handed,
                Wakeup::Look | Wakeup::Leave => Entry::Called,
            };
        }
        match wakeup {
            Wakeup::Slot(node) => self.reserve(node, Source::Handed, out),
            Wakeup::Leave => self.describe(Lack::Slot(Busy::Displaced), out),
            Wakeup::Look if self.now >= until => self.describe(Lack::Slot(Busy::AllFull), out),
            Wakeup::Look => self.choose(out),
        }
    }

    pub(super) fn queue_timed_out(&mut self, out: &mut Effects) {
        out.push(Effect::LeaveQueue);
        self.describe(Lack::Slot(Busy::AllFull), out);
    }
}
