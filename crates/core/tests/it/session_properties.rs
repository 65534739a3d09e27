//! Whatever happens in whatever order, a session keeps its promises.
//!
//! A driver plays arbitrary events, fires the timers the session asked for (in time, late, early,
//! stale), and hands every effect to a checker. The checker knows the promises and none of the
//! machine's code: it keeps its own account of every byte, attempt, deadline and ending.

mod checker;

use std::time::Duration;

use bytes::Bytes;
use checker::*;
use lingua_core::eligibility::Route;
use lingua_core::session::*;
use lingua_core::{Lang, Moment};
use proptest::prelude::*;

fn settings(kept: usize, max_open: usize) -> Settings {
    Settings {
        pause: Duration::from_millis(PAUSE_MS),
        max_utterance: Duration::from_millis(UTTERANCE_MS),
        max_utterance_bytes: UTTERANCE_BYTES,
        max_held_bytes: HELD_BYTES,
        max_open_jobs: max_open,
        max_kept_endings: kept,
        result_deadline: Duration::from_millis(DEADLINE_MS),
        resume_window: Duration::from_millis(RESUME_MS),
        tts_hold_max: Duration::from_millis(TTS_HOLD_MS),
        trust_seq: true,
    }
}

/// How long the piece is that just came, if these words end with it.
fn last_piece(event: &Event<u32>, said: &[u8]) -> Duration {
    match event {
        Event::Audio { bytes, duration, .. } if said.ends_with(bytes) => *duration,
        _ => Duration::ZERO,
    }
}

fn lang(tag: &str) -> Lang {
    Lang::new(tag).unwrap()
}

/// The targets of which there is a claim when the client comes back.
const TARGETS: [&str; 4] = ["zh", "en", "de", "fr"];

/// One target, both directions, and several that meet each other in different places.
fn routes(which: u8) -> Routes {
    let to = |src, targets: &[&str]| {
        Routes::new(targets.iter().map(|tgt| Route::Directed(lang(src), lang(tgt)))).unwrap()
    };
    match which % 7 {
        0 => to("en", &["zh"]),
        1 => to("zh", &["en"]),
        2 => to("en", &["zh", "de", "fr"]),
        3 => to("en", &["fr", "zh"]),
        4 => to("zh", &["de", "en", "fr"]),
        5 => to("en", &["de"]),
        _ => Routes::one(Route::Either(lang("en"), lang("zh"))),
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Wait { ms: u64, late: bool },
    Audio { skip: u32, len: usize, ms: u64, is_final: bool },
    Repeat { back: u32, is_final: bool, len: usize },
    Whole { client: u64, which: u8, len: usize },
    Finalize,
    SetLanguages(u8),
    Cancel { back: u64 },
    Tts { start: bool },
    Assigned { back: u64, lane: u8, grow: u32, hedge: bool },
    Accepted { back: u64, lane: u8, attempt: Attempt },
    Partial { back: u64, lane: u8, attempt: Attempt },
    Ended { back: u64, lane: u8, attempt: Attempt, missing: bool },
    OddTimer { timer: u8, early: bool },
    Disconnected { stale: bool },
    Resumed { stale: bool, unseen: u64, of_targets: Option<[u64; 4]> },
    Drain,
    Close { finish: bool },
    Restore,
}

#[derive(Clone, Copy, Debug)]
pub enum Attempt {
    Current,
    Before,
    Next,
    Dispatcher,
}

fn attempt() -> impl Strategy<Value = Attempt> {
    prop_oneof![
        6 => Just(Attempt::Current),
        1 => Just(Attempt::Before),
        1 => Just(Attempt::Next),
        1 => Just(Attempt::Dispatcher),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let wait_ms = prop_oneof![6 => 0..200u64, 3 => 200..900u64, 1 => 900..5_000u64];
    let len = prop_oneof![8 => 0..30usize, 1 => 30..70usize];
    let skip = prop_oneof![9 => Just(0u32), 1 => 1..4u32];
    let (rarely, unseen) = (|| prop::bool::weighted(0.2), 0..6u64);
    let (back, lane) = (0..6u64, 0..3u8);
    prop_oneof![
        20 => (wait_ms, rarely()).prop_map(|(ms, late)| Op::Wait { ms, late }),
        30 => (skip, len.clone(), 0..400u64, rarely())
            .prop_map(|(skip, len, ms, is_final)| Op::Audio { skip, len, ms, is_final }),
        4 => (0..4u32, any::<bool>(), 0..20usize)
            .prop_map(|(back, is_final, len)| Op::Repeat { back, is_final, len }),
        3 => (0..12u64, any::<u8>(), len)
            .prop_map(|(client, which, len)| Op::Whole { client, which, len }),
        4 => Just(Op::Finalize),
        3 => any::<u8>().prop_map(Op::SetLanguages),
        3 => back.clone().prop_map(|back| Op::Cancel { back }),
        4 => any::<bool>().prop_map(|start| Op::Tts { start }),
        16 => (back.clone(), lane.clone(), 0..3u32, rarely())
            .prop_map(|(back, lane, grow, hedge)| Op::Assigned { back, lane, grow, hedge }),
        8 => (back.clone(), lane.clone(), attempt())
            .prop_map(|(back, lane, attempt)| Op::Accepted { back, lane, attempt }),
        4 => (back.clone(), lane.clone(), attempt())
            .prop_map(|(back, lane, attempt)| Op::Partial { back, lane, attempt }),
        20 => (back, lane, attempt(), rarely())
            .prop_map(|(back, lane, attempt, missing)| Op::Ended { back, lane, attempt, missing }),
        4 => (0..3u8, any::<bool>()).prop_map(|(timer, early)| Op::OddTimer { timer, early }),
        2 => prop::bool::weighted(0.3).prop_map(|stale| Op::Disconnected { stale }),
        4 => (rarely(), unseen, prop::option::of([0..8u64, 0..8u64, 0..8u64, 0..8u64]))
            .prop_map(|(stale, unseen, of_targets)| Op::Resumed { stale, unseen, of_targets }),
        1 => prop_oneof![
            2 => Just(Op::Drain),
            3 => any::<bool>().prop_map(|finish| Op::Close { finish }),
            5 => Just(Op::Restore),
        ],
    ]
}

struct Driver {
    session: Session<u32>,
    checker: Checker,
    now: Moment,
    next_seq: u32,
    said: u32,
    answers: u32,
}

impl Driver {
    fn new(kept: usize, max_open: usize, which: u8) -> Self {
        let (settings, routes) = (settings(kept, max_open), routes(which));
        let session = Session::new(settings, 1, routes.clone(), [7; 16], Moment::ZERO);
        Driver {
            session: session.unwrap(),
            checker: Checker::new(kept, max_open, routes),
            now: Moment::ZERO,
            next_seq: 0,
            said: 0,
            answers: 0,
        }
    }

    fn feed(&mut self, event: Event<u32>) {
        self.checker.advance(self.now);
        self.checker.before(&event);
        let effects = self.session.on_event(self.now, event.clone());
        self.checker.after(&self.session, &event, &effects);
    }

    /// Bytes that no other piece has in the same places.
    fn speech(&mut self, len: usize) -> Bytes {
        self.said += 1;
        let salt = self.said.wrapping_mul(0x9e37_79b9).to_le_bytes();
        (0..len).map(|i| salt[i % 4].wrapping_add(i as u8)).collect()
    }

    fn audio(&mut self, seq: u32, len: usize, ms: u64, is_final: bool) {
        let bytes = self.speech(len);
        self.feed(Event::Audio { seq, bytes, duration: Duration::from_millis(ms), is_final });
    }

    /// Lets time pass; each timer is heard at its moment, or all of them only at the end.
    fn wait(&mut self, ms: u64, late: bool) {
        let until = self.now + Duration::from_millis(ms);
        self.checker.punctual &= !late;
        loop {
            let next = self.checker.timers.iter().min_by_key(|(_, (_, at))| *at);
            let Some((&timer, &(generation, at))) = next else { break };
            if at > until {
                break;
            }
            self.now = if late { until } else { self.now.max(at) };
            self.checker.timers.remove(&timer);
            self.feed(Event::TimerFired { timer, generation });
        }
        self.now = until;
    }

    fn key(&self, back: u64, lane: u8) -> ResultKey {
        // One beyond the last is among them: an utterance that does not exist.
        ResultKey { index: self.session.next_index().saturating_sub(back), lane: Lane(lane) }
    }

    fn attempt(&mut self, key: ResultKey, which: Attempt) -> Option<u32> {
        let current = self.checker.lane(key).map_or(0, |lane| lane.attempts.1);
        match which {
            Attempt::Current => Some(current),
            Attempt::Before => Some(current.saturating_sub(1)),
            Attempt::Next => Some(current + 1),
            Attempt::Dispatcher => None,
        }
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Wait { ms, late } => self.wait(ms, late),
            Op::Audio { skip, len, ms, is_final } => {
                let seq = self.next_seq + skip;
                self.next_seq = seq + 1;
                self.audio(seq, len, ms, is_final);
            }
            Op::Repeat { back, is_final, len } => {
                let seq = self.next_seq.saturating_sub(1 + back);
                self.next_seq = self.next_seq.max(seq + 1);
                self.audio(seq, len, 20, is_final);
            }
            Op::Whole { client, which, len } => self.whole(client, which, len),
            Op::Finalize => self.feed(Event::Finalize),
            Op::SetLanguages(which) => self.feed(Event::SetLanguages(routes(which))),
            Op::Cancel { back } => self.feed(Event::Cancel { index: self.key(back, 0).index }),
            Op::Tts { start: true } => self.feed(Event::TtsStarted),
            Op::Tts { start: false } => self.feed(Event::TtsPlayEnded),
            Op::Assigned { back, lane, grow, hedge } => {
                let key = self.key(back, lane);
                let attempt = self.attempt(key, Attempt::Current).unwrap_or(0) + grow;
                self.feed(Event::Assigned { key, attempt, hedge });
            }
            Op::Accepted { back, lane, attempt } => {
                let key = self.key(back, lane);
                let attempt = self.attempt(key, attempt).unwrap_or(0);
                self.feed(Event::NodeAccepted { key, attempt });
            }
            Op::Partial { back, lane, attempt } => {
                let key = self.key(back, lane);
                let attempt = self.attempt(key, attempt).unwrap_or(0);
                self.feed(Event::Partial { key, attempt, payload: 0 });
            }
            Op::Ended { back, lane, attempt, missing } => {
                let key = self.key(back, lane);
                let attempt = self.attempt(key, attempt);
                self.answers += 1;
                let ending = match missing {
                    true => Ending::Missing(MissingReason::NoCapableNode),
                    false => Ending::Result(self.answers),
                };
                self.feed(Event::Ended { key, attempt, ending });
            }
            Op::OddTimer { timer, early } => self.odd_timer(timer, early),
            Op::Disconnected { stale } => {
                let epoch = self.session.epoch() - u64::from(stale);
                self.feed(Event::Disconnected { epoch });
            }
            Op::Resumed { stale, unseen, of_targets } => self.resume(stale, unseen, of_targets),
            Op::Drain => self.feed(Event::Drain),
            Op::Close { finish } => self.feed(Event::Close { finish_pending: finish }),
            Op::Restore => self.restore(),
        }
    }

    fn whole(&mut self, client_index: u64, which: u8, len: usize) {
        let (audio, routes) = (self.speech(len), routes(which));
        let (duration, manual_cut) = (Duration::from_millis(700), client_index.is_multiple_of(2));
        let client_index = (!client_index.is_multiple_of(5)).then_some(client_index);
        self.feed(Event::WholeUtterance { client_index, routes, audio, duration, manual_cut });
    }

    /// The client comes back, and says what it has seen of all targets or of each.
    fn resume(&mut self, stale: bool, unseen: u64, of_targets: Option<[u64; 4]>) {
        let epoch = self.session.epoch() + 1 - 2 * u64::from(stale);
        // What is saved here is never behind, so no number above the last can have been seen.
        let seen = |unseen: u64| self.session.next_index().checked_sub(unseen + 1);
        let last_seen = match of_targets {
            None => LastSeen::all(seen(unseen)),
            Some(of) => {
                let claims = TARGETS.iter().zip(of);
                let claims = claims.filter_map(|(tag, unseen)| Some((lang(tag), seen(unseen)?)));
                // Of every target together less is claimed, or nothing.
                LastSeen { all: seen(unseen + 4), targets: claims.collect() }
            }
        };
        self.feed(Event::Resumed { epoch, last_seen });
    }

    /// A timer that was replaced long ago, or one whose moment has not come.
    fn odd_timer(&mut self, timer: u8, early: bool) {
        let timer = [Timer::Pause, Timer::Deadline, Timer::Resume][usize::from(timer)];
        let set = self.checker.timers.get(&timer).copied();
        match set {
            Some((generation, at)) if early && at > self.now => {
                self.checker.timers.remove(&timer);
                self.feed(Event::TimerFired { timer, generation });
                if !self.checker.closed && timer != Timer::Pause {
                    assert!(
                        self.checker.timers.contains_key(&timer),
                        "an early timer is set again"
                    );
                }
            }
            Some((generation, _)) => {
                self.feed(Event::TimerFired { timer, generation: generation - 1 });
            }
            None => self.feed(Event::TimerFired { timer, generation: 1 }),
        }
    }

    /// The instance dies, and another goes on from what was saved.
    fn restore(&mut self) {
        if self.checker.leaving {
            return;
        }
        let (saved, epoch) = (self.session.saved(), self.session.epoch() + 1);
        let settings = settings(self.checker.kept, self.checker.max_open);
        assert_eq!(saved.acked_seq, self.checker.acked);
        let (session, effects) =
            Session::restore(settings, saved, epoch, [7; 16], self.now).unwrap();
        self.session = session;
        let acked = self.checker.acked;
        let checker = &mut self.checker;
        for account in &mut checker.utterances {
            account.held = 0;
            let settled = account.lanes.iter().all(LaneAccount::is_settled);
            let lives_on = account.seqs.map_or(settled, |(_, last)| Some(last) <= acked);
            for lane in account.lanes.iter_mut().filter(|lane| !lane.told) {
                if !matches!(lane.ending, Some(Ending::Missing(_))) {
                    let failed = Ending::Missing(MissingReason::JobFailed);
                    lane.ending = (!lives_on).then_some(failed);
                }
                lane.accepted = true;
                lane.attempts.0 = lane.attempts.1;
            }
        }
        // The client sends again whatever was not acknowledged.
        checker.pieces.retain(|seq, _| Some(*seq) <= acked);
        checker.last_used = acked;
        self.next_seq = acked.map_or(0, |seq| seq + 1);
        checker.last_part = None;
        checker.timers.clear();
        checker.connected = false;
        checker.epoch = epoch;
        checker.inherited = checker.utterances.len() as u64;
        checker.resume_until = Some(self.now + Duration::from_millis(RESUME_MS));
        checker.undisturbed = false;
        for effect in &effects {
            match effect {
                Effect::SetTimer { timer, generation, at } => {
                    checker.timers.insert(*timer, (*generation, *at));
                }
                Effect::CancelJob { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        checker.standing(&self.session);
    }

    /// Every conversation comes to an end, and then nothing is left over.
    fn finish(mut self, resume: bool) {
        if !self.checker.connected && resume {
            self.play(Op::Resumed { stale: false, unseen: 100, of_targets: None });
        }
        let connected = self.checker.connected;
        if connected {
            self.feed(Event::Close { finish_pending: true });
        }
        self.wait(DEADLINE_MS + RESUME_MS, false);
        assert!(self.session.is_closed(), "a session that never ends");
        let checker = &self.checker;
        assert!(checker.pieces.values().all(|piece| piece.fate != Fate::Pending));
        let lanes = || checker.utterances.iter().flat_map(|u| &u.lanes);
        assert!(lanes().all(|lane| lane.ending.is_some() && (lane.told || !connected)));
        assert_eq!(checker.acked, checker.last_used, "everything is acknowledged in the end");
        assert_eq!(self.session.held_bytes(), 0);
    }
}

fn cases() -> u32 {
    let asked = std::env::var("LINGUA_PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(0).max(10_000)
}

/// A life of a session: how many endings are kept, how many jobs may be open, its languages, what happens,
/// and whether its client comes back at the end.
pub type Life = (usize, usize, u8, Vec<Op>, bool);

/// A life, to be lived.
pub fn life() -> impl Strategy<Value = Life> {
    let ops = prop::collection::vec(op(), 1..120);
    (0..6usize, 1..10usize, any::<u8>(), ops, any::<bool>())
}

/// Lives it; panics if a promise is broken.
pub fn live((kept, max_open, which, ops, resume): Life) {
    let mut driver = Driver::new(kept, max_open, which);
    for op in ops {
        driver.play(op);
    }
    driver.finish(resume);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases())
    })]

    /// I3, I4 and I5 for each target, the acknowledgement and every bound, over arbitrary sessions.
    #[test]
    fn a_session_keeps_its_promises_whatever_happens_in_whatever_order(
        life in life(),
    ) {
        live(life);
    }
}
