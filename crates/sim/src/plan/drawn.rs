//! A plan from a seed.

use super::{ClientKind, InstancePlan, NodeKind, NodePlan, Plan, SpeakerPlan};
use crate::dice::Dice;
use crate::fault::{Fault, Flaw, Planned};

/// Everybody is there before the first fault.
const FIRST_FAULT_MS: u64 = 4_000;

/// Faults of one world at most.
const MAX_FAULTS: u64 = 12;

pub(super) fn plan(seed: u64) -> Plan {
    let dice = Dice::of(seed, "plan", 0);
    let fast = dice.happens(250);
    // A world of one kind of trouble shows more than one of every kind at once.
    let gentle = dice.happens(400);
    let instances: Vec<_> =
        (0..dice.pick(&[1, 2, 2, 3, 3, 3, 4])).map(|_| instance(&dice)).collect();
    let mut nodes: Vec<_> = (0..dice.between(1, 4)).map(|_| node(&dice, gentle)).collect();
    // Two jobs of one sentence fit.
    if nodes.len() == 1 {
        nodes[0].slots = nodes[0].slots.max(2);
    }
    let speakers: Vec<_> = (0..dice.between(1, 5)).map(|_| speaker(&dice)).collect();
    let window = dice.between(12_000, 30_000);
    let mut plan = Plan {
        seed,
        fast,
        instances,
        nodes,
        speakers,
        faults: Vec::new(),
        faults_end_ms: FIRST_FAULT_MS + window,
        settle_ms: 0,
    };
    for _ in 0..dice.below(MAX_FAULTS + 1) {
        let at_ms = FIRST_FAULT_MS + dice.below(window - 2_000);
        let (fault, lasts_ms) = fault(&dice, &plan);
        let lasts_ms = lasts_ms.min(plan.faults_end_ms - at_ms);
        plan.faults.push(Planned { at_ms, lasts_ms, fault });
    }
    plan.faults.sort_by_key(|planned| planned.at_ms);
    plan.settle_ms = settle_ms(&plan);
    plan
}

/// Until nodes that the store forgot, or that failed, get jobs again.
fn settle_ms(plan: &Plan) -> u64 {
    let forgets = |planned: &Planned| {
        matches!(planned.fault, Fault::Failover { .. } | Fault::Flush | Fault::Kill { .. })
    };
    match plan.faults.iter().any(forgets) || !plan.is_gentle() {
        true => 65_000,
        false => 20_000,
    }
}

fn instance(dice: &Dice) -> InstancePlan {
    let skew = dice.pick(&[0, 0, 0, 40, 900, 30_000]);
    let skew_ms = if dice.happens(500) { skew } else { -skew };
    InstancePlan { skew_ms, store_ms: dice.pick(&[0, 1, 1, 2, 8]) }
}

fn node(dice: &Dice, gentle: bool) -> NodePlan {
    use NodeKind::{Existing, Liar, Modern, Plain};
    let kinds: &[NodeKind] = match gentle {
        true => &[Modern, Modern, Plain],
        false => &[Modern, Modern, Plain, Existing, Existing, Liar],
    };
    let rate = |most: u64| match gentle || dice.happens(600) {
        true => 0,
        false => dice.below(most) as u32,
    };
    NodePlan {
        kind: dice.pick(kinds),
        slots: dice.pick(&[1, 1, 2, 2, 3, 4]),
        work_ms: dice.pick(&[80, 300, 300, 900]),
        fails: rate(150),
        refuses: rate(150),
        hangs: rate(60),
        silent: rate(80),
        text_only: dice.happens(100),
    }
}

fn speaker(dice: &Dice) -> SpeakerPlan {
    use ClientKind::{Existing, Plain, Resuming};
    SpeakerPlan {
        kind: dice.pick(&[Resuming, Resuming, Resuming, Resuming, Plain, Existing]),
        targets: dice.pick(&[1, 1, 1, 2]),
        slow_ms: dice.pick(&[0, 0, 0, 0, 300]),
        begins_ms: dice.below(2_000),
    }
}

fn fault(dice: &Dice, plan: &Plan) -> (Fault, u64) {
    let instance = dice.below(plan.instances.len() as u64) as usize;
    let node = dice.below(plan.nodes.len() as u64) as usize;
    let speaker = dice.below(plan.speakers.len() as u64) as usize;
    let how = dice.pick(&[
        Flaw::Down,
        Flaw::Lost,
        Flaw::Unanswered,
        Flaw::Unanswered,
        Flaw::Twice,
        Flaw::Refused,
        Flaw::Late,
    ]);
    match dice.below(100) {
        0..=8 => (Fault::Kill { instance, same_name: dice.happens(500) }, dice.between(300, 5_000)),
        9..=15 => (Fault::Stop { instance }, dice.between(300, 14_000)),
        16..=19 => (Fault::Drain { instance }, dice.between(300, 2_000)),
        20..=27 => {
            let same_connection = dice.happens(400);
            (Fault::StoreCut { instance, same_connection }, dice.between(100, 9_000))
        }
        28..=34 => (Fault::StoreReset { instance }, dice.between(20, 400)),
        35..=38 => {
            (Fault::StoreLate { instance, by_ms: dice.between(20, 700) }, dice.between(500, 4_000))
        }
        39..=48 => {
            let per_mille = dice.pick(&[30, 150, 500]);
            (Fault::StoreFlaky { instance, how, per_mille }, dice.between(500, 8_000))
        }
        49..=53 => {
            let skew_ms = dice.between(0, 6_000) as i64 - 3_000;
            (Fault::Failover { skew_ms }, dice.between(1, 1_500))
        }
        54..=55 => (Fault::Flush, 0),
        56..=61 => (Fault::Redeliver { instance }, dice.between(500, 6_000)),
        62..=65 => {
            let per_mille = dice.pick(&[200, 1_000]);
            (Fault::NoBodies { instance, per_mille }, dice.between(500, 4_000))
        }
        66..=71 => (Fault::KillNode { node }, dice.between(200, 5_000)),
        72..=75 => (Fault::StopNode { node }, dice.between(300, 9_000)),
        76..=82 => (Fault::CutNode { node }, 0),
        83..=85 => (Fault::HoldNode { node }, dice.between(300, 9_000)),
        86..=88 => {
            (Fault::LateNode { node, by_ms: dice.between(50, 2_500) }, dice.between(500, 6_000))
        }
        89..=94 => (Fault::CutClient { speaker }, 0),
        95..=96 => (Fault::StopClient { speaker }, dice.between(300, 8_000)),
        _ => (Fault::HoldClient { speaker }, dice.between(300, 9_000)),
    }
}
