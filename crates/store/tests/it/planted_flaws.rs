//! Every flaw of the store is found by the scenario of the suite that is named here, when it is planted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lingua_core::planted::{Flaw, Planted};

use crate::memory::memory;
use crate::suite::{self, Outcome};

/// Whether a scenario fails. It runs on this thread, where the flaw is planted.
fn fails<F: Future<Output = Outcome>>(scenario: impl FnOnce() -> F) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(scenario())));
    !matches!(outcome, Ok(Ok(())))
}

macro_rules! found_by {
    ($($flaw:ident: $module:ident::$scenario:ident,)+) => {
        #[test]
        fn every_flaw_of_the_store_is_found_by_a_scenario_of_the_suite_when_it_is_planted() {
            let mut wrong: Vec<(Flaw, &str)> = Vec::new();
            $(
                let scenario = || async {
                    let store = memory().await?;
                    suite::$module::$scenario(&store).await
                };
                if fails(scenario) {
                    wrong.push((Flaw::$flaw, "the scenario fails without it"));
                }
                let planted = Planted::new([Flaw::$flaw]);
                if !fails(scenario) {
                    wrong.push((Flaw::$flaw, "the scenario does not find it"));
                }
                drop(planted);
            )+
            assert_eq!(wrong, []);
        }
    };
}

found_by! {
    LeaseNeverLapses: flaws::a_reservation_whose_maker_crashed_frees_itself,
    LateAckTakesSlot: slots::a_late_ack_is_lost_when_the_slot_is_taken,
    ReleaseFreesAnother: flaws::a_repeated_end_frees_nobody_elses_slot,
    SpentTokenForgotten: reserve::a_release_that_overtakes_its_reservation_wins,
    RepeatTakesSecondSlot: reserve::the_same_token_is_granted_once_and_told_so,
    ReportDropsNewer: slots::a_report_spares_what_was_renewed_within_the_grace,
    UnknownJobsGetSlots: slots::a_report_names_the_tokens_that_must_stop,
    RegistrationFreesSlots: flaws::registering_again_neither_frees_nor_forgets_what_runs,
    GrantBeforeReport: recovery::a_known_node_without_a_record_waits_for_its_report,
    GrantDuringHold: recovery::a_reporting_node_is_held_for_one_reserve_lease,
    StaleNodeGrants: reserve::a_stale_node_grants_nothing,
    ChangedNodeGrants: reserve::a_changed_profile_refuses_and_names_the_present_version,
    AnyAttemptEndsJob: jobs::an_assignment_that_is_not_current_finishes_nothing,
    EndedJobEndsAgain: jobs::another_ending_of_an_ended_job_changes_nothing,
    EarlierAttemptAssigned: jobs::an_earlier_or_equal_attempt_is_stale,
    JobCreatedTwice: jobs::a_job_is_written_down_once,
    SupersededOwnerCreates: jobs::a_superseded_session_epoch_creates_nothing,
    SupersededOwnerRenews: owners::a_stale_owner_renews_nothing,
    SupersededOwnerSaves: owners::a_stale_owner_saves_nothing,
    SupersededInstanceBeats: nodes::a_beat_of_a_superseded_owner_changes_nothing,
    OldLeaderResignsNext: owners::only_the_present_leader_resigns,
    EnvelopePostedTwice: bus::the_same_envelope_sent_again_is_delivered_once,
}
