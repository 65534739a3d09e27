//! A list from which one member of many guilds is drawn, each with the same chance.
//!
//! The seats of a guild come in blocks: seat 0, seat 1, seats 2 and 3, seats 4 to 7, and so on, each
//! block as large as all before it. A listing holds blocks, those of one size together, and has one
//! *spot* for each seat of each block. A spot drawn at random stands for a member if its seat is
//! taken, and otherwise one draws again: once blocks with no seat taken are out of the list, more
//! than half of all spots are taken, because a guild fills every block before it begins the next.
//!
//! So a listing changes only when a guild outgrows all the blocks it ever had, or fills a block
//! again that was found empty, and never for the coming and going of single nodes in large guilds.

use super::guild::GuildIx;

/// One block of one guild, in eight bytes because there can be millions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub guild: GuildIx,
    /// The guild's serial, which is even, and in the lowest bit whether the predicate was asked.
    mark: u32,
}

impl Entry {
    pub fn new(guild: GuildIx, serial: u32, checked: bool) -> Self {
        Entry { guild, mark: serial | u32::from(checked) }
    }

    /// Whether it was listed for the guild that has this serial now. A vacant place has none, and
    /// neither has an entry of a guild that does not belong here.
    pub fn is_of(&self, serial: u32) -> bool {
        self.mark & !1 == serial && serial != 0
    }

    /// Whether the guild is known to belong here.
    pub fn is_checked(&self) -> bool {
        self.mark & 1 == 1
    }

    /// Both at once.
    pub fn is_good(&self, serial: u32) -> bool {
        self.mark == serial | 1 && serial != 0
    }
}

/// Where an entry stands in a listing, and which seat of its guild is meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub block: usize,
    pub entry: usize,
    pub seat: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    /// By number of the block.
    entries: Vec<Vec<Entry>>,
    /// Where the spots of each of them end.
    ends: Vec<u32>,
    /// All entries are of one guild.
    single: bool,
}

/// The first seat of a block, which is also the number of seats in all blocks before it.
pub(super) fn first_seat(block: usize) -> usize {
    (1 << block) >> 1
}

/// The block that begins with this seat, if one does.
pub(super) fn block_from(seat: usize) -> Option<usize> {
    (seat == 0 || seat.is_power_of_two()).then(|| (usize::BITS - seat.leading_zeros()) as usize)
}

impl Listing {
    pub fn spots(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The ends of the spots by block: with them a walk goes on over the spots as they were when it
    /// began, wherever entries have come or gone since.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// An entry of the guild, if there is only one.
    pub fn only(&self) -> Option<Entry> {
        if self.single { self.entries[0].first().copied() } else { None }
    }

    pub fn len(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    /// The entries of the blocks with this number.
    pub fn entries(&self, block: usize) -> &[Entry] {
        self.entries.get(block).map_or(&[], Vec::as_slice)
    }

    pub fn locate(&self, spot: u32) -> Place {
        Listing::locate_in(&self.ends, spot)
    }

    /// The same for spots that ended there.
    pub fn locate_in(ends: &[u32], spot: u32) -> Place {
        let block = ends.iter().filter(|end| **end <= spot).count();
        let within = (spot - if block == 0 { 0 } else { ends[block - 1] }) as usize;
        let shift = block.saturating_sub(1);
        let entry = within >> shift;
        Place { block, entry, seat: first_seat(block) + (within - (entry << shift)) }
    }

    /// The entry at a place of now.
    pub fn entry(&self, place: &Place) -> Entry {
        self.entries[place.block][place.entry]
    }

    pub fn get(&self, place: &Place) -> Option<&Entry> {
        self.entries.get(place.block)?.get(place.entry)
    }

    /// Notes what the predicate said of the guild. One that does not belong here stands for nobody.
    pub fn check(&mut self, place: &Place, belongs: bool) {
        let entry = &mut self.entries[place.block][place.entry];
        entry.mark = if belongs { entry.mark | 1 } else { 0 };
    }

    pub fn push(&mut self, block: usize, entry: Entry) {
        self.push_only(block, entry);
        self.count();
    }

    /// Adds many; afterwards they are to be counted.
    pub fn push_only(&mut self, block: usize, entry: Entry) {
        if self.entries.len() <= block {
            self.entries.resize_with(block + 1, Vec::new);
        }
        self.entries[block].push(entry);
    }

    pub fn remove(&mut self, place: &Place) {
        self.entries[place.block].swap_remove(place.entry);
        self.count();
    }

    pub fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        for entries in &mut self.entries {
            entries.retain(&keep);
            entries.shrink_to(entries.len() * 2);
        }
        self.count();
    }

    pub fn count(&mut self) {
        let mut end: u32 = 0;
        self.ends.clear();
        for (block, entries) in self.entries.iter().enumerate() {
            let spots = entries.len() * first_seat(block).max(1);
            end = end.saturating_add(u32::try_from(spots).unwrap_or(u32::MAX));
            self.ends.push(end);
        }
        let one_each = self.entries.iter().all(|entries| entries.len() <= 1);
        self.single = one_each && {
            let mut guilds = self.entries.iter().flatten().map(|e| (e.guild, e.mark & !1));
            let first = guilds.next();
            first.is_some() && guilds.all(|guild| Some(guild) == first)
        };
    }
}
