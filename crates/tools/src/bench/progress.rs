//! How far a command is: a bar on a terminal, plain lines otherwise.

use lingua_server::client::span;
use lingua_server::remark;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::terminal::StatusLine;

/// Cells of the bar.
const BAR: u64 = 30;

/// The progress of a command with a known number of steps.
pub(crate) struct Progress {
    status: StatusLine,
    began: Instant,
    steps: u64,
    at: Mutex<At>,
}

#[derive(Default)]
struct At {
    done: u64,
    doing: String,
}

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        Progress { status: StatusLine::new(), began: Instant::now(), steps, at: Mutex::default() }
    }

    /// What is being done now.
    pub(crate) fn now(&self, doing: &str) {
        self.set(doing);
        if !self.status.is_live() {
            remark!("{doing}");
        }
    }

    /// Something that stays on the screen.
    pub(crate) fn note(&self, what: &str) {
        self.status.above(|| remark!("{what}"));
    }

    /// How it goes; without a terminal told only at every so many steps.
    pub(crate) fn every(&self, steps: u64, doing: &str) {
        self.set(doing);
        if !self.status.is_live() && self.at.lock().done.is_multiple_of(steps) {
            remark!("{doing}");
        }
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        let mut at = self.at.lock();
        at.done += 1;
        self.draw(&at);
    }

    fn set(&self, doing: &str) {
        let mut at = self.at.lock();
        doing.clone_into(&mut at.doing);
        self.draw(&at);
    }

    fn draw(&self, at: &At) {
        let elapsed_ms = self.began.elapsed().as_secs() as f64 * 1_000.0;
        let bar = bar(at.done, self.steps);
        let line = format!("{bar} {}/{} {} {}", at.done, self.steps, span(elapsed_ms), at.doing);
        self.status.show(&line);
    }
}

fn bar(done: u64, steps: u64) -> String {
    let filled = done.min(steps) * BAR / steps.max(1);
    "█".repeat(filled as usize) + &"░".repeat((BAR - filled) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_when_all_steps_are_done() {
        assert_eq!(bar(0, 4), "░".repeat(30));
        assert_eq!(bar(2, 4), "█".repeat(15) + &"░".repeat(15));
        assert_eq!((bar(4, 4), bar(9, 4)), ("█".repeat(30), "█".repeat(30)));
        assert_eq!(bar(0, 0).chars().count(), 30);
    }
}
