//! What one speaker wrote down: everything it said ended once, whole, in order and in time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::at_us;
use super::fencing::Fencing;
use super::recovery::Life;
use super::story::Story;
use super::verdict::{Promise, Verdict};
use crate::chaos::DEADLINE_SLACK;
use crate::chaos::plan::Kind as FaultKind;
use crate::speaker::check::{Answered, Checker};
use crate::speaker::{Event, Kind};
use crate::speech::Mark;

/// An older owner learns with its next renewal that it is none any more.
const OWNER_LEARNS_WITHIN_MS: u64 = 4_250;

/// How long before the end of a session a loss of the store's data can be its cause: by then its owner
/// has saved it again.
const LOSS_EXPLAINS_US: u64 = 20_000_000;

struct Speaker<'a> {
    name: &'a str,
    story: &'a Story,
    fencing: &'a Fencing,
    verdict: &'a mut Verdict,
    checker: Checker,
    life: Life,
    session: String,
    /// When each connection was accepted, as a date, and with which scheduler.
    accepted: BTreeMap<u64, (u64, Option<usize>)>,
    /// When the last connection was open.
    last_opened_us: u64,
    begun: BTreeMap<Mark, u64>,
    understood: BTreeSet<Mark>,
    /// Sentences that an ending without a result is most likely of, and when it came.
    missed: Vec<(Mark, u64)>,
    /// Sentences that went down with a session whose end is explained by lost data.
    excused: u64,
    /// It cannot come back: its session ends with its connection.
    cannot_resume: bool,
    /// When its last connection was lost.
    lost_us: u64,
    finished: bool,
}

pub(super) fn check(
    name: &str,
    lines: &[Value],
    story: &Story,
    fencing: &Fencing,
    verdict: &mut Verdict,
) -> Life {
    let mut speaker = Speaker {
        name,
        story,
        fencing,
        verdict,
        checker: Checker::default(),
        life: Life::default(),
        session: String::new(),
        accepted: BTreeMap::new(),
        last_opened_us: 0,
        begun: BTreeMap::new(),
        understood: BTreeSet::new(),
        missed: Vec::new(),
        excused: 0,
        cannot_resume: false,
        lost_us: 0,
        finished: false,
    };
    for line in lines {
        speaker.take(line);
    }
    speaker.end()
}

impl Speaker<'_> {
    fn take(&mut self, line: &Value) {
        let at = at_us(line);
        match line["event"].as_str().unwrap_or_default() {
            "connected" => self.connected(line, at),
            "lost" | "left" | "silent" => {
                self.life.gone(at);
                self.lost_us = at;
            }
            "old_connection" => self.old_connection(line, at),
            "finished" => self.finished = true,
            "cannot_resume" => self.cannot_resume = true,
            _ => {
                if let Some(event) = Event::read_line(line) {
                    self.event(&event, at);
                }
            }
        }
    }

    fn connected(&mut self, line: &Value, at: u64) {
        let scheduler = self.story.scheduler_of(&line["via"]);
        self.life.connected(at, scheduler);
        let connection = line["connection"].as_u64().unwrap_or(0);
        self.accepted.insert(connection, (line["date_ms"].as_u64().unwrap_or(0), scheduler));
        self.last_opened_us = at;
    }

    fn event(&mut self, event: &Event, at: u64) {
        match event {
            Event::Opened { session_id, recovered } => {
                if *recovered != Some(true) && *session_id != self.session {
                    self.begins_anew(at);
                }
                self.session.clone_from(session_id);
            }
            Event::Begun { mark } => {
                self.begun.insert(*mark, at);
            }
            Event::Result { echo: Some(echo), .. } => {
                self.understood.extend(echo.mark);
                if let Some(wrong) = self.fencing.wrong_with(echo, self.story.hedges) {
                    let mark = echo.mark.map(|mark| mark.to_string()).unwrap_or_default();
                    self.violated(Promise::Fencing, at, &format!("a result ({mark}) {wrong}"));
                }
            }
            _ => {}
        }
        let is_result = matches!(event, Event::Result { .. });
        if let Some(answered) = self.checker.note(at, event) {
            self.check_time(&answered);
            if let Some(mark) = answered.mark.filter(|_| !is_result) {
                self.missed.push((mark, at));
            }
            if is_result {
                self.life.worked(at, answered.said_us);
            }
        }
    }

    /// The session from before is over. That may cost what was open only if the store lost it.
    fn begins_anew(&mut self, at: u64) {
        let open = self.checker.open() as u64;
        let mut before = self.story.during(at.saturating_sub(LOSS_EXPLAINS_US), at);
        let lost_data = before.any(|span| span.fault.may_lose_data());
        if open == 0 {
            return;
        }
        let window = self.story.resume_window.map(|window| window.as_micros() as u64);
        let away_too_long = window.is_some_and(|window| at > self.lost_us + window);
        if lost_data || self.cannot_resume || away_too_long {
            self.excused += open;
            return;
        }
        let text = format!("{open} open sentences went down with a session for no reason");
        self.violated(Promise::OneEnding, at, &text);
    }

    /// An ending is late if its deadline is over, and nothing stood still or was away meanwhile.
    fn check_time(&mut self, answered: &Answered) {
        let Answered { said_us, answered_us, .. } = *answered;
        // What is sent again on another connection is another utterance with a deadline of its own.
        let from_us = said_us.max(self.last_opened_us.min(answered_us));
        let slow = |kind: FaultKind| {
            use FaultKind::{Delay, Partition, StopScheduler, StopSpeakers};
            matches!(kind, Delay | Partition | StopScheduler | StopSpeakers)
        };
        let stood_still_us: u64 = self
            .story
            .during(from_us, answered_us)
            .filter(|span| slow(span.fault.kind()))
            .map(|span| span.end_us.min(answered_us).saturating_sub(span.begin_us.max(from_us)))
            .sum();
        let allowed_us = (self.story.deadline + DEADLINE_SLACK).as_micros() as u64 + stood_still_us;
        let took_us = answered_us.saturating_sub(from_us);
        self.verdict.longest_us = self.verdict.longest_us.max(answered_us.saturating_sub(said_us));
        if took_us > allowed_us {
            let text =
                format!("an ending came {} ms after it was due", (took_us - allowed_us) / 1_000);
            self.violated(Promise::OneEnding, answered_us, &text);
        }
    }

    /// Something came on a connection that was given up. Told by the time at which it was sent: what
    /// was on its way before the session went on elsewhere is nothing new.
    fn old_connection(&mut self, line: &Value, at: u64) {
        let connection = line["connection"].as_u64().unwrap_or(0);
        let Some(sent_ms) = line["sent_ms"].as_u64() else { return };
        let next = self.accepted.range(connection + 1..).next();
        let Some((_, &(accepted_ms, _))) = next.filter(|(_, (date, _))| *date < sent_ms) else {
            return;
        };
        self.verdict.old_words += 1;
        // A scheduler that stood still or was cut off learns of it when it is back.
        let old = self.accepted.get(&connection).and_then(|(_, scheduler)| *scheduler);
        let since_us = (sent_ms - accepted_ms) * 1_000;
        let disturbed = self.story.during(at.saturating_sub(since_us), at).any(|span| {
            span.fault.hurts_the_store()
                || span.fault.scheduler() == old
                || span.fault.store_wire_of() == old
        });
        if sent_ms > accepted_ms + OWNER_LEARNS_WITHIN_MS && !disturbed {
            let kind = line["type"].as_str().unwrap_or_default();
            let text = format!(
                "a {kind} was sent on an old connection {} ms after the session went on elsewhere",
                sent_ms - accepted_ms
            );
            self.violated(Promise::SingleOwner, at, &text);
        }
    }

    fn end(mut self) -> Life {
        let report = self.checker.report();
        self.verdict.said += report.said;
        self.verdict.results += report.results;
        self.verdict.connections += report.connections;
        self.verdict.sessions += report.sessions;
        self.verdict.abandoned += self.excused;
        self.verdict.dropped += report.dropped_sentences;
        for (reason, count) in &report.missing {
            *self.verdict.missing.entry(reason.clone()).or_default() += count;
        }
        let mut texts = report.violations.iter();
        for (kind, count) in &report.counts {
            // Judged where the session began anew.
            if *kind == Kind::Abandoned {
                continue;
            }
            // What it said so far becomes a sentence when its instance goes away.
            if *kind == Kind::Split && self.cannot_resume {
                continue;
            }
            if *kind == Kind::Lost && self.story.store_and_process_lost {
                continue;
            }
            let promise = match kind {
                Kind::Lost => Promise::OneEnding,
                Kind::Doubled | Kind::Disordered | Kind::AfterEnding => Promise::Order,
                _ => Promise::Whole,
            };
            for _ in 0..*count {
                let text = texts.find(|text| !text.contains("went down with its session"));
                let text = text.map_or_else(|| kind.word().to_owned(), String::clone);
                self.verdict.violated(promise, format!("{}: {text}", self.name));
            }
        }
        if !self.finished {
            self.verdict
                .violated(Promise::OneEnding, format!("{} did not come to its end", self.name));
        }
        self.check_quiet();
        // One that was said again on another connection may have a result after all.
        for (mark, at) in std::mem::take(&mut self.missed) {
            if let Some(begun) = self.begun.get(&mark).filter(|_| !self.understood.contains(&mark))
            {
                self.life.unheard(*begun, at, mark);
            }
        }
        self.life
    }

    /// What was begun after everything was healed has a result.
    fn check_quiet(&mut self) {
        let Some(quiet_us) = self.story.quiet_us else { return };
        let late: Vec<_> = self.begun.iter().filter(|(_, begun)| **begun >= quiet_us).collect();
        let unheard: Vec<_> =
            late.iter().filter(|(mark, _)| !self.understood.contains(mark)).collect();
        self.verdict.quiet_said += late.len() as u64;
        if late.is_empty() {
            let text = format!("{} said nothing after all was healed", self.name);
            self.verdict.violated(Promise::Quiet, text);
        }
        for (mark, begun) in unheard {
            let text = format!(
                "{}: sentence {mark}, begun at {:.3} s, had no result though all was healed",
                self.name,
                self.story.second(**begun)
            );
            self.verdict.violated(Promise::Quiet, text);
        }
    }

    fn violated(&mut self, promise: Promise, at: u64, text: &str) {
        let text = format!("{} at {:.3} s: {text}", self.name, self.story.second(at));
        self.verdict.violated(promise, text);
    }
}
