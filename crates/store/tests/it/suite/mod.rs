//! One suite for every store, so that the same steps give the same answers everywhere (I17).
//!
//! A scenario is an async function over [`StoreUnderTest`]; [`conformance!`] makes each of them a
//! test of its own. A scenario that is not on the list below is dead code, which clippy refuses.
//! Every scenario names its nodes, sessions, jobs and instances by chance, because the stores that
//! are servers are shared by all tests of a binary.
//!
//! - [`samples`]: the words that scenarios are told in.
//! - [`nodes`], [`feed`], [`reserve`], [`slots`], [`recovery`], [`jobs`], [`owners`], [`bus`],
//!   [`rates`], [`revocations`], [`history`], [`usage`]: the contracts of the traits, sentence by sentence.
//! - [`bounds`]: arguments outside their bounds. [`races`]: many callers at once.
//! - [`flaws`]: what was wrong in the design papers and must not come back.
//! - [`model`]: random histories against a model that is too simple to be wrong.

use std::time::Duration;

use lingua_store::Backend;

pub mod bounds;
pub mod bus;
pub mod feed;
pub mod flaws;
pub mod history;
pub mod usage;
pub mod jobs;
pub mod model;
pub mod nodes;
pub mod owners;
pub mod races;
pub mod rates;
pub mod recovery;
pub mod reputations;
pub mod reserve;
pub mod revocations;
pub mod samples;
pub mod servers;
pub mod shared;
pub mod slots;
pub mod together;

/// How a scenario ends. A store that answers with an error where an answer is due has failed it.
pub type Outcome = anyhow::Result<()>;

/// A store with two instances of the scheduler on it.
pub trait StoreUnderTest {
    /// The store as the first instance holds it.
    fn backend(&self) -> Backend;

    /// The same store as another instance holds it.
    fn second(&self) -> Backend;

    /// Lets at least so much of the store's time pass.
    async fn pass(&self, time: Duration);

    /// A lease short enough to wait for and long enough for the few steps that must fit into it.
    fn lease(&self) -> Duration;

    /// Lets a lease of [`StoreUnderTest::lease`] run out.
    async fn lapse(&self) {
        self.pass(self.lease()).await;
    }
}

macro_rules! scenarios {
    ($fixture:path; $($module:ident { $($name:ident),+ $(,)? })+) => {
        $(mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() -> crate::suite::Outcome {
                let store = $fixture().await?;
                crate::suite::$module::$name(&store).await
            })+
        })+
    };
}

/// Runs the whole suite on the stores that the async function `$fixture` opens, and `$cases` random
/// histories of the model.
macro_rules! conformance {
    ($fixture:path, model_cases = $cases:expr) => {
        #[test]
        fn the_store_answers_as_the_model_does() {
            crate::suite::model::check($cases, $fixture);
        }

        scenarios! { $fixture;
            nodes {
                the_newest_claim_owns_the_record_under_a_higher_epoch,
                an_epoch_is_never_below_the_stores_time_so_it_rises_over_a_loss_of_data,
                an_owner_that_asserts_again_keeps_its_epoch_and_changes_the_record,
                a_superseded_owner_that_asserts_again_changes_nothing,
                a_lost_record_is_asserted_again_under_its_own_epoch,
                a_record_is_read_as_it_was_written_by_every_instance,
                a_beat_of_the_current_owner_is_kept,
                a_beat_for_another_profile_or_a_missing_record_asks_for_the_record_again,
                a_beat_of_a_superseded_owner_changes_nothing,
                only_the_current_owner_takes_a_node_offline,
                offline_and_put_leave_the_leases_as_they_are,
                a_node_is_forgotten_only_when_long_unseen,
                a_node_that_holds_a_lease_is_not_forgotten,
                a_node_that_came_back_is_not_forgotten,
                an_order_is_read_by_everybody_until_the_next_one,
                an_order_outlives_the_record,
                a_gap_is_remembered_and_ends_by_itself,
                a_repeated_gap_never_ends_earlier,
                of_too_many_gaps_those_that_end_soonest_are_forgotten,
                a_node_is_listed_in_exactly_one_shard_until_it_is_forgotten,
            }
            reputations {
                what_is_known_of_a_node_is_read_by_every_instance,
                only_the_current_owner_keeps_what_is_known_of_a_node,
                what_is_known_of_a_node_outlives_its_record,
                a_pause_goes_on_while_nobody_has_the_node,
            }
            feed {
                the_feed_begins_at_its_present_end,
                the_feed_names_nodes_that_were_put_or_went_offline_or_changed_health,
                the_feed_wakes_a_waiting_reader,
                a_reader_that_waits_holds_up_no_other,
                a_reader_that_fell_behind_is_told_to_resync,
            }
            reserve {
                a_grant_lasts_one_lease_and_counts_at_once,
                a_full_node_says_how_full_it_is,
                the_same_token_is_granted_once_and_told_so,
                a_running_token_is_told_that_it_has_its_slot,
                a_lapsed_token_is_spent,
                a_released_token_is_spent,
                a_release_that_overtakes_its_reservation_wins,
                a_token_released_on_an_unknown_node_is_spent_there,
                an_unknown_node_grants_nothing,
                a_changed_profile_refuses_and_names_the_present_version,
                only_a_ready_node_grants_and_overload_is_no_refusal,
                a_stale_node_grants_nothing,
                a_missing_model_refuses_only_the_jobs_that_want_it,
                a_token_on_one_node_says_nothing_about_another_node,
                refusals_come_in_the_order_of_the_contract,
            }
            slots {
                an_ack_makes_the_reserved_slot_a_running_one,
                an_ack_again_extends_the_running_lease,
                a_late_ack_regains_a_free_slot,
                a_late_ack_is_lost_when_the_slot_is_taken,
                an_ack_for_a_token_never_seen_is_lost,
                an_ack_for_a_spent_token_is_lost,
                an_ack_on_an_unknown_node_is_lost,
                a_live_running_lease_is_renewed,
                nothing_else_is_renewed,
                a_release_frees_the_slot_once,
                a_release_of_a_lapsed_lease_frees_nothing,
                slots_that_nobody_renews_are_free_one_lease_later,
                an_unknown_node_has_no_slot_taken,
                a_lowered_maximum_keeps_what_runs_and_grants_nothing_new,
                a_report_renews_what_the_node_runs,
                a_report_drops_what_the_node_no_longer_runs,
                a_report_spares_what_was_renewed_within_the_grace,
                a_report_does_not_drop_a_reservation_on_its_way,
                a_report_names_the_tokens_that_must_stop,
                a_report_regains_lapsed_leases_only_while_slots_are_free,
                what_a_report_drops_makes_room_for_what_it_names,
                a_node_that_cannot_say_loses_nothing_in_quiet_times,
                a_report_with_nothing_lost_starts_no_hold,
                a_report_of_a_superseded_owner_changes_nothing,
                a_report_on_an_unknown_node_says_so,
            }
            recovery {
                a_new_node_is_trusted_at_once,
                a_known_node_without_a_record_waits_for_its_report,
                a_record_that_is_there_keeps_its_trust_whatever_the_owner_says,
                neither_a_put_nor_a_beat_lifts_the_wait_for_a_report,
                a_beat_says_whether_the_node_owes_a_report,
                a_reporting_node_is_held_for_one_reserve_lease,
                a_node_that_cannot_say_is_held_for_the_quarantine,
                a_repeated_report_does_not_prolong_the_hold,
                a_superseded_owners_report_lifts_nothing,
                a_report_after_a_loss_puts_leases_back_also_above_the_maximum,
                spent_tokens_do_not_come_back_after_a_loss,
                an_ack_regains_a_lost_token_only_below_the_maximum,
                an_ack_regains_a_lost_token_only_until_the_hold_is_over,
            }
            jobs {
                a_job_is_written_down_once,
                a_job_with_its_first_assignment_is_dispatched,
                a_superseded_session_epoch_creates_nothing,
                a_later_attempt_becomes_the_current_one,
                an_earlier_or_equal_attempt_is_stale,
                an_attempt_above_the_maximum_is_refused,
                an_ended_job_is_not_assigned_again,
                an_unknown_job_is_neither_assigned_nor_finished,
                the_current_assignment_finishes_the_job,
                the_same_ending_again_is_repeated_without_effect,
                another_ending_of_an_ended_job_changes_nothing,
                an_assignment_that_is_not_current_finishes_nothing,
                the_owner_ends_a_job_whatever_its_assignment,
                an_ending_must_be_terminal,
                a_job_is_forgotten_some_time_after_its_deadline,
                a_watched_job_is_due_to_everybody_after_its_deadline_until_unwatched,
                a_watch_may_begin_before_the_job_is_written,
                the_first_claim_of_a_request_wins_until_it_is_forgotten,
                a_request_is_released_by_the_job_it_is_bound_to_and_by_no_other,
                the_same_request_id_of_two_tenants_is_two_requests,
                a_turn_is_bound_to_the_last_node_until_the_binding_lapses,
                a_turn_belongs_to_its_session,
            }
            together {
                a_job_begins_with_its_record_and_its_slot,
                a_job_that_is_there_begins_no_second_time,
                a_full_or_changed_node_refuses_and_the_job_is_written_all_the_same,
                a_superseded_owner_begins_nothing,
                a_job_ends_and_its_slot_is_free,
                an_attempt_that_counts_no_more_gives_its_slot_back_and_ends_nothing,
                a_young_slot_given_back_is_free_and_its_token_spent,
            }
            owners {
                every_claim_wins_and_raises_the_epoch,
                a_claim_names_the_live_owner_it_replaced_and_nobody_else,
                an_epoch_is_never_below_the_stores_time,
                a_renewal_extends_the_ownership,
                a_lapsed_owner_that_nobody_replaced_renews,
                an_owner_that_the_store_lost_is_back_by_its_renewal,
                a_stale_owner_renews_nothing,
                a_stale_owner_releases_nothing,
                a_release_ends_the_ownership_and_keeps_the_epoch,
                a_session_never_claimed_has_no_owner_and_no_state,
                the_next_owner_loads_what_the_last_one_saved,
                a_stale_owner_saves_nothing,
                a_saved_state_is_forgotten_in_its_time,
                one_instance_leads_and_extends_its_lead_under_one_fence,
                a_lapsed_leader_gets_a_new_fence,
                only_the_present_leader_resigns,
                what_the_newest_leader_published_stays_until_it_is_replaced,
            }
            bus {
                an_announced_instance_is_a_peer_until_its_word_lapses,
                announcing_again_moves_the_address,
                a_name_is_taken_while_another_life_of_it_lives,
                an_instance_that_withdrew_is_gone,
                an_envelope_reaches_exactly_the_life_it_was_sent_to,
                envelopes_come_in_the_order_of_sending_and_once,
                the_same_envelope_sent_again_is_delivered_once,
                an_envelope_is_not_delivered_after_its_time,
                a_delivery_says_how_much_of_its_time_is_left,
                a_receiver_waits_no_longer_than_asked,
                a_waiting_receiver_is_woken,
                unacknowledged_envelopes_come_again_after_a_rewind,
                a_full_inbox_refuses_until_something_is_acknowledged,
                the_inbox_of_a_dead_instance_is_an_orphan,
                nobody_inherits_from_the_living,
                one_heir_at_a_time_takes_what_was_left,
                an_heir_that_stopped_is_followed_by_another,
                an_emptied_inbox_is_removed,
                an_oversized_body_is_refused,
                an_inbox_says_how_deep_it_is,
                what_an_instance_says_of_itself_is_kept_for_its_time,
            }
            rates {
                exactly_the_first_caller_within_a_window_is_told_so,
                a_new_window_begins_when_the_old_one_is_over,
                windows_of_different_names_do_not_meet,
                a_burst_fits_and_one_more_does_not,
                an_event_that_does_not_fit_is_not_counted,
                a_rate_lets_one_more_through_per_interval,
                there_is_no_double_burst_at_the_edge_of_a_window,
                a_rate_outside_its_bounds_is_refused,
            }
            revocations {
                revocations_are_seen_by_all_until_they_are_over_and_are_bounded,
            }
            history {
                a_step_has_one_point_whoever_appends,
                the_last_so_many_points_come_back_in_order,
                a_series_ends_when_nothing_was_appended_for_its_length,
                a_series_outside_its_bounds_is_refused,
            }
            usage {
                what_a_process_posts_twice_or_late_counts_once,
                another_life_of_an_instance_is_another_process,
                a_day_has_room_for_so_many_processes,
                what_is_too_large_is_refused,
            }
            bounds {
                node_steps_refuse_durations_outside_their_bounds,
                slot_steps_refuse_durations_outside_their_bounds,
                job_steps_refuse_durations_outside_their_bounds,
                owner_steps_refuse_durations_outside_their_bounds,
                bus_and_once_steps_refuse_durations_outside_their_bounds,
                lists_and_texts_outside_their_bounds_are_refused,
            }
            races {
                many_reservations_on_two_instances_never_exceed_the_maximum,
                many_reservations_of_one_token_take_one_slot,
                late_acks_never_regain_more_than_the_maximum,
                reservations_and_releases_at_once_never_exceed_the_maximum,
                exactly_one_of_many_finishers_is_told_so,
                exactly_one_of_many_creators_is_told_so,
                every_attempt_number_is_assigned_at_most_once,
                every_claim_gets_an_epoch_of_its_own,
                exactly_one_of_many_candidates_leads,
                exactly_one_of_many_heirs_inherits,
                envelopes_sent_at_once_all_arrive_once,
                a_burst_is_shared_by_all_instances,
                exactly_one_of_many_callers_is_the_first,
                one_request_gets_one_job,
            }
            flaws {
                a_reservation_whose_maker_crashed_frees_itself,
                the_embedded_store_and_this_one_tell_the_same_story,
                a_late_ack_without_a_free_slot_is_refused_and_its_end_frees_nobody_elses_slot,
                a_repeated_end_frees_nobody_elses_slot,
                an_end_that_overtakes_its_ack_leaves_no_slot_behind,
                a_node_that_lost_power_after_its_ack_gets_its_slots_back,
                registering_again_neither_frees_nor_forgets_what_runs,
                what_a_node_says_of_its_load_never_changes_what_is_taken,
                a_lease_without_time_is_refused_before_anything_is_written,
                a_step_repeated_after_a_lost_reply_gets_its_slot_and_not_another,
                an_attempt_given_up_after_its_ack_can_do_nothing_more,
                the_ack_of_an_earlier_dispatch_does_not_commit_a_later_one,
                of_two_nodes_with_the_same_attempt_only_the_assigned_one_counts,
                releasing_one_job_twice_is_not_releasing_another,
                a_node_record_is_never_read_half_written,
                grants_follow_the_trusted_maximum_and_not_the_declared_one,
                rebinding_a_turn_neither_takes_nor_frees_a_slot,
                a_rejected_job_frees_its_slot_at_once_and_the_node_stays_full_otherwise,
                a_turn_has_one_binding_and_is_found_without_knowing_its_node,
                a_lost_record_grants_nothing_until_lost_leases_are_over,
                all_moments_are_on_the_stores_clock_whichever_instance_asks,
                a_result_and_a_release_that_come_after_the_lease_still_count,
                a_stale_owner_of_a_node_neither_removes_it_nor_steals_it_back,
                a_stale_owner_of_a_session_neither_removes_nor_steals_it,
                what_a_crashed_receiver_left_is_taken_over_and_what_is_too_late_is_not,
                a_full_inbox_is_refused_to_the_sender_and_loses_nothing,
                two_processes_of_one_name_never_share_an_inbox,
                a_leader_that_overslept_neither_leads_nor_ends_the_next_lead,
                the_same_job_created_on_two_instances_is_one_job,
            }
        }
    };
}
