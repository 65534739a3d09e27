//! A job by way of another language: two jobs, one deadline, one ending.

use lingua_core::Lang;
use lingua_core::fleet::select::Verdict;
use lingua_core::fleet::{Fallbacks, Way};
use lingua_core::job::event::{Note, RecordAnswer};
use lingua_core::job::{Effect, Ended, Event, JobState, Leg, LegNews, Refusal};
use lingua_core::outcome::Code;

use super::script::*;

const PIVOT: Fallbacks = Fallbacks { captions: false, pivot: true, original: false };

fn via() -> Lang {
    Lang::new("en").unwrap()
}

/// One whose first leg is handed in.
fn relayed() -> Script {
    let mut job = Script::with(|_, request| request.fallbacks = PIVOT);
    job.none_left(Verdict::NoneEligible);
    job.sees(|e| matches!(e, Effect::FindAnotherWay(ways) if *ways == PIVOT));
    job.tell(Event::AnotherWay(Some(Way::Pivot { via: via(), speech: false })));
    job.sees(|e| matches!(e, Effect::WriteRecord { attempt: None }));
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Written });
    job.sees(|e| matches!(e, Effect::Note(Note::Pivot { .. })));
    job.sees(|e| matches!(e, Effect::BeginLeg { leg: Leg::First, .. }));
    job.tell(Event::LegBegun { leg: Leg::First, refused: None });
    job
}

fn news(job: &mut Script, leg: Leg, news: LegNews) {
    job.tell(Event::Leg { leg, news });
}

fn done() -> LegNews {
    LegNews::Ended(Ended::Done(body()))
}

fn failed(code: Code) -> LegNews {
    LegNews::Ended(Ended::Failed(Refusal::new(code, "no")))
}

#[test]
fn the_second_leg_follows_the_first_and_its_end_is_the_end() {
    let mut job = relayed();
    assert_eq!(job.state(), JobState::Selecting);
    news(&mut job, Leg::First, LegNews::Assigned);
    assert_eq!(job.state(), JobState::Dispatched);
    news(&mut job, Leg::First, LegNews::Accepted);
    assert_eq!(job.state(), JobState::Acked);
    news(&mut job, Leg::First, LegNews::Partial(body()));
    job.sees(|e| matches!(e, Effect::Partial { .. }));
    news(&mut job, Leg::Second, done());
    job.sees(|e| matches!(e, Effect::Ignored));
    news(&mut job, Leg::First, done());
    job.sees(|e| matches!(e, Effect::BeginLeg { leg: Leg::Second, .. }));
    job.sees_none(|e| matches!(e, Effect::End(_)));
    job.tell(Event::LegBegun { leg: Leg::Second, refused: None });
    news(&mut job, Leg::Second, LegNews::Assigned);
    news(&mut job, Leg::Second, LegNews::Partial(body()));
    job.sees_none(|e| matches!(e, Effect::Partial { .. }));
    news(&mut job, Leg::Second, done());
    job.sees(|e| matches!(e, Effect::Finish { state: JobState::Done, .. }));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Done(_)));
    assert!(job.is_over());
    news(&mut job, Leg::Second, done());
    job.sees(|e| matches!(e, Effect::Ignored));
}

#[test]
fn a_leg_that_fails_is_the_end_and_no_other_follows() {
    for leg in [Leg::First, Leg::Second] {
        let mut job = relayed();
        if leg == Leg::Second {
            news(&mut job, Leg::First, done());
        }
        news(&mut job, leg, failed(Code::AllNodesBusy));
        job.accepted_ending();
        assert_eq!(job.ending().code(), "ALL_NODES_BUSY", "{leg:?}");
        assert!(job.is_over());
    }
    let mut job = relayed();
    let refused = Some(Refusal::new(Code::QuotaExceeded, "as many as it may"));
    job.tell(Event::LegBegun { leg: Leg::First, refused });
    job.accepted_ending();
    assert_eq!(job.ending().code(), "QUOTA_EXCEEDED");
}

#[test]
fn silence_is_silence_by_any_way() {
    let mut job = relayed();
    let reason = "ASR_EMPTY".to_owned();
    news(&mut job, Leg::First, LegNews::Ended(Ended::Empty { body: None, reason }));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Empty { .. }));
}

#[test]
fn both_legs_have_the_one_deadline_and_the_one_that_runs_is_given_up_at_it() {
    let mut job = relayed();
    job.after(50_000);
    news(&mut job, Leg::First, done());
    assert_eq!(job.timer_in(), 25_000, "the second has what is left");
    job.timer();
    job.sees(|e| matches!(e, Effect::CancelLeg { leg: Leg::Second, reason: "deadline" }));
    job.accepted_ending();
    assert_eq!(job.ending().code(), "JOB_TIMEOUT");
    assert!(job.is_over());
}

#[test]
fn whoever_gives_the_job_up_gives_up_the_leg_that_runs() {
    let mut job = relayed();
    job.message(lingua_core::job::JobEvent::Cancel { reason: "cancelled" });
    job.sees(|e| matches!(e, Effect::CancelLeg { leg: Leg::First, .. }));
    job.accepted_ending();
    assert!(matches!(job.ending(), Ended::Cancelled(_)));
    let mut job = relayed();
    news(&mut job, Leg::First, failed(Code::JobTimeout));
    job.sees_none(|e| matches!(e, Effect::CancelLeg { .. }));
}

#[test]
fn no_leg_begins_for_a_job_that_another_instance_has() {
    let mut job = Script::with(|_, request| request.fallbacks = PIVOT);
    job.none_left(Verdict::NoneEligible);
    job.tell(Event::AnotherWay(Some(Way::Pivot { via: via(), speech: false })));
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Exists });
    job.sees(|e| matches!(e, Effect::Detach));
    job.sees_none(|e| matches!(e, Effect::BeginLeg { .. }));
    assert!(job.is_over());
}

#[test]
fn an_answer_after_another_instance_ended_the_job_does_not_count() {
    let mut job = relayed();
    news(&mut job, Leg::First, done());
    news(&mut job, Leg::Second, done());
    job.refused_ending();
    assert_eq!(job.ending().code(), "JOB_TIMEOUT");
}

#[test]
fn every_way_is_tried_once() {
    let all = Fallbacks { captions: true, pivot: true, original: true };
    let mut job = Script::with(|_, request| (request.speech, request.fallbacks) = (true, all));
    job.none_left(Verdict::NoneEligible);
    job.tell(Event::AnotherWay(Some(Way::Captions)));
    job.sees(|e| matches!(e, Effect::SwitchToText));
    job.none_left(Verdict::NoneEligible);
    let left = Fallbacks { captions: false, ..all };
    job.sees(|e| matches!(e, Effect::FindAnotherWay(ways) if *ways == left));
    job.tell(Event::AnotherWay(Some(Way::Original)));
    job.sees(|e| matches!(e, Effect::SwitchToOriginal));
    job.sees(|e| matches!(e, Effect::Note(Note::OriginalOnly)));
    job.none_left(Verdict::NoneEligible);
    job.sees(|e| matches!(e, Effect::DescribeLack(_)));
}

#[test]
fn stable_waits_before_a_retry_and_twice_as_long_before_the_next() {
    let mut job = Script::with(|policy, _| {
        policy.retry_backoff_ms = 200;
        policy.timing.max_attempts = 3;
    });
    job.place(1, "a");
    for (attempt, pause) in [(1, 200), (2, 400)] {
        job.message(failure(attempt, "GPU_ON_FIRE"));
        job.budget(true);
        assert_eq!(job.state(), JobState::Retrying);
        job.sees_none(|e| matches!(e, Effect::Choose { .. }));
        assert_eq!(job.timer_in(), pause);
        job.timer();
        job.sees(|e| matches!(e, Effect::Choose { .. }));
        job.place(attempt + 1, "b");
    }
}

#[test]
fn a_retry_that_has_no_time_for_a_pause_does_without() {
    let mut job = Script::with(|policy, request| {
        policy.retry_backoff_ms = 200;
        request.deadline = lingua_core::Moment::from_millis(5_000);
    });
    job.place(1, "a");
    // Placing takes two seconds at most, so there are 50 ms left.
    job.after(2_950).message(failure(1, "GPU_ON_FIRE"));
    job.budget(true);
    assert_eq!(job.timer_in(), 50);
    let mut job = Script::with(|policy, _| policy.retry_backoff_ms = 200);
    job.place(1, "a");
    job.message(reject(1, lingua_core::job::Reject::MissingModel(None)));
    job.sees(|e| matches!(e, Effect::Choose { .. }));
}
