//! What may change while the scheduler runs.

use super::options::{Config, all};

/// What is not as it was: what takes effect at once, and what only a restart brings about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) now: Vec<String>,
    pub(crate) after_a_restart: Vec<String>,
}

/// Compares two configurations; secrets are not shown.
pub(crate) fn changes(before: &Config, after: &Config) -> Changes {
    let mut changes = Changes::default();
    for option in all() {
        let (old, new) = (option.print(before), option.print(after));
        if old == new {
            continue;
        }
        let list = if option.reloads { &mut changes.now } else { &mut changes.after_a_restart };
        list.push(format!("{}: {old} -> {new}", option.path));
    }
    changes
}
