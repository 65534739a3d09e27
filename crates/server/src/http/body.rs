//! Bodies: bounded in size, time and memory, read whole, then parsed.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, FromRef, FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::{Answer, Refused, refused};
use crate::identity::Caller;
use crate::listener::Peer;
use crate::unfinished::{Account, Full};
use crate::wire::http::{invalid, parse};

/// Of a node's word about itself or a job: as much as a message on its socket.
pub(crate) const NODE_BODY_BYTES: usize = 16 << 20;

/// Of a job that is handed in.
pub(crate) const DISPATCH_BODY_BYTES: usize = 4 << 20;

/// What is read of a body that is too large, so that its sender gets to read why it is refused.
const READ_AND_DROPPED_BYTES: usize = 64 << 20;

/// Who is refused for want of room comes again after so long.
const RETRY_MS: u64 = 1_000;

/// A body that was not read yet, and at whose expense it will be.
pub(crate) struct Unread {
    pub(crate) headers: HeaderMap,
    body: Body,
    account: Account,
    /// From the first byte to the last.
    within: Duration,
    engine: Engine,
}

impl<S> FromRequest<S> for Unread
where
    S: Send + Sync,
    Engine: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let peer = Extension::<Peer>::from_request_parts(&mut parts, state).await;
        let Extension(peer) = peer.map_err(IntoResponse::into_response)?;
        let mut account = peer.account();
        account.belongs_to(parts.extensions.get::<Caller>().and_then(Caller::tenant));
        let within = Duration::from_millis(peer.limits.message_timeout_ms);
        let engine = Engine::from_ref(state);
        Ok(Unread { headers: parts.headers, body, account, within, engine })
    }
}

/// What became of a body.
#[derive(PartialEq, Debug)]
enum Read {
    Whole(Bytes),
    TooLarge,
    NoRoom(Full),
}

impl Unread {
    /// Reads a JSON body.
    pub(crate) async fn json<T: DeserializeOwned>(self, limit: usize) -> Answer<T> {
        let body = self.bytes(limit).await?;
        Ok(parse(&body)?)
    }

    /// Reads a body as it is.
    pub(crate) async fn bytes(mut self, limit: usize) -> Answer<Bytes> {
        let told = self.headers.get(CONTENT_LENGTH);
        let told = told.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
        let asks_first = self.headers.contains_key(EXPECT);
        if (asks_first && told > limit) || told > READ_AND_DROPPED_BYTES {
            return Err(too_large(limit));
        }
        if asks_first && let Err(full) = self.account.hold(told) {
            return Err(self.no_room(full));
        }
        let read = read(&mut self.body, told, limit, &mut self.account);
        match timeout(self.within, read).await {
            Ok(Ok(Read::Whole(bytes))) => Ok(bytes),
            Ok(Ok(Read::TooLarge)) => Err(too_large(limit)),
            Ok(Ok(Read::NoRoom(full))) => Err(self.no_room(full)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a body broke off");
                Err(invalid("the body broke off").into())
            }
            Err(_) => {
                self.engine.metrics().limited("message_timeout_ms");
                let within = self.within.as_millis();
                Err(invalid(format!("the body did not arrive within {within} ms")).into())
            }
        }
    }

    fn no_room(&self, full: Full) -> Refused {
        self.engine.metrics().limited(full.as_str());
        let detail = format!("no memory for a body of this size ({})", full.as_str());
        Refused(Refusal::new(Code::QuotaExceeded, detail).retry_after(RETRY_MS))
    }
}

fn too_large(limit: usize) -> Refused {
    refused(Code::MessageTooLarge, format!("the body has more than {limit} bytes"))
}

/// The bytes, if they are no more than `limit` and there is room for them.
async fn read(
    body: &mut Body,
    told: usize,
    limit: usize,
    account: &mut Account,
) -> Result<Read, axum::Error> {
    let expected = told.min(limit);
    let mut full = account.hold(expected).err();
    let mut room = if full.is_none() { expected } else { 0 };
    let mut whole = BytesMut::with_capacity(room);
    let mut length = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > READ_AND_DROPPED_BYTES {
            break;
        }
        if full.is_none() && length > room && length <= limit {
            // It did not say how long it is: twice as much each time.
            room = (2 * length).min(limit);
            full = account.hold(room).err();
        }
        if length > limit || full.is_some() {
            whole = BytesMut::new();
            account.release();
        } else if whole.is_empty() && data.len() >= told {
            // The usual small body comes in one piece.
            whole = data.into();
        } else {
            whole.extend_from_slice(&data);
        }
    }
    Ok(match full {
        _ if length > limit => Read::TooLarge,
        Some(full) => Read::NoRoom(full),
        None => Read::Whole(whole.freeze()),
    })
}
