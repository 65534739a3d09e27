//! Old flaws, planted in worlds: after how many seeds a promise is seen to break.

use lingua_core::planted::{Flaw, Planted};

use crate::run::{Options, run};
use crate::verdict::Broken;

/// Where a planted flaw was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Worlds that were lived through, with the one that broke.
    pub worlds: u64,
    /// The seed of that one.
    pub seed: u64,
    /// The first promise that was broken in it.
    pub broken: Broken,
}

/// Lives through the worlds of these seeds with a flaw planted in each, until one breaks a promise.
pub fn hunt(flaw: Flaw, seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    let planted = Planted::new([flaw]);
    let mut worlds = 0;
    let found = seeds.into_iter().find_map(|seed| {
        worlds += 1;
        let broken = run(seed, &Options::default()).broken.into_iter().next()?;
        Some(Found { worlds, seed, broken })
    });
    drop(planted);
    found
}
