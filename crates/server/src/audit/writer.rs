//! The thread that writes. It alone waits for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use lingua_engine::Engine;
use parking_lot::Mutex;

use super::ledger::Ledger;
use super::line::Event;

/// Events in line.
const IN_LINE: usize = 1_024;

/// Lines that are written at once.
const BATCH: usize = 256;

/// How long what is written may be in the kernel alone.
const SYNC_EVERY_MS: u64 = 1_000;
const SYNC_EVERY: Duration = Duration::from_millis(SYNC_EVERY_MS);

/// How long the end waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(3);

/// Its end that others hold.
pub(super) struct Writer {
    line: SyncSender<Command>,
    shared: Arc<Shared>,
    engine: Engine,
    ended: Mutex<Receiver<()>>,
}

enum Command {
    Tell(Box<Event>),
    /// Look what is wanted.
    Wake,
}

#[derive(Default)]
struct Shared {
    /// Events that are in no line.
    lost: AtomicU64,
    reopen: AtomicBool,
    ending: AtomicBool,
}

impl Writer {
    pub(super) fn start(ledger: Ledger, engine: Engine) -> Self {
        let (line, commands) = sync_channel(IN_LINE);
        let (end, ended) = sync_channel(1);
        let shared = Arc::<Shared>::default();
        let pen = Pen { ledger, engine: engine.clone(), shared: Arc::clone(&shared), fails: false };
        std::thread::spawn(move || {
            pen.write(&commands);
            // Nobody need wait for it.
            let _ = end.send(());
        });
        Writer { line, shared, engine, ended: Mutex::new(ended) }
    }

    /// Hands an event over. If there is no room, it is counted as lost.
    pub(super) fn tell(&self, event: Event) {
        if self.line.try_send(Command::Tell(Box::new(event))).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            self.engine.metrics().audit_lines("lost", 1);
        }
    }

    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn end(&self) {
        self.shared.ending.store(true, Ordering::Release);
        self.wake();
        if self.ended.lock().recv_timeout(PATIENCE).is_err() {
            tracing::warn!("the last lines of the audit log are not written");
        }
    }

    fn wake(&self) {
        // A line that is full keeps it awake.
        let _ = self.line.try_send(Command::Wake);
    }
}

/// The thread's own.
struct Pen {
    ledger: Ledger,
    engine: Engine,
    shared: Arc<Shared>,
    /// The disk took nothing the last time.
    fails: bool,
}

impl Pen {
    fn write(mut self, commands: &Receiver<Command>) {
        let mut unsynced_since = None;
        loop {
            let first = match commands.recv_timeout(SYNC_EVERY) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // Asked before the line is emptied: what was told before the end is written.
            let ending = self.shared.ending.load(Ordering::Acquire);
            let most = if ending { IN_LINE } else { BATCH };
            let commands = first.into_iter().chain(commands.try_iter()).take(most);
            let events: Vec<Event> = commands.filter_map(event).collect();
            // Asked after it: what was told after the wish goes into the new file.
            if self.shared.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            if !events.is_empty() {
                self.add(&events);
                unsynced_since.get_or_insert_with(|| self.engine.now_ms());
            }
            let due = |since| self.engine.now_ms().saturating_sub(since) >= SYNC_EVERY_MS;
            if unsynced_since.is_some_and(due) {
                self.ledger.sync();
                unsynced_since = None;
            }
            if ending {
                break;
            }
        }
        self.ledger.sync();
    }

    fn add(&mut self, events: &[Event]) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        let count = events.len() as u64;
        match self.ledger.write(events, lost) {
            Ok(()) => {
                self.engine.metrics().audit_lines("written", count);
                if std::mem::take(&mut self.fails) {
                    tracing::warn!(lost, "the audit log is written again");
                }
            }
            Err(error) => {
                self.shared.lost.fetch_add(lost + count, Ordering::Relaxed);
                self.engine.metrics().audit_lines("lost", count);
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::error!(%error, "the audit log cannot be written; lines are lost");
                }
            }
        }
    }

    fn reopen(&mut self) {
        match self.ledger.reopen(self.engine.now_ms()) {
            Ok(true) => {
                self.engine.metrics().audit_lines("written", 1);
                tracing::info!("the audit log goes on in a new file");
            }
            Ok(false) => {}
            Err(error) => tracing::error!(error, "the audit log could not begin a new file"),
        }
    }
}

fn event(command: Command) -> Option<Event> {
    match command {
        Command::Tell(event) => Some(*event),
        Command::Wake => None,
    }
}
