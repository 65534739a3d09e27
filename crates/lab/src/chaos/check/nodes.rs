//! What one node wrote down: never more jobs at once than it takes, and none that it was sent before.

use std::collections::BTreeSet;

use serde_json::Value;

use super::at_us;
use super::fencing::Fencing;
use super::recovery::Life;
use super::story::Story;
use super::verdict::{Promise, Verdict};

pub(super) fn check(
    name: &str,
    lines: &[Value],
    story: &Story,
    fencing: &mut Fencing,
    verdict: &mut Verdict,
) -> Life {
    let mut life = Life::default();
    let mut running: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut received: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut used_in_the_end = story.few_jobs;
    let mut slots = story.slots;
    for line in lines {
        let at = at_us(line);
        let job = line["job"].as_str().unwrap_or_default();
        let key = (job, line["attempt"].as_u64().unwrap_or(0));
        match line["event"].as_str().unwrap_or_default() {
            // Another process: what the one before had is gone with it.
            "begun" => {
                running.clear();
                slots = line["slots"].as_u64().map_or(slots, |slots| slots as usize);
                life.gone(at);
            }
            "connected" => life.connected(at, story.scheduler_of(&line["via"])),
            "gone" => life.gone(at),
            "received" => {
                verdict.jobs += 1;
                life.worked(at, 0);
                fencing.received(key.0, key.1, at);
                if !received.insert(key) {
                    let text = format!(
                        "{name} was sent attempt {} of job {job} again at {:.3} s",
                        key.1,
                        story.second(at)
                    );
                    verdict.violated(Promise::Fencing, text);
                }
                used_in_the_end |= story.quiet_us.is_some_and(|quiet| at >= quiet);
            }
            "acked" | "ack_dropped" => {
                running.insert(key);
                if running.len() > slots {
                    let count = running.len();
                    let text = format!(
                        "{name} worked on {count} jobs at {:.3} s and takes {slots}",
                        story.second(at)
                    );
                    verdict.violated(Promise::Capacity, text);
                }
            }
            "breach" => {
                let others: Vec<_> = running.iter().map(|(job, _)| *job).collect();
                let text = format!(
                    "{name} was given job {job} attempt {} at {:.3} s beside {}",
                    key.1,
                    story.second(at),
                    others.join(", ")
                );
                verdict.violated(Promise::Capacity, text);
            }
            "done" | "failed" | "cancelled" | "lost" => drop(running.remove(&key)),
            "answered" => fencing.answered(line, at),
            _ => {}
        }
    }
    if story.quiet_us.is_some() && !used_in_the_end {
        verdict.violated(Promise::Quiet, format!("{name} got no job after all was healed"));
    }
    life
}
