//! Whether a node has what a job asks for by name.

use super::NodeProfile;
use crate::ids::ModelId;
use crate::inventory::{Ask, Inventory, ItemName, Required, Version, gap};

impl NodeProfile {
    /// Whether the node has what is asked for, and did not report it missing. What it does not list it does
    /// not have.
    pub fn has(&self, ask: Ask<'_>, missing: &[ModelId]) -> bool {
        let is_missing = |name: &ItemName, version: Option<&Version>, required: &Required| {
            let names = [gap(name, None), gap(name, version), required.gap()];
            !missing.is_empty() && names.iter().flatten().any(|name| missing.contains(name))
        };
        let Inventory { models, services, features, .. } = &self.inventory;
        match ask {
            Ask::Service(required) => {
                let name = required.name.as_str();
                let listed = self.services.get(name).copied();
                let runs = services.iter().flatten().any(|service| {
                    let of_type = listed != Some(false)
                        && service.kind.as_ref().is_some_and(|kind| kind.as_str() == name);
                    (of_type || service.id.as_str().eq_ignore_ascii_case(name))
                        && service.is_running()
                        && required.is_met_by(service.version.as_ref())
                        && !is_missing(&service.id, service.version.as_ref(), required)
                });
                runs || listed == Some(true)
                    && required.at_least.is_none()
                    && !is_missing(&required.name, None, required)
            }
            Ask::Model(required) => models.iter().flatten().any(|model| {
                let version = model.version.as_ref();
                model.loaded
                    && model.id == required.name
                    && required.is_met_by(version)
                    && !is_missing(&model.id, version, required)
            }),
            Ask::Feature(required) => features.iter().flatten().any(|feature| {
                feature.name == required.name && required.is_met_by(feature.version.as_ref())
            }),
            Ask::Regions(regions) => {
                self.region.as_ref().is_some_and(|region| regions.contains(region))
            }
        }
    }
}
