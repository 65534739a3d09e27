//! What a history is made of.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::node::Health;
use lingua_store::nodes::{Claim, Fenced, Put, Vitals};
use lingua_store::owners::Claimed;
use proptest::prelude::*;

use super::cast::{JOBS, MAX_ATTEMPTS, NODES, TOKENS};
use super::step::{Answer, Step};

/// No lease of a history is longer.
pub const LONGEST_LEASE: Duration = Duration::from_millis(80);

/// An epoch that nobody was given here: its record was lost.
const LOST_EPOCH: u64 = 7;

#[derive(Clone, Debug)]
pub struct Move {
    pub what: What,
    /// Through the second instance.
    pub on_second: bool,
    /// The same call again at once, through the other instance.
    pub twice: bool,
}

#[derive(Clone, Debug)]
pub enum What {
    /// A call whose epochs are counted from the latest one back.
    Draft(Step),
    /// An earlier call comes again.
    Replay(usize),
    Pass(Duration),
    /// What a failing history shrinks to.
    Nothing,
}

/// The epochs that were given so far, with their owners.
#[derive(Debug, Default)]
pub struct Known {
    nodes: [Vec<(u64, usize)>; NODES],
    session: Vec<(u64, usize)>,
}

fn pick(known: &[(u64, usize)], back: u64) -> (u64, usize) {
    let back = usize::try_from(back).unwrap_or(0).min(known.len().saturating_sub(1));
    known.iter().rev().nth(back).copied().unwrap_or((LOST_EPOCH, 0))
}

impl Known {
    /// The call that a draft means now.
    pub fn resolve(&self, draft: &Step) -> Step {
        let mut step = draft.clone();
        match &mut step {
            Step::Put { node, owner, claim: Claim::Again(epoch), .. } => {
                (*epoch, *owner) = pick(&self.nodes[*node], *epoch);
            }
            Step::Beat { node, epoch, .. }
            | Step::Offline { node, epoch }
            | Step::Confirm { node, epoch, .. } => *epoch = pick(&self.nodes[*node], *epoch).0,
            Step::Create { epoch: Some(epoch), .. } | Step::GiveUp { epoch } => {
                *epoch = pick(&self.session, *epoch).0;
            }
            Step::Keep { owner, epoch, .. } => (*epoch, *owner) = pick(&self.session, *epoch),
            _ => {}
        }
        step
    }

    /// Remembers an epoch that was given.
    pub fn learn(&mut self, step: &Step, answer: &Answer) {
        let (known, given) = match (step, answer) {
            (Step::Put { node, owner, .. }, Answer::Put(Put::Stored { epoch, .. })) => {
                (&mut self.nodes[*node], (*epoch, *owner))
            }
            (Step::Claim { owner, .. }, Answer::Claimed(Claimed { epoch, .. }))
            | (Step::Keep { owner, epoch, .. }, Answer::Fenced(Fenced::Done)) => {
                (&mut self.session, (*epoch, *owner))
            }
            _ => return,
        };
        if !known.contains(&given) {
            known.push(given);
            known.sort_unstable();
        }
    }
}

fn ms(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn lease() -> impl Strategy<Value = Duration> {
    ms(20..LONGEST_LEASE.as_millis() as u64 + 1)
}

/// Mostly the latest.
fn back() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => 1..4u64]
}

fn vitals() -> impl Strategy<Value = Vitals> {
    let health = prop_oneof![
        8 => Just(Health::Ready),
        1 => prop::sample::select(Health::ALL.to_vec()),
    ];
    let fresh_for = prop_oneof![4 => Just(super::LONG), 1 => ms(20..200)];
    (1..4u32, health, prop::bool::weighted(0.1), fresh_for).prop_map(
        |(max, health, overloaded, fresh_for)| Vitals { max, health, overloaded, fresh_for },
    )
}

/// Mostly one node, so that calls meet.
fn node() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 1 => 0..NODES]
}

/// Mostly one of a few tokens.
fn token() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..5usize, 1 => 0..TOKENS]
}

/// Mostly the profile that the node has.
fn profile() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0usize), 1 => Just(1)]
}

/// Steps on node records.
fn of_nodes() -> impl Strategy<Value = Step> {
    let claim = prop_oneof![1 => Just(Claim::Newest), 1 => back().prop_map(Claim::Again)];
    prop_oneof![
        3 => (node(), 0..2usize, claim, profile(), vitals(), any::<bool>()).prop_map(
            |(node, owner, claim, profile, vitals, known)| Step::Put {
                node, owner, claim, profile, vitals, known
            }
        ),
        2 => (node(), back(), profile(), vitals()).prop_map(
            |(node, epoch, profile, vitals)| Step::Beat { node, epoch, profile, vitals }
        ),
        1 => (node(), back()).prop_map(|(node, epoch)| Step::Offline { node, epoch }),
        1 => (node(), ms(20..150)).prop_map(|(node, lasting)| Step::Gap { node, lasting }),
    ]
}

/// Steps on slot leases.
fn of_slots() -> impl Strategy<Value = Step> {
    let running = prop::option::weighted(
        0.8,
        prop::sample::subsequence((0..TOKENS).collect::<Vec<_>>(), 0..4),
    );
    prop_oneof![
        5 => (node(), token(), profile(), prop::bool::weighted(0.3), lease()).prop_map(
            |(node, token, profile, model, lease)| Step::Reserve {
                node, token, profile, model, lease
            }
        ),
        4 => (node(), token(), lease()).prop_map(
            |(node, token, lease)| Step::Commit { node, token, lease }
        ),
        2 => (node(), token(), lease()).prop_map(
            |(node, token, lease)| Step::Renew { node, token, lease }
        ),
        2 => (node(), token()).prop_map(|(node, token)| Step::Release { node, token }),
        3 => (node(), back(), running, lease(), ms(10..60)).prop_map(
            |(node, epoch, running, lease, hold)| Step::Confirm {
                node, epoch, running, lease, hold
            }
        ),
    ]
}

/// Steps on job records.
fn of_jobs() -> impl Strategy<Value = Step> {
    // A token names a slot on one node; only a mistake brings it with another.
    let of_job = |job: usize, (attempt, mistaken): (usize, bool)| {
        ((attempt + usize::from(mistaken)) % NODES, attempt * JOBS + job)
    };
    let attempt = || (0..TOKENS / JOBS, prop::bool::weighted(0.1));
    // A first assignment is within the attempts that a job may have.
    let first = prop::option::of((0..MAX_ATTEMPTS as usize, Just(false)));
    let ended = prop::sample::select(vec![
        (JobState::Done, ""),
        (JobState::Failed, "A"),
        (JobState::Failed, "B"),
        (JobState::Cancelled, ""),
    ]);
    prop_oneof![
        2 => (0..JOBS, prop::option::of(back()), first, ms(60..400)).prop_map(
            move |(job, epoch, first, deadline_in)| {
                let first = first.map(|first| of_job(job, first));
                Step::Create { job, epoch, first, deadline_in }
            }
        ),
        3 => (0..JOBS, attempt()).prop_map(
            move |(job, to)| Step::Assign { job, to: of_job(job, to) }
        ),
        3 => (0..JOBS, prop::option::weighted(0.8, attempt()), ended).prop_map(
            move |(job, by, (state, code))| {
                let by = by.map(|by| of_job(job, by));
                Step::Finish { job, by, state, code }
            }
        ),
    ]
}

/// Steps on the owner of the session.
fn of_owners() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2usize, ms(20..150)).prop_map(|(owner, ttl)| Step::Claim { owner, ttl }),
        2 => (0..2usize, back(), ms(20..150)).prop_map(
            |(owner, epoch, ttl)| Step::Keep { owner, epoch, ttl }
        ),
        1 => back().prop_map(|epoch| Step::GiveUp { epoch }),
    ]
}

fn draft() -> impl Strategy<Value = Step> {
    prop_oneof![3 => of_nodes(), 6 => of_slots(), 3 => of_jobs(), 2 => of_owners()]
}

pub fn any_move() -> impl Strategy<Value = Move> {
    let what = prop_oneof![
        1 => Just(What::Nothing),
        28 => draft().prop_map(What::Draft),
        6 => (0..1000usize).prop_map(What::Replay),
        4 => ms(1..60).prop_map(What::Pass),
    ];
    (what, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(what, on_second, twice)| Move {
        what,
        on_second,
        twice,
    })
}
