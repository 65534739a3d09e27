//! Which node a job tries next.

use std::sync::Arc;

use lingua_core::NodeId;
use lingua_core::fleet::select::{Selector, Wish};
use lingua_core::job::event::{Among, ChooseFrom};
use lingua_core::job::{Event, Machine};
use tokio::time::Instant;

use super::Dispatcher;
use crate::fleet::Placement;
use crate::job::{JobSpec, Past};

/// The order in which a job tries nodes.
#[derive(Default)]
pub(super) struct Choosing {
    /// The node that has the earlier parts of the turn.
    turn_node: Option<NodeId>,
    selector: Option<Selector>,
}

impl Choosing {
    /// The next node, with its slot.
    pub async fn next(
        &mut self,
        dispatcher: &Dispatcher,
        spec: &JobSpec,
        machine: &Machine,
        (from, among): (ChooseFrom, Among),
    ) -> (Event, Option<Placement>) {
        if from == ChooseFrom::Start
            && let Some(turn) = &spec.turn
        {
            let bound = dispatcher.shared.store.turns.node(&spec.session, turn).await;
            self.turn_node = bound.unwrap_or_default();
        }
        if from != ChooseFrom::Next {
            self.selector = None;
        }
        let make = || selector(dispatcher, spec, machine, self.turn_node.clone());
        let selector = self.selector.get_or_insert_with(make);
        let fleet = &dispatcher.shared.fleet;
        let need = &spec.need;
        let only_free = match among {
            Among::Free => true,
            Among::FreeIfOthersWait => dispatcher.queue.length(need.route, need.speech) > 0,
        };
        let placement = match only_free {
            true => fleet.choose_free(selector),
            false => fleet.choose(selector),
        };
        let Some(placement) = placement else {
            return (Event::NoneChosen(selector.verdict()), None);
        };
        let passed_over = selector.preferred_passed().filter(|_| selector.candidates() == 1);
        let candidate = placement.candidate();
        let (node, source) = (candidate.node.clone(), candidate.source);
        (Event::Chosen { node, source, passed_over }, Some(placement))
    }
}

fn selector(
    dispatcher: &Dispatcher,
    spec: &JobSpec,
    machine: &Machine,
    turn_node: Option<NodeId>,
) -> Selector {
    let shared = &dispatcher.shared;
    let Past { last, heard } = match &spec.past {
        Some(past) => past.clone(),
        None => dispatcher.conversations.past(&spec.session),
    };
    let mut excluded = dispatcher.nodes.marks().of(spec.need.route, Instant::now());
    excluded.retain(|node| !machine.unmarked().contains(node));
    excluded.extend(machine.unwanted().cloned());
    let wish = Wish {
        preferred: spec.preferred.clone(),
        strict: spec.strict,
        turn_node,
        avoid_last: last.filter(|_| shared.settings.avoid_last),
        excluded,
        heard,
        region: spec.region.clone(),
    };
    let select = dispatcher.selects[spec.profile as usize];
    Selector::new(spec.need.clone(), wish, select, shared.chance.bits())
}

/// The node with the oldest mark for the job's direction: it may have the missing model by now.
pub(super) fn oldest_mark(
    dispatcher: &Arc<Dispatcher>,
    spec: &JobSpec,
    machine: &Machine,
) -> Option<NodeId> {
    let marked = dispatcher.nodes.marks().of(spec.need.route, Instant::now());
    marked.into_iter().find(|node| machine.may_unmark(node))
}
