//! Regions as small numbers, so that comparing those of a node and a job reads two bytes.

use super::SafeMap;
use crate::ids::Region;

/// The number of a region; as long as the fleet lives, the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RegionIx(u16);

impl RegionIx {
    /// Of who does not say where it is.
    pub const NOWHERE: RegionIx = RegionIx(0);
    /// Of regions beyond those that are told apart.
    const ELSEWHERE: RegionIx = RegionIx(u16::MAX);

    /// Whether both are in one region, as far as that is known.
    pub fn is_near(self, other: RegionIx) -> bool {
        self == other && self != RegionIx::NOWHERE && self != RegionIx::ELSEWHERE
    }
}

/// Regions that are told apart when nodes are ranked. A fleet has a few; this many only one whose nodes say
/// what they like.
const MAX_REGIONS: usize = 4_096;

/// All regions that nodes said they are in.
#[derive(Debug, Default)]
pub(super) struct Regions(SafeMap<Box<str>, RegionIx>);

impl Regions {
    pub fn number(&mut self, region: Option<&Region>) -> RegionIx {
        let Some(region) = region else { return RegionIx::NOWHERE };
        if let Some(known) = self.0.get(region.as_str()) {
            return *known;
        }
        if self.0.len() == MAX_REGIONS {
            return RegionIx::ELSEWHERE;
        }
        let next = RegionIx(u16::try_from(self.0.len() + 1).expect("at most 4,096"));
        self.0.insert(region.as_str().into(), next);
        next
    }

    pub fn find(&self, region: &Region) -> RegionIx {
        self.0.get(region.as_str()).copied().unwrap_or(RegionIx::NOWHERE)
    }
}
