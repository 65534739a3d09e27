//! Jobs are handed in.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_core::{JobId, RequestId};
use lingua_engine::cluster::watches::is_met;
use lingua_engine::job::Refusal;
use lingua_engine::jobs::{Job, Submitted};
use lingua_engine::trace::Context;
use lingua_engine::{Engine, Readiness};
use lingua_protocol::peer::Goal;
use lingua_store::jobs::JobRecord;
use tokio::time::Instant;

use super::body::{DISPATCH_BODY_BYTES, Unread};
use super::error::{Answer, Refused, refusals, refused};
use super::guard::of_tenant;
use crate::identity::Caller;
use crate::wire::http::dispatch::{DispatchRequest, Dispatched, Source};
use crate::wire::http::job::JobBody;
use crate::wire::http::wrong;

refusals!(Refusals: InvalidMessage, MessageTooLarge, InvalidLanguage, NotFound, Conflict,
    RateLimited, QuotaExceeded, JobCancelled, NoCapableNode, PreferredNodeNotCapable, AllNodesBusy, PreferredNodeBusy,
    ModelNotAvailable, NodeUnavailable, JobTimeout, Draining, SchedulerDependencyDown, InternalError);

/// Submit a job
///
/// Answers as soon as the job is sent to a node; with `options.wait_ms`, when it has ended.
#[utoipa::path(
    post, path = "/v1/dispatch/f2f", operation_id = "dispatch_f2f", tag = "jobs", request_body = DispatchRequest,
    params(
        ("traceparent" = Option<String>, Header, description = "The caller's span (W3C Trace Context); an invalid one is ignored"),
        ("Idempotency-Key" = Option<String>, Header, description = "Another name of `request_id`, with or without double quotes around it; if both are given, they are the same"),
    ),
    responses((status = 200, body = Dispatched), Refusals)
)]
pub(crate) async fn f2f(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Dispatched>> {
    let began = Instant::now();
    let (trace, key) = (traceparent(&body.headers), idempotency_key(&body.headers)?);
    let request = DispatchRequest::parse(&body.bytes(DISPATCH_BODY_BYTES).await?)?;
    let order = request.named(key)?.check(engine.settings())?;
    if engine.readiness() == Readiness::Draining {
        return Err(refused(Code::Draining, "this instance is stopping; use another one"));
    }
    let tenant = of_tenant(&caller)?;
    let audio = match &order.audio {
        Source::Here(audio) => audio.clone(),
        Source::Kept(reference) => engine.audio.fetch(&tenant, reference)?,
    };
    let (request, wait) = (order.request.clone(), order.wait);
    let mut spec = order.job(tenant.clone(), audio, engine.chance(), engine.settings());
    spec.trace = trace;
    let submitted = match &request {
        Some(request) => engine.jobs.submit_request(spec, request).await?,
        None => Submitted::Here(engine.jobs.submit(spec)?),
    };
    let job = match submitted {
        Submitted::Here(job) => job,
        Submitted::Remote(id, record) => {
            return remote_job(&engine, id, record, wait).await.map(Json);
        }
    };
    // The request's name leads to the job's, by which the logs go on.
    tracing::debug!("job.id" = %job.id, "a job was handed in");
    let dispatched = job.dispatched().await;
    if let Some(record) = job.remote() {
        return remote_job(&engine, job.id, record, wait).await.map(Json);
    }
    if let (Err(_), Some(request)) = (&dispatched, &request) {
        engine.jobs.release_request(&tenant, request, job.id).await;
    }
    dispatched?;
    Ok(Json(answer(&job, wait.map(|wait| wait.saturating_sub(began.elapsed()))).await?))
}

/// The caller's own span. One that is wrong, or more than one, counts as none.
fn traceparent(headers: &HeaderMap) -> Option<Context> {
    let mut said = headers.get_all("traceparent").iter();
    let only = said.next().filter(|_| said.next().is_none())?;
    Context::parse(only.to_str().ok()?.trim())
}

/// Another name of `request_id`. The draft of the header has double quotes around it, and many leave them out.
fn idempotency_key(headers: &HeaderMap) -> Answer<Option<RequestId>> {
    let mut said = headers.get_all("idempotency-key").iter();
    let Some(key) = said.next() else { return Ok(None) };
    if said.next().is_some() {
        return Err(wrong("Idempotency-Key", "is given more than once").into());
    }
    let text = key.to_str().map_err(|_| wrong("Idempotency-Key", "is no plain text"))?.trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match RequestId::new(quoted.unwrap_or(text)) {
        Ok(id) => Ok(Some(id)),
        Err(error) => Err(wrong("Idempotency-Key", error).into()),
    }
}

async fn answer(job: &Arc<Job>, wait: Option<Duration>) -> Answer<Dispatched> {
    let view = match wait {
        Some(wait) => job.ended_within(wait).await,
        None => job.view(),
    };
    let Some(last) = view.attempts.last() else {
        return Err(refused(Code::InternalError, "the job was sent and has no attempt"));
    };
    Ok(Dispatched {
        job_id: job.id.to_string(),
        node_id: last.node.to_string(),
        attempt_id: last.number,
        notes: view.notes.clone(),
        job: wait.map(|_| JobBody::of(job, view)),
    })
}

/// The same request reached another instance before: the answer that the caller got there.
async fn remote_job(
    engine: &Engine,
    id: JobId,
    mut record: JobRecord,
    wait: Option<Duration>,
) -> Answer<Dispatched> {
    let queue = Duration::from_millis(engine.settings().timing.queue_max_ms);
    let goal = if wait.is_some() { Goal::Over } else { Goal::Placed };
    if !is_met(goal, &record) {
        let wait = wait.unwrap_or(queue).max(queue);
        record = match engine.job_reaches(id, record.session.tenant(), goal, wait).await? {
            Some(record) => record,
            None => engine.jobs.record(&id).await?.ok_or_else(forgotten)?,
        };
    }
    never_sent(&record)?;
    let (node_id, attempt_id) = match &record.assignment {
        Some(assignment) => (assignment.node.to_string(), assignment.token.attempt),
        // It was done by two others, by way of another language.
        None if record.state == JobState::Done => (String::new(), 0),
        None => {
            let waiting = "the job is in line on another instance";
            return Err(Refused(Refusal::new(Code::AllNodesBusy, waiting).retry_after(1_000)));
        }
    };
    Ok(Dispatched {
        job_id: id.to_string(),
        node_id,
        attempt_id,
        notes: vec!["another instance looks after this job".to_owned()],
        job: wait.map(|_| JobBody::of_record(id, &record)),
    })
}

/// A job that ended before any node had it is refused again in the same words.
fn never_sent(record: &JobRecord) -> Result<(), Refused> {
    let code = Code::parse(&record.code).filter(|_| record.state == JobState::Failed);
    match code {
        Some(
            code @ (Code::NoCapableNode
            | Code::AllNodesBusy
            | Code::PreferredNodeNotCapable
            | Code::PreferredNodeBusy
            | Code::NodeUnavailable
            | Code::SchedulerDependencyDown),
        ) => Err(refused(code, "the same request was refused on another instance")),
        _ => Ok(()),
    }
}

fn forgotten() -> Refused {
    refused(Code::NotFound, "the job of this request is no longer known")
}
