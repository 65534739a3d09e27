//! What is used: counted where jobs end, off their way, and posted to the store by day.
//!
//! Every process posts all that it counted on a day, again and again: the store keeps its last word, so nothing counts
//! twice, and what a dead process posted stays. The sum over all processes is the day's.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::{Need, Route};
use lingua_core::hash::HashMap;
use lingua_core::inventory::ItemName;
use lingua_core::node::{NodeProfile, ServiceKind};
use lingua_core::usage::{DayUsage, MAX_SPOKEN, MAX_WORKED, OTHER, Spoken, Sum, Worked};
use lingua_core::{NodeId, TenantId};
use lingua_store::usage::{Day, Posted};
use lingua_store::{Backend, Instance};
use parking_lot::Mutex;

use crate::fleet::FleetView;
use crate::job::{Ended, JobSpec};

/// How often what was counted is posted: what a kill loses at most.
const POST_EVERY: Duration = Duration::from_secs(1);

/// The steps of a job that a node's services do.
const STEPS: [&str; 4] =
    [ServiceKind::ASR, ServiceKind::SEMANTIC, ServiceKind::NMT, ServiceKind::TTS];

/// A step of [`STEPS`], as a bit.
type Steps = u8;

/// What this process counted and has not posted.
#[derive(Default)]
pub(crate) struct UsageBook(Mutex<Book>);

#[derive(Default)]
struct Book {
    days: BTreeMap<Day, Counted>,
    is_full: bool,
}

/// What was counted on one day since the process started.
#[derive(Default)]
struct Counted {
    people: u64,
    spoken: HashMap<(Route, TenantId), Spoken>,
    spoken_rest: Spoken,
    worked: HashMap<WorkKey, NodeWork>,
    worked_rest: Worked,
    /// Of the last posting.
    serial: u64,
    /// Something was counted since.
    changed: bool,
}

/// A node, the version of its profile, and the steps that a job needs.
type WorkKey = (NodeId, u64, Steps);

/// What a node did, with the profile that it had.
struct NodeWork {
    profile: Option<Arc<NodeProfile>>,
    count: Worked,
}

impl UsageBook {
    /// A job ended: what it was for, and how much was said in it.
    pub fn ended(
        &self,
        day: Day,
        (route, tenant): (Route, &TenantId),
        speech_ms: u64,
        ended: &Ended,
    ) {
        let mut count = Spoken { sentences: 1, speech_ms, ..Spoken::default() };
        *match ended {
            Ended::Done(_) => &mut count.results,
            Ended::Empty { .. } => &mut count.empty,
            Ended::Failed(_) => &mut count.failed,
            Ended::Cancelled(_) => &mut count.cancelled,
        } = 1;
        self.count(day, |counted| {
            let key = (route, tenant.clone());
            if counted.spoken.len() < MAX_SPOKEN || counted.spoken.contains_key(&key) {
                counted.spoken.entry(key).or_default().add(&count);
            } else {
                counted.spoken_rest.add(&count);
            }
        });
    }

    /// A node answered a job, or its attempt failed.
    pub fn worked(
        &self,
        day: Day,
        fleet: &FleetView,
        spec: &JobSpec,
        (node, answered): (&NodeId, bool),
    ) {
        let known = {
            let fleet = fleet.lock();
            fleet.get(node).map(|node| (node.version().get(), Arc::clone(node.profile())))
        };
        let (version, profile) = known.map_or((0, None), |(version, known)| (version, Some(known)));
        let count = match answered {
            true => Worked { jobs: 1, speech_ms: spec.work.speech_ms, failed: 0 },
            false => Worked { failed: 1, ..Worked::default() },
        };
        self.count(day, |counted| {
            let key = (node.clone(), version, steps(&spec.need));
            if counted.worked.len() < MAX_WORKED || counted.worked.contains_key(&key) {
                let row = counted.worked.entry(key);
                row.or_insert_with(|| NodeWork { profile, count: Worked::default() })
                    .count
                    .add(&count);
            } else {
                counted.worked_rest.add(&count);
            }
        });
    }

    /// So many people are here at the same time, on all instances.
    pub fn people(&self, day: Day, people: u64) {
        self.count(day, |counted| counted.people = counted.people.max(people));
    }

    fn count(&self, day: Day, count: impl FnOnce(&mut Counted)) {
        let mut book = self.0.lock();
        // A clock that is put back over midnight counts for the day that has begun.
        let day = book.days.last_key_value().map_or(day, |(last, _)| day.max(*last));
        let counted = book.days.entry(day).or_default();
        count(counted);
        counted.changed = true;
    }

    /// Posts what was counted. What the store does not take is posted with the next.
    pub async fn post(&self, store: &Backend, me: &Instance) {
        for (day, serial, usage) in self.due() {
            let counts = serde_json::to_vec(&usage).expect("counts are rows of names and numbers");
            let posted = store.usage.post(day, me, serial, &counts).await;
            if let Err(error) = &posted {
                tracing::debug!(%error, "what was used is kept later");
            }
            self.over(day, posted.ok());
        }
    }

    /// What is to be posted now: each day with its serial.
    fn due(&self) -> Vec<(Day, u64, DayUsage)> {
        let mut book = self.0.lock();
        let changed = book.days.iter_mut().filter(|(_, counted)| counted.changed);
        let due = changed.map(|(day, counted)| {
            counted.changed = false;
            counted.serial += 1;
            (*day, counted.serial, counted.usage())
        });
        due.collect()
    }

    /// It was posted, or not: then it is due again.
    fn over(&self, day: Day, posted: Option<Posted>) {
        let mut book = self.0.lock();
        let last = book.days.last_key_value().map(|(last, _)| *last);
        let Some(counted) = book.days.get_mut(&day) else { return };
        match posted {
            None => counted.changed = true,
            // Nothing more is counted on a day that is over.
            Some(_) if last > Some(day) && !counted.changed => drop(book.days.remove(&day)),
            Some(_) => {}
        }
        let is_full = posted == Some(Posted::Full);
        if is_full && !std::mem::replace(&mut book.is_full, true) {
            tracing::warn!("what is used is not kept: too many processes began today");
        }
    }
}

impl Counted {
    fn usage(&self) -> DayUsage {
        let mut usage = DayUsage { people: self.people, ..DayUsage::default() };
        for ((route, tenant), count) in &self.spoken {
            usage.say((route.to_string(), tenant.to_string()), count);
        }
        if self.spoken_rest != Spoken::default() {
            usage.say((OTHER.to_owned(), OTHER.to_owned()), &self.spoken_rest);
        }
        for ((node, _, steps), NodeWork { profile, count }) in &self.worked {
            for (_, step) in (0..).zip(STEPS).filter(|(bit, _)| steps & (1 << bit) != 0) {
                let (service, model) = served_by(profile.as_deref(), step);
                usage.work((service, model, node.to_string()), count);
            }
        }
        if self.worked_rest != Worked::default() {
            let other = || OTHER.to_owned();
            usage.work((other(), other(), other()), &self.worked_rest);
        }
        usage
    }
}

/// The service of a node that does a step, and its model: by their names where the node has said them, otherwise by
/// the step itself and without a model.
fn served_by(profile: Option<&NodeProfile>, step: &str) -> (String, String) {
    let Some(inventory) = profile.map(|profile| &profile.inventory) else {
        return (step.to_owned(), String::new());
    };
    let does = |kind: &Option<ItemName>| kind.as_ref().is_some_and(|kind| kind.as_str() == step);
    let service =
        inventory.services.iter().flatten().find(|one| does(&one.kind) && one.is_running());
    let service = service.map_or(step, |service| service.id.as_str());
    let model = inventory.models.iter().flatten().find(|one| does(&one.kind) && one.loaded);
    let model = model.map(|model| match &model.version {
        Some(version) => format!("{}@{version}", model.id),
        None => model.id.to_string(),
    });
    (service.to_owned(), model.unwrap_or_default())
}

/// The steps that a job needs.
fn steps(need: &Need) -> Steps {
    let translated = need.route.directions().any(|(src, tgt)| src != tgt);
    let steps = [!need.typed, !need.typed, translated, need.speech];
    (0..).zip(steps).filter(|(_, needed)| *needed).fold(0, |steps, (bit, _)| steps | (1 << bit))
}

/// Runs until the engine ends: posts what was counted.
pub(crate) async fn keep_posting(book: Arc<UsageBook>, store: Backend, me: Instance) {
    loop {
        tokio::time::sleep(POST_EVERY).await;
        book.post(&store, &me).await;
    }
}

/// What was used on these days, on all instances, each with its counts.
pub(crate) async fn read(
    store: &Backend,
    days: impl Iterator<Item = Day>,
) -> lingua_store::Result<Vec<(Day, DayUsage)>> {
    let mut read = Vec::new();
    for day in days {
        let mut sum = DayUsage::default();
        for counts in store.usage.posted(day).await? {
            // What a later version counts in another way is left out.
            if let Ok(counts) = serde_json::from_slice(&counts) {
                sum.add(&counts);
            }
        }
        read.push((day, sum));
    }
    Ok(read)
}
