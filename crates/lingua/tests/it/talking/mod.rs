//! What must hold for people who speak, whatever store is below: told to a scheduler on real sockets
//! by speakers and nodes that do just what the scenario says.

pub mod breaking;
pub mod cutting;
pub mod draining;
pub mod ending;
pub mod existing;
pub mod opening;
pub mod resuming;
pub mod targets;
pub mod wholes;

use std::time::Duration;

use lingua_engine::Settings;
use lingua_lab::speech::{Codec, Mark, Signal};
use lingua_lab::{FakeNode, NodeOptions, ScriptedNode, Speaker, SpeakerOptions};
use serde_json::{Value, json};

use crate::app::TestApp;
pub use crate::app::calm;

/// Makes a test of every conversation, on this store.
macro_rules! conversations {
    ($on:expr) => {
        crate::talking::tests! { $on;
            opening {
                an_existing_client_is_served_as_ever,
                a_current_client_gets_what_it_asked_for,
                nothing_is_heard_before_the_session_is_open,
                a_second_opening_is_an_error_and_the_session_goes_on,
                another_sessions_id_is_refused,
                what_cannot_be_is_answered_and_the_session_goes_on,
                who_keeps_on_with_nonsense_is_shown_the_door,
                rooms_are_not_served_yet,
                signalling_between_browsers_is_passed_over,
                bounds_of_the_clients_own_clocks_are_held,
                who_never_opens_is_shown_the_door,
                a_tenant_has_so_many_sessions_and_no_more,
                signs_of_life_are_answered,
                a_close_is_answered_after_the_last_ending,
                a_plain_request_is_told_that_this_is_a_socket,
            }
            cutting {
                a_sentence_goes_to_a_node_and_comes_back,
                pieces_arrive_as_they_were_said,
                a_second_final_cuts_nothing,
                a_final_on_nothing_is_nothing,
                a_pause_ends_an_utterance,
                a_final_that_races_the_pause_cuts_once,
                endless_speech_is_cut_and_stays_on_one_node,
                the_byte_cap_cuts,
                pieces_of_one_byte_are_put_together,
                pieces_of_two_mebibytes_are_taken_or_refused_whole,
                a_loudspeaker_holds_the_pause_off,
                finalize_says_which_utterance_it_made,
                languages_change_between_sentences,
                two_languages_go_to_a_node_that_can_both,
                the_next_node_is_told_what_was_said,
                long_silence_does_no_harm,
                a_broken_packet_is_refused_and_nothing_else,
            }
            wholes {
                a_whole_utterance_is_told_under_the_clients_number,
                a_repeated_one_is_the_same_job,
                numbers_must_rise,
                a_text_is_an_utterance_without_speech,
                each_has_a_direction_of_its_own,
                one_without_speech_is_refused,
            }
            ending {
                results_are_told_in_the_order_of_speech,
                partials_overtake,
                partials_come_only_to_those_who_asked,
                silence_ends_with_a_word,
                a_failing_node_is_followed_by_another,
                a_node_that_never_answers_ends_by_the_deadline,
                a_late_result_is_not_told,
                a_node_that_vanishes_is_followed_by_another,
                without_a_node_the_ending_says_so_and_the_session_goes_on,
                when_all_is_busy_the_ending_says_so,
                a_cancelled_utterance_ends_and_its_node_is_told,
                too_much_open_speech_is_refused_with_backpressure,
                a_client_never_learns_who_the_node_is,
            }
            resuming {
                missed_endings_are_told_again,
                speech_is_acknowledged_when_a_node_has_it,
                speech_sent_again_is_joined_without_doubling,
                the_older_socket_is_told_that_it_is_superseded,
                a_token_that_means_nothing_opens_a_new_session,
                after_the_window_the_session_is_gone,
                a_client_that_cannot_come_back_leaves_only_what_it_finished,
                another_instance_goes_on_with_the_session,
                an_unfinished_sentence_goes_on_after_the_resume,
                a_session_goes_there_and_back_again,
                a_token_is_good_for_the_next_line_and_no_more,
            }
            targets {
                each_target_has_its_job_and_one_without_a_node_ends_alone,
                a_slow_target_is_late_alone,
                speech_is_acknowledged_when_every_target_has_a_node,
                targets_change_in_mid_session,
                a_cancelled_utterance_ends_in_every_target,
                missed_endings_are_told_again_for_each_target,
                another_instance_goes_on_with_every_target,
                targets_that_cannot_be_are_refused_and_the_session_goes_on,
                the_direction_that_a_node_found_is_told,
            }
            breaking {
                a_flood_is_slowed_down_and_loses_nothing,
                who_reads_nothing_is_let_go_and_delays_nobody,
                a_message_too_large_ends_the_connection,
            }
            existing {
                speech_that_a_close_ends_is_answered,
                speech_that_new_languages_end_is_answered,
                speech_that_a_drain_ends_is_answered_and_the_drain_is_short,
                a_long_turn_comes_back_whole,
                a_job_over_http_is_answered,
                a_drain_is_shown_once_and_ends_with_the_last_result,
                a_drain_closes_who_has_nothing_open_and_shows_nothing_to_who_comes_back,
                failures_are_shown_once_in_a_while,
                partials_come_unasked,
                pieces_of_a_mobile_client_are_one_utterance,
                pieces_that_something_follows_are_an_utterance,
                an_answer_of_nothing_is_silence,
            }
            draining {
                a_drain_ends_what_was_said_and_closes,
                a_draining_instance_opens_nothing,
                a_drained_session_goes_on_elsewhere,
                what_ends_between_two_instances_is_heard_at_the_second,
            }
        }
    };
}
pub(crate) use conversations;

macro_rules! tests {
    ($on:expr; $($module:ident { $($name:ident),+ $(,)? })+) => {
        $(mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::talking::$module::$name($on).await;
            })+
        })+
    };
}
pub(crate) use tests;

/// Endings come soon whatever happens.
pub fn hurried() -> Settings {
    let mut settings = calm();
    settings.timing.send_ms = 200;
    settings.timing.ack_ms = 400;
    settings.timing.http_ack_ms = 400;
    settings.timing.reserve_lease_ms = 1_500;
    settings.timing.queue_max_ms = 300;
    settings.timing.exec_max_ms = 800;
    settings.timing.margin_ms = 100;
    settings.timing.deadline_ms = 3_000;
    settings.reconnect_grace_ms = 200;
    settings.timing.check().unwrap();
    settings
}

/// A current client that speaks English into Chinese.
pub fn options(app: &TestApp) -> SpeakerOptions {
    SpeakerOptions::new(app.ws("/ws/session")).patience(Duration::from_secs(15))
}

pub async fn speaker(app: &TestApp) -> Speaker {
    speaker_with(options(app)).await
}

pub async fn speaker_with(options: SpeakerOptions) -> Speaker {
    Speaker::connect(options).await.unwrap()
}

/// A node that does nothing but what the scenario says.
pub async fn node(app: &TestApp, id: &str) -> ScriptedNode {
    node_with(app, node_options(app, id)).await
}

pub async fn node_with(app: &TestApp, options: NodeOptions) -> ScriptedNode {
    let node = FakeNode::scripted(options).await.unwrap();
    app.meets(node.node_id()).await;
    node
}

/// A current agent with four slots that serves English and Chinese.
pub fn node_options(app: &TestApp, id: &str) -> NodeOptions {
    NodeOptions {
        patience: Duration::from_secs(15),
        ..NodeOptions::new(app.ws("/ws/node")).node_id(id)
    }
}

/// A node that answers by itself, at once.
pub async fn worker(app: &TestApp, id: &str) -> FakeNode {
    let node = FakeNode::connect(node_options(app, id)).await.unwrap();
    app.meets(id).await;
    node
}

/// The next assign, acked.
pub async fn take(node: &mut ScriptedNode) -> Value {
    let assign = node.next_of("job_assign").await.unwrap().message;
    node.ack(&assign).await.unwrap();
    assign
}

/// The speech of an assign, which came in its text or in the frame behind it.
pub async fn audio_of(node: &mut ScriptedNode, assign: &Value) -> Vec<u8> {
    use base64::Engine as _;
    match assign["audio"].as_str() {
        Some(text) => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
        None => panic!("{assign}: the node was not to support binary audio: {}", node.node_id()),
    }
}

/// So much speech, marked.
pub fn speech(codec: Codec, n: u32, ms: u64) -> bytes::Bytes {
    codec.speech(Signal::Babble, ms, Some(mark(n)), u64::from(n))
}

pub fn mark(sentence: u32) -> Mark {
    Mark { speaker: 1, sentence }
}

/// The ending is a translation of this index.
pub fn is_result(ending: &Value, index: u64) {
    assert_eq!(
        (&ending["type"], &ending["utterance_index"]),
        (&json!("translation_result"), &json!(index)),
        "{ending}"
    );
}

/// The ending is an explicit absence.
pub fn is_missing(ending: &Value, index: u64, reason: &str) {
    assert_eq!(
        (&ending["type"], &ending["utterance_index"], &ending["reason"]),
        (&json!("missing_result"), &json!(index), &json!(reason)),
        "{ending}"
    );
}

pub fn is_error(message: &Value, code: &str) {
    assert_eq!((&message["type"], &message["code"]), (&json!("error"), &json!(code)), "{message}");
    assert!(message["message"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
}

/// A counter of the scheduler; zero if it was never touched. Labels go with the name.
pub fn metric(app: &TestApp, name: &str) -> u64 {
    app.counter(name)
}

/// Waits until it is so.
pub async fn eventually(what: &str, ready: impl Fn() -> bool) {
    assert!(crate::app::wait_until(Duration::from_secs(15), ready).await, "never: {what}");
}

/// Says goodbye, and fails if anything is left over or the speaker's own account has a flaw.
pub async fn finish(app: TestApp, speaker: Speaker) {
    speaker.report().ensure_clean().unwrap();
    part(app, speaker).await;
}

/// Says goodbye, and fails if anything is left over.
pub async fn part(app: TestApp, mut speaker: Speaker) {
    speaker.close_session("done").await.unwrap();
    speaker.next_of("session_close_ack").await.unwrap();
    drop(speaker);
    eventually("the session is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}
