//! Whatever happens in whatever order, a node's machine keeps its promises.
//!
//! A driver plays arbitrary events of a node, of jobs, of the store and of time. The store is the
//! real ledger of leases; the node runs what it was sent, and says so or lies. The checker knows the
//! promises and none of the machine's code.

mod attempts;
mod checker;
mod driver;

use driver::Driver;
use lingua_core::link::event::MessageKind;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Wait { ms: u64, late: bool },
    Register { over: bool, supports: u8, running: Running, moved: bool, slots: u32 },
    Beat { stale: bool, running: Running, percent: u8 },
    JobMessage { which: u8, fence: Fence, kind: MessageKind },
    Assign { granted: bool },
    AssignAgain { which: u8 },
    Adopt { known: u8 },
    GiveUp { which: u8, blame: bool },
    End { which: u8 },
    Abandon { which: u8 },
    NotQueued { which: u8 },
    SendFailed { which: u8, stale: bool },
    Answer { fails: bool, other: bool },
    StoreBack { lost: bool },
    Order(u8),
    Gap { ms: u64 },
    Faulted,
    ProbeRequested,
    Disconnect { stale: bool },
    MoveAway { stale: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Running {
    Unsaid,
    True,
    Lie { known: u8, unknown: u8 },
    Count { more: u8 },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Fence {
    Right,
    OlderConnection,
    OtherAttempt,
    OtherToken,
    UnknownJob,
}

fn running() -> impl Strategy<Value = Running> {
    prop_oneof![
        3 => Just(Running::Unsaid),
        6 => Just(Running::True),
        2 => (0..4u8, 0..24u8).prop_map(|(known, unknown)| Running::Lie { known, unknown }),
        2 => (0..3u8).prop_map(|more| Running::Count { more }),
    ]
}

fn fence() -> impl Strategy<Value = Fence> {
    prop_oneof![
        10 => Just(Fence::Right),
        1 => Just(Fence::OlderConnection),
        1 => Just(Fence::OtherAttempt),
        1 => Just(Fence::OtherToken),
        2 => Just(Fence::UnknownJob),
    ]
}

fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![
        3 => Just(MessageKind::Ack),
        1 => Just(MessageKind::Started),
        1 => Just(MessageKind::Reject),
        2 => Just(MessageKind::Partial),
        3 => Just(MessageKind::Success),
        1 => Just(MessageKind::Empty),
        2 => any::<bool>().prop_map(|fault| MessageKind::Failure { fault }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let ms = prop_oneof![6 => 0..300u64, 3 => 300..4_000u64, 1 => 4_000..60_000u64];
    let which = || 0..6u8;
    let rarely = || prop::bool::weighted(0.15);
    prop_oneof![
        16 => (ms.clone(), rarely()).prop_map(|(ms, late)| Op::Wait { ms, late }),
        5 => (rarely(), 0..3u8, running(), any::<bool>(), 1..5u32).prop_map(
            |(over, supports, running, moved, slots)| {
                Op::Register { over, supports, running, moved, slots }
            }
        ),
        10 => (rarely(), running(), 80..100u8)
            .prop_map(|(stale, running, percent)| Op::Beat { stale, running, percent }),
        20 => (which(), fence(), kind())
            .prop_map(|(which, fence, kind)| Op::JobMessage { which, fence, kind }),
        20 => prop::bool::weighted(0.8).prop_map(|granted| Op::Assign { granted }),
        2 => which().prop_map(|which| Op::AssignAgain { which }),
        3 => which().prop_map(|known| Op::Adopt { known }),
        6 => (which(), any::<bool>()).prop_map(|(which, blame)| Op::GiveUp { which, blame }),
        6 => which().prop_map(|which| Op::End { which }),
        3 => which().prop_map(|which| Op::Abandon { which }),
        1 => which().prop_map(|which| Op::NotQueued { which }),
        2 => (which(), rarely()).prop_map(|(which, stale)| Op::SendFailed { which, stale }),
        24 => (rarely(), rarely()).prop_map(|(fails, other)| Op::Answer { fails, other }),
        1 => any::<bool>().prop_map(|lost| Op::StoreBack { lost }),
        1 => (0..3u8).prop_map(Op::Order),
        1 => ms.prop_map(|ms| Op::Gap { ms }),
        3 => Just(Op::Faulted),
        1 => Just(Op::ProbeRequested),
        3 => rarely().prop_map(|stale| Op::Disconnect { stale }),
        1 => prop::bool::weighted(0.6).prop_map(|stale| Op::MoveAway { stale }),
    ]
}

fn cases() -> u32 {
    let asked = std::env::var("LINGUA_PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(0).max(5_000)
}

/// A life of a node, to be lived.
pub fn life() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..150)
}

/// Lives it; panics if a promise is broken.
pub fn live(ops: Vec<Op>) {
    let mut driver = Driver::new();
    driver.register(false, 1, Running::Unsaid, false, 3);
    for op in ops {
        driver.play(op);
    }
    driver.finish();
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases())
    })]

    /// I1's second lock, I6, I7, I9 and every bound, over arbitrary lives of a node.
    #[test]
    fn a_node_keeps_its_promises_whatever_happens_in_whatever_order(
        life in life(),
    ) {
        live(life);
    }
}
