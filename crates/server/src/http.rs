//! Every route, on one screen. Handlers parse, call one service and render.

mod accept;
mod admin;
mod all_jobs;
mod asyncapi;
mod audio;
mod board;
mod catalogue;
mod dashboard;
mod bodies;
mod body;
mod compress;
mod cors;
mod dispatch;
mod edge;
mod error;
mod everywhere;
mod explain;
pub(crate) mod guard;
mod health;
mod jobs;
mod languages;
mod metrics;
mod nodes;
mod openapi;
mod owner;
mod pages;
mod paging;
mod query;
mod request_id;
mod revocations;
mod sessions;
mod talk;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use lingua_engine::Engine;
use tokio::net::TcpListener;

use crate::audit::Audit;
use crate::catalogue::CatalogueCache;
use crate::identity::{Authenticator, Role, listed};
use crate::peers::ask::Ask;
use crate::tls::Trust;
use board::Readers;
use edge::Edge;
use guard::{Guard, Mark, Who};
use nodes::{Endpoints, HttpNodes};

/// Every call of this door, and whose it is.
fn routes() -> Vec<Route> {
    vec![
        post("/v1/dispatch/f2f", SESSION, dispatch::f2f),
        get("/v1/job/{job_id}", JOB_READERS, jobs::view),
        delete("/v1/job/{job_id}", CANCELLERS, jobs::cancel),
        post("/v1/audio", SESSION, audio::keep),
        get("/v1/audio/{ref}", SESSION, audio::fetch),
        get("/v1/languages", SESSION, languages::languages),
        post("/v1/node/register", NODE, nodes::register),
        post("/v1/node/heartbeat", NODE, nodes::heartbeat),
        get("/v1/node/{id}/jobs", NODE, nodes::next),
        get("/v1/node/{id}", NODE, owner::view),
        post("/v1/node/{id}/resume", NODE, owner::resume),
        post("/v1/job/ack", NODE, jobs::ack),
        post("/v1/job/done", NODE, jobs::done),
        post("/v1/job/fail", NODE, jobs::fail),
        get("/api/v1/nodes", VIEWERS, admin::nodes),
        get("/api/v1/nodes/{id}", VIEWERS, admin::node),
        post("/api/v1/nodes/{id}/drain", ADMIN, admin::drain),
        post("/api/v1/nodes/{id}/resume", ADMIN, admin::resume),
        post("/api/v1/nodes/{id}/block", ADMIN, admin::block),
        get("/api/v1/revocations", VIEWERS, revocations::list),
        post("/api/v1/revocations", ADMIN, revocations::revoke),
        get("/api/v1/pools", VIEWERS, admin::pools),
        get("/api/v1/explain", VIEWERS, explain::explain),
        get("/api/v1/stats", VIEWERS, board::stats),
        get("/api/v1/history", VIEWERS, board::history),
        get("/api/v1/usage", VIEWERS, usage::usage),
        get("/api/v1/catalogue", VIEWERS, catalogue::catalogue),
        get("/api/v1/cluster", VIEWERS, board::cluster),
        get("/api/v1/nodes/{id}/history", VIEWERS, board::node_history),
        get("/api/v1/jobs", VIEWERS, all_jobs::jobs),
        get("/api/v1/jobs/{job_id}", VIEWERS, all_jobs::job),
        post("/api/v1/jobs/{job_id}/cancel", ADMIN, all_jobs::cancel),
        get("/api/v1/sessions", VIEWERS, sessions::sessions),
        get("/api/v1/sessions/{id}", VIEWERS, sessions::session),
        post("/api/v1/sessions/{id}/disconnect", ADMIN, sessions::disconnect),
        get("/api/v1/events", VIEWERS, board::events),
        get("/health", Who::Everybody, health::health),
        get("/ready", Who::Everybody, health::ready),
        get("/metrics", METRICS_READERS, metrics::metrics),
        get("/openapi.json", Who::Everybody, openapi::openapi),
        get("/asyncapi.json", Who::Everybody, asyncapi::asyncapi),
        get("/", Who::Everybody, dashboard::root),
        get("/dashboard", Who::Everybody, |asked| dashboard::DASHBOARD.index(asked)),
        get("/dashboard/{file}", Who::Everybody, |name, uri, asked| {
            dashboard::DASHBOARD.file(name, uri, asked)
        }),
        get("/cluster", Who::Everybody, dashboard::root),
        get("/models", Who::Everybody, dashboard::root),
        get("/languages", Who::Everybody, dashboard::root),
        get("/compute-power", Who::Everybody, dashboard::root),
        get("/talk", Who::Everybody, |asked| talk::TALK.index(asked)),
        get("/talk/{*file}", Who::Everybody, |name, uri, asked| talk::TALK.file(name, uri, asked)),
        get("/node", Who::Everybody, |asked| owner::NODE_PAGE.index(asked)),
        get("/node/{file}", Who::Everybody, |name, uri, asked| {
            owner::NODE_PAGE.file(name, uri, asked)
        }),
        get("/internal/v1/bodies/{names}", BODY_READERS, bodies::bodies),
        get("/internal/v1/sessions", PEERS, sessions::of_this_one),
        get("/internal/v1/sessions/{id}", PEERS, sessions::one_of_this_one),
        post("/internal/v1/sessions/{id}/disconnect", PEERS, sessions::disconnect_of_this_one),
        get("/internal/v1/jobs", PEERS, all_jobs::of_this_one),
        get("/internal/v1/jobs/{job_id}", PEERS, all_jobs::one_of_this_one),
        post("/internal/v1/jobs/{job_id}/cancel", PEERS, all_jobs::cancel_of_this_one),
        get("/internal/v1/nodes/{id}/history", PEERS, board::node_history_of_this_one),
        get("/ws/node", Who::Socket(Role::Node), crate::ws::node),
        get("/ws/session", Who::Socket(Role::Session), crate::ws::session),
    ]
}

/// A call.
struct Route {
    method: Method,
    path: &'static str,
    who: Who,
    handler: MethodRouter<Door>,
}

macro_rules! methods {
    ($($name:ident $method:ident),+) => {$(
        fn $name<H, T>(path: &'static str, who: Who, handler: H) -> Route
        where
            H: Handler<T, Door>,
            T: 'static,
        {
            Route { method: Method::$method, path, who, handler: axum::routing::$name(handler) }
        }
    )+};
}

methods!(get GET, post POST, delete DELETE);

/// The calls by method and path, and who may make them; for manuals and tests.
pub fn calls() -> Vec<(String, &'static str, String)> {
    let whose = |who| match who {
        Who::Everybody => "everybody".to_owned(),
        Who::These(roles) => listed(roles),
        Who::Socket(role) => format!("{} socket", role.as_str()),
        Who::Peers(_) => "peers".to_owned(),
    };
    routes().iter().map(|route| (route.method.to_string(), route.path, whose(route.who))).collect()
}

/// Which calls a listener takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    All,
    /// There is another listener for administrators.
    WithoutAdmin,
    /// It is that one.
    Admin,
}

/// The HTTP edge of an engine.
pub(crate) fn router(door: Door, part: Part) -> Router {
    let mut router = Router::new();
    for Route { path, who, handler, .. } in routes() {
        let is_here = match part {
            Part::All => true,
            Part::WithoutAdmin => !is_admins(path, who),
            Part::Admin => is_admins(path, who) || is_probe(path),
        };
        if is_here {
            let (authenticator, audit) = (Arc::clone(&door.authenticator), Arc::clone(&door.audit));
            let guard = Guard { authenticator, audit, engine: door.engine.clone(), who, path };
            let guarded = from_fn_with_state(guard, guard::guard);
            router = router.route(path, handler.layer(guarded));
        }
    }
    let edge = Edge { authenticator: Arc::clone(&door.authenticator), tls: door.tls };
    router
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(from_fn_with_state(edge, edge::edge))
        .with_state(door)
}

/// What goes to the administrators' own listener.
fn is_admins(path: &str, who: Who) -> bool {
    who.is_admin() || path.starts_with("/dashboard") || LEAD_THERE.contains(&path)
}

/// Paths that lead to the dashboard; all but the first are pages of the older scheduler.
const LEAD_THERE: [&str; 5] = ["/", "/cluster", "/models", "/languages", "/compute-power"];

/// What every listener answers.
fn is_probe(path: &str) -> bool {
    ["/health", "/ready", "/openapi.json", "/asyncapi.json"].contains(&path)
}

/// Other instances, with the mark that each kind of request has.
const PEERS: Who = Who::Peers(Mark::Question);
const BODY_READERS: Who = Who::Peers(Mark::Bodies);

const SESSION: Who = Who::These(&[Role::Session]);
const NODE: Who = Who::These(&[Role::Node]);
const ADMIN: Who = Who::These(&[Role::Admin]);
/// Who reads how everything stands. What changes something is for [`ADMIN`].
const VIEWERS: Who = Who::These(&[Role::Admin, Role::Viewer]);
const METRICS_READERS: Who = Who::These(&[Role::Admin, Role::Viewer, Role::Metrics]);

/// A tenant's jobs are also an operator's to follow, without what was said.
const JOB_READERS: Who = Who::These(&[Role::Session, Role::Admin, Role::Viewer]);

/// Who may give a tenant's jobs up; an administrator those of every tenant.
const CANCELLERS: Who = Who::These(&[Role::Session, Role::Admin]);

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Door {
    engine: Engine,
    /// Who decides who somebody is.
    authenticator: Arc<Authenticator>,
    /// Where it is written down who did what.
    audit: Arc<Audit>,
    /// The nodes that registered through this door.
    nodes: Arc<HttpNodes>,
    /// What calls the endpoints of those that gave one.
    endpoints: Endpoints,
    /// The services that exist.
    catalogue: CatalogueCache,
    /// Who follows how everything stands.
    readers: Readers,
    /// What asks other instances for who looks.
    ask: Ask,
    /// Everything here goes over TLS.
    tls: bool,
    /// Where this process listens.
    listeners: Arc<[SocketAddr]>,
}

impl Door {
    /// `peers` says how other instances are met.
    pub(crate) fn new(
        engine: Engine,
        authenticator: Arc<Authenticator>,
        audit: Arc<Audit>,
        peers: Trust,
    ) -> Self {
        let nodes = HttpNodes::start(Arc::clone(&engine.nodes));
        let (endpoints, readers, ask) = (Endpoints::new(), Readers::default(), Ask::new(peers));
        let listeners = Arc::new([]);
        let catalogue = CatalogueCache::default();
        Door {
            engine,
            authenticator,
            audit,
            nodes,
            endpoints,
            catalogue,
            readers,
            ask,
            tls: false,
            listeners,
        }
    }

    /// The same with a catalogue of services.
    pub(crate) fn with_catalogue(self, catalogue: CatalogueCache) -> Self {
        Door { catalogue, ..self }
    }

    /// The same behind these listeners, which speak TLS or do not.
    pub(crate) fn behind(
        self,
        public: &TcpListener,
        admin: &Option<TcpListener>,
        tls: bool,
    ) -> Self {
        let listeners = [Some(public), admin.as_ref()].into_iter().flatten();
        let listeners = listeners.filter_map(|listener| listener.local_addr().ok());
        Door { tls, listeners: listeners.collect(), ..self }
    }
}

impl FromRef<Door> for Arc<Authenticator> {
    fn from_ref(door: &Door) -> Arc<Authenticator> {
        Arc::clone(&door.authenticator)
    }
}

impl FromRef<Door> for Arc<Audit> {
    fn from_ref(door: &Door) -> Arc<Audit> {
        Arc::clone(&door.audit)
    }
}

impl FromRef<Door> for CatalogueCache {
    fn from_ref(door: &Door) -> CatalogueCache {
        door.catalogue.clone()
    }
}

impl FromRef<Door> for Engine {
    fn from_ref(door: &Door) -> Engine {
        door.engine.clone()
    }
}
