//! The one door through which randomness comes in.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;

/// Where random bits come from. Cheap to clone; clones of a seeded one draw from one stream.
#[derive(Clone, Debug, Default)]
pub struct Chance(Option<Arc<Mutex<u64>>>);

impl Chance {
    /// A generator that the operating system seeds: nobody can guess its bits.
    pub fn system() -> Self {
        Chance(None)
    }

    /// A stream that follows from this seed (SplitMix64), for simulations: anybody can guess its bits.
    pub fn seeded(seed: u64) -> Self {
        Chance(Some(Arc::new(Mutex::new(seed))))
    }

    /// 64 bits, to choose by.
    pub fn bits(&self) -> u64 {
        match &self.0 {
            None => rand::rng().next_u64(),
            Some(state) => split_mix(&mut state.lock()),
        }
    }

    /// 128 bits that nobody can guess, unless they are seeded.
    pub fn nonce(&self) -> u128 {
        if self.0.is_some() {
            return u128::from(self.bits()) << 64 | u128::from(self.bits());
        }
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bits_and_the_system_never_does() {
        let drawn = |chance: Chance| (chance.bits(), chance.nonce(), chance.clone().bits());
        assert_eq!(drawn(Chance::seeded(7)), drawn(Chance::seeded(7)));
        assert_ne!(drawn(Chance::seeded(7)), drawn(Chance::seeded(8)));
        assert_ne!(drawn(Chance::system()), drawn(Chance::system()));
    }
}
