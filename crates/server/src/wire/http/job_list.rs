//! Jobs as operators see them: how they went, and nothing that was said.

use lingua_core::JobId;
use lingua_engine::job_log::{AttemptSummary, JobSummary, KEEP_MS, MAX_KEPT};
use lingua_store::jobs::JobRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job::{JobStateWord, Timings};

/// Jobs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsBody {
    /// The instance that answers.
    #[schema(example = "eu-1")]
    pub(crate) instance: String,
    /// The entries of this page.
    pub(crate) jobs: Vec<JobRow>,
    /// The number of all entries that match, of the instances that answered.
    pub(crate) total: usize,
    /// Instances that did not answer: their entries are missing.
    pub(crate) silent: Vec<String>,
    /// What is kept of jobs that ended.
    pub(crate) kept: KeptBody,
    /// The `after` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// What each instance keeps of jobs that ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeptBody {
    /// For how long.
    #[schema(example = 3_600_000)]
    for_ms: u64,
    /// How many at most: half of them with a result, half without. Beyond it the tenant with most entries loses its
    /// oldest.
    #[schema(example = 20_000)]
    jobs: usize,
}

pub(crate) const KEPT: KeptBody = KeptBody { for_ms: KEEP_MS, jobs: MAX_KEPT };

/// What one instance says of its jobs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobsPart {
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) total: usize,
}

/// A job in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobRow {
    /// Its id, as the answer to its submission names it.
    #[schema(example = "7m2k9x4c0v8b3n5q1w6e2r7t4y")]
    pub(crate) job_id: String,
    /// The instance that owns it.
    #[schema(example = "eu-1")]
    instance: String,
    /// The session that it belongs to.
    #[schema(example = "s-0123456789abcdef0123")]
    session_id: String,
    /// The tenant of the session.
    #[schema(example = "default")]
    tenant: String,
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    direction: String,
    /// Its state.
    #[schema(value_type = JobStateWord)]
    state: String,
    /// How it ended: `ok`, `empty` or a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "JOB_TIMEOUT")]
    code: Option<String>,
    /// The node of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// How often it was sent to a node.
    attempts: usize,
    /// When it was submitted, in epoch milliseconds.
    pub(crate) created_ms: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// How long it was queued; a duration.
    waited_ms: u64,
}

impl JobRow {
    pub(crate) fn of(job: &JobSummary, instance: &str) -> Self {
        JobRow {
            job_id: job.id.to_string(),
            instance: instance.to_owned(),
            session_id: job.session.session().to_string(),
            tenant: job.session.tenant().to_string(),
            direction: job.route.to_string(),
            state: job.state.as_str().to_owned(),
            code: job.code.as_deref().map(|code| code.chars().take(64).collect()),
            node_id: job.attempts.last().map(|attempt| attempt.node.to_string()),
            attempts: job.attempts.len(),
            created_ms: job.created_ms,
            ended_ms: job.ended_ms,
            waited_ms: job.waited_ms,
        }
    }
}

/// One job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobDetail {
    /// Its id, as the answer to its submission names it.
    #[schema(example = "7m2k9x4c0v8b3n5q1w6e2r7t4y")]
    job_id: String,
    /// The id that its nodes were given.
    #[schema(example = "0d5h1j8p0v8b3n5q1w6e2r7t4y")]
    node_job_id: String,
    /// The instance that owns it; absent if no running one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "eu-1")]
    instance: Option<String>,
    /// The session that it belongs to.
    #[schema(example = "s-0123456789abcdef0123")]
    session_id: String,
    /// The tenant of the session.
    #[schema(example = "default")]
    tenant: String,
    /// `src->tgt`, or `a<->b` if either may be spoken; absent if only the store knows the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "en->zh")]
    direction: Option<String>,
    /// The translation must be spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    tts: Option<bool>,
    /// Its profile: `stable` or `fast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "stable")]
    profile: Option<&'static str>,
    /// Its id in all logs and traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "4bf92f3577b34da6a3ce929d0e0e4736")]
    trace_id: Option<String>,
    /// Its state.
    #[schema(value_type = JobStateWord)]
    state: &'static str,
    /// How it ended: `ok`, `empty` or a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "JOB_TIMEOUT")]
    code: Option<String>,
    /// A sentence for people about its ending, at most 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// All attempts.
    attempts: Vec<JobAttempt>,
    /// The times of its steps; absent if only the store knows the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
    /// Notes about the choice of the node.
    notes: Vec<String>,
}

/// An attempt.
#[derive(Debug, Serialize, ToSchema)]
struct JobAttempt {
    /// From 1.
    number: u32,
    node_id: String,
    /// How the node came to be chosen, as in the job's own view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "sample")]
    source: Option<&'static str>,
    /// Epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_ms: Option<u64>,
    /// When the node acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    acked_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// How it ended: `ok`, or a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

impl JobDetail {
    pub(crate) fn of(job: &JobSummary, node_job_id: JobId, instance: &str) -> Self {
        let attempt = |one: &AttemptSummary| JobAttempt {
            number: one.number,
            node_id: one.node.to_string(),
            source: Some(one.source),
            sent_ms: Some(one.sent_ms),
            acked_ms: one.acked_ms,
            ended_ms: one.ended_ms,
            outcome: one.outcome.as_ref().map(|outcome| outcome.as_str().to_owned()),
        };
        JobDetail {
            job_id: job.id.to_string(),
            node_job_id: node_job_id.to_string(),
            instance: Some(instance.to_owned()),
            session_id: job.session.session().to_string(),
            tenant: job.session.tenant().to_string(),
            direction: Some(job.route.to_string()),
            tts: Some(job.speech),
            profile: Some(job.profile.as_str()),
            trace_id: Some(job.trace_id.to_string()),
            state: job.state.as_str(),
            code: job.code.as_deref().map(str::to_owned),
            detail: job.detail.as_deref().map(str::to_owned),
            attempts: job.attempts.iter().map(attempt).collect(),
            timings: Some(Timings {
                created_ms: job.created_ms,
                dispatched_ms: job.dispatched_ms,
                acked_ms: job.acked_ms,
                ended_ms: job.ended_ms,
                waited_ms: job.waited_ms,
            }),
            notes: job.notes.clone(),
        }
    }

    /// A job that no living instance knows, as the store does.
    pub(crate) fn of_record(id: JobId, node_job_id: JobId, record: &JobRecord) -> Self {
        let attempt = record.assignment.as_ref().map(|assignment| JobAttempt {
            number: assignment.token.attempt,
            node_id: assignment.node.to_string(),
            source: None,
            sent_ms: None,
            acked_ms: None,
            ended_ms: None,
            outcome: None,
        });
        JobDetail {
            job_id: id.to_string(),
            node_job_id: node_job_id.to_string(),
            instance: None,
            session_id: record.session.session().to_string(),
            tenant: record.session.tenant().to_string(),
            direction: None,
            tts: None,
            profile: None,
            trace_id: None,
            state: record.state.as_str(),
            code: (!record.code.is_empty()).then(|| record.code.clone()),
            detail: None,
            attempts: attempt.into_iter().collect(),
            timings: None,
            notes: vec!["known from the store only: no living instance has this job".to_owned()],
        }
    }
}
