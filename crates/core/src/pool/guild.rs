//! Guilds: all nodes of the same abilities, which are therefore in the same pools.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use super::listing::block_from;
use super::signature::{Signature, TagBits};
use super::{NodeIx, PoolIx};
use crate::node::{NodeProfile, ServiceKind};

/// A guild's place; reused when its last node is gone.
pub(super) type GuildIx = u32;

/// Which members a listing offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Those with a free slot.
    Free,
    /// All of them.
    All,
}

/// Those of a guild that take jobs: first the ones with a free slot, then the full ones. What a draw
/// looks at, in 16 bytes; the first member is here, because many guilds have only one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seats {
    /// Even, and never given to another guild; 0 while there is none.
    pub serial: u32,
    pub free: u32,
    pub all: u32,
    first: NodeIx,
}

impl Seats {
    /// How many of the members a listing of this part offers.
    pub fn part(&self, part: Part) -> usize {
        match part {
            Part::Free => self.free as usize,
            Part::All => self.all as usize,
        }
    }
}

/// A block that some pool does not list because it was found empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlisted {
    pub pool: PoolIx,
    /// Of the pool that had the place then.
    pub pool_serial: u64,
    pub block: u8,
}

#[derive(Debug)]
struct Guild {
    /// That of one of its nodes; what it says of abilities is the same for all.
    profile: Arc<NodeProfile>,
    nodes: usize,
    unlisted: [Vec<Unlisted>; 2],
}

/// What pools have to do because a guild has one member more.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// Nothing: it sits in a block that they list.
    Within,
    /// List this block, which is new.
    Beyond(usize),
    /// List this block again wherever it was taken off the list.
    Again(usize),
}

/// All guilds. What is looked at most often lies apart and close together.
#[derive(Debug, Default)]
pub(super) struct Guilds {
    seats: Vec<Seats>,
    members: Vec<Vec<NodeIx>>,
    signatures: Vec<Signature>,
    /// How many blocks pools list, for each part. Never fewer, as long as the guild lives.
    blocks: Vec<[u8; 2]>,
    guilds: Vec<Option<Guild>>,
    vacant: Vec<GuildIx>,
    /// With their hashes, because a profile is long and a table that grows asks for all of them.
    by_ability: HashTable<(u64, GuildIx)>,
    /// Nodes choose what is hashed: no one can make their profiles collide.
    hasher: foldhash::quality::RandomState,
    bits: TagBits,
    last_serial: u32,
}

impl Guilds {
    /// The guild for this profile, and whether the node is the first in it.
    pub fn admit(&mut self, profile: &Arc<NodeProfile>) -> (GuildIx, bool) {
        let hash = self.hasher.hash_one(Abilities(profile));
        let same = |(other, ix): &(u64, GuildIx)| {
            *other == hash && Abilities(profile) == Abilities(self.profile(*ix))
        };
        if let Some((_, ix)) = self.by_ability.find(hash, same).copied() {
            self.guilds[ix as usize].as_mut().expect(THERE).nodes += 1;
            return (ix, false);
        }
        let ix = self.vacant.pop().unwrap_or_else(|| {
            self.seats.push(Seats::default());
            self.members.push(Vec::new());
            self.signatures.push(Signature::default());
            self.blocks.push([0, 0]);
            self.guilds.push(None);
            GuildIx::try_from(self.guilds.len() - 1).expect("no more guilds than nodes")
        });
        // Even, and not 0 when all numbers were used up once.
        self.last_serial = self.last_serial.wrapping_add(2).max(2);
        self.seats[ix as usize] = Seats { serial: self.last_serial, ..Seats::default() };
        self.signatures[ix as usize] = Signature::of(profile, &mut self.bits);
        // The first block is listed from the start.
        self.blocks[ix as usize] = [1, 1];
        let guild = Guild { profile: profile.clone(), nodes: 1, unlisted: Default::default() };
        self.guilds[ix as usize] = Some(guild);
        self.by_ability.insert_unique(hash, (hash, ix), |(hash, _)| *hash);
        (ix, true)
    }

    /// A node is no longer of this guild. Says whether it was the last: then [`Guilds::close`].
    pub fn dismiss(&mut self, ix: GuildIx) -> bool {
        let guild = self.guilds[ix as usize].as_mut().expect(THERE);
        guild.nodes -= 1;
        guild.nodes == 0
    }

    pub fn close(&mut self, ix: GuildIx) -> Arc<NodeProfile> {
        let hash = self.hasher.hash_one(Abilities(self.profile(ix)));
        let entry = self.by_ability.find_entry(hash, |(_, other)| *other == ix);
        entry.expect("guilds are found by their abilities").remove();
        self.seats[ix as usize] = Seats::default();
        self.members[ix as usize] = Vec::new();
        self.signatures[ix as usize] = Signature::default();
        self.vacant.push(ix);
        self.guilds[ix as usize].take().expect(THERE).profile
    }

    pub fn profile(&self, ix: GuildIx) -> &Arc<NodeProfile> {
        &self.guilds[ix as usize].as_ref().expect(THERE).profile
    }

    pub fn seats(&self, ix: GuildIx) -> &Seats {
        &self.seats[ix as usize]
    }

    pub fn signature(&self, ix: GuildIx) -> &Signature {
        &self.signatures[ix as usize]
    }

    /// Every place of a guild with its signature; that of a vacant place has nothing.
    pub fn signatures(&self) -> impl Iterator<Item = (GuildIx, &Signature)> {
        (0..).zip(&self.signatures)
    }

    pub fn bits(&mut self) -> &mut TagBits {
        &mut self.bits
    }

    /// How many blocks pools list of this part.
    pub fn blocks(&self, ix: GuildIx, part: Part) -> usize {
        self.blocks[ix as usize][part as usize].into()
    }

    pub fn members(&self, ix: GuildIx) -> &[NodeIx] {
        &self.members[ix as usize]
    }

    /// The member in this seat, which must be taken.
    pub fn member(&self, ix: GuildIx, seat: usize) -> NodeIx {
        if seat == 0 { self.seats[ix as usize].first } else { self.members[ix as usize][seat] }
    }

    /// The node takes a seat behind all others, as one that is full.
    pub fn enter(&mut self, ix: GuildIx, node: NodeIx) -> Growth {
        let (seats, members) = (&mut self.seats[ix as usize], &mut self.members[ix as usize]);
        members.push(node);
        seats.all += 1;
        seats.first = members[0];
        self.grown(ix, Part::All)
    }

    /// The node in the last seat, full, goes.
    pub fn leave(&mut self, ix: GuildIx) {
        self.members[ix as usize].pop();
        self.seats[ix as usize].all -= 1;
    }

    /// The member in the first of the full seats has a free slot: only the border moves.
    pub fn widen(&mut self, ix: GuildIx) -> Growth {
        self.seats[ix as usize].free += 1;
        self.grown(ix, Part::Free)
    }

    /// The member in the last of the free seats has none any more.
    pub fn narrow(&mut self, ix: GuildIx) {
        self.seats[ix as usize].free -= 1;
    }

    /// The members in two seats change them. Who sits there then.
    pub fn swap(&mut self, ix: GuildIx, a: u32, b: u32) -> [NodeIx; 2] {
        let members = &mut self.members[ix as usize];
        members.swap(a as usize, b as usize);
        self.seats[ix as usize].first = members[0];
        [members[a as usize], members[b as usize]]
    }

    fn grown(&mut self, ix: GuildIx, part: Part) -> Growth {
        let last = self.seats[ix as usize].part(part) - 1;
        let Some(block) = block_from(last) else { return Growth::Within };
        let blocks = &mut self.blocks[ix as usize][part as usize];
        if block < usize::from(*blocks) {
            return Growth::Again(block);
        }
        *blocks += 1;
        Growth::Beyond(block)
    }

    /// Remembers that a pool does not list the block. `stale` says of which entries the pool is gone.
    pub fn note_unlisted(
        &mut self,
        ix: GuildIx,
        part: Part,
        note: Unlisted,
        stale: impl Fn(&Unlisted) -> bool,
    ) {
        let notes = &mut self.guilds[ix as usize].as_mut().expect(THERE).unlisted[part as usize];
        if notes.len() == notes.capacity() {
            notes.retain(|note| !stale(note));
        }
        notes.push(note);
    }

    /// The pools that do not list the block, which is no longer remembered then.
    pub fn take_unlisted(
        &mut self,
        ix: GuildIx,
        part: Part,
        block: usize,
    ) -> impl Iterator<Item = Unlisted> {
        let notes = &mut self.guilds[ix as usize].as_mut().expect(THERE).unlisted[part as usize];
        notes.extract_if(.., move |note| usize::from(note.block) == block)
    }

    #[cfg(test)]
    pub fn unlisted(&self, ix: GuildIx, part: Part) -> &[Unlisted] {
        &self.guilds[ix as usize].as_ref().expect(THERE).unlisted[part as usize]
    }
}

const THERE: &str = "nodes and pools name only guilds that are there";

/// A profile as far as it decides about pools.
struct Abilities<'a>(&'a NodeProfile);

impl Abilities<'_> {
    fn readiness(&self) -> [bool; 4] {
        [ServiceKind::ASR, ServiceKind::SEMANTIC, ServiceKind::NMT, ServiceKind::TTS]
            .map(|kind| self.0.service_ready(kind))
    }
}

impl PartialEq for Abilities<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0, other.0);
        a.semantic == b.semantic
            && a.asr == b.asr
            && a.tts == b.tts
            && a.nmt == b.nmt
            && self.readiness() == other.readiness()
    }
}

impl Hash for Abilities<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let NodeProfile { asr, semantic, nmt, tts, .. } = self.0;
        (asr, semantic, nmt, tts, self.readiness()).hash(state);
    }
}
