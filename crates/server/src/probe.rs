//! `lingua probe`: asks a scheduler how it is, for containers and scripts that have no HTTP client.

use std::time::Duration;

use axum::http::Uri;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::cli::{Failure, Probe};
use crate::runtime::runtime;
use crate::tls::{Connector, whole};

/// For the answer; a container is asked every few seconds.
const LIMIT: Duration = Duration::from_secs(3);

/// Of the answer; ours are some hundred bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Succeeds if the scheduler is alive, or ready if that is asked for.
pub(crate) fn run(options: &Probe) -> Result<(), Failure> {
    let runtime = runtime()?;
    let url = options.url.trim_end_matches('/');
    let path = if options.ready { "/ready" } else { "/health" };
    let uri: Uri = format!("{url}{path}")
        .parse()
        .map_err(|error| Failure::usage(format!("{url} is no address: {error}")))?;
    let trust = options.authority.trust(url)?;
    let client: Client<_, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build(Connector::new(trust, LIMIT));
    let asking = async {
        let (head, body) = client.get(uri).await.map_err(|error| whole(&error))?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
    };
    let answer = runtime.block_on(async { timeout(LIMIT, asking).await });
    let answer = answer.unwrap_or_else(|_| Err(format!("nothing came within {LIMIT:?}")));
    match answer {
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, said)) => Err(Failure::failed(format!("{}: {said}", status.as_u16()))),
        Err(why) => Err(Failure::failed(format!("{url} does not answer: {why}"))),
    }
}
