//! The one door through which randomness comes in.

use rand::Rng;

/// Fresh bits from a generator that the operating system seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chance;

impl Chance {
    /// 64 bits, to choose by.
    pub fn bits(self) -> u64 {
        rand::rng().next_u64()
    }

    /// 128 bits that nobody can guess.
    pub fn nonce(self) -> u128 {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}
