//! Who speaks, on all instances.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use lingua_core::outcome::Code;
use lingua_core::session::Routes;
use lingua_core::{InstanceId, Lang, SessionId, TenantId};
use lingua_engine::Engine;
use lingua_engine::sessions::SessionHandle;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Door;
use super::error::{Answer, outcome, refusals, refused};
use super::everywhere::{gather, query};
use super::paging::{self, Page};
use super::query::{Params, Segment, named};
use crate::audit::Actor;
use crate::wire::http::{DONE, Done, within, wrong};

refusals!(SessionRefusals: InvalidMessage, NotFound);
refusals!(OneRefusals: InvalidMessage, NotFound, Conflict);

/// List the sessions of all instances
///
/// Without audio and text. The other instances are asked at the time of the call; those that do not answer
/// are listed in `silent`.
#[utoipa::path(
    get, path = "/api/v1/sessions", operation_id = "list_sessions", tag = "admin",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "Maximum number of entries; 100 if absent"),
        ("after" = Option<String>, Query, description = "`next` of the previous page"),
        ("instance" = Option<String>, Query, description = "Only sessions of this instance"),
        ("tenant" = Option<String>, Query, description = "Only sessions of this tenant"),
        ("connected" = Option<bool>, Query, description = "True: only sessions whose client is connected; false: only the others"),
        ("src" = Option<String>, Query, description = "Only sessions in which this language may be spoken"),
        ("tgt" = Option<String>, Query, description = "Only sessions that are translated into this language; with `src`, in this direction"),
    ),
    responses((status = 200, body = SessionsBody), SessionRefusals)
)]
pub(crate) async fn sessions(
    State(door): State<Door>,
    params: Params,
) -> Answer<Json<SessionsBody>> {
    let page: Page<SessionId> = Page::asked(&params)?;
    let filter = SessionFilter::asked(&params)?;
    let only: Option<InstanceId> = params.get("instance")?;
    // One more than wanted of each is enough to know those that come first of all.
    let path = filter.question(page.after.as_ref(), page.fetch());
    let here = || here(&door.engine, page.after.as_ref(), page.fetch(), &filter);
    let gathered = gather(&door, only.as_ref(), here, &path).await?;
    let instance = door.engine.instance().id.to_string();
    let mut body = SessionsBody { instance, silent: gathered.silent, ..SessionsBody::default() };
    for part in gathered.parts {
        body.add(part, page.fetch());
    }
    body.next = page.cut(&mut body.sessions, |last| last.session_id.clone());
    Ok(Json(body))
}

/// `/internal/v1/sessions`: those of this instance, for another one.
pub(crate) async fn of_this_one(State(engine): State<Engine>, params: Params) -> Answer {
    let limit = within("limit", params.number("limit")?.unwrap_or(1), 1..=paging::MOST + 1)?;
    let after: Option<SessionId> = params.get("after")?;
    let limit = usize::try_from(limit).expect("at most 1001");
    let filter = SessionFilter::asked(&params)?;
    Ok(Json(here(&engine, after.as_ref(), limit, &filter)).into_response())
}

fn here(engine: &Engine, after: Option<&SessionId>, limit: usize, filter: &SessionFilter) -> Part {
    let wanted = |handle: &SessionHandle| {
        filter.takes(handle.key.tenant(), handle.is_connected(), handle.routes())
    };
    let (page, total) = engine.sessions.page(after, limit, wanted);
    Part { sessions: page.iter().map(|handle| body(engine, handle)).collect(), total }
}

fn body(engine: &Engine, handle: &SessionHandle) -> SessionBody {
    SessionBody {
        session_id: handle.key.session().to_string(),
        instance: engine.instance().id.to_string(),
        tenant: handle.key.tenant().to_string(),
        direction: directions(handle.routes()),
        connected: handle.is_connected(),
        utterances: handle.utterances(),
        since_ms: handle.since_ms,
    }
}

/// Each direction, with a comma in between.
fn directions(routes: &Routes) -> String {
    routes.iter().map(|(_, route)| route.to_string()).collect::<Vec<_>>().join(", ")
}

/// Get a session
///
/// On whichever instance it is. The list of jobs has its jobs, with the parameter `session`.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}", operation_id = "get_session", tag = "admin",
    params(
        ("id" = String, Path, description = "The session's id"),
        ("tenant" = Option<String>, Query, description = "Its tenant; needed if sessions of two tenants have this id"),
    ),
    responses((status = 200, body = SessionBody), OneRefusals)
)]
pub(crate) async fn session(
    State(door): State<Door>,
    segment: Segment,
    params: Params,
) -> Answer<Json<SessionBody>> {
    Ok(Json(find(&door, &named("id", segment)?, params.get("tenant")?).await?))
}

/// The one session of this name.
async fn find(door: &Door, id: &SessionId, tenant: Option<TenantId>) -> Answer<SessionBody> {
    let named = [("tenant", tenant.as_ref().map(ToString::to_string))];
    let path = query(&format!("/internal/v1/sessions/{id}"), &named);
    let here = || named_here(&door.engine, id, tenant.as_ref());
    let gathered = gather(door, None, here, &path).await?;
    let mut found: Vec<SessionBody> =
        gathered.parts.into_iter().flat_map(|part| part.sessions).collect();
    if found.iter().any(|one| one.tenant != found[0].tenant) {
        let several = "sessions of several tenants have this id; say which by tenant";
        return Err(refused(Code::Conflict, several));
    }
    // One that moves is with two instances for a moment; the later one has it.
    found.sort_unstable_by_key(|one| one.since_ms);
    found.pop().ok_or_else(|| refused(Code::NotFound, "no session of this id is open"))
}

fn named_here(engine: &Engine, id: &SessionId, tenant: Option<&TenantId>) -> Part {
    let found = engine.sessions.named(id, tenant);
    Part { total: found.len(), sessions: found.iter().map(|one| body(engine, one)).collect() }
}

/// `/internal/v1/sessions/{id}`: those of this name on this instance, for another one.
pub(crate) async fn one_of_this_one(
    State(engine): State<Engine>,
    segment: Segment,
    params: Params,
) -> Answer {
    let (id, tenant): (SessionId, Option<TenantId>) =
        (named("id", segment)?, params.get("tenant")?);
    Ok(Json(named_here(&engine, &id, tenant.as_ref())).into_response())
}

/// Disconnect a session
///
/// Its open jobs are cancelled, its connection is closed with 1008, so that the client does not reconnect, and
/// nothing of it is kept.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/disconnect", operation_id = "disconnect_session", tag = "admin",
    params(
        ("id" = String, Path, description = "The session's id"),
        ("tenant" = Option<String>, Query, description = "Its tenant; needed if sessions of two tenants have this id"),
    ),
    responses((status = 200, body = Done), OneRefusals)
)]
pub(crate) async fn disconnect(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
    params: Params,
) -> Answer<Json<Done>> {
    let id: SessionId = named("id", segment)?;
    let ended = disconnect_anywhere(&door, &id, params.get("tenant")?).await;
    actor.did("session.disconnect", id.as_str(), outcome(&ended));
    ended.map(|()| Json(DONE))
}

async fn disconnect_anywhere(door: &Door, id: &SessionId, tenant: Option<TenantId>) -> Answer<()> {
    let engine = &door.engine;
    let found = find(door, id, tenant).await?;
    let tenant: TenantId = found.tenant.parse().map_err(|error| wrong("tenant", error))?;
    let mut ended = disconnect_here(engine, id, &tenant).await;
    if found.instance != engine.instance().id.as_str() {
        let path = format!("/internal/v1/sessions/{id}/disconnect?tenant={tenant}");
        let answers = door.ask.order(engine, &path).await;
        ended |= answers.into_iter().any(|one| matches!(one.said, Ok(Some(_))));
    }
    match ended {
        true => Ok(()),
        false => Err(refused(Code::NotFound, "no session of this id is open")),
    }
}

async fn disconnect_here(engine: &Engine, id: &SessionId, tenant: &TenantId) -> bool {
    let mut ended = false;
    for handle in engine.sessions.named(id, Some(tenant)) {
        ended |= handle.disconnect().await;
    }
    ended
}

/// `/internal/v1/sessions/{id}/disconnect`: ends one of this instance, for another one.
pub(crate) async fn disconnect_of_this_one(
    State(engine): State<Engine>,
    segment: Segment,
    params: Params,
) -> Answer {
    let id: SessionId = named("id", segment)?;
    let tenant: Option<TenantId> = params.get("tenant")?;
    let ended = match tenant {
        Some(tenant) => disconnect_here(&engine, &id, &tenant).await,
        None => false,
    };
    Ok(match ended {
        true => Json(DONE).into_response(),
        false => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Which sessions are wanted: those that fit everything that is named.
#[derive(Default)]
struct SessionFilter {
    tenant: Option<TenantId>,
    connected: Option<bool>,
    src: Option<Lang>,
    tgt: Option<Lang>,
}

impl SessionFilter {
    fn asked(params: &Params) -> Answer<Self> {
        Ok(SessionFilter {
            tenant: params.get("tenant")?,
            connected: params.flag("connected")?,
            src: params.get("src")?,
            tgt: params.get("tgt")?,
        })
    }

    fn takes(&self, tenant: &TenantId, connected: bool, routes: &Routes) -> bool {
        let fits = |(src, tgt)| {
            self.src.is_none_or(|wanted| wanted == src)
                && self.tgt.is_none_or(|wanted| wanted == tgt)
        };
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
            && self.connected.is_none_or(|wanted| wanted == connected)
            && routes.iter().any(|(_, route)| route.directions().any(fits))
    }

    /// The same for another instance.
    fn question(&self, after: Option<&SessionId>, limit: usize) -> String {
        query(
            "/internal/v1/sessions",
            &[
                ("limit", Some(limit.to_string())),
                ("after", after.map(ToString::to_string)),
                ("tenant", self.tenant.as_ref().map(ToString::to_string)),
                ("connected", self.connected.map(|connected| connected.to_string())),
                ("src", self.src.map(|lang| lang.to_string())),
                ("tgt", self.tgt.map(|lang| lang.to_string())),
            ],
        )
    }
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
    /// The entries of this page.
    sessions: Vec<SessionBody>,
    /// The number of all sessions of the instances that answered.
    total: usize,
    /// Instances that did not answer: their entries are missing.
    silent: Vec<String>,
    /// The `after` of the next page; absent on the last page.
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

/// A session, without its audio and text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SessionBody {
    /// Its name.
    #[schema(example = "s-0123456789abcdef0123")]
    session_id: String,
    /// The instance that owns it.
    #[schema(example = "eu-1")]
    instance: String,
    /// Its tenant.
    #[schema(example = "default")]
    tenant: String,
    /// `src->tgt`, or `a<->b` if either may be spoken; several with a comma in between.
    #[schema(example = "en->zh")]
    direction: String,
    /// Its client is connected.
    connected: bool,
    /// Utterances so far, on that instance.
    utterances: u64,
    /// Since when that instance owns it, in epoch milliseconds.
    since_ms: u64,
}

#[cfg(test)]
mod tests {
    use lingua_core::eligibility::Route;

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
    fn sessions_are_chosen_by_tenant_presence_and_direction() {
        let [acme, other] = ["acme", "other"].map(|name| TenantId::new(name).unwrap());
        let [en, zh, de] = ["en", "zh", "de"].map(|tag| Lang::new(tag).unwrap());
        let takes = |filter: SessionFilter, route| filter.takes(&acme, true, &Routes::one(route));
        let (one_way, two_way) = (Route::Directed(en, zh), Route::Either(de, en));
        let all = SessionFilter::default;
        assert!(takes(all(), one_way) && takes(all(), two_way));
        assert!(!takes(SessionFilter { tenant: Some(other), ..all() }, one_way));
        assert!(!takes(SessionFilter { connected: Some(false), ..all() }, one_way));
        assert!(takes(SessionFilter { connected: Some(true), ..all() }, one_way));
        let pair = |src, tgt| SessionFilter { src, tgt, ..all() };
        assert!(takes(pair(Some(en), Some(de)), two_way), "either may be spoken");
        assert!(!takes(pair(Some(zh), Some(en)), one_way), "it goes one way");
        assert!(takes(pair(None, Some(zh)), one_way) && !takes(pair(None, Some(en)), one_way));
        let several = Routes::new([one_way, Route::Directed(en, de)]).unwrap();
        assert!(pair(None, Some(de)).takes(&acme, true, &several), "one of several targets");
        assert_eq!(directions(&several), "en->zh, en->de");
    }

    #[test]
    fn another_instance_is_asked_for_the_same_sessions() {
        let filter = SessionFilter {
            tenant: TenantId::new("acme").ok(),
            connected: Some(false),
            src: Lang::new("zh-Hant").ok(),
            tgt: None,
        };
        let after = SessionId::new("s-1").unwrap();
        let asked = filter.question(Some(&after), 11);
        let wanted = "limit=11&after=s-1&tenant=acme&connected=false&src=zh-Hant";
        assert_eq!(asked, format!("/internal/v1/sessions?{wanted}"));
        let plain = SessionFilter::default().question(None, 2);
        assert_eq!(plain, "/internal/v1/sessions?limit=2");
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
