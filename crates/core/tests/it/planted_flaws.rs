//! Every flaw of the machines is found by their properties, or by a life of a few steps, when it is planted.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lingua_core::link::Acquaintance;
use lingua_core::planted::{Flaw, Planted};
use lingua_core::slots::{Commit, Grant, Leases};
use lingua_core::{LeaseToken, Moment};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::link_scenarios::{self, reports};
use crate::session_scenarios::resuming;
use crate::{job_properties, job_scenarios as jobs, link_properties, session_properties};

/// Lives after which a flaw has to be found.
const LIVES: u32 = 5_000;

/// What finds a flaw.
#[derive(Clone, Copy)]
enum Finder {
    /// The properties of the job machine.
    Jobs,
    /// Those of the node machine.
    Nodes,
    /// Those of the session machine.
    Sessions,
    /// A life of a few steps, which fails an assertion.
    Steps(fn()),
}

use Finder::{Jobs, Nodes, Sessions, Steps};

const FLAWS: &[(Flaw, Finder)] = &[
    (Flaw::LeaseNeverLapses, Steps(leases_lapse)),
    (Flaw::LateAckTakesSlot, Steps(a_late_ack_takes_no_second_slot)),
    (Flaw::ReleaseFreesAnother, Steps(a_release_frees_its_own_slot)),
    (Flaw::SpentTokenForgotten, Steps(a_spent_token_gets_nothing)),
    (Flaw::RepeatTakesSecondSlot, Steps(a_repeated_wish_takes_one_slot)),
    (Flaw::ReportDropsNewer, Steps(a_report_spares_what_overtook_it)),
    (Flaw::UnknownJobsGetSlots, Steps(unknown_jobs_get_no_slots)),
    (Flaw::AttemptNotFenced, Jobs),
    (Flaw::AttemptNumberReused, Jobs),
    (Flaw::FailedNodeChosenAgain, Jobs),
    (
        Flaw::AbandonedSlotReleased,
        Steps(jobs::a_node_without_an_ack_is_told_to_stop_and_another_gets_the_job),
    ),
    (Flaw::HedgeWithoutBudget, Steps(jobs::a_second_copy_without_room_or_budget_is_not_made)),
    (Flaw::DeadlineOfEachTry, Jobs),
    (Flaw::AnswerBeforeAckIgnored, Steps(jobs::a_result_implies_the_ack)),
    (Flaw::UnsentSlotKept, Jobs),
    (Flaw::AskedSlotKept, Jobs),
    (Flaw::SecondAnswerTaken, Steps(jobs::a_slow_node_is_hedged_once_and_the_first_result_wins)),
    (Flaw::OlderConnectionHeard, Nodes),
    (Flaw::WordNotFenced, Nodes),
    (Flaw::RoomNotChecked, Nodes),
    (Flaw::SlotReleasedTwice, Nodes),
    (Flaw::RegistrationForgetsAttempts, Nodes),
    (Flaw::LastWordsNotAwaited, Nodes),
    (
        Flaw::NewcomerNotReconciled,
        Steps(reports::a_node_that_comes_from_another_instance_is_not_chosen_before_it_has_said_what_it_runs),
    ),
    (
        Flaw::OlderReportObeyed,
        Steps(reports::a_report_that_is_older_than_an_attempt_does_not_take_its_slot),
    ),
    (
        Flaw::EarlyResultDropped,
        Steps(link_scenarios::a_result_that_is_quicker_than_its_adoption_is_told_when_the_job_is_known),
    ),
    (Flaw::LookupsUnlimited, Nodes),
    (Flaw::TrustedBecauseUnknown, Steps(nobody_vouches_for_a_node_that_runs_something)),
    (Flaw::IndexReused, Sessions),
    (Flaw::TakeoverBeginsAtZero, Sessions),
    (Flaw::FinaliseDropped, Sessions),
    (Flaw::StalePauseTimerCuts, Sessions),
    (Flaw::OlderDisconnectHeard, Sessions),
    (Flaw::AckedWhenReceived, Sessions),
    (Flaw::OrderNotKept, Sessions),
    (Flaw::LaterEndingCounts, Sessions),
    (
        Flaw::SeenToldAgain,
        Steps(resuming::a_client_that_comes_back_hears_what_it_missed_in_order_and_once),
    ),
];

/// After how many lives the flaw was found; `None` if it was not.
fn found<S: Strategy>(lives: u32, life: &S, live: impl Fn(S::Value)) -> Option<u32> {
    let config = Config {
        cases: lives,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let lived = std::cell::Cell::new(0);
    let outcome = TestRunner::new_with_rng(config, rng).run(life, |one| {
        lived.set(lived.get() + 1);
        live(one);
        Ok(())
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(..)) => Some(lived.get()),
        Err(error) => panic!("{error}"),
    }
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Jobs => "lives of a job",
            Nodes => "lives of a node",
            Sessions => "lives of a session",
            Steps(_) => "a life of a few steps",
        })
    }
}

impl Finder {
    fn find(self, lives: u32) -> Option<u32> {
        match self {
            Jobs => found(lives, &job_properties::life(), job_properties::live),
            Nodes => found(lives, &link_properties::life(), link_properties::live),
            Sessions => found(lives, &session_properties::life(), session_properties::live),
            Steps(steps) => catch_unwind(AssertUnwindSafe(steps)).is_err().then_some(1),
        }
    }
}

#[test]
fn every_flaw_of_the_machines_is_found_when_it_is_planted() {
    let mut missed = Vec::new();
    for (flaw, finder) in FLAWS {
        let planted = Planted::new([*flaw]);
        match finder.find(LIVES) {
            Some(lives) => println!("{flaw:32} {lives:>6} {finder}"),
            None => missed.push(*flaw),
        }
        drop(planted);
    }
    assert_eq!(missed, []);
}

#[test]
fn without_a_flaw_nothing_is_found() {
    for finder in [Jobs, Nodes, Sessions] {
        assert_eq!(finder.find(3_100), None, "{finder}");
    }
    for (flaw, finder) in FLAWS {
        if let Steps(_) = finder {
            assert_eq!(finder.find(1), None, "{flaw}");
        }
    }
}

const LEASE: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn token(nonce: u128) -> LeaseToken {
    LeaseToken { job: "a".repeat(26).parse().unwrap(), attempt: 1, nonce }
}

fn leases_lapse() {
    let mut leases = Leases::default();
    leases.reserve(at(0), token(1), LEASE, 1);
    assert!(matches!(leases.reserve(at(100), token(2), LEASE, 1), Grant::Granted(_)));
}

fn a_late_ack_takes_no_second_slot() {
    let mut leases = Leases::default();
    leases.reserve(at(0), token(1), LEASE, 1);
    leases.reserve(at(150), token(2), LEASE, 1);
    assert_eq!(leases.commit(at(160), token(1), LEASE, 1, false), Commit::Lost);
}

fn a_release_frees_its_own_slot() {
    let mut leases = Leases::default();
    leases.reserve(at(0), token(1), LEASE, 1);
    leases.release(at(1), token(2));
    assert_eq!(leases.usage(at(2)).used(), 1);
}

fn a_spent_token_gets_nothing() {
    let mut leases = Leases::default();
    leases.release(at(0), token(1));
    assert_eq!(leases.reserve(at(1), token(1), LEASE, 1), Grant::Spent);
}

fn a_repeated_wish_takes_one_slot() {
    let mut leases = Leases::default();
    leases.reserve(at(0), token(1), LEASE, 2);
    leases.reserve(at(1), token(1), LEASE, 2);
    assert_eq!(leases.usage(at(2)).used(), 1);
}

fn a_report_spares_what_overtook_it() {
    let mut leases = Leases::default();
    leases.reserve(at(0), token(1), LEASE, 1);
    leases.commit(at(10), token(1), LEASE, 1, false);
    let report = leases.confirm(at(20), &[], LEASE, LEASE / 2, 1, false);
    assert_eq!(report.dropped, []);
}

fn unknown_jobs_get_no_slots() {
    let report = Leases::default().confirm(at(0), &[token(1)], LEASE, LEASE / 2, 1, false);
    assert_eq!(report.unknown, [token(1)]);
}

fn nobody_vouches_for_a_node_that_runs_something() {
    let longest_lease = Duration::from_secs(45);
    let process_age = Duration::ZERO;
    let known = Acquaintance { known: false, runs: Some(1), process_age, longest_lease };
    assert!(!known.vouches());
}
