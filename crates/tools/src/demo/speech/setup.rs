//! The environment of the speech node, made once.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, interval};

use super::part::Part;
use super::place::Place;
use crate::cli::Failure;
use crate::demo::screen::Screen;

/// How often the time that a step takes is new.
const TICK: Duration = Duration::from_millis(200);

/// Prepares the environment, and tells what is being done and for how long. Done before, it is done
/// at once.
pub(super) async fn run(place: &Place, files: &Path, screen: &Screen) -> Result<(), Failure> {
    let log = files.join("setup.log");
    // Nothing is installed as root without being asked to: the script says what is missing.
    let (mut part, mut words) = Part::start(&place.script("setup.sh"), &["--no-root"], log)?;
    let mut step = Step::begin("looking at the speech node's environment", screen);
    let mut ticks = interval(TICK);
    loop {
        let line = tokio::select! {
            line = words.next() => line,
            _ = ticks.tick() => {
                step.show(screen);
                continue;
            }
        };
        let Some(line) = line else { break };
        if let Some(next) = line.strip_prefix("== ") {
            step.end(screen);
            step = Step::begin(next, screen);
        }
    }
    let status = part.ended().await.context("the setup cannot be waited for")?;
    if !status.success() {
        return Err(Failure::failed(format!(
            "the speech node could not be prepared ({status}, while {}):{}",
            step.what,
            part.last_words()
        )));
    }
    step.end(screen);
    Ok(())
}

/// Something that takes a while.
pub(super) struct Step {
    pub what: String,
    began: Instant,
}

impl Step {
    pub fn begin(what: &str, screen: &Screen) -> Self {
        let step = Step { what: what.to_owned(), began: Instant::now() };
        if !screen.is_live() {
            screen.say(&format!("… {what}"));
        }
        step
    }

    pub fn show(&self, screen: &Screen) {
        screen.show(&format!("… {}  {} s", self.what, self.began.elapsed().as_secs()));
    }

    pub fn end(&self, screen: &Screen) {
        let took = self.began.elapsed();
        if screen.is_live() || took > Duration::from_secs(1) {
            screen.say(&format!("  {}  [{:.1} s]", self.what, took.as_secs_f64()));
        }
    }
}
