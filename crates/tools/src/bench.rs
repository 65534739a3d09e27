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

/// The version of a profile as the fleet view has it.
pub(crate) fn core_version(
    version: lingua_store::nodes::ProfileVersion,
) -> lingua_core::fleet::ProfileVersion {
    lingua_core::fleet::ProfileVersion::new(version.bits())
}
