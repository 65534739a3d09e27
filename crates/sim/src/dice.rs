//! Chance of everybody who is not an engine, from one seed.

use lingua_engine::chance::Chance;

/// A stream of numbers that follows from a seed. Clones draw from one stream.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Chance);

impl Dice {
    /// The stream of one part of the world: who draws more or less elsewhere changes nothing here.
    pub fn of(seed: u64, part: &str, number: usize) -> Self {
        let name = part.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = Chance::seeded(seed ^ name.rotate_left(17) ^ (number as u64) << 48);
        Dice(Chance::seeded(mixed.bits()))
    }

    pub fn bits(&self) -> u64 {
        self.0.bits()
    }

    /// Anything below that.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.bits() % bound.max(1)
    }

    /// Anything from the first to the last.
    pub fn between(&self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True so many times in a thousand.
    pub fn happens(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1_000) < u64::from(per_mille)
    }

    /// One of them.
    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A time that is mostly short and seldom ten times as long.
    pub fn spread_ms(&self, usual_ms: u64) -> u64 {
        let long = if self.happens(60) { self.between(2, 10) } else { 1 };
        self.between(usual_ms / 2, usual_ms * 3 / 2) * long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_world_have_streams_of_their_own() {
        let drawn = |part: &str, number| {
            let dice = Dice::of(7, part, number);
            (dice.bits(), dice.between(5, 9), dice.bits())
        };
        assert_eq!(drawn("node", 1), drawn("node", 1));
        assert_ne!(drawn("node", 1), drawn("node", 2));
        assert_ne!(drawn("node", 1), drawn("speaker", 1));
        assert!((5..=9).contains(&drawn("node", 3).1));
    }
}
