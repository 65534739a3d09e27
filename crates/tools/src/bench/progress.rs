//! A bar on a terminal, plain lines otherwise.

use lingua_server::remark;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a command with a known number of steps.
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(steps) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.expect("the template is fixed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, terminal }
    }

    /// What is being done now.
    pub(crate) fn now(&self, doing: &str) {
        self.bar.set_message(doing.to_owned());
        if !self.terminal {
            remark!("{doing}");
        }
    }

    /// Something that stays on the screen.
    pub(crate) fn note(&self, what: &str) {
        if self.terminal {
            self.bar.println(what);
        } else {
            remark!("{what}");
        }
    }

    /// How it goes; without a terminal told only at every so many steps.
    pub(crate) fn every(&self, steps: u64, doing: &str) {
        self.bar.set_message(doing.to_owned());
        if !self.terminal && self.bar.position().is_multiple_of(steps) {
            remark!("{doing}");
        }
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
