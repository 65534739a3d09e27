//! One conversation: a task that owns its machine, and its client's line while there is one.
//!
//! What the client says is fed to the machine where it is read, what the machine wants is done at
//! once, and nothing here waits for anything but the next event. Answers of the store and news of
//! jobs come through the mailbox.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use lingua_core::Moment;
use lingua_core::outcome::{Code, MissingReason};
use lingua_core::session::{Ending, Event, Ignored, ResultKey, Routes, Session, Timer};
use tokio::time::{Instant, timeout_at};

use super::joining::{Bounds, Joining};
use super::mail::{Attach, JobNews, Letterbox, Mailbox, SaveOutcome, ToSession};
use super::making::{Answer, OpenJob, Sentences};
use super::owning::Left;
use super::saving;
use super::seat::Seat;
use super::shown::Shown;
use super::words::{
    Bye, FromClient, Line, LineEvent, Manner, Opening, Step, Supports, ToClient, Whole,
};
use super::{Handle, Sessions};
use crate::job::{Ended, Refusal};
use crate::tasks;
use crate::trace::{Kind, Live};

/// The task of one conversation.
pub(super) struct Actor {
    pub(super) service: Arc<Sessions>,
    pub(super) handle: Arc<Handle>,
    _seat: Seat,
    pub(super) machine: Session<Answer>,
    pub(super) line: Option<Box<dyn Line>>,
    mailbox: Mailbox,
    pub(super) letterbox: Letterbox,
    pub(super) manner: Arc<Manner>,
    pub(super) supports: Supports,
    pub(super) trace_id: String,
    /// What its client was shown, if it shows every error.
    pub(super) shown: Shown,
    /// Its span, if it is traced.
    pub(super) trace: Option<Box<Live>>,
    /// Of utterances whose endings are not told, by index.
    pub(super) open: VecDeque<OpenJob>,
    pub(super) sentences: Sentences,
    timers: [Option<(u64, Instant)>; 3],
    /// What else is to be fed to the machine.
    pub(super) next: VecDeque<Event<Answer>>,
    /// Whole utterances that are pieces of one, and how long that may become.
    pub(super) joining: Joining,
    pub(super) bounds: Bounds,
    /// The whole utterance that is being fed.
    pub(super) whole: Option<Box<Whole>>,
    saving: Saving,
    leaving: Option<Leaving>,
}

/// How far the store knows what the next owner would need.
#[derive(Default)]
struct Saving {
    /// Up to here the client may be told that its speech is safe, once it is saved.
    acked: Option<u32>,
    told: Option<u32>,
    under_way: Option<Option<u32>>,
    wanted: bool,
}

/// Why the conversation ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The client closed it.
    Asked,
    /// The instance goes away.
    Drain,
    /// The instance waited for long enough.
    GaveUp,
    /// Another instance has it.
    Superseded,
}

impl Actor {
    pub(super) fn new(
        service: Arc<Sessions>,
        mut seat: Seat,
        machine: Session<Answer>,
        opening: &Opening,
        trace_id: String,
    ) -> Self {
        let context = service.shared.settings.sessions;
        let bounds = Bounds::of(machine.settings());
        let handle = Arc::clone(&seat.handle);
        let (mailbox, letterbox) = (seat.take_mailbox(), seat.letterbox());
        let trace =
            service.shared.trace(("session", Kind::Server), opening.traceparent, &handle.key);
        let trace = trace.map(|mut live| {
            live.note("trace_id", trace_id.as_str());
            Box::new(live)
        });
        Actor {
            service,
            handle,
            _seat: seat,
            machine,
            line: None,
            mailbox,
            letterbox,
            manner: Arc::clone(&opening.manner),
            supports: opening.supports,
            trace_id,
            shown: Shown::default(),
            trace,
            open: VecDeque::new(),
            sentences: Sentences::new(context.context_sentences, context.context_chars),
            timers: [None; 3],
            next: VecDeque::new(),
            joining: Joining::default(),
            bounds,
            whole: None,
            saving: Saving::default(),
            leaving: None,
        }
    }

    /// A new conversation on this line.
    pub(super) fn begin(mut self, line: Box<dyn Line>, recovered: Option<bool>) {
        self.line = Some(line);
        self.greet(recovered, self.machine.next_index());
        tasks::start(Box::new(self).run());
    }

    /// A conversation that another instance had, back on this line.
    pub(super) fn take_over(
        mut self,
        jobs: Vec<saving::SavedJob>,
        effects: Vec<lingua_core::session::Effect<Answer>>,
        attach: Attach,
    ) {
        self.saving.told = self.machine.acked_seq();
        self.open.extend(jobs.into_iter().map(|job| OpenJob::inherited(job, &self.machine)));
        let began = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for effect in effects {
                self.perform(effect);
            }
            self.attach(attach);
        }));
        match began {
            Ok(()) => tasks::start(Box::new(self).run()),
            Err(_) => tasks::start(Box::new(self).end(Err(()))),
        }
    }

    /// Boxed, for a task keeps room for everything that it may ever have in hand: the conversation
    /// itself, and once more where it is passed on.
    async fn run(mut self: Box<Self>) {
        let lived = AssertUnwindSafe(self.drive()).catch_unwind().await;
        self.end(lived.map_err(|_| ())).await;
    }

    async fn end(mut self: Box<Self>, lived: Result<Bye, ()>) {
        let left = match (&lived, self.leaving) {
            (_, Some(Leaving::Superseded)) => Left::Taken,
            // Everything is told; the client may go on elsewhere where it was.
            (Ok(_), Some(Leaving::Drain | Leaving::GaveUp)) => Left::State(self.state()),
            _ => Left::Nothing,
        };
        let bye = lived.unwrap_or_else(|()| {
            self.service.shared.metrics.session_panics.inc();
            let session = self.handle.key.session();
            tracing::error!(session.id = %session, "a session ended by a mistake of ours");
            Bye::new(1011, "the scheduler made a mistake with this session")
        });
        if let Some(mut trace) = self.trace.take() {
            trace.note("utterances", self.handle.utterances());
            trace.ends(match self.leaving {
                _ if bye.code == Some(1011) => Code::InternalError.as_str(),
                Some(Leaving::Asked) => "closed",
                Some(Leaving::Drain | Leaving::GaveUp) => "draining",
                Some(Leaving::Superseded) => "superseded",
                None => "gone",
            });
        }
        let taken = left == Left::Taken;
        if taken {
            self.hand_over();
        }
        for open in self.open.iter().filter(|open| !(taken && open.accepted)) {
            open.cancel("session_over");
        }
        self.service.over(&self.handle, left);
        if let Some(line) = self.line.take() {
            // The place is free before the goodbye, which may take a moment.
            drop(self);
            line.end(bye).await;
        }
    }

    /// What came and was not read; nothing more comes.
    pub(super) fn rest_of_mail(&mut self) -> Vec<ToSession> {
        self.mailbox.close();
        std::iter::from_fn(|| self.mailbox.try_recv().ok()).map(|mail| *mail).collect()
    }

    /// What the next owner needs, as the store keeps it.
    fn state(&self) -> Vec<u8> {
        let jobs: Vec<saving::SavedJob> =
            self.open.iter().filter(|open| !open.over).map(OpenJob::saved).collect();
        let (former, clocks) = (self.handle.former(), self.service.clocks());
        saving::write(&self.machine.saved(), former, &self.trace_id, &jobs, clocks)
    }

    async fn drive(&mut self) -> Bye {
        loop {
            if let Some(bye) = self.over() {
                return bye;
            }
            let timers = self.timers.iter().flatten().map(|(_, at)| *at);
            let due = timers.chain(self.joining.due()).min();
            let event = match &mut self.line {
                Some(line) => {
                    line.wake_at(due);
                    poll_fn(|cx| line.poll_event(cx, &mut self.mailbox)).await
                }
                None => next_mail(&mut self.mailbox, due).await,
            };
            match event {
                LineEvent::Said(said) => self.on_said(said),
                LineEvent::Mail(mail) => self.on_mail(*mail),
                LineEvent::Due => self.on_due(),
                LineEvent::Ended(bye) => self.on_line_ended(bye),
            }
        }
    }

    /// How the line ends, once everything has ended.
    fn over(&mut self) -> Option<Bye> {
        if self.leaving == Some(Leaving::Superseded) {
            return Some(Bye::new(4001, "another connection of this session took over"));
        }
        if !self.machine.is_closed() && self.leaving != Some(Leaving::GaveUp) {
            return None;
        }
        Some(match self.leaving {
            Some(Leaving::Asked) => {
                self.tell(ToClient::CloseAck);
                Bye::new(1000, "closed")
            }
            _ => {
                let pause = 200 + self.service.shared.chance.bits() % 1_800;
                Bye::new(1001, format!("{{\"retry_after_ms\":{pause}}}"))
            }
        })
    }

    fn on_said(&mut self, said: FromClient) {
        if said.ends_pieces() {
            self.end_joining();
        }
        match said {
            FromClient::Audio { seq, audio, duration, is_final } => {
                let silent = !self.machine.is_collecting();
                self.feed(Event::Audio { seq, bytes: audio, duration, is_final });
                if silent && self.supports.events && self.machine.is_collecting() {
                    self.input_started();
                }
            }
            FromClient::Utterance(whole) => self.on_utterance(*whole),
            FromClient::Finalize => self.feed(Event::Finalize),
            FromClient::SetLanguages(manner) => {
                self.feed(Event::SetLanguages(Routes::one(manner.route)));
                self.manner = manner;
            }
            FromClient::Cancel { utterance_index } => {
                let index = self.machine.index_of(utterance_index).unwrap_or(utterance_index);
                if self.machine.next_index() <= index {
                    let detail = format!("there is no utterance {utterance_index} to cancel");
                    self.refuse(&Refusal::new(Code::NotFound, detail), &[]);
                } else {
                    self.feed(Event::Cancel { index });
                }
            }
            FromClient::TtsStarted => self.feed(Event::TtsStarted),
            FromClient::TtsPlayEnded => self.feed(Event::TtsPlayEnded),
            FromClient::Close => {
                self.leaving = Some(Leaving::Asked);
                self.feed(Event::Close { finish_pending: true });
            }
        }
    }

    pub(super) fn on_whole(&mut self, whole: Box<Whole>) {
        let event = Event::WholeUtterance {
            client_index: whole.client_index,
            routes: Routes::one(whole.manner.route),
            audio: whole.audio.clone(),
            duration: whole.duration,
            manual_cut: whole.manual_cut,
        };
        self.whole = Some(whole);
        self.feed(event);
        self.whole = None;
    }

    fn on_mail(&mut self, mail: ToSession) {
        match mail {
            ToSession::Job(key, news) => self.on_news(key, news),
            ToSession::Ended(job, ended) => match self.open.iter().find(|open| open.id == job) {
                Some(open) => {
                    let key = open.key;
                    self.on_ended(key, ended);
                }
                None => self.service.shared.metrics.session_ignored("no_job"),
            },
            ToSession::Attach(attach) => self.attach(attach),
            ToSession::Superseded => self.leaving = Some(Leaving::Superseded),
            ToSession::Drain => self.drain(),
            ToSession::GiveUp => self.leaving = Some(Leaving::GaveUp),
            ToSession::SaveAgain => {
                self.saving.wanted = true;
                self.save();
            }
            ToSession::Saved(outcome) => self.on_saved(outcome),
        }
    }

    fn on_news(&mut self, key: ResultKey, news: JobNews) {
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
                let Some(open) = self.open_job(key) else { return };
                let payload = open.answer(body);
                self.feed(Event::Partial { key, attempt, payload });
            }
            JobNews::Ended(ended) => self.on_ended(key, ended),
        }
        self.hand_in_held();
    }

    fn on_ended(&mut self, key: ResultKey, ended: Ended) {
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

    fn on_due(&mut self) {
        let now = Instant::now();
        self.end_joining_if_due(now);
        for (at, timer) in [Timer::Pause, Timer::Deadline, Timer::Resume].into_iter().enumerate() {
            if let Some((generation, _)) = self.timers[at].filter(|(_, due)| *due <= now) {
                self.timers[at] = None;
                self.feed(Event::TimerFired { timer, generation });
            }
        }
    }

    fn on_line_ended(&mut self, bye: Bye) {
        tracing::debug!(session.id = %self.handle.key.session(), reason = bye.reason, "a session's line ends");
        self.drop_line(bye);
        self.abandon_joining();
        self.feed(Event::Disconnected { epoch: self.machine.epoch() });
    }

    /// Lets the line go; its goodbye may take a moment, which the conversation does not.
    fn drop_line(&mut self, bye: Bye) {
        if let Some(line) = self.line.take() {
            tasks::start(line.end(bye));
        }
        self.handle.set_connected(false);
    }

    /// The client is back on another line, whose word counts from now on.
    fn attach(&mut self, attach: Attach) {
        let Attach { line, opening, epoch } = attach;
        if self.line.is_some() {
            self.drop_line(Bye::new(4001, "a newer connection of this session took over"));
            self.feed(Event::Disconnected { epoch: self.machine.epoch() });
        }
        self.line = Some(line);
        self.handle.set_connected(true);
        self.handle.set_epoch(epoch);
        self.supports = opening.supports;
        let last_seen = opening.resume.as_ref().and_then(|resume| resume.last_index);
        let last_seen = last_seen.map(|seen| self.machine.index_of(seen).unwrap_or(seen));
        self.feed(Event::Resumed { epoch, last_seen });
        if self.machine.is_closed() {
            return;
        }
        self.feed(Event::SetLanguages(Routes::one(opening.manner.route)));
        self.manner = opening.manner;
        self.saving.wanted = true;
        self.save();
    }

    fn drain(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(Leaving::Drain);
        }
        let deadline_ms = self.service.shared.settings.drain_ms;
        self.tell(ToClient::GoAway { deadline_ms, reason: "the instance is stopping" });
        self.end_joining();
        self.feed(Event::Drain);
    }

    /// Feeds the machine and does what it wants, until it wants nothing more.
    pub(super) fn feed(&mut self, event: Event<Answer>) {
        self.next.push_back(event);
        while let Some(event) = self.next.pop_front() {
            for effect in self.machine.on_event(self.service.now(), event) {
                self.perform(effect);
            }
        }
    }

    pub(super) fn open_job(&mut self, key: ResultKey) -> Option<&mut OpenJob> {
        find(&mut self.open, key)
    }

    pub(super) fn set_timer(&mut self, timer: Timer, generation: u64, at: Moment) {
        self.timers[timer as usize] = Some((generation, self.service.instant(at)));
    }

    /// The client's speech is safe up to here, once the store knows.
    pub(super) fn acknowledge(&mut self, seq: u32) {
        self.saving.acked = Some(seq);
        self.saving.wanted = true;
        self.save();
    }

    /// What an older line of an ignored event was about.
    pub(super) fn ignored(&self, ignored: Ignored) {
        self.service.shared.metrics.session_ignored(match ignored {
            Ignored::StaleAttempt => "stale_attempt",
            Ignored::LateOrDuplicate => "late",
            Ignored::UnknownKey => "unknown",
            Ignored::StaleEpoch => "stale_epoch",
            Ignored::Closed => "closed",
        });
    }

    /// Brings the store up to date, one write at a time.
    pub(super) fn save(&mut self) {
        if !self.supports.resume {
            self.tell_acked(self.saving.acked);
            return;
        }
        if self.saving.under_way.is_some() || self.machine.is_closed() {
            return;
        }
        if !std::mem::take(&mut self.saving.wanted) {
            return;
        }
        self.saving.under_way = Some(self.saving.acked);
        let (bytes, epoch) = (self.state(), self.machine.epoch());
        let mut write = Box::pin(self.service.clone().save(self.handle.key.clone(), epoch, bytes));
        // The embedded store answers at once, and most others soon.
        match (&mut write).now_or_never() {
            Some(outcome) => self.on_saved(outcome),
            None => {
                let letterbox = self.letterbox.clone();
                tasks::start(async move {
                    let outcome = write.await;
                    let _ = letterbox.send(Box::new(ToSession::Saved(outcome))).await;
                });
            }
        }
    }

    fn on_saved(&mut self, outcome: SaveOutcome) {
        let Some(acked) = self.saving.under_way.take() else { return };
        match outcome {
            SaveOutcome::Done => self.tell_acked(acked),
            // Of a line of our own that is on its way here: saved again as soon as it is there.
            SaveOutcome::Stale { epoch } if self.handle.is_ours(epoch) => {
                self.saving.wanted = true;
                if self.machine.epoch() < epoch {
                    return;
                }
            }
            SaveOutcome::Stale { .. } => self.leaving = Some(Leaving::Superseded),
            // Tried again when the store is back, or with the next word.
            SaveOutcome::Failed => return,
        }
        self.save();
    }

    /// On a new line, which the last acknowledgement may not have reached.
    pub(super) fn tell_acked_again(&mut self) {
        if let Some(seq) = self.saving.told.filter(|_| self.supports.audio_ack) {
            self.tell(ToClient::AudioAck { seq });
        }
    }

    /// Notes that the client is told by another word that its speech is safe up to here.
    pub(super) fn acked_to(&mut self, seq: u32) {
        self.saving.told = self.saving.told.max(Some(seq));
    }

    fn tell_acked(&mut self, acked: Option<u32>) {
        if self.supports.audio_ack
            && let Some(seq) = acked.filter(|seq| Some(*seq) > self.saving.told)
        {
            self.saving.told = acked;
            self.tell(ToClient::AudioAck { seq });
        }
    }
}

async fn next_mail(mailbox: &mut Mailbox, due: Option<Instant>) -> LineEvent {
    let mail = match due {
        Some(due) => timeout_at(due, mailbox.recv()).await,
        None => Ok(mailbox.recv().await),
    };
    match mail {
        Ok(Some(mail)) => LineEvent::Mail(mail),
        Ok(None) => unreachable!("the actor itself holds a sender"),
        Err(_) => LineEvent::Due,
    }
}

fn find(open: &mut VecDeque<OpenJob>, key: ResultKey) -> Option<&mut OpenJob> {
    open.iter_mut().find(|open| open.key == key)
}
