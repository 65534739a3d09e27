//! Every flaw between instances is found by the test that is named here, when it is planted.

use std::panic::catch_unwind;

use lingua_core::planted::{Flaw, Planted};

use crate::cluster::tests as cluster;
use crate::nodes::tests as nodes;
use crate::peers::sender::tests as sender;
use crate::sessions::tests::resuming;

/// A test, which runs on this thread.
type Finder = fn();

const FLAWS: &[(Flaw, Finder)] = &[
    (Flaw::EnvelopeActedOnTwice, cluster::words_whose_answers_are_lost_have_their_effect_once),
    (Flaw::MessageTriedOnce, sender::a_message_is_kept_until_the_store_is_back),
    (
        Flaw::PresenceWaitsForFleet,
        cluster::an_instance_that_cannot_read_the_fleet_still_says_that_it_lives,
    ),
    (
        Flaw::TrustedBecauseUnknown,
        nodes::a_young_process_takes_a_node_for_new_only_if_that_says_that_it_runs_nothing,
    ),
    (
        Flaw::NewerTokenWithoutStore,
        resuming::an_instance_without_the_store_does_not_take_back_what_another_had_since,
    ),
    (Flaw::LateAnswerReasserts, cluster::an_answer_that_was_late_has_nothing_asserted_again),
    (Flaw::TwoResumesAtOnce, resuming::two_sockets_with_one_token_leave_one_session_and_its_owner),
    (
        Flaw::FreedSlotNotTold,
        cluster::a_slot_that_comes_free_anywhere_reaches_a_waiting_job_within_50_ms,
    ),
    (
        Flaw::EpochsByServerClock,
        cluster::a_node_registers_at_a_promoted_server_whose_clock_is_behind,
    ),
    (Flaw::EndingNotBroughtAgain, resuming::an_ending_that_nobody_took_is_brought_again),
    (Flaw::UnansweredRecordStaysOpen, cluster::a_record_that_may_have_been_written_is_closed),
    (Flaw::FullQueueTakenForGone, resuming::an_ending_waits_for_a_session_that_is_busy),
];

#[test]
fn every_flaw_between_instances_is_found_by_a_test_when_it_is_planted() {
    let mut missed = Vec::new();
    for (flaw, finder) in FLAWS {
        let planted = Planted::new([*flaw]);
        if catch_unwind(finder).is_ok() {
            missed.push(*flaw);
        }
        drop(planted);
    }
    assert_eq!(missed, []);
}
