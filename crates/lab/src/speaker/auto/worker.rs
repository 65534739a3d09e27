//! The task of a speaker that speaks by itself, over as many connections as it takes.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::given_up::GivenUp;
use super::speaking::{Due, Speaking};
use super::{Ended, Happening, Stop, Watcher};
use crate::clock::epoch_ms;
use crate::closed::Closed;
use crate::link::{ConnectError, HANDSHAKE_LIMIT, Heard, Link};
use crate::monotonic_us;
use crate::speaker::script::Script;
use crate::speaker::session::Session;
use crate::speaker::wire::Frame;
use crate::speaker::{SessionAck, SpeakerOptions, dial, lock};

/// The pause before the first and before any later attempt to come back; jitter goes from half to
/// one and a half of it.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
const RECONNECT_AFTER_AT_MOST: Duration = Duration::from_secs(5);

/// Used when the scheduler does not say how often.
const HEARTBEAT: Duration = Duration::from_secs(25);

/// How long a `backpressure` that names no time holds.
const HOLD: Duration = Duration::from_secs(1);

/// A timer that is so late says that the process was stopped.
const STOOD_STILL: Duration = Duration::from_millis(500);

/// How long a close waits for the `session_close_ack`.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    options: SpeakerOptions,
    script: Script,
    session: Arc<Mutex<Session>>,
    stop: watch::Receiver<Stop>,
    watcher: Watcher,
    speaking: Speaking,
    heartbeat_every: Duration,
    next_heartbeat: Instant,
    /// The scheduler asked to leave by then.
    leave_by: Option<Instant>,
    /// All is said, and endings are awaited until then.
    wait_until: Option<Instant>,
    /// The last utterance that anything was told of.
    last_index: Option<u64>,
    /// When anything came from the scheduler last.
    last_heard: Instant,
    /// Connections so far.
    connections: u64,
    /// Connections that were given up as silent and are still listened to.
    given_up: GivenUp,
}

/// How the service on one connection ended.
enum End {
    Gone(Closed),
    /// Nothing was heard for too long.
    Silent,
    /// It leaves by itself, because it was asked to.
    Leaves,
    Finished,
}

impl Worker {
    pub fn new(
        options: SpeakerOptions,
        script: Script,
        session: Arc<Mutex<Session>>,
        stop: watch::Receiver<Stop>,
        watcher: Watcher,
    ) -> Self {
        let now = Instant::now();
        let speaking = Speaking::new(&script, options.codec, now);
        Self {
            options,
            script,
            session,
            stop,
            watcher,
            speaking,
            heartbeat_every: HEARTBEAT,
            next_heartbeat: now + HEARTBEAT,
            leave_by: None,
            wait_until: None,
            last_index: None,
            last_heard: now,
            connections: 0,
            given_up: GivenUp::default(),
        }
    }

    /// Connects and opens or resumes the session.
    pub async fn connect(&mut self) -> anyhow::Result<Link> {
        let continuing = lock(&self.session).voice.continuing();
        let limit = self.options.persistence.handshake_limit;
        let answered = async {
            let mut link = dial(&self.options).await?;
            link.send_json(&self.options.init(continuing.as_ref()));
            let answer = link.answer().await?;
            anyhow::Ok((link, answer))
        };
        let answered = timeout(limit, answered).await;
        let (mut link, answer) = answered.with_context(|| format!("no session in {limit:?}"))??;
        let ack = SessionAck::read(answer)?;
        self.connections += 1;
        self.last_heard = Instant::now();
        let (goes_on, again) = {
            let mut session = lock(&self.session);
            (session.voice.goes_on(&ack), session.opened(&ack))
        };
        again.into_iter().for_each(|frame| put(&mut link, frame));
        if !goes_on {
            self.last_index = None;
            self.speaking.repeat_sentence(Instant::now());
        }
        self.heartbeat_every =
            ack.heartbeat_interval_ms.map_or(HEARTBEAT, Duration::from_millis).max(HOLD);
        if let Some(limit) = self.options.persistence.silence_limit {
            self.heartbeat_every = self.heartbeat_every.min(limit / 3);
        }
        self.write("connected", || {
            json!({ "via": self.options.url, "connection": self.connections,
                    "session": ack.session_id, "recovered": ack.recovered,
                    "next_index": ack.next_index, "date_ms": epoch_ms() })
        });
        self.next_heartbeat = Instant::now() + self.heartbeat_every;
        self.leave_by = None;
        self.tell(Happening::Opened(&ack));
        Ok(link)
    }

    pub async fn run(mut self, mut link: Link) -> Ended {
        loop {
            let pause = match self.serve(&mut link).await {
                End::Finished => {
                    self.close(link).await;
                    self.write("finished", || Value::Null);
                    return Ended::Finished;
                }
                End::Leaves => {
                    self.write("left", || Value::Null);
                    drop(link);
                    RECONNECT_AFTER
                }
                End::Silent => {
                    self.write("silent", || Value::Null);
                    let journal = self.options.journal.clone();
                    self.given_up.listen_on(link, self.connections, journal);
                    RECONNECT_AFTER
                }
                End::Gone(closed) => {
                    self.tell(Happening::Lost(&closed));
                    self.write("lost", || json!({ "code": closed.code, "why": closed.reason }));
                    if !self.script.reconnect || self.is_final(&closed) {
                        return Ended::GivenUp(format!("the connection ended {closed}"));
                    }
                    closed.retry_after().unwrap_or(RECONNECT_AFTER)
                }
            };
            self.options.persistence.go_elsewhere(&mut self.options.url);
            link = match self.come_back(pause).await {
                Ok(link) => link,
                Err(why) => return Ended::GivenUp(format!("{why:#}")),
            };
        }
    }

    /// Tries until it is back; an error if it is not wanted or its time is over.
    async fn come_back(&mut self, pause: Duration) -> anyhow::Result<Link> {
        let give_up_at = Instant::now() + self.script.give_up_after;
        let mut after = pause;
        loop {
            sleep(match self.options.is_existing() {
                true => self.options.reconnect_after,
                false => after.mul_f64(rand::random_range(0.5..1.5)),
            })
            .await;
            let error = match self.connect().await {
                Ok(link) => return Ok(link),
                Err(error) => error,
            };
            let unwanted = match error.downcast_ref::<ConnectError>() {
                Some(ConnectError::Closed(closed)) => self.is_final(closed),
                refused => refused.is_some_and(ConnectError::is_final),
            };
            self.options.persistence.go_elsewhere(&mut self.options.url);
            if unwanted || Instant::now() >= give_up_at {
                return Err(error);
            }
            self.tell(Happening::NotYet(&error));
            after = (after * 2).clamp(RECONNECT_AFTER, RECONNECT_AFTER_AT_MOST);
        }
    }

    /// Whether the scheduler does not want it back.
    fn is_final(&self, closed: &Closed) -> bool {
        // An existing client knows no reason not to come back.
        !self.options.is_existing()
            && closed.is_final()
            && !(self.options.persistence.after_superseded && closed.code == Some(4001))
    }

    async fn serve(&mut self, link: &mut Link) -> End {
        let mut timer = pin!(sleep(Duration::ZERO));
        loop {
            if let Some(end) = self.work(link) {
                // What is in line would be lost with the connection, though not with the session.
                if matches!(end, End::Leaves) {
                    let _ = timeout(HOLD, link.flush()).await;
                }
                return end;
            }
            set_timer(timer.as_mut(), self.next_due());
            tokio::select! {
                _ = self.stop.changed() => {}
                () = &mut timer => {}
                heard = link.hear() => {
                    if let Some(closed) = self.take_in(heard) {
                        return End::Gone(closed);
                    }
                    while let Some(heard) = link.hear_at_once() {
                        if let Some(closed) = self.take_in(heard) {
                            return End::Gone(closed);
                        }
                    }
                }
            }
        }
    }

    /// Does what is due now.
    fn work(&mut self, link: &mut Link) -> Option<End> {
        let now = Instant::now();
        let stop = *self.stop.borrow_and_update();
        match stop {
            Stop::Not => {}
            Stop::AfterSentence => self.speaking.stop_between(),
            Stop::Now if self.speaking.stop() => self.finish_sentence(link),
            Stop::Now => {}
        }
        if let Some(leave_by) = self.leave_by {
            // What is open may still end here; what is not said yet is said elsewhere.
            let ended = self.open() == 0 && self.all_told();
            return (ended || now >= leave_by).then_some(End::Leaves);
        }
        while let Some((due, since)) = self.speaking.take(now, self.open() == 0) {
            self.tell(Happening::Late(now.duration_since(since).as_micros() as u64));
            match due {
                Due::Piece { audio, first } => {
                    let frame = lock(&self.session).say(None, audio, false).1;
                    put(link, frame);
                    if first {
                        self.tell(Happening::Begins);
                    }
                }
                Due::Final => self.finish_sentence(link),
            }
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + self.heartbeat_every;
            let message = json!({ "type": "client_heartbeat", "timestamp": epoch_ms(),
                                  "session_id": lock(&self.session).voice.session_id });
            link.send_json(&message);
        }
        if let Some(due) = self.silent_at().filter(|due| *due <= now) {
            // If its own process stood still, it has not listened yet.
            if now.duration_since(due) < STOOD_STILL {
                return Some(End::Silent);
            }
            self.last_heard = now;
        }
        if self.speaking.is_over() {
            let wait_until = *self.wait_until.get_or_insert(now + self.script.patience);
            if self.open() == 0 || now >= wait_until {
                return Some(End::Finished);
            }
        }
        None
    }

    fn finish_sentence(&mut self, link: &mut Link) {
        let frame = lock(&self.session).say(None, bytes::Bytes::new(), true).1;
        put(link, frame);
        self.tell(Happening::Said);
    }

    fn next_due(&self) -> Instant {
        let speaking = self.speaking.due(self.open() == 0).filter(|_| self.leave_by.is_none());
        let others = [speaking, self.leave_by, self.wait_until, self.silent_at()];
        others.into_iter().flatten().fold(self.next_heartbeat, Instant::min)
    }

    /// When the scheduler will have been silent for too long.
    fn silent_at(&self) -> Option<Instant> {
        self.options.persistence.silence_limit.map(|limit| self.last_heard + limit)
    }

    fn write(&self, event: &str, fields: impl FnOnce() -> Value) {
        if let Some(journal) = &self.options.journal {
            journal.write(event, fields());
        }
    }

    /// Handles what was heard; gives how the connection ended, if it did.
    fn take_in(&mut self, heard: Heard) -> Option<Closed> {
        self.last_heard = Instant::now();
        let text = match heard {
            Heard::Text(text) => text,
            Heard::Binary(_) => return None,
            Heard::Ended(closed) => return Some(closed),
        };
        let at_us = monotonic_us();
        let message: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answered = lock(&self.session).hear(at_us, &message);
        if let Some(answered) = answered {
            (self.watcher)(at_us, Happening::Answered(answered));
        }
        (self.watcher)(at_us, Happening::Message(&message));
        self.last_index = self.last_index.max(message["utterance_index"].as_u64());
        match message["type"].as_str() {
            Some("backpressure") => self.obey(&message),
            // An existing client shows what it is told in words, and obeys nothing of it.
            Some("error" | "go_away") if self.options.is_existing() => {}
            Some("error") => {
                if let Some(ms) = message["retry_after_ms"].as_u64() {
                    self.speaking.hold(Instant::now() + Duration::from_millis(ms));
                }
            }
            Some("go_away") => {
                let left = time_left(message["deadline_ms"].as_u64().unwrap_or(0));
                // With some time to spare, and not all speakers at the same moment.
                let share = rand::random_range(0.5..0.8);
                self.leave_by = Some(Instant::now() + left.mul_f64(share));
            }
            _ => {}
        }
        None
    }

    fn obey(&mut self, message: &Value) {
        let asked = message["resume_after_ms"].as_u64().map(Duration::from_millis);
        let until = Instant::now() + asked.unwrap_or(HOLD);
        match message["action"].as_str() {
            Some("SLOW_DOWN") => self.speaking.slow_down(until),
            _ => self.speaking.hold(until),
        }
    }

    /// Closes the session politely, and then the connection.
    async fn close(&mut self, mut link: Link) {
        let session_id = lock(&self.session).voice.session_id.clone();
        link.send_json(&json!({ "type": "session_close", "session_id": session_id,
                                "reason": "done" }));
        let ended = async {
            loop {
                let heard = link.hear().await;
                let acked =
                    matches!(&heard, Heard::Text(text) if text.contains("session_close_ack"));
                if self.take_in(heard).is_some() || acked {
                    return;
                }
            }
        };
        // One that does not answer is left all the same.
        if timeout(CLOSE_LIMIT.min(HANDSHAKE_LIMIT), ended).await.is_ok() {
            link.close(1000, "").await;
        }
    }

    /// Everything that the scheduler told of has ended: it may have cut what was being said.
    fn all_told(&self) -> bool {
        self.last_index.is_none_or(|last| lock(&self.session).checker.next_index() > last)
    }

    fn open(&self) -> usize {
        lock(&self.session).checker.open()
    }

    fn tell(&mut self, happening: Happening<'_>) {
        (self.watcher)(monotonic_us(), happening);
    }
}

fn put(link: &mut Link, frame: Frame) {
    match frame {
        Frame::Text(text) => link.send_text(text),
        Frame::Binary(bytes) => link.send_binary(bytes),
    }
}

/// Until that date, or that long if it is no date.
fn time_left(deadline_ms: u64) -> Duration {
    const A_DATE: u64 = 1_000_000_000_000;
    let left =
        if deadline_ms >= A_DATE { deadline_ms.saturating_sub(epoch_ms()) } else { deadline_ms };
    Duration::from_millis(left)
}

/// Moves a timer; one that stands right already costs nothing.
fn set_timer(timer: Pin<&mut Sleep>, due: Instant) {
    if timer.deadline() != due || timer.is_elapsed() {
        timer.reset(due);
    }
}
