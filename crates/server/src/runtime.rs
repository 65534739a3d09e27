//! What a command runs on.

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread: that of the command.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the runtime does not start")
}
