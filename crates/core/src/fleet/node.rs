//! One node as an instance sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::capability_class::ClassIx;
use super::{Fleet, NodeIx};
use crate::eligibility::{Need, Standing, WhyNots, eligible, why_not};
use crate::ids::NodeId;
use crate::node::{Health, NodeProfile};

/// Which state of a node's profile a decision was made on. The store grants a slot only if it is
/// still the current one. Only ever compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProfileVersion(u64);

impl ProfileVersion {
    /// The version with this number.
    pub fn new(number: u64) -> Self {
        ProfileVersion(number)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ProfileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileVersion({:016x})", self.0)
    }
}

/// What is known of a node. Its taken slots are counted apart: see [`super::Fleet::set_usage`].
#[derive(Clone, Debug)]
pub struct NodeEntry {
    /// What it can do.
    pub profile: Arc<NodeProfile>,
    /// Which state of the profile this is.
    pub version: ProfileVersion,
    /// What it is at the moment.
    pub standing: Standing,
}

/// A node as this instance sees it.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) ix: NodeIx,
}

impl<'a> Node<'a> {
    /// Its name.
    pub fn id(&self) -> &'a NodeId {
        self.fleet.id(self.ix)
    }

    /// What it can do.
    pub fn profile(&self) -> &'a Arc<NodeProfile> {
        &self.state().profile
    }

    /// Which state of the profile this is.
    pub fn version(&self) -> &'a ProfileVersion {
        &self.fleet.versions[self.ix as usize]
    }

    /// What it is at the moment.
    pub fn standing(&self) -> &'a Standing {
        &self.state().standing
    }

    /// Slots taken, as far as this instance knows.
    pub fn used(&self) -> u32 {
        self.fleet.load(self.ix).used()
    }

    /// Slots it has.
    pub fn max(&self) -> u32 {
        self.fleet.load(self.ix).max()
    }

    /// Whether no slot is left, as far as this instance knows.
    pub fn is_full(&self) -> bool {
        self.fleet.load(self.ix).is_full()
    }

    /// Whether it is asked only when no other node has a free slot.
    pub fn is_last_resort(&self) -> bool {
        self.fleet.load(self.ix).is_last_resort()
    }

    /// The moving average of its latency for each second of speech; `None` before the first job.
    pub fn latency_ms(&self) -> Option<u32> {
        self.state().latency_ms
    }

    /// Every reason why it may not take the job.
    pub fn why_not(&self, need: &Need) -> WhyNots {
        why_not(self.profile(), self.standing(), need)
    }

    pub(crate) fn may_take(&self, need: &Need) -> bool {
        eligible(self.profile(), self.standing(), need)
    }

    #[cfg(test)]
    pub(super) fn load(&self) -> Load {
        self.fleet.load(self.ix)
    }

    /// Never given to another node, nor to this one after it left and came back.
    pub(crate) fn serial(&self) -> u64 {
        self.state().serial
    }

    fn state(&self) -> &'a NodeState {
        self.fleet.state(self.ix)
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({} {}/{})", self.id(), self.used(), self.max())
    }
}

/// What a job took for each second of its speech, so that long sentences do not make a node look slow. Less than
/// a second, and speech of unknown length, counts as a second.
pub fn per_second_of_speech(took: Duration, speech_ms: u64) -> Duration {
    let speech = Duration::from_millis(speech_ms.max(1_000));
    Duration::from_secs_f64(took.as_secs_f64() / speech.as_secs_f64())
}

/// The class of a node and its position in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub class: ClassIx,
    /// [`NO_POSITION`] while it takes no jobs, or only those that name it.
    pub position: u32,
}

pub(super) const NO_POSITION: u32 = u32::MAX;

/// What choosing reads rarely.
#[derive(Debug)]
pub(super) struct NodeState {
    pub profile: Arc<NodeProfile>,
    pub standing: Standing,
    pub latency_ms: Option<u32>,
    pub serial: u64,
}

impl NodeState {
    /// Whether jobs that do not name the node may go to it.
    pub fn takes_jobs(&self) -> bool {
        let Standing { health, fresh, .. } = self.standing;
        health == Health::Ready && fresh && !self.profile.private
    }

    /// Whether it is asked only when no other node has a free slot.
    pub fn is_last_resort(&self, used: u32) -> bool {
        self.standing.overloaded || used >= self.standing.trusted
    }
}

/// What choosing reads of every node it looks at, in four bytes, so that those of very many nodes stay
/// close to the processor: slots taken and slots there are, whether others are asked first, how long
/// jobs take, and whether anybody's job is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load(u32);

/// Four times as many slots as a node may have: what is above it is as good as this.
const MOST: u32 = (1 << 10) - 1;

/// Below it a difference is the network's or the scheduler's, not the node's.
const UNNOTICED_MS: u32 = 128;

impl Load {
    pub(super) fn set_slots(&mut self, used: u32, max: u32) {
        self.0 = used.min(MOST) << 20 | max.min(MOST) << 10 | self.0 & MOST;
    }

    /// Latencies within a factor of two are equal, and so are all below [`UNNOTICED_MS`], so that noise
    /// does not turn into a preference for one node; a node without any is taken as quick until it has shown otherwise.
    pub(super) fn set_latency(&mut self, latency_ms: Option<u32>) {
        let noticed = latency_ms.map_or(0, |ms| ms / UNNOTICED_MS);
        let doublings = u32::BITS - noticed.leading_zeros();
        self.0 = self.0 & !0x7e | doublings << 1;
    }

    pub(super) fn set_open(&mut self, open: bool) {
        self.0 = self.0 & !1 | u32::from(open);
    }

    pub(super) fn set_last_resort(&mut self, last: bool) {
        self.0 = self.0 & !(1 << 7) | u32::from(last) << 7;
    }

    pub fn used(self) -> u32 {
        self.0 >> 20
    }

    pub fn max(self) -> u32 {
        self.0 >> 10 & MOST
    }

    pub fn is_full(self) -> bool {
        self.used() >= self.max()
    }

    /// Takes everybody's jobs.
    pub fn is_open(self) -> bool {
        self.0 & 1 == 1
    }

    /// Asked only when no other node has a free slot.
    pub fn is_last_resort(self) -> bool {
        self.0 & 1 << 7 != 0
    }

    /// Slots taken per slot, from 0 to 2^20. The shares of any two numbers of slots below 1024 differ by
    /// more than 2^-20.
    pub fn share(self) -> u32 {
        let share = (u64::from(self.used()) << 20) / u64::from(self.max().max(1));
        share.min(1 << 20) as u32
    }

    /// 0 below [`UNNOTICED_MS`] or if unknown, and one more with each doubling; below 64.
    pub fn latency_class(self) -> u8 {
        (self.0 >> 1 & 0x3f) as u8
    }
}
