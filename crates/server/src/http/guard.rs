//! Who may call what: asked before a handler is.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use tokio::time::Instant;

use super::error::{RefusalReason, Refused, nothing_at, refused};
use super::query;
use crate::audit::{Actor, Audit, Call};
use crate::identity::{Authenticator, BearerToken, Caller, Role, other_role};
use crate::listener::Peer;
use crate::peers;
use crate::peers::ask::is_a_question;
use crate::tls::Certified;

/// Who may call a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// Nobody is asked.
    Everybody,
    /// Those who have one of these roles.
    These(&'static [Role]),
    /// A socket: it is asked in its first message, unless it has shown a token before.
    Socket(Role),
    /// Other instances: they sign what they ask for, and with TLS show a certificate.
    Peers(Mark),
}

/// How an instance signs a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// For bodies: what people said and nodes answered.
    Bodies,
    /// For what operators ask or order.
    Question,
}

impl Mark {
    /// Refuses a request without it. Where questions are asked, nobody else learns that there is anything.
    fn is_on(self, engine: &Engine, headers: &HeaderMap, uri: &Uri) -> Result<(), Refused> {
        match self {
            Mark::Bodies if peers::asks_for_bodies(engine, headers, uri) => Ok(()),
            Mark::Bodies => {
                let detail = "this is for other instances, who sign what they ask for";
                Err(Refused(Refusal::new(Code::Forbidden, detail).because("not_an_instance")))
            }
            Mark::Question if is_a_question(engine, headers, uri) => Ok(()),
            Mark::Question => Err(nothing_at(uri)),
        }
    }
}

impl Who {
    /// Whether it belongs to the administrators' listener, if there is one.
    pub(crate) fn is_admin(self) -> bool {
        matches!(self, Who::These(roles) if roles.iter().all(|role| role.is_operators()))
    }
}

/// What a guard goes by.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) engine: Engine,
    pub(crate) who: Who,
    pub(crate) path: &'static str,
}

/// Lets a request through with its [`Caller`], or refuses it.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let call = guard.audit.is_on().then(|| Call::of(&request, guard.path));
    let (caller, answer) = guard.ask(request, next, call.as_ref()).await;
    if let Some(RefusalReason(reason)) = answer.extensions().get() {
        guard.audit.refused(&caller, call.as_ref(), reason);
    }
    answer
}

impl Guard {
    async fn ask(
        &self,
        mut request: Request,
        next: Next,
        call: Option<&Call>,
    ) -> (Caller, Response) {
        // Anybody may follow a link to a page.
        let origin = match self.who {
            Who::Everybody => Ok(()),
            _ => self.authenticator.may_come_from(request.headers()),
        };
        if let Err(refusal) = origin {
            return (Caller::Anyone, Refused(refusal).into_response());
        }
        let mut known = Caller::Anyone;
        let peer = request.extensions().get::<Peer>();
        let certified = peer.and_then(|peer| peer.certified.as_deref());
        match self.who {
            Who::Everybody => {}
            Who::Peers(mark) if self.authenticator.is_peer(certified, self.now_s()) => {
                if let Err(refused) = mark.is_on(&self.engine, request.headers(), request.uri()) {
                    return (known, refused.into_response());
                }
            }
            Who::Peers(_) => {
                let detail = "this is for other instances, by their certificates";
                let refusal = Refusal::new(Code::Forbidden, detail).because("no_certificate");
                return (known, Refused(refusal).into_response());
            }
            Who::These(roles) => match self.caller(request.headers(), certified, roles) {
                Ok(caller) => {
                    let called = self
                        .may_call(&caller, peer)
                        .and_then(|()| query::known(request.method(), self.path, request.uri()));
                    if let Err(refusal) = called {
                        return (caller, Refused(refusal).into_response());
                    }
                    self.audit.used(&caller, call);
                    known = caller.clone();
                    self.may_act(&caller, &mut request);
                    request.extensions_mut().insert(caller);
                }
                Err(refusal) => {
                    let shown = token(request.headers()).ok().flatten();
                    return (self.authenticator.whose(shown), challenge(refusal));
                }
            },
            Who::Socket(_) => match token(request.headers()) {
                Ok(token) => {
                    let shown = BearerToken(token.map(Arc::from));
                    request.extensions_mut().insert(shown);
                }
                Err(refusal) => return (known, challenge(refusal)),
            },
        }
        (known, next.run(request).await)
    }

    /// An administrator's orders are written down.
    fn may_act(&self, caller: &Caller, request: &mut Request) {
        if matches!(self.who, Who::These(roles) if roles.contains(&Role::Admin)) {
            let address = request.extensions().get::<Peer>().map(|peer| peer.address);
            let (audit, caller) = (Arc::clone(&self.audit), caller.clone());
            request.extensions_mut().insert(Actor { audit, caller, address });
        }
    }

    /// Refuses a subject that calls too often.
    fn may_call(&self, caller: &Caller, peer: Option<&Peer>) -> Result<(), Refusal> {
        let (Caller::Known(known), Some(peer)) = (caller, peer) else { return Ok(()) };
        let per_s = peer.limits.calls_per_subject_per_s;
        let called = self.authenticator.subjects.call(known, per_s, Instant::now());
        called.inspect_err(|_| self.engine.metrics().limited("calls_per_subject_per_s"))
    }

    fn now_s(&self) -> u64 {
        self.engine.now_ms() / 1_000
    }

    fn caller(
        &self,
        headers: &HeaderMap,
        certified: Option<&Certified>,
        roles: &[Role],
    ) -> Result<Caller, Refusal> {
        let now_s = self.now_s();
        let caller = match roles {
            [Role::Node] if self.authenticator.is_open() => {
                self.authenticator.node(certified, None, now_s)?
            }
            [Role::Node] => self.authenticator.node(certified, token(headers)?, now_s)?,
            _ if self.authenticator.is_open() => Caller::Anyone,
            _ => self.authenticator.caller(token(headers)?, now_s)?,
        };
        match &caller {
            Caller::Known(known) if !roles.contains(&known.role) => {
                Err(other_role(roles, known.role))
            }
            _ => Ok(caller),
        }
    }
}

/// What is shown in `Authorization`.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let shown = value.to_str().ok().and_then(|text| text.split_once(' '));
    match shown {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => {
            let detail = "Authorization: is Bearer and a token";
            Err(Refusal::new(Code::Unauthorized, detail).because("malformed_header"))
        }
    }
}

fn challenge(refusal: Refusal) -> Response {
    let unauthorized = refusal.code == Code::Unauthorized;
    let mut answer = Refused(refusal).into_response();
    if unauthorized {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// What is asked of one tenant's caller and cannot be without a tenant.
pub(crate) fn of_tenant(caller: &Caller) -> Result<lingua_core::TenantId, Refused> {
    caller.tenant().ok_or_else(|| refused(Code::Forbidden, "the token is no tenant's"))
}
