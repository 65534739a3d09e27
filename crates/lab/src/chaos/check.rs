//! What the files of a run prove: whether every promise was kept.
//!
//! Reads what nodes, speakers and the run itself wrote down, and nothing else; shares no code with
//! the scheduler. What it checks, by the name of the promise:
//!
//! - **I1** by the nodes' own count no node has more jobs at once than it said it takes. What it was
//!   told to stop no longer counts, and neither does what died with its process.
//! - **I3, I4, I5** what was said ends once, as a result or an explicit `missing_result`, in order,
//!   with all its words and no others, and not later than its deadline and 250 ms while connected.
//! - **I6** a result is one that a node gave, and not that of an attempt that was replaced before.
//! - **I9** once a session goes on elsewhere, its old connection says nothing new.
//! - **resume** when a scheduler is killed and nothing else fails, every sentence still has a result.
//! - **I16** a scheduler that is asked to end does so with 0 and in time.
//! - **quiet**: once all is healed every sentence has a result and every node gets jobs.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

mod fencing;
mod nodes;
mod recovery;
mod speakers;
mod story;
mod verdict;

use fencing::Fencing;
pub use recovery::{Recovery, Times};
use story::Story;
pub use verdict::{Promise, Verdict};

use super::DRAIN_LIMIT;
use super::world::{node_file, speaker_file};
use super::{MANIFEST, STORY};

/// What was written down in a run: in its files, or in the memory of a simulation.
#[derive(Debug, Default)]
pub struct Journals {
    /// What is known of the run as a whole.
    pub manifest: Value,
    /// Which fault happened when, and how schedulers ended.
    pub story: Vec<Value>,
    /// The lines of each node.
    pub nodes: Vec<Vec<Value>>,
    /// The lines of each speaker.
    pub speakers: Vec<Vec<Value>>,
}

impl Journals {
    /// The files of a run.
    fn read(dir: &Path) -> anyhow::Result<Self> {
        let manifest = std::fs::read(dir.join(MANIFEST))
            .with_context(|| format!("{} is not the directory of a run", dir.display()))?;
        let manifest: Value = serde_json::from_slice(&manifest)?;
        let count = |name: &str| 0..manifest[name].as_u64().unwrap_or(0) as usize;
        let nodes = count("nodes").map(|number| read(&node_file(dir, number)));
        let speakers = count("speakers").map(|number| read(&speaker_file(dir, number)));
        let (nodes, speakers) =
            (nodes.collect::<Result<_, _>>()?, speakers.collect::<Result<_, _>>()?);
        Ok(Self { manifest, story: read(&dir.join(STORY))?, nodes, speakers })
    }
}

/// Checks the files of a run.
pub fn check(dir: &Path) -> anyhow::Result<Verdict> {
    judge(&Journals::read(dir)?)
}

/// Checks what was written down in a run.
pub fn judge(journals: &Journals) -> anyhow::Result<Verdict> {
    let story = Story::of(&journals.manifest, &journals.story)?;
    let mut verdict = Verdict::new(&story);
    let mut fencing = Fencing::default();
    let mut node_lives = Vec::new();
    for (number, lines) in journals.nodes.iter().enumerate() {
        let name = format!("node {number}");
        node_lives.push(nodes::check(&name, lines, &story, &mut fencing, &mut verdict));
    }
    let mut speaker_lives = Vec::new();
    for (number, lines) in journals.speakers.iter().enumerate() {
        let name = format!("speaker {number}");
        speaker_lives.push(speakers::check(&name, lines, &story, &fencing, &mut verdict));
    }
    check_schedulers(&story, &mut verdict);
    verdict.recovery = Recovery::measure(&story, &speaker_lives, &node_lives);
    let lost = std::mem::take(&mut verdict.recovery.lost);
    for text in lost.into_iter().filter(|_| !story.nodes_fail) {
        verdict.violated(Promise::Resumed, text);
    }
    Ok(verdict)
}

fn check_schedulers(story: &Story, verdict: &mut Verdict) {
    for drain in &story.drains {
        let took = drain.end_us.map(|end| end.saturating_sub(drain.begin_us) / 1_000);
        let text = |what: &str| format!("scheduler {}: {what}", drain.scheduler);
        match (drain.code, took) {
            (Some(0), Some(ms)) if u128::from(ms) <= DRAIN_LIMIT.as_millis() => {}
            (Some(0), Some(ms)) => {
                verdict.violated(Promise::Drain, text(&format!("took {ms} ms to drain")));
            }
            (Some(code), _) => {
                verdict.violated(Promise::Drain, text(&format!("ended its drain with {code}")));
            }
            (None, _) => verdict.violated(Promise::Drain, text("did not end when asked to")),
        }
    }
    for text in &story.died {
        verdict.violated(Promise::Alive, text.clone());
    }
    if !story.all_ended {
        verdict.violated(Promise::OneEnding, "not all speakers had all their endings".to_owned());
    }
}

/// The lines of a file; what a killed process wrote by halves at its end is left out.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let count = text.lines().count();
    let mut lines = Vec::with_capacity(count);
    for (number, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(line) => lines.push(line),
            Err(_) if number + 1 == count => {}
            Err(error) => {
                return Err(error).with_context(|| format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    Ok(lines)
}

fn at_us(line: &Value) -> u64 {
    line["at_us"].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests;
