//! The store as one instance reaches it: the embedded one, with a way to it that takes its time, loses
//! requests and answers, breaks, and leads to another server after a failover.

mod calls;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use lingua_store::bus::Delivery;
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Error, Result, Status};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::canary::Canary;
use crate::dice::Dice;
use crate::fault::Flaw;
use crate::record::Record;

pub(crate) use servers::{EPOCH_MS, PROMOTION, Servers};

/// After so long without an answer a call ends, and nobody knows whether it was carried out.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A call that is carried out late is so late.
const LATE: Duration = Duration::from_secs(1);

/// Deliveries that may come again.
const MAX_RECEIVED: usize = 16;

/// The way of one instance to the store.
pub(crate) struct Link {
    instance: usize,
    servers: Arc<Servers>,
    record: Arc<Record>,
    canary: Arc<Canary>,
    usual_ms: u64,
    dice: Dice,
    state: Mutex<State>,
    status: watch::Sender<Status>,
    /// Which connection it is; whoever waits for an answer over an earlier one waits in vain.
    connection: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Nothing passes, so many times over.
    cuts: u32,
    late: Duration,
    flaky: Option<(Flaw, u32)>,
    /// The next calls of these names, so many of them.
    next: Vec<(String, Flaw, u32)>,
    /// All calls of these names.
    all: Vec<(String, Flaw)>,
    redelivers: bool,
    received: Vec<Delivery>,
}

impl Link {
    pub fn new(
        instance: usize,
        usual_ms: u64,
        dice: Dice,
        servers: &Arc<Servers>,
        record: &Arc<Record>,
        canary: &Arc<Canary>,
    ) -> Arc<Self> {
        Arc::new(Link {
            instance,
            servers: Arc::clone(servers),
            record: Arc::clone(record),
            canary: Arc::clone(canary),
            usual_ms,
            dice,
            state: Mutex::default(),
            status: watch::Sender::new(Status::Up { connection: 1 }),
            connection: watch::Sender::new(1),
        })
    }

    /// As an engine holds it.
    pub fn backend(self: &Arc<Self>) -> Backend {
        Backend {
            nodes: self.clone(),
            feed: self.clone(),
            orders: self.clone(),
            reputations: self.clone(),
            slots: self.clone(),
            jobs: self.clone(),
            deadlines: self.clone(),
            requests: self.clone(),
            turns: self.clone(),
            owners: self.clone(),
            leaders: self.clone(),
            snapshots: self.clone(),
            presence: self.clone(),
            bus: self.clone(),
            rates: self.clone(),
            revocations: self.clone(),
            history: self.clone(),
            usage: self.clone(),
            closing: None,
            status: self.status.subscribe(),
            pulse: Arc::default(),
            description: "simulated".into(),
        }
    }

    /// Nothing passes from now on. After a while the instance notices.
    pub async fn cut(&self) {
        self.state.lock().cuts += 1;
        sleep(RESPONSE_TIMEOUT + Duration::from_millis(self.dice.below(250))).await;
        if self.state.lock().cuts > 0 {
            self.say_down("no answer");
        }
    }

    /// It passes again, over the same connection or another one.
    pub async fn heal(&self, same_connection: bool) {
        self.state.lock().cuts -= 1;
        if !same_connection {
            self.connection.send_modify(|connection| *connection += 1);
        }
        sleep(Duration::from_millis(self.dice.between(1, 250))).await;
        self.say_up();
    }

    /// The connection breaks: who waits for an answer knows nothing.
    pub fn reset(&self) {
        self.state.lock().cuts += 1;
        self.connection.send_modify(|connection| *connection += 1);
        self.say_down("the connection broke");
    }

    /// Every answer comes so much later. Where that is too late for a ping, the store is taken for down and
    /// up again over the same connection.
    pub fn late(&self, by: Duration) {
        self.state.lock().late = by;
        if by > RESPONSE_TIMEOUT {
            self.say_down("the answer is late");
        }
        if by.is_zero() {
            self.say_up();
        }
    }

    pub fn flaky(&self, how: Option<(Flaw, u32)>) {
        self.state.lock().flaky = how;
    }

    pub fn next_calls(&self, call: &str, how: Flaw, times: u32) {
        self.state.lock().next.push((call.to_owned(), how, times));
    }

    pub fn all_calls(&self, call: &str, how: Flaw, begins: bool) {
        let mut state = self.state.lock();
        match begins {
            true => state.all.push((call.to_owned(), how)),
            false => state.all.retain(|(name, flaw)| name != call || *flaw != how),
        }
    }

    pub fn redeliver(&self, begins: bool) {
        let mut state = self.state.lock();
        state.redelivers = begins;
        state.received.clear();
    }

    fn say_down(&self, reason: &str) {
        self.status.send_if_modified(|status| {
            let was_up = status.is_up();
            *status = Status::Down { reason: reason.to_owned() };
            was_up
        });
    }

    fn say_up(&self) {
        if self.state.lock().cuts > 0 {
            return;
        }
        let up = Status::Up { connection: *self.connection.borrow() };
        self.status.send_if_modified(|status| std::mem::replace(status, up.clone()) != up);
    }

    /// What goes wrong with this call.
    fn flaw(&self, call: &'static str) -> Option<Flaw> {
        let mut state = self.state.lock();
        if let Some(at) = state.next.iter().position(|(name, ..)| name == call) {
            let (_, how, times) = &mut state.next[at];
            let how = *how;
            *times -= 1;
            if *times == 0 {
                state.next.remove(at);
            }
            return Some(how);
        }
        let all = state.all.iter().find(|(name, _)| name == call).map(|(_, how)| *how);
        all.or(state
            .flaky
            .filter(|(_, per_mille)| self.dice.happens(*per_mille))
            .map(|(how, _)| how))
    }

    /// Some time on the way.
    async fn travel(&self) {
        let late = self.state.lock().late;
        let ms = match self.usual_ms {
            0 => self.dice.below(2),
            usual => self.dice.below(usual * 2 + 1),
        };
        match late + Duration::from_millis(ms) {
            Duration::ZERO => {}
            time => sleep(time).await,
        }
    }

    /// Carries a call out, or not, and brings its answer back, or not.
    async fn call<T, F, W>(
        &self,
        call: &'static str,
        show: impl FnOnce(&mut Vec<u8>) + Send,
        work: W,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        W: Fn(Arc<MemoryStore>) -> F + Send + Sync,
    {
        let mut shown = Vec::with_capacity(256);
        show(&mut shown);
        self.canary.stored(call, &shown);
        self.record.call(call);
        let answer = self.ask(call, work).await;
        let outcome = match &answer {
            Ok(_) => "ok",
            Err(Error::Down(_)) => "down",
            Err(Error::Unknown(_)) => "unknown",
            Err(Error::Refused(_)) => "refused",
            Err(Error::Corrupt { .. } | Error::Invalid(_)) => "error",
        };
        let shown = String::from_utf8_lossy(&shown);
        self.record
            .trace(format_args!("i{}", self.instance), format_args!("{call} {outcome} {shown}"));
        answer
    }

    async fn ask<T, F, W>(&self, call: &'static str, work: W) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        W: Fn(Arc<MemoryStore>) -> F + Send + Sync,
    {
        if let Status::Down { reason } = &*self.status.borrow() {
            return Err(Error::Down(reason.clone()));
        }
        let mut connection = self.connection.subscribe();
        let (sent_at, flaw) = (Instant::now(), self.flaw(call));
        let unknown = || Error::Unknown("no answer came".to_owned());
        match flaw {
            Some(Flaw::Down) => return Err(Error::Down("made to fail".to_owned())),
            Some(Flaw::Refused) => return Err(Error::Refused("made to fail".to_owned())),
            _ => self.travel().await,
        }
        let is_cut = || self.state.lock().cuts > 0;
        if connection.has_changed().unwrap_or(true) {
            return Err(unknown());
        }
        if is_cut() || flaw == Some(Flaw::Lost) {
            sleep_until(sent_at + RESPONSE_TIMEOUT).await;
            return Err(unknown());
        }
        if flaw == Some(Flaw::Late) {
            sleep(LATE).await;
        }
        let answer = tokio::select! {
            biased;
            answer = self.carry_out(&work, flaw) => answer,
            _ = connection.changed() => return Err(unknown()),
        };
        let answered_at = Instant::now();
        self.travel().await;
        if connection.has_changed().unwrap_or(true) {
            return Err(unknown());
        }
        if is_cut() || matches!(flaw, Some(Flaw::Unanswered | Flaw::Late)) {
            sleep_until(answered_at + RESPONSE_TIMEOUT).await;
            return Err(unknown());
        }
        answer
    }

    async fn carry_out<T, F, W>(&self, work: &W, flaw: Option<Flaw>) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        W: Fn(Arc<MemoryStore>) -> F + Send + Sync,
    {
        if flaw == Some(Flaw::Twice) {
            let _ = work(self.servers.current()).await;
        }
        work(self.servers.current()).await
    }

    /// Some of what was received comes again, and letters of different senders change places.
    fn shuffled(&self, mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
        let mut state = self.state.lock();
        if !state.redelivers {
            return deliveries;
        }
        let now = Instant::now();
        let again = |delivery: &&Delivery| delivery.live_until > now && self.dice.happens(300);
        let again: Vec<_> = state.received.iter().filter(again).cloned().collect();
        state.received.extend(deliveries.iter().cloned());
        let surplus = state.received.len().saturating_sub(MAX_RECEIVED);
        state.received.drain(..surplus);
        deliveries.splice(0..0, again);
        for at in 1..deliveries.len() {
            if deliveries[at - 1].from != deliveries[at].from && self.dice.happens(300) {
                deliveries.swap(at - 1, at);
            }
        }
        deliveries
    }
}
