//! What an instance knows of a session without asking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lingua_core::SessionKey;
use lingua_core::eligibility::Route;

use super::mail::Letterbox;
use super::words::Opening;

/// A session of this instance.
pub struct Handle {
    /// Which.
    pub key: SessionKey,
    pub(super) letterbox: Letterbox,
    /// It is in the store's table of owners.
    pub(super) owned: bool,
    epoch: AtomicU64,
    former: AtomicU64,
    /// The newest epoch that this instance got for it, which its line may not have yet.
    claimed: AtomicU64,
    /// How many of its lines ask for one at this moment.
    asking: AtomicUsize,
    connected: AtomicBool,
    utterances: AtomicU64,
    /// When it came to this instance, in epoch milliseconds.
    pub since_ms: u64,
    /// The direction it was opened with.
    pub route: Route,
    /// Whose it is among those of its tenant.
    pub(super) subject: Option<Arc<str>>,
}

impl Handle {
    /// Of a session that has no epoch yet.
    pub(super) fn new(
        key: SessionKey,
        letterbox: Letterbox,
        owned: bool,
        since_ms: u64,
        opening: &Opening,
    ) -> Self {
        Handle {
            key,
            letterbox,
            owned,
            epoch: AtomicU64::new(0),
            former: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            connected: AtomicBool::new(true),
            utterances: AtomicU64::new(0),
            since_ms,
            route: opening.manner.route,
            subject: opening.subject.clone(),
        }
    }

    /// Another line of it: its epoch, and with it the one before.
    pub(super) fn set_epoch(&self, epoch: u64) {
        let former = self.epoch.swap(epoch, Ordering::Relaxed);
        if former != epoch {
            self.former.store(former, Ordering::Relaxed);
        }
    }

    /// The epoch of the line before the present one; zero if there was none.
    pub(super) fn former(&self) -> u64 {
        self.former.load(Ordering::Relaxed)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether this instance itself got this epoch for it, or may have. If it did not, the next renewal
    /// finds out.
    pub(crate) fn is_ours(&self, epoch: u64) -> bool {
        // In this order: who asked has said what it got before it asks no more.
        self.asking.load(Ordering::Acquire) > 0 || epoch <= self.claimed.load(Ordering::Relaxed)
    }

    /// While somebody asks for an epoch, a newer one in the store is no sign of another owner.
    pub(super) fn ask(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(self)
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

/// An epoch is asked for until this is dropped.
pub(super) struct Asking<'a>(&'a Handle);

impl Asking<'_> {
    /// This is what it got.
    pub(super) fn got(&self, epoch: u64) {
        self.0.claimed.fetch_max(epoch, Ordering::Relaxed);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Release);
    }
}
