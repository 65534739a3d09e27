//! Where speech is cut, and what is taken of it.

use super::*;

#[test]
fn finals_during_dispatch_are_never_dropped() {
    let mut talk = Talk::new();
    let cuts: Vec<String> = ["one", "two", "three"]
        .into_iter()
        .map(|text| words(cut(&talk.chunk(text, 500, true)).unwrap()))
        .collect();
    assert_eq!(cuts, ["one", "two", "three"], "nothing was heard of any dispatch meanwhile");
    assert_eq!(talk.session.next_index(), 3);
}

#[test]
fn an_index_is_used_up_even_if_its_dispatch_fails() {
    let mut talk = Talk::new();
    assert_eq!(talk.sentence("lost"), 0);
    let failed = talk.fail(key(0), MissingReason::DependencyDown);
    assert_eq!(told(&failed), [(key(0), missing(MissingReason::DependencyDown))]);
    assert_eq!(talk.sentence("next"), 1);
}

#[test]
fn a_trigger_that_meets_an_empty_buffer_uses_no_index() {
    let mut talk = Talk::new();
    assert_eq!(talk.chunk("", 0, true), [Effect::AudioAck { seq: 0 }]);
    assert_eq!(talk.now(Event::Finalize), [Effect::Finalized { index: None }]);
    assert!(cut(&talk.wait(10_000)).is_none());
    assert_eq!(talk.sentence("first"), 0);
    assert_eq!(talk.now(Event::Finalize), [Effect::Finalized { index: None }]);
}

#[test]
fn finalize_is_answered_with_the_index_it_made() {
    let mut talk = Talk::new();
    talk.say("hello");
    let effects = talk.now(Event::Finalize);
    assert_eq!(cut(&effects).unwrap().cut_reason().padding_ms(), 280);
    assert!(effects.contains(&Effect::Finalized { index: Some(0) }));
}

#[test]
fn continuous_speech_is_cut_at_its_limit_and_the_turn_goes_on() {
    let mut talk = Talk::new();
    let mut cuts = Vec::new();
    for _ in 0..1_100 {
        talk.ms += 20;
        cuts.extend(cut(&talk.say("x")).cloned());
    }
    let parts: Vec<_> = cuts.iter().map(|u| (u.index, u.part_index, u.cut_reason())).collect();
    assert_eq!(parts, [(0, 0, CutReason::MaxDuration), (1, 1, CutReason::MaxDuration)]);
    let last = talk.chunk("end", 20, true);
    let last = cut(&last).unwrap();
    assert_eq!(
        (last.part_index, last.cut_reason(), last.cut_reason().padding_ms()),
        (2, CutReason::Manual, 280)
    );
    assert!(cuts.iter().all(|u| u.turn == last.turn && u.cut_reason().padding_ms() == 0));
    let next = talk.chunk("new", 20, true);
    assert_ne!(cut(&next).unwrap().turn, last.turn, "a final ends the turn");
}

#[test]
fn ten_minutes_of_speech_set_a_timer_a_few_times_and_not_for_each_piece() {
    let mut talk = Talk::new();
    let (mut set, mut pending) = (0, None);
    for _ in 0..10 * 60 * 50 {
        talk.ms += 20;
        let mut effects = talk.say("x");
        if let Some((generation, _)) = pending.filter(|(_, at)| *at <= Moment::from_millis(talk.ms))
        {
            effects.extend(talk.now(Event::TimerFired { timer: Timer::Pause, generation }));
        }
        if let Some(utterance) = cut(&effects) {
            talk.fail(key(utterance.index), MissingReason::JobFailed);
        }
        let pauses = timers(&effects, Timer::Pause);
        set += pauses.len();
        pending = pauses.last().copied().or(pending);
    }
    let seconds = talk.ms as usize / 1_000;
    assert!(set <= seconds / 2, "{set} in {seconds} s");
}

#[test]
fn a_pause_ends_an_utterance_three_seconds_after_the_last_piece() {
    let mut talk = Talk::new();
    let first = timers(&talk.say("he"), Timer::Pause);
    assert_eq!(first, [(1, Moment::from_millis(3_000))]);
    talk.ms = 2_000;
    assert_eq!(talk.say("llo"), []);
    let early = talk.after(1_000, Event::TimerFired { timer: Timer::Pause, generation: 1 });
    assert_eq!(timers(&early, Timer::Pause), [(2, Moment::from_millis(5_000))]);
    let stale = talk.after(1_999, Event::TimerFired { timer: Timer::Pause, generation: 1 });
    assert_eq!(stale, []);
    let due = talk.after(1, Event::TimerFired { timer: Timer::Pause, generation: 2 });
    let utterance = cut(&due).unwrap();
    assert_eq!((words(utterance).as_str(), utterance.cut_reason().padding_ms()), ("hello", 220));
    assert_eq!(utterance.cut_reason(), CutReason::Pause);
}

#[test]
fn a_late_pause_timer_does_not_join_two_sentences() {
    let mut talk = Talk::new();
    talk.say("first");
    talk.ms = 4_000;
    assert_eq!(words(cut(&talk.say("second")).unwrap()), "first");
    assert_eq!(words(cut(&talk.now(Event::Finalize)).unwrap()), "second");
}

#[test]
fn the_loudspeaker_of_the_client_does_not_cut_a_turn() {
    let mut talk = Talk::new();
    talk.say("first half");
    talk.after(1_000, Event::TtsStarted);
    assert!(cut(&talk.wait(9_000)).is_none());
    talk.now(Event::TtsPlayEnded);
    assert!(cut(&talk.wait(2_999)).is_none());
    assert_eq!(cut(&talk.wait(1)).unwrap().cut_reason(), CutReason::Pause);

    talk.say("and one that never says that it ended");
    talk.now(Event::TtsStarted);
    assert!(cut(&talk.wait(32_999)).is_none());
    assert!(cut(&talk.wait(1)).is_some());
}

#[test]
fn a_piece_that_does_not_fit_begins_the_next_part() {
    let small = Settings { max_utterance_bytes: 8, max_held_bytes: 100, ..Settings::default() };
    let mut talk = Talk::with(small);
    talk.say("hello");
    let effects = talk.say(" world");
    let first = cut(&effects).unwrap().clone();
    assert_eq!((words(&first).as_str(), first.cut_reason()), ("hello", CutReason::MaxBytes));
    let too_large = talk.say("nine byte");
    let (first_seq, last_seq, bytes) = (2, 2, 9);
    let reason = DropReason::TooLarge;
    assert!(too_large.contains(&Effect::AudioDropped { first_seq, last_seq, bytes, reason }));
    let second = talk.now(Event::Finalize);
    let second = cut(&second).unwrap();
    assert_eq!((words(second).as_str(), second.part_index), (" world", 1));
    assert_eq!(second.turn, first.turn);
}

#[test]
fn speech_without_end_and_without_answers_stays_bounded_and_says_so() {
    let settings = Settings {
        max_held_bytes: 100,
        max_utterance_bytes: 40,
        max_open_jobs: 2,
        ..Settings::default()
    };
    let mut talk = Talk::with(settings);
    talk.sentence("0123456789");
    talk.sentence("0123456789");
    let full = talk.say("0123456789");
    let reason = DropReason::OpenJobs;
    let dropped = Effect::AudioDropped { first_seq: 2, last_seq: 2, bytes: 10, reason };
    assert_eq!(full[..], [dropped, Effect::Backpressure { reason }]);
    assert_eq!(talk.say("x").len(), 1, "the client is asked once to hold on");
    talk.fail(key(0), MissingReason::JobFailed);
    talk.say("0123456789");
    assert_eq!(talk.session.held_bytes(), 20);

    let settings = Settings { max_held_bytes: 25, max_utterance_bytes: 20, ..Settings::default() };
    let mut talk = Talk::with(settings);
    talk.sentence("0123456789");
    talk.sentence("0123456789");
    let full = talk.say("0123456789");
    assert!(full.contains(&Effect::Backpressure { reason: DropReason::HeldBytes }));
}

#[test]
fn audio_sent_again_is_joined_without_doubling_and_gaps_are_named() {
    let mut talk = Talk::new();
    talk.say("a");
    talk.say("b");
    talk.seq = 0;
    assert_eq!(talk.say("a"), []);
    assert_eq!(talk.say("b"), []);
    talk.seq = 5;
    assert_eq!(talk.say("c"), [Effect::AudioGap { from: 2, to: 4 }]);
    let utterance = talk.now(Event::Finalize);
    assert_eq!(words(cut(&utterance).unwrap()), "abc");
    assert_eq!(cut(&utterance).unwrap().speech.seqs(), Some((0, 5)));
}

#[test]
fn clients_that_number_each_utterance_anew_are_not_taken_for_repeating_themselves() {
    let mut talk = Talk::with(Settings { trust_seq: false, ..Settings::default() });
    for text in ["one", "two"] {
        talk.seq = 0;
        assert_eq!(words(cut(&talk.chunk(text, 20, true)).unwrap()), text);
    }
}

#[test]
fn a_change_of_languages_does_not_reach_back_to_what_was_said() {
    let mut talk = Talk::new();
    talk.say("hello");
    let effects = talk.now(Event::SetLanguages(Routes::one(route("zh", "en"))));
    let before = cut(&effects).unwrap();
    assert_eq!(before.cut_reason(), CutReason::LanguageChange);
    assert_eq!(before.routes, Routes::one(route("en", "zh")));
    let effects = talk.chunk("ni hao", 20, true);
    assert_eq!(cut(&effects).unwrap().routes, Routes::one(route("zh", "en")));
}

#[test]
fn a_repeated_whole_utterance_is_the_same_job_and_never_a_second_one() {
    let mut talk = Talk::new();
    let whole = |client_index| Event::WholeUtterance {
        client_index: Some(client_index),
        routes: Routes::one(route("zh", "en")),
        audio: Bytes::from_static(b"speech"),
        duration: Duration::from_secs(1),
        manual_cut: true,
    };
    talk.sentence("streamed");
    let made = talk.now(whole(7));
    let made = cut(&made).unwrap();
    assert_eq!((made.index, made.client_index), (1, Some(7)));
    assert_eq!(talk.now(whole(7)), [Effect::RepeatedUtterance { client_index: 7, index: 1 }]);
    talk.fail(key(0), MissingReason::JobFailed);
    talk.fail(key(1), MissingReason::JobFailed);
    assert_eq!(talk.now(whole(7)), [Effect::RepeatedUtterance { client_index: 7, index: 1 }]);
    let reason = DropReason::IndexNotRising;
    assert_eq!(talk.now(whole(6)), [Effect::UtteranceRefused { client_index: Some(6), reason }]);
    assert_eq!(cut(&talk.now(whole(8))).unwrap().index, 2);
}

#[test]
fn a_whole_utterance_without_a_number_is_numbered_like_speech() {
    let mut talk = Talk::new();
    talk.chunk("half a sen", 20, false);
    let whole = Event::WholeUtterance {
        client_index: None,
        routes: Routes::one(route("en", "zh")),
        audio: Bytes::from_static(b"typed"),
        duration: Duration::ZERO,
        manual_cut: true,
    };
    let effects = talk.now(whole.clone());
    assert_eq!(effects[1..2], [Effect::Finalized { index: Some(0) }]);
    assert_eq!(cut(&talk.chunk("tence", 20, true)).unwrap().index, 1, "what is said goes on");
    assert_eq!(cut(&talk.now(whole)).unwrap().index, 2, "it may say the same again");
}
