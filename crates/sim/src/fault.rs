//! Everything that can be done to a world.

use std::fmt;

use lingua_lab::chaos;
use serde::{Deserialize, Serialize};

/// A fault with its victim, counted from 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields name the victim and how much")]
pub enum Fault {
    /// The process of an instance ends where it stands; another begins when the fault is over.
    Kill { instance: usize, same_name: bool },
    /// No task of an instance runs; time goes on.
    Stop { instance: usize },
    /// An instance is asked to end, and another begins once it has.
    Drain { instance: usize },
    /// Nothing passes between an instance and the store. Afterwards the connection is another one, or the
    /// same.
    StoreCut { instance: usize, same_connection: bool },
    /// The connection of an instance to the store breaks, and is made again a moment later.
    StoreReset { instance: usize },
    /// Every answer of the store comes later.
    StoreLate { instance: usize, by_ms: u64 },
    /// Calls of the store go wrong, so many of a thousand.
    StoreFlaky { instance: usize, how: Flaw, per_mille: u32 },
    /// The next calls of this name go wrong.
    Call { instance: usize, call: String, how: Flaw, times: u32 },
    /// Calls of this name go wrong for as long as the fault lasts.
    Calls { instance: usize, call: String, how: Flaw },
    /// A replica that lags by the duration of the fault becomes the store: what was written meanwhile is
    /// lost. Its clock is ahead or behind.
    Failover { skew_ms: i64 },
    /// The store forgets everything, and knows that it did.
    Flush,
    /// What was received comes again, and what different instances sent changes places.
    Redeliver { instance: usize },
    /// Bodies of an instance cannot be fetched, so many of a thousand.
    NoBodies { instance: usize, per_mille: u32 },
    /// The process of a node ends, and another begins when the fault is over.
    KillNode { node: usize },
    /// A node's process stands still.
    StopNode { node: usize },
    /// A node's connection is cut; it registers at another instance.
    CutNode { node: usize },
    /// Nothing passes between a node and its instance.
    HoldNode { node: usize },
    /// Everything between a node and its instance takes longer.
    LateNode { node: usize, by_ms: u64 },
    /// A client's connection is cut, in mid-sentence if it speaks.
    CutClient { speaker: usize },
    /// A client stands still.
    StopClient { speaker: usize },
    /// Nothing passes between a client and its instance.
    HoldClient { speaker: usize },
}

/// How a call of the store goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// It never reaches the store, and the caller knows.
    Down,
    /// It never reaches the store, and nobody knows.
    Lost,
    /// It is carried out, and the answer is lost.
    Unanswered,
    /// It is carried out twice; the second answer counts.
    Twice,
    /// The store refuses it.
    Refused,
    /// It is carried out a second later.
    Late,
}

/// A fault with its times.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// When, in milliseconds of virtual time.
    pub at_ms: u64,
    /// For how long.
    pub lasts_ms: u64,
    /// The fault itself.
    #[serde(flatten)]
    pub fault: Fault,
}

impl Fault {
    /// Its word, for counting.
    pub fn word(&self) -> &'static str {
        match self {
            Fault::Kill { .. } => "kill",
            Fault::Stop { .. } => "stop",
            Fault::Drain { .. } => "drain",
            Fault::StoreCut { .. } => "store-cut",
            Fault::StoreReset { .. } => "store-reset",
            Fault::StoreLate { .. } => "store-late",
            Fault::StoreFlaky { .. } => "store-flaky",
            Fault::Call { .. } | Fault::Calls { .. } => "call",
            Fault::Failover { .. } => "failover",
            Fault::Flush => "flush",
            Fault::Redeliver { .. } => "redeliver",
            Fault::NoBodies { .. } => "no-bodies",
            Fault::KillNode { .. } => "kill-node",
            Fault::StopNode { .. } => "stop-node",
            Fault::CutNode { .. } => "cut-node",
            Fault::HoldNode { .. } => "hold-node",
            Fault::LateNode { .. } => "late-node",
            Fault::CutClient { .. } => "cut-client",
            Fault::StopClient { .. } => "stop-client",
            Fault::HoldClient { .. } => "hold-client",
        }
    }

    /// As the judge of `lingua chaos` knows it.
    pub(crate) fn for_judge(&self) -> chaos::Fault {
        use chaos::{Fault as Chaos, Way, Wire};
        let partition = |wire| Chaos::Partition { wire, way: Way::Both };
        match *self {
            Fault::Kill { instance, same_name } => {
                Chaos::KillScheduler { scheduler: instance, new_name: !same_name }
            }
            Fault::Stop { instance } => Chaos::StopScheduler { scheduler: instance },
            Fault::Drain { instance } => Chaos::DrainScheduler { scheduler: instance },
            Fault::StoreCut { instance, .. } => partition(Wire::Store { scheduler: instance }),
            Fault::StoreReset { instance } => {
                Chaos::Cut { wire: Wire::Store { scheduler: instance } }
            }
            Fault::StoreLate { instance, by_ms } => {
                Chaos::Delay { wire: Wire::Store { scheduler: instance }, delay_ms: by_ms }
            }
            Fault::StoreFlaky { instance, .. }
            | Fault::Redeliver { instance }
            | Fault::Call { instance, .. }
            | Fault::Calls { instance, .. } => partition(Wire::Store { scheduler: instance }),
            Fault::Failover { .. } => Chaos::Failover { server: 0 },
            Fault::Flush => Chaos::FlushAll,
            Fault::NoBodies { instance, .. } => partition(Wire::Peers { scheduler: instance }),
            Fault::KillNode { node } => Chaos::KillNodes { process: node },
            Fault::StopNode { node } => Chaos::StopNodes { process: node },
            Fault::CutNode { node } => {
                Chaos::Cut { wire: Wire::Nodes { process: node, scheduler: 0 } }
            }
            Fault::HoldNode { node } => partition(Wire::Nodes { process: node, scheduler: 0 }),
            Fault::LateNode { node, by_ms } => {
                Chaos::Delay { wire: Wire::Nodes { process: node, scheduler: 0 }, delay_ms: by_ms }
            }
            Fault::CutClient { speaker } => {
                Chaos::Cut { wire: Wire::Speakers { process: speaker, scheduler: 0 } }
            }
            Fault::StopClient { speaker } => Chaos::StopSpeakers { process: speaker },
            Fault::HoldClient { speaker } => {
                partition(Wire::Speakers { process: speaker, scheduler: 0 })
            }
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = serde_json::to_value(&self.fault).unwrap_or_default();
        write!(f, "{:>7.3} s  {}", self.at_ms as f64 / 1e3, self.fault.word())?;
        for (name, value) in
            fault.as_object().into_iter().flatten().filter(|(name, _)| *name != "kind")
        {
            write!(f, "  {name} {value}")?;
        }
        write!(f, "  for {} ms", self.lasts_ms)
    }
}
