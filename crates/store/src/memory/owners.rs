//! Which instance owns a session.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::planted::{self, Flaw};
use lingua_core::{Moment, SessionKey};

use super::expiring::Expiring;
use super::sharded::Sharded;
use super::{MemoryStore, next_epoch};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::journal::{Entry, Kind};
use crate::nodes::Fenced;
use crate::owners::{Claimed, EPOCH_MEMORY, MAX_STATE_BYTES, Owner, SessionOwners};

#[derive(Clone, Default)]
pub(super) struct Owners {
    pub(super) sessions: Sharded<Sessions, 16>,
}

/// A share of the sessions.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    owners: Expiring<SessionKey, Owner>,
    saved: Expiring<SessionKey, Vec<u8>>,
}

impl Sessions {
    /// The highest epoch of the session that is remembered.
    pub(super) fn epoch(&self, now: Moment, hash: u64, session: &SessionKey) -> Option<u64> {
        self.owners.get(now, hash, session).map(|owner| owner.epoch)
    }

    fn put(&mut self, now: Moment, hash: u64, session: &SessionKey, owner: Owner) {
        let forgotten_at = owner.until + EPOCH_MEMORY;
        self.owners.put(now, hash, session.clone(), owner, forgotten_at);
    }

    /// The owner by exactly this epoch, or why there is none.
    fn fenced(
        &self,
        now: Moment,
        hash: u64,
        session: &SessionKey,
        epoch: u64,
    ) -> std::result::Result<&Owner, Fenced> {
        match self.owners.get(now, hash, session) {
            Some(owner) if owner.epoch > epoch => Err(Fenced::Superseded { epoch: owner.epoch }),
            Some(owner) if owner.epoch == epoch => Ok(owner),
            _ => Err(Fenced::Unknown),
        }
    }
}

#[async_trait]
impl SessionOwners for MemoryStore {
    async fn claim(
        &self,
        session: &SessionKey,
        instance: &Instance,
        ttl: Duration,
    ) -> Result<Claimed> {
        checked_ms(ttl)?;
        let now = self.change()?;
        let (hash, mut sessions) = self.owners.sessions.of(session);
        let previous = sessions.owners.get(now, hash, session);
        let epoch = next_epoch(previous.map(|owner| owner.epoch), now);
        let replaced = previous
            .filter(|owner| owner.until > now && owner.instance != *instance)
            .map(|owner| owner.instance.clone());
        let owner = Owner { instance: instance.clone(), epoch, until: now + ttl };
        self.note_owner(session, &owner);
        sessions.put(now, hash, session, owner);
        drop(sessions);
        self.kept(Claimed { epoch, replaced })
    }

    async fn renew(
        &self,
        session: &SessionKey,
        instance: &Instance,
        epoch: u64,
        ttl: Duration,
    ) -> Result<Fenced> {
        checked_ms(ttl)?;
        let now = self.change()?;
        let (hash, mut sessions) = self.owners.sessions.of(session);
        if let Err(Fenced::Superseded { epoch }) = sessions.fenced(now, hash, session, epoch)
            && !planted::on(Flaw::SupersededOwnerRenews)
        {
            return Ok(Fenced::Superseded { epoch });
        }
        let owner = Owner { instance: instance.clone(), epoch, until: now + ttl };
        self.note_owner(session, &owner);
        sessions.put(now, hash, session, owner);
        drop(sessions);
        self.kept(Fenced::Done)
    }

    async fn release(&self, session: &SessionKey, epoch: u64) -> Result<Fenced> {
        let now = self.change()?;
        let (hash, mut sessions) = self.owners.sessions.of(session);
        let instance = match sessions.fenced(now, hash, session, epoch) {
            Ok(owner) => owner.instance.clone(),
            Err(fenced) => return Ok(fenced),
        };
        let owner = Owner { instance, epoch, until: now };
        self.note_owner(session, &owner);
        sessions.put(now, hash, session, owner);
        drop(sessions);
        self.kept(Fenced::Done)
    }

    async fn owner(&self, session: &SessionKey) -> Result<Option<Owner>> {
        let now = self.clock.now();
        let (hash, sessions) = self.owners.sessions.of(session);
        Ok(sessions.owners.get(now, hash, session).filter(|owner| owner.until > now).cloned())
    }

    async fn save(
        &self,
        session: &SessionKey,
        epoch: u64,
        state: &[u8],
        keep_for: Duration,
    ) -> Result<Fenced> {
        checked_ms(keep_for)?;
        if state.len() > MAX_STATE_BYTES {
            return Err(Error::Invalid("a session's state has at most 64 KiB"));
        }
        let now = self.change()?;
        let state = state.to_vec();
        let (hash, mut sessions) = self.owners.sessions.of(session);
        if let Err(fenced) = sessions.fenced(now, hash, session, epoch)
            && !planted::on(Flaw::SupersededOwnerSaves)
        {
            return Ok(fenced);
        }
        self.note(|journal| {
            let key = [session.tenant().as_str(), session.session().as_str()];
            journal.note_bytes(Kind::Saved, &key, now + keep_for, &state);
        });
        sessions.saved.put(now, hash, session.clone(), state, now + keep_for);
        drop(sessions);
        self.kept(Fenced::Done)
    }

    async fn load(&self, session: &SessionKey) -> Result<Option<Vec<u8>>> {
        let now = self.clock.now();
        let (hash, sessions) = self.owners.sessions.of(session);
        Ok(sessions.saved.get(now, hash, session).cloned())
    }
}

impl MemoryStore {
    fn note_owner(&self, session: &SessionKey, owner: &Owner) {
        self.note(|journal| {
            let key = [session.tenant().as_str(), session.session().as_str()];
            let kept = (owner.instance.to_string(), owner.epoch, owner.until);
            journal.note(Kind::Owner, &key, owner.until + EPOCH_MEMORY, &kept);
        });
    }

    /// Puts back what was kept of a session; `None` if it cannot be read.
    pub(super) fn put_back_session(&self, now: Moment, entry: &Entry) -> Option<()> {
        let session = SessionKey::new(entry.id(0)?, entry.id(1)?);
        let (hash, mut sessions) = self.owners.sessions.of(&session);
        if entry.kind == Kind::Saved {
            sessions.saved.put(now, hash, session, entry.value.clone(), entry.until);
        } else {
            let (instance, epoch, until): (String, u64, Moment) = entry.json()?;
            let owner = Owner { instance: instance.parse().ok()?, epoch, until };
            sessions.owners.put(now, hash, session, owner, entry.until);
        }
        Some(())
    }
}
