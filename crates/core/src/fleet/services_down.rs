//! Which services nodes list as not ready.

use std::collections::BTreeMap;

use super::explain::Ability;
use crate::node::{NodeProfile, ServiceKind};

/// How many nodes list a service as not ready. Nodes that are not for everybody are not counted, so
/// that nobody learns of them.
#[derive(Debug, Default)]
pub(super) struct ServicesDown(BTreeMap<ServiceKind, u32>);

impl ServicesDown {
    pub fn add(&mut self, profile: &NodeProfile) {
        for kind in listed(profile) {
            *self.0.entry(kind.clone()).or_default() += 1;
        }
    }

    pub fn remove(&mut self, profile: &NodeProfile) {
        for kind in listed(profile) {
            if let Some(nodes) = self.0.get_mut(kind) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.0.remove(kind);
                }
            }
        }
    }

    /// Those of the services that these abilities need.
    pub fn needed_for(&self, abilities: &[Ability]) -> Vec<(ServiceKind, u32)> {
        let needed = |kind: &ServiceKind| abilities.iter().any(|a| a.service() == kind.as_str());
        self.0.iter().filter(|(kind, _)| needed(kind)).map(|(kind, n)| (kind.clone(), *n)).collect()
    }
}

fn listed(profile: &NodeProfile) -> impl Iterator<Item = &ServiceKind> {
    let for_everybody = !profile.private && profile.tenants.is_none();
    profile.listed_down().filter(move |_| for_everybody)
}
