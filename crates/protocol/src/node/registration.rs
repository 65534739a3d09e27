//! What a node says of itself: all of it when it registers, what changed when it reports.

use std::sync::Arc;

use lingua_core::JobId;
use lingua_core::link::{Percents, Supports};
use lingua_core::node::Health;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::capability::{Abilities, Languages, TypeReady, few};
use super::inbound::{cut, invalid};
use super::inventory::Sent;
use crate::{Json, Refusal};

/// Bytes of a node's hardware that are kept and shown.
const MAX_HARDWARE_BYTES: usize = 4_096;

/// Characters of a version or platform that are kept and shown.
const MAX_LABEL: usize = 64;

/// `node_register` or `node_heartbeat`. What is `None` was not said.
#[derive(Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its stable name; a node without one is given one.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub node_id: Option<String>,
    /// What it shows to be let in, where tokens are asked for and the request had none.
    pub token: Option<String>,
    /// Its software; only shown.
    version: Option<String>,
    /// Where it runs; only shown.
    platform: Option<String>,
    /// What it runs on: `cpu_cores`, `memory_gb`, and `gpus` with `name` and `memory_gb`; what else is there is
    /// only shown.
    #[schema(value_type = Option<serde_json::Value>)]
    hardware: Option<Box<RawValue>>,
    /// `ack`, `cancel`, `binary_audio`, `tokens`, `result_ack`, `text`; other words are passed over.
    #[serde(default, deserialize_with = "few")]
    supports: Option<Vec<String>>,
    /// Where it is in its life, in any case. Absent: `ready` once `semantic_core_ready` is not
    /// false.
    health: Option<String>,
    /// What it can do in which languages; needed to register.
    #[schema(inline)]
    language_capabilities: Option<Languages>,
    /// Which services work.
    #[schema(inline)]
    #[serde(default, deserialize_with = "few")]
    capability_by_type: Option<Vec<TypeReady>>,
    /// Its slots. Absent: the scheduler's default.
    #[schema(minimum = 1, maximum = 256)]
    max_concurrent_jobs: Option<i64>,
    /// False: only jobs that name it.
    accept_public_jobs: Option<bool>,
    /// Where it runs, by the operator's name for it. With `jobs.rank = "region"` an instance prefers nodes of
    /// its own region.
    #[schema(pattern = "^[A-Za-z0-9._-]{0,64}$")]
    region: Option<String>,
    /// What a job on it costs, in any unit that all nodes share. Absent: nothing. With `jobs.rank =
    /// "cheapest"` the cheapest goes first.
    #[schema(minimum = 0, maximum = 1000)]
    cost: Option<f64>,
    /// How much of its machine is in use.
    #[schema(inline)]
    resource_usage: Option<Usage>,
    /// Models that are installed, as a list of at most 256 objects: `model_id`, `version`, `kind`, `src_lang`, `tgt_lang`,
    /// `languages`, `enabled`, `loaded`. What cannot be read is passed over.
    #[schema(value_type = Option<serde_json::Value>)]
    installed_models: Option<Box<RawValue>>,
    /// Services that are installed, as a list of at most 128 objects: `service_id`, `type`, `version`, `status`. One whose
    /// status is `running` is not missing any more. What cannot be read is passed over.
    #[schema(value_type = Option<serde_json::Value>)]
    installed_services: Option<Box<RawValue>>,
    /// What it can do beside: an object of names, each with `true` or a version; or a list of `name@version`.
    #[schema(value_type = Option<serde_json::Value>)]
    features_supported: Option<Box<RawValue>>,
    /// What it runs now.
    #[schema(inline, max_items = 4096)]
    #[serde(default, deserialize_with = "few")]
    running: Option<Vec<Runs>>,
}

/// Resources in per cent.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
pub struct Usage {
    /// Of the processors.
    pub cpu_percent: Option<f64>,
    /// Of the GPU.
    pub gpu_percent: Option<f64>,
    /// Of the memory of the GPU.
    pub gpu_mem_percent: Option<f64>,
    /// Of the memory.
    pub mem_percent: Option<f64>,
    /// How many jobs it runs. Of a node that does not list them in `running`, slots of jobs that were given
    /// up are free as far as this says that they do not run.
    #[schema(minimum = 0)]
    running_jobs: Option<f64>,
}

impl Usage {
    /// How much of each resource is in use.
    pub fn percents(&self) -> Percents {
        let Usage { cpu_percent, gpu_percent, gpu_mem_percent, mem_percent, .. } = *self;
        Percents { cpu: cpu_percent, gpu: gpu_percent, gpu_mem: gpu_mem_percent, mem: mem_percent }
    }

    /// How many jobs it runs, if it says a number of them.
    pub fn running_jobs(&self) -> Option<u32> {
        self.running_jobs.filter(|jobs| *jobs >= 0.0).map(|jobs| jobs.ceil() as u32)
    }
}

/// A job that a node runs.
#[derive(Deserialize, ToSchema)]
struct Runs {
    /// As in `job_assign`.
    job_id: String,
    /// As in `job_assign`.
    attempt_id: u32,
}

/// What a node says of itself beside its abilities: shown, never decided on.
#[derive(Clone, Debug, Default)]
pub struct NodeDetail {
    /// Of its software.
    pub version: Option<String>,
    /// Where it runs.
    pub platform: Option<String>,
    /// Bounded JSON, as it came.
    pub hardware: Option<Json>,
    /// How much of its resources is in use, as last reported.
    pub percents: Percents,
    /// Its own last error.
    pub last_error: Option<String>,
}

/// What a node says it runs.
#[derive(Default)]
pub struct RunsNow {
    /// By ids as it knows them.
    pub jobs: Vec<(JobId, u32)>,
    /// What cannot be a job of ours; it is to stop.
    pub strangers: Vec<(String, u32)>,
}

impl NodeStatus {
    /// Puts what it said over what was known: a field that is present replaces the known one as a
    /// whole.
    pub fn put_over(&mut self, known: &mut Abilities) {
        if let Some(languages) = self.language_capabilities.take() {
            known.put_languages(languages);
        }
        if let Some(types) = self.capability_by_type.take() {
            known.types = types;
        }
        known.max_concurrent_jobs = self.max_concurrent_jobs.or(known.max_concurrent_jobs);
        known.accept_public_jobs = self.accept_public_jobs.or(known.accept_public_jobs);
        known.region = self.region.take().or(known.region.take());
        known.cost = self.cost.or(known.cost);
        let sent = Sent {
            models: self.installed_models.as_deref(),
            services: self.installed_services.as_deref(),
            features: self.features_supported.as_deref(),
            hardware: self.hardware.as_deref(),
        };
        sent.put_over(&mut known.inventory);
    }

    /// Where it is in its life, if it says so.
    pub fn health(&self) -> Result<Option<Health>, Refusal> {
        let Some(word) = &self.health else { return Ok(None) };
        let health = Health::parse(&word.to_ascii_lowercase());
        let words = Health::ALL.map(Health::as_str).join(", ");
        health.map(Some).ok_or_else(|| invalid(format!("health: {word:?} is none of {words}")))
    }

    /// What it understands; words that say nothing to us are passed over.
    pub fn supports(&self) -> Supports {
        let mut supports = Supports::default();
        for word in self.supports.iter().flatten() {
            let known = match word.to_ascii_lowercase().as_str() {
                "ack" => &mut supports.ack,
                "cancel" => &mut supports.cancel,
                "binary_audio" => &mut supports.binary_audio,
                "text" => &mut supports.text,
                "tokens" => &mut supports.tokens,
                "result_ack" => &mut supports.result_ack,
                _ => &mut supports.other,
            };
            *known = true;
        }
        supports
    }

    /// What it runs, if it says so.
    pub fn running(&mut self) -> Option<RunsNow> {
        let listed = self.running.take()?;
        let mut running = RunsNow::default();
        for Runs { job_id, attempt_id } in listed {
            match job_id.parse() {
                Ok(job) => running.jobs.push((job, attempt_id)),
                Err(_) => running.strangers.push((cut(&job_id, MAX_LABEL), attempt_id)),
            }
        }
        Some(running)
    }

    /// How much of its machine is in use.
    pub fn usage(&self) -> Usage {
        self.resource_usage.unwrap_or_default()
    }

    /// The services that run, if it says what is installed; after [`NodeStatus::put_over`].
    pub fn services(&self, known: &Abilities) -> Option<Vec<String>> {
        self.installed_services.as_ref().map(|_| known.inventory.running_services())
    }

    /// What is shown and never decided on.
    pub fn detail(&mut self) -> NodeDetail {
        let label = |text: Option<String>| text.map(|text| cut(&text, MAX_LABEL));
        let usage = self.usage();
        let hardware = self.hardware.take().filter(|raw| raw.get().len() <= MAX_HARDWARE_BYTES);
        NodeDetail {
            version: label(self.version.take()),
            platform: label(self.platform.take()),
            hardware: hardware.map(|raw| -> Json { Arc::from(raw) }),
            percents: usage.percents(),
            ..NodeDetail::default()
        }
    }
}
