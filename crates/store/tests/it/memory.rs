//! The suite on the embedded store, whose time moves only when a test moves it.

use std::time::Duration;

use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock};

use crate::suite;

pub struct Memory {
    clock: Clock,
    backend: Backend,
}

pub async fn memory() -> anyhow::Result<Memory> {
    let clock = Clock::manual();
    Ok(Memory { backend: MemoryStore::open(clock.clone()), clock })
}

impl suite::StoreUnderTest for Memory {
    fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// Two schedulers in one process hold one embedded store.
    fn second(&self) -> Backend {
        self.backend.clone()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(120)
    }
}

conformance!(crate::memory::memory, model_cases = 500);
