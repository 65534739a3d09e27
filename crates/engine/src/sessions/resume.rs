//! A client comes back: to the session that is still here, or to one that another instance had.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use lingua_core::planted::{self, Flaw};
use lingua_core::session::{self, Session};
use lingua_core::{SessionId, SessionKey};
use lingua_protocol::peer::PeerMessage;
use lingua_store::nodes::Fenced;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::commands::Attach;
use super::connection::ClientConnection;
use super::handle::SessionHandle;
use super::inbound::Opening;
use super::{Sessions, saved_state};

/// What a resume token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) key: SessionKey,
    /// Of the line that it was given on.
    pub(super) epoch: u64,
}

/// What became of a wish to go on.
pub(super) enum Resumed {
    /// The session has its client back.
    Yes,
    /// There is no such session any more.
    No(Box<dyn ClientConnection>, Box<Opening>),
    /// Nobody can tell while the store is away: the client keeps its token and asks again.
    Later(Box<dyn ClientConnection>, lingua_store::Error),
}

/// Resumes under way: of one session one at a time, for whoever claims last must be the one that is
/// in the list of open sessions.
#[derive(Default)]
pub(super) struct ResumesUnderWay(Mutex<HashMap<SessionKey, Weak<AsyncMutex<()>>>>);

impl ResumesUnderWay {
    async fn begin(&self, key: &SessionKey) -> Turn<'_> {
        let turn = {
            let mut all = self.0.lock();
            let turn = all.get(key).and_then(Weak::upgrade);
            let turn = turn.filter(|_| !planted::on(Flaw::TwoResumesAtOnce)).unwrap_or_default();
            all.insert(key.clone(), Arc::downgrade(&turn));
            turn
        };
        Turn { all: self, key: key.clone(), guard: Some(turn.lock_owned().await) }
    }
}

/// Nobody else resumes this session until it is dropped.
struct Turn<'a> {
    all: &'a ResumesUnderWay,
    key: SessionKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        self.guard = None;
        if all.get(&self.key).is_some_and(|turn| turn.strong_count() == 0) {
            all.remove(&self.key);
        }
    }
}

fn not(connection: Box<dyn ClientConnection>, opening: Opening) -> Resumed {
    Resumed::No(connection, Box::new(opening))
}

impl Sessions {
    /// Gives the client back the session that its token names.
    pub(super) async fn resume(
        self: &Arc<Self>,
        token: Token,
        opening: Opening,
        connection: Box<dyn ClientConnection>,
        settings: &session::Settings,
    ) -> Resumed {
        let Token { key, epoch } = token;
        let _turn = self.resumes.begin(&key).await;
        let local = self.open.lock().sessions.get(&key).cloned();
        let (connection, opening) = match local {
            // What the store knows may be a line behind, and is not asked about a spent token.
            Some(handle) if epoch < handle.former() => {
                self.shared.metrics.resumed("spent_token");
                return not(connection, opening);
            }
            Some(handle) => match self.resume_here(&handle, epoch, opening, connection).await {
                // Another instance had it in between, and may have it still.
                Resumed::No(connection, opening) => (connection, *opening),
                done => return done,
            },
            None => (connection, opening),
        };
        self.take_over(key, epoch, opening, connection, settings).await
    }

    /// The session is on this instance, if nobody else got it meanwhile.
    async fn resume_here(
        self: &Arc<Self>,
        handle: &Arc<SessionHandle>,
        named: u64,
        opening: Opening,
        connection: Box<dyn ClientConnection>,
    ) -> Resumed {
        let ttl = self.owner_ttl();
        let owners = &self.shared.store.owners;
        let held = owners.renew(&handle.key, &self.shared.instance, handle.epoch(), ttl).await;
        let is_elsewhere = match held {
            Ok(Fenced::Superseded { epoch }) => self.is_elsewhere(handle, epoch).await,
            _ => Ok(false),
        };
        match is_elsewhere {
            Ok(false) => {}
            Ok(true) => {
                // Its entry is taken over once it is gone.
                handle.superseded_and_gone().await;
                return not(connection, opening);
            }
            Err(error) => return Resumed::Later(connection, error),
        }
        let claim = handle.begin_claim();
        let claimed = match held {
            Ok(_) => self.claim(&handle.key, named).await,
            // Whether or not it was renewed.
            Err(error) => Err(lingua_store::Error::Down(error.to_string())),
        };
        let epoch = match claimed {
            Ok(claimed) => {
                claim.got(claimed);
                claimed
            }
            // Without the store it goes on as it was, unless the client had it from somebody else since:
            // what that one told must not be told again.
            Err(lingua_store::Error::Down(_))
                if named <= handle.epoch() || planted::on(Flaw::NewerTokenWithoutStore) =>
            {
                handle.epoch()
            }
            Err(error) => return Resumed::Later(connection, error),
        };
        drop(claim);
        handle.set_former(named);
        match handle.attach(Attach { connection, opening, epoch }).await {
            Ok(()) => Resumed::Yes,
            Err(attach) => not(attach.connection, attach.opening),
        }
    }

    /// Makes this instance the session's owner, with an epoch above all that its client knows: that of
    /// a promoted server whose clock is behind would not be.
    async fn claim(&self, key: &SessionKey, named: u64) -> lingua_store::Result<u64> {
        let (owners, me, ttl) =
            (&self.shared.store.owners, &self.shared.instance, self.owner_ttl());
        let claimed = owners.claim(key, me, ttl).await?.epoch;
        if claimed > named || planted::on(Flaw::EpochsByServerClock) {
            return Ok(claimed);
        }
        match owners.renew(key, me, named + 1, ttl).await? {
            Fenced::Superseded { epoch } => Err(lingua_store::Error::Unknown(format!(
                "another instance claimed a session at the same time, as {epoch:x}"
            ))),
            _ => Ok(named + 1),
        }
    }

    /// Whether another instance has this session by this epoch. A claim of our own whose answer did not
    /// come is none.
    pub(super) async fn is_elsewhere(
        &self,
        handle: &SessionHandle,
        epoch: u64,
    ) -> lingua_store::Result<bool> {
        if handle.is_ours(epoch) {
            return Ok(false);
        }
        let owner = self.shared.store.owners.owner(&handle.key).await?;
        let is_ours = owner
            .is_some_and(|owner| owner.instance == self.shared.instance && owner.epoch == epoch);
        if is_ours {
            handle.begin_claim().got(epoch);
        }
        Ok(!is_ours)
    }

    /// The session is on another instance, or its instance is gone.
    async fn take_over(
        self: &Arc<Self>,
        key: SessionKey,
        named: u64,
        opening: Opening,
        connection: Box<dyn ClientConnection>,
        settings: &session::Settings,
    ) -> Resumed {
        let owners = &self.shared.store.owners;
        let routes = opening.options.routes.clone();
        let known = match owners.load(&key).await {
            Ok(Some(saved)) => saved_state::read(&saved, routes.clone(), self.clocks()),
            Ok(None) => None,
            Err(error) => return Resumed::Later(connection, error),
        };
        // Of an earlier connection than the client showed to have had nobody has an honest token.
        let known = known.is_some_and(|left| named >= left.former);
        if !known || !opening.supports.resume {
            return not(connection, opening);
        }
        let Ok(registration) = self.register(&key, &opening) else {
            return not(connection, opening);
        };
        let claim = registration.handle.begin_claim();
        let claimed = match self.claim(&key, named).await {
            Ok(claimed) => claimed,
            Err(error) => return Resumed::Later(connection, error),
        };
        claim.got(claimed);
        drop(claim);
        // All are told, for a store that lost its data does not know who had it.
        for (peer, _) in self.shared.outbox.peers() {
            let (tenant, session) = (key.tenant().clone(), key.session().clone());
            let message = PeerMessage::SessionMoved { tenant, session, epoch: claimed };
            let _ = self.shared.outbox.send(&peer, message);
        }
        // From now on the owner before changes nothing, so this is its last word.
        let saved = match owners.load(&key).await {
            Ok(Some(saved)) => saved_state::read(&saved, routes, self.clocks()),
            Ok(None) => None,
            // It is there still, and so is the token.
            Err(error) => return Resumed::Later(connection, error),
        };
        let Some(left) = saved else {
            tracing::warn!(session.id = %key.session(), "a saved session could not be read");
            return not(connection, opening);
        };
        registration.handle.set_epoch(left.state.epoch);
        registration.handle.set_former(named);
        let seed = self.shared.secret.turn_seed(&key);
        let restored = Session::restore(settings.clone(), left.state, claimed, seed, self.now());
        let Ok((machine, effects)) = restored else { return not(connection, opening) };
        let actor = self.actor(registration, machine, &opening, left.trace);
        let attach = Attach { connection, opening, epoch: claimed };
        self.look_after_inherited(&key, left.jobs.iter().map(|job| job.id).collect());
        actor.take_over(left.jobs, effects, attach);
        Resumed::Yes
    }

    /// What a client comes back with: the session's name, the epoch of the line that it was given
    /// on, and a mark that only we can make and that is good for the client's own subject alone. Every
    /// line has another; that which the client came back with last and all later ones are good, since the client
    /// may not have heard of those.
    pub(crate) fn token(&self, handle: &SessionHandle) -> String {
        let (session, epoch) = (handle.key.session(), handle.epoch());
        let (secret, bare) = (&self.shared.secret, resume(&handle.key, epoch));
        // Instances of the version before may be asked for it, and know nothing of subjects.
        let text = match secret.takes_unsigned() {
            true => bare,
            false => of_subject(&bare, handle.subject.as_deref()),
        };
        format!("{session}.{epoch:x}.{}", secret.sign(&text))
    }

    pub(super) fn read_token(&self, opening: &Opening, token: &str) -> Option<Token> {
        let (named, mark) = token.rsplit_once('.')?;
        let (session, epoch) = named.rsplit_once('.')?;
        let session = SessionId::new(session).ok()?;
        let epoch = u64::from_str_radix(epoch, 16).ok()?;
        let key = SessionKey::new(opening.tenant.clone(), session);
        let (secret, bare) = (&self.shared.secret, resume(&key, epoch));
        let right = secret.verify(&of_subject(&bare, opening.subject.as_deref()), mark)
            || secret.verify_exposed(&bare, mark);
        right.then_some(Token { key, epoch })
    }
}

fn resume(key: &SessionKey, epoch: u64) -> String {
    format!("resume {} {} {epoch:x}", key.tenant(), key.session())
}

/// A session of nobody in particular is nobody's who has a name, and the other way round.
fn of_subject(bare: &str, subject: Option<&str>) -> String {
    match subject {
        Some(subject) => format!("{bare} of {subject}"),
        None => format!("{bare} of nobody in particular"),
    }
}
