//! What the nodes offer by name, and so which requirements need pools of their own.

use std::collections::BTreeMap;

use super::SafeMap;
use super::explain::Ability;
use crate::ids::Region;
use crate::inventory::{Ask, Asks, Required, Requirements, Version};
use crate::node::NodeProfile;

/// What kind of thing a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Service,
    Model,
    Feature,
    Region,
}

impl Sort {
    /// A letter that tells equal names of different sorts apart.
    fn letter(self) -> char {
        match self {
            Sort::Service => 's',
            Sort::Model => 'm',
            Sort::Feature => 'f',
            Sort::Region => 'r',
        }
    }

    /// The name as one word with its sort.
    pub fn word(self, name: &str) -> String {
        format!("{}{name}", self.letter())
    }
}

/// Everything that a node of this profile offers by name, some of it more than once.
pub(super) fn each_offer(
    profile: &NodeProfile,
    mut visit: impl FnMut(Sort, &str, Option<&Version>),
) {
    let inventory = &profile.inventory;
    for (kind, _) in profile.services.iter().filter(|(_, ready)| **ready) {
        visit(Sort::Service, kind.as_str(), None);
    }
    for service in inventory.services.iter().flatten().filter(|service| service.is_running()) {
        let version = service.version.as_ref();
        visit(Sort::Service, &service.id.as_str().to_ascii_lowercase(), version);
        if let Some(kind) = &service.kind {
            visit(Sort::Service, kind.as_str(), version);
        }
    }
    for model in inventory.models.iter().flatten().filter(|model| model.loaded) {
        visit(Sort::Model, model.id.as_str(), model.version.as_ref());
    }
    for feature in inventory.features.iter().flatten() {
        visit(Sort::Feature, feature.name.as_str(), feature.version.as_ref());
    }
    if let Some(region) = &profile.region {
        visit(Sort::Region, region.as_str(), None);
    }
}

/// Every name that nodes offer, with its versions, and in how many classes.
#[derive(Debug, Default)]
pub(super) struct Offers {
    by_name: [SafeMap<Box<str>, Listed>; 4],
}

/// In how many classes a name is, and in how many each of its versions.
#[derive(Debug, Default)]
struct Listed {
    classes: u64,
    versions: BTreeMap<Version, u64>,
}

impl Offers {
    pub fn add(&mut self, profile: &NodeProfile) {
        each_offer(profile, |sort, name, version| {
            let names = &mut self.by_name[sort as usize];
            if !names.contains_key(name) {
                names.insert(name.into(), Listed::default());
            }
            let listed = names.get_mut(name).expect("inserted above");
            listed.classes += 1;
            if let Some(version) = version {
                *listed.versions.entry(version.clone()).or_default() += 1;
            }
        });
    }

    pub fn remove(&mut self, profile: &NodeProfile) {
        each_offer(profile, |sort, name, version| {
            let names = &mut self.by_name[sort as usize];
            let listed = names.get_mut(name).expect("added before");
            listed.classes -= 1;
            if listed.classes == 0 {
                names.remove(name);
            } else if let Some(version) = version {
                let classes = listed.versions.get_mut(version).expect("added before");
                *classes -= 1;
                if *classes == 0 {
                    listed.versions.remove(version);
                }
            }
        });
    }

    /// What is asked for, with the versions that nodes list and without the regions that none is in, so that
    /// the number of pools follows from the nodes and not from what callers write. `None` if no node can have all
    /// of it. A node has the one if and only if it has the other.
    pub fn pool_asks(&self, asks: &Asks) -> Option<Asks> {
        if asks.is_none() {
            return Some(Asks::NONE);
        }
        let each = |sort: Sort, list: &[Required]| {
            list.iter().map(|required| self.listed(sort, required)).collect::<Option<Vec<_>>>()
        };
        let there = |list: &[Region]| {
            let there = list.iter().filter(|region| self.has_region(region.as_str()));
            let there: Vec<Region> = there.cloned().collect();
            (list.is_empty() || !there.is_empty()).then_some(there)
        };
        Some(Asks::new(Requirements {
            services: each(Sort::Service, &asks.services)?,
            models: each(Sort::Model, &asks.models)?,
            features: each(Sort::Feature, &asks.features)?,
            regions: there(&asks.regions)?,
            tenant_regions: there(&asks.tenant_regions)?,
        }))
    }

    /// What no node offers. Looks at no node.
    pub fn unserved(&self, asks: &Asks) -> Vec<Ability> {
        let is_there = |ask: &Ask<'_>| match ask {
            Ask::Service(required) => self.listed(Sort::Service, required).is_some(),
            Ask::Model(required) => self.listed(Sort::Model, required).is_some(),
            Ask::Feature(required) => self.listed(Sort::Feature, required).is_some(),
            Ask::Regions(regions) => regions.iter().any(|region| self.has_region(region.as_str())),
        };
        asks.each().filter(|ask| !is_there(ask)).map(|ask| Ability::Asked(ask.alone())).collect()
    }

    /// The same with the lowest version that is listed and will do.
    fn listed(&self, sort: Sort, required: &Required) -> Option<Required> {
        let listed = self.by_name[sort as usize].get(required.name.as_str())?;
        let at_least = match &required.at_least {
            None => None,
            Some(least) => {
                // Of equal versions in different spellings some come before it.
                let equal = listed.versions.range(..least.clone()).rev();
                let equal = equal.take_while(|(version, _)| version.is_at_least(least)).last();
                let lowest = equal.or_else(|| listed.versions.range(least.clone()..).next());
                Some(lowest?.0.clone())
            }
        };
        Some(Required { name: required.name.clone(), at_least })
    }

    fn has_region(&self, name: &str) -> bool {
        self.by_name[Sort::Region as usize].contains_key(name)
    }
}
