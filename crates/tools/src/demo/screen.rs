//! What a person sees: lines, and below them one that is always new.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Lines on standard output; on a terminal, a status line under them.
pub(super) struct Screen {
    status: ProgressBar,
}

impl Screen {
    pub fn new() -> Self {
        let status = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        status.set_style(ProgressStyle::with_template("{msg}").expect("the template is fixed"));
        Screen { status }
    }

    /// Whether there is a status line.
    pub fn is_live(&self) -> bool {
        !self.status.is_hidden()
    }

    /// Says a line for good.
    pub fn say(&self, line: &str) {
        self.status.suspend(|| {
            // Nobody need be there to read it.
            let _ = writeln!(std::io::stdout(), "{line}");
        });
    }

    /// Puts this in the status line.
    pub fn show(&self, status: &str) {
        self.status.set_message(status.to_owned());
        self.status.tick();
    }

    /// Takes the status line away.
    pub fn hide(&self) {
        self.status.finish_and_clear();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.hide();
    }
}
