//! A client or an instance goes away, and the session goes on.

use super::*;

#[test]
pub fn a_client_that_comes_back_hears_what_it_missed_in_order_and_once() {
    let mut talk = Talk::new();
    for text in ["a", "b", "c"] {
        let index = talk.sentence(text);
        talk.assign(key(index), 1);
    }
    talk.answer(key(0), 1, "A");
    talk.answer(key(1), 1, "B");
    talk.now(Event::Disconnected { epoch: 1 });
    assert_eq!(told(&talk.answer(key(2), 1, "C")), [], "nobody is there");
    let effects =
        talk.after(59_999, Event::Resumed { epoch: 2, last_seen: LastSeen::all(Some(0)) });
    assert_eq!(told(&effects), [(key(1), result("B")), (key(2), result("C"))]);
    let resumed = Effect::Resumed { next_index: 3, audio_ack: Some(2), forgotten: vec![] };
    assert_eq!(effects[0], resumed);
    let stale = talk.now(Event::Disconnected { epoch: 1 });
    assert_eq!(stale, [Effect::Ignored(Ignored::StaleEpoch)], "the old socket ends nothing");
    assert_eq!(talk.sentence("d"), 3, "the numbers go on");
}

#[test]
fn endings_that_can_no_longer_be_told_are_named() {
    let mut talk = Talk::with(Settings { max_kept_endings: 1, ..Settings::default() });
    for text in ["a", "b", "c"] {
        let index = talk.sentence(text);
        talk.fail(key(index), MissingReason::JobFailed);
    }
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(Some(0)) });
    let forgotten = vec![Span { route: Some(route("en", "zh")), first: 1, last: 1 }];
    let resumed = Effect::Resumed { next_index: 3, audio_ack: Some(2), forgotten };
    assert_eq!(effects[0], resumed);
    assert_eq!(told(&effects), [(key(2), missing(MissingReason::JobFailed))]);
}

#[test]
fn a_sentence_that_the_network_interrupted_goes_on_after_the_resume() {
    let mut talk = Talk::new();
    talk.say("first half, ");
    talk.now(Event::Disconnected { epoch: 1 });
    assert!(cut(&talk.wait(30_000)).is_none());
    talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(None) });
    let effects = talk.chunk("second half", 20, true);
    assert_eq!(words(cut(&effects).unwrap()), "first half, second half");
    assert_eq!(cut(&effects).unwrap().epoch, 2);
}

/// The store takes nothing of an older epoch than the newest that was claimed.
#[test]
fn what_is_cut_after_a_lost_claim_has_its_epoch() {
    let mut talk = Talk::new();
    talk.say("first half, ");
    assert_eq!(talk.now(Event::EpochRaised { epoch: 5 }), []);
    let effects = talk.chunk("second half", 20, true);
    assert_eq!(cut(&effects).unwrap().epoch, 5);
    let stale = talk.now(Event::EpochRaised { epoch: 4 });
    assert_eq!(stale, [Effect::Ignored(Ignored::StaleEpoch)]);
    talk.now(Event::Disconnected { epoch: 5 });
    let back = talk.now(Event::Resumed { epoch: 5, last_seen: LastSeen::all(None) });
    assert!(matches!(back[0], Effect::Resumed { .. }), "its connection comes after the word of it");
}

#[test]
fn a_client_that_vanishes_leaves_its_finals_to_end_and_its_half_sentence_to_an_explicit_drop() {
    let mut talk = Talk::new();
    talk.sentence("asked for");
    talk.say("half");
    talk.now(Event::Disconnected { epoch: 1 });
    let reason = DropReason::Abandoned;
    let dropped = Effect::AudioDropped { first_seq: 1, last_seq: 1, bytes: 4, reason };
    assert!(talk.wait(60_000).contains(&dropped));
    assert!(!talk.session.is_closed(), "the job goes on");
    talk.assign(key(0), 1);
    assert_eq!(talk.answer(key(0), 1, "unheard").last(), Some(&Effect::Closed));
    let back = talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(None) });
    assert_eq!(back, [Effect::Ignored(Ignored::Closed)]);
}

#[test]
fn closing_finishes_what_was_said_and_takes_nothing_more() {
    let mut talk = Talk::new();
    talk.say("last words");
    let effects = talk.now(Event::Close { finish_pending: true });
    assert_eq!(cut(&effects).unwrap().cut_reason(), CutReason::Close);
    let reason = DropReason::Closed;
    let refused = talk.say("more");
    assert_eq!(refused, [Effect::AudioDropped { first_seq: 1, last_seq: 1, bytes: 4, reason }]);
    talk.assign(key(0), 1);
    let end = talk.answer(key(0), 1, "done");
    assert_eq!(told(&end), [(key(0), result("done"))]);
    assert_eq!(end.last(), Some(&Effect::Closed));
}

#[test]
fn audio_refused_by_a_draining_instance_is_not_acknowledged_so_that_the_next_one_gets_it() {
    let mut talk = Talk::new();
    talk.sentence("whole");
    talk.say("half of");
    let effects = talk.now(Event::Drain);
    assert!(cut(&effects).is_none(), "a sentence is not cut in two");
    assert!(effects.contains(&Effect::Backpressure { reason: DropReason::Draining }));
    let left = |effect: &Effect| {
        matches!(effect, Effect::AudioDropped { first_seq: 1, reason: DropReason::Draining, .. })
    };
    assert!(effects.iter().any(left));
    let refused = talk.say("another");
    assert!(matches!(
        refused[..],
        [Effect::AudioDropped { first_seq: 2, reason: DropReason::Draining, .. }]
    ));
    let end = talk.fail(key(0), MissingReason::Draining);
    assert!(end.contains(&Effect::AudioAck { seq: 0 }));
    assert_eq!(end.last(), Some(&Effect::Closed));
    assert_eq!(talk.session.saved().acked_seq, Some(0));
}

#[test]
fn a_drain_cuts_what_a_client_said_that_cannot_come_back() {
    let mut talk = Talk::with(Settings { resume_window: Duration::ZERO, ..Settings::default() });
    talk.say("said before");
    assert!(cut(&talk.now(Event::Drain)).is_some());
}

#[test]
fn another_instance_goes_on_where_the_first_one_died() {
    let mut talk = Talk::new();
    for text in ["a", "b", "c"] {
        let index = talk.sentence(text);
        talk.assign(key(index), 1);
    }
    talk.fail(key(0), MissingReason::SilenceDetected);
    talk.now(Event::NodeAccepted { key: key(1), attempt: 1 });
    let saved = talk.session.saved();
    assert_eq!((saved.next_index, saved.acked_seq), (3, Some(1)));

    let now = Moment::from_millis(talk.ms);
    let settings = Settings::default();
    let (session, effects) = Session::restore(settings, saved, 2, [1; 16], now).unwrap();
    let why = MissingReason::JobFailed;
    assert!(effects.contains(&Effect::CancelJob { key: key(2), why }));
    talk.session = session;
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(Some(0)) });
    assert_eq!(told(&effects), [], "what a node works on comes first");
    let effects = talk.answer(key(1), 1, "B");
    assert_eq!(told(&effects), [(key(1), result("B")), (key(2), missing(why))]);
    talk.seq = 2;
    let again = talk.chunk("c", 20, true);
    assert_eq!(cut(&again).unwrap().index, 3, "sent again, it is an utterance of its own");
    assert_eq!(cut(&again).unwrap().epoch, 2, "no key of the first life comes back");
}

/// The date of a deadline is that of the clock of the last owner, which may be ahead.
#[test]
fn after_a_new_owner_nothing_is_due_later_than_what_is_cut_then() {
    let mut talk = Talk::new();
    let index = talk.sentence("a");
    talk.assign(key(index), 1);
    talk.now(Event::NodeAccepted { key: key(index), attempt: 1 });
    let (mut saved, now) = (talk.session.saved(), Moment::from_millis(talk.ms));
    saved.open[0].deadline = saved.open[0].deadline + Duration::from_secs(20);
    let settings = Settings::default();
    let deadline = settings.result_deadline;
    let (session, _) = Session::restore(settings, saved, 2, [1; 16], now).unwrap();
    talk.session = session;
    talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(None) });
    let effects = talk.wait(deadline.as_millis() as u64);
    assert_eq!(told(&effects), [(key(index), missing(MissingReason::GapTimeout))]);
}

#[test]
fn a_new_owner_believes_the_client_about_endings_told_behind_what_was_saved() {
    let mut talk = Talk::new();
    let index = talk.sentence("acknowledged");
    talk.assign(key(index), 1);
    talk.now(Event::NodeAccepted { key: key(index), attempt: 1 });
    let (saved, now) = (talk.session.saved(), Moment::from_millis(talk.ms));
    let (session, _) = Session::restore(Settings::default(), saved, 9, [7; 16], now).unwrap();
    talk.session = session;
    // It has seen this one's ending, and that of one cut after the save.
    let effects = talk.now(Event::Resumed { epoch: 9, last_seen: LastSeen::all(Some(1)) });
    assert_eq!(told(&effects), []);
    assert_eq!((talk.session.next_index(), talk.session.open_utterances()), (2, 0));
    talk.now(Event::Resumed { epoch: 10, last_seen: LastSeen::all(Some(u64::MAX - 1)) });
    assert_eq!(talk.session.next_index(), 2, "nobody has seen so many");
}

#[test]
fn endings_kept_in_case_they_were_not_seen_are_bounded_in_bytes() {
    let mut talk = Talk::new();
    for text in ["one", "two", "three"] {
        let index = talk.sentence(text);
        talk.assign(key(index), 1);
        talk.answer(key(index), 1, text);
    }
    talk.session.forget_endings_beyond(8, |text| text.len());
    talk.now(Event::Disconnected { epoch: 1 });
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::all(None) });
    assert_eq!(told(&effects), [(key(1), result("two")), (key(2), result("three"))]);
    let Effect::Resumed { forgotten, .. } = &effects[0] else { panic!("{effects:?}") };
    assert_eq!((forgotten[0].first, forgotten[0].last, forgotten.len()), (0, 0, 1));
}
