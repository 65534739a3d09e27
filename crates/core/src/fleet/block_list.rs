//! A list of blocks from which a member of any class is drawn, each with the same probability.
//!
//! The positions of a class are divided into blocks: position 0, position 1, positions 2 and 3, positions 4
//! to 7, and so on. Each block is as large as all before it. A list has one *cell* for each position of each
//! of its blocks. A draw picks a cell at random; if no member has that position, it draws again. A class
//! fills a block before it begins the next, so once empty blocks are off the list, more than half of
//! all cells have a member.
//!
//! So a list changes only when a class becomes larger than ever, or gets a member in a block that was
//! taken off the list. It does not change when single nodes join or leave large classes.

use super::capability_class::ClassIx;

/// One block of one class, in eight bytes because there can be millions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub class: ClassIx,
    /// The class's serial, which is even, and in the lowest bit whether the class was checked.
    mark: u32,
}

impl Entry {
    pub fn new(class: ClassIx, serial: u32, checked: bool) -> Self {
        Entry { class, mark: serial | u32::from(checked) }
    }

    /// Whether the class at this index is still the one that was listed. `serial` is its present one.
    pub fn is_current(&self, serial: u32) -> bool {
        self.mark & !1 == serial && serial != 0
    }

    /// Whether the class is known to belong to the pool.
    pub fn is_checked(&self) -> bool {
        self.mark & 1 == 1
    }

    /// Both of them.
    pub fn is_valid(&self, serial: u32) -> bool {
        self.mark == serial | 1 && serial != 0
    }
}

/// Where a cell is: an entry of the list and a position of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    pub block: usize,
    pub entry: usize,
    pub position: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct BlockList {
    /// By block number.
    entries: Vec<Vec<Entry>>,
    /// By block number: how many cells this block and those before it have.
    ends: Vec<u32>,
    /// All entries are of one class.
    single: bool,
}

/// The first position of a block, which is also the number of positions in all blocks before it.
pub(super) fn first_position(block: usize) -> usize {
    (1 << block) >> 1
}

/// The block that starts at this position, if one does.
pub(super) fn block_starting_at(position: usize) -> Option<usize> {
    (position == 0 || position.is_power_of_two())
        .then(|| (usize::BITS - position.leading_zeros()) as usize)
}

impl BlockList {
    pub fn cells(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many cells each block and those before it have. With a copy of it a scan goes on over the cells as
    /// they were when it started.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// An entry of the class, if all entries are of one class.
    pub fn only_class(&self) -> Option<Entry> {
        if self.single { self.entries[0].first().copied() } else { None }
    }

    pub fn len(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    /// The entries of the blocks with this number.
    pub fn entries(&self, block: usize) -> &[Entry] {
        self.entries.get(block).map_or(&[], Vec::as_slice)
    }

    pub fn locate(&self, cell: u32) -> Location {
        BlockList::locate_in(&self.ends, cell)
    }

    /// The same for a copy of [`BlockList::ends`].
    pub fn locate_in(ends: &[u32], cell: u32) -> Location {
        let block = ends.iter().filter(|end| **end <= cell).count();
        let within = (cell - if block == 0 { 0 } else { ends[block - 1] }) as usize;
        let shift = block.saturating_sub(1);
        let entry = within >> shift;
        Location { block, entry, position: first_position(block) + (within - (entry << shift)) }
    }

    /// The entry at a location that exists.
    pub fn entry(&self, location: &Location) -> Entry {
        self.entries[location.block][location.entry]
    }

    pub fn get(&self, location: &Location) -> Option<&Entry> {
        self.entries.get(location.block)?.get(location.entry)
    }

    /// Notes whether the class belongs to the pool. The cells of one that does not have no members.
    pub fn check(&mut self, location: &Location, belongs: bool) {
        let entry = &mut self.entries[location.block][location.entry];
        entry.mark = if belongs { entry.mark | 1 } else { 0 };
    }

    pub fn push(&mut self, block: usize, entry: Entry) {
        self.push_uncounted(block, entry);
        self.count();
    }

    /// The same without counting. Call [`BlockList::count`] after the last one.
    pub fn push_uncounted(&mut self, block: usize, entry: Entry) {
        if self.entries.len() <= block {
            self.entries.resize_with(block + 1, Vec::new);
        }
        self.entries[block].push(entry);
    }

    pub fn remove(&mut self, location: &Location) {
        self.entries[location.block].swap_remove(location.entry);
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
            let cells = entries.len() * first_position(block).max(1);
            end = end.saturating_add(u32::try_from(cells).unwrap_or(u32::MAX));
            self.ends.push(end);
        }
        let one_each = self.entries.iter().all(|entries| entries.len() <= 1);
        self.single = one_each && {
            let mut classes = self.entries.iter().flatten().map(|e| (e.class, e.mark & !1));
            let first = classes.next();
            first.is_some() && classes.all(|class| Some(class) == first)
        };
    }
}
