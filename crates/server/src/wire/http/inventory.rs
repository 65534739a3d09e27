//! What a node has installed, for people.

use lingua_core::inventory::{Feature, Gpu, Hardware, Inventory, Model, Service};
use serde::Serialize;
use utoipa::ToSchema;

/// What a node has installed, by its own word. What it never said is absent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InventoryBody {
    /// Models, loaded or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Vec<ModelBody>>,
    /// Services, running or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    services: Option<Vec<ServiceBody>>,
    /// What it can do beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<FeatureBody>>,
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    hardware: Option<HardwareBody>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelBody {
    /// Its name.
    #[schema(example = "whisper")]
    id: String,
    /// Its version, if the node says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "3")]
    version: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "asr")]
    kind: Option<String>,
    /// Languages that it is made for; empty if the node does not say.
    languages: Vec<String>,
    /// It can be used now.
    loaded: bool,
}

/// A service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServiceBody {
    /// Its name.
    #[schema(example = "faster-whisper")]
    id: String,
    /// What it is for.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(example = "asr")]
    kind: Option<String>,
    /// Its version, if the node says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1.4.0")]
    version: Option<String>,
    /// `running`, or what else it does.
    #[schema(example = "running")]
    status: String,
}

/// A feature.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeatureBody {
    /// What it is called, in lower case.
    #[schema(example = "emotion_detection")]
    name: String,
    /// Its version, if the node says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// What a node runs on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HardwareBody {
    /// Cores of its processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_cores: Option<f64>,
    /// Its memory in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_gb: Option<f64>,
    /// Every GPU that it has.
    gpus: Vec<GpuBody>,
}

/// A GPU.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GpuBody {
    /// What it is called; empty if the node does not say.
    name: String,
    /// Its memory in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_gb: Option<f64>,
}

impl InventoryBody {
    pub(crate) fn of(inventory: &Inventory) -> Self {
        let Inventory { models, services, features, hardware } = inventory;
        InventoryBody {
            models: models.as_deref().map(|list| list.iter().map(ModelBody::of).collect()),
            services: services.as_deref().map(|list| list.iter().map(ServiceBody::of).collect()),
            features: features.as_deref().map(|list| list.iter().map(FeatureBody::of).collect()),
            hardware: hardware.as_deref().map(HardwareBody::of),
        }
    }
}

impl ModelBody {
    fn of(Model { id, version, kind, langs, loaded }: &Model) -> Self {
        ModelBody {
            id: id.to_string(),
            version: text(version.as_ref()),
            kind: text(kind.as_ref()),
            languages: langs.iter().map(ToString::to_string).collect(),
            loaded: *loaded,
        }
    }
}

impl ServiceBody {
    fn of(Service { id, version, kind, status }: &Service) -> Self {
        ServiceBody {
            id: id.to_string(),
            kind: text(kind.as_ref()),
            version: text(version.as_ref()),
            status: status.to_string(),
        }
    }
}

impl FeatureBody {
    fn of(Feature { name, version }: &Feature) -> Self {
        FeatureBody { name: name.to_string(), version: text(version.as_ref()) }
    }
}

impl HardwareBody {
    fn of(Hardware { cpu_millis, memory_mb, gpus }: &Hardware) -> Self {
        let gpu = |Gpu { name, memory_mb }: &Gpu| GpuBody {
            name: name.to_string(),
            memory_gb: memory_mb.map(whole),
        };
        HardwareBody {
            cpu_cores: cpu_millis.map(whole),
            memory_gb: memory_mb.map(whole),
            gpus: gpus.iter().map(gpu).collect(),
        }
    }
}

fn whole(thousandths: u32) -> f64 {
    f64::from(thousandths) / 1e3
}

fn text(word: Option<&impl ToString>) -> Option<String> {
    word.map(ToString::to_string)
}
