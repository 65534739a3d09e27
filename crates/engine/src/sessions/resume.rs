//! A client comes back: to the session that is still here, or to one that another instance had.

use std::sync::Arc;

use lingua_core::session::{self, Session};
use lingua_core::{SessionId, SessionKey};
use lingua_protocol::peer::PeerMessage;
use lingua_store::nodes::Fenced;

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
        let local = self.open.lock().sessions.get(&key).cloned();
        let (connection, opening) = match local {
            // What the store knows may be a line behind, and is not asked about a spent token.
            Some(handle) if epoch < handle.former() => {
                self.shared.metrics.resumed("spent_token");
                return not(connection, opening);
            }
            Some(handle) => match self.resume_here(&handle, opening, connection).await {
                // Another instance had it in between, and may have it still.
                Resumed::No(connection, opening) => (connection, *opening),
                Resumed::Yes => return Resumed::Yes,
            },
            None => (connection, opening),
        };
        self.take_over(key, epoch, opening, connection, settings).await
    }

    /// The session is on this instance, if nobody else got it meanwhile.
    async fn resume_here(
        self: &Arc<Self>,
        handle: &Arc<SessionHandle>,
        opening: Opening,
        connection: Box<dyn ClientConnection>,
    ) -> Resumed {
        let (owners, instance) = (&self.shared.store.owners, &self.shared.instance);
        let ttl = self.owner_ttl();
        let held = owners.renew(&handle.key, instance, handle.epoch(), ttl).await;
        let is_remote = matches!(held, Ok(Fenced::Superseded { epoch }) if !handle.is_ours(epoch));
        let epoch = match held {
            Ok(_) if is_remote => {
                // Its entry is taken over once it is gone.
                handle.superseded_and_gone().await;
                return not(connection, opening);
            }
            Ok(_) => {
                let claim = handle.begin_claim();
                let claimed = owners.claim(&handle.key, instance, ttl).await;
                claimed.inspect(|claimed| claim.got(claimed.epoch))
            }
            Err(error) => Err(error),
        };
        // Without the store it goes on as it was: nobody else can have it either.
        let epoch = epoch.map_or_else(|_| handle.epoch(), |claimed| claimed.epoch);
        match handle.attach(Attach { connection, opening, epoch }).await {
            Ok(()) => Resumed::Yes,
            Err(attach) => not(attach.connection, attach.opening),
        }
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
        let (owners, instance) = (&self.shared.store.owners, &self.shared.instance);
        let routes = opening.options.routes.clone();
        let known = match owners.load(&key).await {
            Ok(Some(saved)) => saved_state::read(&saved, routes.clone(), self.clocks()),
            _ => None,
        };
        // Of an earlier life than the last two nobody has an honest token.
        let known = known.is_some_and(|left| named >= left.former);
        if !known || !opening.supports.resume {
            return not(connection, opening);
        }
        let Ok(registration) = self.register(&key, &opening) else {
            return not(connection, opening);
        };
        let claim = registration.handle.begin_claim();
        let Ok(claimed) = owners.claim(&key, instance, self.owner_ttl()).await else {
            return not(connection, opening);
        };
        claim.got(claimed.epoch);
        drop(claim);
        // All are told, for a store that lost its data does not know who had it.
        for (peer, _) in self.shared.outbox.peers() {
            let (tenant, session) = (key.tenant().clone(), key.session().clone());
            let message = PeerMessage::SessionMoved { tenant, session, epoch: claimed.epoch };
            let _ = self.shared.outbox.send(&peer, message);
        }
        // From now on the owner before changes nothing, so this is its last word.
        let saved = match owners.load(&key).await {
            Ok(Some(saved)) => saved_state::read(&saved, routes, self.clocks()),
            _ => None,
        };
        let Some(left) = saved else {
            tracing::warn!(session.id = %key.session(), "a saved session could not be read");
            return not(connection, opening);
        };
        registration.handle.set_epoch(left.state.epoch);
        let seed = self.shared.secret.turn_seed(&key);
        let restored =
            Session::restore(settings.clone(), left.state, claimed.epoch, seed, self.now());
        let Ok((machine, effects)) = restored else { return not(connection, opening) };
        let actor = self.actor(registration, machine, &opening, left.trace);
        let attach = Attach { connection, opening, epoch: claimed.epoch };
        self.look_after_inherited(&key, left.jobs.iter().map(|job| job.id).collect());
        actor.take_over(left.jobs, effects, attach);
        Resumed::Yes
    }

    /// What a client comes back with: the session's name, the epoch of the line that it was given
    /// on, and a mark that only we can make and that is good for the client's own subject alone. Every
    /// line has another; those of the last line and of the one before are good, since the client may
    /// not have heard of the last.
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
