//! People speak, and every sentence comes back once, in order.
//!
//! Every conversation is a task of its own ([`actor`]) around the core's machine, which decides. It
//! owns the client's line while there is one and goes on without it for as long as the client may
//! come back. One timer a session is all it needs, in the runtime's own wheel.
//!
//! - [`words`]: what the door and a session say to each other. [`mail`]: what else a session hears.
//! - `handover`: what goes along when a session goes to another instance.
//! - `actor`: the task. `making`: from an utterance to its job and back. `saving`: what the next
//!   owner needs.
//!
//! Sessions of clients that cannot come back are known to nobody but their own task: the store has
//! an owner and a state only for those that can.

pub mod mail;
pub mod words;
mod actor;
mod handover;
mod making;
mod saving;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lingua_core::eligibility::Route;
use lingua_core::outcome::Code;
use lingua_core::session::{self, Routes, Session};
use lingua_core::time::millis;
use lingua_core::{JobId, Moment, SessionId, SessionKey, TenantId};
use lingua_store::Status;
use lingua_store::nodes::Fenced;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::words::PeerWord;
use crate::dispatch::Dispatcher;
use crate::job::{Ended, Refusal};
use crate::shared::Shared;
use crate::tasks;
use actor::Actor;
use mail::{Attach, Letterbox, SaveOutcome, ToSession, mailbox};
use saving::Clocks;
use words::{Line, NotOpened, Opening};

/// Renewals under way at the same time.
const RENEWALS: usize = 64;

/// In how many slices of its time all owners are renewed.
const SLICES: u32 = 20;

/// For a session to take its client's new line. It takes mail whenever its line takes what it says,
/// and a line that does not is given up within that time.
const ATTACH: Duration = Duration::from_secs(5);

/// The service of sessions.
pub struct Sessions {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Arc<Dispatcher>,
    open: Mutex<Open>,
    draining: AtomicBool,
    /// Where the machines' clock begins.
    began: Instant,
}

/// An epoch is asked for until this is dropped.
struct Asking<'a>(&'a Handle);

impl Asking<'_> {
    fn got(&self, epoch: u64) {
        self.0.claimed.fetch_max(epoch, Ordering::Relaxed);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Release);
    }
}

#[derive(Default)]
struct Open {
    sessions: HashMap<SessionKey, Arc<Handle>, foldhash::quality::RandomState>,
    tenants: HashMap<TenantId, usize>,
}

/// A session of this instance.
pub struct Handle {
    /// Which.
    pub key: SessionKey,
    letterbox: Letterbox,
    /// It is in the store's table of owners.
    owned: bool,
    epoch: AtomicU64,
    former: AtomicU64,
    /// The newest epoch that this instance got for it, which its line may not have yet.
    claimed: AtomicU64,
    /// How many of its lines ask for one at this moment.
    asking: AtomicUsize,
    connected: AtomicBool,
    utterances: AtomicU64,
    /// When it came to this instance, in epoch milliseconds.
    pub since_ms: u64,
    /// The direction it was opened with.
    pub route: Route,
}

impl Handle {
    /// Another line of it: its epoch, and with it the one before.
    fn set_epoch(&self, epoch: u64) {
        let former = self.epoch.swap(epoch, Ordering::Relaxed);
        if former != epoch {
            self.former.store(former, Ordering::Relaxed);
        }
    }

    /// The epoch of the line before the present one; zero if there was none.
    fn former(&self) -> u64 {
        self.former.load(Ordering::Relaxed)
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Whether this instance itself got this epoch for it, or may have. If it did not, the next renewal
    /// finds out.
    pub(crate) fn is_ours(&self, epoch: u64) -> bool {
        // In this order: who asked has said what it got before it asks no more.
        self.asking.load(Ordering::Acquire) > 0 || epoch <= self.claimed.load(Ordering::Relaxed)
    }

    /// While somebody asks for an epoch, a newer one in the store is no sign of another owner.
    fn ask(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(self)
    }

    fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    fn count_utterance(&self) {
        self.utterances.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether its client is there.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Utterances so far.
    pub fn utterances(&self) -> u64 {
        self.utterances.load(Ordering::Relaxed)
    }
}

impl Sessions {
    pub(crate) fn new(shared: Arc<Shared>, jobs: Arc<Dispatcher>) -> Self {
        Sessions {
            shared,
            jobs,
            open: Mutex::default(),
            draining: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// Opens a session on this line, or gives the client back the one that it had.
    pub async fn open(
        self: &Arc<Self>,
        opening: Opening,
        line: Box<dyn Line>,
    ) -> Result<(), NotOpened> {
        let settings = match self.check(&opening) {
            Ok(settings) => settings,
            Err(refusal) => {
                self.shared.metrics.opened("refused");
                return Err(NotOpened { line, refusal });
            }
        };
        let token =
            opening.resume.as_ref().and_then(|resume| self.read_token(&opening, &resume.token));
        let (line, opening, recovered) = match token {
            None => {
                let recovered = opening.resume.is_some().then_some(false);
                (line, opening, recovered)
            }
            Some(token) => match self.resume(token, opening, line, &settings).await {
                Resumed::Yes => {
                    self.shared.metrics.opened("resumed");
                    return Ok(());
                }
                Resumed::No(line, opening) => (line, opening, Some(false)),
            },
        };
        if recovered.is_some() {
            self.shared.metrics.resumed("not");
        }
        match self.begin(&opening, settings).await {
            Ok(actor) => {
                self.shared.metrics.opened("new");
                actor.begin(line, recovered);
                Ok(())
            }
            Err(refusal) => {
                self.shared.metrics.opened("refused");
                Err(NotOpened { line, refusal })
            }
        }
    }

    /// What the session would be, if it may be at all.
    fn check(&self, opening: &Opening) -> Result<session::Settings, Refusal> {
        if self.draining.load(Ordering::Relaxed) {
            let detail = "this instance is stopping; use another one";
            return Err(Refusal::new(Code::Draining, detail).retry_after(500));
        }
        let timing = &self.shared.settings.timing;
        let bounds = self.shared.settings.sessions;
        let ms = Duration::from_millis;
        let settings = session::Settings {
            pause: ms(timing.pause_ms),
            max_utterance: ms(timing.max_utterance_ms),
            max_utterance_bytes: self.shared.settings.max_audio_bytes,
            max_held_bytes: bounds.held_bytes,
            max_open_utterances: bounds.open_utterances,
            max_kept_endings: if opening.supports.resume { bounds.kept_endings } else { 0 },
            result_deadline: ms(timing.deadline_ms),
            resume_window: ms(if opening.supports.resume { timing.resume_window_ms } else { 0 }),
            trust_seq: opening.supports.resume || opening.supports.audio_ack,
            ..session::Settings::default()
        };
        settings
            .overridden(opening.pause, opening.max_utterance)
            .map_err(|error| Refusal::new(Code::InvalidMessage, error.to_string()))
    }

    async fn begin(
        self: &Arc<Self>,
        opening: &Opening,
        settings: session::Settings,
    ) -> Result<Actor, Refusal> {
        let id = SessionId::new(format!("s-{:020x}", self.shared.chance.nonce() >> 48))
            .expect("hexadecimal is within an id's letters");
        let key = SessionKey::new(opening.tenant.clone(), id);
        // A place first: who is refused one leaves nothing in the store.
        let seat = self.seat(&key, opening)?;
        let mut epoch = 1;
        if opening.supports.resume {
            let (ttl, asking) = (self.owner_ttl(), seat.handle.ask());
            let claim = self.shared.store.owners.claim(&key, &self.shared.instance, ttl).await;
            epoch = claim.map_err(|error| Refusal::store_down(&error))?.epoch;
            asking.got(epoch);
        }
        seat.handle.set_epoch(epoch);
        let routes = Routes::one(opening.manner.route);
        let seed = self.shared.secret.turn_seed(&key);
        let machine = Session::new(settings, epoch, routes, seed, self.now())
            .map_err(|error| Refusal::new(Code::InvalidMessage, error.to_string()))?;
        let trace_id = self.trace_id(opening);
        if opening.supports.resume {
            // Before the client has its token: from then on it may come back anywhere.
            let state = saving::write(&machine.saved(), 0, &trace_id, &[], self.clocks());
            let saved = Arc::clone(self).save(key.clone(), epoch, state).await;
            if saved != SaveOutcome::Done {
                let lost = lingua_store::Error::Down("a new session was not saved".to_owned());
                return Err(Refusal::store_down(&lost));
            }
        }
        Ok(self.actor(seat, machine, opening, trace_id))
    }

    fn actor(
        self: &Arc<Self>,
        seat: Seat,
        machine: Session<making::Answer>,
        opening: &Opening,
        trace_id: String,
    ) -> Actor {
        Actor::new(Arc::clone(self), seat, machine, opening, trace_id)
    }

    /// Gives the session a place, if there is one.
    fn seat(self: &Arc<Self>, key: &SessionKey, opening: &Opening) -> Result<Seat, Refusal> {
        let bounds = self.shared.settings.sessions;
        let (letterbox, mailbox) = mailbox();
        let handle = Arc::new(Handle {
            key: key.clone(),
            letterbox,
            owned: opening.supports.resume,
            epoch: AtomicU64::new(0),
            former: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            connected: AtomicBool::new(true),
            utterances: AtomicU64::new(0),
            since_ms: self.shared.clock.now().as_millis(),
            route: opening.manner.route,
        });
        let mut open = self.open.lock();
        let full = |limit: &'static str, what: &str, most: usize| {
            self.shared.metrics.limited(limit);
            let detail = format!("{what} has {most} sessions open, which is as many as may be");
            Err(Refusal::new(Code::QuotaExceeded, detail).retry_after(5_000))
        };
        if open.sessions.len() >= bounds.total {
            return full("sessions", "this instance", bounds.total);
        }
        let tenant = open.tenants.entry(handle.key.tenant().clone()).or_default();
        if *tenant >= bounds.per_tenant {
            return full("sessions_per_tenant", "the tenant", bounds.per_tenant);
        }
        *tenant += 1;
        open.sessions.insert(handle.key.clone(), Arc::clone(&handle));
        self.shared.metrics.sessions.set(open.sessions.len() as i64);
        drop(open);
        Ok(Seat { service: Arc::clone(self), handle, mailbox: Some(mailbox) })
    }

    fn leave_seat(&self, handle: &Arc<Handle>) {
        let mut open = self.open.lock();
        let ours = open.sessions.get(&handle.key).is_some_and(|known| Arc::ptr_eq(known, handle));
        if ours {
            open.sessions.remove(&handle.key);
        }
        let tenant = handle.key.tenant();
        if let Some(count) = open.tenants.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                open.tenants.remove(tenant);
            }
        }
        self.shared.metrics.sessions.set(open.sessions.len() as i64);
    }

    /// A session's task is over; `left` is what the next owner would need, if there may be one.
    pub(crate) fn over(self: &Arc<Self>, handle: &Arc<Handle>, left: Left) {
        if left == Left::Taken || !handle.owned || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (service, handle) = (Arc::clone(self), Arc::clone(handle));
        tasks::start(async move {
            let (key, epoch, owners) = (&handle.key, handle.epoch(), &service.shared.store.owners);
            // If this fails, the lease lapses by itself.
            let _ = match left {
                Left::State(state) => service.clone().save(key.clone(), epoch, state).await,
                _ => {
                    let _ = owners.save(key, epoch, saving::OVER, OVER_FOR).await;
                    SaveOutcome::Done
                }
            };
            let _ = owners.release(key, epoch).await;
        });
    }

    async fn resume(
        self: &Arc<Self>,
        token: Token,
        opening: Opening,
        line: Box<dyn Line>,
        settings: &session::Settings,
    ) -> Resumed {
        let Token { key, epoch } = token;
        let local = self.open.lock().sessions.get(&key).cloned();
        let (line, opening) = match local {
            // What the store knows may be a line behind, and is not asked about a spent token.
            Some(handle) if epoch < handle.former() => {
                self.shared.metrics.resumed("spent_token");
                return Resumed::No(line, opening);
            }
            Some(handle) => match self.resume_here(&handle, opening, line).await {
                // Another instance had it in between, and may have it still.
                Resumed::No(line, opening) => (line, opening),
                Resumed::Yes => return Resumed::Yes,
            },
            None => (line, opening),
        };
        self.take_over(key, epoch, opening, line, settings).await
    }

    /// The session is on this instance, if nobody else got it meanwhile.
    async fn resume_here(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        opening: Opening,
        line: Box<dyn Line>,
    ) -> Resumed {
        let (owners, instance) = (&self.shared.store.owners, &self.shared.instance);
        let ttl = self.owner_ttl();
        let held = owners.renew(&handle.key, instance, handle.epoch(), ttl).await;
        let is_elsewhere =
            matches!(held, Ok(Fenced::Superseded { epoch }) if !handle.is_ours(epoch));
        let epoch = match held {
            Ok(_) if is_elsewhere => {
                let _ = handle.letterbox.send(Box::new(ToSession::Superseded)).await;
                // Its place is taken over once it is gone.
                handle.letterbox.closed().await;
                return Resumed::No(line, opening);
            }
            Ok(_) => {
                let asking = handle.ask();
                let claimed = owners.claim(&handle.key, instance, ttl).await;
                claimed.inspect(|claimed| asking.got(claimed.epoch))
            }
            Err(error) => Err(error),
        };
        // Without the store it goes on as it was: nobody else can have it either.
        let epoch = epoch.map_or_else(|_| handle.epoch(), |claimed| claimed.epoch);
        let attach = Box::new(ToSession::Attach(Attach { line, opening, epoch }));
        match handle.letterbox.send_timeout(attach, ATTACH).await {
            Ok(()) => Resumed::Yes,
            Err(error) => match *error.into_inner() {
                ToSession::Attach(attach) => Resumed::No(attach.line, attach.opening),
                _ => unreachable!("it is what was sent"),
            },
        }
    }

    /// The session is on another instance, or its instance is gone.
    async fn take_over(
        self: &Arc<Self>,
        key: SessionKey,
        named: u64,
        opening: Opening,
        line: Box<dyn Line>,
        settings: &session::Settings,
    ) -> Resumed {
        let (owners, instance) = (&self.shared.store.owners, &self.shared.instance);
        let routes = Routes::one(opening.manner.route);
        let known = match owners.load(&key).await {
            Ok(Some(saved)) => saving::read(&saved, routes.clone(), self.clocks()),
            _ => None,
        };
        // Of an earlier life than the last two nobody has an honest token.
        let known = known.is_some_and(|left| named >= left.former);
        if !known || !opening.supports.resume {
            return Resumed::No(line, opening);
        }
        let Ok(seat) = self.seat(&key, &opening) else { return Resumed::No(line, opening) };
        let asking = seat.handle.ask();
        let Ok(claimed) = owners.claim(&key, instance, self.owner_ttl()).await else {
            return Resumed::No(line, opening);
        };
        asking.got(claimed.epoch);
        drop(asking);
        // All are told, for a store that lost its data does not know who had it.
        for (peer, _) in self.shared.post.peers() {
            let (tenant, session) = (key.tenant().clone(), key.session().clone());
            let word = PeerWord::SessionMoved { tenant, session, epoch: claimed.epoch };
            let _ = self.shared.post.send(&peer, word);
        }
        // From now on the owner before changes nothing, so this is its last word.
        let saved = match owners.load(&key).await {
            Ok(Some(saved)) => saving::read(&saved, routes, self.clocks()),
            _ => None,
        };
        let Some(left) = saved else {
            tracing::warn!(session.id = %key.session(), "a saved session could not be read");
            return Resumed::No(line, opening);
        };
        seat.handle.set_epoch(left.state.epoch);
        let seed = self.shared.secret.turn_seed(&key);
        let restored =
            Session::restore(settings.clone(), left.state, claimed.epoch, seed, self.now());
        let Ok((machine, effects)) = restored else { return Resumed::No(line, opening) };
        let actor = self.actor(seat, machine, &opening, left.trace);
        let attach = Attach { line, opening, epoch: claimed.epoch };
        self.look_after_inherited(&key, left.jobs.iter().map(|job| job.id).collect());
        actor.take_over(left.jobs, effects, attach);
        Resumed::Yes
    }

    /// What a client comes back with: the session's name, the epoch of the line that it was given
    /// on, and a mark that only we can make. Every line has another; those of the last line and of
    /// the one before are good, since the client may not have heard of the last.
    pub(crate) fn token(&self, handle: &Handle) -> String {
        let (session, epoch) = (handle.key.session(), handle.epoch());
        let text = format!("resume {} {session} {epoch:x}", handle.key.tenant());
        format!("{session}.{epoch:x}.{}", self.shared.secret.sign(&text))
    }

    fn read_token(&self, opening: &Opening, token: &str) -> Option<Token> {
        let (named, mark) = token.rsplit_once('.')?;
        let (session, epoch) = named.rsplit_once('.')?;
        let session = SessionId::new(session).ok()?;
        let epoch = u64::from_str_radix(epoch, 16).ok()?;
        let text = format!("resume {} {session} {epoch:x}", opening.tenant);
        let right = self.shared.secret.verify(&text, mark);
        right.then(|| Token { key: SessionKey::new(opening.tenant.clone(), session), epoch })
    }

    fn trace_id(&self, opening: &Opening) -> String {
        let made = || format!("{:032x}", self.shared.chance.nonce());
        opening.trace_id.clone().unwrap_or_else(made)
    }

    fn owner_ttl(&self) -> Duration {
        Duration::from_millis(self.shared.settings.timing.owner_ttl_ms)
    }

    pub(crate) async fn save(
        self: Arc<Self>,
        key: SessionKey,
        epoch: u64,
        state: Vec<u8>,
    ) -> SaveOutcome {
        let timing = &self.shared.settings.timing;
        // As long as somebody may come back, counted from the last word of a dead instance.
        let keep = Duration::from_millis(timing.resume_window_ms + timing.deadline_ms) + SAVE_AGAIN;
        match self.shared.store.owners.save(&key, epoch, &state, keep).await {
            Ok(Fenced::Done) => SaveOutcome::Done,
            Ok(Fenced::Superseded { epoch }) => SaveOutcome::Stale { epoch },
            // The store lost the owner; the next renewal brings it back.
            Ok(Fenced::Unknown) => SaveOutcome::Failed,
            Err(error) => {
                tracing::debug!(%error, "a session is saved later");
                SaveOutcome::Failed
            }
        }
    }

    /// Tells a session of this instance that one of its jobs is over; gives that back if it is not
    /// here.
    pub(crate) fn tell_job(&self, key: &SessionKey, job: JobId, ended: Ended) -> Result<(), Ended> {
        let handle = self.open.lock().sessions.get(key).cloned();
        let Some(handle) = handle else { return Err(ended) };
        let word = Box::new(ToSession::Ended(job, ended));
        handle.letterbox.try_send(word).map_err(|back| match *back.into_inner() {
            ToSession::Ended(_, ended) => ended,
            _ => unreachable!("it is what was sent"),
        })
    }

    /// Another instance has a session.
    pub(crate) fn moved(&self, tenant: TenantId, session: SessionId, epoch: u64) {
        let key = SessionKey::new(tenant, session);
        let handle = self.open.lock().sessions.get(&key).cloned();
        if let Some(handle) = handle.filter(|handle| !handle.is_ours(epoch)) {
            let _ = handle.letterbox.try_send(Box::new(ToSession::Superseded));
        }
    }

    /// The machines' clock.
    pub(crate) fn now(&self) -> Moment {
        Moment::from_millis(millis(self.began.elapsed()))
    }

    pub(crate) fn instant(&self, at: Moment) -> Instant {
        self.began + Duration::from_millis(at.as_millis())
    }

    fn clocks(&self) -> Clocks {
        Clocks { own: self.now(), date: self.shared.clock.now() }
    }

    /// The sessions of this instance.
    pub fn all(&self) -> Vec<Arc<Handle>> {
        self.open.lock().sessions.values().cloned().collect()
    }

    /// So many behind `after`, by name, and how many there are in all.
    pub fn page(&self, after: Option<&SessionId>, limit: usize) -> (Vec<Arc<Handle>>, usize) {
        let mut page = self.all();
        let total = page.len();
        page.retain(|handle| after.is_none_or(|after| handle.key.session() > after));
        let order = |a: &Arc<Handle>, b: &Arc<Handle>| a.key.session().cmp(b.key.session());
        if page.len() > limit {
            page.select_nth_unstable_by(limit, order);
            page.truncate(limit);
        }
        page.sort_unstable_by(order);
        (page, total)
    }

    /// How many there are, and of how many the client is there.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let open = self.open.lock();
        let connected = open.sessions.values().filter(|handle| handle.is_connected()).count();
        (open.sessions.len() as u64, connected as u64)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.lock().sessions.len()
    }

    /// Opens no more sessions, and tells those that are open to come to their end.
    pub(crate) async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        let all = self.all();
        if !all.is_empty() {
            tracing::info!(sessions = all.len(), "asking clients to go elsewhere");
        }
        let tell = |handle: Arc<Handle>| async move {
            let _ = handle.letterbox.send_timeout(Box::new(ToSession::Drain), ATTACH).await;
        };
        futures_util::stream::iter(all).for_each_concurrent(None, tell).await;
    }

    /// Waits for their end for so long, then for no more.
    pub(crate) async fn end_within(&self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.count() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for handle in self.all() {
            let _ = handle.letterbox.try_send(Box::new(ToSession::GiveUp));
        }
    }

    /// Runs until the engine ends: renews the ownership of every session in its time, and brings it
    /// back when the store comes back.
    pub(crate) async fn keep(self: Arc<Self>) {
        let every = Duration::from_millis(self.shared.settings.timing.owner_renew_ms()) / SLICES;
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut status = self.shared.store.status.clone();
        let mut round: Vec<Arc<Handle>> = Vec::new();
        let (mut slice, mut save_again, mut saved_at) = (0, false, Instant::now());
        loop {
            let again = tokio::select! {
                _ = tick.tick() => false,
                changed = status.changed() => match changed {
                    Ok(()) => matches!(*status.borrow_and_update(), Status::Up { .. }),
                    Err(_) => return,
                },
            };
            if again || round.is_empty() {
                save_again = again || saved_at.elapsed() > SAVE_AGAIN / 2;
                if save_again {
                    saved_at = Instant::now();
                }
                round = self.all();
                round.retain(|handle| handle.owned);
                slice = round.len().div_ceil(SLICES as usize);
            }
            let now = if again { round.len() } else { slice.min(round.len()) };
            let some = round.split_off(round.len() - now);
            futures_util::stream::iter(some)
                .for_each_concurrent(RENEWALS, |handle| self.renew(handle, save_again))
                .await;
        }
    }

    async fn renew(&self, handle: Arc<Handle>, save_again: bool) {
        let (key, epoch) = (&handle.key, handle.epoch());
        if epoch == 0 {
            // It is about to get its first.
            return;
        }
        let owners = &self.shared.store.owners;
        match owners.renew(key, &self.shared.instance, epoch, self.owner_ttl()).await {
            // A newer epoch of our own is no news.
            Ok(Fenced::Superseded { epoch: newer }) if !handle.is_ours(newer) => {
                tracing::info!(session.id = %key.session(), "another instance has this session");
                let _ = handle.letterbox.try_send(Box::new(ToSession::Superseded));
            }
            Ok(_) if save_again => {
                let _ = handle.letterbox.try_send(Box::new(ToSession::SaveAgain));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "an owner is renewed later"),
        }
    }
}

/// How long it is remembered that a session ended, rather than nothing.
const OVER_FOR: Duration = Duration::from_secs(1);

/// What is saved lasts so much longer than it must, and idle sessions save again before that.
const SAVE_AGAIN: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests;

/// A place among the sessions of this instance; free again when it is dropped.
pub(crate) struct Seat {
    service: Arc<Sessions>,
    pub(crate) handle: Arc<Handle>,
    mailbox: Option<mail::Mailbox>,
}

impl Seat {
    fn take_mailbox(&mut self) -> mail::Mailbox {
        self.mailbox.take().expect("a seat has one session")
    }

    fn letterbox(&self) -> Letterbox {
        self.handle.letterbox.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.leave_seat(&self.handle);
    }
}

/// What a session that is over leaves behind.
#[derive(PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: nobody is to go on with it.
    Nothing,
    /// What another instance needs to go on.
    State(Vec<u8>),
    /// Another instance has it already.
    Taken,
}

/// What a resume token says.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    key: SessionKey,
    /// Of the line that it was given on.
    epoch: u64,
}

/// What became of a wish to go on.
enum Resumed {
    /// The session has its client back.
    Yes,
    /// There is no such session any more.
    No(Box<dyn Line>, Opening),
}
