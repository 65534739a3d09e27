//! What must hold whatever store is below: told to a scheduler on real sockets by nodes that do just
//! what the scenario says. Every scenario runs on every store.

pub mod aliases;
pub mod breaker;
pub mod cancelling;
pub mod choosing;
pub mod dispatching;
pub mod fencing;
pub mod hedging;
pub mod models;
pub mod old_agents;
pub mod orders;
pub mod orphans;
pub mod reconciling;
pub mod refusing;
pub mod slots;
pub mod sockets;
pub mod timeouts;
pub mod vanishing;

use std::time::Duration;

use lingua_core::NodeId;
use lingua_engine::Settings;
use lingua_engine::explain::NodeView;
use lingua_lab::{FakeNode, NodeOptions, ScriptedNode};
use serde_json::{Value, json};

use crate::app::TestApp;
pub use crate::app::calm;

/// Makes a test of every scenario, on this store.
macro_rules! scenarios {
    ($on:expr) => {
        crate::scenarios::tests! { $on;
            sockets {
                a_node_is_told_its_name_its_interval_and_its_epoch,
                a_heartbeat_before_the_registration_is_refused_and_the_socket_stays,
                who_says_nothing_is_shown_the_door,
                nonsense_is_answered_with_the_field_and_the_socket_stays,
                who_keeps_on_with_nonsense_is_shown_the_door,
                a_message_that_is_too_large_ends_the_connection,
                a_flood_is_refused,
                a_refused_registration_ends_the_connection_with_its_code,
                heartbeats_are_answered_to_nodes_that_understand_it,
                a_warming_node_gets_jobs_once_it_is_warm,
                a_quiet_node_is_pinged,
                a_close_is_answered,
                the_newest_connection_wins_and_the_older_is_told,
                the_end_of_the_scheduler_is_said_with_a_pause,
                a_plain_request_is_told_that_this_is_a_socket,
                an_id_that_cannot_be_is_refused,
                a_node_that_reads_nothing_is_let_go,
                a_result_that_breaks_off_does_not_count,
            }
            dispatching {
                a_job_goes_from_its_dispatch_over_the_ack_to_its_result,
                a_failure_is_acknowledged_like_a_result,
                an_answer_before_the_ack_ends_the_job,
                words_on_the_way_are_passed_on_and_count_as_an_ack,
                audio_goes_as_bytes_or_in_the_text,
                a_failed_attempt_is_followed_by_one_elsewhere,
                a_job_is_tried_twice_and_then_fails_with_the_last_reason,
                no_node_at_all_is_told_at_once_with_what_is_missing,
                the_same_job_handed_in_twice_is_one_job,
                a_request_id_stands_for_one_job,
                a_late_word_is_answered_by_what_the_store_remembers,
                an_answer_without_text_is_an_empty_ending,
                a_nodes_own_code_is_passed_on_and_nonsense_is_not,
                retries_are_held_to_a_budget,
            }
            choosing {
                the_preferred_node_gets_the_job,
                a_preferred_node_that_is_full_is_passed_over,
                a_preferred_node_that_is_unable_or_unknown_is_passed_over,
                a_strict_wish_for_a_node_that_is_full_waits_and_then_fails,
                a_strict_wish_waits_for_its_node_and_no_other,
                a_strict_wish_for_a_node_that_is_unable_or_unknown_fails_at_once,
                a_strict_wish_ends_with_the_failure_of_its_node,
                a_private_node_takes_only_jobs_that_name_it,
                the_cheapest_node_gets_the_job_while_it_has_a_free_slot,
                directions_are_not_mixed_up,
                the_parts_of_a_turn_prefer_one_node,
                without_a_voice_who_does_not_insist_gets_text,
            }
            slots {
                jobs_that_race_for_the_last_slot_get_it_one_by_one,
                two_dispatchers_never_both_get_the_last_slot,
                when_all_is_full_a_job_waits_and_then_is_told_when_to_try_again,
                a_slot_that_comes_free_wakes_who_waits_for_it,
                those_in_line_go_by_their_deadlines,
                a_node_that_joins_takes_those_who_wait,
                a_maximum_lowered_below_what_runs_takes_nothing_new,
                an_ability_lost_while_jobs_run_stops_new_ones_only,
                a_fresh_node_fills_all_its_slots_when_no_other_is_free,
                an_overloaded_node_is_asked_only_when_no_other_is_free,
            }
            fencing {
                an_ack_said_twice_counts_once,
                a_late_ack_does_not_take_a_second_slot,
                a_word_for_an_old_attempt_has_no_effect,
                a_word_from_the_wrong_node_has_no_effect,
                a_result_said_twice_counts_once_and_is_acked_again,
                a_wrong_lease_token_has_no_effect,
                who_was_given_a_lease_token_must_show_it,
                a_superseded_connection_has_no_say,
                a_node_that_repeats_itself_still_gets_its_result_through,
            }
            timeouts {
                a_node_that_does_not_ack_is_replaced_and_told_to_stop,
                the_only_node_that_does_not_ack_ends_the_job,
                a_slot_is_left_to_a_node_that_cannot_be_stopped,
                a_node_that_takes_too_long_is_replaced,
                the_deadline_ends_a_job_wherever_it_is,
                a_deadline_that_has_passed_is_not_begun,
                a_running_lease_lapses_when_nobody_renews_it,
            }
            cancelling {
                a_job_on_its_way_is_taken_back,
                a_job_being_worked_on_is_taken_back,
                a_job_in_line_leaves_it,
                jobs_cancelled_as_their_slot_comes_lose_nothing,
                a_job_that_is_tried_again_is_taken_back,
                a_job_that_is_over_stays_as_it_is,
                a_job_cancelled_at_its_hand_in_ends,
                a_node_that_cannot_be_stopped_keeps_its_slot_until_it_is_done,
            }
            refusing {
                a_busy_node_is_passed_over_at_once_and_not_blamed,
                busy_nodes_are_asked_again_while_the_job_can_wait,
                a_fleet_that_stays_busy_is_told_as_busy,
                other_refusals_go_elsewhere_and_end_somewhere,
                a_job_that_was_refused_is_shown_as_retrying_and_dispatched_again,
            }
            models {
                a_missing_model_is_remembered_and_the_job_goes_elsewhere,
                a_missing_model_is_told_by_a_failed_result_too,
                each_node_that_misses_a_model_is_told_and_people_once,
                a_gap_is_forgotten_after_a_while,
                when_all_able_nodes_are_marked_the_oldest_mark_is_tried,
                a_service_that_runs_again_ends_the_mark,
                a_node_that_floods_with_gaps_is_left_alone,
            }
            breaker {
                a_node_that_keeps_failing_is_put_aside_and_comes_back_after_a_probe,
                failures_in_a_row_open_it_and_one_good_probe_closes_it,
                a_bad_probe_makes_the_next_pause_longer,
                a_success_in_between_begins_the_count_anew,
                work_goes_on_elsewhere_while_one_is_left_alone,
                the_slots_of_what_was_given_up_leave_room_for_the_probe,
            }
            orders {
                a_drained_node_finishes_what_it_has_and_gets_nothing_new,
                a_blocked_node_is_shut_out_until_it_is_let_in,
                a_node_may_drain_itself,
                a_nodes_own_error_is_shown,
            }
            vanishing {
                a_node_that_vanishes_before_the_ack_is_replaced_at_once,
                a_node_that_vanishes_after_the_ack_has_a_moment_to_come_back,
                a_node_that_does_not_come_back_is_replaced,
                the_last_node_that_vanishes_takes_its_job_along,
                a_node_may_register_again_in_the_middle_of_a_job,
                a_new_socket_in_the_middle_of_a_job_carries_its_result,
                an_assign_that_got_lost_with_the_old_socket_is_not_waited_for,
                a_node_whose_heartbeat_is_overdue_gets_nothing_until_it_reports,
                the_record_in_the_store_follows_the_node,
            }
            reconciling {
                a_job_that_its_node_dropped_is_tried_elsewhere,
                a_job_that_is_listed_stays_where_it_is,
                heartbeats_of_a_node_that_lists_nothing_keep_its_jobs,
                a_job_that_nobody_knows_is_stopped,
                a_job_that_was_given_up_meanwhile_is_stopped,
                an_earlier_attempt_that_is_listed_is_stopped,
                a_node_that_registers_with_nothing_running_lost_its_jobs,
                a_result_that_was_made_while_away_counts,
            }
            hedging {
                the_first_answer_wins_and_the_other_copy_is_taken_back,
                the_first_copy_may_win_after_all,
                a_copy_that_fails_leaves_the_other_one,
                a_cancel_takes_both_copies_back,
                without_a_second_node_the_first_one_is_waited_for,
                copies_count_against_the_retry_budget,
            }
            orphans {
                a_job_whose_instance_died_is_ended_by_another_at_its_deadline,
                a_job_of_another_instance_is_not_begun_a_second_time,
                a_result_that_outlived_its_instance_needs_its_lease_token,
            }
            old_agents {
                a_send_counts_as_the_ack,
                without_a_maximum_the_default_holds,
                its_heartbeats_keep_its_jobs_and_repeat_what_it_can_do,
                parts_without_a_result_of_their_own_end_empty_with_a_later_part,
                a_part_with_a_result_of_its_own_does_not_end_those_after_it,
                a_part_that_stays_without_a_result_ends_empty_and_is_no_failure,
                a_duplicate_refusal_sends_the_job_elsewhere_without_blame,
                a_busy_result_is_a_refusal_and_not_a_failure,
                its_spellings_are_lived_with,
                its_languages_decide_and_not_what_it_lists_as_stopped,
                it_may_register_before_its_services_run,
                it_is_overloaded_after_two_reports_in_a_row,
                a_line_that_breaks_under_load_costs_neither_slots_nor_trust,
                as_many_slots_stay_taken_as_it_says_that_it_runs_jobs,
            }
            aliases {
                a_node_cannot_tell_that_two_jobs_are_of_one_session,
                the_parts_of_one_turn_share_a_name_and_nothing_else_does,
                agents_that_need_it_are_told_the_session,
            }
        }
    };
}
pub(crate) use scenarios;

macro_rules! tests {
    ($on:expr; $($module:ident { $($name:ident),+ $(,)? })+) => {
        $(mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::scenarios::$module::$name($on).await;
            })+
        })+
    };
}
pub(crate) use tests;

/// An ack is waited for a moment only. Nodes that are to take a job under this do not ack, so that
/// a busy machine changes nothing.
pub fn hasty() -> Settings {
    let mut settings = calm();
    settings.timing.send_ms = 100;
    settings.timing.ack_ms = 200;
    settings.timing.http_ack_ms = 200;
    settings.timing.reserve_lease_ms = 800;
    settings.timing.check().unwrap();
    settings
}

/// Slots that nobody looks after are free again soon, and nodes report often.
pub fn short_leases() -> Settings {
    let mut settings = calm();
    settings.timing.heartbeat_ms = 700;
    settings.timing.compat_heartbeat_ms = 700;
    settings.timing.running_lease_ms = 2_100;
    settings.timing.send_ms = 1_000;
    settings.timing.ack_ms = 1_300;
    settings.timing.http_ack_ms = 1_300;
    settings.timing.reserve_lease_ms = 2_500;
    settings.timing.quarantine_ms = 2_500;
    settings.reconnect_grace_ms = 300;
    settings.timing.check().unwrap();
    settings
}

/// A current agent with four slots that serves English and Chinese.
pub fn options(app: &TestApp, id: &str) -> NodeOptions {
    NodeOptions {
        patience: Duration::from_secs(15),
        ..NodeOptions::new(app.ws("/ws/node")).node_id(id)
    }
}

/// A node that does nothing but what the scenario says.
pub async fn scripted(app: &TestApp, id: &str) -> ScriptedNode {
    connect(app, options(app, id)).await
}

pub async fn connect(app: &TestApp, options: NodeOptions) -> ScriptedNode {
    let node = FakeNode::scripted(options).await.unwrap();
    app.meets(node.node_id()).await;
    node
}

/// A node that takes jobs without an ack.
pub async fn silent(app: &TestApp, id: &str) -> ScriptedNode {
    connect(app, options(app, id).without("ack")).await
}

/// A report that the schedulers have taken in when this returns.
pub async fn report(app: &TestApp, node: &mut ScriptedNode, extra: Value) {
    node.heartbeat(extra).await.unwrap();
    node.next_of("heartbeat_ack").await.unwrap();
    app.follows(node.node_id()).await;
}

/// The next assign, acked.
pub async fn take(node: &mut ScriptedNode) -> Value {
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.ack(&assign).await.unwrap();
    assign
}

/// One running job as a report lists it.
pub fn running(assign: &Value) -> Value {
    json!({ "job_id": assign["job_id"], "attempt_id": assign["attempt_id"] })
}

pub fn id(node: &str) -> NodeId {
    NodeId::new(node).unwrap()
}

pub fn view(app: &TestApp, node: &str) -> NodeView {
    app.engine.node_view(&id(node)).unwrap()
}

/// A counter of the schedulers; zero if it was never touched. Labels go with the name.
pub fn metric(app: &TestApp, name: &str) -> u64 {
    let elsewhere = app.of_nodes();
    let both = !std::ptr::eq(app, elsewhere);
    app.counter(name) + if both { elsewhere.counter(name) } else { 0 }
}

/// Waits until it is so.
pub async fn eventually(what: &str, ready: impl Fn() -> bool) {
    assert!(crate::app::wait_until(Duration::from_secs(15), ready).await, "never: {what}");
}

/// Waits until so many slots of the node are taken, by the store's word.
pub async fn until_used(app: &TestApp, node: &str, wanted: u32) {
    for _ in 0..1_500 {
        if app.used(node).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} slots of {node} are taken, not {wanted}", app.used(node).await);
}
