//! Whether every promise was kept in a world: the checker of `lingua chaos` on the journals, and what a world can
//! see besides.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lingua_lab::chaos::check::{Journals, Promise, judge};
use serde::Serialize;
use serde_json::json;

use crate::plan::Plan;
use crate::record::Written;
use crate::world::Ended;

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Broken {
    /// Its name.
    pub promise: &'static str,
    /// What happened.
    pub text: String,
}

/// What a world proves.
#[derive(Debug)]
pub struct Verdict {
    /// What it followed from.
    pub seed: u64,
    /// Which promises were broken, and how; empty if all were kept.
    pub broken: Vec<Broken>,
    /// How often each kind of fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// Sentences said to their end.
    pub said: u64,
    /// Results that clients had.
    pub results: u64,
    /// Endings without a result, by reason.
    pub missing: BTreeMap<String, u64>,
    /// Jobs that nodes were given.
    pub jobs: u64,
    /// Calls of the store, by name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Virtual time.
    pub lasted: Duration,
    /// Of everything that happened: the same for the same plan.
    pub digest: u64,
    /// Everything that happened, if it was wanted.
    pub trace: Vec<String>,
    /// What the judge read.
    pub journals: Journals,
}

/// What only the store is looked at for.
const STORED: &str = "no speech, text or token in the store";
/// A task that panicked.
const PANICKED: &str = "no task panics";

impl Verdict {
    pub(crate) fn of(plan: &Plan, ended: Ended, panics: Vec<String>) -> Self {
        let Ended { written, leaks, lasted } = ended;
        let Written { story, nodes, speakers, digest, lines, calls } = written;
        let timing = if plan.fast {
            lingua_core::budget::Timing::fast()
        } else {
            lingua_core::budget::Timing::stable()
        };
        let manifest = json!({
            "store": "simulated", "seed": plan.seed, "nodes": plan.nodes.len(),
            "speakers": plan.speakers.len(), "slots": 1, "deadline_ms": timing.deadline_ms,
            "store_and_process_lost": plan.loses_store_and_process(),
            "resume_window_ms": timing.resume_window_ms, "nodes_fail": !plan.is_gentle(), "few_jobs": true, "hedges": plan.fast, "ways": ways(plan),
        });
        let journals = Journals { manifest, story, nodes, speakers };
        let mut verdict = Verdict {
            seed: plan.seed,
            broken: Vec::new(),
            faults: BTreeMap::new(),
            said: 0,
            results: 0,
            missing: BTreeMap::new(),
            jobs: 0,
            calls,
            lasted,
            digest: digest.hash(),
            trace: lines,
            journals,
        };
        for planned in &plan.faults {
            *verdict.faults.entry(planned.fault.word()).or_default() += 1;
        }
        let mut broken = |promise, text: String| verdict.broken.push(Broken { promise, text });
        panics.into_iter().for_each(|text| broken(PANICKED, text));
        leaks.into_iter().for_each(|text| broken(STORED, text));
        match judge(&verdict.journals) {
            Ok(judged) => verdict.take(&judged),
            Err(error) => broken("the journals can be read", format!("{error:#}")),
        }
        verdict
    }

    fn take(&mut self, judged: &lingua_lab::chaos::check::Verdict) {
        (self.said, self.results, self.jobs) = (judged.said, judged.results, judged.jobs);
        self.missing = judged.missing.clone();
        for promise in Promise::ALL {
            let broken = |text: &String| Broken { promise: promise.word(), text: text.clone() };
            self.broken.extend(judged.texts(promise).iter().map(broken));
        }
    }

    /// No promise was broken.
    pub fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }

    /// Whether one of these promises was broken here too.
    pub fn breaks_as(&self, other: &Verdict) -> bool {
        self.broken.iter().any(|one| other.broken.iter().any(|other| other.promise == one.promise))
    }
}

/// The instance behind each address in the journals.
fn ways(plan: &Plan) -> BTreeMap<String, usize> {
    (0..plan.instances.len()).map(|number| (number.to_string(), number)).collect()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (faults, missing): (u64, u64) =
            (self.faults.values().sum(), self.missing.values().sum());
        write!(
            f,
            "seed {}: {faults} faults in {} s, {} said, {} jobs, {} results, {missing} missing",
            self.seed,
            self.lasted.as_secs(),
            self.said,
            self.jobs,
            self.results
        )?;
        for Broken { promise, text } in &self.broken {
            write!(f, "\n  BROKEN  {promise}: {text}")?;
        }
        Ok(())
    }
}
