//! Everything that can be done to a system.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::chaos::options::Store;

/// A fault with its victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields name the victim, counted from 0")]
pub enum Fault {
    /// SIGKILL, and a new process later.
    KillScheduler { scheduler: usize, new_name: bool },
    /// SIGSTOP, and SIGCONT later.
    StopScheduler { scheduler: usize },
    /// SIGTERM, and a new process when it has ended by itself.
    DrainScheduler { scheduler: usize },
    /// SIGKILL of a process of nodes.
    KillNodes { process: usize },
    /// SIGSTOP of one.
    StopNodes { process: usize },
    /// SIGSTOP of a process of speakers.
    StopSpeakers { process: usize },
    /// All connections on a wire end.
    Cut { wire: Wire },
    /// One connection on a wire ends within a message.
    CutMidMessage { wire: Wire, after_bytes: usize },
    /// Nothing arrives.
    Partition { wire: Wire, way: Way },
    /// Everything arrives later.
    Delay { wire: Wire, delay_ms: u64 },
    /// `FLUSHALL` on every server of the store.
    FlushAll,
    /// `SCRIPT FLUSH` on every server of the store.
    FlushScripts,
    /// SIGKILL of a primary.
    KillStore { server: usize },
    /// SIGSTOP of a primary.
    StopStore { server: usize },
    /// A replica is made primary.
    Failover { server: usize },
    /// SIGKILL of a sentinel.
    KillSentinel { server: usize },
    /// SIGSTOP of a sentinel.
    StopSentinel { server: usize },
}

/// A connection that can be hurt, named from its client to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields name the ends, counted from 0")]
pub enum Wire {
    /// From a process of speakers to a scheduler.
    Speakers { process: usize, scheduler: usize },
    /// From a process of nodes to a scheduler.
    Nodes { process: usize, scheduler: usize },
    /// From a scheduler to the store.
    Store { scheduler: usize },
    /// From the other schedulers to this one.
    Peers { scheduler: usize },
}

/// Which way of a wire is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Both directions.
    Both,
    /// What goes to the server.
    ToServer,
    /// What comes from it.
    FromServer,
}

/// A fault without its victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "as the fault of the same name")]
pub enum Kind {
    KillScheduler,
    StopScheduler,
    DrainScheduler,
    KillNodes,
    StopNodes,
    StopSpeakers,
    Cut,
    CutMidMessage,
    Partition,
    Delay,
    FlushAll,
    FlushScripts,
    KillStore,
    StopStore,
    Failover,
    KillSentinel,
    StopSentinel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::KillScheduler,
        Self::StopScheduler,
        Self::DrainScheduler,
        Self::KillNodes,
        Self::StopNodes,
        Self::StopSpeakers,
        Self::Cut,
        Self::CutMidMessage,
        Self::Partition,
        Self::Delay,
        Self::FlushAll,
        Self::FlushScripts,
        Self::KillStore,
        Self::StopStore,
        Self::Failover,
        Self::KillSentinel,
        Self::StopSentinel,
    ];

    /// Its word on the command line, how often it is drawn compared with others, and how long it
    /// lasts at least and at most, in milliseconds.
    fn about(self) -> (&'static str, u32, (u64, u64)) {
        match self {
            Self::KillScheduler => ("kill-scheduler", 14, (500, 6_000)),
            Self::StopScheduler => ("stop-scheduler", 8, (500, 18_000)),
            Self::DrainScheduler => ("drain-scheduler", 5, (500, 2_000)),
            Self::KillNodes => ("kill-nodes", 8, (300, 6_000)),
            Self::StopNodes => ("stop-nodes", 8, (500, 20_000)),
            Self::StopSpeakers => ("stop-speakers", 4, (500, 10_000)),
            Self::Cut => ("cut", 8, (0, 0)),
            Self::CutMidMessage => ("cut-mid-message", 9, (1_000, 2_000)),
            Self::Partition => ("partition", 16, (500, 15_000)),
            Self::Delay => ("delay", 8, (2_000, 12_000)),
            Self::FlushAll => ("flushall", 3, (0, 0)),
            Self::FlushScripts => ("script-flush", 3, (0, 0)),
            Self::KillStore => ("kill-store", 4, (500, 8_000)),
            Self::StopStore => ("stop-store", 4, (500, 6_000)),
            Self::Failover => ("failover", 5, (0, 0)),
            Self::KillSentinel => ("kill-sentinel", 2, (1_000, 8_000)),
            Self::StopSentinel => ("stop-sentinel", 2, (1_000, 8_000)),
        }
    }

    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        self.about().0
    }

    pub(super) fn weight(self) -> u32 {
        self.about().1
    }

    pub(super) fn lasts_ms(self) -> (u64, u64) {
        self.about().2
    }

    pub(super) fn happens_on(self, store: Store) -> bool {
        match self {
            Self::Failover => store != Store::Standalone,
            Self::KillSentinel | Self::StopSentinel => store == Store::Sentinel,
            _ => true,
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.word() == text);
        found.ok_or_else(|| {
            let words: Vec<_> = Kind::ALL.iter().map(|kind| kind.word()).collect();
            format!("a fault is one of {}", words.join(", "))
        })
    }
}

impl Fault {
    /// Its kind.
    pub fn kind(self) -> Kind {
        match self {
            Fault::KillScheduler { .. } => Kind::KillScheduler,
            Fault::StopScheduler { .. } => Kind::StopScheduler,
            Fault::DrainScheduler { .. } => Kind::DrainScheduler,
            Fault::KillNodes { .. } => Kind::KillNodes,
            Fault::StopNodes { .. } => Kind::StopNodes,
            Fault::StopSpeakers { .. } => Kind::StopSpeakers,
            Fault::Cut { .. } => Kind::Cut,
            Fault::CutMidMessage { .. } => Kind::CutMidMessage,
            Fault::Partition { .. } => Kind::Partition,
            Fault::Delay { .. } => Kind::Delay,
            Fault::FlushAll => Kind::FlushAll,
            Fault::FlushScripts => Kind::FlushScripts,
            Fault::KillStore { .. } => Kind::KillStore,
            Fault::StopStore { .. } => Kind::StopStore,
            Fault::Failover { .. } => Kind::Failover,
            Fault::KillSentinel { .. } => Kind::KillSentinel,
            Fault::StopSentinel { .. } => Kind::StopSentinel,
        }
    }

    /// A scheduler does nothing meanwhile.
    pub(crate) fn takes_a_scheduler(self) -> bool {
        self.scheduler().is_some()
    }

    /// The scheduler that does nothing meanwhile.
    pub(crate) fn scheduler(self) -> Option<usize> {
        match self {
            Fault::KillScheduler { scheduler, .. }
            | Fault::StopScheduler { scheduler }
            | Fault::DrainScheduler { scheduler } => Some(scheduler),
            _ => None,
        }
    }

    /// Some nodes do nothing meanwhile.
    pub(super) fn takes_nodes(self) -> bool {
        matches!(self, Fault::KillNodes { .. } | Fault::StopNodes { .. })
    }

    /// The store is not what it was.
    pub(crate) fn hurts_the_store(self) -> bool {
        matches!(
            self,
            Fault::FlushAll
                | Fault::FlushScripts
                | Fault::KillStore { .. }
                | Fault::StopStore { .. }
                | Fault::Failover { .. }
                | Fault::KillSentinel { .. }
                | Fault::StopSentinel { .. }
        )
    }

    /// Something that the store had said yes to may be gone.
    pub(crate) fn may_lose_data(self) -> bool {
        self.hurts_the_store()
            && !matches!(
                self,
                Fault::FlushScripts | Fault::KillSentinel { .. } | Fault::StopSentinel { .. }
            )
    }

    /// The scheduler whose way to the store is hurt.
    pub(crate) fn store_wire_of(self) -> Option<usize> {
        match self.wire() {
            Some(Wire::Store { scheduler }) => Some(scheduler),
            _ => None,
        }
    }

    fn wire(self) -> Option<Wire> {
        match self {
            Fault::Cut { wire }
            | Fault::CutMidMessage { wire, .. }
            | Fault::Partition { wire, .. }
            | Fault::Delay { wire, .. } => Some(wire),
            _ => None,
        }
    }

    /// Both cannot last at the same time: the end of one would be the end of the other.
    pub(super) fn meets(self, other: Self) -> bool {
        let nodes = |fault| match fault {
            Fault::KillNodes { process } | Fault::StopNodes { process } => Some(process),
            _ => None,
        };
        let speakers = |fault| match fault {
            Fault::StopSpeakers { process } => Some(process),
            _ => None,
        };
        let same = |one: Option<usize>, other: Option<usize>| one.is_some() && one == other;
        same(self.scheduler(), other.scheduler())
            || same(nodes(self), nodes(other))
            || same(speakers(self), speakers(other))
            || (self.wire().is_some() && self.wire() == other.wire())
            || (self.hurts_the_store() && other.hurts_the_store())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::KillScheduler { scheduler, new_name } => {
                let name = if new_name { "another name" } else { "the same name" };
                write!(f, "kill -9 scheduler {scheduler}, back under {name}")
            }
            Fault::StopScheduler { scheduler } => write!(f, "SIGSTOP scheduler {scheduler}"),
            Fault::DrainScheduler { scheduler } => write!(f, "SIGTERM scheduler {scheduler}"),
            Fault::KillNodes { process } => write!(f, "kill -9 node process {process}"),
            Fault::StopNodes { process } => write!(f, "SIGSTOP node process {process}"),
            Fault::StopSpeakers { process } => write!(f, "SIGSTOP speaker process {process}"),
            Fault::Cut { wire } => write!(f, "cut {wire}"),
            Fault::CutMidMessage { wire, after_bytes } => {
                write!(f, "cut {wire} in mid-message after {after_bytes} bytes")
            }
            Fault::Partition { wire, way } => match way {
                Way::Both => write!(f, "partition {wire}, both ways"),
                Way::ToServer => write!(f, "partition {wire}, one way there"),
                Way::FromServer => write!(f, "partition {wire}, one way back"),
            },
            Fault::Delay { wire, delay_ms } => write!(f, "delay {wire} by {delay_ms} ms"),
            Fault::FlushAll => f.write_str("FLUSHALL"),
            Fault::FlushScripts => f.write_str("SCRIPT FLUSH"),
            Fault::KillStore { server } => write!(f, "kill -9 primary {server} of the store"),
            Fault::StopStore { server } => write!(f, "SIGSTOP primary {server} of the store"),
            Fault::Failover { server } => write!(f, "failover of primary {server}"),
            Fault::KillSentinel { server } => write!(f, "kill -9 sentinel {server}"),
            Fault::StopSentinel { server } => write!(f, "SIGSTOP sentinel {server}"),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wire::Speakers { process, scheduler } => {
                write!(f, "speaker process {process} <> scheduler {scheduler}")
            }
            Wire::Nodes { process, scheduler } => {
                write!(f, "node process {process} <> scheduler {scheduler}")
            }
            Wire::Store { scheduler } => write!(f, "scheduler {scheduler} <> store"),
            Wire::Peers { scheduler } => write!(f, "other schedulers <> scheduler {scheduler}"),
        }
    }
}
