//! A simulated speaker over the real socket: the client's end of `/ws/session`.
//!
//! [`Speaker::connect`] makes one that does nothing but what its test tells it; [`AutoSpeaker`] is
//! one that speaks a [`Script`] by itself, obeys the scheduler and comes back when it is cut off.
//! Both follow with a [`Checker`] whether everything they said came back once, whole and in order.
//! They share no code with the scheduler, so that a mistake in the one is not repeated in the other.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use lingua_lab::{Speaker, SpeakerOptions, speech::Mark};
//!
//! let mut speaker = Speaker::connect(SpeakerOptions::new("ws://127.0.0.1:5010/ws/session")).await?;
//! speaker.marked_sentence(Mark { speaker: 1, sentence: 0 }, 2_000).await?;
//! let ending = speaker.ending().await?;
//! assert_eq!(ending.index(), Some(0));
//! speaker.abort().await; // and back, as after a lost network
//! assert_eq!(speaker.resume().await?.recovered, Some(true));
//! speaker.report().ensure_clean()?;
//! # Ok(()) }
//! ```
//!
//! In reading order: `options` says what a speaker is, `wire` how speech goes over the wire, `voice`
//! what it knows of its session, `session` what it says and hears of it, `event`, [`check`] and `report` what it makes of the answers, `carrier` owns
//! its connection, `saying` and `hearing` are what a test can do with it, `script` and `auto` the one
//! that speaks by itself, [`sockets`] what thousands of them need.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod auto;
mod carrier;
pub mod check;
mod event;
mod hearing;
mod options;
mod report;
mod saying;
mod script;
mod session;
pub mod sockets;
mod voice;
mod wire;

pub use auto::{AutoSpeaker, Ended, Happening};
pub use check::{Answered, Checker};
pub use event::Event;
pub use hearing::Received;
pub use options::{SUPPORTS, SpeakerOptions};
pub use report::{Kind, Report};
pub use script::{Pace, Script, Sentence, Sentences};
pub use voice::SessionAck;

use carrier::{Arrived, Line};
use session::Session;
use voice::Continuing;

use crate::closed::Closed;
use crate::link::{Dial, Link};

/// A speaker that says what its test says and hands it everything that it is told. It answers pings
/// by itself, and nothing else. Dropping it is sudden: the connection ends without a close.
#[derive(Debug)]
pub struct Speaker {
    options: SpeakerOptions,
    ack: Option<SessionAck>,
    session: Arc<Mutex<Session>>,
    lines: mpsc::Sender<Line>,
    arrived: mpsc::Receiver<Arrived>,
    ended: watch::Receiver<Option<Closed>>,
    task: JoinHandle<()>,
}

impl Speaker {
    /// Connects and opens a session. A refusal is a [`crate::ConnectError`].
    pub async fn connect(options: SpeakerOptions) -> anyhow::Result<Self> {
        let mut speaker = Self::unopened_with(options).await?;
        speaker.open().await?;
        Ok(speaker)
    }

    /// Connects and leaves even the `session_init` to its test.
    pub async fn unopened(url: impl Into<String>) -> anyhow::Result<Self> {
        Self::unopened_with(SpeakerOptions::new(url)).await
    }

    /// The same with these options.
    pub async fn unopened_with(options: SpeakerOptions) -> anyhow::Result<Self> {
        let session = Arc::new(Mutex::new(Session::new(&options)));
        Self::dial(options, session).await
    }

    /// Opens a session on a connection that has none.
    pub async fn open(&mut self) -> anyhow::Result<&SessionAck> {
        self.init(None, true).await
    }

    /// Comes back on a new connection, whatever became of the old one, with the resume token and the
    /// last ending seen; if the session goes on, what was not acknowledged is sent again.
    pub async fn resume(&mut self) -> anyhow::Result<&SessionAck> {
        self.come_back(true).await
    }

    /// The same without sending anything again.
    pub async fn resume_silently(&mut self) -> anyhow::Result<&SessionAck> {
        self.come_back(false).await
    }

    /// A second connection for the same session, while the first one stays.
    pub async fn second(&self) -> anyhow::Result<Self> {
        let continuing = self.continuing()?;
        let mut second = Self::dial(self.options.clone(), Arc::clone(&self.session)).await?;
        second.init(Some(&continuing), true).await?;
        Ok(second)
    }

    /// How it connects and opens; changes count from the next time.
    pub fn options_mut(&mut self) -> &mut SpeakerOptions {
        &mut self.options
    }

    /// The answer to the `session_init`.
    ///
    /// # Panics
    /// Before there was one.
    pub fn ack(&self) -> &SessionAck {
        self.ack.as_ref().expect("the session is open")
    }

    /// The session's name; empty before it is open.
    pub fn session_id(&self) -> &str {
        self.ack.as_ref().map_or("", |ack| &ack.session_id)
    }

    /// What it made of the answers so far; what has not come back by now counts as lost.
    pub fn report(&self) -> Report {
        self.session().checker.report()
    }

    /// What happened, oldest first; empty without [`SpeakerOptions::log_capacity`].
    pub fn log(&self) -> Vec<(u64, Event)> {
        self.session().log()
    }

    /// Sentences that were said and have not ended.
    pub fn open_sentences(&self) -> usize {
        self.session().checker.open()
    }

    /// Pieces of speech that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.session().voice.kept()
    }

    /// Pieces that were forgotten unacknowledged, for want of [`SpeakerOptions::keep_bytes`].
    pub fn forgotten(&self) -> u64 {
        self.session().voice.forgotten()
    }

    /// Says goodbye with that code and reason, and waits a moment for the scheduler to say it too.
    pub async fn close(&self, code: u16, reason: &str) -> anyhow::Result<Closed> {
        // Fails if the connection has ended, and then there is nothing to close.
        let _ = self.lines.send(Line::Close(code, reason.to_owned())).await;
        self.closed().await
    }

    /// Waits, within [`SpeakerOptions::patience`], until the connection has ended, and says how.
    pub async fn closed(&self) -> anyhow::Result<Closed> {
        self.closed_within(self.options.patience).await
    }

    /// The same within that time.
    pub async fn closed_within(&self, limit: Duration) -> anyhow::Result<Closed> {
        let mut ended = self.ended.clone();
        let closed = timeout(limit, ended.wait_for(Option::is_some)).await;
        let closed = closed.with_context(|| format!("{}: open after {limit:?}", self.name()))?;
        Ok(closed.as_deref().ok().cloned().flatten().unwrap_or_default())
    }

    /// Whether the connection is open.
    pub fn is_connected(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Ends the connection at once, without a close. What it knows stays, so it can come back.
    pub async fn abort(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// The same with a reset instead of an end of the stream.
    pub async fn reset(&mut self) {
        let _ = self.lines.send(Line::Reset).await;
        let _ = self.closed().await;
    }

    async fn come_back(&mut self, resend: bool) -> anyhow::Result<&SessionAck> {
        let continuing = self.continuing()?;
        self.task.abort();
        let again = Self::dial(self.options.clone(), Arc::clone(&self.session)).await?;
        *self = again;
        self.init(Some(&continuing), resend).await
    }

    fn continuing(&self) -> anyhow::Result<Continuing> {
        self.session().voice.continuing().context("the scheduler gave no resume token")
    }

    async fn dial(options: SpeakerOptions, session: Arc<Mutex<Session>>) -> anyhow::Result<Self> {
        let link = dial(&options).await?;
        let (lines, arrived, ended, task) = carrier::start(link, Arc::clone(&session));
        Ok(Self { options, ack: None, session, lines, arrived, ended, task })
    }

    async fn init(
        &mut self,
        continuing: Option<&Continuing>,
        resend: bool,
    ) -> anyhow::Result<&SessionAck> {
        // A connection that was closed at once still says why.
        let sent = self.send(self.options.init(continuing)).await;
        let answer = self.answer().await.context("the session_init")?;
        sent?;
        let ack = SessionAck::read(answer)?;
        let again = self.session().opened(&ack);
        if resend {
            self.write(again).await?;
        }
        Ok(self.ack.insert(ack))
    }

    /// The answer to the `session_init`; a close instead has a code to tell.
    async fn answer(&mut self) -> anyhow::Result<Value> {
        match self.arrival(self.options.patience).await? {
            Arrived::Message(received) => Ok(received.message),
            Arrived::Other(what) => bail!("{what} came instead of an answer"),
            Arrived::Ended(closed) => Err(crate::ConnectError::Closed(closed).into()),
        }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.session)
    }

    fn name(&self) -> String {
        format!("speaker {:?}", self.session_id())
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects, without a word.
async fn dial(options: &SpeakerOptions) -> anyhow::Result<Link> {
    let page = options.page.iter().map(|page| ("origin".to_owned(), page.clone()));
    let headers: Vec<_> = options.headers.iter().cloned().chain(page).collect();
    let to = Dial {
        url: &options.url,
        headers: &headers,
        from: options.from,
        tls: options.tls.as_ref(),
        read_buffer_bytes: options.read_buffer_bytes,
    };
    Link::dial(&to).await.context("a speaker does not connect")
}
