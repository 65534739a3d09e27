//! One session: a task that owns its machine, and its client's connection while there is one.
//!
//! What the client says is fed to the machine where it is read, what the machine wants is done at
//! once, and nothing here waits for anything but the next event. Answers of the store and news of
//! jobs come as commands.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use lingua_core::Moment;
use lingua_core::outcome::Code;
use lingua_core::session::{Effects, Event, Ignored, ResultKey, Session, Timer};
use lingua_protocol::close;
use tokio::time::{Instant, timeout_at};

use super::commands::{Attach, CommandReceiver, CommandSender, SessionCommand};
use super::connection::{ClientConnection, CloseReason, ConnectionEvent};
use super::context::Context;
use super::error_throttle::ErrorThrottle;
use super::inbound::{FromClient, Opening, Supports, WholeUtterance};
use super::joining::{Bounds, Joining};
use super::open_job::{Answer, OpenJob};
use super::options::SpeechOptions;
use super::outbound::ToClient;
use super::ownership::FinalState;
use super::registry::Registration;
use super::saved_state::SavedJob;
use super::saving::Saving;
use super::{SessionHandle, Sessions};
use crate::job::Refusal;
use crate::tasks;
use crate::trace::{Kind, Live};

/// The task of one session.
pub(super) struct Actor {
    pub(super) service: Arc<Sessions>,
    pub(super) handle: Arc<SessionHandle>,
    _registration: Registration,
    pub(super) machine: Session<Answer>,
    pub(super) connection: Option<Box<dyn ClientConnection>>,
    received: CommandReceiver,
    pub(super) commands: CommandSender,
    pub(super) options: Arc<SpeechOptions>,
    pub(super) supports: Supports,
    pub(super) trace_id: String,
    /// What its client was shown, if it shows every error.
    pub(super) errors: ErrorThrottle,
    /// Its span, if it is traced.
    pub(super) trace: Option<Box<Live>>,
    /// Jobs whose endings are not delivered, by index.
    pub(super) open: VecDeque<OpenJob>,
    pub(super) context: Context,
    timers: [Option<(u64, Instant)>; 3],
    /// What else is to be fed to the machine.
    pub(super) next: VecDeque<Event<Answer>>,
    /// Whole utterances that are pieces of one, and how long that may become.
    pub(super) joining: Joining,
    pub(super) bounds: Bounds,
    /// The whole utterance that is being fed.
    pub(super) whole: Option<Box<WholeUtterance>>,
    pub(super) saving: Saving,
    pub(super) leaving: Option<Leaving>,
}

/// Why the session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The client closed it.
    Asked,
    /// The instance goes away.
    Drain,
    /// The instance waited for long enough.
    GaveUp,
    /// Another instance has it.
    Superseded,
    /// An administrator ended it.
    Disconnected,
}

impl Actor {
    pub(super) fn new(
        service: Arc<Sessions>,
        mut registration: Registration,
        machine: Session<Answer>,
        opening: &Opening,
        trace_id: String,
    ) -> Self {
        let limits = service.shared.settings.sessions;
        let bounds = Bounds::of(machine.settings());
        let handle = Arc::clone(&registration.handle);
        let (received, commands) = (registration.take_commands(), handle.commands());
        let trace =
            service.shared.trace(("session", Kind::Server), opening.traceparent, &handle.key);
        let trace = trace.map(|mut live| {
            live.note("trace_id", trace_id.as_str());
            Box::new(live)
        });
        Actor {
            service,
            handle,
            _registration: registration,
            machine,
            connection: None,
            received,
            commands,
            options: Arc::clone(&opening.options),
            supports: opening.supports,
            trace_id,
            errors: ErrorThrottle::default(),
            trace,
            open: VecDeque::new(),
            context: Context::new(limits.context_sentences, limits.context_chars),
            timers: [None; 3],
            next: VecDeque::new(),
            joining: Joining::default(),
            bounds,
            whole: None,
            saving: Saving::default(),
            leaving: None,
        }
    }

    /// A new session on this connection.
    pub(super) fn begin(mut self, connection: Box<dyn ClientConnection>, recovered: Option<bool>) {
        self.connection = Some(connection);
        self.greet(recovered, self.machine.next_index());
        tasks::start(Box::new(self).run());
    }

    /// A session that another instance had, continued on this connection.
    pub(super) fn take_over(
        mut self,
        jobs: Vec<SavedJob>,
        effects: Effects<Answer>,
        attach: Attach,
    ) {
        self.saving.told = self.machine.acked_seq();
        let partials = self.options.job.enable_streaming_asr.is_on();
        let inherited = |job| OpenJob::inherited(job, &self.machine, partials);
        self.open.extend(jobs.into_iter().map(inherited));
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

    /// Boxed, for a task keeps room for everything that it may ever hold: the session itself, and once
    /// more where it is passed on.
    async fn run(mut self: Box<Self>) {
        let lived = AssertUnwindSafe(self.drive()).catch_unwind().await;
        self.end(lived.map_err(|_| ())).await;
    }

    async fn end(mut self: Box<Self>, lived: Result<CloseReason, ()>) {
        let left = match (&lived, self.leaving) {
            (_, Some(Leaving::Superseded)) => FinalState::Taken,
            // Everything is delivered; the client may continue elsewhere where it was.
            (Ok(_), Some(Leaving::Drain | Leaving::GaveUp)) => {
                FinalState::Resumable(self.saved_state())
            }
            _ => FinalState::Over,
        };
        let reason = lived.unwrap_or_else(|()| {
            self.service.shared.metrics.sessions.session_panics.inc();
            let session = self.handle.key.session();
            tracing::error!(session.id = %session, "a session ended by a panic");
            CloseReason::new(1011, "internal error: this session has ended")
        });
        if let Some(mut trace) = self.trace.take() {
            trace.note("utterances", self.handle.utterances());
            trace.ends(match self.leaving {
                _ if reason.code == Some(1011) => Code::InternalError.as_str(),
                Some(Leaving::Asked) => "closed",
                Some(Leaving::Drain | Leaving::GaveUp) => "draining",
                Some(Leaving::Superseded) => "superseded",
                Some(Leaving::Disconnected) => "disconnected",
                None => "gone",
            });
        }
        let taken = left == FinalState::Taken;
        if taken {
            self.hand_over();
        }
        for open in self.open.iter().filter(|open| !(taken && open.accepted)) {
            open.cancel("session_over");
        }
        self.service.over(&self.handle, left);
        if let Some(connection) = self.connection.take() {
            // The session is unregistered before the close, which may take a moment.
            drop(self);
            connection.close(reason).await;
        }
    }

    /// Commands that came and were not handled; no more come.
    pub(super) fn remaining_commands(&mut self) -> Vec<SessionCommand> {
        self.received.close();
        std::iter::from_fn(|| self.received.try_recv().ok()).map(|command| *command).collect()
    }

    async fn drive(&mut self) -> CloseReason {
        loop {
            if let Some(reason) = self.over() {
                return reason;
            }
            let timers = self.timers.iter().flatten().map(|(_, at)| *at);
            let due = timers.chain(self.joining.due()).min();
            let event = match &mut self.connection {
                Some(connection) => {
                    connection.wake_at(due);
                    poll_fn(|cx| connection.poll_event(cx, &mut self.received)).await
                }
                None => next_command(&mut self.received, due).await,
            };
            match event {
                ConnectionEvent::Message(message) => self.on_message(message),
                ConnectionEvent::Command(command) => self.on_command(*command),
                ConnectionEvent::Due => self.on_due(),
                ConnectionEvent::Closed(reason) => self.on_closed(reason),
            }
        }
    }

    /// How the connection is closed, once everything has ended.
    fn over(&mut self) -> Option<CloseReason> {
        if self.leaving == Some(Leaving::Superseded) {
            return Some(CloseReason::new(
                close::SUPERSEDED,
                "another connection of this session took over",
            ));
        }
        if !self.machine.is_closed() && self.leaving != Some(Leaving::GaveUp) {
            return None;
        }
        Some(match self.leaving {
            Some(Leaving::Asked) => {
                self.send(ToClient::CloseAck);
                CloseReason::new(close::NORMAL, "closed")
            }
            Some(Leaving::Disconnected) => {
                CloseReason::new(close::POLICY, "an administrator disconnected this session")
            }
            _ => {
                let pause = 200 + self.service.shared.chance.bits() % 1_800;
                CloseReason::new(close::GOING_AWAY, format!("{{\"retry_after_ms\":{pause}}}"))
            }
        })
    }

    fn on_message(&mut self, message: FromClient) {
        if message.ends_pieces() {
            self.end_joining();
        }
        match message {
            FromClient::Audio { seq, audio, duration, is_final } => {
                let silent = !self.machine.is_collecting();
                self.feed(Event::Audio { seq, bytes: audio, duration, is_final });
                if silent && self.supports.events && self.machine.is_collecting() {
                    self.input_started();
                }
            }
            FromClient::Utterance(whole) => self.on_utterance(*whole),
            FromClient::Finalize => self.feed(Event::Finalize),
            FromClient::SetLanguages(options) => self.set_options(options),
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

    /// From now on with these options. What was said so far is cut, and worked on with the old ones.
    pub(super) fn set_options(&mut self, options: Arc<SpeechOptions>) {
        self.feed(Event::SetLanguages(options.routes.clone()));
        self.options = options;
    }

    pub(super) fn on_whole(&mut self, whole: Box<WholeUtterance>) {
        let event = Event::WholeUtterance {
            client_index: whole.client_index,
            routes: whole.options.routes.clone(),
            audio: whole.audio.clone(),
            duration: whole.duration,
            manual_cut: whole.manual_cut,
        };
        self.whole = Some(whole);
        self.feed(event);
        self.whole = None;
    }

    fn on_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Job(key, news) => self.on_news(key, news),
            SessionCommand::Ended(job, ended) => match self.open.iter().find(|open| open.id == job)
            {
                Some(open) => {
                    let key = open.key;
                    self.on_ended(key, ended);
                }
                None => self.service.shared.metrics.session_ignored("no_job"),
            },
            SessionCommand::Attach(attach) => self.attach(attach),
            SessionCommand::Superseded => self.leaving = Some(Leaving::Superseded),
            SessionCommand::Disconnect => {
                self.leaving = Some(Leaving::Disconnected);
                self.feed(Event::Close { finish_pending: false });
            }
            SessionCommand::Drain => self.drain(),
            SessionCommand::Abandon => self.leaving = Some(Leaving::GaveUp),
            SessionCommand::EpochRaised(epoch) => self.raise_epoch(epoch),
            SessionCommand::SaveAgain => self.save_now(),
            SessionCommand::Saved(outcome) => self.on_saved(outcome),
        }
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

    fn drain(&mut self) {
        if self.leaving.is_none() {
            self.leaving = Some(Leaving::Drain);
        }
        let deadline_ms = self.service.shared.settings.drain_ms;
        self.send(ToClient::GoAway { deadline_ms, reason: "the instance is stopping" });
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

    /// Counts an event that had no effect.
    pub(super) fn ignored(&self, ignored: Ignored) {
        self.service.shared.metrics.session_ignored(match ignored {
            Ignored::StaleAttempt => "stale_attempt",
            Ignored::LateOrDuplicate => "late",
            Ignored::UnknownKey => "unknown",
            Ignored::StaleEpoch => "stale_epoch",
            Ignored::Closed => "closed",
        });
    }
}

async fn next_command(received: &mut CommandReceiver, due: Option<Instant>) -> ConnectionEvent {
    let command = match due {
        Some(due) => timeout_at(due, received.recv()).await,
        None => Ok(received.recv().await),
    };
    match command {
        Ok(Some(command)) => ConnectionEvent::Command(command),
        Ok(None) => unreachable!("the actor itself holds a sender"),
        Err(_) => ConnectionEvent::Due,
    }
}

fn find(open: &mut VecDeque<OpenJob>, key: ResultKey) -> Option<&mut OpenJob> {
    open.iter_mut().find(|open| open.key == key)
}
