//! People speak, and every sentence comes back once in each target language, in order.
//!
//! Every session is a task of its own ([`actor`]) around the core's state machine, which decides. It owns
//! the client's connection while there is one and goes on without it for as long as the client may
//! come back. One timer a session is all it needs, in the runtime's own wheel.
//!
//! - [`connection`]: the client's connection. [`inbound`], [`outbound`]: the messages on it. [`options`]: how
//!   speech is to be worked on. [`commands`]: what else a session receives.
//! - `handle`: what the instance knows of a session, and how it is asked. `registry`: the sessions of this
//!   instance. `resume`: a client comes back. `ownership`: who owns a session, in the store. `handover`:
//!   what goes along when a session moves to another instance.
//! - `actor`: the task. `attachment`: its client's connection. `effects`: what the machine wants done.
//!   `job_specs`: from an utterance to its jobs. `open_job`, `job_news`: what becomes of them. `context`: the last sentences. `joining`: pieces that come as whole
//!   utterances. `notices`: what else the client is sent, `error_throttle` how often. `saving`: what is
//!   written to the store, in the form of `saved_state`.
//!
//! Sessions of clients that cannot come back are known to nobody but their own task: the store has
//! an owner and a state only for those that can.

pub mod commands;
pub mod connection;
pub mod inbound;
pub mod options;
pub mod outbound;
mod actor;
mod attachment;
mod context;
mod effects;
mod error_throttle;
mod handle;
mod handover;
mod job_news;
mod job_specs;
mod joining;
mod notices;
mod open_job;
mod ownership;
mod registry;
mod resume;
mod saved_state;
mod saving;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lingua_core::outcome::Code;
use lingua_core::session::{self, Session};
use lingua_core::time::millis;
use lingua_core::{JobId, Moment, SessionId, SessionKey, TenantId};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::job::{Ended, Refusal, store_down};
use crate::jobs::Dispatcher;
use crate::shared::Shared;
use actor::Actor;
use commands::SaveOutcome;
use connection::{ClientConnection, NotOpened};
use inbound::Opening;
use open_job::Answer;
use registry::Registration;
use resume::{Resumed, ResumesUnderWay};
use saved_state::Clocks;

pub use handle::SessionHandle;

/// The service of sessions.
pub struct Sessions {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Arc<Dispatcher>,
    open: Mutex<Open>,
    resumes: ResumesUnderWay,
    draining: AtomicBool,
    /// Where the machines' clock begins.
    began: Instant,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<SessionKey, Arc<SessionHandle>, lingua_core::hash::Quality>,
    tenants: HashMap<TenantId, usize>,
}

impl Sessions {
    pub(crate) fn new(shared: Arc<Shared>, jobs: Arc<Dispatcher>) -> Self {
        Sessions {
            shared,
            jobs,
            open: Mutex::default(),
            resumes: ResumesUnderWay::default(),
            draining: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// Opens a session on this connection, or gives the client back the one that it had.
    pub async fn open(
        self: &Arc<Self>,
        opening: Opening,
        connection: Box<dyn ClientConnection>,
    ) -> Result<(), NotOpened> {
        let settings = match self.check(&opening) {
            Ok(settings) => settings,
            Err(refusal) => {
                self.shared.metrics.opened("refused");
                let quiet = opening.supports.existing && refusal.code == Code::Draining;
                return Err(NotOpened { connection, refusal, quiet });
            }
        };
        let token =
            opening.resume.as_ref().and_then(|resume| self.read_token(&opening, &resume.token));
        let (connection, opening, recovered) = match token {
            None => {
                let recovered = opening.resume.is_some().then_some(false);
                (connection, opening, recovered)
            }
            Some(token) => match self.resume(token, opening, connection, &settings).await {
                Resumed::Yes => {
                    self.shared.metrics.opened("resumed");
                    return Ok(());
                }
                Resumed::No(connection, opening) => (connection, *opening, Some(false)),
                Resumed::Later(connection, error) => {
                    self.shared.metrics.opened("refused");
                    let refusal = store_down(&error);
                    return Err(NotOpened { connection, refusal, quiet: false });
                }
            },
        };
        if recovered.is_some() {
            self.shared.metrics.resumed("not");
        }
        match self.begin(&opening, settings).await {
            Ok(actor) => {
                self.shared.metrics.opened("new");
                actor.begin(connection, recovered);
                Ok(())
            }
            Err(refusal) => {
                self.shared.metrics.opened("refused");
                Err(NotOpened { connection, refusal, quiet: false })
            }
        }
    }

    /// What the session would be, if it may be at all.
    fn check(&self, opening: &Opening) -> Result<session::Settings, Refusal> {
        if self.draining.load(Ordering::Relaxed) {
            let detail = "this instance is stopping; use another one";
            return Err(Refusal::new(Code::Draining, detail).retry_after(500));
        }
        let profile = self.shared.settings.profile_of(opening.options.profile, &opening.tenant);
        let timing = &self.shared.settings.timing_of(profile);
        let bounds = self.shared.settings.sessions;
        let ms = Duration::from_millis;
        let settings = session::Settings {
            pause: ms(timing.pause_ms),
            max_utterance: ms(timing.max_utterance_ms),
            max_utterance_bytes: self.shared.settings.max_audio_bytes,
            max_held_bytes: bounds.held_bytes,
            max_open_jobs: bounds.open_utterances,
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
        // Registered first: a session that is refused leaves nothing in the store.
        let registration = self.register(&key, opening)?;
        let mut epoch = 1;
        if opening.supports.resume {
            let (ttl, claiming) = (self.owner_ttl(), registration.handle.begin_claim());
            let claim = self.shared.store.owners.claim(&key, &self.shared.instance, ttl).await;
            epoch = claim.map_err(|error| store_down(&error))?.epoch;
            claiming.got(epoch);
        }
        registration.handle.set_epoch(epoch);
        let routes = opening.options.routes.clone();
        let seed = self.shared.secret.turn_seed(&key);
        let machine = Session::new(settings, epoch, routes, seed, self.now())
            .map_err(|error| Refusal::new(Code::InvalidMessage, error.to_string()))?;
        let trace_id = self.trace_id(opening);
        if opening.supports.resume {
            // Before the client has its token: from then on it may come back anywhere.
            let state = saved_state::write(&machine.saved(), 0, &trace_id, &[], self.clocks());
            let saved = Arc::clone(self).save(key.clone(), epoch, state).await;
            if saved != SaveOutcome::Done {
                let lost = lingua_store::Error::Down("a new session was not saved".to_owned());
                return Err(store_down(&lost));
            }
        }
        Ok(self.actor(registration, machine, opening, trace_id))
    }

    fn actor(
        self: &Arc<Self>,
        registration: Registration,
        machine: Session<Answer>,
        opening: &Opening,
        trace_id: String,
    ) -> Actor {
        Actor::new(Arc::clone(self), registration, machine, opening, trace_id)
    }

    fn trace_id(&self, opening: &Opening) -> String {
        let made = || format!("{:032x}", self.shared.chance.nonce());
        opening.trace_id.clone().unwrap_or_else(made)
    }

    /// Tells a session of this instance that one of its jobs is over; gives that back if it is not
    /// here.
    pub(crate) async fn tell_job(
        &self,
        key: &SessionKey,
        job: JobId,
        ended: Ended,
    ) -> Result<(), Ended> {
        let handle = self.open.lock().sessions.get(key).cloned();
        let Some(handle) = handle else { return Err(ended) };
        handle.job_ended(job, ended).await
    }

    /// Another instance has a session.
    pub(crate) fn moved(&self, tenant: TenantId, session: SessionId, epoch: u64) {
        let key = SessionKey::new(tenant, session);
        let handle = self.open.lock().sessions.get(&key).cloned();
        if let Some(handle) = handle.filter(|handle| !handle.is_ours(epoch)) {
            handle.superseded();
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
    pub fn all(&self) -> Vec<Arc<SessionHandle>> {
        self.open.lock().sessions.values().cloned().collect()
    }

    /// The sessions of this name, of whichever tenant.
    pub fn named(&self, session: &SessionId, tenant: Option<&TenantId>) -> Vec<Arc<SessionHandle>> {
        let is_it = |key: &SessionKey| {
            key.session() == session && tenant.is_none_or(|tenant| key.tenant() == tenant)
        };
        let open = self.open.lock();
        open.sessions.values().filter(|handle| is_it(&handle.key)).cloned().collect()
    }

    /// So many of those wanted behind `after`, by name, and how many are wanted in all.
    pub fn page(
        &self,
        after: Option<&SessionId>,
        limit: usize,
        wanted: impl Fn(&SessionHandle) -> bool,
    ) -> (Vec<Arc<SessionHandle>>, usize) {
        let mut page = self.all();
        page.retain(|handle| wanted(handle));
        let total = page.len();
        page.retain(|handle| after.is_none_or(|after| handle.key.session() > after));
        let order =
            |a: &Arc<SessionHandle>, b: &Arc<SessionHandle>| a.key.session().cmp(b.key.session());
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
        let tell = |handle: Arc<SessionHandle>| async move { handle.drain().await };
        futures_util::stream::iter(all).for_each_concurrent(None, tell).await;
    }

    /// Waits for their end for so long, then for no more.
    pub(crate) async fn end_within(&self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.count() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for handle in self.all() {
            handle.abandon();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
