//! Work on a thread and runtime of its own, so that what it does never delays the clock of others.

use std::thread::JoinHandle;

use anyhow::Context;

/// Work that runs apart, and what it gives in the end.
#[derive(Debug)]
pub struct Apart<T> {
    thread: JoinHandle<anyhow::Result<T>>,
    name: String,
}

impl<T: Send + 'static> Apart<T> {
    /// Runs this on a thread with that name.
    pub fn start(
        name: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            Ok(runtime.context("the runtime does not start")?.block_on(work))
        });
        Ok(Self { thread: thread.context("no more threads")?, name: name.to_owned() })
    }

    /// Waits for its end, without holding up the runtime that asks.
    pub async fn finish(self) -> anyhow::Result<T> {
        let Self { thread, name } = self;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("the thread of the {name} panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_runs_apart_gives_its_value_or_says_that_it_panicked() {
        assert_eq!(Apart::start("nodes", async { 7 }).unwrap().finish().await.unwrap(), 7);
        let panicking = Apart::start("nodes", async { panic!("on purpose") }).unwrap();
        let said = panicking.finish().await.map(|()| 0).unwrap_err().to_string();
        assert!(said.contains("nodes panicked"), "{said}");
    }
}
