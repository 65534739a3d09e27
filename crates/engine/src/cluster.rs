//! Many instances: any client, any node, any instance.
//!
//! Every instance announces itself with its address, reads the records of all nodes, and receives messages of the
//! others from its inbox. A node of another instance is chosen like a local one; the messages to it and from it go
//! by way of its instance. Speech and results go directly from one instance to the other, never through the store.
//!
//! - `lingua_protocol::peer`: the messages. [`crate::peers`]: how they are sent.
//! - `presence`: where an instance is; it is signed. `version`: which messages an instance understands.
//! - [`router`]: the way to a node. `remote_nodes`, `remote_node`, `remote_link`: nodes of other instances. `remote_job`, `assignments`: jobs of
//!   other instances on nodes here.
//! - [`watches`]: waiting for a job of another instance.
//! - `inbox`: received messages; `opened`: envelopes that were received before. `feed`: changes of node records.
//! - `undelivered`: messages that were not received. `orphans`: results whose instance or session is gone.

mod assignments;
mod closed_gaps;
mod remote_job;
mod remote_link;
mod remote_node;
mod remote_nodes;
pub(crate) mod router;
pub mod presence;
mod feed;
mod inbox;
mod opened;
mod orphans;
mod undelivered;
mod version;
pub mod watches;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::JobId;
use lingua_core::hash::{HashMap, HashSet};
use lingua_core::planted::{self, Flaw};
use lingua_protocol::peer::{BodyRef, Goal};
use lingua_store::nodes::NODE_SHARDS;
use lingua_store::presence::{Announce, Peer};
use lingua_store::{Backend, Instance};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::job::OrphanedOutcome;
use crate::jobs::Dispatcher;
use crate::nodes::Nodes;
use crate::peers::outbox::Undeliverable;
use crate::secret::Secret;
use crate::sessions::Sessions;
use crate::shared::Shared;
use opened::OpenedEnvelopes;
use presence::Apart;
use router::Router;
use version::WIRE;
use watches::Watches;

/// An instance that has not announced itself for so long is gone.
const PRESENT_FOR: Duration = Duration::from_secs(3);

/// How often it announces itself.
const ANNOUNCE_EVERY: Duration = Duration::from_millis(800);

/// After an outage of the store every instance has so long to announce itself again before it counts as gone.
const ANNOUNCE_GRACE: Duration = Duration::from_secs(2);

/// For an instance that joins to read the fleet before it takes work.
const FIRST_READ: Duration = Duration::from_secs(10);

/// How often it is read which instances are alive.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// An instance among others.
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    nodes: Arc<Nodes>,
    router: Arc<Router>,
    jobs: Arc<Dispatcher>,
    sessions: Arc<Sessions>,
    /// Envelopes that were opened.
    opened: Mutex<OpenedEnvelopes>,
    /// Attempts of other instances whose speech is being fetched; `true` once they were abandoned.
    fetching: Mutex<HashMap<(JobId, u32), bool>>,
    /// For each turn the last of its parts that is on its way to a node. The next part waits for it.
    turns: Mutex<HashMap<String, (JobId, oneshot::Receiver<()>)>>,
    /// What was read of the store at least once.
    known: watch::Sender<Known>,
    /// Living instances with which this one exchanges no messages.
    apart: Mutex<HashSet<Instance>>,
    /// After an outage of the store: until then, an instance without an announcement is not gone.
    unsure_until: Mutex<Instant>,
    /// How many orphaned outcomes are being delivered.
    pending_deliveries: AtomicUsize,
    /// Jobs of other instances that callers here wait for.
    watches: Mutex<Watches>,
    /// Jobs of this instance that others wait for.
    subscribed: Mutex<HashSet<(JobId, Goal, Instance)>>,
}

/// What an instance that started has read.
#[derive(Default)]
struct Known {
    fleet: bool,
    instances: bool,
}

/// The inputs of a cluster from the engine.
pub(crate) struct Inflow {
    pub undeliverable: Undeliverable,
    pub orphans: mpsc::Receiver<OrphanedOutcome>,
}

/// Why an instance cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Two processes must not share a name.
    #[error(
        "another process at {address} has this instance's name; give one of the two another --instance-id"
    )]
    Taken {
        /// Where it is.
        address: String,
    },
    /// Two versions that are not neighbours must not share a store.
    #[error(
        "the instance {instance} at {address} speaks wire version {theirs}, and this one {ours}; upgrade through the version in between"
    )]
    Apart {
        /// The other instance.
        instance: String,
        /// The address that it announces.
        address: String,
        /// What it understands.
        theirs: String,
        /// What this version understands.
        ours: String,
    },
    /// Instances of one store must have the same key.
    #[error(
        "the instance {instance} at {address} has the cluster key {theirs} and this one {ours}; give all instances of one store the same cluster.key_file"
    )]
    OtherKey {
        /// The other instance.
        instance: String,
        /// The address that it announces.
        address: String,
        /// The fingerprint of its key.
        theirs: String,
        /// That of the key here.
        ours: String,
    },
    /// An instance of the version before has no key file.
    #[error(
        "the instance {instance} at {address} signs nothing, as the version before cluster.key_file; stop it, or upgrade with the key from the store (OPERATIONS, rolling upgrade)"
    )]
    Unsigned {
        /// The other instance.
        instance: String,
        /// The address that it announces.
        address: String,
    },
    /// Somebody else wrote what the store says of an instance.
    #[error(
        "what the store says of the instance {instance} was not written by it; find out who writes to the store"
    )]
    Forged {
        /// The other instance.
        instance: String,
    },
    /// The store does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] lingua_store::Error),
}

/// Refuses to join instances whose messages this version does not understand, or that have another key. To be
/// called before anything else of an instance runs.
pub async fn understands_all(store: &Backend, secret: &Secret) -> Result<(), JoinError> {
    for peer in store.presence.peers().await? {
        let Err(apart) = presence::read(secret, &peer) else { continue };
        let instance = peer.instance.id.to_string();
        let address = presence::address(&peer.address).to_owned();
        return Err(match apart {
            Apart::Version(wire) => {
                let (theirs, ours) = (wire.to_string(), WIRE.to_string());
                JoinError::Apart { instance, address, theirs, ours }
            }
            Apart::OtherKey(theirs) => {
                let ours = secret.fingerprint().to_owned();
                JoinError::OtherKey { instance, address, theirs, ours }
            }
            Apart::Unsigned => JoinError::Unsigned { instance, address },
            Apart::Forged | Apart::Address => JoinError::Forged { instance },
        });
    }
    Ok(())
}

/// Logs that this instance exchanges no messages with another.
fn leave_alone(peer: &Peer, why: &Apart) {
    let (instance, address) = (&peer.instance.id, presence::address(&peer.address));
    match why {
        Apart::Version(wire) => tracing::warn!(
            instance.id = %instance, address, %wire,
            "an instance of another version is left alone; its nodes get nothing from here"
        ),
        Apart::OtherKey(theirs) => tracing::error!(
            instance.id = %instance, address, key = theirs.as_str(),
            "an instance with another cluster key is left alone; give both the same cluster.key_file"
        ),
        Apart::Unsigned => tracing::error!(
            instance.id = %instance, address,
            "an instance that signs nothing is left alone; it is of the version before cluster.key_file"
        ),
        Apart::Forged | Apart::Address => tracing::error!(
            instance.id = %instance,
            "what the store says of an instance was not written by it, and is left alone"
        ),
    }
}

impl Cluster {
    pub fn new(
        shared: Arc<Shared>,
        router: Arc<Router>,
        jobs: Arc<Dispatcher>,
        sessions: Arc<Sessions>,
    ) -> Arc<Self> {
        let watches = Mutex::new(Watches::new(shared.settings.watches));
        Arc::new(Cluster {
            watches,
            subscribed: Mutex::default(),
            shared,
            nodes: Arc::clone(&router.nodes),
            router,
            jobs,
            sessions,
            opened: Mutex::default(),
            fetching: Mutex::default(),
            turns: Mutex::default(),
            known: watch::Sender::default(),
            apart: Mutex::default(),
            unsure_until: Mutex::new(Instant::now()),
            pending_deliveries: AtomicUsize::default(),
        })
    }

    /// Announces this instance for the first time.
    pub async fn join(&self, address: &str) -> Result<(), JoinError> {
        understands_all(&self.shared.store, &self.shared.secret).await?;
        // The name of a process that was killed becomes free after a while. A process that lives keeps it for
        // longer than that.
        let patience = Instant::now() + PRESENT_FOR + ANNOUNCE_EVERY;
        loop {
            match self.announce(address).await {
                Err(JoinError::Taken { .. }) if Instant::now() < patience => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Ok(()) => break,
                refused => return refused,
            }
        }
        // Of two that start at the same time with different keys one sees the other.
        let understood = understands_all(&self.shared.store, &self.shared.secret).await;
        if understood.is_err() {
            self.withdraw().await;
        }
        understood
    }

    /// Waits until the fleet and the living instances were read once: before that, no node of another instance is
    /// known.
    pub async fn first_read(&self) {
        let mut known = self.known.subscribe();
        let both = known.wait_for(|known| known.fleet && known.instances);
        if tokio::time::timeout(FIRST_READ, both).await.is_err() {
            tracing::warn!("the nodes of other instances are not read yet; jobs do not find them");
        }
    }

    async fn announce(&self, address: &str) -> Result<(), JoinError> {
        let (store, me) = (&self.shared.store, &self.shared.instance);
        let said = presence::announcement(&self.shared.secret, me, address);
        match store.presence.announce(me, &said, PRESENT_FOR).await? {
            Announce::Announced => Ok(()),
            Announce::Taken { address, .. } => {
                Err(JoinError::Taken { address: presence::address(&address).to_owned() })
            }
        }
    }

    /// Runs until the engine ends: announces this instance. It waits for nothing else, so a busy instance never
    /// counts as gone.
    pub async fn say_present(self: Arc<Self>, address: String) {
        let mut tick = tokio::time::interval(ANNOUNCE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if planted::on(Flaw::PresenceWaitsForFleet) {
                for shard in 0..NODE_SHARDS {
                    let _ = self.shared.store.feed.shard(shard).await;
                }
            }
            match self.announce(&address).await {
                Ok(()) => {}
                Err(JoinError::Taken { address }) => tracing::error!(
                    address,
                    "another process has this instance's name; restart one of the two"
                ),
                Err(error) => {
                    tracing::debug!(%error, "this instance is announced later");
                }
            }
        }
    }

    /// Runs until the engine ends: reads which instances are alive.
    pub async fn look_around(self: Arc<Self>) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.look().await;
            self.router.remote.expire_gaps();
            self.shared.outbox.bodies.tidy();
        }
    }

    /// Fetches a body that another instance keeps, also one that joined only a moment ago.
    pub(crate) async fn fetch_body(
        &self,
        from: &Instance,
        body: &BodyRef,
    ) -> Result<Bytes, String> {
        if !self.shared.outbox.is_alive(from) {
            self.look().await;
        }
        self.shared.outbox.fetch_body(from, body).await
    }

    async fn look(&self) {
        let now = Instant::now();
        let peers = match self.shared.store.presence.peers().await {
            Ok(peers) => peers,
            Err(error) => {
                *self.unsure_until.lock() = now + ANNOUNCE_GRACE;
                return tracing::debug!(%error, "the living instances could not be read");
            }
        };
        let (mut others, mut apart) = (HashMap::default(), HashSet::default());
        for peer in peers.into_iter().filter(|peer| peer.instance != self.shared.instance) {
            match presence::read(&self.shared.secret, &peer) {
                Ok(address) => {
                    let address = address.to_owned();
                    others.insert(peer.instance, address);
                }
                Err(why) => {
                    if !self.apart.lock().contains(&peer.instance) {
                        leave_alone(&peer, &why);
                    }
                    apart.insert(peer.instance);
                }
            }
        }
        self.shared.metrics.instance.peers_apart.set(apart.len() as i64);
        *self.apart.lock() = apart;
        let outbox = &self.shared.outbox;
        let before = outbox.peers();
        if now < *self.unsure_until.lock() {
            // No instance could announce itself: those that were there count as alive.
            for (instance, address) in &before {
                let is_apart = self.apart.lock().contains(instance);
                let replaced = others.keys().any(|other| other.id == instance.id);
                if !is_apart && !replaced {
                    others.insert(instance.clone(), address.clone());
                }
            }
        }
        self.shared.metrics.instance.peers.set(others.len() as i64);
        let lost = before.iter().any(|(instance, _)| !others.contains_key(instance));
        let is_new = |peer: &&Instance| before.iter().all(|(known, _)| known != *peer);
        let met: Vec<Instance> = others.keys().filter(is_new).cloned().collect();
        outbox.set_peers(others);
        if lost {
            self.on_peers_lost();
        } else if !met.is_empty() {
            // The records of their nodes have been read already.
            self.router.remote.on_peers_changed();
        }
        for peer in met {
            outbox.greet(&peer, self.jobs.any_waits());
        }
        self.known.send_if_modified(|known| !std::mem::replace(&mut known.instances, true));
    }

    /// Instances are gone: their nodes cannot be reached until they connect to another instance, and nobody
    /// announces the slots that those instances held.
    fn on_peers_lost(&self) {
        self.router.remote.on_peers_changed();
        self.shared.fleet.forget_others();
    }

    /// Ends the announcement of this instance.
    pub async fn withdraw(&self) {
        let _ = self.shared.store.presence.withdraw(&self.shared.instance).await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
