//! Why no node takes a job, as its refusal says it.

use lingua_core::eligibility::Need;
use lingua_core::fleet::select::Passed;
use lingua_core::inventory::Asks;
use lingua_core::job::event::{Busy, Lack, Note};
use lingua_core::outcome::Code;

use super::Dispatcher;
use crate::job::{JobSpec, Refusal};

/// What the fleet lacks for the job, and when to try again.
pub(super) fn describe(dispatcher: &Dispatcher, spec: &JobSpec, lack: Lack) -> Refusal {
    note_demand(dispatcher, &spec.need);
    match lack {
        Lack::AbleNode => {
            dispatcher.shared.metrics.jobs.pool_empty.inc();
            no_able_node(dispatcher, spec)
        }
        Lack::Slot(busy) => {
            let refusal = match busy {
                _ if spec.strict && spec.preferred.is_some() => Refusal::new(
                    Code::PreferredNodeBusy,
                    format!("{}, and no other is wanted", preferred_full(dispatcher, spec)),
                ),
                Busy::AllFull => Refusal::new(Code::AllNodesBusy, all_full(dispatcher, spec)),
                Busy::QueueFull => {
                    Refusal::new(Code::AllNodesBusy, "the queue for this direction is full")
                }
                Busy::Displaced => Refusal::new(
                    Code::AllNodesBusy,
                    "the queue for this direction is full, and other tenants have fewer jobs in it",
                ),
            };
            refusal.retry_after(retry_after_ms(dispatcher, spec))
        }
    }
}

/// Notes what was asked for in vain: the direction, or what was asked for by name beside it.
pub(super) fn note_demand(dispatcher: &Dispatcher, need: &Need) {
    let plain = Need { asks: Asks::NONE, ..need.clone() };
    let by_name = !need.asks.is_none() && {
        let mut fleet = dispatcher.shared.fleet.lock();
        fleet.shortage(need).is_some() && fleet.shortage(&plain).is_none()
    };
    dispatcher.demand.note(if by_name { need } else { &plain });
}

/// No node may take the job now: what is missing, and when to try again if it passes.
fn no_able_node(dispatcher: &Dispatcher, spec: &JobSpec) -> Refusal {
    let shared = &dispatcher.shared;
    let shortage = shared.fleet.lock().shortage(&spec.need);
    let (code, detail) = match shortage {
        Some(shortage) => (shortage.code(), shortage.to_string()),
        None => {
            let changed = "The nodes that could take it changed a moment ago; try again.";
            (Code::NodeUnavailable, changed.to_owned())
        }
    };
    let refusal = Refusal::new(code, detail);
    match code {
        Code::NodeUnavailable => refusal.retry_after(shared.settings.timing.heartbeat_ms),
        _ => refusal,
    }
}

/// That every slot is taken, and how many there are if some are not open.
fn all_full(dispatcher: &Dispatcher, spec: &JobSpec) -> String {
    let need = &spec.need;
    let mut fleet = dispatcher.shared.fleet.lock();
    let slots = fleet.members_for(need).filter(|node| node.why_not(need).is_empty());
    let slots = slots.map(|node| (u64::from(node.max()), u64::from(node.profile().max_slots)));
    let (open, declared) = slots.fold((0, 0), |sum, (open, all)| (sum.0 + open, sum.1 + all));
    match open < declared {
        true => {
            format!("every open slot of the able nodes is taken: {open} of {declared} slots open")
        }
        false => "every able node is full".to_owned(),
    }
}

/// The same of the node that the job asks for.
fn preferred_full(dispatcher: &Dispatcher, spec: &JobSpec) -> String {
    let fleet = dispatcher.shared.fleet.lock();
    let node = spec.preferred.as_ref().and_then(|id| fleet.get(id));
    match node.map(|node| (node.max(), node.profile().max_slots)) {
        Some((open, all)) if open < all => {
            format!("every open slot of the node asked for is taken: {open} of {all} slots open")
        }
        _ => "the node asked for is full".to_owned(),
    }
}

/// When a slot is likely to be free: the number of waiting jobs times what a job takes, over the slots.
fn retry_after_ms(dispatcher: &Dispatcher, spec: &JobSpec) -> u64 {
    let need = &spec.need;
    let ahead = dispatcher.queue.length(need.route, need.speech) as u64 + 1;
    let mut fleet = dispatcher.shared.fleet.lock();
    let (mut slots, mut latency, mut nodes) = (0u64, 0u64, 0u64);
    for node in fleet.members_for(need).take(64) {
        slots += u64::from(node.max());
        latency += u64::from(node.latency_ms().unwrap_or(1_000));
        nodes += 1;
    }
    let each = latency / nodes.max(1);
    (ahead * each / slots.max(1)).clamp(100, 30_000)
}

/// A note on the choice, for people.
pub(super) fn note_text(note: Note) -> String {
    match note {
        Note::PreferredFull => "preferred node passed over: it has no slot free".to_owned(),
        Note::OriginalOnly => {
            "no node translates: the answer is what was said, in writing".to_owned()
        }
        Note::Pivot { via } => {
            format!("no node translates straight into the target language: by way of {via}")
        }
        Note::TextOnly => "no node speaks the target language: the answer is text".to_owned(),
        Note::PreferredPassed(passed) => {
            let why = match passed {
                Passed::Unknown => "unknown".to_owned(),
                Passed::Excluded => "it failed this job".to_owned(),
                Passed::NotEligible(why) => {
                    let words: Vec<&str> = why.iter().map(|reason| reason.as_str()).collect();
                    format!("not able ({})", words.join(", "))
                }
            };
            format!("preferred node passed over: {why}")
        }
    }
}
