//! The state machine of one session: `on_event(now, Event) -> Effects`.
//!
//! It decides everything and does nothing: its owner performs the effects and feeds back what
//! comes of them. What it promises, whatever the order of events:
//!
//! - Utterances are numbered 0, 1, 2… in the order in which they are cut, streamed or whole; each
//!   is cut once, and every byte taken is in exactly one of them or in an explicit drop.
//! - Every target of every utterance (a lane) ends exactly once, with a result or an explicit absence, by
//!   the utterance's deadline while the client is connected.
//! - Endings of one target are in the order of the numbers, and so are those of utterances with a single
//!   target, whichever it is. Nothing follows an ending.
//! - Audio is acknowledged only when nodes have it in every target, or when it is over or dropped.
//! - Memory is bounded by the [`Settings`].
//!
//! Time decides, not the order in which timers happen to be handled: before each event everything
//! that was due by `now` is done. So a late timer changes nothing, and a result that comes at its
//! deadline is late even if the timer was not heard yet.
//!
//! In reading order: [`event`] the two closed lists, [`settings`] the bounds, [`speech`] the log of what is
//! said, [`utterance`] what is cut from it, [`routes`] into which languages, `intake` how, `timers` when,
//! `lanes` and `results` the order of endings, [`seen`] what a client knows of them, [`saved`] what another
//! instance needs to go on.

pub mod event;
mod intake;
mod lanes;
mod results;
pub mod routes;
pub mod saved;
pub mod seen;
pub mod settings;
pub mod speech;
mod timers;
pub mod utterance;

use std::collections::VecDeque;
use std::sync::Arc;

pub use event::{
    Delivery, DropReason, Effect, Effects, Ending, Event, Ignored, MissingReason, ResultKey, Timer,
};
pub use routes::{Lane, Routes, RoutesError};
pub use saved::{SavedLane, SavedState, SavedUtterance};
pub use seen::{LastSeen, Span};
pub use settings::{Settings, SettingsError};
pub use speech::{CutReason, SpeechLog};
pub use utterance::Utterance;

use crate::planted::{self, Flaw};
use crate::time::Moment;
use intake::{Chunk, Whole};
use results::Window;
use timers::{PauseClock, Timers};
use utterance::Turns;

/// One conversation. `R` is what nodes answer; it is cloned once to be told again after a resume,
/// so it should be cheap to clone.
pub struct Session<R> {
    settings: Settings,
    /// The latest moment seen; time never runs backwards here.
    now: Moment,
    /// Raised by the owner with every connection.
    epoch: u64,
    phase: Phase,
    /// Somebody is there to be told.
    connected: bool,
    /// The languages of what is said next.
    routes: Routes,
    /// Speech that is not cut yet, and the client's last number before its first piece.
    speech: SpeechLog,
    before_speech: Option<u32>,
    turns: Turns,
    /// The last piece of speech whose number is used up, and the last acknowledged.
    last_seq: Option<u32>,
    acked_seq: Option<u32>,
    /// The client was asked to hold on, and nothing was taken since.
    backpressured: bool,
    /// Whole utterances remembered: the client's number and ours, rising.
    client_indices: VecDeque<(u64, u64)>,
    window: Window<R>,
    timers: Timers,
    pause: PauseClock,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Speech is welcome.
    Open,
    /// The instance goes away; what is open ends.
    Draining,
    /// The conversation is over; what is open ends.
    Closing,
    /// Everything has ended.
    Closed,
}

impl<R: Clone> Session<R> {
    /// A conversation that begins now, connected.
    ///
    /// The names of its turns follow from `turn_seed`, which only the owner should know.
    pub fn new(
        settings: Settings,
        epoch: u64,
        routes: Routes,
        turn_seed: [u8; 16],
        now: Moment,
    ) -> Result<Self, SettingsError> {
        let settings = settings.checked()?;
        Ok(Session {
            now,
            epoch,
            phase: Phase::Open,
            connected: true,
            routes,
            speech: SpeechLog::default(),
            before_speech: None,
            turns: Turns::new(turn_seed),
            last_seq: None,
            acked_seq: None,
            backpressured: false,
            client_indices: VecDeque::new(),
            window: Window::new(&settings),
            timers: Timers::default(),
            pause: PauseClock::new(now),
            settings,
        })
    }

    /// Takes note of an event and says what is to be done, in this order.
    pub fn on_event(&mut self, now: Moment, event: Event<R>) -> Effects<R> {
        self.now = self.now.max(now);
        let mut out = Effects::new();
        self.catch_up(&mut out);
        if let Err(ignored) = self.handle(event, &mut out) {
            out.push(Effect::Ignored(ignored));
        }
        self.settle(&mut out);
        out
    }

    /// The audio and description of an utterance with an open job, for a retry.
    pub fn utterance(&self, index: u64) -> Option<&Arc<Utterance>> {
        self.window.utterance(index)
    }

    /// Our number of a whole utterance of the client, while it is remembered.
    pub fn index_of(&self, client_index: u64) -> Option<u64> {
        let at = self.client_indices.binary_search_by_key(&client_index, |(client, _)| *client);
        at.ok().map(|at| self.client_indices[at].1)
    }

    /// The client's number of an utterance that it sent as a whole, while it is remembered.
    pub fn client_index_of(&self, index: u64) -> Option<u64> {
        let at = self.client_indices.binary_search_by_key(&index, |(_, ours)| *ours);
        at.ok().map(|at| self.client_indices[at].0)
    }

    /// Bytes of speech held, in the buffer and for open jobs.
    pub fn held_bytes(&self) -> usize {
        self.window.held_bytes() + self.speech.bytes()
    }

    /// Utterances whose endings are not all delivered, without the one that is being said.
    pub fn open_utterances(&self) -> usize {
        self.window.len()
    }

    /// Whether there is speech that is not cut yet.
    pub fn is_collecting(&self) -> bool {
        !self.speech.is_empty()
    }

    /// Keeps no more than so many bytes of endings in case the client did not see them.
    pub fn forget_endings_beyond(&mut self, bytes: usize, size: impl Fn(&R) -> usize) {
        self.window.forget_beyond(bytes, size);
    }

    /// Endings that the client may not have seen: those delivered last, and those that wait for one
    /// before them.
    pub fn unseen(&self) -> impl Iterator<Item = (ResultKey, &Ending<R>)> {
        self.window.unseen()
    }

    /// The last piece of speech whose number is used up.
    pub fn last_seq(&self) -> Option<u32> {
        self.last_seq
    }

    /// The last piece of speech that was acknowledged.
    pub fn acked_seq(&self) -> Option<u32> {
        self.acked_seq
    }

    /// The number of the next utterance.
    pub fn next_index(&self) -> u64 {
        self.window.next_index()
    }

    /// The bounds it keeps.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The session's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether [`Effect::Closed`] was said.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    fn handle(&mut self, event: Event<R>, out: &mut Effects<R>) -> Result<(), Ignored> {
        match event {
            Event::Audio { seq, bytes, duration, is_final } => {
                self.on_audio(Chunk { seq, bytes, duration, is_final }, out);
            }
            Event::WholeUtterance { client_index, routes, audio, duration, manual_cut } => {
                self.on_whole(Whole { client_index, routes, audio, duration, manual_cut }, out);
            }
            Event::Finalize if planted::on(Flaw::FinaliseDropped) && self.window.is_waiting() => {
                self.speech = SpeechLog::default();
            }
            Event::Finalize => {
                let index = self.cut(CutReason::Manual, out);
                out.push(Effect::Finalized { index });
            }
            Event::SetLanguages(routes) => {
                if routes != self.routes {
                    self.cut(CutReason::LanguageChange, out);
                    self.routes = routes;
                }
            }
            Event::Cancel { index } => self.window.cancel(index, out)?,
            Event::TtsStarted => self.pause.hold(self.now, self.settings.tts_hold_max),
            Event::TtsPlayEnded => self.pause.release(self.now),
            Event::Assigned { key, attempt, hedge } => self.window.assign(key, attempt, hedge)?,
            Event::NodeAccepted { key, attempt } => self.window.accept(key, attempt)?,
            Event::Partial { key, attempt, payload } => {
                let client_index = self.window.partial(key, attempt)?;
                if self.connected {
                    out.push(Effect::Partial { key, client_index, payload });
                }
            }
            Event::Ended { key, attempt, ending } => self.window.end(key, attempt, ending, out)?,
            Event::TimerFired { timer: Timer::Pause, .. }
                if planted::on(Flaw::StalePauseTimerCuts) =>
            {
                self.cut(CutReason::Pause, out);
            }
            Event::TimerFired { timer, generation } => {
                out.extend(self.timers.fired_early(timer, generation));
            }
            Event::Disconnected { epoch } => self.on_disconnected(epoch, out)?,
            Event::EpochRaised { epoch } if epoch < self.epoch => return Err(Ignored::StaleEpoch),
            Event::EpochRaised { epoch } => self.epoch = epoch,
            Event::Resumed { epoch, last_seen } => self.on_resumed(epoch, &last_seen, out)?,
            Event::Drain => self.drain(out),
            Event::Close { finish_pending } => self.close(finish_pending, out)?,
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut Effects<R>) {
        if self.phase == Phase::Open {
            if self.settings.resume_window.is_zero() {
                self.cut(CutReason::Close, out);
            } else {
                // The client says it again elsewhere, and the sentence stays whole.
                self.release_speech(out);
            }
            self.phase = Phase::Draining;
            self.signal_backpressure(DropReason::Draining, out);
        }
    }

    fn close(&mut self, finish_pending: bool, out: &mut Effects<R>) -> Result<(), Ignored> {
        if self.phase == Phase::Closed {
            return Err(Ignored::Closed);
        }
        if finish_pending {
            self.cut(CutReason::Close, out);
        } else {
            self.abandon_speech(out);
        }
        self.phase = Phase::Closing;
        Ok(())
    }

    fn on_disconnected(&mut self, epoch: u64, out: &mut Effects<R>) -> Result<(), Ignored> {
        if self.phase == Phase::Closed {
            return Err(Ignored::Closed);
        }
        let older = planted::on(Flaw::OlderDisconnectHeard) && epoch < self.epoch;
        if (epoch != self.epoch && !older) || !self.connected {
            return Err(Ignored::StaleEpoch);
        }
        self.detach(out);
        Ok(())
    }

    /// Nobody is there to be told; endings are kept. The pause clock stands still, for a sentence
    /// that the network interrupted goes on after the resume.
    fn detach(&mut self, out: &mut Effects<R>) {
        self.connected = false;
        self.timers.disarm(Timer::Pause);
        if self.settings.resume_window.is_zero() {
            self.abandon(out);
        } else {
            out.push(self.timers.set(Timer::Resume, self.now + self.settings.resume_window));
        }
    }

    /// The client did not come back. What it asked for was cut when it asked; what it left
    /// unfinished is dropped, and open jobs end unheard.
    fn abandon(&mut self, out: &mut Effects<R>) {
        self.abandon_speech(out);
        self.phase = Phase::Closing;
    }

    fn on_resumed(
        &mut self,
        epoch: u64,
        last_seen: &LastSeen,
        out: &mut Effects<R>,
    ) -> Result<(), Ignored> {
        if self.phase == Phase::Closed {
            return Err(Ignored::Closed);
        }
        // An owner that took over has the epoch of its first connection already.
        if epoch < self.epoch || (epoch == self.epoch && self.connected) {
            return Err(Ignored::StaleEpoch);
        }
        self.epoch = epoch;
        self.connected = true;
        self.timers.disarm(Timer::Resume);
        self.pause.restart(self.now);
        let (turns, now) = (&self.turns, self.now);
        let lost = |index| (turns.name(epoch, index), now);
        self.window.note_seen(last_seen, &self.routes, lost, out);
        out.push(Effect::Resumed {
            next_index: self.next_index(),
            audio_ack: self.acked_seq,
            forgotten: self.window.forgotten_after(last_seen, &self.routes),
        });
        self.window.deliver_again(last_seen, out);
        Ok(())
    }

    /// Does what was due by now, whether or not its timer was heard.
    fn catch_up(&mut self, out: &mut Effects<R>) {
        let deadline = self.timers.take_due(Timer::Deadline, self.now);
        let pause = self.timers.take_due(Timer::Pause, self.now);
        let resume = self.timers.take_due(Timer::Resume, self.now);
        if !(deadline || pause || resume) {
            return;
        }
        if deadline {
            self.window.expire(self.now, out);
        }
        if pause && self.awaits_pause() && self.pause.due(self.settings.pause) <= self.now {
            self.cut(CutReason::Pause, out);
        }
        if resume {
            self.abandon(out);
        }
        self.settle(out);
    }

    /// What follows from every event: endings whose turn it is, acknowledgement, timers, the end.
    fn settle(&mut self, out: &mut Effects<R>) {
        if self.phase == Phase::Closed {
            return;
        }
        if self.connected {
            self.window.deliver(self.routes.lanes(), out);
        }
        self.acknowledge(out);
        let over = match (self.connected, self.phase) {
            // What ended while the client is on its way to another instance goes there with it.
            (true, _) | (false, Phase::Draining) => self.window.len() == 0,
            (false, _) => !self.window.is_waiting(),
        };
        if self.phase != Phase::Open && over {
            self.phase = Phase::Closed;
            for timer in [Timer::Pause, Timer::Deadline, Timer::Resume] {
                self.timers.disarm(timer);
            }
            out.push(Effect::Closed);
            return;
        }
        if self.awaits_pause() {
            out.extend(self.timers.at_latest(Timer::Pause, self.pause.due(self.settings.pause)));
        }
        if let Some(deadline) = self.window.next_deadline() {
            out.extend(self.timers.at_latest(Timer::Deadline, deadline));
        }
    }

    /// Whether a pause would end something: speech in the buffer, or a turn that may go on.
    fn awaits_pause(&self) -> bool {
        self.connected
            && self.phase == Phase::Open
            && (!self.speech.is_empty() || self.turns.goes_on())
    }
}
