//! Which services nodes list as not ready.

use std::collections::BTreeMap;

use super::explain::Ability;
use crate::node::{NodeProfile, ServiceKind};

/// How many nodes there are, and how many of them list a service as not ready. Nodes that are not for
/// everybody are not counted, so that nobody learns of them.
#[derive(Debug, Default)]
pub(super) struct ServicesDown {
    nodes: u32,
    down: BTreeMap<ServiceKind, u32>,
}

impl ServicesDown {
    pub fn add(&mut self, profile: &NodeProfile) {
        self.nodes += u32::from(is_for_everybody(profile));
        for kind in listed(profile) {
            *self.down.entry(kind.clone()).or_default() += 1;
        }
    }

    pub fn remove(&mut self, profile: &NodeProfile) {
        self.nodes -= u32::from(is_for_everybody(profile));
        for kind in listed(profile) {
            if let Some(nodes) = self.down.get_mut(kind) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.down.remove(kind);
                }
            }
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Those of the services that these abilities need.
    pub fn needed_for(&self, abilities: &[Ability]) -> Vec<(ServiceKind, u32)> {
        let needed = |kind: &ServiceKind| abilities.iter().any(|a| a.takes_service(kind.as_str()));
        self.down
            .iter()
            .filter(|(kind, _)| needed(kind))
            .map(|(kind, n)| (kind.clone(), *n))
            .collect()
    }
}

fn listed(profile: &NodeProfile) -> impl Iterator<Item = &ServiceKind> {
    profile.listed_down().filter(|_| is_for_everybody(profile))
}

/// Whether anybody's jobs may go to a node of this profile.
pub(super) fn is_for_everybody(profile: &NodeProfile) -> bool {
    !profile.private && profile.tenants.is_none()
}
