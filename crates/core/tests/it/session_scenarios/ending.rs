//! How utterances end, and in which order.

use super::*;

#[test]
fn endings_are_told_in_order_and_a_hole_holds_back_until_its_deadline_only() {
    let mut talk = Talk::new();
    for text in ["a", "b", "c"] {
        let index = talk.sentence(text);
        talk.assign(key(index), 1);
    }
    assert_eq!(told(&talk.answer(key(2), 1, "C")), []);
    assert_eq!(told(&talk.answer(key(0), 1, "A")), [(key(0), result("A"))]);
    let due = talk.wait(75_000);
    assert_eq!(told(&due), [(key(1), missing(MissingReason::GapTimeout)), (key(2), result("C"))]);
    assert!(due.contains(&Effect::CancelJob { key: key(1), why: MissingReason::GapTimeout }));
}

#[test]
fn a_late_result_after_the_deadline_is_dropped_and_counted() {
    let mut talk = Talk::new();
    talk.sentence("a");
    talk.assign(key(0), 1);
    talk.ms = 75_000;
    let effects = talk.answer(key(0), 1, "A");
    assert_eq!(told(&effects), [(key(0), missing(MissingReason::GapTimeout))]);
    assert!(effects.contains(&Effect::Ignored(Ignored::LateOrDuplicate)));
    let again = talk.answer(key(0), 1, "A");
    assert_eq!(again, [Effect::Ignored(Ignored::LateOrDuplicate)]);
}

#[test]
fn only_the_current_attempt_of_the_right_target_can_end_a_job() {
    let both = Routes::new([route("en", "zh"), route("en", "de")]).unwrap();
    let mut talk = Talk::into_languages(Settings::default(), both);
    talk.sentence("hello");
    let stale = [Effect::Ignored(Ignored::StaleAttempt)];
    assert_eq!(talk.answer(lane(0, 0), 1, "nobody was asked"), stale);
    talk.assign(lane(0, 0), 1);
    talk.assign(lane(0, 0), 2);
    talk.assign(lane(0, 1), 1);
    assert_eq!(talk.assign(lane(0, 0), 1), stale, "attempts only grow");
    assert_eq!(talk.answer(lane(0, 0), 1, "the attempt given up"), stale);
    let unknown = [Effect::Ignored(Ignored::UnknownKey)];
    assert_eq!(talk.answer(lane(0, 2), 1, "no such target"), unknown);
    assert_eq!(talk.answer(lane(9, 0), 1, "no such utterance"), unknown);
    talk.now(Event::NodeAccepted { key: lane(0, 0), attempt: 2 });
    let german = talk.answer(lane(0, 1), 1, "hallo");
    assert_eq!(told(&german), [(lane(0, 1), result("hallo"))]);
    assert_eq!(told(&talk.answer(lane(0, 0), 2, "ni hao")), [(lane(0, 0), result("ni hao"))]);
}

#[test]
fn of_two_hedged_attempts_the_first_to_end_counts() {
    let mut talk = Talk::new();
    talk.sentence("hello");
    talk.assign(key(0), 1);
    talk.now(Event::Assigned { key: key(0), attempt: 2, hedge: true });
    assert_eq!(told(&talk.answer(key(0), 1, "first")), [(key(0), result("first"))]);
    let second = talk.answer(key(0), 2, "second");
    assert_eq!(second, [Effect::Ignored(Ignored::LateOrDuplicate)]);
}

#[test]
fn a_slow_target_language_holds_back_no_other_and_two_directions_stay_in_order() {
    let both = Routes::new([route("en", "zh"), route("en", "de")]).unwrap();
    let mut talk = Talk::into_languages(Settings::default(), both);
    talk.sentence("a");
    talk.sentence("b");
    for lane_key in [lane(0, 0), lane(0, 1), lane(1, 0), lane(1, 1)] {
        talk.assign(lane_key, 1);
        talk.now(Event::NodeAccepted { key: lane_key, attempt: 1 });
    }
    talk.answer(lane(0, 1), 1, "A");
    assert_eq!(told(&talk.answer(lane(1, 1), 1, "B")), [(lane(1, 1), result("B"))]);

    let mut talk = Talk::new();
    talk.sentence("hello");
    talk.now(Event::SetLanguages(Routes::one(route("zh", "en"))));
    talk.sentence("ni hao");
    talk.assign(key(0), 1);
    talk.assign(key(1), 1);
    assert_eq!(told(&talk.answer(key(1), 1, "hello")), [], "although its target is another");
    assert_eq!(told(&talk.answer(key(0), 1, "ni hao")).len(), 2);
}

#[test]
fn partials_may_overtake_and_never_follow_an_ending() {
    let mut talk = Talk::new();
    talk.sentence("a");
    talk.sentence("b");
    talk.assign(key(1), 1);
    let partial = || Event::Partial { key: key(1), attempt: 1, payload: "so far" };
    let passed = Effect::Partial { key: key(1), client_index: None, payload: "so far" };
    assert_eq!(talk.now(partial()), [passed]);
    talk.answer(key(1), 1, "B");
    assert_eq!(talk.now(partial()), [Effect::Ignored(Ignored::LateOrDuplicate)]);
}

#[test]
fn a_cancelled_utterance_ends_in_its_place_and_its_jobs_are_called_back() {
    let mut talk = Talk::new();
    talk.sentence("a");
    talk.sentence("b");
    let effects = talk.now(Event::Cancel { index: 1 });
    let why = MissingReason::Cancelled;
    assert_eq!(effects[0], Effect::CancelJob { key: key(1), why });
    assert_eq!(effects[1], Effect::ReleaseAudio { index: 1 });
    assert_eq!(told(&effects), []);
    assert_eq!(told(&talk.fail(key(0), MissingReason::JobFailed)).len(), 2);
    let again = talk.now(Event::Cancel { index: 1 });
    assert_eq!(again, [Effect::Ignored(Ignored::LateOrDuplicate)]);
}

#[test]
fn audio_is_kept_for_a_retry_until_every_job_of_it_is_over() {
    let both = Routes::new([route("en", "zh"), route("en", "de")]).unwrap();
    let mut talk = Talk::into_languages(Settings::default(), both);
    talk.sentence("hello");
    talk.fail(lane(0, 0), MissingReason::JobFailed);
    assert_eq!(words(talk.session.utterance(0).unwrap()), "hello");
    let effects = talk.fail(lane(0, 1), MissingReason::JobFailed);
    assert!(effects.contains(&Effect::ReleaseAudio { index: 0 }));
    assert_eq!((talk.session.utterance(0), talk.session.held_bytes()), (None, 0));
}

#[test]
fn audio_is_acknowledged_only_when_a_node_has_it() {
    let mut talk = Talk::new();
    talk.sentence("a");
    talk.sentence("b");
    talk.say("c");
    for index in [1, 0] {
        talk.assign(key(index), 1);
    }
    let accepted = |index| Event::NodeAccepted { key: key(index), attempt: 1 };
    assert_eq!(talk.now(accepted(1)), [], "the piece before it is not safe yet");
    assert_eq!(talk.now(accepted(0)), [Effect::AudioAck { seq: 1 }]);
    assert_eq!(talk.now(accepted(0)), []);
}
