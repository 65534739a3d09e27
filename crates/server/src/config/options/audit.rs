//! `[audit]`.

use std::path::PathBuf;

use super::section;

section! {
    /// Audit log: who did what.
    "audit.": Audit in audit {
        /// The file to append to, one per instance. Empty disables the audit log. SIGHUP reopens it.
        file: Option<PathBuf> = None;
    }
}
