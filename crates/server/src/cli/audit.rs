//! `lingua audit`: the log of who did what.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `lingua audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that every line is as it was written and none is missing; exit code 1 names the first
    /// that is wrong
    Check(AuditCheck),
}

/// `lingua audit check`.
#[derive(Debug, Args)]
pub struct AuditCheck {
    /// The file of `audit.file`, and those that it was rotated into, in any order
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The hash of the last line that is no longer kept. Without it the first line is the first ever
    #[arg(long, value_name = "HASH")]
    pub(crate) after: Option<String>,

    /// A hash that an earlier check printed: a line has it, unless lines were taken off the end
    #[arg(long, value_name = "HASH")]
    pub(crate) has: Option<String>,
}
