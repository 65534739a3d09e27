//! Measuring a part of the system against a ceiling in the same run: ratios hold on a noisy
//! machine, absolute figures do not.

mod lives;
mod progress;
pub(crate) mod store;
