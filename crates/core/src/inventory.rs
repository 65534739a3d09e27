//! What a node has installed, by its own word: models, services, features and hardware.

mod required;
mod version;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub(crate) use required::gap;
pub use required::{Ask, Asks, Required, Requirements};
pub use version::Version;

use crate::lang::LangSet;
use crate::limits::{
    MAX_FEATURES_PER_NODE, MAX_GPUS_PER_NODE, MAX_ID_CHARS, MAX_INSTALLED_SERVICES_PER_NODE,
    MAX_MODELS_PER_NODE,
};

/// Why a word is no name or no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Not a name of a model, a service or a feature.
    #[error(
        "{0:?} is not a name: 1 to {MAX_ID_CHARS} printable ASCII characters without '@' and ','"
    )]
    Name(String),
    /// Not a version.
    #[error("{0:?} is not a version: 1 to 32 letters, digits, '.', '-', '_' and '+'")]
    Version(String),
    /// More entries than are kept.
    #[error("at most {most} {what}, this list has {listed}")]
    TooMany {
        /// Which entries.
        what: &'static str,
        /// So many are kept.
        most: usize,
        /// So many are there.
        listed: usize,
    },
}

/// The name of a model, of a service or of a feature.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ItemName(Box<str>);

impl ItemName {
    /// Checks `text`: what stands before `@` in `name@version`, and between commas in a list.
    pub fn new(text: &str) -> Result<Self, ItemError> {
        let fits = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '@' | ','));
        if text.is_empty() || text.len() > MAX_ID_CHARS || !fits {
            return Err(ItemError::Name(text.chars().take(MAX_ID_CHARS).collect()));
        }
        Ok(ItemName(text.into()))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same in lower case.
    pub fn lowercase(&self) -> Self {
        ItemName(self.0.to_ascii_lowercase().into())
    }
}

impl TryFrom<String> for ItemName {
    type Error = ItemError;
    fn try_from(text: String) -> Result<Self, ItemError> {
        ItemName::new(&text)
    }
}

impl From<ItemName> for String {
    fn from(name: ItemName) -> String {
        name.0.into()
    }
}

impl FromStr for ItemName {
    type Err = ItemError;
    fn from_str(text: &str) -> Result<Self, ItemError> {
        ItemName::new(text)
    }
}

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A model that is installed on a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Model {
    /// Its name.
    pub id: ItemName,
    /// Its version, if the node says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// What it is for (`asr`, `nmt`, …), in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ItemName>,
    /// Languages that it is made for; empty if the node does not say.
    #[serde(default, skip_serializing_if = "LangSet::is_empty")]
    pub langs: LangSet,
    /// It can be used: neither switched off nor still to be loaded.
    pub loaded: bool,
}

/// A service that is installed on a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub id: ItemName,
    /// Its version, if the node says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Its type (`asr`, `tone`, …), in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ItemName>,
    /// What it does now, in lower case; `running` if it works.
    pub status: ItemName,
}

impl Service {
    /// The status of a service that works.
    pub const RUNNING: &'static str = "running";

    /// Whether it works.
    pub fn is_running(&self) -> bool {
        self.status.as_str() == Self::RUNNING
    }
}

/// Something that a node can do beyond the languages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Feature {
    /// Its name, in lower case.
    pub name: ItemName,
    /// Its version, if the node says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
}

/// What a node runs on. Whole numbers, so that equal machines are equal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// Processor cores, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Memory in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

/// A GPU of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// What it is called; empty if the node does not say.
    pub name: Box<str>,
    /// Its memory in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
}

/// What a node has, by its own word. A list that it never sent is `None`: nothing is known then.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// Models, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<Model>>,
    /// Services, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<Service>>,
    /// Features, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<Feature>>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Box<Hardware>>,
}

impl Inventory {
    /// The same in a fixed order, each entry once. Refused if a list is too long.
    pub fn bounded(self) -> Result<Self, ItemError> {
        let Inventory { models, services, features, hardware } = self;
        let gpus = hardware.as_ref().map_or(0, |hardware| hardware.gpus.len());
        at_most("GPUs", MAX_GPUS_PER_NODE, gpus)?;
        Ok(Inventory {
            models: sorted("models", MAX_MODELS_PER_NODE, models)?,
            services: sorted("installed services", MAX_INSTALLED_SERVICES_PER_NODE, services)?,
            features: sorted("features", MAX_FEATURES_PER_NODE, features)?,
            hardware,
        })
    }

    /// All of it by which a job chooses.
    pub(crate) fn offers(&self) -> (&[Model], &[Service], &[Feature]) {
        let Inventory { models, services, features, .. } = self;
        (
            models.as_deref().unwrap_or_default(),
            services.as_deref().unwrap_or_default(),
            features.as_deref().unwrap_or_default(),
        )
    }

    /// The services that run, by their names.
    pub fn running_services(&self) -> Vec<String> {
        let running = self.services.iter().flatten().filter(|service| service.is_running());
        running.map(|service| service.id.to_string()).collect()
    }
}

fn sorted<T: Ord>(
    what: &'static str,
    most: usize,
    list: Option<Vec<T>>,
) -> Result<Option<Vec<T>>, ItemError> {
    let Some(mut list) = list else { return Ok(None) };
    list.sort_unstable();
    list.dedup();
    at_most(what, most, list.len())?;
    Ok(Some(list))
}

fn at_most(what: &'static str, most: usize, listed: usize) -> Result<(), ItemError> {
    if listed > most {
        return Err(ItemError::TooMany { what, most, listed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &str) -> Feature {
        Feature { name: name.parse().unwrap(), version: None }
    }

    #[test]
    fn a_name_is_printable_and_has_neither_version_nor_comma() {
        for good in ["whisper", "openai/whisper:large-v3", "a", &"x".repeat(64)] {
            assert!(ItemName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "whisper@3", "a,b", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(ItemName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_inventory_is_sorted_so_that_equal_ones_are_equal() {
        let of = |names: &[&str]| Inventory {
            features: Some(names.iter().map(|name| feature(name)).collect()),
            ..Inventory::default()
        };
        assert_eq!(of(&["b", "a", "b"]).bounded(), of(&["a", "b"]).bounded());
    }

    #[test]
    fn a_list_has_a_bound_and_the_refusal_names_it() {
        let many = (0..=MAX_FEATURES_PER_NODE).map(|i| feature(&format!("f{i}"))).collect();
        let error = Inventory { features: Some(many), ..Inventory::default() }.bounded();
        assert_eq!(error.unwrap_err().to_string(), "at most 64 features, this list has 65");
    }
}
