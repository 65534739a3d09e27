use std::time::Duration;

use super::super::report::Kind;
use super::*;
use crate::speech::Digest;

fn mark(sentence: u32) -> Mark {
    Mark { speaker: 1, sentence }
}

fn audio(sentence: u32) -> Vec<u8> {
    mark(sentence).to_bytes().repeat(2)
}

fn opened(recovered: Option<bool>) -> Event {
    Event::Opened { session_id: "s".into(), recovered }
}

fn said(sentence: u32) -> Event {
    let seqs = Some((sentence * 10, sentence * 10 + 9));
    let digest = Digest::of(&audio(sentence));
    Event::Said { mark: Some(mark(sentence)), digest, whole: None, seqs }
}

fn whole(sentence: u32, index: u64) -> Event {
    let digest = Digest::of(&audio(sentence));
    Event::Said { mark: Some(mark(sentence)), digest, whole: Some(index), seqs: None }
}

fn result_of(index: u64, audio: &[u8]) -> Event {
    let (mark, digest) = (Mark::find(audio), Digest::of(audio));
    let echo = Some(Echo { mark, digest, assigned_us: None, answered_us: None });
    Event::Result { index, target: None, echo }
}

fn result(index: u64, sentence: u32) -> Event {
    result_of(index, &audio(sentence))
}

fn missing(index: u64) -> Event {
    Event::Missing { index, target: None, reason: "job_failed".into() }
}

fn check(events: &[Event]) -> Report {
    let opened = opened(None);
    let all = std::iter::once(&opened).chain(events);
    Checker::check(all.enumerate().map(|(at, event)| (at as u64, event)))
}

/// Exactly these, each once.
fn finds(kinds: &[Kind], events: &[Event]) {
    let report = check(events);
    let mut found = BTreeMap::new();
    for kind in kinds {
        *found.entry(*kind).or_default() += 1;
    }
    assert_eq!(report.counts, found, "{report}");
}

#[test]
fn what_comes_back_once_whole_and_in_order_is_clean() {
    let report = check(&[said(0), result(0, 0), said(1), said(2), result(1, 1), result(2, 2)]);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.said, report.results, report.missing()), (3, 3, 0));
    assert_eq!(report.longest, Duration::from_micros(2));
}

#[test]
fn a_missing_result_explains_a_sentence_that_does_not_come_back() {
    finds(&[], &[said(0), said(1), said(2), result(0, 0), missing(1), result(2, 2)]);
    finds(&[], &[said(0), missing(0), said(1), missing(1)]);
}

#[test]
fn a_sentence_without_an_ending_is_lost() {
    finds(&[Kind::Lost], &[said(0)]);
    finds(&[Kind::Lost], &[said(0), said(1), result(0, 1)]);
    finds(&[Kind::Lost], &[said(0), said(1), missing(0)]);
    finds(
        &[Kind::Lost, Kind::Lost],
        &[said(0), said(1), said(2), missing(0), said(3), result(1, 3)],
    );
}

#[test]
fn a_number_without_an_ending_is_lost() {
    finds(&[Kind::Lost], &[said(0), result(1, 0)]);
}

#[test]
fn an_ending_that_comes_twice_is_doubled() {
    finds(&[Kind::Doubled], &[said(0), said(1), missing(0), missing(0), result(1, 1)]);
    finds(&[Kind::Doubled], &[said(0), result(0, 0), result(1, 0)]);
    finds(&[Kind::Doubled, Kind::Doubled], &[said(0), result(0, 0), result(0, 0)]);
}

#[test]
fn endings_out_of_order_are_seen_by_number_and_by_mark() {
    let events = [said(0), said(1), missing(1), missing(0)];
    finds(&[Kind::Disordered], &events);
    // Under the right numbers, with each other's audio.
    finds(&[Kind::Lost, Kind::Disordered], &[said(0), said(1), result(0, 1), result(1, 0)]);
}

#[test]
fn a_sentence_in_parts_is_split() {
    let (first, second) = (&audio(0)[..20], &audio(0)[20..]);
    finds(&[Kind::Split, Kind::Split], &[said(0), result_of(0, first), result_of(1, second)]);
    finds(&[Kind::Split], &[said(0), result_of(0, first)]);
}

#[test]
fn a_sentence_that_is_cut_while_it_is_being_said_is_split() {
    let begun = Event::Begun { mark: mark(0) };
    let (first, second) = (&audio(0)[..20], &audio(0)[20..]);
    let events = [begun, result_of(0, first), said(0), result_of(1, second)];
    finds(&[Kind::Split, Kind::Split], &events);
}

#[test]
fn audio_that_is_doubled_joined_or_changed_is_seen() {
    let twice = [audio(0), audio(0)].concat();
    finds(&[Kind::Doubled], &[said(0), result_of(0, &twice)]);
    let joined = [audio(0), audio(1)].concat();
    finds(&[Kind::Doubled, Kind::Lost], &[said(0), said(1), result_of(0, &joined)]);
    let mut other = audio(0);
    *other.last_mut().unwrap() ^= 1;
    finds(&[Kind::Garbled], &[said(0), result_of(0, &other)]);
}

#[test]
fn what_was_never_said_is_foreign() {
    finds(&[Kind::Foreign], &[said(0), result(0, 0), result(1, 7)]);
}

#[test]
fn nothing_may_follow_an_ending() {
    let partial = |index| Event::About { index, target: None, kind: "asr_partial".into() };
    finds(&[], &[said(0), partial(0), result(0, 0), partial(1), said(1), result(1, 1)]);
    finds(&[Kind::AfterEnding], &[said(0), result(0, 0), partial(0)]);
}

#[test]
fn a_resumed_session_goes_on_and_a_lost_one_is_named() {
    finds(&[], &[said(0), said(1), result(0, 0), opened(Some(true)), result(1, 1)]);
    // The audio was not safe: the old number failed, and it came again under another.
    finds(&[], &[said(0), opened(Some(true)), missing(0), result(1, 0)]);
    let another = Event::Opened { session_id: "another".into(), recovered: Some(false) };
    let lost = [said(0), said(1), result(0, 0), another, said(2), result(0, 2)];
    finds(&[Kind::Abandoned], &lost);
    assert_eq!(check(&lost).sessions, 2);
}

#[test]
fn whole_utterances_end_under_the_numbers_of_the_client() {
    finds(&[], &[whole(0, 5), whole(1, 9), result(5, 0), result(9, 1)]);
    finds(&[], &[whole(0, 5), said(1), whole(2, 9), result(5, 0), result(1, 1), result(9, 2)]);
    finds(&[Kind::Lost], &[whole(0, 5), whole(1, 9), result(5, 0)]);
    finds(&[Kind::Disordered, Kind::Lost], &[whole(0, 5), whole(1, 9), result(9, 1)]);
    finds(&[Kind::Doubled], &[whole(0, 5), missing(5), missing(5)]);
}

#[test]
fn audio_without_marks_is_followed_by_numbers_only() {
    let unmarked =
        || Event::Said { mark: None, digest: Digest::of(b"abc"), whole: None, seqs: None };
    finds(&[], &[unmarked(), result_of(0, b"a"), result_of(1, b"bc")]);
    finds(&[Kind::Lost], &[unmarked(), unmarked(), result_of(1, b"abc"), result_of(2, b"abc")]);
    let report = check(&[unmarked(), unmarked(), result_of(0, b"a")]);
    assert_eq!(report.count(Kind::Lost), 1, "{report}");
}

#[test]
fn what_the_scheduler_told_that_it_dropped_is_not_missed() {
    let dropped = |first, last, bytes| Event::Dropped { seqs: (first, last), bytes };
    // The beginning, before the sentence was said to its end: what is left has no mark.
    let rest = audio(1)[20..].to_vec();
    let events = [
        said(0),
        dropped(10, 14, 20),
        said(1),
        said(2),
        result(0, 0),
        result_of(1, &rest),
        result(2, 2),
    ];
    finds(&[], &events);
    assert_eq!(check(&events).dropped_bytes, 20);
    // The end of it, after.
    finds(&[], &[said(0), dropped(5, 9, 12), result_of(0, &audio(0)[..20])]);
    // All of it: no number was used up.
    finds(&[], &[said(0), dropped(0, 9, 32), said(1), result(0, 1)]);
    // More is missing than was told.
    finds(&[Kind::Split], &[said(0), dropped(5, 9, 2), result_of(0, &audio(0)[..20])]);
    finds(&[Kind::Lost], &[said(0), dropped(5, 9, 2)]);
}

#[test]
fn a_log_of_any_length_takes_bounded_memory() {
    let mut checker = Checker::default();
    for sentence in 0..10_000 {
        checker.note(0, &said(sentence));
        checker.note(1, &result(u64::from(sentence) * 1_000, sentence));
    }
    assert!(checker.only.remembers() <= follower::MAX_REMEMBERED);
    assert_eq!(checker.report().violations.len(), 50);
}

/// The same ending in this language.
fn into(target: &str, event: Event) -> Event {
    let target = Some(target.to_owned());
    match event {
        Event::Result { index, echo, .. } => Event::Result { index, target, echo },
        Event::Missing { index, reason, .. } => Event::Missing { index, target, reason },
        other => other,
    }
}

fn targets(tags: &[&str]) -> Event {
    Event::Targets { targets: tags.iter().map(|tag| (*tag).to_owned()).collect() }
}

#[test]
fn each_target_has_its_own_order_and_endings() {
    let (zh, de) = (|event| into("zh", event), |event| into("de", event));
    let both = || targets(&["zh", "de"]);
    let clean = [
        both(),
        said(0),
        said(1),
        zh(result(0, 0)),
        zh(result(1, 1)),
        de(missing(0)),
        de(result(1, 1)),
    ];
    let report = check(&clean);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.said, report.results, report.missing()), (2, 3, 1));
    finds(
        &[Kind::Doubled, Kind::Doubled, Kind::Lost],
        &[both(), said(0), zh(result(0, 0)), zh(result(0, 0))],
    );
    finds(&[Kind::Lost], &[both(), said(0), zh(result(0, 0))]);
}

#[test]
fn targets_change_in_mid_session_and_an_ending_without_one_is_for_all() {
    let (zh, de, fr) =
        (|event| into("zh", event), |event| into("de", event), |event| into("fr", event));
    finds(
        &[],
        &[
            targets(&["zh", "de"]),
            said(0),
            targets(&["de", "fr"]),
            said(1),
            de(result(0, 0)),
            fr(result(1, 1)),
            de(result(1, 1)),
            zh(result(0, 0)),
        ],
    );
    finds(&[], &[targets(&["zh", "de"]), said(0), zh(result(0, 0)), missing(0)]);
}
