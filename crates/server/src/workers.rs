//! The threads that connections live on: each has a runtime of its own.
//!
//! A connection stays on its thread, and so do the jobs that came through it, so most wake-ups cross
//! no thread. A runtime whose threads take work from each other costs half as much again per job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// The threads beside the one that accepts.
pub(crate) struct Workers {
    threads: Vec<JoinHandle<()>>,
    end: watch::Sender<bool>,
    places: Places,
}

/// Where connections go, one after the other.
#[derive(Clone)]
pub(crate) struct Places {
    handles: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl Places {
    /// All on the thread that asks.
    pub(crate) fn here() -> Self {
        Places { handles: Arc::from([Handle::current()]), next: Arc::default() }
    }

    /// The thread for the next connection.
    pub(crate) fn next(&self) -> &Handle {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.handles[turn % self.handles.len()]
    }

    /// Whether there is only the thread that accepts.
    pub(crate) fn is_single(&self) -> bool {
        self.handles.len() == 1
    }
}

impl Workers {
    /// `threads` in all, this one counted. Called on the runtime of the thread that accepts.
    pub(crate) fn start(threads: usize) -> anyhow::Result<Self> {
        let (end, ended) = watch::channel(false);
        let mut handles = vec![Handle::current()];
        let mut joins = Vec::new();
        for n in 1..threads {
            let runtime =
                Builder::new_current_thread().enable_all().build().context("no more runtimes")?;
            handles.push(runtime.handle().clone());
            let mut ended = ended.clone();
            let name = format!("lingua-{n}");
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                runtime.block_on(async {
                    // A sender that is gone means the end as well.
                    let _ = ended.wait_for(|ended| *ended).await;
                });
            });
            joins.push(thread.context("no more threads")?);
        }
        let places = Places { handles: handles.into(), next: Arc::default() };
        Ok(Workers { threads: joins, end, places })
    }

    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// Ends the threads; what is still on them is dropped.
    pub(crate) fn end(self) {
        self.end.send_replace(true);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
