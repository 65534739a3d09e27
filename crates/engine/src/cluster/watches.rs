//! Waiting for a job of another instance, by one subscription instead of polling the store.
//!
//! The asking instance tells all others which job it waits for. The instance that has the job promises to report,
//! and reports when the job has reached the goal. Either message may be lost, so the record is read again now and
//! then: seldom after a promise, and more often without one, because the instance died or is of an older version.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::outcome::Code;
use lingua_core::{JobId, TenantId};
use lingua_protocol::peer::{Goal, PeerMessage};
use lingua_store::Instance;
use lingua_store::jobs::JobRecord;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::Cluster;
use crate::job::Refusal;
use crate::jobs::View;
use crate::settings::WatchBounds;
use crate::tasks;

/// The pause before the record is read again without a promise; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The same after a promise, in case the report is lost.
const PROMISED_PAUSE: Duration = Duration::from_secs(10);

/// How often it is checked whether the instance that promised is still alive.
const LOOK: Duration = Duration::from_millis(500);

/// Subscriptions of others to jobs of this instance; further ones get no promise.
const MAX_SUBSCRIBED: usize = 65_536;

/// Notices of other instances that wait for one watch: a promise and a report of each at most.
const NOTICES: usize = 8;

/// When to try again after the limit of watches was reached.
const RETRY_MS: u64 = 1_000;

/// Whether a job has reached the goal, by the store's record.
pub fn is_met(goal: Goal, record: &JobRecord) -> bool {
    let placed = goal == Goal::Placed && record.assignment.is_some();
    placed || record.state.is_terminal()
}

fn is_met_here(goal: Goal, view: &View) -> bool {
    goal == Goal::Placed && !view.attempts.is_empty()
}

/// When the record of a watched job is read next.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rereads {
    promised_by: Option<Instance>,
    pause: Duration,
    at: Instant,
}

impl Rereads {
    fn begin(now: Instant) -> Self {
        Rereads { promised_by: None, pause: FIRST_PAUSE, at: now + FIRST_PAUSE }
    }

    /// This instance has the job and will tell.
    fn promised(&mut self, by: Instance, now: Instant) {
        if self.promised_by.is_none() {
            (self.promised_by, self.at) = (Some(by), now + PROMISED_PAUSE);
        }
    }

    /// Whoever promised is gone: the record is read at once, and anybody may promise anew.
    fn lost(&mut self, now: Instant) {
        *self = Rereads { at: now, ..Rereads::begin(now) };
    }

    /// The record was read, and the job is not that far.
    fn read(&mut self, now: Instant) {
        self.at = now
            + match self.promised_by {
                Some(_) => PROMISED_PAUSE,
                None => {
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    self.pause
                }
            };
    }
}

/// What another instance says about a job that is watched.
pub(super) enum Notice {
    Promised(Instance),
    Reached,
}

/// The jobs of other instances that somebody waits for here, one entry however many wait for it.
pub(super) struct Watches {
    bounds: WatchBounds,
    by_job: HashMap<(JobId, Goal), Watch>,
    by_tenant: HashMap<TenantId, usize>,
}

struct Watch {
    tenant: TenantId,
    notices: mpsc::Sender<Notice>,
    reached: watch::Receiver<Option<JobRecord>>,
}

impl Watches {
    pub fn new(bounds: WatchBounds) -> Self {
        Watches { bounds, by_job: HashMap::new(), by_tenant: HashMap::new() }
    }

    /// The limit that one more watch of this tenant meets, if it does.
    fn met(&self, tenant: &TenantId) -> Option<&'static str> {
        let own = self.by_tenant.get(tenant).copied().unwrap_or(0);
        if self.by_job.len() >= self.bounds.total {
            return Some("job_watches");
        }
        (own >= self.bounds.per_tenant).then_some("job_watches_per_tenant")
    }

    fn insert(&mut self, key: (JobId, Goal), watch: Watch) {
        *self.by_tenant.entry(watch.tenant.clone()).or_default() += 1;
        self.by_job.insert(key, watch);
    }

    fn remove(&mut self, key: &(JobId, Goal)) {
        let Some(Watch { tenant, .. }) = self.by_job.remove(key) else { return };
        if let Some(own) = self.by_tenant.get_mut(&tenant) {
            *own -= 1;
            if *own == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

impl Cluster {
    /// Watches a job of another instance; what comes out is its record once it is that far. The watch
    /// ends with the last who looks.
    pub fn watch_job(
        self: &Arc<Self>,
        job: JobId,
        tenant: &TenantId,
        goal: Goal,
    ) -> Result<watch::Receiver<Option<JobRecord>>, Refusal> {
        let mut watches = self.watches.lock();
        if let Some(watch) = watches.by_job.get(&(job, goal)) {
            return Ok(watch.reached.clone());
        }
        if let Some(limit) = watches.met(tenant) {
            self.shared.metrics.limited(limit);
            let detail =
                "as many jobs of other instances are waited for as may be; ask without wait_ms";
            return Err(Refusal::new(Code::QuotaExceeded, detail).retry_after(RETRY_MS));
        }
        let (notices, noticed) = mpsc::channel(NOTICES);
        let (tell, reached) = watch::channel(None);
        let watch = Watch { tenant: tenant.clone(), notices, reached: reached.clone() };
        watches.insert((job, goal), watch);
        drop(watches);
        tasks::start(Arc::clone(self).follow_job((job, goal), noticed, tell));
        Ok(reached)
    }

    /// Waits until the job is that far or nobody looks any more.
    async fn follow_job(
        self: Arc<Self>,
        (job, goal): (JobId, Goal),
        mut notices: mpsc::Receiver<Notice>,
        tell: watch::Sender<Option<JobRecord>>,
    ) {
        let mut rereads = Rereads::begin(Instant::now());
        self.subscribe(job, goal);
        while !self.is_forsaken(&(job, goal), &tell) {
            let now = Instant::now();
            let promised = rereads.promised_by.as_ref();
            if promised.is_some_and(|by| !self.shared.outbox.is_alive(by)) {
                rereads.lost(now);
                self.subscribe(job, goal);
            }
            match timeout_at(rereads.at.min(now + LOOK), notices.recv()).await {
                Ok(Some(Notice::Promised(by))) => {
                    rereads.promised(by, Instant::now());
                    continue;
                }
                Ok(Some(Notice::Reached)) => {}
                Ok(None) => return,
                Err(_) if Instant::now() < rereads.at => continue,
                Err(_) => {}
            }
            match self.shared.store.jobs.get(&job).await {
                Ok(Some(record)) if is_met(goal, &record) => {
                    self.end_watch(&(job, goal));
                    tell.send_replace(Some(record));
                    return;
                }
                // Forgotten: whoever waits finds out by asking.
                Ok(None) => return self.end_watch(&(job, goal)),
                Ok(Some(_)) | Err(_) => {
                    rereads.read(Instant::now());
                    if rereads.promised_by.is_none() {
                        // The one that has it may have joined since, or missed the message.
                        self.subscribe(job, goal);
                    }
                }
            }
        }
    }

    /// Ends a watch that nobody looks at any more. The table itself looks at each once.
    fn is_forsaken(&self, key: &(JobId, Goal), tell: &watch::Sender<Option<JobRecord>>) -> bool {
        let mut watches = self.watches.lock();
        let forsaken = tell.receiver_count() <= 1;
        if forsaken {
            watches.remove(key);
        }
        forsaken
    }

    fn end_watch(&self, key: &(JobId, Goal)) {
        let mut watches = self.watches.lock();
        watches.remove(key);
    }

    fn subscribe(&self, job: JobId, goal: Goal) {
        for (peer, _) in self.shared.outbox.peers() {
            let _ = self.shared.outbox.send(&peer, PeerMessage::WatchJob { job, goal });
        }
    }

    /// Another instance waits for a job. If it is here, it is told when the job is that far.
    pub(super) fn on_watch(self: &Arc<Self>, from: &Instance, id: JobId, goal: Goal) {
        let Some(job) = self.jobs.job(&id).filter(|job| job.remote().is_none()) else { return };
        let key = (id, goal, from.clone());
        {
            let mut subscribed = self.subscribed.lock();
            if subscribed.len() >= MAX_SUBSCRIBED {
                return;
            }
            let _ = self.shared.outbox.send(from, PeerMessage::JobWatched { job: id, goal });
            if !subscribed.insert(key.clone()) {
                return;
            }
        }
        let cluster = Arc::clone(self);
        tasks::start(async move {
            job.until(|view| is_met_here(goal, view)).await;
            cluster.subscribed.lock().remove(&key);
            let _ = cluster.shared.outbox.send(&key.2, PeerMessage::JobReached { job: id, goal });
        });
    }

    /// Another instance says something about a job that is watched here.
    pub(super) fn on_notice(&self, job: JobId, goal: Goal, notice: Notice) {
        if let Some(watch) = self.watches.lock().by_job.get(&(job, goal)) {
            // One that is lost is made up for by reading the record.
            let _ = watch.notices.try_send(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str) -> Instance {
        Instance { id: name.parse().unwrap(), boot: 1 }
    }

    #[tokio::test]
    async fn while_nobody_promises_the_record_is_read_less_and_less_often() {
        let mut now = Instant::now();
        let mut rereads = Rereads::begin(now);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push((rereads.at - now).as_millis());
            now = rereads.at;
            rereads.read(now);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    }

    #[tokio::test]
    async fn a_promise_is_waited_for_and_its_loss_is_looked_into_at_once() {
        let now = Instant::now();
        let mut rereads = Rereads::begin(now);
        rereads.promised(instance("a"), now);
        assert_eq!(rereads.at, now + PROMISED_PAUSE);
        let later = now + Duration::from_secs(3);
        rereads.promised(instance("b"), later);
        assert_eq!(
            (rereads.promised_by.clone(), rereads.at),
            (Some(instance("a")), now + PROMISED_PAUSE)
        );
        rereads.lost(later);
        assert_eq!((rereads.promised_by.as_ref(), rereads.at), (None, later));
        rereads.read(later);
        assert_eq!(rereads.at, later + 2 * FIRST_PAUSE);
    }

    #[tokio::test]
    async fn so_many_jobs_are_watched_of_one_tenant_and_of_all() {
        let mut watches = Watches::new(WatchBounds { total: 3, per_tenant: 2 });
        let (a, b): (TenantId, TenantId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let job = |n: u8| -> JobId { format!("0123456789abcdefghjkmnpq{n:02}").parse().unwrap() };
        let put = |watches: &mut Watches, n, tenant: &TenantId| {
            let (notices, _) = mpsc::channel(1);
            let (_, reached) = watch::channel(None);
            let watch = Watch { tenant: tenant.clone(), notices, reached };
            watches.insert((job(n), Goal::Over), watch);
        };
        put(&mut watches, 1, &a);
        put(&mut watches, 2, &a);
        assert_eq!((watches.met(&a), watches.met(&b)), (Some("job_watches_per_tenant"), None));
        put(&mut watches, 3, &b);
        assert_eq!(watches.met(&b), Some("job_watches"));
        for n in 1..4 {
            watches.remove(&(job(n), Goal::Over));
        }
        assert_eq!((watches.met(&a), watches.by_tenant.len()), (None, 0));
    }
}
