//! How a job gets onto a node, or waits, or ends without one.

use lingua_core::fleet::select::{Passed, Source, Verdict};
use lingua_core::fleet::{Fallbacks, Way};
use lingua_core::job::event::{AssignAnswer, Busy, Lack, Note, RecordAnswer, SlotAnswer, Wakeup};
use lingua_core::job::{Effect, Event, JobState};
use lingua_core::outcome::Code;

use super::script::*;

#[test]
fn a_full_fleet_makes_the_job_wait_and_a_free_slot_calls_it() {
    let mut job = Script::begin();
    job.none_left(Verdict::Busy);
    job.sees(|e| matches!(e, Effect::WriteRecord { attempt: None }));
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Written });
    job.queued();
    assert_eq!(job.state(), JobState::Waiting);
    job.after(300).tell(Event::Called(Wakeup::Slot(node("a"))));
    job.sees(|e| matches!(e, Effect::Waited(waited) if waited.as_millis() == 300));
    job.sees(|e| matches!(e, Effect::Reserve { attempt: 1, with_record: false }));
    job.tell(Event::Reserved {
        attempt: 1,
        slot: SlotAnswer::Refused,
        record: RecordAnswer::NotAsked,
    });
    job.sees(|e| matches!(e, Effect::RefundShare));
    job.chosen("b");
    job.granted_later(1);
    job.sent(1);
    job.sees(|e| matches!(e, Effect::ChargeShare));
}

#[test]
fn a_job_waits_no_longer_than_it_may_in_all() {
    let mut job = Script::begin();
    job.none_left(Verdict::Busy);
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Written });
    job.queued();
    job.after(QUEUE_MS - 100).tell(Event::Called(Wakeup::Look));
    job.none_left(Verdict::Busy);
    job.queued();
    assert_eq!(job.timer_in(), 100);
    job.timer();
    job.sees(|e| matches!(e, Effect::LeaveQueue));
    job.sees(|e| matches!(e, Effect::DescribeLack(Lack::Slot(Busy::AllFull))));
}

#[test]
fn a_full_queue_and_a_displaced_job_say_so() {
    let mut job = Script::begin();
    job.none_left(Verdict::Busy);
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Written });
    job.queue_full();
    job.sees(|e| matches!(e, Effect::DescribeLack(Lack::Slot(Busy::QueueFull))));
    let mut job = Script::begin();
    job.none_left(Verdict::Busy);
    job.tell(Event::Recorded { attempt: None, answer: RecordAnswer::Written });
    job.queued();
    job.tell(Event::Called(Wakeup::Leave));
    job.sees(|e| matches!(e, Effect::DescribeLack(Lack::Slot(Busy::Displaced))));
}

#[test]
fn two_nodes_that_look_full_are_asked_before_the_job_waits() {
    let mut job = Script::begin();
    for (n, name) in ["a", "b"].iter().enumerate() {
        job.tell(Event::Chosen { node: node(name), source: Source::Full, passed_over: None });
        let attempt = u32::try_from(n).unwrap() + 1;
        let record = if n == 0 { RecordAnswer::Written } else { RecordAnswer::NotAsked };
        job.tell(Event::Reserved { attempt, slot: SlotAnswer::Refused, record });
    }
    job.sees(|e| matches!(e, Effect::JoinQueue));
}

#[test]
fn a_preferred_node_that_is_passed_over_is_noted() {
    let mut job = Script::begin();
    let passed_over = Some(Passed::Unknown);
    job.tell(Event::Chosen { node: node("a"), source: Source::Sample, passed_over });
    job.sees(|e| matches!(e, Effect::Note(Note::PreferredPassed(Passed::Unknown))));
    let mut job = Script::begin();
    job.tell(Event::Chosen { node: node("a"), source: Source::Preferred, passed_over: None });
    job.tell(Event::Reserved {
        attempt: 1,
        slot: SlotAnswer::Refused,
        record: RecordAnswer::Written,
    });
    job.sees(|e| matches!(e, Effect::Note(Note::PreferredFull)));
    job.sees(|e| matches!(e, Effect::Choose { .. }));
}

#[test]
fn a_voice_that_no_node_has_becomes_text_if_that_will_do() {
    let text = Fallbacks { captions: true, ..Fallbacks::NONE };
    let mut job = Script::with(|_, request| (request.speech, request.fallbacks) = (true, text));
    job.none_left(Verdict::NoneEligible);
    job.tell(Event::AnotherWay(Some(Way::Captions)));
    job.sees(|e| matches!(e, Effect::SwitchToText));
    job.place(1, "a");
    let mut job = Script::with(|_, request| request.speech = true);
    job.none_left(Verdict::NoneEligible);
    job.sees(|e| matches!(e, Effect::DescribeLack(Lack::AbleNode)));
}

#[test]
fn the_oldest_mark_is_left_aside_when_no_other_node_is_able() {
    let mut job = Script::begin();
    job.none_left(Verdict::OnlyFailed);
    job.sees(|e| matches!(e, Effect::FindOldestMark));
    assert!(job.machine().may_unmark(&node("a")));
    job.tell(Event::OldestMark(Some(node("a"))));
    assert_eq!(job.machine().unmarked(), [node("a")]);
    assert!(!job.machine().may_unmark(&node("a")));
    job.none_left(Verdict::OnlyFailed);
    job.tell(Event::OldestMark(None));
    assert_eq!(job.ending().code(), Code::ModelNotAvailable.as_str());
}

#[test]
fn a_job_that_another_instance_has_is_let_alone_and_its_slot_given_back() {
    let mut job = Script::begin();
    job.chosen("a");
    job.tell(Event::Reserved {
        attempt: 1,
        slot: SlotAnswer::Granted,
        record: RecordAnswer::Exists,
    });
    job.sees(|e| matches!(e, Effect::Release { attempt: 1, .. }));
    job.sees(|e| matches!(e, Effect::Detach));
    job.sees_none(|e| matches!(e, Effect::Send { .. } | Effect::End(_)));
    assert!(job.is_over());
}

#[test]
fn without_the_store_nothing_is_begun() {
    let mut job = Script::begin();
    job.chosen("a");
    job.tell(Event::Reserved {
        attempt: 1,
        slot: SlotAnswer::StoreDown,
        record: RecordAnswer::StoreDown,
    });
    assert_eq!(job.ending().code(), Code::SchedulerDependencyDown.as_str());
    job.sees_none(|e| matches!(e, Effect::Send { .. }));
}

#[test]
fn a_record_that_the_store_lost_is_written_again() {
    let mut job = Script::dispatched();
    job.message(failure(1, "GPU_ON_FIRE"));
    job.budget(true);
    job.chosen("b");
    job.tell(Event::Reserved {
        attempt: 2,
        slot: SlotAnswer::Granted,
        record: RecordAnswer::NotAsked,
    });
    job.tell(Event::AssignmentWritten { attempt: 2, answer: AssignAnswer::Unknown });
    job.sees(|e| matches!(e, Effect::WriteRecord { attempt: Some(2) }));
    job.tell(Event::Recorded { attempt: Some(2), answer: RecordAnswer::Written });
    job.sees(|e| matches!(e, Effect::Send { attempt: 2 }));
}
