//! On a clock that the tests move; two instances on one embedded store whose time moves with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use lingua_store::Clock;
use lingua_store::leaders::Leaders;
use lingua_store::memory::MemoryStore;

use super::*;

/// Leaders whose answers can be made to hang.
struct Hanging {
    below: Arc<dyn Leaders>,
    hangs: Arc<AtomicBool>,
}

type Result<T> = lingua_store::Result<T>;

#[async_trait]
impl Leaders for Hanging {
    async fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Result<Lead> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.below.lead(task, instance, ttl).await
    }
    async fn resign(&self, task: Task, instance: &Instance, fence: u64) -> Result<()> {
        self.below.resign(task, instance, fence).await
    }
}

/// An instance that counts what it does while it leads.
struct Candidate {
    leader: Arc<Leader>,
    hangs: Arc<AtomicBool>,
    acts: Arc<AtomicU64>,
    running: tokio::task::JoinHandle<()>,
}

impl Candidate {
    fn stand(store: &Backend, id: &str) -> Self {
        let (hangs, acts) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let below = Arc::clone(&store.leaders);
        let leaders = Arc::new(Hanging { below, hangs: Arc::clone(&hangs) });
        let store = Backend { leaders, ..store.clone() };
        let instance = Instance { id: id.parse().unwrap(), boot: 1 };
        let leader = Leader::new(store, instance, Chance::system(), Arc::default());
        let counted = Arc::clone(&acts);
        let work = move |mandate: Mandate| {
            let acts = Arc::clone(&counted);
            async move {
                loop {
                    assert!(mandate.holds(), "it acts only within its time");
                    acts.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let running = tokio::spawn(Arc::clone(&leader).run(Task::Snapshot, work));
        Candidate { leader, hangs, acts, running }
    }

    fn fence(&self) -> Option<u64> {
        self.leader.fence(Task::Snapshot)
    }

    fn acts(&self) -> u64 {
        self.acts.load(Ordering::SeqCst)
    }

    /// How long it takes to lead.
    async fn leads(&self) -> Duration {
        let begin = Instant::now();
        while self.fence().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(begin.elapsed() < Duration::from_secs(20), "it never leads");
        }
        begin.elapsed()
    }
}

/// A store whose clock is the runtime's, which a paused test moves.
fn store() -> Backend {
    MemoryStore::open(Clock::system())
}

async fn two(store: &Backend) -> (Candidate, Candidate) {
    let first = Candidate::stand(store, "first");
    first.leads().await;
    let second = Candidate::stand(store, "second");
    tokio::time::sleep(2 * LEAD_FOR).await;
    assert!(first.fence().is_some() && second.fence().is_none(), "exactly one leads");
    assert_eq!(second.acts(), 0);
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_when_its_time_is_over() {
    let store = store();
    let (first, second) = two(&store).await;
    let before = first.fence();
    first.running.abort();
    let took = second.leads().await;
    assert!(took <= LEAD_FOR + Duration::from_secs(1), "{took:?}");
    assert!(second.fence() > before, "the fence grows");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_drains_is_followed_at_once_and_leads_only_what_nobody_wants() {
    let store = store();
    let (first, second) = two(&store).await;
    let before = first.fence();
    first.leader.drain();
    let took = second.leads().await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    assert!(second.fence() > before);
    tokio::time::sleep(3 * LEAD_FOR).await;
    assert_eq!(first.fence(), None);
    second.leader.end().await;
    assert!(second.running.is_finished() || second.running.await.is_ok());
    let took = first.leads().await;
    assert!(took <= LEAD_FOR + Duration::from_secs(1), "better it than nobody: {took:?}");
    first.leader.end().await;
    assert_eq!(first.fence(), None);
    first.running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewal_hangs_does_nothing_after_its_time() {
    let store = store();
    let (first, second) = two(&store).await;
    first.hangs.store(true, Ordering::SeqCst);
    tokio::time::sleep(LEAD_FOR).await;
    assert_eq!(first.fence(), None);
    let (acts, took) = (first.acts(), second.leads().await);
    assert!(took <= Duration::from_secs(1), "{took:?}");
    tokio::time::sleep(LEAD_FOR).await;
    assert_eq!(first.acts(), acts, "not one act more");
    first.hangs.store(false, Ordering::SeqCst);
    tokio::time::sleep(LEAD_FOR).await;
    assert_eq!((first.fence(), first.acts()), (None, acts), "it follows now");
}

/// As a process that was stopped: nothing of it ran, and suddenly it is much later.
#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_does_nothing_when_it_wakes() {
    let store = store();
    let (first, _second) = two(&store).await;
    let acts = first.acts();
    first.hangs.store(true, Ordering::SeqCst);
    tokio::time::advance(LEAD_FOR).await;
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((first.fence(), first.acts()), (None, acts));
}

#[tokio::test(start_paused = true)]
async fn without_its_store_nobody_leads() {
    let (status, watched) = watch::channel(lingua_store::Status::Up { connection: 1 });
    let store = Backend { status: watched, ..store() };
    let only = Candidate::stand(&store, "only");
    only.leads().await;
    only.hangs.store(true, Ordering::SeqCst);
    status.send_replace(lingua_store::Status::Down { reason: "gone".into() });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let acts = only.acts();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((only.fence(), only.acts()), (None, acts));
    only.hangs.store(false, Ordering::SeqCst);
    status.send_replace(lingua_store::Status::Up { connection: 2 });
    only.leads().await;
}
