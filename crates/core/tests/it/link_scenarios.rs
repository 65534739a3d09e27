//! What becomes of a node's attempts, event by event.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::Timing;
use lingua_core::link::event::{
    Answer, Call, Heartbeat, News, Registered, ToNode, TokenClaim, Word, WordKind,
};
use lingua_core::link::{
    Arrival, BreakerPolicy, BreakerState, Effect, Event, GRACE_FOR_LATE_RESULTS, Kinds, Machine,
    NewAttempt, Policy, SlowStart, Supports, TELL_AGAIN,
};
use lingua_core::node::{Declaration, Health, NodeProfile, Order};
use lingua_core::rate::Rate;
use lingua_core::slots::Confirmed;
use lingua_core::{JobId, LeaseToken, Moment};

struct Plain;

impl Kinds for Plain {
    type Listener = &'static str;
    type Message = &'static str;
    type Payload = &'static str;
    type Slot = &'static str;
}

const OURS: Supports = Supports {
    ack: true,
    cancel: true,
    binary_audio: false,
    text: false,
    tokens: false,
    other: false,
    result_ack: true,
    calls: false,
};

/// A node, and what it was told to do, in words.
struct Node {
    machine: Machine<Plain>,
    now: Moment,
    epoch: u64,
}

impl Node {
    fn new() -> Self {
        let second = Duration::from_secs(1);
        let policy = Policy {
            timing: Timing::stable(),
            breaker: BreakerPolicy { failures: 2, first_pause_ms: 500, longest_pause_ms: 1_000 },
            slow_start: SlowStart::Off,
            overload_above: 95.0,
            updates: Rate::new(100, second, 100),
            lookups: Rate::new(10, second, 10),
        };
        let machine = Machine::new(Arc::new(policy), Moment::ZERO);
        Node { machine, now: Moment::ZERO, epoch: 0 }
    }

    fn feed(&mut self, event: Event<Plain>) -> Vec<String> {
        let effects = self.machine.on_event(self.now, event);
        effects.into_iter().filter_map(worded).collect()
    }

    fn wait(&mut self, wait: Duration) -> Vec<String> {
        self.now = self.now + wait;
        self.feed(Event::Tick)
    }

    fn register(&mut self, supports: Supports, running: Option<Vec<(JobId, u32)>>) -> Vec<String> {
        self.epoch += 1;
        let semantic = [lingua_core::Lang::new("en").unwrap()];
        let declaration = Declaration {
            semantic: lingua_core::lang::LangSet::new(semantic).unwrap(),
            max_slots: 2,
            ..Declaration::default()
        };
        let registered = Registered {
            epoch: self.epoch,
            over: None,
            profile: Arc::new(NodeProfile::from_declaration(declaration).unwrap()),
            version: 1,
            health: Health::Ready,
            supports,
            arrival: Arrival::Local,
            order: Order::Serve,
            heartbeat: Duration::from_secs(5),
            lists_running: running.is_some(),
            running,
            moved: false,
            hold: None,
            at_ms: 1,
            reputation: None,
        };
        self.feed(Event::Registered(Box::new(registered)))
    }

    fn assign(&mut self, n: u32) -> Vec<String> {
        let attempt = NewAttempt {
            token: token(n),
            turn: "turn".to_owned(),
            index: u64::from(n),
            listener: "job",
            lease: Duration::from_secs(3),
            wanted_until: None,
        };
        self.feed(Event::AssignWanted { attempt, message: "work" })
    }

    fn says(&mut self, n: u32, kind: WordKind) -> Vec<String> {
        let (job, attempt, token) = (token(n).job, Some(1), TokenClaim::Absent);
        let word = Word { job, attempt, token, kind, payload: "said" };
        self.feed(Event::Word { epoch: self.epoch, word })
    }

    /// The node reports what it runs, and the store answers so.
    fn reports(&mut self, running: &[u32], confirmed: Confirmed) -> Vec<String> {
        let running = running.iter().map(|n| (token(*n).job, 1)).collect();
        let beat = Heartbeat { running: Some(running), ..Heartbeat::default() };
        let mut words = self.feed(Event::Heartbeat { epoch: self.epoch, beat });
        words.extend(self.answer(Answer::Kept { confirmed: true }));
        words.extend(self.answer(Answer::Confirmed(confirmed)));
        words
    }

    fn answer(&mut self, answer: Answer) -> Vec<String> {
        self.feed(Event::Answered { epoch: self.epoch, answer })
    }
}

fn token(n: u32) -> LeaseToken {
    LeaseToken { job: format!("{n:026}").parse().unwrap(), attempt: 1, nonce: u128::from(n) }
}

/// An effect in words; those about choosing and time are left out.
fn worded(effect: Effect<Plain>) -> Option<String> {
    Some(match effect {
        Effect::Send(ToNode::Assign(_)) => "assign".into(),
        Effect::Send(ToNode::Control { command, reason }) => format!("{command}: {reason}"),
        Effect::PutAside => "put aside".into(),
        Effect::BackInService => "back in service".into(),
        Effect::WordRefused { retry_after } => format!("again in {} s", retry_after.as_secs()),
        Effect::Send(ToNode::Cancel { reason, frees, .. }) => {
            format!("cancel {reason}{}", if frees.is_some() { ", then release" } else { "" })
        }
        Effect::Tell { news, .. } => match news {
            News::Said(kind, _) => format!("tell {}", kind.as_str()),
            News::NotSent => "tell not sent".into(),
            News::NodeGone => "tell gone".into(),
            News::NodeBack => "tell back".into(),
            News::Dropped => "tell dropped".into(),
            News::TurnClosed => "tell turn closed".into(),
        },
        Effect::NotAssigned(why) => format!("{why:?}"),
        Effect::Release { slot, .. } => format!("release {}", slot.unwrap_or("nothing")),
        Effect::SlotFreed(slot) => format!("freed {slot}"),
        Effect::LookupLimited => "lookup limited".to_owned(),
        Effect::Stale(kind) => format!("stale {}", kind.as_str()),
        Effect::Orphaned(_) => "orphaned".into(),
        Effect::ReportRefused { unknown, .. } => format!("{unknown} unknown are too many"),
        Effect::Store { call: Call::LookUp(jobs), .. } => format!("look {} up", jobs.len()),
        Effect::BreakerOpened => "breaker opened".into(),
        _ => return None,
    })
}

#[test]
fn a_node_gets_no_more_attempts_than_it_has_slots() {
    let mut node = Node::new();
    assert_eq!(node.assign(1), ["NotConnected"]);
    node.register(OURS, None);
    assert_eq!((node.assign(1), node.assign(2)), (vec!["assign".into()], vec!["assign".into()]));
    assert_eq!(node.assign(3), ["Full"]);
    assert_eq!(node.says(1, WordKind::Success), ["tell result"]);
    assert_eq!(node.assign(3), ["assign"], "the node has said that it has room");
}

#[test]
fn the_slot_of_a_cancelled_attempt_is_free_once_the_cancel_is_on_the_connection() {
    let (job, attempt, reason) = (token(1).job, 1, "given_up");
    let mut node = Node::new();
    node.register(OURS, None);
    node.assign(1);
    let slot = Some("slot");
    let given_up = Event::GivenUp { job, attempt, reason, slot };
    assert_eq!(node.feed(given_up), ["cancel given_up, then release"]);
    assert_eq!(node.feed(Event::CancelSent { token: token(1) }), ["release slot"]);
    assert!(node.feed(Event::CancelSent { token: token(1) }).is_empty(), "once");

    let mut deaf = Node::new();
    deaf.register(Supports { cancel: false, ..OURS }, None);
    deaf.assign(1);
    let given_up = Event::GivenUp { job, attempt, reason, slot };
    assert_eq!(deaf.feed(given_up), ["cancel given_up"]);
    assert_eq!(deaf.says(1, WordKind::Success), ["stale result", "release slot"]);
}

#[test]
fn what_a_node_cannot_be_told_to_stop_keeps_its_slot_until_its_lease_lapses() {
    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.assign(1);
    let (job, attempt) = (token(1).job, 1);
    node.feed(Event::GivenUp { job, attempt, reason: "given_up", slot: Some("slot") });
    assert!(node.wait(Duration::from_millis(2_999)).is_empty());
    assert_eq!(node.wait(Duration::from_millis(1)), ["freed slot"]);
}

#[test]
fn what_a_node_does_not_name_after_a_reconnect_is_dropped_unless_its_result_comes() {
    for late_result in [true, false] {
        let mut node = Node::new();
        node.register(OURS, None);
        node.assign(1);
        node.says(1, WordKind::Ack);
        let epoch = node.epoch;
        assert_eq!(node.feed(Event::Disconnected { epoch }), ["tell gone"]);
        node.answer(Answer::Failed);
        assert_eq!(node.register(OURS, Some(Vec::new())), ["tell back"]);
        node.answer(Answer::Kept { confirmed: true });
        assert!(node.answer(Answer::Confirmed(Confirmed::default())).is_empty());
        if late_result {
            assert_eq!(node.says(1, WordKind::Success), ["tell result"]);
            assert!(node.wait(GRACE_FOR_LATE_RESULTS).is_empty());
        } else {
            assert_eq!(node.wait(GRACE_FOR_LATE_RESULTS), ["tell dropped"]);
        }
    }
}

#[test]
fn what_the_store_took_back_by_a_report_is_dropped() {
    let mut node = Node::new();
    node.register(OURS, None);
    node.assign(1);
    node.says(1, WordKind::Ack);
    node.assign(2);
    node.now = node.now + Duration::from_secs(5);
    node.says(2, WordKind::Ack);
    let dropped = Confirmed { dropped: vec![token(1), token(2)], ..Confirmed::default() };
    // The node spoke of the second at the moment of the report: it may have crossed with it.
    assert_eq!(node.reports(&[], dropped), ["tell dropped"]);
    let unknown = Confirmed { unknown: vec![token(2)], ..Confirmed::default() };
    assert_eq!(node.reports(&[2], unknown), ["cancel no_lease", "tell dropped", "breaker opened"]);
}

/// The instance of a job was killed; the node registers elsewhere and answers before the job's new
/// owner has said that it wants to hear of it.
#[test]
fn a_result_that_is_quicker_than_its_adoption_is_told_when_the_job_is_known() {
    let adopted = || NewAttempt {
        token: token(1),
        turn: "turn".to_owned(),
        index: 1,
        listener: "job",
        lease: Duration::from_secs(15),
        wanted_until: None,
    };
    let mut node = Node::new();
    node.register(Supports::default(), None);
    assert_eq!(node.says(1, WordKind::Success), ["stale result"]);
    node.now = node.now + Duration::from_secs(1);
    assert_eq!(node.feed(Event::Adopted(adopted())), ["tell result"]);

    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.says(1, WordKind::Success);
    assert_eq!(node.wait(Duration::from_millis(1_500)), ["orphaned"], "nobody wants it");
}

#[test]
fn unknown_jobs_are_looked_up_within_a_rate_and_a_longer_list_is_refused_whole() {
    let mut node = Node::new();
    node.register(OURS, None);
    let list = |jobs: u32| (100..100 + jobs).collect::<Vec<u32>>();
    let report = |node: &mut Node, jobs: u32| {
        let running = list(jobs).iter().map(|n| (token(*n).job, 1)).collect();
        let beat = Heartbeat { running: Some(running), ..Heartbeat::default() };
        let epoch = node.epoch;
        node.feed(Event::Heartbeat { epoch, beat })
    };
    assert_eq!(report(&mut node, 11), ["11 unknown are too many"]);
    node.answer(Answer::Kept { confirmed: true });
    assert!(report(&mut node, 10).is_empty());
    assert_eq!(node.answer(Answer::Kept { confirmed: true }), ["look 10 up"]);
    let stopped = node.answer(Answer::Found(vec![None; 10]));
    assert_eq!(stopped, vec!["cancel unknown"; 10]);
    assert_eq!(report(&mut node, 1), ["1 unknown are too many"]);
}

#[test]
fn one_break_of_the_connection_counts_once_against_the_node() {
    let mut node = Node::new();
    node.register(OURS, None);
    (1..3).for_each(|n| drop(node.assign(n)));
    let epoch = node.epoch;
    node.feed(Event::Disconnected { epoch });
    for n in 1..3 {
        node.feed(Event::Blamed { job: token(n).job, attempt: 1, failed: None });
    }
    assert_eq!(node.machine.breaker(), BreakerState::Closed, "two jobs, one break");
}

#[test]
fn an_older_agent_ends_the_earlier_parts_of_a_turn_with_the_closing_one() {
    let mut node = Node::new();
    node.register(Supports::default(), None);
    node.assign(1);
    node.assign(2);
    assert_eq!(node.says(2, WordKind::Success), ["tell result", "tell turn closed"]);
}

/// A node whose owner made it worse: it fails everything.
fn failing() -> Node {
    let mut node = Node::new();
    node.register(OURS, None);
    node
}

fn fails(node: &mut Node) -> Vec<String> {
    let (at_ms, job) = (1, token(1).job);
    node.feed(Event::FailureNoted { at_ms, job, code: "GPU_LOST".into() });
    node.feed(Event::Faulted)
}

#[test]
fn a_node_that_keeps_failing_is_told_to_drain_and_why_until_a_probe_succeeds() {
    let mut node = failing();
    assert!(fails(&mut node).is_empty());
    assert_eq!(fails(&mut node), ["breaker opened"]);
    for _ in 0..2 {
        assert!(node.wait(Duration::from_secs(2)).is_empty());
        assert_eq!(fails(&mut node), ["breaker opened"]);
    }
    node.wait(Duration::from_secs(2));
    let why = "put aside after 5 failures in a row, the last one GPU_LOST";
    let drain = |why: &str| {
        format!("drain: {why}: it gets one job as a probe in 1 s, or when its owner resumes it")
    };
    assert_eq!(fails(&mut node), ["breaker opened".to_owned(), drain(why), "put aside".into()]);
    let resume = format!("resume: {why}: it gets one job as a probe now");
    assert_eq!(node.wait(Duration::from_secs(1)), [resume]);
    let why = "put aside after 6 failures in a row, the last one GPU_LOST";
    assert_eq!(fails(&mut node), ["breaker opened".to_owned(), drain(why)], "it is aside already");
    node.wait(Duration::from_secs(1));
    node.assign(9);
    let back = node.says(9, WordKind::Success);
    assert_eq!(back, ["tell result", "back in service"]);
    assert!(node.machine.aside().is_none());
}

#[test]
fn the_owners_word_brings_a_probe_at_once_and_is_taken_now_and_then() {
    let mut node = failing();
    for _ in 0..2 {
        fails(&mut node);
    }
    assert!(node.feed(Event::Vouched).is_empty());
    assert_eq!(node.machine.breaker(), BreakerState::Probing);
    fails(&mut node);
    node.feed(Event::Vouched);
    fails(&mut node);
    assert_eq!(node.feed(Event::Vouched), ["again in 30 s"]);
    assert!(matches!(node.machine.breaker(), BreakerState::Open { .. }));
}

#[test]
fn an_administrators_order_comes_before_what_the_scheduler_says() {
    let mut node = failing();
    node.feed(Event::Ordered(Order::Drain));
    for _ in 0..2 {
        fails(&mut node);
    }
    for _ in 0..3 {
        node.wait(Duration::from_secs(2));
        let said = fails(&mut node);
        assert!(!said.iter().any(|said| said.starts_with("drain")), "{said:?}");
    }
    let said = node.feed(Event::Ordered(Order::Serve));
    assert!(said.len() == 1 && said[0].starts_with("drain: put aside"), "{said:?}");
}

#[test]
fn what_a_node_did_elsewhere_is_known_where_it_comes_next() {
    let mut node = failing();
    for _ in 0..2 {
        fails(&mut node);
    }
    let known = node.machine.reputation();
    assert_eq!((known.failed, known.failed_by_code["GPU_LOST"]), (2, 2));
    let mut next = Node::new();
    let profile = Arc::clone(node.machine.profile().0);
    let registered = Registered {
        epoch: 7,
        over: None,
        profile,
        version: 1,
        health: Health::Ready,
        supports: OURS,
        arrival: Arrival::Local,
        order: Order::Serve,
        heartbeat: Duration::from_secs(5),
        lists_running: false,
        running: None,
        moved: true,
        hold: None,
        at_ms: 9,
        reputation: Some(known.aged(Duration::from_millis(100))),
    };
    next.feed(Event::Registered(Box::new(registered)));
    let until = Moment::ZERO + Duration::from_millis(400);
    assert_eq!(next.machine.breaker(), BreakerState::Open { until }, "the rest of its pause");
    assert_eq!(next.machine.reputation().since_ms, 1);
    assert_eq!(next.machine.reputation().latest_failures().len(), 2);
}

/// A node that names what nobody knows after a loss, and that stops for nobody.
#[test]
fn after_a_loss_jobs_that_nobody_knows_hold_grants_until_they_are_over_or_stopped() {
    for (obeys, hold_ms) in [(true, 3_000), (false, 45_000)] {
        let mut node = Node::new();
        let supports = Supports { cancel: obeys, ..OURS };
        node.register(supports, None);
        let named = Heartbeat { running: Some(vec![(token(5).job, 1)]), ..Heartbeat::default() };
        let epoch = node.epoch;
        node.feed(Event::Heartbeat { epoch, beat: named });
        let confirmed = Answer::Kept { confirmed: false };
        assert_eq!(node.answer(confirmed), ["look 1 up"]);
        let answered = Event::Answered { epoch, answer: Answer::Found(vec![None]) };
        let effects = node.machine.on_event(node.now, answered);
        let report = effects.into_iter().find_map(|effect| match effect {
            Effect::Store { call: Call::Confirm(report), .. } => Some(report),
            _ => None,
        });
        let hold = report.expect("it is told to the store").reserve_lease;
        assert_eq!(hold, Duration::from_millis(hold_ms), "{obeys}");
    }
}

fn calls(effects: Vec<Effect<Plain>>) -> Vec<&'static str> {
    let call = |effect| match effect {
        Effect::Store { call, .. } => Some(match call {
            Call::Put(..) => "put",
            Call::Beat(..) => "beat",
            Call::LookUp(_) => "look up",
            Call::Confirm(_) => "confirm",
            Call::Renew { .. } => "renew",
        }),
        _ => None,
    };
    effects.into_iter().filter_map(call).collect()
}

/// A store that does not answer for a moment loses nothing by it, and is not told everything anew.
#[test]
fn what_the_store_did_not_take_is_told_again_and_nothing_else() {
    let mut node = Node::new();
    node.register(OURS, Some(vec![]));
    node.answer(Answer::Stored);
    node.answer(Answer::Confirmed(Confirmed::default()));
    node.assign(1);
    node.says(1, WordKind::Ack);
    node.now = node.now + Duration::from_secs(5);
    let beat = Heartbeat { running: Some(vec![(token(1).job, 1)]), ..Heartbeat::default() };
    let event = Event::Heartbeat { epoch: node.epoch, beat };
    assert_eq!(calls(node.machine.on_event(node.now, event)), ["beat"]);
    let mut answered = |answer, wait| {
        let event = Event::Answered { epoch: node.epoch, answer };
        let at_once = calls(node.machine.on_event(node.now, event));
        node.now = node.now + wait;
        (at_once, calls(node.machine.on_event(node.now, Event::Tick)))
    };
    let none: Vec<&str> = Vec::new();
    // Not at once: a store that is away is not asked again and again.
    assert_eq!(answered(Answer::Failed, TELL_AGAIN), (none.clone(), vec!["beat"]));
    let kept = Answer::Kept { confirmed: true };
    assert_eq!(answered(kept.clone(), TELL_AGAIN), (vec!["confirm"], none.clone()));
    assert_eq!(answered(Answer::Failed, TELL_AGAIN), (none.clone(), vec!["beat"]));
    assert_eq!(answered(kept, TELL_AGAIN), (vec!["confirm"], none.clone()));
    let confirmed = Answer::Confirmed(Confirmed::default());
    assert_eq!(answered(confirmed, TELL_AGAIN * 3), (none.clone(), none), "it was told");
}
