//! How a request becomes a WebSocket (RFC 6455, section 4.2).

use std::future::Future;

use axum::Json;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use lingua_core::outcome::Code;
use serde_json::json;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A request that wants to become a WebSocket.
pub(crate) struct Upgrade {
    upgraded: OnUpgrade,
    accept: HeaderValue,
}

/// What it lacks.
pub(crate) struct NotASocket(&'static str);

impl IntoResponse for NotASocket {
    fn into_response(self) -> Response {
        let detail = format!("this is a WebSocket: {}", self.0);
        let body = Json(json!({ "error": Code::InvalidMessage.as_str(), "detail": detail }));
        (StatusCode::BAD_REQUEST, body).into_response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = NotASocket;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotASocket> {
        let headers = &parts.headers;
        if !names(headers, header::CONNECTION, "upgrade") {
            return Err(NotASocket("Connection has to name upgrade"));
        }
        if !names(headers, header::UPGRADE, "websocket") {
            return Err(NotASocket("Upgrade has to be websocket"));
        }
        if !names(headers, header::SEC_WEBSOCKET_VERSION, "13") {
            return Err(NotASocket("Sec-WebSocket-Version has to be 13"));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
            return Err(NotASocket("Sec-WebSocket-Key is missing"));
        };
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let upgraded = parts.extensions.remove::<OnUpgrade>();
        match (accept, upgraded) {
            (Ok(accept), Some(upgraded)) => Ok(Upgrade { upgraded, accept }),
            _ => Err(NotASocket("this connection cannot become one")),
        }
    }
}

/// Whether one of the words of a header is this one.
fn names(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let words = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

impl Upgrade {
    /// Agrees, and serves the stream on a task of its own once the answer is written.
    pub(super) fn agree<F, Served>(self, serve: F) -> Response
    where
        F: FnOnce(TokioIo<Upgraded>) -> Served + Send + 'static,
        Served: Future<Output = ()> + Send + 'static,
    {
        let upgraded = self.upgraded;
        tokio::spawn(async move {
            match upgraded.await {
                Ok(stream) => serve(TokioIo::new(stream)).await,
                Err(error) => tracing::debug!(%error, "a connection ended before it was a socket"),
            }
        });
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        answer
    }
}
