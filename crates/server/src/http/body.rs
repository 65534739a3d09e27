//! Bodies: bounded in size and time, read whole, then parsed.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use lingua_core::outcome::Code;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::{Answer, Refused, refused};
use crate::wire::http::{invalid, parse};

/// Of a node's word about itself or a job: as much as a message on its socket.
pub(crate) const NODE_BODY_BYTES: usize = 16 << 20;

/// Of a job that is handed in.
pub(crate) const DISPATCH_BODY_BYTES: usize = 4 << 20;

/// From the first byte to the last.
const WITHIN: Duration = Duration::from_secs(30);

/// What is read of a body that is too large, so that its sender gets to read why it is refused.
const READ_AND_DROPPED_BYTES: usize = 64 << 20;

/// Reads a JSON body.
pub(crate) async fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Answer<T> {
    let body = bytes(headers, body, limit).await?;
    Ok(parse(&body)?)
}

/// Reads a body as it is.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body, limit: usize) -> Answer<Bytes> {
    let told = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let told: usize = told.unwrap_or(0);
    let asks_first = headers.contains_key(EXPECT) && told > limit;
    if asks_first || told > READ_AND_DROPPED_BYTES {
        return Err(too_large(limit));
    }
    match timeout(WITHIN, read(body, told, limit)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large(limit)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a body broke off");
            Err(invalid("the body broke off").into())
        }
        Err(_) => {
            Err(invalid(format!("the body did not arrive within {} s", WITHIN.as_secs())).into())
        }
    }
}

fn too_large(limit: usize) -> Refused {
    refused(Code::MessageTooLarge, format!("the body has more than {limit} bytes"))
}

/// The bytes; `None` if there are more than `limit`.
async fn read(mut body: Body, told: usize, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut whole = BytesMut::with_capacity(told.min(limit));
    let mut length = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > READ_AND_DROPPED_BYTES {
            return Ok(None);
        }
        if length > limit {
            whole = BytesMut::new();
        } else if whole.is_empty() && data.len() >= told {
            // The usual small body comes in one piece.
            whole = data.into();
        } else {
            whole.extend_from_slice(&data);
        }
    }
    Ok((length <= limit).then(|| whole.freeze()))
}
