//! What a job asks of a node by name.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use super::{ItemError, ItemName, Version};
use crate::ids::{ModelId, Region};

/// A model, service or feature that a job asks for: `whisper`, or `whisper@3` for version 3 or a later one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Required {
    /// Which one.
    pub name: ItemName,
    /// From this version on; `None` for any, also of one whose version is not known.
    pub at_least: Option<Version>,
}

impl Required {
    /// The same in lower case, for names whose case does not matter.
    pub fn lowercase(&self) -> Self {
        Required { name: self.name.lowercase(), at_least: self.at_least.clone() }
    }

    /// Whether this version will do.
    pub fn is_met_by(&self, version: Option<&Version>) -> bool {
        match (&self.at_least, version) {
            (None, _) => true,
            (Some(least), Some(version)) => version.is_at_least(least),
            (Some(_), None) => false,
        }
    }

    /// The name under which a node reports it missing.
    pub fn gap(&self) -> Option<ModelId> {
        gap(&self.name, self.at_least.as_ref())
    }
}

/// The name under which a node reports something missing, of this version or of any.
pub(crate) fn gap(name: &ItemName, version: Option<&Version>) -> Option<ModelId> {
    match version {
        Some(version) => ModelId::new(format!("{name}.{version}")).ok(),
        None => ModelId::new(name.as_str()).ok(),
    }
}

impl FromStr for Required {
    type Err = ItemError;

    /// Reads `name` or `name@version`.
    fn from_str(text: &str) -> Result<Self, ItemError> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let at_least = version.map(Version::new).transpose()?;
        Ok(Required { name: ItemName::new(name)?, at_least })
    }
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at_least {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl fmt::Debug for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// All that a job asks of a node by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Requirements {
    /// Services that run, by their type or their name, in lower case.
    pub services: Vec<Required>,
    /// Models that are loaded.
    pub models: Vec<Required>,
    /// Features, in lower case.
    pub features: Vec<Required>,
    /// Where the node runs: in one of these regions; anywhere if there is none.
    pub regions: Vec<Region>,
    /// The same, by the tenant. Both hold.
    pub tenant_regions: Vec<Region>,
}

static NOTHING: Requirements = Requirements {
    services: Vec::new(),
    models: Vec::new(),
    features: Vec::new(),
    regions: Vec::new(),
    tenant_regions: Vec::new(),
};

/// What a job asks by name, cheap to clone; for most jobs nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Asks(Option<Arc<Requirements>>);

impl Asks {
    /// Nothing is asked for.
    pub const NONE: Asks = Asks(None);

    /// These, in a fixed order, so that equal ones are equal.
    pub fn new(requirements: Requirements) -> Self {
        let mut sorted = requirements;
        for list in [&mut sorted.services, &mut sorted.models, &mut sorted.features] {
            list.sort_unstable();
            list.dedup();
        }
        for list in [&mut sorted.regions, &mut sorted.tenant_regions] {
            list.sort_unstable();
            list.dedup();
        }
        if sorted.tenant_regions == sorted.regions {
            sorted.tenant_regions.clear();
        }
        Asks((sorted != NOTHING).then(|| Arc::new(sorted)))
    }

    /// Whether it is nothing.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Each single thing that is asked for.
    pub fn each(&self) -> impl Iterator<Item = Ask<'_>> {
        let services = self.services.iter().map(Ask::Service);
        let models = self.models.iter().map(Ask::Model);
        let features = self.features.iter().map(Ask::Feature);
        let regions = [&self.regions, &self.tenant_regions].into_iter();
        let regions = regions.filter(|list| !list.is_empty()).map(|list| Ask::Regions(list));
        services.chain(models).chain(features).chain(regions)
    }
}

impl Deref for Asks {
    type Target = Requirements;

    fn deref(&self) -> &Requirements {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

/// A single thing that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    /// A service, by type or name.
    Service(&'a Required),
    /// A model.
    Model(&'a Required),
    /// A feature.
    Feature(&'a Required),
    /// One of these regions.
    Regions(&'a [Region]),
}

impl Ask<'_> {
    /// The same alone.
    pub fn alone(self) -> Asks {
        let mut alone = Requirements::default();
        match self {
            Ask::Service(required) => alone.services.push(required.clone()),
            Ask::Model(required) => alone.models.push(required.clone()),
            Ask::Feature(required) => alone.features.push(required.clone()),
            Ask::Regions(regions) => alone.regions.extend_from_slice(regions),
        }
        Asks::new(alone)
    }
}

impl fmt::Display for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Service(required) => write!(f, "service({required})"),
            Ask::Model(required) => write!(f, "model({required})"),
            Ask::Feature(required) => write!(f, "feature({required})"),
            Ask::Regions(regions) => {
                let regions: Vec<&str> = regions.iter().map(Region::as_str).collect();
                write!(f, "region({})", regions.join(" or "))
            }
        }
    }
}
