//! Tokens that are no longer good although they have not expired.

use axum::Json;
use axum::extract::{Extension, State};
use lingua_core::outcome::Code;
use lingua_engine::job::store_down;
use lingua_store::rates::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Door;
use super::body::Unread;
use super::error::{Answer, Refused, outcome, refusals, refused};
use crate::audit::Actor;
use crate::identity::{Role, of_tokens};
use crate::wire::http::{DONE, Done, invalid};

/// Of the body.
const BODY_BYTES: usize = 4 << 10;

refusals!(Refusals: InvalidMessage, MessageTooLarge, QuotaExceeded, SchedulerDependencyDown);

/// Which tokens: one by its `jti`, or all of a subject that are good now. Newer ones of the subject are good if their
/// `nbf` is more than `identity.leeway_s` from now.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Revocation {
    /// The token's own name.
    #[schema(example = "6f0c1e22a4b94d0f8c5d7a1b2e3f4a5b")]
    jti: Option<String>,
    /// `session`, `node`, `admin`, `viewer` or `metrics`, with `subject`.
    #[schema(value_type = Option<String>, example = "node")]
    role: Option<Role>,
    /// Whose tokens.
    #[schema(example = "node-1")]
    subject: Option<String>,
}

/// What is revoked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Revocations {
    /// `jti:…` or `sub:role:subject:until`, the last in epoch seconds.
    revoked: Vec<String>,
}

/// Revoke tokens
///
/// All instances refuse them within `identity.recheck_ms`, and close the sockets that were opened with them.
#[utoipa::path(
    post, path = "/api/v1/revocations", operation_id = "revoke_tokens", tag = "admin", request_body = Revocation,
    responses((status = 200, body = Done), Refusals)
)]
pub(crate) async fn revoke(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    body: Unread,
) -> Answer<Json<Done>> {
    let revocation: Revocation = body.json(BODY_BYTES).await?;
    let now_s = door.engine.now_ms() / 1_000;
    let mark = match (revocation.jti, revocation.role, revocation.subject) {
        (Some(jti), None, None) if is_plain(&jti) => format!("jti:{jti}"),
        (None, Some(role), Some(subject)) if is_plain(&subject) => {
            door.authenticator.mark_of_subject(role, &subject, now_s)
        }
        _ => {
            let wrong = "send jti, or role and subject; names are 1 to 64 letters, digits and ._@-";
            return Err(invalid(wrong).into());
        }
    };
    let mark = Name::new(mark).map_err(|error| invalid(error.to_string()))?;
    let done = revoke_all(&door, &mark, now_s).await;
    actor.did("token.revoke", mark.as_str(), outcome(&done));
    done
}

async fn revoke_all(door: &Door, mark: &Name, now_s: u64) -> Answer<Json<Done>> {
    let revocations = &door.engine.store().revocations;
    let marked = revocations
        .add(mark, door.authenticator.revoked_for())
        .await
        .map_err(|error| store_down(&error))?;
    if !marked {
        let full = "the revocation list is full; change the key instead";
        return Err(refused(Code::QuotaExceeded, full));
    }
    let marks = revocations.list().await.map_err(|error| store_down(&error))?;
    // What the store lost it is told by whoever follows the list.
    door.authenticator.follow(&marks, now_s);
    tracing::info!(mark = mark.as_str(), "revoked");
    Ok(Json(DONE))
}

/// List the revocations
#[utoipa::path(
    get, path = "/api/v1/revocations", operation_id = "list_revocations", tag = "admin",
    responses((status = 200, body = Revocations), Refusals)
)]
pub(crate) async fn list(State(door): State<Door>) -> Answer<Json<Revocations>> {
    let marks = door.engine.store().revocations.list().await;
    let marks = marks.map_err(|error| Refused(store_down(&error)))?;
    let mut revoked: Vec<String> = of_tokens(&marks).map(|mark| mark.as_str().to_owned()).collect();
    revoked.sort_unstable();
    Ok(Json(Revocations { revoked }))
}

fn is_plain(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(known)
}
