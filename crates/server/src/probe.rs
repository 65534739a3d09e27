//! `lingua probe`: asks a scheduler how it is, for containers and scripts that have no HTTP client.

use std::time::Duration;

use anyhow::Context;
use lingua_lab::HttpClient;

use crate::cli::{Failure, Probe};

/// For the answer; a container is asked every few seconds.
const LIMIT: Duration = Duration::from_secs(3);

/// Succeeds if the scheduler is alive, or ready if that is asked for.
pub(crate) fn run(options: &Probe) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let path = if options.ready { "/ready" } else { "/health" };
    let client = HttpClient::new(options.url.trim_end_matches('/')).limit(LIMIT);
    let reply = runtime.block_on(client.get(path));
    let reply = reply
        .map_err(|error| Failure::failed(format!("{} does not answer: {error:#}", options.url)))?;
    match reply.is_success() {
        true => Ok(()),
        false => Err(Failure::failed(format!("{}: {}", reply.status, reply.text()))),
    }
}
