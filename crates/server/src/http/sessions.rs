//! Who speaks, on all instances.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::IntoResponse;
use lingua_core::outcome::Code;
use lingua_core::{InstanceId, SessionId};
use lingua_engine::Engine;
use lingua_engine::sessions::Handle;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Door;
use super::error::{Answer, not_found, refusals, refused};
use super::query::Params;
use crate::peers::ask::is_a_question;
use crate::wire::http::within;

/// Sessions in one answer, unless more are asked for, and at most.
const SESSIONS: (u64, u64) = (100, 1_000);

refusals!(SessionRefusals: InvalidMessage, NotFound);

/// List the sessions of all instances
///
/// Who speaks, not what is said. The others are asked for theirs in this moment; one that does not
/// answer is named.
#[utoipa::path(
    get, path = "/api/v1/sessions", operation_id = "list_sessions", tag = "admin",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "At most so many; 100 if absent"),
        ("after" = Option<String>, Query, description = "Only sessions behind this one, by name"),
        ("instance" = Option<String>, Query, description = "Only those of this instance"),
    ),
    responses((status = 200, body = SessionsBody), SessionRefusals)
)]
pub(crate) async fn sessions(
    State(door): State<Door>,
    params: Params,
) -> Answer<Json<SessionsBody>> {
    let (usual, most) = SESSIONS;
    let limit = within("limit", params.get("limit")?.unwrap_or(usual), 1..=most)?;
    let limit = usize::try_from(limit).expect("at most 1000");
    let after: Option<SessionId> = params.get("after")?;
    let only: Option<InstanceId> = params.get("instance")?;
    let engine = &door.engine;
    let me = &engine.instance().id;
    let known = |id: &InstanceId| id == me || engine.peers().iter().any(|(peer, _)| peer.id == *id);
    if only.as_ref().is_some_and(|only| !known(only)) {
        return Err(refused(Code::NotFound, "there is no such instance"));
    }

    // One more than wanted of each is enough to know those that come first of all.
    let mut body = SessionsBody { instance: me.to_string(), ..SessionsBody::default() };
    if only.as_ref().is_none_or(|only| only == me) {
        body.add(here(engine, after.as_ref(), limit + 1), limit + 1);
    }
    if only.as_ref() != Some(me) {
        let path = match &after {
            Some(after) => format!("/internal/v1/sessions?limit={}&after={after}", limit + 1),
            None => format!("/internal/v1/sessions?limit={}", limit + 1),
        };
        let only = only.as_ref().map(InstanceId::as_str);
        for answered in door.ask.others(engine, only, &path).await {
            let said = answered.said.ok().flatten();
            match said.and_then(|said| serde_json::from_slice::<Part>(&said).ok()) {
                Some(part) => body.add(part, limit + 1),
                None => body.silent.push(answered.instance),
            }
        }
    }
    body.silent.sort_unstable();
    if body.sessions.len() > limit {
        body.sessions.truncate(limit);
        body.next = body.sessions.last().map(|last| last.session_id.clone());
    }
    Ok(Json(body))
}

/// `/internal/v1/sessions`: those of this instance, for another one.
pub(crate) async fn of_this_one(
    State(engine): State<Engine>,
    headers: HeaderMap,
    uri: Uri,
    params: Params,
) -> Answer {
    if !is_a_question(&engine, &headers, &uri) {
        return Err(not_found(uri).await);
    }
    let limit = within("limit", params.get("limit")?.unwrap_or(1), 1..=SESSIONS.1 + 1)?;
    let after: Option<SessionId> = params.get("after")?;
    let limit = usize::try_from(limit).expect("at most 1001");
    Ok(Json(here(&engine, after.as_ref(), limit)).into_response())
}

fn here(engine: &Engine, after: Option<&SessionId>, limit: usize) -> Part {
    let (page, total) = engine.sessions.page(after, limit);
    let body = |handle: &Arc<Handle>| SessionBody {
        session_id: handle.key.session().to_string(),
        instance: engine.instance().id.to_string(),
        tenant: handle.key.tenant().to_string(),
        direction: handle.route.to_string(),
        connected: handle.is_connected(),
        utterances: handle.utterances(),
        since_ms: handle.since_ms,
    };
    Part { sessions: page.iter().map(body).collect(), total }
}

/// What one instance says of its sessions.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    sessions: Vec<SessionBody>,
    total: usize,
}

/// Sessions by name.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct SessionsBody {
    /// The instance that answers.
    #[schema(example = "eu-1")]
    instance: String,
    /// Those of this page.
    sessions: Vec<SessionBody>,
    /// How many there are in all, as far as instances answered.
    total: usize,
    /// Instances that did not answer: theirs are not among these.
    silent: Vec<String>,
    /// Give this as `after` for those that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl SessionsBody {
    /// Takes in what one instance has; of all of them the first so many are kept.
    fn add(&mut self, part: Part, most: usize) {
        self.total += part.total;
        self.sessions.extend(part.sessions);
        self.sessions.sort_unstable_by(|a, b| {
            (&a.session_id, &a.tenant, &a.instance).cmp(&(&b.session_id, &b.tenant, &b.instance))
        });
        self.sessions.truncate(most);
    }
}

/// A session, without what is said in it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SessionBody {
    /// Its name.
    #[schema(example = "s-0123456789abcdef0123")]
    session_id: String,
    /// The instance that looks after it.
    #[schema(example = "eu-1")]
    instance: String,
    /// Whose it is.
    #[schema(example = "default")]
    tenant: String,
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    direction: String,
    /// Its client is there.
    connected: bool,
    /// Utterances so far, on that instance.
    utterances: u64,
    /// Since when that instance has it, in epoch milliseconds.
    since_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(instance: &str, names: &[&str], total: usize) -> Part {
        let session = |name: &&str| SessionBody {
            session_id: (*name).to_owned(),
            instance: instance.to_owned(),
            tenant: "default".to_owned(),
            direction: "en->zh".to_owned(),
            connected: true,
            utterances: 0,
            since_ms: 0,
        };
        Part { sessions: names.iter().map(session).collect(), total }
    }

    #[test]
    fn of_several_instances_the_first_by_name_are_kept() {
        let mut body = SessionsBody::default();
        body.add(part("a", &["s-1", "s-4", "s-6"], 30), 3);
        body.add(part("b", &["s-2", "s-3", "s-9"], 40), 3);
        let names: Vec<_> = body.sessions.iter().map(|one| one.session_id.as_str()).collect();
        assert_eq!((names, body.total), (vec!["s-1", "s-2", "s-3"], 70));
    }
}
