//! What a run is to be.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::plan::Kind;

/// The kind of store under the schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// One server.
    Standalone,
    /// One primary, two replicas, three sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that schedulers, nodes and speakers are: `lingua`.
    pub program: PathBuf,
    /// Where everything is written down.
    pub dir: PathBuf,
    /// The store.
    pub store: Store,
    /// How long faults happen. Starting, the quiet phase and the last endings come on top.
    pub lasts: Duration,
    /// How many faults.
    pub faults: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// Only these; all if it is empty.
    pub only: Vec<Kind>,
    /// How many schedulers.
    pub schedulers: usize,
    /// How many nodes.
    pub nodes: usize,
    /// Jobs that each of them takes at once.
    pub slots: u32,
    /// How many speakers.
    pub speakers: usize,
}

/// Nodes that share a process, and so a fate.
pub(super) const NODES_EACH: usize = 3;

/// Speakers that share a process.
pub(super) const SPEAKERS_EACH: usize = 50;

impl Options {
    /// As many processes of nodes as that takes.
    pub(super) fn node_processes(&self) -> usize {
        self.nodes.div_ceil(NODES_EACH)
    }

    /// As many processes of speakers as that takes.
    pub(super) fn speaker_processes(&self) -> usize {
        self.speakers.div_ceil(SPEAKERS_EACH)
    }
}

impl Store {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Store::Standalone => "standalone",
            Store::Sentinel => "sentinel",
            Store::Cluster => "cluster",
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Store::Standalone, Store::Sentinel, Store::Cluster];
        let found = all.into_iter().find(|store| store.word() == text);
        found.ok_or_else(|| "a store is standalone, sentinel or cluster".to_owned())
    }
}
