//! One test for each way in which the design papers lost, doubled or mixed up a sentence, and for
//! each rule of a session that a reader may want to see at work.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::Route;
use lingua_core::session::*;
use lingua_core::{Lang, Moment};

type Event = lingua_core::session::Event<&'static str>;
type Effect = lingua_core::session::Effect<&'static str>;

fn route(src: &str, tgt: &str) -> Route {
    Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap())
}

fn key(index: u64) -> ResultKey {
    ResultKey { index, lane: Lane(0) }
}

fn lane(index: u64, lane: u8) -> ResultKey {
    ResultKey { index, lane: Lane(lane) }
}

/// A session with a clock, and short ways to say what happens.
struct Talk {
    session: Session<&'static str>,
    ms: u64,
    seq: u32,
}

impl Talk {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        Self::into_languages(settings, Routes::one(route("en", "zh")))
    }

    fn into_languages(settings: Settings, routes: Routes) -> Self {
        let session = Session::new(settings, 1, routes, [1; 16], Moment::ZERO).unwrap();
        Talk { session, ms: 0, seq: 0 }
    }

    fn after(&mut self, ms: u64, event: Event) -> Vec<Effect> {
        self.ms += ms;
        self.session.on_event(Moment::from_millis(self.ms), event)
    }

    fn now(&mut self, event: Event) -> Vec<Effect> {
        self.after(0, event)
    }

    /// A piece of 20 ms.
    fn say(&mut self, text: &'static str) -> Vec<Effect> {
        self.chunk(text, 20, false)
    }

    fn chunk(&mut self, text: &'static str, ms: u64, is_final: bool) -> Vec<Effect> {
        let (seq, bytes) = (self.seq, Bytes::from_static(text.as_bytes()));
        self.seq += 1;
        self.now(Event::Audio { seq, bytes, duration: Duration::from_millis(ms), is_final })
    }

    /// A whole sentence; its index.
    fn sentence(&mut self, text: &'static str) -> u64 {
        cut(&self.chunk(text, 500, true)).expect("an utterance").index
    }

    fn assign(&mut self, key: ResultKey, attempt: u32) -> Vec<Effect> {
        self.now(Event::Assigned { key, attempt, hedge: false })
    }

    fn answer(&mut self, key: ResultKey, attempt: u32, text: &'static str) -> Vec<Effect> {
        let ending = Ending::Result(text);
        self.now(Event::Ended { key, attempt: Some(attempt), ending })
    }

    fn fail(&mut self, key: ResultKey, why: MissingReason) -> Vec<Effect> {
        self.now(Event::Ended { key, attempt: None, ending: Ending::Missing(why) })
    }

    /// Some event that means nothing, `ms` later: time alone does its work.
    fn wait(&mut self, ms: u64) -> Vec<Effect> {
        self.after(ms, Event::TimerFired { timer: Timer::Pause, generation: 0 })
    }
}

fn cut(effects: &[Effect]) -> Option<&Arc<Utterance>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Dispatch(utterance) => Some(utterance),
        _ => None,
    })
}

fn words(utterance: &Utterance) -> String {
    String::from_utf8(utterance.audio.to_vec()).unwrap()
}

fn told(effects: &[Effect]) -> Vec<(ResultKey, Ending<&'static str>)> {
    let told = |effect: &Effect| match effect {
        Effect::Deliver(delivery) => Some((delivery.key, delivery.ending.clone())),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

fn timers(effects: &[Effect], which: Timer) -> Vec<(u64, Moment)> {
    let set = |effect: &Effect| match effect {
        Effect::SetTimer { timer, generation, at } if *timer == which => Some((*generation, *at)),
        _ => None,
    };
    effects.iter().filter_map(set).collect()
}

fn result(text: &'static str) -> Ending<&'static str> {
    Ending::Result(text)
}

fn missing(why: MissingReason) -> Ending<&'static str> {
    Ending::Missing(why)
}

// Cutting.

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
    assert_eq!(cut(&effects).unwrap().padding_ms(), 280);
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
    let parts: Vec<_> = cuts.iter().map(|u| (u.index, u.part_index, u.reason)).collect();
    assert_eq!(parts, [(0, 0, CutReason::MaxDuration), (1, 1, CutReason::MaxDuration)]);
    let last = talk.chunk("end", 20, true);
    let last = cut(&last).unwrap();
    assert_eq!((last.part_index, last.reason, last.padding_ms()), (2, CutReason::Manual, 280));
    assert!(cuts.iter().all(|u| u.turn == last.turn && u.padding_ms() == 0));
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
    assert_eq!((words(utterance).as_str(), utterance.padding_ms()), ("hello", 220));
    assert_eq!(utterance.reason, CutReason::Pause);
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
    assert_eq!(cut(&talk.wait(1)).unwrap().reason, CutReason::Pause);

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
    assert_eq!((words(&first).as_str(), first.reason), ("hello", CutReason::MaxBytes));
    let too_large = talk.say("nine byte");
    let (first_seq, last_seq, bytes) = (2, 2, 9);
    let reason = Refusal::TooLarge;
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
        max_open_utterances: 2,
        ..Settings::default()
    };
    let mut talk = Talk::with(settings);
    talk.sentence("0123456789");
    talk.sentence("0123456789");
    let full = talk.say("0123456789");
    let reason = Refusal::OpenUtterances;
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
    assert!(full.contains(&Effect::Backpressure { reason: Refusal::HeldBytes }));
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
    assert_eq!(cut(&utterance).unwrap().seqs, Some((0, 5)));
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
    assert_eq!(before.reason, CutReason::LanguageChange);
    assert_eq!(before.routes, Routes::one(route("en", "zh")));
    let effects = talk.chunk("ni hao", 20, true);
    assert_eq!(cut(&effects).unwrap().routes, Routes::one(route("zh", "en")));
}

#[test]
fn a_repeated_whole_utterance_is_the_same_job_and_never_a_second_one() {
    let mut talk = Talk::new();
    let whole = |client_index| Event::WholeUtterance {
        client_index,
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
    let reason = Refusal::IndexNotRising;
    assert_eq!(talk.now(whole(6)), [Effect::UtteranceRefused { client_index: 6, reason }]);
    assert_eq!(cut(&talk.now(whole(8))).unwrap().index, 2);
}

// Endings.

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

// Coming and going.

#[test]
fn a_client_that_comes_back_hears_what_it_missed_in_order_and_once() {
    let mut talk = Talk::new();
    for text in ["a", "b", "c"] {
        let index = talk.sentence(text);
        talk.assign(key(index), 1);
    }
    talk.answer(key(0), 1, "A");
    talk.answer(key(1), 1, "B");
    talk.now(Event::Disconnected { epoch: 1 });
    assert_eq!(told(&talk.answer(key(2), 1, "C")), [], "nobody is there");
    let effects = talk.after(59_999, Event::Resumed { epoch: 2, last_seen: Some(0) });
    assert_eq!(told(&effects), [(key(1), result("B")), (key(2), result("C"))]);
    let resumed = Effect::Resumed { next_index: 3, audio_ack: Some(2), forgotten: None };
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
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: Some(0) });
    let resumed = Effect::Resumed { next_index: 3, audio_ack: Some(2), forgotten: Some((1, 1)) };
    assert_eq!(effects[0], resumed);
    assert_eq!(told(&effects), [(key(2), missing(MissingReason::JobFailed))]);
}

#[test]
fn a_sentence_that_the_network_interrupted_goes_on_after_the_resume() {
    let mut talk = Talk::new();
    talk.say("first half, ");
    talk.now(Event::Disconnected { epoch: 1 });
    assert!(cut(&talk.wait(30_000)).is_none());
    talk.now(Event::Resumed { epoch: 2, last_seen: None });
    let effects = talk.chunk("second half", 20, true);
    assert_eq!(words(cut(&effects).unwrap()), "first half, second half");
    assert_eq!(cut(&effects).unwrap().epoch, 2);
}

#[test]
fn a_client_that_vanishes_leaves_its_finals_to_end_and_its_half_sentence_to_an_explicit_drop() {
    let mut talk = Talk::new();
    talk.sentence("asked for");
    talk.say("half");
    talk.now(Event::Disconnected { epoch: 1 });
    let reason = Refusal::Abandoned;
    let dropped = Effect::AudioDropped { first_seq: 1, last_seq: 1, bytes: 4, reason };
    assert!(talk.wait(60_000).contains(&dropped));
    assert!(!talk.session.is_closed(), "the job goes on");
    talk.assign(key(0), 1);
    assert_eq!(talk.answer(key(0), 1, "unheard").last(), Some(&Effect::Closed));
    let back = talk.now(Event::Resumed { epoch: 2, last_seen: None });
    assert_eq!(back, [Effect::Ignored(Ignored::Closed)]);
}

#[test]
fn closing_finishes_what_was_said_and_takes_nothing_more() {
    let mut talk = Talk::new();
    talk.say("last words");
    let effects = talk.now(Event::Close { finish_pending: true });
    assert_eq!(cut(&effects).unwrap().reason, CutReason::Close);
    let reason = Refusal::Closed;
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
    assert!(effects.contains(&Effect::Backpressure { reason: Refusal::Draining }));
    let left = |effect: &Effect| {
        matches!(effect, Effect::AudioDropped { first_seq: 1, reason: Refusal::Draining, .. })
    };
    assert!(effects.iter().any(left));
    let refused = talk.say("another");
    assert!(matches!(
        refused[..],
        [Effect::AudioDropped { first_seq: 2, reason: Refusal::Draining, .. }]
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
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: Some(0) });
    assert_eq!(told(&effects), [], "what a node works on comes first");
    let effects = talk.answer(key(1), 1, "B");
    assert_eq!(told(&effects), [(key(1), result("B")), (key(2), missing(why))]);
    talk.seq = 2;
    let again = talk.chunk("c", 20, true);
    assert_eq!(cut(&again).unwrap().index, 3, "sent again, it is an utterance of its own");
    assert_eq!(cut(&again).unwrap().epoch, 2, "no key of the first life comes back");
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
    let effects = talk.now(Event::Resumed { epoch: 9, last_seen: Some(1) });
    assert_eq!(told(&effects), []);
    assert_eq!((talk.session.next_index(), talk.session.open_utterances()), (2, 0));
    talk.now(Event::Resumed { epoch: 10, last_seen: Some(u64::MAX - 1) });
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
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: None });
    assert_eq!(told(&effects), [(key(1), result("two")), (key(2), result("three"))]);
    assert!(matches!(effects[0], Effect::Resumed { forgotten: Some((0, 0)), .. }));
}
