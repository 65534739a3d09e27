//! What an instance knows of a session without asking it, and how it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lingua_core::planted::{self, Flaw};
use lingua_core::session::Routes;
use lingua_core::{JobId, SessionKey};

use super::commands::{Attach, CommandSender, SessionCommand};
use super::inbound::Opening;
use super::options::SpeechOptions;
use crate::job::Ended;

/// For a session to handle a command. It handles commands whenever its connection takes what it sends, and
/// a connection that does not is given up within that time.
const HEAR_WITHIN: Duration = Duration::from_secs(5);

/// A session of this instance.
pub struct SessionHandle {
    /// Tenant and session id.
    pub key: SessionKey,
    commands: CommandSender,
    /// It is in the store's table of owners.
    pub(super) owned: bool,
    epoch: AtomicU64,
    former: AtomicU64,
    /// The newest epoch that this instance claimed for it, which its connection may not have yet.
    claimed: AtomicU64,
    /// Claims under way at this moment.
    claiming: AtomicUsize,
    connected: AtomicBool,
    /// The store did not answer when it was last saved.
    unsaved: AtomicBool,
    utterances: AtomicU64,
    /// When it came to this instance, in epoch milliseconds.
    pub since_ms: u64,
    /// With which options it was opened.
    options: Arc<SpeechOptions>,
    /// Whose it is among those of its tenant.
    pub(super) subject: Option<Arc<str>>,
}

impl SessionHandle {
    /// Of a session that has no epoch yet.
    pub(super) fn new(
        key: SessionKey,
        commands: CommandSender,
        owned: bool,
        since_ms: u64,
        opening: &Opening,
    ) -> Self {
        SessionHandle {
            key,
            commands,
            owned,
            epoch: AtomicU64::new(0),
            former: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            claiming: AtomicUsize::new(0),
            connected: AtomicBool::new(true),
            unsaved: AtomicBool::new(false),
            utterances: AtomicU64::new(0),
            since_ms,
            options: Arc::clone(&opening.options),
            subject: opening.subject.clone(),
        }
    }

    /// The directions it was opened with.
    pub fn routes(&self) -> &Routes {
        &self.options.routes
    }

    /// Where it receives commands.
    pub(super) fn commands(&self) -> CommandSender {
        self.commands.clone()
    }

    /// One of its jobs is over elsewhere; gives the ending back if the session is over. One that is
    /// busy is waited for.
    pub(super) async fn job_ended(&self, job: JobId, ended: Ended) -> Result<(), Ended> {
        let command = Box::new(SessionCommand::Ended(job, ended));
        let within = match planted::on(Flaw::FullQueueTakenForGone) {
            true => Duration::ZERO,
            false => HEAR_WITHIN,
        };
        let sent = self.commands.send_timeout(command, within).await;
        sent.map_err(|back| match *back.into_inner() {
            SessionCommand::Ended(_, ended) => ended,
            _ => unreachable!("it is what was sent"),
        })
    }

    /// Its client is back; gives it back if the session is over or does not answer.
    pub(super) async fn attach(&self, attach: Attach) -> Result<(), Attach> {
        let command = Box::new(SessionCommand::Attach(attach));
        let sent = self.commands.send_timeout(command, HEAR_WITHIN).await;
        sent.map_err(|error| match *error.into_inner() {
            SessionCommand::Attach(attach) => attach,
            _ => unreachable!("it is what was sent"),
        })
    }

    /// Another instance has it. If its queue is full, the next renewal tells it again.
    pub(super) fn superseded(&self) {
        let _ = self.commands.try_send(Box::new(SessionCommand::Superseded));
    }

    /// Another instance has it; waits until its task is gone.
    pub(super) async fn superseded_and_gone(&self) {
        let _ = self.commands.send(Box::new(SessionCommand::Superseded)).await;
        self.commands.closed().await;
    }

    /// This instance goes away.
    pub(super) async fn drain(&self) {
        let _ = self.commands.send_timeout(Box::new(SessionCommand::Drain), HEAR_WITHIN).await;
    }

    /// Ends it by an administrator's wish: what is open is cancelled, and its client is told not to come
    /// back. Returns whether it heard.
    pub async fn disconnect(&self) -> bool {
        self.commands.send_timeout(Box::new(SessionCommand::Disconnect), HEAR_WITHIN).await.is_ok()
    }

    /// This instance waits no longer.
    pub(super) fn abandon(&self) {
        let _ = self.commands.try_send(Box::new(SessionCommand::Abandon));
    }

    /// Without a claim under way: the newest epoch that this instance claimed for it, if it goes on with an older one
    /// because the answer was lost.
    pub(super) fn lost_claim(&self) -> Option<u64> {
        if self.claiming.load(Ordering::Acquire) > 0 {
            return None;
        }
        Some(self.claimed.load(Ordering::Relaxed)).filter(|claimed| *claimed > self.epoch())
    }

    /// It has this epoch from now on. If its queue is full, the next renewal tells it again.
    pub(super) fn raise_epoch(&self, epoch: u64) {
        let _ = self.commands.try_send(Box::new(SessionCommand::EpochRaised(epoch)));
    }

    /// The store may have lost what the next owner needs.
    pub(super) fn save_again(&self) {
        let _ = self.commands.try_send(Box::new(SessionCommand::SaveAgain));
    }

    /// It was not saved, and is to be when the store answers.
    pub(super) fn set_unsaved(&self) {
        self.unsaved.store(true, Ordering::Relaxed);
    }

    /// Whether it was not saved when it wanted to be.
    pub(super) fn take_unsaved(&self) -> bool {
        self.unsaved.swap(false, Ordering::Relaxed)
    }

    /// It has another connection, of this epoch.
    pub(super) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Its client came back with the token of this epoch: of an earlier one it has no honest token any more. It
    /// may have no newer one either, however often it tries: an answer may not have reached it.
    pub(super) fn set_former(&self, named: u64) {
        self.former.store(named, Ordering::Relaxed);
    }

    /// The epoch of the oldest token that its client may come back with; zero if it never came back.
    pub(super) fn former(&self) -> u64 {
        self.former.load(Ordering::Relaxed)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether this instance itself claimed this epoch for it, or may have. If it did not, the next renewal
    /// finds out.
    pub(crate) fn is_ours(&self, epoch: u64) -> bool {
        // In this order: a claim notes what it got before it is over.
        self.claiming.load(Ordering::Acquire) > 0 || epoch <= self.claimed.load(Ordering::Relaxed)
    }

    /// While an epoch is claimed, a newer one in the store is no sign of another owner.
    pub(super) fn begin_claim(&self) -> Claim<'_> {
        self.claiming.fetch_add(1, Ordering::Relaxed);
        Claim(self)
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    pub(super) fn count_utterance(&self) {
        self.utterances.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether its client is there.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Utterances so far.
    pub fn utterances(&self) -> u64 {
        self.utterances.load(Ordering::Relaxed)
    }
}

/// An epoch is being claimed until this is dropped.
pub(super) struct Claim<'a>(&'a SessionHandle);

impl Claim<'_> {
    /// This is what it got.
    pub(super) fn got(&self, epoch: u64) {
        self.0.claimed.fetch_max(epoch, Ordering::Relaxed);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.claiming.fetch_sub(1, Ordering::Release);
    }
}
