//! The process of a client: it speaks, comes back if it can, and follows what it is told.

mod opening;
mod voice;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_engine::sessions::inbound::FromClient;
use lingua_lab::speaker::{Checker, Event};
use lingua_lab::speech::Mark;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::door::{FromSpeaker, Sent, serve_client};
use super::told::Told;
use super::{Phase, World};
use crate::dice::Dice;
use crate::plan::{ClientKind, SpeakerPlan};
use crate::record::Whose;
use crate::wire::End;
use voice::{Saying, Voice};

/// A scheduler that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(6);

/// How often it is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(2);

/// A session is open within this.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// In the end each has so long for a sentence and its result.
pub(super) const QUIET_TURN: Duration = Duration::from_millis(2_500);

/// How long a close waits to be confirmed.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// How long after its deadline an ending is waited for.
const PATIENCE: Duration = Duration::from_secs(25);

type Wire = End<FromSpeaker, Sent>;

/// A speaker with its client.
pub(super) struct Speaker {
    world: Arc<World>,
    number: usize,
    plan: SpeakerPlan,
    dice: Dice,
    phase: watch::Receiver<Phase>,
    checker: Checker,
    session: String,
    token: Option<String>,
    last_index: Option<u64>,
    last_indexes: BTreeMap<String, u64>,
    voice: Voice,
    /// The sentence that is being said.
    saying: Option<Saying>,
    /// When the next piece or sentence is due.
    speaks_at: Instant,
    sentences: u32,
    /// It has begun its sentence of the end.
    had_quiet_turn: bool,
    connections: u64,
    last_heard: Instant,
    next_ping: Instant,
    leave_by: Option<Instant>,
    wait_until: Option<Instant>,
}

/// Why a connection is over.
enum Over {
    Gone,
    Silent,
    Leaves,
    Finished,
}

/// Speaks until the world ends.
pub(super) async fn live(world: Arc<World>, number: usize) {
    let plan = world.plan.speakers[number].clone();
    let now = Instant::now();
    let speaker = Speaker {
        dice: Dice::of(world.plan.seed, "speaker", number),
        phase: world.phase(),
        number,
        checker: Checker::default(),
        session: String::new(),
        token: None,
        last_index: None,
        last_indexes: BTreeMap::new(),
        voice: Voice::new(plan.kind == ClientKind::Resuming),
        saying: None,
        speaks_at: now,
        sentences: 0,
        had_quiet_turn: false,
        connections: 0,
        last_heard: now,
        next_ping: now,
        leave_by: None,
        wait_until: None,
        plan,
        world,
    };
    sleep(Duration::from_millis(speaker.plan.begins_ms)).await;
    speaker.run().await;
}

impl Speaker {
    fn write(&self, event: &str, fields: Value) {
        self.world.record.write(Whose::Speaker(self.number), event, fields);
    }

    /// Something that its checker follows.
    fn note(&mut self, event: &Event) {
        let (word, fields) = event.to_line();
        self.write(word, fields);
        self.checker.note(self.world.record.at_us(), event);
    }

    fn resumes(&self) -> bool {
        self.plan.kind == ClientKind::Resuming
    }

    async fn run(mut self) {
        if !self.resumes() {
            self.write("cannot_resume", json!({}));
        }
        if self.plan.targets > 1 {
            let targets = opening::TARGETS[..self.plan.targets].iter().map(|tag| (*tag).to_owned());
            self.note(&Event::Targets { targets: targets.collect() });
        }
        let mut avoid = None;
        loop {
            let Some((mut wire, instance)) = self.connect(avoid).await else {
                avoid = None;
                let pause = self.dice.between(100, 1_200);
                sleep(Duration::from_millis(pause)).await;
                continue;
            };
            match self.serve(&mut wire).await {
                Over::Finished => {
                    self.close(wire).await;
                    return self.write("finished", json!({}));
                }
                Over::Leaves => self.write("left", json!({})),
                Over::Gone => self.write("lost", json!({})),
                Over::Silent => {
                    self.write("silent", json!({}));
                    self.listen_on(wire);
                }
            }
            avoid = Some(instance);
            sleep(Duration::from_millis(self.dice.between(20, 300))).await;
        }
    }

    /// Opens a session, or takes up the one it had.
    async fn connect(&mut self, avoid: Option<usize>) -> Option<(Wire, usize)> {
        let instance = self.world.choose(&self.dice, avoid)?;
        let (near, far, control) = crate::wire::connect(Duration::from_millis(self.dice.below(6)));
        self.world.speaker_wire(self.number, control);
        let (mut wire, opening) = (near, self.opening());
        let world = Arc::clone(&self.world);
        self.world.as_instance(instance, |engine| serve_client(world, engine, opening, far))?;
        let answer = async {
            loop {
                match wire.inn.recv().await?.told {
                    Told::Opened { session, token, recovered } => {
                        return Some((session, token, recovered));
                    }
                    Told::Refused { .. } | Told::Closed => return None,
                    _ => {}
                }
            }
        };
        let (session, token, recovered) = timeout(HANDSHAKE, answer).await.ok().flatten()?;
        token.iter().for_each(|token| self.world.canary.token(token));
        let same = recovered == Some(false) && session == self.session;
        let goes_on = recovered == Some(true) || same;
        self.connections += 1;
        self.note(&Event::Opened { session_id: session.clone(), recovered });
        let connected = json!({
            "via": format!("ws://127.0.0.1:{instance}/"), "connection": self.connections,
            "session": session, "recovered": recovered, "date_ms": self.world.date_ms(),
        });
        self.write("connected", connected);
        (self.session, self.token) = (session, token);
        let now = Instant::now();
        (self.last_heard, self.next_ping, self.leave_by) = (now, now + PING_EVERY, None);
        if goes_on {
            self.voice.again().for_each(|piece| say(&wire, piece));
        } else {
            self.last_index = None;
            self.last_indexes.clear();
            self.voice.begin_anew();
            if let Some(saying) = &mut self.saying {
                saying.begin_again();
            }
        }
        Some((wire, instance))
    }

    async fn serve(&mut self, wire: &mut Wire) -> Over {
        loop {
            if let Some(over) = self.act(wire) {
                return over;
            }
            let due = self.next_due();
            tokio::select! {
                biased;
                heard = wire.inn.recv() => {
                    let Some(Sent { told, .. }) = heard else { return Over::Gone };
                    self.last_heard = Instant::now();
                    if self.hear(told).is_err() {
                        return Over::Gone;
                    }
                    if self.plan.slow_ms > 0 && self.dice.happens(250) {
                        sleep(Duration::from_millis(self.plan.slow_ms)).await;
                    }
                }
                _ = self.phase.changed() => {
                    // In the end one after the other: what has no result then was not for want of slots.
                    let quiet = *self.phase.borrow_and_update() == Phase::Quiet;
                    if quiet && self.saying.is_none() {
                        self.speaks_at = Instant::now() + QUIET_TURN * self.number as u32;
                    }
                }
                () = sleep_until(due) => {}
            }
        }
    }

    fn next_due(&self) -> Instant {
        let speaks = (!self.is_over() && self.leave_by.is_none()).then_some(self.speaks_at);
        let silent = Some(self.last_heard + SILENCE);
        let all = [speaks, silent, self.leave_by, self.wait_until];
        all.into_iter().flatten().fold(self.next_ping, Instant::min)
    }

    /// Nothing more is said.
    fn is_over(&self) -> bool {
        *self.phase.borrow() == Phase::Stop && self.saying.is_none()
    }

    /// Does what is due now.
    fn act(&mut self, wire: &Wire) -> Option<Over> {
        let now = Instant::now();
        if self.next_ping <= now {
            self.next_ping = now + PING_EVERY;
            wire.out.send(FromSpeaker::Ping);
        }
        if self.last_heard + SILENCE <= now {
            // If its own process stood still, it has not listened yet.
            if now.duration_since(self.last_heard + SILENCE) < Duration::from_millis(500) {
                return Some(Over::Silent);
            }
            self.last_heard = now;
        }
        if let Some(leave_by) = self.leave_by {
            let idle = self.checker.open() == 0 && self.saying.is_none();
            return (idle || now >= leave_by).then_some(Over::Leaves);
        }
        if self.is_over() {
            let patience = self.world.deadline() + PATIENCE;
            let wait_until = *self.wait_until.get_or_insert(now + patience);
            return (self.checker.open() == 0 || now >= wait_until).then_some(Over::Finished);
        }
        if self.speaks_at <= now {
            self.speak(wire, now);
        }
        None
    }

    /// The next piece of a sentence, or a new one.
    fn speak(&mut self, wire: &Wire, now: Instant) {
        let saying = match &mut self.saying {
            Some(saying) => saying,
            None => {
                let mark = Mark { speaker: self.number as u32, sentence: self.sentences };
                self.sentences += 1;
                self.had_quiet_turn |= *self.phase.borrow() == Phase::Quiet;
                self.saying.insert(Saying::new(mark, self.dice.between(2, 7) as usize))
            }
        };
        let (piece, is_first, said) = saying.next(&mut self.voice);
        let (mark, is_last) = (saying.mark, said.is_some());
        say(wire, piece);
        if is_first {
            self.note(&Event::Begun { mark });
        }
        if let Some(said) = said {
            self.saying = None;
            self.note(&said);
        }
        let pause_ms = match (is_last, *self.phase.borrow()) {
            (false, _) => 200,
            (true, Phase::Quiet) if self.had_quiet_turn => 3_600_000,
            (true, Phase::Quiet) => 1,
            (true, Phase::Settle) => self.dice.between(9_000, 20_000),
            (true, _) => self.dice.between(600, 2_800),
        };
        self.speaks_at = now + Duration::from_millis(pause_ms);
    }

    /// An error if the connection is over.
    fn hear(&mut self, told: Told) -> Result<(), ()> {
        let now = Instant::now();
        match told {
            Told::Event { event, acked } => {
                if let Event::Result { index, target, .. } | Event::Missing { index, target, .. } =
                    &event
                {
                    self.heard_ending(*index, target.as_deref());
                }
                acked.into_iter().for_each(|seq| self.voice.acknowledged(seq));
                self.note(&event);
            }
            Told::AudioAck { seq } => self.voice.acknowledged(seq),
            Told::Hold { ms, .. } | Told::Refused { retry_after_ms: Some(ms), .. } => {
                self.speaks_at = self.speaks_at.max(now + Duration::from_millis(ms.min(5_000)));
            }
            Told::GoAway { deadline_ms } if self.plan.kind != ClientKind::Existing => {
                let share = self.dice.between(500, 800);
                let left = deadline_ms.saturating_sub(self.world.date_ms());
                let left = if deadline_ms > 1_000_000_000_000 { left } else { deadline_ms };
                self.leave_by = Some(now + Duration::from_millis(left * share / 1_000));
            }
            Told::Closed => return Err(()),
            _ => {}
        }
        Ok(())
    }

    fn heard_ending(&mut self, index: u64, target: Option<&str>) {
        self.last_index = self.last_index.max(Some(index));
        match target {
            Some(target) => {
                let last = self.last_indexes.entry(target.to_owned()).or_insert(index);
                *last = (*last).max(index);
            }
            None => self.last_indexes.values_mut().for_each(|last| *last = (*last).max(index)),
        }
    }

    /// What still comes on a connection that was given up is written down.
    fn listen_on(&self, mut wire: Wire) {
        let (world, number, connection) = (Arc::clone(&self.world), self.number, self.connections);
        lingua_engine::tasks::start(async move {
            while let Some(Sent { told, at_ms }) = wire.inn.recv().await {
                if let Told::Event { event, .. } = told {
                    let kind = event.to_line().0;
                    let line = json!({ "connection": connection, "sent_ms": at_ms, "type": kind });
                    world.record.write(Whose::Speaker(number), "old_connection", line);
                }
            }
        });
    }

    /// Closes the session politely.
    async fn close(&mut self, mut wire: Wire) {
        wire.out.send(FromSpeaker::Message(Box::new(FromClient::Close)));
        let ended = async {
            while let Some(Sent { told, .. }) = wire.inn.recv().await {
                if matches!(told, Told::CloseAck) || self.hear(told).is_err() {
                    return;
                }
            }
        };
        // One that does not answer is left all the same.
        let _ = timeout(CLOSE_LIMIT, ended).await;
    }
}

fn say(wire: &Wire, piece: FromClient) {
    wire.out.send(FromSpeaker::Message(Box::new(piece)));
}
