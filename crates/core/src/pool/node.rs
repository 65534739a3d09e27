//! One node as an instance sees it.

use std::fmt;
use std::sync::Arc;

use super::PoolIx;
use crate::eligibility::{Need, Standing, WhyNots, eligible, why_not};
use crate::ids::NodeId;
use crate::node::{Health, NodeProfile};
use crate::slots::Usage;

/// Which state of a node's profile a decision was made on. The store grants a slot only if it is
/// still the current one. Only ever compared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProfileVersion(Arc<str>);

impl ProfileVersion {
    /// The version with this name.
    pub fn new(text: impl AsRef<str>) -> Self {
        ProfileVersion(Arc::from(text.as_ref()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProfileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileVersion({})", self.0)
    }
}

/// What the store knows about a node.
#[derive(Clone, Debug)]
pub struct NodeEntry {
    /// What it can do.
    pub profile: Arc<NodeProfile>,
    /// Which state of the profile this is.
    pub version: ProfileVersion,
    /// What it is at the moment.
    pub standing: Standing,
    /// Slots taken on it; `None` leaves the local view as it is.
    pub usage: Option<Usage>,
}

/// A node as this instance sees it.
#[derive(Debug)]
pub struct Node {
    pub(super) id: NodeId,
    /// Never given to another node, nor to this one after it left and came back.
    pub(super) serial: u64,
    pub(super) profile: Arc<NodeProfile>,
    pub(super) version: ProfileVersion,
    pub(super) standing: Standing,
    pub(super) used: u32,
    pub(super) max: u32,
    pub(super) latency_ms: Option<u32>,
    /// The pools it is in.
    pub(super) pools: Vec<PoolIx>,
    /// Those of them that list it among the full ones.
    pub(super) full_in: Vec<PoolIx>,
}

impl Node {
    /// Its name.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// What it can do.
    pub fn profile(&self) -> &Arc<NodeProfile> {
        &self.profile
    }

    /// Which state of the profile this is.
    pub fn version(&self) -> &ProfileVersion {
        &self.version
    }

    /// What it is at the moment.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Slots taken, as far as this instance knows.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Slots it has.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Whether no slot is left, as far as this instance knows.
    pub fn is_full(&self) -> bool {
        self.used >= self.max
    }

    /// How long its recent jobs took, the latest weighing most; `None` before the first.
    pub fn latency_ms(&self) -> Option<u32> {
        self.latency_ms
    }

    /// Every reason why it may not take the job.
    pub fn why_not(&self, need: &Need) -> WhyNots {
        why_not(&self.profile, &self.standing, need)
    }

    pub(crate) fn may_take(&self, need: &Need) -> bool {
        eligible(&self.profile, &self.standing, need)
    }

    pub(super) fn brief(&self) -> Brief {
        let share = (u64::from(self.used) << 23) / u64::from(self.max.max(1));
        let latency = self.latency_ms.map_or(0, |ms| 32 - ms.leading_zeros());
        Brief {
            serial: self.serial,
            rank: (share.min((1 << 24) - 1) as u32) << 6 | latency,
            full: self.is_full(),
            open: self.profile.tenants.is_none(),
        }
    }
}

/// What choosing looks at first, packed so that the look at one of very many nodes waits for one
/// line of memory and not for several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brief {
    /// Never given to another node, nor to this one after it left and came back.
    pub serial: u64,
    /// The lower the better, 30 bits: load share, then latency. Latencies within a factor of two
    /// are equal, so that noise does not turn into a preference for one node; a node without any
    /// is taken as quick until it has shown otherwise.
    pub rank: u32,
    /// No slot is left, as far as this instance knows.
    pub full: bool,
    /// Takes everybody's jobs.
    pub open: bool,
}

/// Standing as far as it decides about pools.
pub(super) fn availability(standing: &Standing) -> bool {
    standing.health == Health::Ready && standing.fresh && !standing.overloaded
}
