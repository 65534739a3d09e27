//! The task of a speaker that speaks by itself, over as many connections as it takes.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::speaking::{Due, Speaking};
use super::{Ended, Happening, Stop, Watcher};
use crate::clock::epoch_ms;
use crate::link::{Closed, ConnectError, HANDSHAKE_LIMIT, Heard, Link};
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
}

/// How the service on one connection ended.
enum End {
    Gone(Closed),
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
        }
    }

    /// Connects and opens or resumes the session.
    pub async fn connect(&mut self) -> anyhow::Result<Link> {
        let continuing = lock(&self.session).voice.continuing();
        let mut link = dial(&self.options).await?;
        link.send_json(&self.options.init(continuing.as_ref()));
        let ack = SessionAck::read(link.answer().await?)?;
        let again = lock(&self.session).opened(&ack);
        again.into_iter().for_each(|frame| put(&mut link, frame));
        if ack.recovered != Some(true) {
            self.last_index = None;
            self.speaking.repeat_sentence(Instant::now());
        }
        self.heartbeat_every =
            ack.heartbeat_interval_ms.map_or(HEARTBEAT, Duration::from_millis).max(HOLD);
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
                    return Ended::Finished;
                }
                End::Leaves => RECONNECT_AFTER,
                End::Gone(closed) => {
                    self.tell(Happening::Lost(&closed));
                    if !self.script.reconnect || closed.is_final() {
                        return Ended::GivenUp(format!("the connection ended {closed}"));
                    }
                    closed.retry_after().unwrap_or(RECONNECT_AFTER)
                }
            };
            drop(link);
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
            sleep(after.mul_f64(rand::random_range(0.5..1.5))).await;
            let error = match self.connect().await {
                Ok(link) => return Ok(link),
                Err(error) => error,
            };
            let unwanted = error.downcast_ref::<ConnectError>().is_some_and(ConnectError::is_final);
            if unwanted || Instant::now() >= give_up_at {
                return Err(error);
            }
            self.tell(Happening::NotYet(&error));
            after = (after * 2).clamp(RECONNECT_AFTER, RECONNECT_AFTER_AT_MOST);
        }
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
        let others = [speaking, self.leave_by, self.wait_until];
        others.into_iter().flatten().fold(self.next_heartbeat, Instant::min)
    }

    /// Handles what was heard; gives how the connection ended, if it did.
    fn take_in(&mut self, heard: Heard) -> Option<Closed> {
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
