//! Jobs on one node, seen by somebody who does not ask the store how many there are.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_core::slots::Commit;
use lingua_store::Backend;
use lingua_store::slots::{Confirm, Reserve};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{HOLD, LONG, Node, answered, token};

/// What one node really runs.
#[derive(Default)]
pub struct Observer {
    running: Mutex<HashSet<LeaseToken>>,
    peak: AtomicUsize,
}

impl Observer {
    /// The node begins; counted before anything else happens.
    pub fn begin(&self, token: LeaseToken) {
        let mut running = self.running.lock();
        running.insert(token);
        self.peak.fetch_max(running.len(), Ordering::SeqCst);
    }

    /// The node is done; counted before anybody gets the slot.
    pub fn end(&self, token: LeaseToken) {
        self.running.lock().remove(&token);
    }

    pub fn running(&self) -> Vec<LeaseToken> {
        self.running.lock().iter().copied().collect()
    }

    /// The most that ran at the same time.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

/// Callers that want more slots of a node than it has, until they are stopped.
pub struct Load {
    pub observer: Arc<Observer>,
    finished: Arc<AtomicUsize>,
    errors: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    callers: JoinSet<anyhow::Result<()>>,
}

impl Load {
    /// Starts `callers` on each of the stores.
    pub fn start(stores: &[Backend], node: &Node, callers: usize) -> Self {
        let mut load = Load {
            observer: Arc::default(),
            finished: Arc::default(),
            errors: Arc::default(),
            stop: Arc::default(),
            callers: JoinSet::new(),
        };
        for store in stores.iter().cycle().take(callers * stores.len()) {
            let (store, node) = (store.clone(), node.clone());
            let (observer, stop) = (Arc::clone(&load.observer), Arc::clone(&load.stop));
            let (finished, errors) = (Arc::clone(&load.finished), Arc::clone(&load.errors));
            load.callers.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    match life(&store, &node, &observer).await? {
                        Life::Finished => finished.fetch_add(1, Ordering::SeqCst),
                        Life::Refused => 0,
                        Life::Down => errors.fetch_add(1, Ordering::SeqCst),
                    };
                }
                Ok(())
            });
        }
        load
    }

    /// Jobs that ran to their end so far.
    pub fn finished(&self) -> usize {
        self.finished.load(Ordering::SeqCst)
    }

    /// Calls without an answer so far.
    pub fn errors(&self) -> usize {
        self.errors.load(Ordering::SeqCst)
    }

    /// Waits for so many more jobs to run to their end.
    pub async fn more(&self, jobs: usize) -> anyhow::Result<()> {
        let goal = self.finished() + jobs;
        super::eventually("jobs to run", async || Ok((self.finished() >= goal).then_some(()))).await
    }

    /// Does what a node's owner does after a loss: asserts the record and reports, and goes on to
    /// report with the heartbeats while grants are held.
    pub async fn recover(&self, store: &Backend, node: &Node) -> anyhow::Result<()> {
        answered(|| node.assert_again(store)).await?;
        for _ in 0..4 {
            let running = self.observer.running();
            let report = node.report(Some(&running));
            let confirm = answered(|| store.slots.confirm(&node.id, &report)).await?;
            anyhow::ensure!(matches!(confirm, Confirm::Confirmed(_)), "{confirm:?}");
            sleep(HOLD / 8).await;
        }
        Ok(())
    }

    /// Stops the callers; each ends its job first.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(caller) = self.callers.join_next().await {
            caller??;
        }
        Ok(())
    }
}

enum Life {
    Finished,
    Refused,
    Down,
}

/// One job from the wish to the end. Every call without an answer is repeated, as callers may.
async fn life(store: &Backend, node: &Node, observer: &Observer) -> anyhow::Result<Life> {
    let token = token();
    let asked = Instant::now();
    match node.ask(store, token, HOLD).await {
        // A grant that comes when its lease may be over is not used.
        Ok(Reserve::Granted { .. }) if asked.elapsed() < HOLD / 2 => {}
        Ok(Reserve::Granted { .. } | Reserve::Already { .. }) => {
            return give_up(store, node, token).await;
        }
        Ok(_) => {
            sleep(Duration::from_millis(2)).await;
            return Ok(Life::Refused);
        }
        Err(error) if error.is_down() => {
            give_up(store, node, token).await?;
            return Ok(Life::Down);
        }
        Err(error) => return Err(error.into()),
    }
    observer.begin(token);
    let commit = || store.slots.commit(&node.id, token, LONG);
    let done = match answered(commit).await? {
        Commit::Lost => Life::Refused,
        _ => Life::Finished,
    };
    sleep(Duration::from_millis(2)).await;
    observer.end(token);
    give_up(store, node, token).await?;
    Ok(done)
}

async fn give_up(store: &Backend, node: &Node, token: LeaseToken) -> anyhow::Result<Life> {
    answered(|| store.slots.release(&node.id, token)).await?;
    Ok(Life::Refused)
}
