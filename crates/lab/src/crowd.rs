//! Many simulated speakers: conversations that come and go, measured and reported together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::speaker::{Ended, Kind, Report, Script};
use crate::{AutoSpeaker, ConnectError, Meter, SpeakerOptions, monotonic_us};

/// How long a session is tried to be opened.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// Why a conversation counts as failed whose endings did not come in time.
pub const GIVEN_UP: &str = "its endings did not come";

/// One conversation.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The pause before it.
    pub begin_after: Duration,
    /// Who speaks.
    pub speaker: SpeakerOptions,
    /// What is said.
    pub script: Script,
}

/// The conversations that one after the other take place in one seat; `None` after the last one.
pub type Conversations = Box<dyn FnMut() -> Option<Conversation> + Send>;

impl Conversation {
    /// The only one of its seat.
    pub fn alone(self) -> Conversations {
        let mut only = Some(self);
        Box::new(move || only.take())
    }
}

/// How failures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Everything that a speaker does not get back is a violation.
    Strict,
    /// Things are broken on purpose: what goes down with a client that cannot come back, or that was
    /// sent away, is counted apart.
    FaultsExpected,
}

/// What the speakers met.
#[derive(Debug, Clone, Default)]
pub struct CrowdReport {
    /// All their reports as one.
    pub report: Report,
    /// Conversations that were begun.
    pub opened: u32,
    /// Conversations that could not be held to their end, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Sentences that went down with a session that its client could not come back to; only with
    /// [`Judgement::FaultsExpected`].
    pub unrecoverable: u64,
}

/// How all are told to leave.
#[derive(Debug, Clone, Copy)]
struct Leave {
    after_sentence: bool,
    limit: Duration,
}

/// Speakers. Dropping it is sudden: all connections end without a close.
#[derive(Debug)]
pub struct Crowd {
    seats: JoinSet<()>,
    shared: Arc<Shared>,
    leave: watch::Sender<Option<Leave>>,
}

#[derive(Debug)]
struct Shared {
    meter: Meter,
    judgement: Judgement,
    present: AtomicUsize,
    told: Mutex<CrowdReport>,
}

impl Crowd {
    /// Has a seat for each of these, on the runtime of the caller.
    pub fn start(
        seats: impl IntoIterator<Item = Conversations>,
        meter: &Meter,
        judgement: Judgement,
    ) -> Self {
        let shared = Arc::new(Shared {
            meter: meter.clone(),
            judgement,
            present: AtomicUsize::new(0),
            told: Mutex::default(),
        });
        let (leave, told) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for conversations in seats {
            let seat = Seat { shared: Arc::clone(&shared), leave: told.clone() };
            tasks.spawn(seat.keep(conversations));
        }
        Self { seats: tasks, shared, leave }
    }

    /// What is measured of them.
    pub fn meter(&self) -> &Meter {
        &self.shared.meter
    }

    /// How many are in a conversation.
    pub fn present(&self) -> usize {
        self.shared.present.load(Ordering::Relaxed)
    }

    /// Has all break off, hear what is open and leave.
    pub async fn leave(self, limit: Duration) -> CrowdReport {
        self.end(Leave { after_sentence: false, limit }).await
    }

    /// Has all say their sentences to the end, hear what is open and leave.
    pub async fn finish(self, limit: Duration) -> CrowdReport {
        self.end(Leave { after_sentence: true, limit }).await
    }

    async fn end(mut self, leave: Leave) -> CrowdReport {
        self.leave.send_replace(Some(leave));
        while let Some(seat) = self.seats.join_next().await {
            if let Err(panicked) = seat {
                self.shared.told().fail(panicked.to_string());
            }
        }
        self.shared.told().clone()
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, CrowdReport> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chair that somebody sits on some of the time.
struct Seat {
    shared: Arc<Shared>,
    leave: watch::Receiver<Option<Leave>>,
}

impl Seat {
    async fn keep(mut self, mut conversations: Conversations) {
        while let Some(next) = conversations() {
            tokio::select! {
                () = sleep(next.begin_after) => {}
                _ = told_to_leave(&mut self.leave) => return,
            }
            if let Err(why) = self.converse(next.speaker, next.script).await {
                self.shared.told().fail(why);
            }
            if self.leave.borrow().is_some() {
                return;
            }
        }
    }

    /// One conversation from its beginning to its end; an error says why it could not be held.
    async fn converse(&mut self, options: SpeakerOptions, script: Script) -> Result<(), String> {
        let comes_back = options.supports.iter().any(|one| one == "resume") && script.reconnect;
        let asked_us = monotonic_us();
        let watcher = self.shared.meter.watcher();
        let opened = timeout(OPEN_LIMIT, AutoSpeaker::watched(options, script, watcher)).await;
        let speaker = match opened {
            Ok(Ok(speaker)) => speaker,
            Ok(Err(error)) => return Err(reason(&error)),
            Err(_) => return Err(format!("no session within {OPEN_LIMIT:?}")),
        };
        self.shared.meter.opened(monotonic_us() - asked_us);
        self.shared.present.fetch_add(1, Ordering::Relaxed);
        let ended = tokio::select! {
            ended = speaker.ended() => ended,
            leave = told_to_leave(&mut self.leave) => {
                match leave.after_sentence {
                    true => speaker.stop_after_sentence(),
                    false => speaker.stop(),
                }
                let ended = timeout(leave.limit, speaker.ended()).await;
                ended.unwrap_or_else(|_| Ended::GivenUp(GIVEN_UP.to_owned()))
            }
        };
        self.shared.present.fetch_sub(1, Ordering::Relaxed);
        let mut report = speaker.report();
        let lost = match self.shared.judgement {
            Judgement::Strict => 0,
            Judgement::FaultsExpected => {
                excuse(&mut report, &ended, comes_back, speaker.open_sentences() as u64)
            }
        };
        self.shared.told().add(&report, lost);
        match ended {
            Ended::Finished => Ok(()),
            Ended::GivenUp(why) => Err(why),
        }
    }
}

/// Takes out of the report what this client could not have got back; how many sentences those are.
fn excuse(report: &mut Report, ended: &Ended, comes_back: bool, open: u64) -> u64 {
    match ended {
        // Nothing may go down with the session of one that comes back.
        Ended::Finished if comes_back => 0,
        Ended::Finished => {
            // A drain cuts what such a client is saying, and it says it again elsewhere.
            report.counts.remove(&Kind::Split);
            report.counts.remove(&Kind::Abandoned).unwrap_or(0)
        }
        // It was sent away or tried in vain: what was open it knows.
        Ended::GivenUp(_) => {
            let abandoned = report.counts.remove(&Kind::Abandoned).unwrap_or(0);
            report.counts.clear();
            abandoned + open
        }
    }
}

/// Waits until it is time; also when nobody is left to say so.
async fn told_to_leave(leave: &mut watch::Receiver<Option<Leave>>) -> Leave {
    let told = leave.wait_for(Option::is_some).await.ok().and_then(|leave| *leave);
    told.unwrap_or(Leave { after_sentence: false, limit: Duration::ZERO })
}

/// Without what differs from speaker to speaker.
fn reason(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ConnectError>() {
        Some(refused) => refused.to_string(),
        None => error.root_cause().to_string(),
    }
}

impl CrowdReport {
    fn add(&mut self, report: &Report, unrecoverable: u64) {
        self.opened += 1;
        self.report.add(report);
        self.unrecoverable += unrecoverable;
    }

    fn fail(&mut self, why: String) {
        *self.failed.entry(why).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met() -> Report {
        let counts = [(Kind::Abandoned, 2), (Kind::Split, 1), (Kind::Doubled, 1)];
        Report { counts: counts.into(), ..Report::default() }
    }

    #[test]
    fn only_what_a_client_cannot_get_back_is_excused() {
        let (mut comes_back, mut existing, mut given_up) = (met(), met(), met());
        assert_eq!(excuse(&mut comes_back, &Ended::Finished, true, 0), 0);
        assert_eq!(comes_back, met());
        assert_eq!(excuse(&mut existing, &Ended::Finished, false, 0), 2);
        assert_eq!(existing.counts, [(Kind::Doubled, 1)].into());
        let gone = Ended::GivenUp("sent away".to_owned());
        assert_eq!(excuse(&mut given_up, &gone, true, 3), 5);
        assert!(given_up.is_clean());
    }

    #[tokio::test]
    async fn a_conversation_that_cannot_be_begun_is_counted_by_its_reason() {
        let nobody = SpeakerOptions::new("ws://127.0.0.1:9/ws/session");
        let conversation = Conversation {
            begin_after: Duration::ZERO,
            speaker: nobody,
            script: Script::random(1, 1),
        };
        let seats = [conversation.clone().alone(), conversation.alone()];
        let mut crowd = Crowd::start(seats, &Meter::default(), Judgement::Strict);
        while crowd.seats.join_next().await.is_some() {}
        let told = crowd.finish(Duration::from_secs(1)).await;
        assert_eq!(told.failed.values().copied().collect::<Vec<_>>(), [2], "{told:?}");
        assert_eq!(told.opened, 0);
    }
}
