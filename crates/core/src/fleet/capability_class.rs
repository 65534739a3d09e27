//! Capability classes: all nodes with equal capabilities. They are in the same pools.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use super::block_list::block_starting_at;
use super::signature::{Signature, TagBits};
use super::{NodeIx, PoolIx};
use crate::node::{NodeProfile, ServiceKind};

/// The index of a class. Reused when its last node is gone.
pub(super) type ClassIx = u32;

/// Which members of a class are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subset {
    /// Those with a free slot.
    Free,
    /// All of them.
    All,
}

/// How many members a class has. Members are the nodes that take jobs; those with a free slot have the
/// first positions. This is what a draw reads, in 16 bytes. The first member is here too, because many
/// classes have only one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassHead {
    /// Even and unique to the class; 0 for an unused index.
    pub serial: u32,
    pub free: u32,
    pub all: u32,
    first: NodeIx,
}

impl ClassHead {
    /// How many members are in the subset.
    pub fn count(&self, subset: Subset) -> usize {
        match subset {
            Subset::Free => self.free as usize,
            Subset::All => self.all as usize,
        }
    }
}

/// A block that a pool took off its list because it was empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlisted {
    pub pool: PoolIx,
    /// Tells the pool from a later one with the same index.
    pub pool_serial: u64,
    pub block: u8,
}

#[derive(Debug)]
struct CapabilityClass {
    /// The profile of one of its nodes. The capabilities in it are those of all.
    profile: Arc<NodeProfile>,
    nodes: usize,
    unlisted: [Vec<Unlisted>; 2],
}

/// What pools have to do because a class has one more member.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// Nothing: the member is in a block that they list.
    Covered,
    /// List this block, which is new.
    NewBlock(usize),
    /// List this block again where it was taken off the list.
    RefilledBlock(usize),
}

/// All classes, as parallel vectors: what is read most often is close together in memory.
#[derive(Debug, Default)]
pub(super) struct CapabilityClasses {
    heads: Vec<ClassHead>,
    members: Vec<Vec<NodeIx>>,
    signatures: Vec<Signature>,
    /// How many blocks pools list, by subset. Never decreases while the class exists.
    blocks: Vec<[u8; 2]>,
    classes: Vec<Option<CapabilityClass>>,
    vacant: Vec<ClassIx>,
    /// With their hashes: hashing a profile is slow, and a table that grows needs all hashes.
    by_capabilities: HashTable<(u64, ClassIx)>,
    /// Randomly seeded, because nodes choose what is hashed.
    hasher: crate::hash::Quality,
    bits: TagBits,
    last_serial: u32,
}

impl CapabilityClasses {
    /// The class for this profile, and whether the node is the first in it.
    pub fn join(&mut self, profile: &Arc<NodeProfile>) -> (ClassIx, bool) {
        let hash = self.hasher.hash_one(Capabilities(profile));
        let same = |(other, ix): &(u64, ClassIx)| {
            *other == hash && Capabilities(profile) == Capabilities(self.profile(*ix))
        };
        if let Some((_, ix)) = self.by_capabilities.find(hash, same).copied() {
            self.classes[ix as usize].as_mut().expect(PRESENT).nodes += 1;
            return (ix, false);
        }
        let ix = self.vacant.pop().unwrap_or_else(|| {
            self.heads.push(ClassHead::default());
            self.members.push(Vec::new());
            self.signatures.push(Signature::default());
            self.blocks.push([0, 0]);
            self.classes.push(None);
            ClassIx::try_from(self.classes.len() - 1).expect("no more classes than nodes")
        });
        // Even, and not 0 after an overflow.
        self.last_serial = self.last_serial.wrapping_add(2).max(2);
        self.heads[ix as usize] = ClassHead { serial: self.last_serial, ..ClassHead::default() };
        self.signatures[ix as usize] = Signature::of(profile, &mut self.bits);
        // The first block is listed from the start.
        self.blocks[ix as usize] = [1, 1];
        let class =
            CapabilityClass { profile: profile.clone(), nodes: 1, unlisted: Default::default() };
        self.classes[ix as usize] = Some(class);
        self.by_capabilities.insert_unique(hash, (hash, ix), |(hash, _)| *hash);
        (ix, true)
    }

    /// A node leaves the class. Returns whether it was the last one; then call [`CapabilityClasses::remove`].
    pub fn leave(&mut self, ix: ClassIx) -> bool {
        let class = self.classes[ix as usize].as_mut().expect(PRESENT);
        class.nodes -= 1;
        class.nodes == 0
    }

    pub fn remove(&mut self, ix: ClassIx) -> Arc<NodeProfile> {
        let hash = self.hasher.hash_one(Capabilities(self.profile(ix)));
        let entry = self.by_capabilities.find_entry(hash, |(_, other)| *other == ix);
        entry.expect("classes are found by their capabilities").remove();
        self.heads[ix as usize] = ClassHead::default();
        self.members[ix as usize] = Vec::new();
        self.signatures[ix as usize] = Signature::default();
        self.vacant.push(ix);
        self.classes[ix as usize].take().expect(PRESENT).profile
    }

    pub fn profile(&self, ix: ClassIx) -> &Arc<NodeProfile> {
        &self.classes[ix as usize].as_ref().expect(PRESENT).profile
    }

    pub fn head(&self, ix: ClassIx) -> &ClassHead {
        &self.heads[ix as usize]
    }

    pub fn signature(&self, ix: ClassIx) -> &Signature {
        &self.signatures[ix as usize]
    }

    /// The signature of every index. That of an unused index is empty.
    pub fn signatures(&self) -> impl Iterator<Item = (ClassIx, &Signature)> {
        (0..).zip(&self.signatures)
    }

    pub fn bits(&mut self) -> &mut TagBits {
        &mut self.bits
    }

    /// How many blocks pools list of this subset.
    pub fn blocks(&self, ix: ClassIx, subset: Subset) -> usize {
        self.blocks[ix as usize][subset as usize].into()
    }

    pub fn members(&self, ix: ClassIx) -> &[NodeIx] {
        &self.members[ix as usize]
    }

    /// The member at this position, which must exist.
    pub fn member(&self, ix: ClassIx, position: usize) -> NodeIx {
        if position == 0 {
            self.heads[ix as usize].first
        } else {
            self.members[ix as usize][position]
        }
    }

    /// Adds a member at the end, among the full ones.
    pub fn push_member(&mut self, ix: ClassIx, node: NodeIx) -> Growth {
        let (head, members) = (&mut self.heads[ix as usize], &mut self.members[ix as usize]);
        members.push(node);
        head.all += 1;
        head.first = members[0];
        self.growth(ix, Subset::All)
    }

    /// Removes the member at the end, which is full.
    pub fn pop_member(&mut self, ix: ClassIx) {
        self.members[ix as usize].pop();
        self.heads[ix as usize].all -= 1;
    }

    /// The first of the full members has a free slot now.
    pub fn grow_free(&mut self, ix: ClassIx) -> Growth {
        self.heads[ix as usize].free += 1;
        self.growth(ix, Subset::Free)
    }

    /// The last of the free members is full now.
    pub fn shrink_free(&mut self, ix: ClassIx) {
        self.heads[ix as usize].free -= 1;
    }

    /// Swaps the members at two positions and returns them in their new order.
    pub fn swap(&mut self, ix: ClassIx, a: u32, b: u32) -> [NodeIx; 2] {
        let members = &mut self.members[ix as usize];
        members.swap(a as usize, b as usize);
        self.heads[ix as usize].first = members[0];
        [members[a as usize], members[b as usize]]
    }

    fn growth(&mut self, ix: ClassIx, subset: Subset) -> Growth {
        let last = self.heads[ix as usize].count(subset) - 1;
        let Some(block) = block_starting_at(last) else { return Growth::Covered };
        let blocks = &mut self.blocks[ix as usize][subset as usize];
        if block < usize::from(*blocks) {
            return Growth::RefilledBlock(block);
        }
        *blocks += 1;
        Growth::NewBlock(block)
    }

    /// Notes that a pool does not list the block. `stale` says of which notes the pool is gone.
    pub fn note_unlisted(
        &mut self,
        ix: ClassIx,
        subset: Subset,
        note: Unlisted,
        stale: impl Fn(&Unlisted) -> bool,
    ) {
        let notes =
            &mut self.classes[ix as usize].as_mut().expect(PRESENT).unlisted[subset as usize];
        if notes.len() == notes.capacity() {
            notes.retain(|note| !stale(note));
        }
        notes.push(note);
    }

    /// Removes and returns the notes about the block.
    pub fn take_unlisted(
        &mut self,
        ix: ClassIx,
        subset: Subset,
        block: usize,
    ) -> impl Iterator<Item = Unlisted> {
        let notes =
            &mut self.classes[ix as usize].as_mut().expect(PRESENT).unlisted[subset as usize];
        notes.extract_if(.., move |note| usize::from(note.block) == block)
    }

    #[cfg(test)]
    pub fn unlisted(&self, ix: ClassIx, subset: Subset) -> &[Unlisted] {
        &self.classes[ix as usize].as_ref().expect(PRESENT).unlisted[subset as usize]
    }
}

const PRESENT: &str = "nodes and pools refer only to existing classes";

/// The part of a profile that decides in which pools a node is.
struct Capabilities<'a>(&'a NodeProfile);

impl Capabilities<'_> {
    fn readiness(&self) -> [bool; 5] {
        let ready = |kind| self.0.service_ready(kind);
        let [asr, semantic, nmt, tts] =
            [ServiceKind::ASR, ServiceKind::SEMANTIC, ServiceKind::NMT, ServiceKind::TTS]
                .map(ready);
        [asr, semantic, nmt, tts, self.0.takes_text()]
    }
}

impl PartialEq for Capabilities<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        a.semantic == b.semantic
            && a.asr == b.asr
            && a.tts == b.tts
            && a.nmt == b.nmt
            && self.readiness() == other.readiness()
            && a.services == b.services
            && a.region == b.region
            && a.inventory.offers() == b.inventory.offers()
    }
}

impl Hash for Capabilities<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let NodeProfile { asr, semantic, nmt, tts, services, region, inventory, .. } = self.0;
        (asr, semantic, nmt, tts, self.readiness()).hash(state);
        (services, region, inventory.offers()).hash(state);
    }
}
