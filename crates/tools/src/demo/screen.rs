//! What a person sees: lines, and below them one that is always new.

use std::io::Write;

use crate::terminal::StatusLine;

/// Lines on standard output; on a terminal, a status line under them.
pub(super) struct Screen {
    status: StatusLine,
}

impl Screen {
    pub fn new() -> Self {
        Screen { status: StatusLine::new() }
    }

    /// Whether there is a status line.
    pub fn is_live(&self) -> bool {
        self.status.is_live()
    }

    /// Says a line for good.
    pub fn say(&self, line: &str) {
        self.status.above(|| {
            // Nobody need be there to read it.
            let _ = writeln!(std::io::stdout(), "{line}");
        });
    }

    /// Puts this in the status line.
    pub fn show(&self, status: &str) {
        self.status.show(status);
    }

    /// Takes the status line away.
    pub fn hide(&self) {
        self.status.show("");
    }
}
