//! Who holds which slot of which node until when.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::slots::{Commit, Confirmed, Usage};
use lingua_core::{LeaseToken, ModelId, Moment, NodeId};

use crate::error::Result;
use crate::nodes::ProfileVersion;

/// Slot leases: per node a set of leases, never a counter. [`lingua_core::slots::Leases`]
/// says what each step means; every backend gives the same answers on its own clock.
///
/// Owed by every method: atomic per node; validates before it writes; a repeated call with the same
/// token changes nothing; cost does not grow with the fleet, its languages or its pools.
#[async_trait]
pub trait SlotLeases: Send + Sync {
    /// Takes a slot, if right after it the node's live leases are within its maximum and the node's
    /// record says at that moment that it may: same profile version as the caller decided on, ready,
    /// fresh, none of the wanted models missing, and nothing lost that is not confirmed again.
    async fn reserve(&self, wish: &Wish<'_>) -> Result<Reserve>;

    /// The node accepted: the reserved slot becomes a running one. A lapsed lease is regained while
    /// a slot is free; so is one that is not known at all while the node's leases await confirmation
    /// after a loss. A spent token never is.
    async fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Result<Commit>;

    /// The node still works: extends a live running lease; `None` if there is none.
    async fn renew(
        &self,
        node: &NodeId,
        token: LeaseToken,
        lease: Duration,
    ) -> Result<Option<Moment>>;

    /// Gives the slot back and spends the token, also one never seen here. Says whether a slot
    /// became free by it.
    async fn release(&self, node: &NodeId, token: LeaseToken) -> Result<bool>;

    /// As [`SlotLeases::release`], for a slot that was granted at this moment on the store's clock, not
    /// longer than [`YOUNG`] ago. Of whom has the moment at hand the store need not ask its clock.
    async fn release_young(&self, node: &NodeId, token: LeaseToken, granted: Moment) -> Result<()> {
        let _ = granted;
        self.release(node, token).await.map(drop)
    }

    /// Takes the node's word on what it runs, from its current owner.
    ///
    /// In quiet times it renews what is known, releases what the node no longer runs and names what
    /// it should stop. After the store lost data it puts the reported leases back and holds grants
    /// for one reserve lease; a node that cannot say is held for the longest lease. A report with
    /// nothing lost starts no hold.
    async fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Result<Confirm>;

    /// Slots taken now; of an unknown node none.
    async fn usage(&self, node: &NodeId) -> Result<Usage>;
}

/// How old a slot may be that is given back by [`SlotLeases::release_young`].
pub const YOUNG: Duration = Duration::from_secs(15);

/// A slot to give back.
#[derive(Clone, Copy, Debug)]
pub struct HeldSlot<'a> {
    /// On this node.
    pub node: &'a NodeId,
    /// Of this attempt.
    pub token: LeaseToken,
    /// When it was granted on the store's clock, if that is known and not longer than [`YOUNG`] ago.
    pub granted: Option<Moment>,
}

impl HeldSlot<'_> {
    /// Gives it back.
    pub async fn give_back(&self, slots: &dyn SlotLeases) -> Result<()> {
        match self.granted {
            Some(granted) => slots.release_young(self.node, self.token, granted).await,
            None => slots.release(self.node, self.token).await.map(drop),
        }
    }
}

/// A wish for a slot.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// On this node.
    pub node: &'a NodeId,
    /// For this attempt.
    pub token: LeaseToken,
    /// Decided on this version of its profile.
    pub version: ProfileVersion,
    /// None of these may be missing.
    pub models: &'a [ModelId],
    /// For so long.
    pub lease: Duration,
}

/// What became of a wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reserve {
    /// The slot is the token's.
    Granted {
        /// Until then.
        until: Moment,
        /// Slots taken, with this one.
        used: u32,
    },
    /// It was the token's already; nothing changed.
    Already {
        /// Until then.
        until: Moment,
    },
    /// The token had its slot and is done.
    Spent,
    /// Every slot is taken.
    Full {
        /// Slots taken.
        used: u32,
        /// Slots there are.
        max: u32,
    },
    /// The node may not take it.
    Refused(Refusal),
}

/// Why a node may not take a job that it was chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// It has no record.
    UnknownNode,
    /// Its abilities changed since the caller looked: look again.
    Changed(ProfileVersion),
    /// Not ready.
    Closed,
    /// Its heartbeat is overdue.
    Stale,
    /// It reported a wanted model missing.
    MissingModel,
    /// The store may have lost leases and the node has not yet said what it runs.
    Unconfirmed,
    /// It has, and is held until then.
    Held(Moment),
}

/// A node's word on what it runs.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The owner's epoch.
    pub epoch: u64,
    /// What it runs; `None` from a node that cannot say.
    pub running: Option<&'a [LeaseToken]>,
    /// The lease of what it runs.
    pub lease: Duration,
    /// What was renewed so recently is not dropped: its ack may have overtaken this report.
    pub grace: Duration,
    /// How long grants are held after a loss for a node that reports.
    pub reserve_lease: Duration,
    /// How long for one that cannot.
    pub quarantine: Duration,
}

/// What became of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// The report was taken over.
    Confirmed(Confirmed),
    /// A newer owner is there; nothing changed.
    Superseded {
        /// Its epoch.
        epoch: u64,
    },
    /// There is no record: write it again first.
    Unknown,
}
