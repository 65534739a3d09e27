//! What becomes of a job, as lists of events and effects: one scenario each, in no time.

mod placing;
mod relays;
mod script;

use lingua_core::fleet::select::Verdict;
use lingua_core::job::event::{CommitAnswer, Fault, NotSent, Pace};
use lingua_core::job::{Effect, Ended, Event, JobEvent, JobState, Link, NodeResult, Reject};
use lingua_core::outcome::Code;
use script::*;

#[test]
fn a_job_is_placed_accepted_and_done() {
    let mut job = Script::begin();
    assert_eq!(job.state(), JobState::Selecting);
    job.chosen("a");
    job.sees(|effect| matches!(effect, Effect::Reserve { attempt: 1, with_record: true }));
    job.granted(1);
    job.sees(|effect| matches!(effect, Effect::Send { attempt: 1 }));
    job.sent(1);
    assert_eq!(job.state(), JobState::Dispatched);
    job.sees(|effect| {
        matches!(effect, Effect::Dispatched { attempt: 1, hedge: false, first: true, .. })
    });
    job.message(JobEvent::Ack { attempt: 1 });
    assert_eq!(job.state(), JobState::Acked);
    job.tell(Event::Idle);
    job.sees(|effect| matches!(effect, Effect::Commit { attempt: 1 }));
    job.tell(Event::Committed { attempt: 1, answer: CommitAnswer::Kept });
    job.after(700).message(success(1));
    job.sees(|e| matches!(e, Effect::FinishByAnswer { attempt: 1, by_owner: false }));
    job.accepted_ending();
    job.sees(
        |e| matches!(e, Effect::AttemptAnswered { took: Some(t), .. } if t.as_millis() == 700),
    );
    assert!(matches!(job.ending(), Ended::Done(_)));
    assert_eq!(job.state(), JobState::Done);
    assert!(job.is_over());
}

#[test]
fn an_ack_whose_result_waits_already_is_not_written_down() {
    let mut job = Script::dispatched();
    job.message(JobEvent::Ack { attempt: 1 });
    job.message(success(1));
    job.tell(Event::Idle);
    job.sees_none(|effect| matches!(effect, Effect::Commit { .. }));
}

#[test]
pub fn a_result_implies_the_ack() {
    let mut job = Script::dispatched();
    job.message(success(1));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}

#[test]
fn what_is_not_about_the_current_attempt_changes_nothing() {
    let mut job = Script::dispatched();
    for attempt in [0, 2, 7, u32::MAX] {
        job.message(success(attempt));
        job.message(JobEvent::Ack { attempt });
        job.message(JobEvent::NodeGone { attempt });
        assert_eq!(job.state(), JobState::Dispatched);
    }
    job.sees(|effect| matches!(effect, Effect::Ignored));
    job.sees_none(|effect| matches!(effect, Effect::FinishByAnswer { .. }));
}

#[test]
fn a_failed_attempt_is_followed_by_one_elsewhere_if_the_budget_allows_it() {
    let mut job = Script::dispatched();
    job.message(failure(1, "GPU_ON_FIRE"));
    job.sees(|e| matches!(e, Effect::AttemptFailed { fault: Fault::Attempt, .. }));
    job.sees(|e| matches!(e, Effect::Release { attempt: 1, pace: Pace::Now }));
    job.sees(|e| matches!(e, Effect::AskRetryBudget));
    job.budget(true);
    assert_eq!(job.machine().excluded(), [node("a")]);
    job.place(2, "b");
    job.message(success(1));
    job.sees_none(|e| matches!(e, Effect::FinishByAnswer { .. }));
    job.message(success(2));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}

#[test]
fn without_budget_the_failure_is_the_ending() {
    let mut job = Script::dispatched();
    job.message(failure(1, "GPU_ON_FIRE"));
    job.budget(false);
    job.sees(|e| matches!(e, Effect::RetryRefused));
    job.accepted_ending();
    let Ended::Failed(refusal) = job.ending() else { panic!("it failed") };
    assert_eq!((refusal.code, refusal.code_text()), (Code::ProcessingError, "GPU_ON_FIRE"));
}

#[test]
fn two_attempts_are_all_there_are() {
    let mut job = Script::dispatched();
    job.message(failure(1, "GPU_ON_FIRE"));
    job.budget(true);
    job.place(2, "b");
    job.message(failure(2, "GPU_ON_FIRE"));
    job.accepted_ending();
    assert_eq!(job.ending().code(), "GPU_ON_FIRE");
}

#[test]
fn a_node_that_says_busy_costs_no_attempt_and_rests_and_is_asked_again_later() {
    let mut job = Script::dispatched();
    job.message(reject(1, Reject::Busy));
    job.sees(|e| matches!(e, Effect::Release { attempt: 1, pace: Pace::AfterRest }));
    job.sees(|e| matches!(e, Effect::AttemptFailed { fault: Fault::None, .. }));
    job.sees_none(|e| matches!(e, Effect::AskRetryBudget));
    assert_eq!(job.machine().dispatches(), 0);
    assert!(job.machine().unwanted().any(|unwanted| *unwanted == node("a")));
    job.none_left(Verdict::OnlyFailed);
    job.sees(|e| matches!(e, Effect::JoinQueue));
    assert!(job.machine().excluded().is_empty(), "it may be asked again");
}

#[test]
fn refusals_end_somewhere() {
    let mut job = Script::begin();
    for attempt in 1..=9 {
        assert!(!job.is_over());
        job.place(attempt, &format!("n{attempt}"));
        job.message(reject(attempt, Reject::Other("no".into())));
    }
    job.accepted_ending();
    assert_eq!(job.ending().code(), Code::NodeUnavailable.as_str());
}

#[test]
fn a_missing_model_is_noted_and_tried_elsewhere_at_once() {
    let mut job = Script::dispatched();
    job.message(reject(1, Reject::MissingModel(Some("nmt".into()))));
    job.sees(|e| matches!(e, Effect::NoteGap { attempt: 1, model: Some(_) }));
    job.sees_none(|e| matches!(e, Effect::AskRetryBudget));
    job.place(2, "b");
}

#[test]
pub fn a_node_without_an_ack_is_told_to_stop_and_another_gets_the_job() {
    let mut job = Script::dispatched();
    job.timer();
    job.sees(|e| matches!(e, Effect::AttemptFailed { code: Code::AckTimeout, .. }));
    job.sees(|e| matches!(e, Effect::Abandon { attempt: 1, .. }));
    job.budget(true);
    job.place(2, "b");
}

#[test]
fn a_node_that_lost_its_connection_may_come_back_to_its_job() {
    let mut job = Script::accepted();
    job.message(JobEvent::NodeGone { attempt: 1 });
    let grace = job.timer_in();
    assert_eq!(grace, GRACE_MS);
    job.after(grace - 1).message(JobEvent::NodeBack { attempt: 1 });
    job.message(success(1));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}

#[test]
fn a_node_that_does_not_come_back_loses_its_job() {
    let mut job = Script::accepted();
    job.message(JobEvent::NodeGone { attempt: 1 });
    job.timer();
    job.sees(|e| {
        matches!(
            e,
            Effect::AttemptFailed { code: Code::NodeUnavailable, fault: Fault::ConnectionLost, .. }
        )
    });
    job.budget(true);
    job.place(2, "b");
}

#[test]
fn a_connection_lost_before_the_ack_is_not_waited_for() {
    let mut job = Script::dispatched();
    job.message(JobEvent::NodeGone { attempt: 1 });
    job.sees(|e| matches!(e, Effect::Abandon { attempt: 1, .. }));
}

#[test]
fn a_job_that_its_node_dropped_is_tried_elsewhere_and_the_slot_is_free() {
    let mut job = Script::accepted();
    job.message(JobEvent::Dropped { attempt: 1 });
    job.sees(|e| matches!(e, Effect::AttemptFailed { fault: Fault::Dropped, .. }));
    job.sees(|e| matches!(e, Effect::Release { attempt: 1, pace: Pace::Now }));
}

#[test]
fn what_did_not_get_onto_the_wire_is_no_attempt() {
    let mut job = Script::dispatched();
    job.message(JobEvent::NotSent { attempt: 1 });
    assert_eq!(job.machine().dispatches(), 0);
    job.sees_none(|e| matches!(e, Effect::AskRetryBudget));
    job.place(2, "b");
    job.message(JobEvent::Ack { attempt: 2 });
    job.message(JobEvent::NotSent { attempt: 2 });
    assert_eq!(job.machine().dispatches(), 1, "it has it all the same");
}

#[test]
fn an_assignment_that_does_not_fit_the_connection_goes_to_the_next_node() {
    for (reason, pace) in [(NotSent::Full, Pace::AfterRest), (NotSent::Unreachable, Pace::Now)] {
        let mut job = Script::begin();
        job.chosen("a");
        job.granted(1);
        job.tell(Event::NotSent { attempt: 1, reason });
        job.sees(|e| matches!(e, Effect::Release { attempt: 1, pace: p } if *p == pace));
        job.place(2, "b");
    }
}

#[test]
pub fn a_slow_node_is_hedged_once_and_the_first_result_wins() {
    let mut job = Script::with(|policy, _| policy.hedge_after_ms = Some(1_500)).into_accepted();
    assert_eq!(job.timer_in(), 1_500);
    job.timer();
    job.budget(true);
    job.place(2, "b");
    job.sees(|e| matches!(e, Effect::Dispatched { attempt: 2, hedge: true, first: false, .. }));
    job.message(success(1));
    job.sees(|e| matches!(e, Effect::FinishByAnswer { attempt: 1, by_owner: true }));
    job.message(success(2));
    job.sees_none(|e| matches!(e, Effect::FinishByAnswer { .. }));
    job.accepted_ending();
    job.sees(|e| matches!(e, Effect::Abandon { attempt: 2, reason: "other_copy_won" }));
    assert!(matches!(job.ending(), Ended::Done(_)));
    assert!(job.is_over());
}

#[test]
pub fn a_second_copy_without_room_or_budget_is_not_made() {
    let mut job = Script::with(|policy, _| policy.hedge_after_ms = Some(1_500)).into_accepted();
    job.timer();
    job.sees(|e| matches!(e, Effect::AskRetryBudget));
    job.budget(true);
    job.none_left(Verdict::Busy);
    job.sees(|e| matches!(e, Effect::SearchEnded));
    job.sees_none(|e| matches!(e, Effect::JoinQueue));
    assert!(job.timer_in() > 1_500, "it is tried once");
    let mut job = Script::with(|policy, _| policy.hedge_after_ms = Some(1_500)).into_accepted();
    job.timer();
    job.budget(false);
    job.sees_none(|e| matches!(e, Effect::RetryRefused));
    job.message(success(1));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}

#[test]
fn a_second_copy_that_is_being_placed_takes_the_place_of_a_first_that_fails() {
    let mut job = Script::with(|policy, _| policy.hedge_after_ms = Some(1_500)).into_accepted();
    job.timer();
    job.budget(true);
    job.chosen("b");
    job.message(failure(1, "GPU_ON_FIRE"));
    job.granted_later(2);
    job.sent(2);
    job.sees(|e| matches!(e, Effect::Dispatched { attempt: 2, hedge: false, .. }));
    job.message(success(2));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}

#[test]
fn a_second_copy_on_its_way_is_stopped_when_the_first_answers() {
    let mut job = Script::with(|policy, _| policy.hedge_after_ms = Some(1_500)).into_accepted();
    job.timer();
    job.budget(true);
    job.chosen("b");
    job.granted_later(2);
    job.message(success(1));
    job.sees(|e| matches!(e, Effect::Abandon { attempt: 2, .. }));
    job.sent(2);
    job.sees_none(|e| matches!(e, Effect::Dispatched { .. }));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
    assert!(job.is_over());
}

#[test]
fn a_slot_that_is_granted_after_the_ending_is_given_back() {
    let mut job = Script::begin();
    job.chosen("a");
    job.message(JobEvent::Cancel { reason: "test" });
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Cancelled(_)));
    assert!(!job.is_over());
    job.granted(1);
    job.sees(|e| matches!(e, Effect::Release { attempt: 1, pace: Pace::Now }));
    assert!(job.is_over());
}

#[test]
fn an_ending_that_the_store_does_not_accept_is_not_told_as_a_result() {
    let mut job = Script::accepted();
    job.message(success(1));
    job.refused_ending();
    assert_eq!(job.ending().code(), Code::JobTimeout.as_str());
}

#[test]
fn the_deadline_ends_a_job_and_stops_its_node() {
    let mut job = Script::with(|policy, _| policy.timing.exec_max_ms = 1_000_000).into_accepted();
    job.tell(Event::Idle);
    job.tell(Event::Committed { attempt: 1, answer: CommitAnswer::Kept });
    job.timer();
    job.sees(|e| matches!(e, Effect::Abandon { attempt: 1, reason: "deadline" }));
    job.accepted_ending();
    assert_eq!(job.ending().code(), Code::JobTimeout.as_str());
}

#[test]
fn an_older_agent_that_keeps_the_speech_of_a_turn_says_nothing_and_that_is_an_ending() {
    let mut job = Script::with(|_, request| request.in_turn = true);
    job.chosen("a");
    job.granted(1);
    let link = Link { keeps_speech: true, ..Link::default() };
    job.tell(Event::Sent { attempt: 1, link });
    job.sees(|e| matches!(e, Effect::BindTurn { attempt: 1 }));
    job.message(JobEvent::OnWire { attempt: 1 });
    job.timer();
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Empty { body: None, .. }));
}

#[test]
fn a_lease_that_was_gone_before_the_ack_costs_the_attempt_and_nobody_is_blamed() {
    let mut job = Script::accepted();
    job.tell(Event::Idle);
    job.tell(Event::Committed { attempt: 1, answer: CommitAnswer::Lost });
    job.sees(|e| {
        matches!(e, Effect::AttemptFailed { code: Code::AckTimeout, fault: Fault::None, .. })
    });
}

#[test]
fn a_job_without_a_session_is_watched_by_all_once_it_takes_longer() {
    let mut job = Script::with(|_, request| request.in_session = false);
    assert_eq!(job.timer_in(), 100);
    job.timer();
    job.sees(|e| matches!(e, Effect::Watch));
    job.tell(Event::Watched(false));
    assert_eq!(job.timer_in(), 1_000, "it is tried again");
    job.timer();
    job.tell(Event::Watched(true));
    assert!(job.machine().is_watched());
    job.place(1, "a");
    job.message(JobEvent::Result { attempt: 1, result: Box::new(NodeResult::Success(body())) });
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
}
