//! Values in numbered places that are used again.
//!
//! A place that was left is taken by the next value, while it is still in the processor's cache; and
//! values are never moved, however many there are. The room of a crowd that has gone is given back.

/// Places of one piece of the room.
const CHUNK: usize = 64;

/// Pieces that stand empty without being given back, so that coming and going does not ask the
/// allocator.
const SPARE_CHUNKS: usize = 8;

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Place(u32);

impl Place {
    fn new(chunk: u32, slot: u8) -> Self {
        Place(chunk * CHUNK as u32 + u32::from(slot))
    }

    fn chunk(self) -> u32 {
        self.0 / CHUNK as u32
    }

    fn slot(self) -> u8 {
        (self.0 % CHUNK as u32) as u8
    }
}

/// The values. A place is good from [`Slab::insert`] to [`Slab::remove`]; any other is refused with a
/// panic.
#[derive(Clone)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with a free place; the last is filled first.
    roomy: Vec<u32>,
    /// Chunks that have room and no value.
    spare: usize,
}

#[derive(Clone)]
struct Chunk<T> {
    /// None where nothing is.
    room: Option<Box<Room<T>>>,
    taken: u8,
    /// The place that was left last, and is taken next.
    vacant: u8,
}

#[derive(Clone)]
struct Room<T>([Slot<T>; CHUNK]);

/// A value begins a cache line and shares none with its neighbours.
#[derive(Clone)]
#[repr(align(64))]
enum Slot<T> {
    Taken(T),
    /// With the one to take after it.
    Vacant(u8),
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), roomy: Vec::new(), spare: 0 }
    }
}

impl<T> Slab<T> {
    /// Puts the value into a free place.
    pub(super) fn insert(&mut self, value: T) -> Place {
        let number = self.roomy.last().copied().unwrap_or_else(|| self.another());
        let chunk = &mut self.chunks[number as usize];
        let room = match &mut chunk.room {
            Some(room) => {
                self.spare -= usize::from(chunk.taken == 0);
                room
            }
            none => {
                let slots = std::array::from_fn(|slot| Slot::Vacant(slot as u8 + 1));
                chunk.vacant = 0;
                none.insert(Box::new(Room(slots)))
            }
        };
        let slot = chunk.vacant;
        let Slot::Vacant(next) = room.0[usize::from(slot)] else {
            unreachable!("a vacant place is not taken");
        };
        room.0[usize::from(slot)] = Slot::Taken(value);
        chunk.vacant = next;
        chunk.taken += 1;
        if usize::from(chunk.taken) == CHUNK {
            self.roomy.pop();
        }
        Place::new(number, slot)
    }

    /// Drops the value and leaves its place to the next.
    pub(super) fn remove(&mut self, place: Place) {
        let chunk = &mut self.chunks[place.chunk() as usize];
        match chunk.room.as_mut().map(|room| &mut room.0[usize::from(place.slot())]) {
            Some(slot @ Slot::Taken(_)) => *slot = Slot::Vacant(chunk.vacant),
            _ => unreachable!("a place is good until its value is removed"),
        }
        chunk.vacant = place.slot();
        if usize::from(chunk.taken) == CHUNK {
            self.roomy.push(place.chunk());
        }
        chunk.taken -= 1;
        if chunk.taken == 0 {
            if self.spare < SPARE_CHUNKS {
                self.spare += 1;
            } else {
                chunk.room = None;
            }
        }
    }

    /// The value in this place.
    pub(super) fn at(&self, place: Place) -> &T {
        let chunk = &self.chunks[place.chunk() as usize];
        match chunk.room.as_ref().map(|room| &room.0[usize::from(place.slot())]) {
            Some(Slot::Taken(value)) => value,
            _ => unreachable!("a place is good until its value is removed"),
        }
    }

    /// The value in this place, to change.
    pub(super) fn at_mut(&mut self, place: Place) -> &mut T {
        let chunk = &mut self.chunks[place.chunk() as usize];
        match chunk.room.as_mut().map(|room| &mut room.0[usize::from(place.slot())]) {
            Some(Slot::Taken(value)) => value,
            _ => unreachable!("a place is good until its value is removed"),
        }
    }

    /// The number of one more chunk.
    fn another(&mut self) -> u32 {
        let number = self.chunks.len();
        assert!(number < u32::MAX as usize / CHUNK, "memory ends before the numbers do");
        self.chunks.push(Chunk { room: None, taken: 0, vacant: 0 });
        self.roomy.push(number as u32);
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks that take room.
    fn rooms<T>(slab: &Slab<T>) -> usize {
        slab.chunks.iter().filter(|chunk| chunk.room.is_some()).count()
    }

    #[test]
    fn every_value_stays_in_its_place_until_it_is_removed() {
        let mut slab = Slab::default();
        let mut places = Vec::new();
        // Comings and goings that leave holes in every chunk.
        for n in 0..5_000_usize {
            places.push((slab.insert(n), n));
            if n % 3 == 0 {
                let (place, gone) = places.swap_remove(n * 7 % places.len());
                assert_eq!(*slab.at(place), gone);
                slab.remove(place);
            }
        }
        for (place, n) in &places {
            assert_eq!(slab.at(*place), n);
            assert_eq!(slab.at_mut(*place), n);
        }
        assert!(rooms(&slab) <= places.len() / CHUNK + 2 + SPARE_CHUNKS, "holes are filled first");
    }

    #[test]
    fn the_place_that_was_left_last_is_taken_next() {
        let mut slab = Slab::default();
        let places: Vec<Place> = (0..200).map(|n| slab.insert(n)).collect();
        slab.remove(places[70]);
        slab.remove(places[20]);
        assert_eq!(slab.insert(7), places[20]);
        assert_eq!(slab.insert(8), places[70]);
    }

    #[test]
    fn the_room_of_a_crowd_that_has_gone_is_given_back() {
        let mut slab = Slab::default();
        for _ in 0..3 {
            let places: Vec<Place> = (0..100 * CHUNK).map(|n| slab.insert(n)).collect();
            assert_eq!(rooms(&slab), 100);
            for place in places {
                slab.remove(place);
            }
            assert_eq!((rooms(&slab), slab.spare), (SPARE_CHUNKS, SPARE_CHUNKS));
        }
        assert_eq!(slab.chunks.len(), 100, "the numbers of chunks are used again");
    }

    #[test]
    #[should_panic(expected = "good until its value is removed")]
    fn a_place_is_not_left_twice() {
        let mut slab = Slab::default();
        let place = slab.insert(1);
        slab.insert(2);
        slab.remove(place);
        slab.remove(place);
    }

    #[test]
    fn a_value_is_dropped_when_it_is_removed() {
        let value = std::sync::Arc::new(());
        let mut slab = Slab::default();
        let place = slab.insert(value.clone());
        slab.remove(place);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }
}
