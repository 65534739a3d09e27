//! What a scheduler process is made of, and whether it can take work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::usage::DayUsage;
use lingua_core::{JobId, TenantId};
use lingua_protocol::peer::Goal;
use lingua_store::jobs::JobRecord;
use lingua_store::leaders::Task;
use lingua_store::usage::Day;
use lingua_store::{Backend, Clock, Instance, Status};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::audio::Audio;
use crate::chance::Chance;
use crate::cluster::router::Router;
use crate::cluster::{Cluster, Inflow, JoinError};
use crate::fleet::FleetView;
use crate::janitor;
use crate::job::Refusal;
use crate::job_log::{self, JobCursor, JobFilter, JobLog, JobSummary};
use crate::jobs::{Dispatcher, FreedSlotQueue, WaitQueue};
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::nodes::{NodeRouter, Nodes};
use crate::pairs::{Installed, installed};
use crate::peers::bodies::Fetch;
use crate::peers::outbox::Outbox;
use crate::peers::question::{self, Asker};
use crate::secret::Secret;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::snapshot::Board;
use crate::tasks;
use crate::trace::{Span, Tracer};
use crate::usage;

/// One scheduler process. Cheap to clone; the last clone ends its clockwork.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// The nodes of this instance.
    pub nodes: Arc<Nodes>,
    /// The jobs of this instance.
    pub jobs: Arc<Dispatcher>,
    /// The conversations of this instance.
    pub sessions: Arc<Sessions>,
    /// Audio handed in ahead of its job.
    pub audio: Arc<Audio>,
    /// How everything stands.
    pub board: Arc<Board>,
    cluster: Arc<Cluster>,
    pub(crate) router: Arc<Router>,
    leader: Arc<Leader>,
    draining: Arc<AtomicBool>,
    clockwork: Arc<Clockwork>,
}

struct Clockwork(Mutex<Vec<JoinHandle<Option<()>>>>);

/// Endings that wait to be brought to where somebody wants them.
const ORPHANS: usize = 4_096;

impl Drop for Clockwork {
    fn drop(&mut self) {
        for task in &*self.0.lock() {
            task.abort();
        }
    }
}

/// For sessions to tell the endings of jobs that were given up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often who waits for a job of another instance looks whether this one stops.
const LOOK: Duration = Duration::from_millis(100);

/// What an engine does not have of itself: the time of day, and chance.
pub struct Surroundings {
    /// For dates on the wire.
    pub clock: Clock,
    /// For names that nobody shares, and choices between equals.
    pub chance: Chance,
}

impl Default for Surroundings {
    fn default() -> Self {
        Surroundings { clock: Clock::system(), chance: Chance::system() }
    }
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
    /// An engine over this store, under this name, with its clockwork running. `secret` is what the
    /// instances of one store share.
    pub fn start(store: Backend, instance: Instance, settings: Settings, secret: Secret) -> Self {
        Engine::start_in(Surroundings::default(), store, instance, settings, secret)
    }

    /// The same with a clock and chance of the caller's.
    pub fn start_in(
        surroundings: Surroundings,
        store: Backend,
        instance: Instance,
        settings: Settings,
        secret: Secret,
    ) -> Self {
        let Base { shared, queue, inflow } = base(surroundings, store, instance, settings, secret);
        let nodes = Arc::new(Nodes::new(Arc::clone(&shared)));
        let router = Arc::new(Router::new(Arc::clone(&shared), Arc::clone(&nodes)));
        let jobs = Arc::new(Dispatcher::new(
            Arc::clone(&shared),
            Arc::clone(&nodes),
            Arc::clone(&router) as Arc<dyn NodeRouter>,
            queue,
        ));
        let sessions = Arc::new(Sessions::new(Arc::clone(&shared), Arc::clone(&jobs)));
        let leader = Leader::new(
            shared.store.clone(),
            shared.instance.clone(),
            shared.chance.clone(),
            Arc::clone(&shared.metrics),
        );
        let draining = Arc::<AtomicBool>::default();
        let board = Board::new(
            Arc::clone(&shared),
            Arc::clone(&nodes),
            Arc::clone(&jobs),
            Arc::clone(&sessions),
            Arc::clone(&leader),
            Arc::clone(&draining),
        );
        let clockwork = clockwork(&shared, &nodes, &jobs, &sessions, &leader, &board);
        let cluster = Cluster::new(
            Arc::clone(&shared),
            Arc::clone(&router),
            Arc::clone(&jobs),
            Arc::clone(&sessions),
        );
        let back = tasks::spawn("words back", Arc::clone(&cluster).take_back(inflow));
        clockwork.0.lock().push(back);
        Engine {
            cluster,
            router,
            leader,
            audio: Arc::new(Audio::new(Arc::clone(&shared))),
            shared,
            nodes,
            jobs,
            sessions,
            board,
            draining,
            clockwork: Arc::new(clockwork),
        }
    }

    /// Becomes one of the instances of its store: others reach it at `address`, and it fetches from
    /// them by `fetch`. Until then it has its own nodes and sessions only.
    pub async fn join(&self, address: &str, fetch: Arc<dyn Fetch>) -> Result<(), JoinError> {
        self.shared.outbox.set_fetch(fetch);
        self.cluster.join(address).await?;
        self.board.set_address(address);
        let cluster = || Arc::clone(&self.cluster);
        self.clockwork.0.lock().extend([
            tasks::spawn("presence", cluster().say_present(address.to_owned())),
            tasks::spawn("look around", cluster().look_around()),
            tasks::spawn("inbox", cluster().receive()),
            tasks::spawn("fleet feed", cluster().follow()),
            tasks::spawn("inbox takeover", cluster().take_over_inboxes()),
        ]);
        self.cluster.first_read().await;
        Ok(())
    }

    /// A body that another instance was told the name of.
    pub fn body(&self, name: &str) -> Option<Bytes> {
        self.shared.outbox.bodies.get(name)
    }

    /// Marks requests for bodies of other instances.
    pub fn asker(&self) -> Asker {
        Asker(self.shared.secret.clone())
    }

    /// Whether another instance asks this one for the bodies at this path.
    pub fn is_for_peers(&self, path: &str, mark: Option<&str>) -> bool {
        self.asker().holds(&self.shared.instance, path, mark)
    }

    /// The mark on a question to another instance about this path; it holds for a moment.
    pub fn question(&self, to: &str, path: &str) -> String {
        question::mark(&self.shared.secret, self.now_ms(), to, path)
    }

    /// Whether another instance asked this one about this path, a moment ago.
    pub fn is_question(&self, path: &str, mark: &str) -> bool {
        let me = self.shared.instance.id.as_str();
        question::holds(&self.shared.secret, self.now_ms(), me, path, mark)
    }

    /// The other instances that are alive, and where.
    pub fn peers(&self) -> Vec<(Instance, String)> {
        self.shared.outbox.peers()
    }

    /// Waits until a job of another instance is that far: its record then, or nothing if it takes longer
    /// or this instance stops.
    pub async fn job_reaches(
        &self,
        job: JobId,
        tenant: &TenantId,
        goal: Goal,
        wait: Duration,
    ) -> Result<Option<JobRecord>, Refusal> {
        let mut watch = self.cluster.watch_job(job, tenant, goal)?;
        let until = Instant::now() + wait;
        while Instant::now() < until && !self.draining.load(Ordering::Relaxed) {
            let next = until.min(Instant::now() + LOOK);
            match timeout_at(next, watch.wait_for(Option::is_some)).await {
                Ok(Ok(record)) => return Ok(record.clone()),
                // The record was forgotten.
                Ok(Err(_)) => return Ok(None),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The store it works on.
    pub fn store(&self) -> &Backend {
        &self.shared.store
    }

    /// How it behaves.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Under which name.
    pub fn instance(&self) -> &Instance {
        &self.shared.instance
    }

    /// A job of this instance that is open or ended lately, by its id or by the one that its node knows.
    pub fn job_summary(&self, id: &JobId) -> Option<Arc<JobSummary>> {
        let known = |id: &JobId| {
            let open = self.jobs.job(id).filter(|job| job.remote().is_none());
            open.map(|job| Arc::new(job.summary())).or_else(|| self.shared.job_log.get(id))
        };
        known(id).or_else(|| self.shared.secret.unmasked(*id).find_map(|own| known(&own)))
    }

    /// So many jobs of this instance that are open or ended lately, the newest first, and how many fit
    /// the filter in all.
    pub fn job_page(
        &self,
        filter: &JobFilter,
        after: Option<&JobCursor>,
        limit: usize,
    ) -> (Vec<Arc<JobSummary>>, usize) {
        let open = self.jobs.open_jobs().into_iter().map(|job| Arc::new(job.summary()));
        // One that ended between the two looks is in both.
        let ended = self.shared.job_log.all(self.now_ms());
        let open = open.filter(|job| job.ended_ms.is_none());
        job_log::page(open.chain(ended), filter, after, limit)
    }

    /// The ids that a job may have which nodes know by this one.
    pub fn unmasked(&self, job: JobId) -> impl Iterator<Item = JobId> {
        self.shared.secret.unmasked(job)
    }

    /// The id under which nodes know a job, and back.
    pub fn masked(&self, job: JobId) -> JobId {
        self.shared.secret.masked(job)
    }

    #[cfg(test)]
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The fleet as this instance sees it.
    pub fn fleet(&self) -> &FleetView {
        &self.shared.fleet
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Traces this share of all conversations from now on, and those of callers who trace
    /// themselves. The spans come out here; `None` if somebody reads them already.
    pub fn trace(&self, share: f64) -> Option<mpsc::Receiver<Span>> {
        let Shared { metrics, clock, chance, tracer, .. } = &*self.shared;
        let (made, spans) = Tracer::new(share, Arc::clone(metrics), clock, chance.clone());
        tracer.set(Arc::new(made)).is_ok().then_some(spans)
    }

    /// Its metrics as Prometheus reads them, as they are now. Asks the kernel about the process, which
    /// may take a moment: not for a thread that jobs are on.
    pub fn scrape(&self) -> String {
        let store = &self.shared.store;
        let (up, draining) = (store.status.borrow().is_up(), self.draining.load(Ordering::Relaxed));
        self.shared.metrics.look(up, &store.pulse, draining);
        self.shared.metrics.render()
    }

    /// What was used on these days, on all instances.
    pub async fn usage(
        &self,
        days: impl Iterator<Item = Day>,
    ) -> lingua_store::Result<Vec<(Day, DayUsage)>> {
        // What this instance counted is told as it is now.
        self.shared.post_usage().await;
        usage::read(&self.shared.store, days).await
    }

    /// The clock for dates.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// What nodes have installed, by service or model and version.
    pub fn installed(&self) -> Vec<Installed> {
        installed(&self.shared.fleet)
    }

    /// Epoch milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.shared.clock.now().as_millis()
    }

    /// The door through which randomness comes in.
    pub fn chance(&self) -> Chance {
        self.shared.chance.clone()
    }

    /// Whether new work is taken at this moment.
    pub fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) {
            return Readiness::Draining;
        }
        match &*self.shared.store.status.borrow() {
            Status::Up { .. } => Readiness::Ready,
            Status::Down { reason } => Readiness::StoreDown { reason: reason.clone() },
        }
    }

    /// The fence under which this instance does the task for all, if it does.
    pub fn leads(&self, task: Task) -> Option<u64> {
        self.leader.fence(task)
    }

    /// Takes no new work from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.leader.drain();
        self.board.drain();
    }

    /// Lets what is open come to its end, at most for as long as the settings say; then gives up
    /// what has not. Every conversation has heard its endings when this is over.
    pub async fn end(&self) {
        let limit = Duration::from_millis(self.shared.settings.drain_ms);
        let end = Instant::now() + limit;
        self.sessions.drain().await;
        // What was said so far becomes jobs first, so sessions are waited for as well as jobs.
        while self.sessions.count() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let left = end.saturating_duration_since(Instant::now());
        self.jobs.end_within(left).await;
        self.sessions.end_within(LAST_WORDS).await;
        self.cluster.flush_deliveries(LAST_WORDS).await;
        self.shared.post_usage().await;
        self.leader.end().await;
        self.cluster.withdraw().await;
    }
}

/// What every service of an engine stands on.
struct Base {
    shared: Arc<Shared>,
    queue: Arc<WaitQueue>,
    /// What the outbox and the jobs leave to the cluster.
    inflow: Inflow,
}

fn base(
    surroundings: Surroundings,
    store: Backend,
    instance: Instance,
    settings: Settings,
    secret: Secret,
) -> Base {
    let Surroundings { clock, chance } = surroundings;
    let metrics = Arc::new(Metrics::default());
    metrics.started_ms(clock.now().as_millis());
    let (outbox, undeliverable) = Outbox::new(
        instance.clone(),
        store.clone(),
        chance.clone(),
        Arc::clone(&metrics),
        secret.clone(),
    );
    let (orphans, orphaned) = mpsc::channel(ORPHANS);
    let queue = Arc::new(WaitQueue::new(
        settings.waiting,
        settings.admission.shares.clone(),
        metrics.jobs.waiting.clone(),
    ));
    let job_log = JobLog::new(&settings.admission.shares);
    let shared = Arc::new(Shared {
        fleet: Arc::new(FleetView::in_region(settings.region.clone())),
        settings,
        store,
        instance,
        clock,
        chance,
        secret,
        metrics,
        outbox,
        orphans,
        job_log,
        usage: Arc::default(),
        tracer: std::sync::OnceLock::new(),
    });
    shared.fleet.set_freed(Box::new(FreedSlotQueue::new(&queue, &shared.fleet, &shared.outbox)));
    Base { shared, queue, inflow: Inflow { undeliverable, orphans: orphaned } }
}

/// The tasks that run for as long as the engine does.
fn clockwork(
    shared: &Arc<Shared>,
    nodes: &Arc<Nodes>,
    jobs: &Arc<Dispatcher>,
    sessions: &Arc<Sessions>,
    leader: &Arc<Leader>,
    board: &Arc<Board>,
) -> Clockwork {
    let maker = Arc::clone(board);
    let sweeper = Arc::clone(jobs);
    let tidied = shared.store.clone();
    Clockwork(Mutex::new(vec![
        tasks::spawn("nodes", Arc::clone(nodes).watch()),
        tasks::spawn("queue", Arc::clone(jobs).watch_queue()),
        tasks::spawn("jobs wait", Arc::clone(jobs).tell_that_jobs_wait()),
        tasks::spawn(
            "deadlines",
            Arc::clone(leader).run(Task::Deadlines, move |_| Arc::clone(&sweeper).sweep()),
        ),
        tasks::spawn(
            "janitor",
            Arc::clone(leader).run(Task::Janitor, move |_| janitor::tidy(tidied.clone())),
        ),
        tasks::spawn("figures", Arc::clone(board).say()),
        tasks::spawn(
            "snapshot",
            Arc::clone(leader)
                .run(Task::Snapshot, move |mandate| Arc::clone(&maker).aggregate(mandate)),
        ),
        tasks::spawn("readers", Arc::clone(board).read()),
        tasks::spawn("sessions", Arc::clone(sessions).keep()),
        tasks::spawn("usage", shared.keep_posting_usage()),
    ]))
}

#[cfg(test)]
mod tests {
    use lingua_store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_draining_engine_is_not_ready() {
        let instance = Instance { id: "a".parse().unwrap(), boot: 1 };
        let engine = Engine::start(
            MemoryStore::open(Clock::manual()),
            instance,
            Settings::stable(),
            Secret::from_seed(b"seed"),
        );
        assert_eq!(engine.readiness(), Readiness::Ready);
        engine.drain();
        assert_eq!(engine.readiness(), Readiness::Draining);
    }
}
