//! What the run itself wrote down: which fault happened when, and how schedulers ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::at_us;
use crate::chaos::DEADLINE;
use crate::chaos::plan::{Fault, Planned};

#[derive(Debug, Default)]
pub(super) struct Story {
    pub store: String,
    pub seed: u64,
    pub slots: usize,
    /// From the end of a sentence to its ending.
    pub deadline: Duration,
    /// A client that is away for longer has no session any more; without it every one has.
    pub resume_window: Option<Duration>,
    /// The store lost what was written last, and about then a process that would have written it again ended or
    /// stood still: what it had acknowledged may be gone.
    pub store_and_process_lost: bool,
    /// Nodes fail, refuse and are slow by themselves: a sentence may have no result.
    pub nodes_fail: bool,
    /// A second copy of a job may run beside the first, and either may answer.
    pub hedges: bool,
    /// There are fewer jobs in the end than would show that every node gets some.
    pub few_jobs: bool,
    /// The scheduler behind each port.
    ways: BTreeMap<String, usize>,
    pub spans: Vec<Span>,
    pub drains: Vec<Drain>,
    pub died: Vec<String>,
    pub begin_us: u64,
    /// From here to `stop_us` all must work.
    pub quiet_us: Option<u64>,
    pub stop_us: Option<u64>,
    pub all_ended: bool,
}

/// A fault and the time it lasted.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub id: u64,
    pub fault: Fault,
    pub begin_us: u64,
    pub end_us: u64,
    /// Why it could not be done or undone.
    pub problem: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Drain {
    pub scheduler: usize,
    pub begin_us: u64,
    pub end_us: Option<u64>,
    pub code: Option<i64>,
}

impl Story {
    pub fn of(manifest: &Value, lines: &[Value]) -> anyhow::Result<Self> {
        let number = |name: &str| manifest[name].as_u64().unwrap_or(0) as usize;
        let mut story = Self {
            store: manifest["store"].as_str().unwrap_or_default().to_owned(),
            seed: manifest["seed"].as_u64().unwrap_or(0),
            slots: number("slots"),
            deadline: manifest["deadline_ms"].as_u64().map_or(DEADLINE, Duration::from_millis),
            resume_window: manifest["resume_window_ms"].as_u64().map(Duration::from_millis),
            store_and_process_lost: manifest["store_and_process_lost"] == true,
            nodes_fail: manifest["nodes_fail"] == true,
            hedges: manifest["hedges"] == true,
            few_jobs: manifest["few_jobs"] == true,
            ways: serde_json::from_value(manifest["ways"].clone()).unwrap_or_default(),
            ..Self::default()
        };
        for line in lines {
            story.take(line)?;
        }
        Ok(story)
    }

    fn take(&mut self, line: &Value) -> anyhow::Result<()> {
        let at = at_us(line);
        let scheduler = line["scheduler"].as_u64().unwrap_or(0) as usize;
        match line["event"].as_str().unwrap_or_default() {
            "begin" => self.begin_us = at,
            "quiet" => self.quiet_us = Some(at),
            "stop" => self.stop_us = Some(at),
            "ended" => self.all_ended = line["all"] == true,
            "fault" => {
                let planned: Planned = serde_json::from_value(line["planned"].clone())?;
                let (id, fault) = (planned.id as u64, planned.fault);
                let span = Span { id, fault, begin_us: at, end_us: u64::MAX, problem: None };
                self.spans.push(span);
            }
            "healed" => {
                let id = line["id"].as_u64();
                if let Some(span) = self.spans.iter_mut().find(|span| Some(span.id) == id) {
                    span.end_us = at;
                    span.problem = line["problem"].as_str().map(str::to_owned);
                }
            }
            "drain" => {
                self.drains.push(Drain { scheduler, begin_us: at, end_us: None, code: None });
            }
            "drained" => {
                let of_it = |drain: &&mut Drain| drain.scheduler == scheduler;
                if let Some(drain) = self.drains.iter_mut().rev().find(of_it) {
                    drain.end_us = Some(at);
                    drain.code = line["code"].as_i64();
                }
            }
            "died" => {
                let status = line["status"].as_str().unwrap_or_default();
                let second = at.saturating_sub(self.begin_us) / 1_000_000;
                self.died.push(format!("scheduler {scheduler} died at {second} s: {status}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The scheduler at the other end of this address.
    pub fn scheduler_of(&self, url: &Value) -> Option<usize> {
        let port = url.as_str()?.strip_prefix("ws://127.0.0.1:")?.split('/').next()?;
        self.ways.get(port).copied()
    }

    /// Faults that lasted at any moment between these.
    pub fn during(&self, from_us: u64, to_us: u64) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |span| span.begin_us <= to_us && from_us <= span.end_us)
    }

    /// Seconds since the first fault could happen.
    pub fn second(&self, at_us: u64) -> f64 {
        at_us.saturating_sub(self.begin_us) as f64 / 1e6
    }
}
