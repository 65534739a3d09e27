//! Chance made from a number that comes in from outside, and a walk in random order.

/// A stream of numbers that follows from 64 bits (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub fn new(bits: u64) -> Self {
        Chance(bits)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..n`, each with the same chance to within 2^-32 for any `n` below 2^32.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Every number of `0..n` once, from a random one on with a random stride that has no divisor in
/// common with `n`: O(1) for each and no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    n: usize,
    at: usize,
    stride: usize,
    left: usize,
}

impl Walk {
    pub fn over(n: usize, chance: &mut Chance) -> Self {
        if n == 0 {
            return Walk::default();
        }
        let at = chance.below(n);
        // Among any numbers at least one in nine has no divisor in common with an n below 2^32, so
        // this takes a few draws.
        let stride = loop {
            let stride = 1 + chance.below(n);
            if gcd(stride, n) == 1 {
                break stride;
            }
        };
        Walk { n, at, stride, left: n }
    }
}

impl Iterator for Walk {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = (at + self.stride) % self.n;
        Some(at)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_meets_every_number_exactly_once() {
        for n in (0..200).chain([997, 1_024, 30_030]) {
            for bits in 0..20 {
                let mut met: Vec<usize> = Walk::over(n, &mut Chance::new(bits)).collect();
                met.sort_unstable();
                assert_eq!(met, (0..n).collect::<Vec<_>>());
            }
        }
    }
}
