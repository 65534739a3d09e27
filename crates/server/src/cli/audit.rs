//! `lingua audit`: the log of who did what.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `lingua audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Verify the hash chain: no line was changed, removed or inserted. Otherwise print the first wrong
    /// line and exit with code 1
    Check(AuditCheck),
}

/// `lingua audit check`.
#[derive(Debug, Args)]
pub struct AuditCheck {
    /// The audit log and its rotated files, in any order
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Hash of the last line of a file that is no longer kept. Without it the log must start at its first line
    #[arg(long, value_name = "HASH")]
    pub(crate) after: Option<String>,

    /// Hash that an earlier check printed. It must still be there; otherwise lines were cut off the end
    #[arg(long, value_name = "HASH")]
    pub(crate) has: Option<String>,
}
