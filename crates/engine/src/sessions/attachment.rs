//! The client's connection: one is lost, another is attached.

use lingua_core::session::{Event, LastSeen};
use lingua_protocol::close;

use super::actor::Actor;
use super::commands::Attach;
use super::connection::CloseReason;
use super::inbound::Resume;
use crate::tasks;

impl Actor {
    pub(super) fn on_closed(&mut self, reason: CloseReason) {
        tracing::debug!(session.id = %self.handle.key.session(), reason = reason.text, "a session's connection ends");
        self.detach(reason);
        self.abandon_joining();
        self.feed(Event::Disconnected { epoch: self.machine.epoch() });
    }

    /// Closes the connection, by a task of its own: that may take a moment, and the session goes on.
    fn detach(&mut self, reason: CloseReason) {
        if let Some(connection) = self.connection.take() {
            tasks::start(connection.close(reason));
        }
        self.handle.set_connected(false);
    }

    /// The client is back on another connection, which alone counts from now on.
    pub(super) fn attach(&mut self, attach: Attach) {
        let Attach { connection, opening, epoch } = attach;
        if self.connection.is_some() {
            let text = "a newer connection of this session took over";
            self.detach(CloseReason::new(close::SUPERSEDED, text));
            self.feed(Event::Disconnected { epoch: self.machine.epoch() });
        }
        // Before the connection is there: its first message is the answer to its opening.
        self.supports = opening.supports;
        self.set_options(opening.options);
        self.connection = Some(connection);
        self.handle.set_connected(true);
        self.handle.set_epoch(epoch);
        let last_seen = self.last_seen(opening.resume.as_ref());
        self.feed(Event::Resumed { epoch, last_seen });
        if self.machine.is_closed() {
            return;
        }
        self.saving.wanted = true;
        self.save();
    }

    /// Which endings the client has seen, by our indices.
    fn last_seen(&self, resume: Option<&Resume>) -> LastSeen {
        let Some(resume) = resume else { return LastSeen::default() };
        let index = |seen: u64| self.machine.index_of(seen).unwrap_or(seen);
        let of_target = |(target, seen): &(_, u64)| (*target, index(*seen));
        LastSeen {
            all: resume.last_index.map(index),
            targets: resume.last_indexes.iter().map(of_target).collect(),
        }
    }
}
