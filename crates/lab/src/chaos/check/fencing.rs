//! Which attempts there were, and which results nodes gave: a result that a speaker hears must be one
//! of them, and not that of an attempt that had been replaced.

use std::collections::HashMap;

use serde_json::Value;

use crate::speech::{Echo, Mark};

/// What all nodes wrote down about attempts.
#[derive(Debug, Default)]
pub(super) struct Fencing {
    /// By job: attempt, and when a node had it.
    received: HashMap<String, Vec<(u64, u64)>>,
    /// By mark and the time of the assignment: what the result is of, and when it was given.
    answered: HashMap<(String, u64), (String, u64, u64)>,
}

impl Fencing {
    pub fn received(&mut self, job: &str, attempt: u64, at_us: u64) {
        self.received.entry(job.to_owned()).or_default().push((attempt, at_us));
    }

    pub fn answered(&mut self, line: &Value, at_us: u64) {
        let Some(assigned_us) = line["assigned_us"].as_u64() else { return };
        let mark = line["mark"].as_str().unwrap_or_default().to_owned();
        let job = line["job"].as_str().unwrap_or_default().to_owned();
        let attempt = line["attempt"].as_u64().unwrap_or(0);
        self.answered.insert((mark, assigned_us), (job, attempt, at_us));
    }

    /// What is wrong with this result.
    pub fn wrong_with(&self, echo: &Echo, hedges: bool) -> Option<String> {
        let mark = echo.mark.as_ref().map(Mark::to_string).unwrap_or_default();
        let Some((job, attempt, at_us)) = self.answered.get(&(mark, echo.assigned_us?)) else {
            return Some("is of no job that a node answered".to_owned());
        };
        if hedges {
            return None;
        }
        let newer = self
            .received
            .get(job)?
            .iter()
            .find(|(other, received_us)| other > attempt && received_us < at_us);
        newer.map(|(other, _)| {
            format!("is of attempt {attempt} of job {job}, given after attempt {other} had begun")
        })
    }
}
