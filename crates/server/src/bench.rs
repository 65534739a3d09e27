//! Measuring a part of the system against a ceiling in the same run: ratios hold on a noisy
//! machine, absolute figures do not.

mod choosing;
pub(crate) mod dashboard;
pub(crate) mod dispatch;
pub(crate) mod hostile;
mod lives;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod sessions;
pub(crate) mod store;

/// The version of a profile as the fleet view has it.
pub(crate) fn core_version(
    version: lingua_store::nodes::ProfileVersion,
) -> lingua_core::pool::ProfileVersion {
    lingua_core::pool::ProfileVersion::new(version.bits())
}
