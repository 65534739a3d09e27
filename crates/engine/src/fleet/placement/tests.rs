use lingua_core::eligibility::{Need, Route, Standing};
use lingua_core::fleet::select::{SelectPolicy, Selector, Wish};
use lingua_core::fleet::{NodeEntry, ProfileVersion};
use lingua_core::node::{Declaration, NodeProfile};
use lingua_core::{Lang, TenantId};
use parking_lot::Mutex;

use super::*;

fn node() -> NodeId {
    NodeId::new("n").unwrap()
}

fn view(slots: u32) -> Arc<FleetView> {
    let langs = ["en", "zh"].map(|tag| Lang::new(tag).unwrap());
    let declaration = Declaration {
        semantic: lingua_core::lang::LangSet::new(langs).unwrap(),
        max_slots: slots,
        ..Declaration::default()
    };
    let view = Arc::new(FleetView::default());
    let entry = NodeEntry {
        profile: Arc::new(NodeProfile::from_declaration(declaration).unwrap()),
        version: ProfileVersion::new(1),
        standing: Standing::READY,
    };
    view.put(&node(), entry, slots);
    view
}

fn choose(view: &Arc<FleetView>) -> Option<Placement> {
    let need = Need {
        route: Route::Directed(Lang::new("en").unwrap(), Lang::new("zh").unwrap()),
        speech: false,
        typed: false,
        asks: lingua_core::inventory::Asks::NONE,
        tenant: TenantId::new("t").unwrap(),
        named: false,
    };
    view.choose(&mut Selector::new(need, Wish::default(), SelectPolicy::default(), 7))
}

#[tokio::test(start_paused = true)]
async fn a_slot_counts_from_the_choice_until_the_placement_is_dropped() {
    let view = view(4);
    let mut first = choose(&view).unwrap();
    let second = choose(&view).unwrap();
    assert_eq!(view.used(&node()), 2);
    first.granted(Some(1));
    assert_eq!(view.used(&node()), 2, "what the store counts is ours");
    drop(second);
    assert_eq!(view.used(&node()), 1);
    drop(first);
    assert_eq!(view.used(&node()), 0);
}

#[tokio::test(start_paused = true)]
async fn the_slots_of_others_count_for_a_while() {
    let view = view(4);
    choose(&view).unwrap().refused_full(4, 4);
    assert_eq!(view.used(&node()), 4);
    view.freed_by_peer(&node());
    assert_eq!(view.used(&node()), 3);
    let mut own = choose(&view).unwrap();
    own.granted(Some(3));
    assert_eq!(view.used(&node()), 3, "two of others, one of ours");
    assert_eq!(view.expire_others(Instant::now()), []);
    tokio::time::advance(OTHERS_KEPT).await;
    assert_eq!(view.expire_others(Instant::now()), [node()]);
    assert_eq!(view.used(&node()), 1);
    view.freed_by_peer(&node());
    assert_eq!(view.used(&node()), 1, "our own slot is not for others to free");
    drop(own);
    assert_eq!(view.used(&node()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_left_to_a_peer_counts_until_the_peer_frees_it() {
    let view = view(4);
    let mut left = choose(&view).unwrap();
    left.granted(Some(1));
    left.leave_to_peer();
    assert_eq!(view.used(&node()), 1);
    view.freed_by_peer(&node());
    assert_eq!(view.used(&node()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_placement_outlives_its_node_and_counts_again_when_it_is_back() {
    let view = view(4);
    let kept = choose(&view).unwrap();
    let entry = {
        let fleet = view.lock();
        let node = fleet.get(&node()).unwrap();
        let (profile, version) = (Arc::clone(node.profile()), *node.version());
        NodeEntry { profile, version, standing: Standing::READY }
    };
    view.remove(&node());
    assert_eq!(view.used(&node()), 0);
    view.put(&node(), entry, 4);
    assert_eq!(view.used(&node()), 1);
    drop(kept);
    assert_eq!(view.used(&node()), 0);
    view.remove(&node());
    assert!(view.state.lock().usage.nodes.is_empty(), "nothing is left of a node that left");
}

/// One waiting job.
#[derive(Default)]
struct OneWaits {
    got: Mutex<Option<Placement>>,
    announced: Mutex<u32>,
}

impl FreedSlots for Arc<OneWaits> {
    fn is_wanted(&self) -> bool {
        self.got.lock().is_none()
    }

    fn offer(&self, slot: Placement) -> Option<Placement> {
        self.got.lock().replace(slot)
    }

    fn announce(&self, _: &NodeId, _: bool) {
        *self.announced.lock() += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_comes_free_goes_to_a_waiting_job_and_never_looks_free_on_the_way() {
    let (view, waits) = (view(1), Arc::new(OneWaits::default()));
    view.set_freed(Box::new(Arc::clone(&waits)));
    let mut slot = choose(&view).unwrap();
    slot.granted(Some(1));
    drop(slot);
    assert_eq!(view.used(&node()), 1, "it is the waiting job's");
    assert_eq!(*waits.announced.lock(), 0, "it is not free for anybody else");
    let handed = waits.got.lock().take().unwrap();
    assert_eq!(handed.candidate().source, Source::Handed);
    *waits.got.lock() = choose(&view);
    drop(handed);
    assert_eq!(*waits.announced.lock(), 1, "nobody here wanted it");
    waits.got.lock().take().unwrap().give_back();
    assert_eq!(view.used(&node()), 0);
}

#[tokio::test(start_paused = true)]
async fn free_slots_of_a_node_that_comes_are_offered_while_jobs_wait() {
    let (view, waits) = (view(3), Arc::new(OneWaits::default()));
    view.set_freed(Box::new(Arc::clone(&waits)));
    view.offer(&node(), 3);
    assert_eq!(view.used(&node()), 1, "one job waited");
    assert!(waits.got.lock().is_some());
}

/// Also on a node that did not look full here: other instances know what they hold, and this one
/// does not.
#[tokio::test(start_paused = true)]
async fn every_slot_that_nobody_here_wants_is_told() {
    let (view, waits) = (view(8), Arc::new(OneWaits::default()));
    *waits.got.lock() = choose(&view);
    view.set_freed(Box::new(Arc::clone(&waits)));
    let mut slot = choose(&view).unwrap();
    slot.granted(Some(2));
    drop(slot);
    view.freed_in_store(&node());
    assert_eq!(*waits.announced.lock(), 2);
    waits.got.lock().take().unwrap().give_back();
}

/// While all is full the net asks so many nodes at a time, however many there are.
#[tokio::test(start_paused = true)]
async fn figures_of_others_are_forgotten_so_many_at_a_time() {
    let view = view(4);
    let entry = {
        let fleet = view.lock();
        let node = fleet.get(&node()).unwrap();
        let (profile, version) = (Arc::clone(node.profile()), *node.version());
        NodeEntry { profile, version, standing: Standing::READY }
    };
    view.remove(&node());
    let nodes = FORGOTTEN_AT_ONCE * 3;
    for n in 0..nodes {
        view.put(&NodeId::new(format!("n{n}")).unwrap(), entry.clone(), 4);
    }
    for _ in 0..nodes {
        choose(&view).unwrap().refused_full(4, 4);
    }
    let full = || (0..nodes).filter(|n| view.used(&NodeId::new(format!("n{n}")).unwrap()) == 4);
    assert_eq!(full().count(), nodes);
    assert_eq!(view.expire_others(Instant::now()), []);
    view.forget_others();
    for left in [nodes - FORGOTTEN_AT_ONCE, nodes - 2 * FORGOTTEN_AT_ONCE] {
        assert_eq!(view.expire_others(Instant::now()).len(), FORGOTTEN_AT_ONCE);
        assert_eq!(full().count(), left);
    }
}
