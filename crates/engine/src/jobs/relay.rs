//! A translation by way of another language: the two jobs that a job submits, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lingua_core::eligibility::Need;
use lingua_core::fleet::{Fallbacks, legs};
use lingua_core::job::{Event, Leg, LegNews};
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::outcome::Code;
use lingua_core::{Lang, NodeId};
use lingua_protocol::json::write;
use lingua_protocol::node::message::{read_message, text};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Dispatcher;
use super::registry::Job;
use crate::job::{
    Ended, JobNews, JobObserver, JobSpec, NodeMessage, NotNotified, Observer, Refusal,
};

/// News of a leg that wait for its job.
const NEWS: usize = 8;

/// Room that is kept for news that must not be dropped.
const FOR_ENDINGS: usize = 3;

/// Fields of the answer that come from the first leg, which had the speech.
const HEARD: [&str; 2] = ["text_asr", "asr_quality_level"];

/// The legs of one job.
pub(super) struct Relay {
    sender: mpsc::Sender<(Leg, LegNews)>,
    news: mpsc::Receiver<(Leg, LegNews)>,
    /// The leg that was submitted last.
    job: Option<Arc<Job>>,
    /// The answer of the first leg.
    first: Option<NodeMessage>,
}

/// A leg to submit.
pub(super) struct Wanted {
    pub leg: Leg,
    pub via: Lang,
    /// The answer of the second leg is spoken.
    pub speech: bool,
    /// Until the deadline of the job.
    pub left: Duration,
}

impl Relay {
    pub fn new() -> Self {
        let (sender, news) = mpsc::channel(NEWS);
        Relay { sender, news, job: None, first: None }
    }

    /// Submits the job of a leg.
    pub fn begin(
        &mut self,
        dispatcher: &Arc<Dispatcher>,
        spec: &JobSpec,
        wanted: &Wanted,
    ) -> Result<Arc<Job>, Refusal> {
        let job = dispatcher.submit_leg(self.leg_spec(spec, wanted)?)?;
        self.job = Some(Arc::clone(&job));
        Ok(job)
    }

    fn leg_spec(&self, spec: &JobSpec, wanted: &Wanted) -> Result<JobSpec, Refusal> {
        let Wanted { leg, via, speech, left } = *wanted;
        let all = Need { speech, ..spec.need.clone() };
        let no_way = || Refusal::new(Code::InternalError, "it is no way by another language");
        let [into, from] = legs(&all, &via).ok_or_else(no_way)?;
        let first = leg == Leg::First;
        let (need, work) = match first {
            true => (into, spec.work.into_language(via.as_str())),
            false => {
                (from, spec.work.from_language(via.as_str(), self.first_translation()?, speech))
            }
        };
        let key = JobKey {
            session: &spec.session,
            origin: Origin::Leg { of: &spec.id, number: leg.number() },
            job_type: "leg",
            route: need.route,
            features: &[],
        };
        Ok(JobSpec {
            id: key.job_id(),
            session: spec.session.clone(),
            epoch: spec.epoch,
            need,
            fallbacks: Fallbacks::NONE,
            profile: spec.profile,
            preferred: None,
            region: spec.region.clone(),
            strict: false,
            turn: spec.turn.clone().filter(|_| first),
            past: None,
            work: Arc::new(work),
            deadline_in: left,
            trace: spec.trace,
            observer: Some(Observer::new(LegObserver { leg, sender: self.sender.clone() })),
        })
    }

    /// The translation of the first leg.
    fn first_translation(&self) -> Result<Bytes, Refusal> {
        let text = self.first.as_ref().and_then(|first| text(first, "text_translated"));
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Bytes::from(text.into_owned())),
            None => Err(Refusal::new(Code::ProcessingError, "the first of two nodes gave no text")),
        }
    }

    /// Cancels the leg that runs.
    pub fn cancel(&self, reason: &'static str) {
        if let Some(job) = &self.job {
            job.cancel(reason);
        }
    }

    /// The node that has the leg, or had it last.
    pub fn node(&self) -> Option<NodeId> {
        let view = self.job.as_ref()?.view();
        view.attempts.last().map(|attempt| attempt.node.clone())
    }

    /// The news that is there.
    pub fn try_next(&mut self) -> Option<Event> {
        let (leg, news) = self.news.try_recv().ok()?;
        Some(self.event(leg, news))
    }

    /// The next news.
    pub async fn next(&mut self) -> Event {
        match self.news.recv().await {
            Some((leg, news)) => self.event(leg, news),
            None => unreachable!("the relay itself holds a sender"),
        }
    }

    fn event(&mut self, leg: Leg, news: LegNews) -> Event {
        let news = match (leg, news) {
            (Leg::First, LegNews::Ended(Ended::Done(body))) => {
                self.first = Some(body.clone());
                LegNews::Ended(Ended::Done(body))
            }
            (Leg::Second, LegNews::Ended(Ended::Done(body))) => {
                LegNews::Ended(Ended::Done(self.joined(&body)))
            }
            (_, news) => news,
        };
        Event::Leg { leg, news }
    }

    /// The answer of the second leg, with the fields of the first that describe the speech.
    fn joined(&self, second: &NodeMessage) -> NodeMessage {
        let heard = self.first.iter().flat_map(NodeMessage::fields);
        let heard = heard.filter(|(name, _)| HEARD.contains(name));
        let rest = second.fields().filter(|(name, _)| !HEARD.contains(name));
        let mut text = String::with_capacity(second.len() + 256);
        for (name, value) in heard.chain(rest) {
            text.push(if text.is_empty() { '{' } else { ',' });
            write(&name, &mut text);
            text.push(':');
            text.push_str(value);
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        read_message(Bytes::from(text))
    }
}

/// Sends a job the news of one of its legs.
struct LegObserver {
    leg: Leg,
    sender: mpsc::Sender<(Leg, LegNews)>,
}

impl LegObserver {
    fn news(&self, news: JobNews) -> (Leg, LegNews) {
        let news = match news {
            JobNews::Assigned { .. } => LegNews::Assigned,
            JobNews::Accepted { .. } => LegNews::Accepted,
            JobNews::Partial { body, .. } => LegNews::Partial(body),
            JobNews::Ended(ended) => LegNews::Ended(ended),
        };
        (self.leg, news)
    }
}

impl JobObserver for LegObserver {
    fn try_notify(&self, news: JobNews) -> Result<(), NotNotified> {
        match self.sender.try_reserve() {
            Ok(permit) => permit.send(self.news(news)),
            Err(TrySendError::Full(())) => return Err(NotNotified::Busy(news)),
            // The job is over; the news are dropped.
            Err(TrySendError::Closed(())) => {}
        }
        Ok(())
    }

    fn notify(&self, news: JobNews) -> BoxFuture<'_, Result<(), JobNews>> {
        Box::pin(async move {
            if let Ok(permit) = self.sender.reserve().await {
                permit.send(self.news(news));
            }
            Ok(())
        })
    }

    fn has_room_to_spare(&self) -> bool {
        self.sender.capacity() > FOR_ENDINGS
    }

    fn is_of_a_leg(&self) -> bool {
        true
    }
}
