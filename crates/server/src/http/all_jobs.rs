//! The jobs of all instances, for operators: lists, one job, and giving one up.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use lingua_core::outcome::Code;
use lingua_core::{InstanceId, JobId, TenantId};
use lingua_engine::Engine;
use lingua_engine::job_log::{JobCursor, JobFilter, JobSummary};
use lingua_store::jobs::JobRecord;

use super::error::{Answer, outcome, refusals, refused};
use super::everywhere::{gather, query};
use super::paging::{self, Page};
use super::query::{Params, Segment, named};
use super::{Door, jobs};
use crate::audit::Actor;
use crate::wire::http::job::Cancelled;
use crate::wire::http::job_list::{JobDetail, JobRow, JobsBody, JobsPart, KEPT};
use crate::wire::http::{within, wrong};

/// For a job to end after it was told to.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

refusals!(ListRefusals: InvalidMessage, NotFound);
refusals!(JobRefusals: InvalidMessage, NotFound, SchedulerDependencyDown);
refusals!(CancelRefusals: InvalidMessage, NotFound, Conflict, SchedulerDependencyDown);

/// List the jobs of all instances
///
/// Open jobs, and jobs that ended within the last hour as far as they are kept; newest first. Without
/// audio and text. The other instances are asked at the time of the call; those that do not answer are
/// listed in `silent`.
#[utoipa::path(
    get, path = "/api/v1/jobs", operation_id = "list_jobs", tag = "admin",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "Maximum number of entries; 100 if absent"),
        ("after" = Option<String>, Query, description = "`next` of the previous page"),
        ("state" = Option<String>, Query, description = "`open`, `ended`, or a state such as `FAILED`"),
        ("src" = Option<String>, Query, description = "Only jobs in which this language may be spoken"),
        ("tgt" = Option<String>, Query, description = "Only jobs that are translated into this language; with `src`, in this direction"),
        ("tenant" = Option<String>, Query, description = "Only jobs of this tenant"),
        ("session" = Option<String>, Query, description = "Only jobs of this session"),
        ("node" = Option<String>, Query, description = "Only jobs with an attempt on this node"),
        ("code" = Option<String>, Query, description = "Only jobs that ended with this code; `ok`: with a result, `empty`: no speech was found"),
        ("instance" = Option<String>, Query, description = "Only jobs of this instance"),
    ),
    responses((status = 200, body = JobsBody), ListRefusals)
)]
pub(crate) async fn jobs(State(door): State<Door>, params: Params) -> Answer<Json<JobsBody>> {
    let page: Page<JobCursor> = Page::asked(&params)?;
    let filter = filter(&params)?;
    let only: Option<InstanceId> = params.get("instance")?;
    let engine = &door.engine;
    let path = question(&filter, page.after.as_ref(), page.fetch());
    let here = || here(engine, &filter, page.after.as_ref(), page.fetch());
    let gathered = gather(&door, only.as_ref(), here, &path).await?;
    let total = gathered.parts.iter().map(|part| part.total).sum();
    let mut jobs: Vec<JobRow> = gathered.parts.into_iter().flat_map(|part| part.jobs).collect();
    // Ids are compared as texts everywhere, so all instances have one order.
    jobs.sort_unstable_by(|a, b| (b.created_ms, &a.job_id).cmp(&(a.created_ms, &b.job_id)));
    let next = page.cut(&mut jobs, |last| format!("{}.{}", last.created_ms, last.job_id));
    let instance = engine.instance().id.to_string();
    Ok(Json(JobsBody { instance, jobs, total, silent: gathered.silent, kept: KEPT, next }))
}

/// `/internal/v1/jobs`: those of this instance, for another one.
pub(crate) async fn of_this_one(State(engine): State<Engine>, params: Params) -> Answer {
    let limit = within("limit", params.number("limit")?.unwrap_or(1), 1..=paging::MOST + 1)?;
    let after: Option<JobCursor> = params.get("after")?;
    let limit = usize::try_from(limit).expect("at most 1001");
    Ok(Json(here(&engine, &filter(&params)?, after.as_ref(), limit)).into_response())
}

fn here(engine: &Engine, filter: &JobFilter, after: Option<&JobCursor>, limit: usize) -> JobsPart {
    let (page, total) = engine.job_page(filter, after, limit);
    let instance = engine.instance().id.as_str();
    JobsPart { jobs: page.iter().map(|job| JobRow::of(job, instance)).collect(), total }
}

fn filter(params: &Params) -> Answer<JobFilter> {
    let code: Option<String> = params.get("code")?;
    let is_code = |code: &String| {
        code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if code.as_ref().is_some_and(|code| !is_code(code)) {
        return Err(wrong("code", "is ok, empty or a code such as JOB_TIMEOUT").into());
    }
    Ok(JobFilter {
        state: params.get("state")?,
        src: params.get("src")?,
        tgt: params.get("tgt")?,
        tenant: params.get("tenant")?,
        session: params.get("session")?,
        node: params.get("node")?,
        code,
    })
}

/// The same for another instance.
fn question(filter: &JobFilter, after: Option<&JobCursor>, limit: usize) -> String {
    let JobFilter { state, src, tgt, tenant, session, node, code } = filter;
    query(
        "/internal/v1/jobs",
        &[
            ("limit", Some(limit.to_string())),
            ("after", after.map(ToString::to_string)),
            ("state", state.map(|state| state.to_string())),
            ("src", src.map(|lang| lang.to_string())),
            ("tgt", tgt.map(|lang| lang.to_string())),
            ("tenant", tenant.as_ref().map(ToString::to_string)),
            ("session", session.as_ref().map(ToString::to_string)),
            ("node", node.as_ref().map(ToString::to_string)),
            ("code", code.clone()),
        ],
    )
}

/// Get any job
///
/// By its id, or by the id that its node was given. Without audio and text. It is kept for an hour after
/// its end, as far as the list of jobs is kept.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job_id}", operation_id = "get_any_job", tag = "admin",
    params(("job_id" = String, Path, description = "The job's id, or the id that its node was given")),
    responses((status = 200, body = JobDetail), JobRefusals)
)]
pub(crate) async fn job(State(door): State<Door>, segment: Segment) -> Answer {
    let id: JobId = named("job_id", segment)?;
    let engine = &door.engine;
    if let Some(job) = engine.job_summary(&id) {
        return Ok(detail(engine, &job));
    }
    let path = format!("/internal/v1/jobs/{id}");
    let answers = door.ask.others(engine, None, &path).await;
    if let Some(told) = answers.into_iter().find_map(|answered| answered.said.ok().flatten()) {
        return Ok(([(header::CONTENT_TYPE, "application/json")], told).into_response());
    }
    let (id, record) = known(engine, id).await?;
    Ok(Json(JobDetail::of_record(id, engine.masked(id), &record)).into_response())
}

fn detail(engine: &Engine, job: &Arc<JobSummary>) -> Response {
    let instance = engine.instance().id.as_str();
    Json(JobDetail::of(job, engine.masked(job.id), instance)).into_response()
}

/// The store's record of a job, by either of its ids.
async fn known(engine: &Engine, id: JobId) -> Answer<(JobId, JobRecord)> {
    for id in [id].into_iter().chain(engine.unmasked(id)) {
        if let Some(record) = engine.jobs.record(&id).await? {
            return Ok((id, record));
        }
    }
    Err(refused(Code::NotFound, "no job of this id is remembered"))
}

/// `/internal/v1/jobs/{job_id}`: a job of this instance, for another one: as operators see it, or with
/// `tenant` as a caller of that tenant does.
pub(crate) async fn one_of_this_one(
    State(engine): State<Engine>,
    segment: Segment,
    params: Params,
) -> Answer {
    let id: JobId = named("job_id", segment)?;
    if let Some(tenant) = params.get::<TenantId>("tenant")? {
        return Ok(match jobs::for_another(&engine, id, &tenant).await {
            Some(body) => Json(body).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        });
    }
    Ok(match engine.job_summary(&id) {
        Some(job) => detail(&engine, &job),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Cancel any job
///
/// On whichever instance it is. It has no effect on a job that has ended; the answer says how it ended.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job_id}/cancel", operation_id = "cancel_any_job", tag = "admin",
    params(("job_id" = String, Path, description = "The job's id, or the id that its node was given")),
    responses((status = 200, body = Cancelled), CancelRefusals)
)]
pub(crate) async fn cancel(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
) -> Answer {
    let id: JobId = named("job_id", segment)?;
    let cancelled = cancel_anywhere(&door, id).await;
    actor.did("job.cancel", &id.to_string(), outcome(&cancelled));
    cancelled
}

async fn cancel_anywhere(door: &Door, id: JobId) -> Answer {
    let engine = &door.engine;
    if let Some(cancelled) = cancel_here(engine, &id).await {
        return Ok(Json(cancelled).into_response());
    }
    let path = format!("/internal/v1/jobs/{id}/cancel");
    let answers = door.ask.order(engine, &path).await;
    if let Some(told) = answers.into_iter().find_map(|answered| answered.said.ok().flatten()) {
        return Ok(([(header::CONTENT_TYPE, "application/json")], told).into_response());
    }
    let (_, record) = known(engine, id).await?;
    if !record.state.is_terminal() {
        let nobody = "no living instance has this job; it ends by its deadline";
        return Err(refused(Code::Conflict, nobody));
    }
    Ok(Json(Cancelled { ok: true, state: record.state.as_str() }).into_response())
}

async fn cancel_here(engine: &Engine, id: &JobId) -> Option<Cancelled> {
    let known = engine.job_summary(id)?;
    if known.state.is_terminal() {
        return Some(Cancelled { ok: true, state: known.state.as_str() });
    }
    let job = engine.jobs.job(&known.id)?;
    job.cancel("operator");
    let view = job.ended_within(CANCEL_WITHIN).await;
    Some(Cancelled { ok: true, state: view.state.as_str() })
}

/// `/internal/v1/jobs/{job_id}/cancel`: gives up a job of this instance, for another one.
pub(crate) async fn cancel_of_this_one(State(engine): State<Engine>, segment: Segment) -> Answer {
    let id: JobId = named("job_id", segment)?;
    Ok(match cancel_here(&engine, &id).await {
        Some(cancelled) => Json(cancelled).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
