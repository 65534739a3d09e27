//! The suite on the embedded store that is kept in a directory, and what it owes beyond it: what it answered is
//! there after a restart.
//!
//! A copy of the directory of an open store is what a killed process leaves behind, because everything is with the
//! operating system by then.

use std::time::Duration;

use lingua_core::slots::Commit;
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::{BeatReply, Fenced};
use lingua_store::reputations::Reputation;
use lingua_store::slots::{Confirm, Refusal, Report, Reserve};
use lingua_store::usage::{Day, Posted};
use lingua_store::{Backend, Clock, Error, Instance, OpenError};
use tempfile::TempDir;

use crate::suite::samples::*;
use crate::suite::{self, Outcome};

mod damage;
mod kept;

use kept::Kept;

/// A store of its own in a directory of its own.
pub struct FileStore {
    clock: Clock,
    backend: Backend,
    directory: TempDir,
}

pub async fn file() -> anyhow::Result<FileStore> {
    let (clock, directory) = (Clock::manual(), tempfile::tempdir()?);
    let backend = MemoryStore::open_in(directory.path(), clock.clone())?;
    Ok(FileStore { clock, backend, directory })
}

impl suite::StoreUnderTest for FileStore {
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

conformance!(crate::file::file, model_cases = 40);

impl FileStore {
    /// What the directory would be if the process was killed now.
    fn killed(&self) -> anyhow::Result<TempDir> {
        let copy = tempfile::tempdir()?;
        for file in std::fs::read_dir(self.directory.path())? {
            let file = file?;
            std::fs::copy(file.path(), copy.path().join(file.file_name()))?;
        }
        Ok(copy)
    }

    /// Stops in order; gives the directory.
    async fn stopped(self) -> TempDir {
        self.backend.close().await;
        self.directory
    }
}

/// The store in this directory, on the clock of the one before.
fn reopen(directory: &TempDir, clock: &Clock) -> Result<Backend, OpenError> {
    MemoryStore::open_in(directory.path(), clock.clone())
}

/// Lets everything be brought into the database, and waits until it is.
async fn settle(store: &FileStore) -> anyhow::Result<()> {
    let node = TestNode::ready(&store.backend, 1).await?;
    store.clock.advance(Duration::from_secs(31));
    store.backend.nodes.beat(&node.id, &node.beat(vitals(1))).await?;
    let first = store.directory.path().join("log.0000000001");
    while first.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.directory.path().join("base.redb").exists());
    Ok(())
}

#[tokio::test]
async fn everything_that_was_answered_is_there_after_a_stop_and_a_start() -> Outcome {
    let store = file().await?;
    let (kept, clock) = (Kept::write(&store.backend, "one").await?, store.clock.clone());
    let directory = store.stopped().await;
    kept.check(&reopen(&directory, &clock)?).await
}

#[tokio::test]
async fn everything_that_was_answered_is_there_after_a_kill() -> Outcome {
    let store = file().await?;
    let kept = Kept::write(&store.backend, "one").await?;
    let left = store.killed()?;
    kept.check(&reopen(&left, &store.clock)?).await
}

#[tokio::test]
async fn everything_that_was_answered_is_there_after_many_kills_and_from_the_database() -> Outcome {
    let store = file().await?;
    let kept = Kept::write(&store.backend, "one").await?;
    settle(&store).await?;
    let mut left = store.killed()?;
    for _ in 0..3 {
        let backend = reopen(&left, &store.clock)?;
        kept.check(&backend).await?;
        let again = FileStore { clock: store.clock.clone(), backend, directory: left };
        left = again.killed()?;
    }
    kept.check(&reopen(&left, &store.clock)?).await
}

#[tokio::test]
async fn what_ended_is_not_there_after_a_restart() -> Outcome {
    let store = file().await?;
    let a = &store.backend;
    let node = TestNode::ready(a, 2).await?;
    let (request, job, lasting) = (kept::request()?, job_of(&session()), Duration::from_secs(5));
    let tenant = tenant();
    a.requests.claim(&tenant, &request, &job, LONG).await?;
    a.requests.release(&tenant, &request, &job).await?;
    a.deadlines.watch(&job, lasting).await?;
    a.deadlines.unwatch(&job).await?;
    let (short, given_back) = (token(), token());
    node.run(a, short, lasting).await?;
    node.run(a, given_back, LONG).await?;
    a.slots.release(&node.id, given_back).await?;
    store.clock.advance(lasting);
    let left = store.killed()?;
    let b = reopen(&left, &store.clock)?;
    let other = job_of(&session());
    assert_eq!(b.requests.claim(&tenant, &request, &other, LONG).await?, other);
    assert_eq!(b.deadlines.due(10).await?, []);
    assert_eq!(node.usage(&b).await?, (0, 0));
    assert_eq!(b.slots.reserve(&node.wish(given_back)).await?, Reserve::Spent);
    let regained = b.slots.commit(&node.id, short, LONG).await?;
    assert!(matches!(regained, Commit::Regained(_)), "{regained:?}");
    Ok(())
}

#[tokio::test]
async fn a_forgotten_node_stays_forgotten_and_its_order_stays() -> Outcome {
    let store = file().await?;
    let node = TestNode::ready(&store.backend, 1).await?;
    kept::drain(&store.backend, &node.id).await?;
    store.clock.advance(LONG + LONG);
    assert!(store.backend.nodes.forget(&node.id, LONG).await?);
    let left = store.killed()?;
    let b = reopen(&left, &store.clock)?;
    assert_eq!(b.nodes.get(&node.id).await?, None);
    assert!(kept::is_drained(&b, &node.id).await?);
    Ok(())
}

#[tokio::test]
async fn leases_hold_over_a_kill_and_a_node_that_reports_needs_no_hold() -> Outcome {
    let store = file().await?;
    let node = TestNode::ready(&store.backend, 2).await?;
    let running = token();
    node.run(&store.backend, running, LONG).await?;
    let left = store.killed()?;
    let b = reopen(&left, &store.clock)?;
    let node = node.taken_over(&b).await?;
    assert_eq!(node.usage(&b).await?, (0, 1));
    let kept = b.nodes.beat(&node.id, &node.beat(vitals(2))).await?;
    assert_eq!(kept, BeatReply::Kept { confirmed: true }, "nothing was lost");
    let running = [running];
    let report = node.report(&running);
    assert!(matches!(b.slots.confirm(&node.id, &report).await?, Confirm::Confirmed(_)));
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_known_of_a_node_is_there_after_a_kill_and_older() -> Outcome {
    let store = file().await?;
    let node = TestNode::ready(&store.backend, 1).await?;
    let known = Reputation { done: 5, ..Reputation::default() };
    let kept = store.backend.reputations.keep(&node.id, node.epoch, &known).await?;
    assert_eq!(kept, Fenced::Done);
    let later = Duration::from_secs(3);
    store.clock.advance(later);
    let left = store.killed()?;
    let read = reopen(&left, &store.clock)?.reputations.read(&node.id).await?;
    assert_eq!(read, Some(known.aged(later)));
    Ok(())
}

/// Makes a copy look as if the machine had stopped since.
fn of_another_boot(left: &TempDir) -> Outcome {
    let path = left.path().join("state");
    let text = std::fs::read_to_string(&path)?;
    let start = text.find("\"boot\":\"").expect("the state names the boot") + 8;
    let mut other = text.into_bytes();
    other[start] = if other[start] == b'0' { b'1' } else { b'0' };
    std::fs::write(path, other)?;
    Ok(())
}

#[tokio::test]
async fn after_a_power_cut_no_node_gets_a_grant_before_it_reported() -> Outcome {
    let store = file().await?;
    let node = TestNode::ready(&store.backend, 2).await?;
    let (kept, lost) = (token(), token());
    node.run(&store.backend, kept, LONG).await?;
    let left = store.killed()?;
    of_another_boot(&left)?;
    let unconfirmed = Reserve::Refused(Refusal::Unconfirmed);
    let b = reopen(&left, &store.clock)?;
    assert_eq!(b.slots.reserve(&node.wish(token())).await?, unconfirmed);
    // A kill right after the start does not make it forget that.
    let again = FileStore { clock: store.clock.clone(), backend: b, directory: left };
    let left = again.killed()?;
    let b = reopen(&left, &store.clock)?;
    assert_eq!(b.slots.reserve(&node.wish(token())).await?, unconfirmed);
    let running = [kept, lost];
    let report = Report { reserve_lease: Duration::from_millis(5), ..node.report(&running) };
    b.slots.confirm(&node.id, &report).await?;
    assert_eq!(node.usage(&b).await?, (0, 2), "both are put back");
    Ok(())
}

#[tokio::test]
async fn after_a_stop_in_order_another_boot_is_no_loss() -> Outcome {
    let store = file().await?;
    let (clock, node) = (store.clock.clone(), TestNode::ready(&store.backend, 1).await?);
    let directory = store.stopped().await;
    of_another_boot(&directory)?;
    node.reserve(&reopen(&directory, &clock)?, token(), LONG).await?;
    Ok(())
}

#[tokio::test]
async fn the_stores_time_never_goes_back() -> Outcome {
    let store = file().await?;
    store.clock.advance(Duration::from_secs(3_600));
    let node = TestNode::ready(&store.backend, 1).await?;
    let before = node.now(&store.backend).await?;
    let left = store.killed()?;
    let b = reopen(&left, &Clock::manual())?;
    assert!(node.now(&b).await? >= before);
    let node = node.taken_over(&b).await?;
    assert!(node.epoch >= before.as_millis());
    Ok(())
}

#[tokio::test]
async fn a_closed_store_takes_nothing_any_more() -> Outcome {
    let store = file().await?;
    let node = TestNode::ready(&store.backend, 1).await?;
    store.backend.close().await;
    assert!(!store.backend.status.borrow().is_up());
    let refused = store.backend.slots.reserve(&node.wish(token())).await;
    assert!(matches!(refused, Err(Error::Down(_))), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn what_was_used_is_there_after_a_kill() -> Outcome {
    let store = file().await?;
    let (me, day) = (Instance { id: "a".parse()?, boot: 1 }, Day(4_000_000));
    let post = |serial| store.backend.usage.post(day, &me, serial, b"{\"jobs\": 1}");
    assert_eq!(post(3).await?, Posted::Kept);
    let left = store.killed()?;
    let again = reopen(&left, &store.clock)?;
    assert_eq!(again.usage.posted(day).await?, [b"{\"jobs\": 1}"]);
    assert_eq!(again.usage.post(day, &me, 3, b"again").await?, Posted::Older);
    Ok(())
}
