//! What the store knows of sessions that can be resumed: whose they are, and what the next owner needs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lingua_core::SessionKey;
use lingua_store::nodes::Fenced;
use tokio::time::Instant;

use super::commands::SaveOutcome;
use super::handle::SessionHandle;
use super::{Sessions, saved_state};
use crate::tasks;

/// Renewals under way at the same time.
const RENEWALS: usize = 64;

/// In how many slices of its time all owners are renewed.
const SLICES: u32 = 20;

/// How long it is remembered that a session ended, rather than nothing.
const OVER_FOR: Duration = Duration::from_secs(1);

/// What is saved lasts so much longer than it must, and idle sessions save again before that.
const SAVE_AGAIN: Duration = Duration::from_secs(3_600);

/// What a session leaves in the store when its task ends.
#[derive(PartialEq, Eq)]
pub(crate) enum FinalState {
    /// It is over: nobody is to continue it.
    Over,
    /// What another instance needs to continue it.
    Resumable(Vec<u8>),
    /// Another instance has it already.
    Taken,
}

impl Sessions {
    /// Runs until the engine ends: renews the ownership of every session in its time, and brings it
    /// back when the store comes back.
    pub(crate) async fn keep(self: Arc<Self>) {
        let every = Duration::from_millis(self.shared.settings.timing.owner_renew_ms()) / SLICES;
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut status = self.shared.store.status.clone();
        let mut connection = status.borrow_and_update().connection();
        let mut round: Vec<Arc<SessionHandle>> = Vec::new();
        let (mut slice, mut save_again, mut saved_at) = (0, false, Instant::now());
        loop {
            let again = tokio::select! {
                biased;
                _ = tick.tick() => false,
                changed = status.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let Some(now) = status.borrow_and_update().connection() else { continue };
                    if connection.replace(now) == Some(now) {
                        // An answer that was late on the same connection lost nothing but what was
                        // being written.
                        self.save_what_failed();
                        continue;
                    }
                    true
                }
            };
            if again || round.is_empty() {
                save_again = again || saved_at.elapsed() > SAVE_AGAIN / 2;
                if save_again {
                    saved_at = Instant::now();
                }
                round = self.all();
                round.retain(|handle| handle.owned);
                slice = round.len().div_ceil(SLICES as usize);
            }
            let now = if again { round.len() } else { slice.min(round.len()) };
            let some = round.split_off(round.len() - now);
            futures_util::stream::iter(some)
                .for_each_concurrent(RENEWALS, |handle| self.renew(handle, save_again))
                .await;
        }
    }

    fn save_what_failed(&self) {
        for handle in self.all() {
            if handle.take_unsaved() {
                handle.save_again();
            }
        }
    }

    async fn renew(&self, handle: Arc<SessionHandle>, save_again: bool) {
        let (key, epoch) = (&handle.key, handle.epoch());
        if epoch == 0 {
            // It is about to get its first.
            return;
        }
        let owners = &self.shared.store.owners;
        let mut renewed = owners.renew(key, &self.shared.instance, epoch, self.owner_ttl()).await;
        if let Ok(Fenced::Superseded { epoch: newer }) = renewed {
            match self.is_elsewhere(&handle, newer).await {
                Ok(true) => {
                    tracing::info!(session.id = %key.session(), "another instance has this session");
                    return handle.superseded();
                }
                // A newer epoch of our own, on its way here with a connection, or of a claim whose answer was lost:
                // jobs of the older epoch would all be refused.
                Ok(false) => {
                    if let Some(epoch) = handle.lost_claim() {
                        handle.raise_epoch(epoch);
                    }
                }
                Err(error) => renewed = Err(error),
            }
        }
        match renewed {
            Ok(_) if handle.take_unsaved() || save_again => handle.save_again(),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "an owner is renewed later"),
        }
    }

    pub(crate) async fn save(
        self: Arc<Self>,
        key: SessionKey,
        epoch: u64,
        state: Vec<u8>,
    ) -> SaveOutcome {
        let timing = &self.shared.settings.timing;
        // As long as somebody may come back, counted from the last word of a dead instance.
        let keep = Duration::from_millis(timing.resume_window_ms + timing.deadline_ms) + SAVE_AGAIN;
        match self.shared.store.owners.save(&key, epoch, &state, keep).await {
            Ok(Fenced::Done) => SaveOutcome::Done,
            Ok(Fenced::Superseded { epoch }) => SaveOutcome::Stale { epoch },
            // The store lost the owner; the next renewal brings it back.
            Ok(Fenced::Unknown) => SaveOutcome::Failed,
            Err(error) => {
                tracing::debug!(%error, "a session is saved later");
                SaveOutcome::Failed
            }
        }
    }

    /// A session's task is over; `left` is what the next owner would need, if there may be one.
    pub(crate) fn over(self: &Arc<Self>, handle: &Arc<SessionHandle>, left: FinalState) {
        if left == FinalState::Taken
            || !handle.owned
            || tokio::runtime::Handle::try_current().is_err()
        {
            return;
        }
        let (service, handle) = (Arc::clone(self), Arc::clone(handle));
        tasks::start(async move {
            let (key, epoch, owners) = (&handle.key, handle.epoch(), &service.shared.store.owners);
            // If this fails, the lease lapses by itself.
            let _ = match left {
                FinalState::Resumable(state) => {
                    service.clone().save(key.clone(), epoch, state).await
                }
                _ => {
                    let _ = owners.save(key, epoch, saved_state::OVER, OVER_FOR).await;
                    SaveOutcome::Done
                }
            };
            let _ = owners.release(key, epoch).await;
        });
    }

    pub(super) fn owner_ttl(&self) -> Duration {
        Duration::from_millis(self.shared.settings.timing.owner_ttl_ms)
    }
}
