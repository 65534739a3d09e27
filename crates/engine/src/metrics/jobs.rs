//! Jobs: how they find a node, wait and end.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::known::By;
use super::registrar::{counter, gauge, metric};
use super::{Metrics, Registrar, Timed, known, spans};

/// A histogram of seconds.
macro_rules! timed {
    ($to:expr, $name:literal, $help:literal) => {
        Timed::of(metric!($to, $name, $help, spans(), Seconds))
    };
}

/// Jobs: how they find a node, wait and end.
pub(crate) struct JobMetrics {
    reserve: By,
    pub(super) ended: By,
    /// Handles that are used for every job, found once.
    pub(crate) granted: Counter,
    pub(crate) done: Counter,
    pub(crate) hedges: Counter,
    pub(crate) pivots: Counter,
    pub(crate) pool_empty: Counter,
    pub(crate) retries_refused: Counter,
    pub(crate) slots_left: Counter,
    pub(crate) swept: Counter,
    pub(crate) waiting: Gauge,
    pub(crate) open_jobs: Gauge,
    pub(crate) place_seconds: Timed,
    pub(crate) wait_seconds: Timed,
    pub(crate) job_seconds: Timed,
    pub(super) retries: By,
    pub(super) limited: By,
}

impl JobMetrics {
    pub(super) fn register(to: &mut Registrar<'_>) -> Self {
        let reserve: By = metric!(
            to,
            "reserve",
            "Slot reservation attempts by outcome",
            known::by("outcome", known::RESERVE)
        );
        let ended: By = metric!(
            to,
            "jobs_ended",
            "Ended jobs by code; ok for a result",
            known::by("code", known::ended())
        );
        let granted = reserve.get_or_create(&[("outcome", "granted")]).clone();
        let done = ended.get_or_create(&[("code", "ok")]).clone();
        JobMetrics {
            granted,
            done,
            reserve,
            ended,
            hedges: counter!(to, "hedges", "Hedged attempts: second copies of slow jobs"),
            pivots: counter!(to, "pivots", "Jobs translated by way of another language"),
            pool_empty: counter!(to, "pool_empty", "Jobs for which no eligible node existed"),
            retries_refused: counter!(to, "retries_refused", "Retries refused by the retry budget"),
            slots_left: counter!(
                to,
                "slots_left_to_lapse",
                "Slot leases left to expire because the node may still work on the job"
            ),
            swept: counter!(
                to,
                "jobs_swept",
                "Orphaned jobs of other instances ended at their deadline"
            ),
            waiting: gauge!(to, "waiting_jobs", "Jobs queued for a slot"),
            open_jobs: gauge!(to, "open_jobs", "Open jobs of this instance"),
            place_seconds: timed!(to, "dispatch", "Time from job submission to dispatch"),
            wait_seconds: timed!(to, "wait", "Queueing time of jobs that were queued"),
            job_seconds: timed!(to, "job", "Time from job submission to its end"),
            retries: metric!(
                to,
                "retries",
                "Retry attempts by the code of the failed attempt",
                known::by("code", known::codes())
            ),
            limited: metric!(
                to,
                "limited",
                "Requests that hit a limit, by its name in the configuration",
                known::by("limit", known::LIMITS.iter().copied())
            ),
        }
    }
}

impl Metrics {
    pub(crate) fn reserve(&self, outcome: &'static str) {
        self.jobs.reserve.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A job ended badly. A node's own codes are one label value: a node must not fill the memory.
    pub(crate) fn ended(&self, code: &'static str) {
        self.jobs.ended.get_or_create(&[("code", code)]).inc();
    }

    pub(crate) fn retry(&self, code: &'static str) {
        self.jobs.retries.get_or_create(&[("code", code)]).inc();
    }

    /// A wish met this limit.
    pub fn limited(&self, limit: &'static str) {
        self.jobs.limited.get_or_create(&[("limit", limit)]).inc();
    }
}
