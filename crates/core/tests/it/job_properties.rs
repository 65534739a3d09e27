//! What the job machine promises, over any order of events and any answers.

mod checker;

use proptest::prelude::*;

use checker::{Harness, Step};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Step::Answer(which, how)),
        3 => (0..6u32, any::<u8>()).prop_map(|(attempt, kind)| Step::Message(attempt, kind)),
        2 => Just(Step::Timer),
        2 => (0..2_000u16).prop_map(Step::Pass),
        2 => Just(Step::Idle),
        1 => any::<u8>().prop_map(Step::Call),
        3 => (any::<bool>(), any::<u8>()).prop_map(|(second, kind)| Step::Leg(second, kind)),
    ];
    prop::collection::vec(step, 0..120)
}

/// A life of a job, to be lived.
pub fn life() -> impl Strategy<Value = (Vec<Step>, u16)> {
    (steps(), any::<u16>())
}

/// Lives it; panics if a promise is broken.
pub fn live((steps, shape): (Vec<Step>, u16)) {
    let mut harness = Harness::new(shape);
    for step in steps {
        harness.step(step);
    }
    harness.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// I6, I8 and the machine's own promises: see [`checker`].
    #[test]
    fn a_job_ends_once_and_gives_every_slot_back(life in life()) {
        live(life);
    }
}
