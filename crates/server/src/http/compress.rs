//! Answers compressed with gzip, for who accepts it.
//!
//! Left out: streams (their parts would wait in the compressor), small bodies, and the calls of apps, nodes
//! and instances (`/v1`, `/internal`): an answer that has a secret beside something that an attacker chose
//! tells of the secret by its length once it is compressed, and speech, results and lease tokens are there.

use std::io::Write;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;

/// Below this many bytes the headers weigh more than what is saved.
const LEAST_BYTES: u64 = 1_024;

/// Above this many bytes it is done on a thread that no job waits for.
const INLINE_BYTES: usize = 16 << 10;

/// Whether answers of a call, by its route, may be compressed.
pub(super) fn may_be(path: &str) -> bool {
    !path.starts_with("/v1/") && !path.starts_with("/internal/") && !path.starts_with("/ws/")
}

/// The same answer, compressed if that is worth it.
pub(super) async fn compressed(answer: Response) -> Response {
    if !is_worth_it(&answer) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // Whole already: its length is known.
    let Ok(whole) = body.collect().await.map(|whole| whole.to_bytes()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let bytes = match whole.len() {
        0..=INLINE_BYTES => gzip(&whole),
        _ => {
            let large = whole.clone();
            tokio::task::spawn_blocking(move || gzip(&large)).await.ok().flatten()
        }
    };
    let Some(bytes) = bytes else { return Response::from_parts(parts, Body::from(whole)) };
    let headers = &mut parts.headers;
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.remove(header::CONTENT_LENGTH);
    // The same version in other bytes: a tag of the bytes becomes one of the version (RFC 9110 8.8.1).
    if let Some(tag) = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok())
        && let Ok(weak) = HeaderValue::from_str(&format!("W/{}", tag.trim_start_matches("W/")))
    {
        headers.insert(header::ETAG, weak);
    }
    Response::from_parts(parts, Body::from(bytes))
}

fn is_worth_it(answer: &Response) -> bool {
    let headers = answer.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") && kind != "text/event-stream";
    let is_known = matches!(
        kind,
        "application/json"
            | "application/problem+json"
            | "application/openmetrics-text"
            | "application/javascript"
            | "image/svg+xml"
    );
    (is_text || is_known)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && answer.body().size_hint().exact().is_some_and(|bytes| bytes >= LEAST_BYTES)
}

/// `None` if it does not get smaller.
fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() < bytes.len()).then(|| compressed.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn answer(kind: &'static str, body: impl Into<Body>) -> Response {
        ([(header::CONTENT_TYPE, kind), (header::ETAG, "\"v1\"")], body.into()).into_response()
    }

    #[tokio::test]
    async fn large_texts_are_compressed_and_come_back_as_they_were() {
        for length in [1_024, INLINE_BYTES, INLINE_BYTES + 1, 1 << 20] {
            let text: String = (0..)
                .map(|n| format!("{n},"))
                .flat_map(|n| n.into_bytes())
                .take(length)
                .map(char::from)
                .collect();
            let told = compressed(answer("application/json", text.clone())).await;
            assert_eq!(told.headers()["content-encoding"], "gzip", "{length}");
            assert_eq!(told.headers()["etag"], "W/\"v1\"", "{length}");
            let bytes = told.into_body().collect().await.unwrap().to_bytes();
            assert!(bytes.len() < length / 2, "{length}: {}", bytes.len());
            let mut read = String::new();
            GzDecoder::new(&bytes[..]).read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }

    #[tokio::test]
    async fn small_bodies_streams_and_what_is_no_text_stay_as_they_are() {
        let stream =
            futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; 9_999]))]);
        for left in [
            answer("application/json", "a".repeat(1_023)),
            answer("text/event-stream", "a".repeat(9_999)),
            answer("application/json", Body::from_stream(stream)),
            answer("audio/wav", "a".repeat(9_999)),
        ] {
            let told = compressed(left).await;
            assert!(!told.headers().contains_key("content-encoding"), "{told:?}");
            assert_eq!(told.headers()["etag"], "\"v1\"");
        }
    }

    #[test]
    fn what_has_speech_or_tokens_in_it_is_left_out() {
        for path in ["/v1/job/{job_id}", "/v1/node/register", "/internal/v1/bodies/{names}"] {
            assert!(!may_be(path), "{path}");
        }
        for path in ["/api/v1/nodes", "/metrics", "/openapi.json", "/dashboard/{file}", "/"] {
            assert!(may_be(path), "{path}");
        }
    }
}
