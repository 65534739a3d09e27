//! Several targets at once: each has its own order and endings.

use super::*;

fn into(targets: &[&str]) -> Routes {
    Routes::new(targets.iter().map(|target| route("en", target))).unwrap()
}

/// A session from English into these languages.
fn talk(targets: &[&str]) -> Talk {
    Talk::into_languages(Settings::default(), into(targets))
}

impl Talk {
    /// A sentence that nodes take in every target.
    fn taken_sentence(&mut self, text: &'static str, lanes: u8) -> u64 {
        let index = self.sentence(text);
        for at in 0..lanes {
            self.assign(lane(index, at), 1);
            self.now(Event::NodeAccepted { key: lane(index, at), attempt: 1 });
        }
        index
    }
}

fn seen(targets: &[(&str, u64)]) -> LastSeen {
    let target = |(tag, index): &(&str, u64)| (Lang::new(tag).unwrap(), *index);
    LastSeen { all: None, targets: targets.iter().map(target).collect() }
}

#[test]
fn each_target_ends_by_itself_and_names_its_direction() {
    let mut talk = talk(&["zh", "de", "fr"]);
    talk.taken_sentence("hello", 3);
    let effects = talk.fail(lane(0, 1), MissingReason::NoCapableNode);
    assert_eq!(told(&effects), [(lane(0, 1), missing(MissingReason::NoCapableNode))]);
    let effects = talk.answer(lane(0, 2), 1, "bonjour");
    let [Effect::Deliver(delivery)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(delivery.route, Some(route("en", "fr")));
    assert_eq!(delivery.audio_ack, None, "one target is still open");
    let effects = talk.answer(lane(0, 0), 1, "ni hao");
    let Effect::Deliver(delivery) = effects.last().unwrap() else { panic!("{effects:?}") };
    assert_eq!((delivery.route, delivery.audio_ack), (Some(route("en", "zh")), Some(0)));
    assert_eq!(talk.session.open_utterances(), 0);
}

#[test]
fn the_ending_that_completes_everything_up_to_a_piece_acknowledges_it() {
    let mut talk = talk(&["zh", "de"]);
    talk.taken_sentence("first", 2);
    talk.now(Event::SetLanguages(into(&["fr"])));
    talk.taken_sentence("second", 1);
    let acks = |effects: &[Effect]| -> Vec<Option<u32>> {
        let delivered = effects.iter().filter_map(|effect| match effect {
            Effect::Deliver(delivery) => Some(delivery.audio_ack),
            _ => None,
        });
        delivered.collect()
    };
    assert_eq!(acks(&talk.answer(lane(1, 0), 1, "deux")), [None], "the first is not complete");
    assert_eq!(acks(&talk.answer(lane(0, 0), 1, "yi")), [None]);
    assert_eq!(acks(&talk.answer(lane(0, 1), 1, "eins")), [Some(1)], "both are, with this one");
}

#[test]
fn order_follows_the_target_wherever_it_stands_in_the_list() {
    let mut talk = talk(&["zh", "de"]);
    talk.taken_sentence("first", 2);
    talk.now(Event::SetLanguages(into(&["de", "fr"])));
    talk.taken_sentence("second", 2);
    assert_eq!(told(&talk.answer(lane(1, 0), 1, "zwei")), [], "de of the first is not there yet");
    assert_eq!(told(&talk.answer(lane(1, 1), 1, "deux")), [(lane(1, 1), result("deux"))]);
    let both = talk.answer(lane(0, 1), 1, "eins");
    assert_eq!(told(&both), [(lane(0, 1), result("eins")), (lane(1, 0), result("zwei"))]);
    assert_eq!(told(&talk.answer(lane(0, 0), 1, "yi")), [(lane(0, 0), result("yi"))]);
}

#[test]
fn a_two_way_utterance_is_in_order_with_both_of_its_languages() {
    let both = Route::Either(Lang::new("en").unwrap(), Lang::new("zh").unwrap());
    let mut talk = Talk::into_languages(Settings::default(), Routes::one(both));
    talk.taken_sentence("either", 1);
    talk.now(Event::SetLanguages(into(&["zh", "de"])));
    talk.taken_sentence("several", 2);
    assert_eq!(told(&talk.answer(lane(1, 0), 1, "B")), [], "the first may be in zh too");
    assert_eq!(told(&talk.answer(lane(1, 1), 1, "C")).len(), 1);
    assert_eq!(told(&talk.answer(lane(0, 0), 1, "A")).len(), 2);
}

#[test]
fn no_ending_leaves_before_its_speech_is_safe_in_every_target() {
    let mut talk = talk(&["zh", "de"]);
    talk.sentence("hello");
    talk.assign(lane(0, 0), 1);
    assert_eq!(told(&talk.answer(lane(0, 0), 1, "ni hao")), [], "no node has it for de");
    talk.assign(lane(0, 1), 1);
    let effects = talk.now(Event::NodeAccepted { key: lane(0, 1), attempt: 1 });
    assert_eq!(told(&effects), [(lane(0, 0), result("ni hao"))]);
    assert!(effects.contains(&Effect::AudioAck { seq: 0 }));
    // A client that cannot come back sends nothing again, so nothing has to wait.
    let settings = Settings { resume_window: Duration::ZERO, ..Settings::default() };
    let mut talk = Talk::into_languages(settings, into(&["zh", "de"]));
    talk.sentence("hello");
    talk.assign(lane(0, 0), 1);
    assert_eq!(told(&talk.answer(lane(0, 0), 1, "ni hao")).len(), 1);
}

#[test]
fn a_cancel_and_a_deadline_end_every_target() {
    let mut talk = talk(&["zh", "de", "fr"]);
    talk.taken_sentence("a", 3);
    talk.taken_sentence("b", 3);
    talk.answer(lane(0, 0), 1, "A");
    let effects = talk.now(Event::Cancel { index: 0 });
    let cancelled = missing(MissingReason::Cancelled);
    assert_eq!(told(&effects), [(lane(0, 1), cancelled.clone()), (lane(0, 2), cancelled)]);
    let effects = talk.wait(75_000);
    let late = || missing(MissingReason::GapTimeout);
    assert_eq!(told(&effects), [0, 1, 2].map(|at| (lane(1, at), late())));
}

#[test]
fn each_target_counts_as_a_job() {
    let settings = Settings { max_open_jobs: 5, ..Settings::default() };
    let mut talk = Talk::into_languages(settings.clone(), into(&["zh", "de"]));
    talk.sentence("a");
    talk.sentence("b");
    let reason = DropReason::OpenJobs;
    assert!(talk.say("c").contains(&Effect::Backpressure { reason }), "six would be open");
    talk.fail(lane(0, 0), MissingReason::JobFailed);
    talk.fail(lane(0, 1), MissingReason::JobFailed);
    talk.sentence("c");
    // One utterance is always taken, however many targets it has.
    let settings = Settings { max_open_jobs: 1, ..settings };
    let mut talk = Talk::into_languages(settings, into(&["zh", "de"]));
    assert_eq!(talk.sentence("a"), 0);
    assert!(talk.say("b").contains(&Effect::Backpressure { reason }));
}

#[test]
fn a_client_that_comes_back_hears_what_it_missed_of_each_target() {
    let mut talk = talk(&["zh", "de"]);
    for text in ["a", "b", "c"] {
        let index = talk.taken_sentence(text, 2);
        talk.answer(lane(index, 0), 1, text);
    }
    talk.answer(lane(0, 1), 1, "A");
    talk.now(Event::Disconnected { epoch: 1 });
    talk.answer(lane(1, 1), 1, "B");
    let last_seen = seen(&[("zh", 1), ("de", 0)]);
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen });
    assert_eq!(told(&effects), [(lane(2, 0), result("c")), (lane(1, 1), result("B"))]);
    // One index for all targets says that everything up to it was seen.
    let effects = talk.now(Event::Disconnected { epoch: 2 });
    assert_eq!(told(&effects), []);
    let last_seen = LastSeen::all(Some(1));
    let effects = talk.now(Event::Resumed { epoch: 3, last_seen });
    assert_eq!(told(&effects), [(lane(2, 0), result("c"))]);
}

#[test]
fn endings_of_one_target_that_are_no_longer_kept_are_named_with_it() {
    let settings = Settings { max_kept_endings: 1, ..Settings::default() };
    let mut talk = Talk::into_languages(settings, into(&["zh", "de"]));
    for text in ["a", "b", "c"] {
        let index = talk.taken_sentence(text, 2);
        talk.answer(lane(index, 0), 1, text);
        talk.answer(lane(index, 1), 1, text);
    }
    let last_seen = seen(&[("zh", 2), ("de", 0)]);
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen });
    let Effect::Resumed { forgotten, .. } = &effects[0] else { panic!("{effects:?}") };
    assert_eq!(forgotten[..], [Span { route: Some(route("en", "de")), first: 1, last: 1 }]);
    assert_eq!(told(&effects), [(lane(2, 1), result("c"))]);
}

#[test]
fn another_instance_continues_each_target_where_it_was() {
    let mut talk = talk(&["zh", "de"]);
    talk.taken_sentence("a", 2);
    talk.taken_sentence("b", 2);
    talk.answer(lane(0, 0), 1, "A");
    let (saved, now) = (talk.session.saved(), Moment::from_millis(talk.ms));
    let settings = Settings::default();
    let (session, effects) = Session::restore(settings, saved, 2, [1; 16], now).unwrap();
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::CancelJob { .. })));
    talk.session = session;
    // The ending of zh was on its way when the instance died, and did not arrive.
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen: LastSeen::default() });
    let Effect::Resumed { forgotten, .. } = &effects[0] else { panic!("{effects:?}") };
    assert_eq!(forgotten[..], [Span { route: Some(route("en", "zh")), first: 0, last: 0 }]);
    assert_eq!(told(&talk.answer(lane(1, 0), 1, "B")), [(lane(1, 0), result("B"))]);
    assert_eq!(told(&talk.answer(lane(1, 1), 1, "B")), [], "de of the first comes before it");
    assert_eq!(told(&talk.answer(lane(0, 1), 1, "A")).len(), 2);
}

/// A session of two targets whose first sentence alone was saved, on its next owner.
fn saved_first(talk: &mut Talk) {
    talk.taken_sentence("saved", 2);
    let (saved, now) = (talk.session.saved(), Moment::from_millis(talk.ms));
    let (session, _) = Session::restore(Settings::default(), saved, 2, [1; 16], now).unwrap();
    talk.session = session;
}

#[test]
fn endings_seen_of_one_target_after_the_last_save_use_up_their_index() {
    let mut talk = talk(&["zh", "de"]);
    saved_first(&mut talk);
    let last_seen = seen(&[("zh", 1), ("de", 0)]);
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen });
    let resumed = |effect: &Effect| matches!(effect, Effect::Resumed { next_index: 2, .. });
    assert!(effects.iter().any(resumed), "{effects:?}");
    // What became of de in the second sentence nobody knows.
    assert_eq!(told(&effects), [(lane(1, 1), missing(MissingReason::JobFailed))]);
    assert_eq!(talk.session.open_utterances(), 0);
}

#[test]
fn what_was_not_saved_is_missing_behind_what_is_open_in_the_same_target() {
    let mut talk = talk(&["zh", "de"]);
    saved_first(&mut talk);
    let last_seen = seen(&[("zh", 1)]);
    let effects = talk.now(Event::Resumed { epoch: 2, last_seen });
    assert_eq!(told(&effects), [], "de of the first comes before it");
    let behind = (lane(1, 1), missing(MissingReason::JobFailed));
    assert_eq!(told(&talk.answer(lane(0, 1), 1, "A")), [(lane(0, 1), result("A")), behind]);
}
