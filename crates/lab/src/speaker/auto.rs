//! The speaker that speaks a script by itself.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::check::{Answered, Event};
use super::report::Report;
use super::script::Script;
use super::session::Session;
use super::{SessionAck, SpeakerOptions, lock};
use crate::closed::Closed;

mod given_up;
mod speaking;
mod worker;

use worker::Worker;

/// A speaker that says its script, obeys the scheduler's wishes to wait, and comes back and resumes
/// when it is cut off. Dropping it is sudden: the connection ends without a close.
#[derive(Debug)]
pub struct AutoSpeaker {
    session: Arc<Mutex<Session>>,
    stopping: watch::Sender<Stop>,
    ended: watch::Receiver<Option<Ended>>,
    task: JoinHandle<()>,
}

/// What it was told about ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Not,
    AfterSentence,
    Now,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It said all it had to say, heard all endings or gave up on them, and closed its session.
    Finished,
    /// The scheduler does not want it back, or it could not come back in time.
    GivenUp(String),
}

/// Something that happens to a speaker, told to whoever watches it.
#[derive(Debug)]
pub enum Happening<'a> {
    /// A connection is open.
    Opened(&'a SessionAck),
    /// A sentence begins.
    Begins,
    /// A sentence was said to its end.
    Said,
    /// A sentence ends with the message that is told next.
    Answered(Answered),
    /// A message came.
    Message(&'a Value),
    /// The connection is gone.
    Lost(&'a Closed),
    /// It could not connect, and will try again.
    NotYet(&'a anyhow::Error),
    /// How late a piece of speech went out after it should have, in microseconds: the load on the
    /// speaker's own machine.
    Late(u64),
}

/// Told what happens, with the time on [`crate::monotonic_us`]. Runs within the speaker's task.
pub(super) type Watcher = Box<dyn FnMut(u64, Happening<'_>) + Send>;

impl AutoSpeaker {
    /// Connects, opens its session and begins. A first connection that fails is an error.
    pub async fn start(options: SpeakerOptions, script: Script) -> anyhow::Result<Self> {
        Self::watched(options, script, |_, _| {}).await
    }

    /// The same, and tells what happens.
    pub async fn watched(
        options: SpeakerOptions,
        script: Script,
        watcher: impl FnMut(u64, Happening<'_>) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let session = Arc::new(Mutex::new(Session::new(&options)));
        let (stopping, stop) = watch::channel(Stop::Not);
        let (ending, ended) = watch::channel(None);
        let mut worker =
            Worker::new(options, script, Arc::clone(&session), stop, Box::new(watcher));
        let link = worker.connect().await?;
        let task = tokio::spawn(async move {
            let how = worker.run(link).await;
            ending.send_replace(Some(how));
        });
        Ok(Self { session, stopping, ended, task })
    }

    /// What it made of the answers so far; what has not come back by now counts as lost.
    pub fn report(&self) -> Report {
        lock(&self.session).checker.report()
    }

    /// What happened, oldest first; empty without [`SpeakerOptions::log_capacity`].
    pub fn log(&self) -> Vec<(u64, Event)> {
        lock(&self.session).log()
    }

    /// Sentences that were said and have not ended.
    pub fn open_sentences(&self) -> usize {
        lock(&self.session).checker.open()
    }

    /// Has it break off the sentence it is in, wait for what is open, and close its session.
    pub fn stop(&self) {
        self.stopping.send_replace(Stop::Now);
    }

    /// The same, but it says its sentence to the end.
    pub fn stop_after_sentence(&self) {
        self.stopping.send_replace(Stop::AfterSentence);
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let how = ended.wait_for(Option::is_some).await;
        let how = how.ok().and_then(|how| how.clone());
        how.unwrap_or_else(|| Ended::GivenUp("its task is gone".to_owned()))
    }

    /// Waits until it has ended, and tells what it made of the answers. Being given up is an error.
    pub async fn finished(self) -> anyhow::Result<Report> {
        match self.ended().await {
            Ended::Finished => Ok(self.report()),
            Ended::GivenUp(why) => anyhow::bail!("the speaker gave up: {why}; {}", self.report()),
        }
    }
}

impl Drop for AutoSpeaker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
