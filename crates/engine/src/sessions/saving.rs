//! How far the store knows a session: what is saved, and what may be acknowledged because of it.

use futures_util::FutureExt;
use lingua_core::planted::{self, Flaw};
use lingua_core::session::Event;

use super::actor::{Actor, Leaving};
use super::commands::{SaveOutcome, SessionCommand};
use super::open_job::OpenJob;
use super::outbound::ToClient;
use super::saved_state::{self, SavedJob};
use crate::tasks;

/// How far the store knows what the next owner would need.
#[derive(Default)]
pub(super) struct Saving {
    /// Up to here the client may be told that its speech is safe, once it is saved.
    acked: Option<u32>,
    /// Up to here it was told.
    pub told: Option<u32>,
    write: Write,
    /// Something changed since the last write.
    pub wanted: bool,
}

/// Of what the next owner needs, to the store.
#[derive(Default)]
enum Write {
    #[default]
    Idle,
    /// With the last piece of speech that it makes safe, if there is one.
    UnderWay(Option<u32>),
}

impl Actor {
    /// What the next owner needs, as the store keeps it.
    pub(super) fn saved_state(&self) -> Vec<u8> {
        let jobs: Vec<SavedJob> =
            self.open.iter().filter(|open| !open.over).map(OpenJob::saved).collect();
        let (former, clocks) = (self.handle.former(), self.service.clocks());
        saved_state::write(&self.machine.saved(), former, &self.trace_id, &jobs, clocks)
    }

    /// The client's speech is safe up to here, once the store knows.
    pub(super) fn acknowledge(&mut self, seq: u32) {
        if planted::on(Flaw::AckedBeforeSaved) {
            self.send_ack(Some(seq));
        }
        self.saving.acked = Some(seq);
        self.saving.wanted = true;
        self.save();
    }

    /// The store has a newer epoch of this instance's, and takes no other.
    pub(super) fn raise_epoch(&mut self, epoch: u64) {
        if epoch > self.machine.epoch() {
            self.handle.set_epoch(epoch);
            self.feed(Event::EpochRaised { epoch });
            self.save_now();
        }
    }

    /// Writes all of it again.
    pub(super) fn save_now(&mut self) {
        self.saving.wanted = true;
        self.save();
    }

    /// Brings the store up to date, one write at a time.
    pub(super) fn save(&mut self) {
        if !self.supports.resume {
            self.send_ack(self.saving.acked);
            return;
        }
        if matches!(self.saving.write, Write::UnderWay(_)) || self.machine.is_closed() {
            return;
        }
        if !std::mem::take(&mut self.saving.wanted) {
            return;
        }
        self.saving.write = Write::UnderWay(self.saving.acked);
        let (bytes, epoch) = (self.saved_state(), self.machine.epoch());
        let mut write = Box::pin(self.service.clone().save(self.handle.key.clone(), epoch, bytes));
        // The embedded store answers at once, and most others soon.
        match (&mut write).now_or_never() {
            Some(outcome) => self.on_saved(outcome),
            None => {
                let commands = self.commands.clone();
                tasks::start(async move {
                    let outcome = write.await;
                    let _ = commands.send(Box::new(SessionCommand::Saved(outcome))).await;
                });
            }
        }
    }

    pub(super) fn on_saved(&mut self, outcome: SaveOutcome) {
        let Write::UnderWay(acked) = std::mem::take(&mut self.saving.write) else { return };
        match outcome {
            SaveOutcome::Done => self.send_ack(acked),
            // Of a connection of our own that is on its way here: saved again as soon as it is there.
            SaveOutcome::Stale { epoch } if self.handle.is_ours(epoch) => {
                self.saving.wanted = true;
                if self.machine.epoch() < epoch {
                    return;
                }
            }
            SaveOutcome::Stale { .. } => self.leaving = Some(Leaving::Superseded),
            // Tried again when the store is back, or with the next change.
            SaveOutcome::Failed => return self.handle.set_unsaved(),
        }
        self.save();
    }

    /// On a new connection, which the last acknowledgement may not have reached.
    pub(super) fn send_ack_again(&mut self) {
        if let Some(seq) = self.saving.told.filter(|_| self.supports.audio_ack) {
            self.send(ToClient::AudioAck { seq });
        }
    }

    /// Notes that the client is told by another message that its speech is safe up to here.
    pub(super) fn acked_to(&mut self, seq: u32) {
        self.saving.told = self.saving.told.max(Some(seq));
    }

    fn send_ack(&mut self, acked: Option<u32>) {
        if self.supports.audio_ack
            && let Some(seq) = acked.filter(|seq| Some(*seq) > self.saving.told)
        {
            self.saving.told = acked;
            self.send(ToClient::AudioAck { seq });
        }
    }
}
