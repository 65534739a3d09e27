//! A world before it begins: who is there and what is done to whom when, from one seed. It is a value, so
//! that parts of it can be left out.

mod drawn;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Planned};

/// A process that ends or stands still so near to a loss of the store's last writes was the only one that had
/// them.
const NEAR_MS: u64 = 20_000;

/// The world of one seed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What everything else is drawn from.
    pub seed: u64,
    /// The profile of the instances is the quick one.
    pub fast: bool,
    /// The instances.
    pub instances: Vec<InstancePlan>,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// The speakers.
    pub speakers: Vec<SpeakerPlan>,
    /// What is done to them, in the order in which it begins.
    pub faults: Vec<Planned>,
    /// Faults begin and end before this.
    pub faults_end_ms: u64,
    /// From the last fault until everything has to work.
    pub settle_ms: u64,
}

/// One instance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstancePlan {
    /// How far its clock is from that of the others.
    pub skew_ms: i64,
    /// The usual time to the store and back.
    pub store_ms: u64,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// It knows everything that nodes may know.
    Modern,
    /// It acks and cancels, and repeats nothing.
    Plain,
    /// From before there was a list: it says nothing of what it runs, refuses what it knows as
    /// `DUPLICATE_JOB`, and gives a result once.
    Existing,
    /// A modern one that says things that are not so.
    Liar,
}

/// One node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodePlan {
    /// What it is.
    pub kind: NodeKind,
    /// Jobs at the same time.
    pub slots: u32,
    /// The usual time of a job.
    pub work_ms: u64,
    /// Of a thousand jobs, so many fail.
    pub fails: u32,
    /// Are refused.
    pub refuses: u32,
    /// Are never answered.
    pub hangs: u32,
    /// Are not acked.
    pub silent: u32,
    /// It is with no speech out, and so gives captions only.
    pub text_only: bool,
}

/// What a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// It comes back with its token and sends again what was not acknowledged.
    Resuming,
    /// It cannot come back.
    Plain,
    /// From before there was a list.
    Existing,
}

/// One speaker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SpeakerPlan {
    /// What its client is.
    pub kind: ClientKind,
    /// Target languages.
    pub targets: usize,
    /// It takes each message so much later.
    pub slow_ms: u64,
    /// It begins so late.
    pub begins_ms: u64,
}

impl Plan {
    /// The world of this seed.
    pub fn of(seed: u64) -> Self {
        drawn::plan(seed)
    }

    /// The same world with these of its faults only.
    pub fn with_faults(&self, kept: &[usize]) -> Self {
        let faults = kept.iter().filter_map(|at| self.faults.get(*at).cloned());
        Plan { faults: faults.collect(), ..self.clone() }
    }

    /// The store loses its last writes, and about then an instance ends or stands still.
    pub(crate) fn loses_store_and_process(&self) -> bool {
        let loses = |one: &&Planned| matches!(one.fault, Fault::Failover { .. } | Fault::Flush);
        let takes = |one: &&Planned| {
            matches!(one.fault, Fault::Kill { .. } | Fault::Stop { .. } | Fault::Drain { .. })
        };
        let near = |lost: &Planned| {
            let mut others = self.faults.iter().filter(takes);
            others.any(|other| other.at_ms.abs_diff(lost.at_ms) < NEAR_MS)
        };
        self.faults.iter().filter(loses).any(near)
    }

    /// Nodes that do well, clients that come back, and no faults: the beginning of a directed scenario.
    pub fn calm(instances: usize, nodes: usize, speakers: usize) -> Self {
        let instance = InstancePlan { skew_ms: 0, store_ms: 1 };
        let node = NodePlan {
            kind: NodeKind::Modern,
            slots: 2,
            work_ms: 400,
            fails: 0,
            refuses: 0,
            hangs: 0,
            silent: 0,
            text_only: false,
        };
        let speaker =
            SpeakerPlan { kind: ClientKind::Resuming, targets: 1, slow_ms: 0, begins_ms: 0 };
        Plan {
            seed: 1,
            fast: false,
            instances: vec![instance; instances],
            nodes: vec![node; nodes],
            speakers: vec![speaker; speakers],
            faults: Vec::new(),
            faults_end_ms: 20_000,
            settle_ms: 10_000,
        }
    }

    /// Nothing but the faults keeps a sentence from its result.
    pub fn is_gentle(&self) -> bool {
        let slots: usize = self.nodes.iter().map(|node| node.slots as usize).sum();
        let at_once: usize = self.speakers.iter().map(|speaker| speaker.targets).sum();
        let enough = slots >= at_once;
        enough
            && self.nodes.iter().all(|node| {
                matches!(node.kind, NodeKind::Modern | NodeKind::Plain)
                    && node.fails + node.refuses + node.hangs + node.silent == 0
            })
    }
}
