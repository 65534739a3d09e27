//! What a scheduler process is made of, and whether it can take work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lingua_store::{Backend, Status};

/// One scheduler process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    store: Backend,
    draining: Arc<AtomicBool>,
}

/// Whether new work is taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It is.
    Ready,
    /// The process is on its way out.
    Draining,
    /// No dispatch without a confirmed grant: the store must answer first.
    StoreDown {
        /// Why it does not, for people.
        reason: String,
    },
}

impl Engine {
    /// An engine over this store.
    pub fn new(store: Backend) -> Self {
        Engine { store, draining: Arc::default() }
    }

    /// The store it works on.
    pub fn store(&self) -> &Backend {
        &self.store
    }

    /// Whether new work is taken at this moment.
    pub fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) {
            return Readiness::Draining;
        }
        match &*self.store.status.borrow() {
            Status::Up { .. } => Readiness::Ready,
            Status::Down { reason } => Readiness::StoreDown { reason: reason.clone() },
        }
    }

    /// Takes no new work from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use lingua_store::Clock;
    use lingua_store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_draining_engine_is_not_ready() {
        let engine = Engine::new(MemoryStore::open(Clock::manual()));
        assert_eq!(engine.readiness(), Readiness::Ready);
        engine.drain();
        assert_eq!(engine.readiness(), Readiness::Draining);
    }
}
