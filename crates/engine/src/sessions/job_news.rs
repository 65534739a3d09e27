//! What becomes of a session's jobs, as the session hears of it.

use lingua_core::outcome::MissingReason;
use lingua_core::session::{Ending, Event, ResultKey};

use super::actor::Actor;
use super::outbound::Step;
use crate::job::{Ended, JobNews};

impl Actor {
    pub(super) fn on_news(&mut self, key: ResultKey, news: JobNews) {
        match news {
            JobNews::Assigned { attempt, hedge } => {
                self.feed(Event::Assigned { key, attempt, hedge });
                if let Some(open) = self.open_job(key) {
                    open.placed = true;
                }
                if attempt == 1 {
                    self.step(key, Step::Dispatched);
                }
            }
            JobNews::Accepted { attempt } => {
                let first = self
                    .open_job(key)
                    .is_some_and(|open| !std::mem::replace(&mut open.accepted, true));
                // A whole utterance is acknowledged by no number; the next owner is to know of it.
                self.saving.wanted |= first;
                self.feed(Event::NodeAccepted { key, attempt });
                self.save();
                if first {
                    self.step(key, Step::NodeAccepted);
                }
            }
            JobNews::Partial { attempt, body } => {
                let Some(open) = self.open_job(key).filter(|open| open.partials) else { return };
                let payload = open.answer(body);
                self.feed(Event::Partial { key, attempt, payload });
            }
            JobNews::Ended(ended) => self.on_ended(key, ended),
        }
        self.submit_held();
    }

    pub(super) fn on_ended(&mut self, key: ResultKey, ended: Ended) {
        let Some(open) = self.open_job(key) else {
            self.service.shared.metrics.session_ignored("no_job");
            return;
        };
        let ending = match ended {
            Ended::Done(body) => Ending::Result(open.answer(body)),
            Ended::Empty { .. } => Ending::Missing(MissingReason::SilenceDetected),
            Ended::Failed(refusal) => {
                let reason = refusal.code.missing_reason();
                open.failure = Some(refusal);
                Ending::Missing(reason)
            }
            Ended::Cancelled(reason) if reason == "draining" => {
                Ending::Missing(MissingReason::Draining)
            }
            Ended::Cancelled(_) => Ending::Missing(MissingReason::Cancelled),
        };
        open.over = true;
        self.feed(Event::Ended { key, attempt: None, ending });
    }
}
