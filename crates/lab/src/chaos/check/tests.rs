//! A checker that cannot find anything is worth nothing: for each promise a run that keeps it and one
//! that breaks it, written by hand.

use serde_json::{Value, json};

use super::*;
use crate::speech::{Digest, Mark};

const SECOND: u64 = 1_000_000;

/// The files of a small run: one node with two slots, one speaker, three schedulers.
struct Files {
    story: Vec<Value>,
    node: Vec<Value>,
    speaker: Vec<Value>,
}

fn line(at_s: f64, event: &str, fields: Value) -> Value {
    let mut line = json!({ "at_us": (at_s * 1e6) as u64, "event": event });
    line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    line
}

fn mark(sentence: u32) -> String {
    Mark { speaker: 0, sentence }.to_string()
}

fn digest(sentence: u32) -> Value {
    Digest::of(&sentence.to_le_bytes()).to_value()
}

fn via(scheduler: usize) -> String {
    format!("ws://127.0.0.1:{scheduler}/ws/session")
}

impl Files {
    /// Everybody is there and nothing has happened.
    fn new() -> Self {
        let mut files = Self { story: Vec::new(), node: Vec::new(), speaker: Vec::new() };
        files.story.push(line(0.0, "begin", json!({})));
        files.node.push(line(0.0, "begun", json!({})));
        files.node.push(line(0.1, "connected", json!({ "via": via(0) })));
        files.opened(0.2, 1, 0, None);
        files
    }

    fn opened(&mut self, at: f64, connection: u64, scheduler: usize, recovered: Option<bool>) {
        let session = if recovered == Some(false) { "t" } else { "s" };
        let opened = json!({ "session": session, "recovered": recovered });
        self.speaker.push(line(at, "opened", opened));
        let connected = json!({ "via": via(scheduler), "connection": connection,
                                "date_ms": (at * 1e3) as u64 });
        self.speaker.push(line(at, "connected", connected));
    }

    fn says(&mut self, at: f64, sentence: u32) {
        self.speaker.push(line(at, "begun", json!({ "mark": mark(sentence) })));
        let said = json!({ "mark": mark(sentence), "digest": digest(sentence), "seqs": [1, 2] });
        self.speaker.push(line(at + 0.1, "said", said));
    }

    /// The node gets, acks and answers a job of that sentence.
    fn works(&mut self, at: f64, sentence: u32, attempt: u64) {
        self.takes(at, &format!("j{sentence}"), attempt);
        self.answers(at, at + 0.2, sentence, attempt);
    }

    fn takes(&mut self, at: f64, job: &str, attempt: u64) {
        let job = json!({ "job": job, "attempt": attempt });
        self.node.push(line(at, "received", job.clone()));
        self.node.push(line(at, "acked", job));
    }

    fn answers(&mut self, assigned: f64, at: f64, sentence: u32, attempt: u64) {
        let job = json!({ "job": format!("j{sentence}"), "attempt": attempt });
        let mut told = job.clone();
        told["mark"] = mark(sentence).into();
        told["assigned_us"] = ((assigned * 1e6) as u64).into();
        self.node.push(line(at, "answered", told));
        self.node.push(line(at, "done", job));
    }

    fn hears(&mut self, at: f64, index: u64, sentence: u32, assigned: f64) {
        let mut echo = digest(sentence);
        echo["mark"] = mark(sentence).into();
        echo["assigned_us"] = ((assigned * 1e6) as u64).into();
        self.speaker.push(line(at, "result", json!({ "index": index, "echo": echo })));
    }

    fn misses(&mut self, at: f64, index: u64) {
        let missing = json!({ "index": index, "reason": "gap_timeout" });
        self.speaker.push(line(at, "missing", missing));
    }

    /// Said, worked on and heard.
    fn talks(&mut self, at: f64, sentence: u32) {
        self.says(at, sentence);
        self.works(at + 0.2, sentence, 1);
        self.hears(at + 0.5, u64::from(sentence), sentence, at + 0.2);
    }

    fn fault(&mut self, from: f64, to: f64, id: u64, fault: Value) {
        let planned = json!({ "id": id, "at_ms": 0, "lasts_ms": 0, "fault": fault });
        self.story.push(line(from, "fault", json!({ "id": id, "planned": planned })));
        self.story.push(line(to, "healed", json!({ "id": id })));
    }

    fn drain(&mut self, from: f64, to: f64, code: Option<i64>) {
        self.story.push(line(from, "drain", json!({ "scheduler": 1 })));
        self.story.push(line(to, "drained", json!({ "scheduler": 1, "code": code })));
    }

    fn verdict(mut self) -> Verdict {
        self.story.push(line(900.0, "ended", json!({ "all": true })));
        self.speaker.push(line(900.0, "finished", json!({})));
        let dir = tempfile::tempdir().unwrap();
        let manifest = json!({ "store": "standalone", "seed": 7, "nodes": 1, "speakers": 1,
                               "slots": 2, "ways": { "0": 0, "1": 1, "2": 2 } });
        std::fs::write(dir.path().join(crate::chaos::MANIFEST), manifest.to_string()).unwrap();
        let write = |path: &Path, lines: &[Value]| {
            let text: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(path, text.concat()).unwrap();
        };
        write(&dir.path().join(crate::chaos::STORY), &self.story);
        write(&node_file(dir.path(), 0), &self.node);
        write(&speaker_file(dir.path(), 0), &self.speaker);
        check(dir.path()).unwrap()
    }

    /// Breaks this promise so often, and no other.
    fn breaks(self, promise: Promise, times: u64) {
        let verdict = self.verdict();
        assert_eq!((verdict.count(promise), verdict.violations()), (times, times), "{verdict}");
    }

    fn clean(self) -> Verdict {
        let verdict = self.verdict();
        assert!(verdict.is_clean(), "{verdict}");
        verdict
    }
}

#[test]
fn a_run_that_keeps_everything_is_clean_and_counted() {
    let mut files = Files::new();
    files.talks(1.0, 0);
    files.says(2.0, 1);
    files.misses(3.0, 1);
    files.talks(4.0, 2);
    files.drain(5.0, 30.0, Some(0));
    let verdict = files.clean();
    assert_eq!((verdict.said, verdict.results, verdict.jobs), (3, 2, 2));
    assert_eq!(verdict.missing["gap_timeout"], 1);
    assert!(verdict.to_string().contains("no promise was broken"));
}

#[test]
fn a_third_job_on_two_slots_is_found_and_one_that_was_stopped_does_not_count() {
    let mut files = Files::new();
    files.takes(1.0, "a", 1);
    files.takes(1.1, "b", 1);
    files.node.push(line(1.2, "cancelled", json!({ "job": "a", "attempt": 1 })));
    files.takes(1.3, "c", 1);
    files.clean();

    let mut files = Files::new();
    ["a", "b", "c"].iter().for_each(|job| files.takes(1.0, job, 1));
    files.breaks(Promise::Capacity, 1);

    let mut files = Files::new();
    files.takes(1.0, "a", 1);
    files.takes(1.0, "b", 1);
    files.node.push(line(1.2, "breach", json!({ "job": "c", "attempt": 1 })));
    files.breaks(Promise::Capacity, 1);
}

#[test]
fn what_a_killed_node_had_no_longer_counts() {
    let mut files = Files::new();
    ["a", "b"].iter().for_each(|job| files.takes(1.0, job, 1));
    files.node.push(line(2.0, "begun", json!({})));
    ["c", "d"].iter().for_each(|job| files.takes(3.0, job, 1));
    files.clean();
}

#[test]
fn a_sentence_without_an_ending_is_found() {
    let mut files = Files::new();
    files.says(1.0, 0);
    files.breaks(Promise::OneEnding, 1);
}

#[test]
fn a_second_ending_is_found() {
    let mut files = Files::new();
    files.talks(1.0, 0);
    files.misses(2.0, 0);
    files.breaks(Promise::Order, 1);
}

#[test]
fn endings_out_of_order_are_found() {
    let mut files = Files::new();
    files.says(1.0, 0);
    files.says(2.0, 1);
    files.misses(3.0, 1);
    files.misses(3.1, 0);
    files.breaks(Promise::Order, 1);
}

#[test]
fn other_words_and_words_of_others_are_found() {
    let mut files = Files::new();
    files.says(1.0, 0);
    files.works(1.2, 0, 1);
    files.hears(1.5, 0, 0, 1.2);
    files.speaker.last_mut().unwrap()["echo"]["hash"] = "00000000000000ff".into();
    files.breaks(Promise::Whole, 1);

    let mut files = Files::new();
    files.works(1.2, 9, 1);
    files.hears(1.5, 0, 9, 1.2);
    files.breaks(Promise::Whole, 1);
}

#[test]
fn a_late_ending_is_found_unless_it_was_held_up() {
    let late = |at: f64| {
        let mut files = Files::new();
        files.says(1.0, 0);
        files.misses(at, 0);
        files
    };
    late(76.2).clean();
    late(77.0).breaks(Promise::OneEnding, 1);
    let mut held_up = late(77.0);
    held_up.fault(10.0, 15.0, 0, json!({ "kind": "stop_scheduler", "scheduler": 0 }));
    held_up.clean();
    let mut away = Files::new();
    away.says(1.0, 0);
    away.opened(50.0, 2, 1, Some(true));
    away.misses(120.0, 0);
    away.clean();
}

#[test]
fn a_session_may_take_sentences_along_only_if_the_store_lost_data() {
    let abandoned = || {
        let mut files = Files::new();
        files.says(1.0, 0);
        files.opened(5.0, 2, 1, Some(false));
        files
    };
    abandoned().breaks(Promise::OneEnding, 1);
    let mut lost = abandoned();
    lost.fault(2.0, 2.0, 0, json!({ "kind": "flush_all" }));
    assert_eq!(lost.clean().abandoned, 1);
}

#[test]
fn the_result_of_a_replaced_attempt_is_found() {
    let replaced = |answered: f64| {
        let mut files = Files::new();
        files.says(1.0, 0);
        files.takes(1.2, "j0", 1);
        files.takes(2.0, "j0", 2);
        files.answers(1.2, answered, 0, 1);
        files.hears(3.0, 0, 0, 1.2);
        files
    };
    replaced(1.9).clean();
    replaced(2.5).breaks(Promise::Fencing, 1);
}

#[test]
fn an_attempt_that_is_sent_to_its_node_twice_is_found() {
    let mut files = Files::new();
    files.talks(1.0, 0);
    files.node.push(line(2.0, "received", json!({ "job": "j0", "attempt": 1 })));
    files.breaks(Promise::Fencing, 1);
    let mut files = Files::new();
    files.talks(1.0, 0);
    files.node.push(line(2.0, "received", json!({ "job": "j0", "attempt": 2 })));
    files.clean();
}

#[test]
fn a_result_that_no_node_gave_is_found() {
    let mut files = Files::new();
    files.says(1.0, 0);
    files.hears(2.0, 0, 0, 1.3);
    files.breaks(Promise::Fencing, 1);
}

#[test]
fn words_on_an_old_connection_are_found_once_its_owner_should_know() {
    let old = |sent_s: f64| {
        let mut files = Files::new();
        files.speaker.push(line(2.0, "silent", json!({})));
        files.opened(3.0, 2, 1, Some(true));
        let word = json!({ "connection": 1, "type": "translation_result", "index": 0,
                           "sent_ms": (sent_s * 1e3) as u64 });
        files.speaker.push(line(20.0, "old_connection", word));
        files
    };
    assert_eq!(old(2.5).clean().old_words, 0);
    assert_eq!(old(6.0).clean().old_words, 1);
    old(9.0).breaks(Promise::SingleOwner, 1);
    let mut stopped = old(9.0);
    stopped.fault(2.0, 18.0, 0, json!({ "kind": "stop_scheduler", "scheduler": 0 }));
    stopped.clean();
}

#[test]
fn a_drain_that_fails_or_takes_too_long_is_found() {
    for (to, code) in [(10.0, Some(1)), (60.0, Some(0)), (60.0, None)] {
        let mut files = Files::new();
        files.drain(5.0, to, code);
        files.breaks(Promise::Drain, 1);
    }
}

#[test]
fn a_scheduler_that_dies_by_itself_is_found() {
    let mut files = Files::new();
    files.story.push(line(5.0, "died", json!({ "scheduler": 1, "status": "signal: 6" })));
    files.breaks(Promise::Alive, 1);
}

#[test]
fn once_all_is_healed_every_sentence_has_a_result_and_every_node_a_job() {
    let quiet = || {
        let mut files = Files::new();
        files.story.push(line(10.0, "quiet", json!({})));
        files
    };
    let mut good = quiet();
    good.talks(11.0, 0);
    assert_eq!(good.clean().quiet_said, 1);
    let mut missing = quiet();
    missing.talks(11.0, 0);
    missing.says(13.0, 1);
    missing.misses(14.0, 1);
    missing.breaks(Promise::Quiet, 1);
    // Neither a word nor a job.
    quiet().breaks(Promise::Quiet, 2);
}

#[test]
fn recovery_is_measured_from_the_kill_or_the_end_of_the_sentence() {
    let mut files = Files::new();
    files.fault(
        10.0,
        12.0,
        0,
        json!({ "kind": "kill_scheduler", "scheduler": 0,
                                       "new_name": true }),
    );
    files.speaker.push(line(10.0, "lost", json!({})));
    files.node.push(line(10.0, "gone", json!({})));
    files.opened(10.3, 2, 1, Some(true));
    files.node.push(line(10.2, "connected", json!({ "via": via(1) })));
    files.says(14.0, 0);
    files.works(14.2, 0, 1);
    files.hears(15.1, 0, 0, 14.2);
    let recovery = files.clean().recovery;
    assert_eq!((recovery.kills, recovery.alone), (1, 1));
    assert_eq!(recovery.sessions_back, Times::of(vec![SECOND * 3 / 10]));
    assert_eq!(recovery.sessions_work_alone.share_ms(0.99), 1_000);
    assert_eq!(recovery.nodes_back.share_ms(0.5), 200);
    assert_eq!(recovery.nodes_work.share_ms(1.0), 4_200);
}

#[test]
fn a_sentence_lost_by_a_kill_alone_is_found_and_one_that_is_said_again_is_not_lost() {
    let killed = |again: bool| {
        let mut files = Files::new();
        let kill = json!({ "kind": "kill_scheduler", "scheduler": 0, "new_name": true });
        files.fault(10.0, 12.0, 0, kill);
        files.says(9.5, 0);
        files.opened(10.3, 2, 1, Some(true));
        files.misses(11.0, 0);
        if again {
            files.works(11.2, 0, 1);
            files.hears(11.5, 1, 0, 11.2);
        }
        files.says(14.0, 1);
        files.works(14.2, 1, 1);
        files.hears(15.0, if again { 2 } else { 1 }, 1, 14.2);
        files
    };
    killed(true).clean();
    killed(false).breaks(Promise::Resumed, 1);
    let mut beside = killed(false);
    beside.fault(9.0, 9.0, 1, json!({ "kind": "flush_all" }));
    beside.clean();
}

#[test]
fn shares_of_times_are_those_of_the_sorted_list() {
    let times = Times::of((1..=200).rev().map(|ms| ms * 1_000).collect());
    assert_eq!([0.5, 0.99, 1.0].map(|share| times.share_ms(share)), [100, 198, 200]);
    assert_eq!(Times::default().share_ms(0.99), 0);
}
