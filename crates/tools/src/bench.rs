//! Measuring a part of the system against a ceiling in the same run: ratios hold on a noisy
//! machine, absolute figures do not.

mod caller;
mod choosing;
mod dashboard;
mod dispatch;
mod hostile;
mod lives;
pub(crate) mod process;
pub(crate) mod progress;
mod sessions;
mod store;

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::cli::{Bench, Failure};

/// Runs a bench.
pub(crate) fn run(what: &Bench) -> Result<(), Failure> {
    match what {
        Bench::Store(options) => store::run(options),
        Bench::Dispatch(options) => dispatch::run(options),
        Bench::Sessions(options) => sessions::run(options),
        Bench::Hostile(options) => hostile::run(options),
        Bench::Dashboard(options) => dashboard::run(options),
        Bench::BareSockets => sessions::bare(),
    }
}

/// Writes what was measured into the file that the caller named, if any.
pub(crate) fn write_json(file: Option<&Path>, report: &impl Serialize) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let json = serde_json::to_vec_pretty(report).context("the report is not JSON")?;
    std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}

/// The version of a profile as the fleet view has it.
pub(crate) fn core_version(
    version: lingua_store::nodes::ProfileVersion,
) -> lingua_core::fleet::ProfileVersion {
    lingua_core::fleet::ProfileVersion::new(version.bits())
}
