//! How jobs stand, and what nodes say about them.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use lingua_core::outcome::Code;
use lingua_core::{JobId, TenantId};
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use lingua_engine::nodes::MessageOutcome;
use lingua_protocol::peer::Goal;
use lingua_store::jobs::JobRecord;

use super::Door;
use super::body::{NODE_BODY_BYTES, Unread};
use super::error::{Answer, Refused, outcome, refusals, refused};
use super::query::{Params, Segment, named};
use crate::audit::Actor;
use crate::identity::Caller;
use crate::wire::http::job::{Cancelled, JobBody};
use crate::wire::http::job_message::{AckRequest, DoneRequest, FailRequest, JobCall};
use crate::wire::http::{DONE, Done};

/// For a job to end after it was told to.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

refusals!(ViewRefusals: InvalidMessage, NotFound, QuotaExceeded, SchedulerDependencyDown);
refusals!(CancelRefusals: InvalidMessage, NotFound, Conflict, SchedulerDependencyDown);
refusals!(MessageRefusals: InvalidMessage, MessageTooLarge, QuotaExceeded, Forbidden, NotFound, StaleAttempt,
    RateLimited, SchedulerDependencyDown);

/// Get a job of the caller's tenant
///
/// The result is kept for a while by the instance that ran the job. Other instances know its state, and with
/// `attempts` they ask that instance for its attempts.
#[utoipa::path(
    get, path = "/v1/job/{job_id}", operation_id = "get_job", tag = "jobs",
    params(
        ("job_id" = String, Path, description = "The `job_id` of the answer to its submission"),
        ("wait_ms" = Option<u64>, Query, maximum = 60_000,
            description = "Answer only when the job is over, or after so long; at once if absent"),
        ("attempts" = Option<bool>, Query,
            description = "True: ask the other instances for the attempts of a job that one of them looks after; for people who look, not for who waits"),
    ),
    responses((status = 200, body = JobBody), ViewRefusals)
)]
pub(crate) async fn view(
    State(door): State<Door>,
    Extension(caller): Extension<Caller>,
    segment: Segment,
    params: Params,
) -> Answer {
    let engine = &door.engine;
    let id: JobId = named("job_id", segment)?;
    let (wait, attempts) = (params.wait()?, params.flag("attempts")?.unwrap_or(false));
    if let Some(job) = engine.jobs.job(&id).filter(|job| caller.may_see(job.session.tenant())) {
        let view = job.ended_within(wait).await;
        if view.remote.is_none() {
            let body = JobBody::of(&job, view);
            let body = if caller.may_read() { body } else { body.without_words() };
            return Ok(Json(body).into_response());
        }
    }
    let mut record = known(engine, &caller, &id).await?;
    if !wait.is_zero() && !record.state.is_terminal() {
        let tenant = record.session.tenant();
        record = match engine.job_reaches(id, tenant, Goal::Over, wait).await? {
            Some(record) => record,
            None => known(engine, &caller, &id).await?,
        };
    }
    let tenant = record.session.tenant();
    let answer = if attempts { ask_others(&door, &id, tenant).await } else { None };
    Ok(match answer {
        Some(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        None => Json(JobBody::of_record(id, &record)).into_response(),
    })
}

/// What the instance that looks after a job says of it, as it came; `None` if none does any more.
async fn ask_others(door: &Door, id: &JobId, tenant: &TenantId) -> Option<Bytes> {
    let path = format!("/internal/v1/jobs/{id}?tenant={tenant}");
    let answers = door.ask.others(&door.engine, None, &path).await;
    answers.into_iter().find_map(|answered| answered.said.ok().flatten())
}

/// A job of this instance, for a caller of this tenant on another one. Its result stays here: it may be
/// large, and is for who handed the job in.
pub(super) async fn for_another(engine: &Engine, id: JobId, tenant: &TenantId) -> Option<JobBody> {
    let job = engine.jobs.job(&id).filter(|job| tenant == job.session.tenant())?;
    let view = job.ended_within(Duration::ZERO).await;
    if view.remote.is_some() {
        return None;
    }
    let body = JobBody::of(&job, view);
    Some(body.for_another(engine.instance().id.as_str()))
}

/// Cancel a job of the caller's tenant
///
/// It has no effect on a job that has ended; the answer says how it ended.
#[utoipa::path(
    delete, path = "/v1/job/{job_id}", operation_id = "cancel_job", tag = "jobs",
    params(("job_id" = String, Path, description = "The `job_id` of the answer to its submission")),
    responses((status = 200, body = Cancelled), CancelRefusals)
)]
pub(crate) async fn cancel(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
) -> Answer<Json<Cancelled>> {
    let id: JobId = named("job_id", segment)?;
    let cancelled = give_up(&engine, &caller, id).await;
    // Those who handed it in do so all the time.
    if caller.is_admin() {
        actor.did("job.cancel", &id.to_string(), outcome(&cancelled));
    }
    cancelled
}

async fn give_up(engine: &Engine, caller: &Caller, id: JobId) -> Answer<Json<Cancelled>> {
    if let Some(job) = engine.jobs.job(&id).filter(|job| caller.may_see(job.session.tenant())) {
        job.cancel("caller");
        let view = job.ended_within(CANCEL_WITHIN).await;
        if view.remote.is_none() {
            return Ok(Json(Cancelled { ok: true, state: view.state.as_str() }));
        }
    }
    let record = known(engine, caller, &id).await?;
    if !record.state.is_terminal() {
        let other = "another instance runs this job; cancel it there";
        return Err(refused(Code::Conflict, other));
    }
    Ok(Json(Cancelled { ok: true, state: record.state.as_str() }))
}

/// The store's record of a job of this tenant.
async fn known(engine: &Engine, caller: &Caller, id: &JobId) -> Result<JobRecord, Refused> {
    let record = engine.jobs.record(id).await?;
    let own = record.filter(|record| caller.may_see(record.session.tenant()));
    own.ok_or_else(|| refused(Code::NotFound, "there is no such job"))
}

/// Acknowledge a job
#[utoipa::path(
    post, path = "/v1/job/ack", operation_id = "ack_job", tag = "nodes", request_body = AckRequest,
    responses((status = 200, body = Done), MessageRefusals)
)]
pub(crate) async fn ack(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Done>> {
    let request: AckRequest = body.json(NODE_BODY_BYTES).await?;
    apply(&engine, &caller, request.call()?).await
}

/// End a job with its result
///
/// Repeated, it gets the same answer and has no effect.
#[utoipa::path(
    post, path = "/v1/job/done", operation_id = "done_job", tag = "nodes", request_body = DoneRequest,
    responses((status = 200, body = Done), MessageRefusals)
)]
pub(crate) async fn done(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Done>> {
    let request: DoneRequest = body.json(NODE_BODY_BYTES).await?;
    apply(&engine, &caller, request.call()?).await
}

/// Fail a job
///
/// It is retried on another node.
#[utoipa::path(
    post, path = "/v1/job/fail", operation_id = "fail_job", tag = "nodes", request_body = FailRequest,
    responses((status = 200, body = Done), MessageRefusals)
)]
pub(crate) async fn fail(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Done>> {
    let request: FailRequest = body.json(NODE_BODY_BYTES).await?;
    apply(&engine, &caller, request.call()?).await
}

/// Applies a node's message.
async fn apply(engine: &Engine, caller: &Caller, call: JobCall) -> Answer<Json<Done>> {
    let JobCall { node, attempt, mut message } = call;
    caller.is_node(node.as_str())?;
    let Some(connection) = engine.nodes.connection(&node) else {
        return Err(Refused(Refusal::new(Code::NotFound, "register again")));
    };
    message.job = engine.nodes.masked_id(&connection, message.job);
    let job = message.job;
    if engine.nodes.on_job_message(&connection, message) == MessageOutcome::Stale {
        engine.nodes.may_look_up(&connection)?;
        engine.jobs.past_message(job, &node, attempt).await?;
    }
    Ok(Json(DONE))
}
