//! What is kept of nodes, and how it is put back.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use lingua_core::node::{Health, NodeProfile, Order};
use lingua_core::{Moment, NodeId};
use serde::{Deserialize, Serialize};

use super::{Node, Record};
use crate::journal::{Entry, Journal, Kind, NEVER};
use crate::memory::MemoryStore;
use crate::nodes::{NODE_SHARDS, ProfileVersion};

/// What is kept of a record beside its profile.
#[derive(Serialize, Deserialize)]
struct KeptRecord<'a> {
    epoch: u64,
    #[serde(borrow)]
    owner: Cow<'a, str>,
    version: u64,
    max: u32,
    health: Health,
    overloaded: bool,
    fresh_until: Moment,
    confirmed: bool,
    hold_until: Moment,
}

impl Record {
    pub(super) fn note(&self, journal: &Journal, node: &NodeId) {
        let kept = KeptRecord {
            epoch: self.epoch,
            owner: self.owner.to_string().into(),
            version: self.version.bits(),
            max: self.max,
            health: self.health,
            overloaded: self.overloaded,
            fresh_until: self.fresh_until,
            confirmed: self.confirmed,
            hold_until: self.hold_until,
        };
        journal.note(Kind::Node, &[node.as_str()], NEVER, &kept);
    }
}

impl Node {
    pub(in crate::memory) fn note(&self, journal: &Journal, node: &NodeId) {
        self.record.iter().for_each(|record| record.note(journal, node));
    }
}

/// Profiles that were put back and belong to records to come.
pub(in crate::memory) type Profiles = HashMap<NodeId, Arc<NodeProfile>>;

impl MemoryStore {
    /// Puts back what was kept of a node; `None` if it cannot be read.
    pub(in crate::memory) fn put_back_node(
        &self,
        entry: &Entry,
        profiles: &mut Profiles,
    ) -> Option<()> {
        let node: NodeId = entry.id(0)?;
        if entry.kind == Kind::Profile {
            profiles.insert(node, Arc::new(entry.json()?));
            return Some(());
        }
        let (hash, mut shard) = self.nodes.shards.of(&node);
        let known = shard.nodes.get_or_insert_with(hash, &node, Node::default);
        match entry.kind {
            Kind::Gaps => known.gaps = entry.json()?,
            Kind::Order => known.order = Order::parse(std::str::from_utf8(&entry.value).ok()?)?,
            _ => {
                let kept: KeptRecord<'_> = entry.json()?;
                known.record = Some(Record {
                    epoch: kept.epoch,
                    owner: kept.owner.parse().ok()?,
                    profile: profiles.remove(&node)?,
                    version: ProfileVersion::from_bits(kept.version),
                    max: kept.max,
                    health: kept.health,
                    overloaded: kept.overloaded,
                    fresh_until: kept.fresh_until,
                    confirmed: kept.confirmed,
                    hold_until: kept.hold_until,
                });
            }
        }
        Some(())
    }

    /// Leases may be missing: no node gets a grant until it has said what it runs.
    pub(in crate::memory) fn begin_generation(&self) {
        for mut shard in (0..NODE_SHARDS as usize).filter_map(|n| self.nodes.shards.at(n)) {
            for (node, known) in shard.nodes.iter_mut() {
                known.record.iter_mut().for_each(|record| record.confirmed = false);
                self.note(|journal| known.note(journal, node));
            }
        }
    }
}
