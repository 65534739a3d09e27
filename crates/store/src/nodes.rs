//! Who is there and what they can do.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
pub use lingua_core::node::Order;
use lingua_core::node::{Health, NodeProfile};
use lingua_core::{ModelId, Moment, NodeId};

use crate::error::{Error, Result};
use crate::instance::Instance;

/// Shards of the list of all nodes, so that a resync reads it in pieces.
pub const NODE_SHARDS: u32 = 64;

/// Gaps kept per node; beyond it those that end soonest are forgotten.
pub const MAX_GAPS_PER_NODE: usize = 64;

/// Node records. A record is one unit: profile, maximum, health, owner and epoch are written in one step and
/// read in one step. No method touches the node's leases.
#[async_trait]
pub trait NodeRecords: Send + Sync {
    /// Writes the whole record.
    ///
    /// Atomic. With [`Claim::Newest`] the caller becomes the owner with an epoch above every earlier
    /// one, also above those a store lost with its data. With [`Claim::Again`] the record is written
    /// only if no higher epoch is known, so a superseded owner changes nothing. After it the node is
    /// found by [`NodeFeed::shard`] and announced by [`NodeFeed::changes`].
    ///
    /// A record that was not there is trusted with grants at once only if `registration.known` is
    /// false; otherwise the store lost it, and grants wait for [`crate::slots::SlotLeases::confirm`].
    async fn put(&self, node: &NodeId, registration: &Registration) -> Result<Put>;

    /// Notes that the node is alive, with what may change from beat to beat.
    ///
    /// Atomic. Changes something only for the current epoch and an unchanged profile; otherwise says
    /// what is the matter. Freshness is counted on the store's clock.
    async fn beat(&self, node: &NodeId, beat: &Beat) -> Result<BeatReply>;

    /// Marks the node offline if `epoch` is still the current one. Its leases stay until they lapse.
    async fn offline(&self, node: &NodeId, epoch: u64) -> Result<Fenced>;

    /// Forgets a node that has not been fresh for `unseen_for` and holds no lease. A node that came
    /// back in between stays, whatever the caller had read before.
    async fn forget(&self, node: &NodeId, unseen_for: Duration) -> Result<bool>;

    /// Remembers for `lasting` that the node misses a model. Repeating moves the end, never nearer.
    async fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> Result<()>;

    /// The record, with the store's time at which it was read.
    async fn get(&self, node: &NodeId) -> Result<Option<NodeRecord>>;
}

/// How instances learn of records that others wrote: all records in pieces, and the ids of those that
/// changed.
#[async_trait]
pub trait NodeFeed: Send + Sync {
    /// All records of one of [`NODE_SHARDS`] shards, each as by [`NodeRecords::get`].
    async fn shard(&self, shard: u32) -> Result<Vec<NodeRecord>>;

    /// Nodes whose record changed after `cursor`, waiting up to `wait` for the first of them.
    ///
    /// A hint, not a log: a reader that fell behind is told to resync, and every reader resyncs now
    /// and then anyway. `None` asks for the present end of the feed.
    async fn changes(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Result<Changes>;
}

/// What administrators want of nodes. An order outlives the node's connections and its record.
#[async_trait]
pub trait NodeOrders: Send + Sync {
    /// Writes down what an administrator wants of the node, until the next order; `false` if nobody
    /// knows such a node. It outlives connections and records, and is announced by
    /// [`NodeFeed::changes`].
    async fn set(&self, node: &NodeId, order: Order) -> Result<bool>;

    /// What an administrator wants of the node.
    async fn get(&self, node: &NodeId) -> Result<Order>;
}

/// The version of a profile: equal versions mean equal abilities. A grant names the version it was
/// decided on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileVersion(u64);

impl ProfileVersion {
    /// The version of `profile`, the same on every instance.
    pub fn of(profile: &NodeProfile) -> Self {
        let json = serde_json::to_vec(profile).expect("a profile has only string keys");
        let digest = blake3::derive_key("lingua profile v1", &json);
        ProfileVersion(u64::from_be_bytes(digest[..8].try_into().expect("eight bytes")))
    }

    /// The version as a number, for views that only compare it.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The version that such a number stands for.
    pub fn from_bits(bits: u64) -> Self {
        ProfileVersion(bits)
    }
}

impl fmt::Display for ProfileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ProfileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileVersion({self})")
    }
}

impl std::str::FromStr for ProfileVersion {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let bits = u64::from_str_radix(text, 16);
        bits.map(ProfileVersion).map_err(|_| Error::corrupt("a profile version", text))
    }
}

/// In whose name a record is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// A new connection of the node: the newest owner wins.
    Newest,
    /// The owner by this epoch asserts the record again.
    Again(u64),
}

/// All of a node's record that its owner writes.
#[derive(Clone, Debug)]
pub struct Registration {
    /// In whose name.
    pub claim: Claim,
    /// The instance that holds the node's connection.
    pub owner: Instance,
    /// What the node can do.
    pub profile: NodeProfile,
    /// What may change from beat to beat.
    pub vitals: Vitals,
    /// The node was registered before, by its own word or the caller's memory.
    pub known: bool,
}

/// What may change from beat to beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// Slots open to jobs now; at most the profile's, fewer while trust grows.
    pub max: u32,
    /// Where the node is in its life.
    pub health: Health,
    /// It reports too little resource left: others are asked first.
    pub overloaded: bool,
    /// The node counts as alive for so long after this.
    pub fresh_for: Duration,
}

/// A sign of life.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The epoch of the connection that it came through.
    pub epoch: u64,
    /// The version of the profile that the owner holds.
    pub version: ProfileVersion,
    /// What may have changed.
    pub vitals: Vitals,
}

/// What became of a written record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// Written, under this epoch.
    Stored {
        /// The record's epoch.
        epoch: u64,
        /// The owner before, if it was another one: its connection is to be closed.
        replaced: Option<Instance>,
    },
    /// A newer owner is there; nothing changed.
    Superseded {
        /// Its epoch.
        epoch: u64,
    },
}

/// What became of a sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BeatReply {
    /// The heartbeat was noted.
    Kept {
        /// Nothing the store may have lost is still unsaid; otherwise the owner owes a
        /// [`crate::slots::SlotLeases::confirm`].
        confirmed: bool,
    },
    /// The record is missing or differs; write it as a whole again.
    PutAgain,
    /// A newer owner is there; nothing changed.
    Superseded {
        /// Its epoch.
        epoch: u64,
    },
}

/// What became of a step that only the current owner may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fenced {
    /// Done, or done before.
    Done,
    /// A newer owner is there; nothing changed.
    Superseded {
        /// Its epoch.
        epoch: u64,
    },
    /// There is no such record.
    Unknown,
}

/// A node as the store knows it.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeId,
    /// The epoch of its present connection.
    pub epoch: u64,
    /// The instance that holds the connection.
    pub owner: Instance,
    /// What it can do.
    pub profile: NodeProfile,
    /// The profile's version.
    pub version: ProfileVersion,
    /// Slots open to jobs.
    pub max: u32,
    /// Where it is in its life.
    pub health: Health,
    /// It reports too little resource left: others are asked first.
    pub overloaded: bool,
    /// It counts as alive until then.
    pub fresh_until: Moment,
    /// Models it misses, each until when.
    pub gaps: Vec<(ModelId, Moment)>,
    /// What an administrator wants of it.
    pub order: Order,
    /// The store's time of this reading.
    pub read_at: Moment,
}

/// A place in the feed of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedCursor(pub(crate) String);

/// What changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Nodes to read again, each once.
    pub nodes: Vec<NodeId>,
    /// Where to go on.
    pub cursor: FeedCursor,
    /// Changes may have been missed: read everything again.
    pub resync: bool,
}
