//! The servers of the store: one at a time.

use std::sync::Arc;
use std::time::Duration;

use lingua_store::Clock;
use lingua_store::memory::MemoryStore;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The date at the beginning of every world.
pub(crate) const EPOCH_MS: u64 = 1_800_000_000_000;

/// The server that is the store, and how another becomes it.
pub(crate) struct Servers {
    began: Instant,
    current: Mutex<Arc<MemoryStore>>,
}

impl Servers {
    pub fn new() -> Self {
        let store = MemoryStore::new(Clock::showing(EPOCH_MS));
        Servers { began: Instant::now(), current: Mutex::new(Arc::new(store)) }
    }

    pub fn current(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.current.lock())
    }

    /// A server that has what the present one has now and learns nothing more, with a clock of its own.
    pub fn replica(&self, skew_ms: i64) -> Arc<MemoryStore> {
        self.current().fork(self.clock(skew_ms))
    }

    /// A server that knows nothing.
    pub fn empty(&self) -> Arc<MemoryStore> {
        Arc::new(MemoryStore::new(self.clock(0)))
    }

    pub fn promote(&self, server: Arc<MemoryStore>) {
        *self.current.lock() = server;
    }

    /// A clock that is so far off.
    pub fn clock(&self, skew_ms: i64) -> Clock {
        let now = EPOCH_MS + lingua_core::time::millis(self.began.elapsed());
        Clock::showing(now.saturating_add_signed(skew_ms))
    }
}

/// Time that a promoted server takes until it is reached.
pub(crate) const PROMOTION: Duration = Duration::from_millis(300);
