//! What a node has installed, as it sends it: models, services, features and hardware.
//!
//! Existing agents list whatever they find on their disk. So over the socket an entry that cannot be read is
//! passed over, and counts as not there; only a list that is too long is refused. Over HTTP it is refused.

use lingua_core::Lang;
use lingua_core::inventory::{
    Feature, Gpu, Hardware, Inventory, ItemName, Model, Service, Version,
};
use lingua_core::lang::LangSet;
use lingua_core::limits::{MAX_GPUS_PER_NODE, MAX_ID_CHARS};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::capability::MAX_ENTRIES;
use super::inbound::cut;
use crate::json::Text;

/// An installed model.
#[derive(Deserialize, ToSchema)]
pub struct InstalledModel<'a> {
    /// Its name: 1 to 64 printable characters without `@` and `,`.
    #[serde(borrow, alias = "id")]
    #[schema(value_type = String)]
    model_id: Text<'a>,
    /// Its version: 1 to 32 of `A-Z a-z 0-9 . _ + -`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    version: Option<Text<'a>>,
    /// What it is for: `asr`, `nmt`, `tts`, … in any case.
    #[serde(borrow, alias = "type")]
    #[schema(value_type = Option<String>)]
    kind: Option<Text<'a>>,
    /// The language that it reads.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    src_lang: Option<Text<'a>>,
    /// The language that it writes.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    tgt_lang: Option<Text<'a>>,
    /// All its languages.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>)]
    languages: Option<Vec<Text<'a>>>,
    /// False: it is there and switched off.
    enabled: Option<bool>,
    /// False: it is there and cannot be used before it is loaded.
    loaded: Option<bool>,
}

/// An installed service.
#[derive(Deserialize, ToSchema)]
pub struct InstalledService<'a> {
    /// Its name, which `MODEL_NOT_AVAILABLE` gives as `service_id`.
    #[serde(borrow, alias = "id")]
    #[schema(value_type = String)]
    service_id: Text<'a>,
    /// `asr`, `tone`, … in any case.
    #[serde(borrow, rename = "type")]
    #[schema(value_type = Option<String>)]
    kind: Option<Text<'a>>,
    /// As of a model.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    version: Option<Text<'a>>,
    /// `running`, in any case, or what else it does. Absent: it does not run.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    status: Option<Text<'a>>,
}

/// What a node runs on, as far as it is kept; the rest is only shown.
#[derive(Deserialize)]
struct Machine {
    cpu_cores: Option<f64>,
    memory_gb: Option<f64>,
    gpus: Option<Vec<Card>>,
}

/// A GPU as a node sends it.
#[derive(Deserialize)]
struct Card {
    name: Option<String>,
    memory_gb: Option<f64>,
}

/// The lists of what a node has, as it sends them; each is what it was before if it is not sent.
#[derive(Clone, Copy, Default)]
pub struct Sent<'a> {
    /// A list of models.
    pub models: Option<&'a RawValue>,
    /// A list of services.
    pub services: Option<&'a RawValue>,
    /// An object of features, each with whether it is there or its version; or a list of `name@version`.
    pub features: Option<&'a RawValue>,
    /// The machine.
    pub hardware: Option<&'a RawValue>,
}

impl Sent<'_> {
    /// Puts what was sent over what was known, each list as a whole.
    pub fn put_over(self, known: &mut Inventory) {
        let Inventory { models, services, features, hardware } = known;
        replace(models, self.models.and_then(|raw| entries(raw, model)));
        replace(services, self.services.and_then(|raw| entries(raw, service)));
        replace(features, self.features.and_then(read_features));
        replace(hardware, self.hardware.and_then(read_hardware).map(Box::new));
    }

    /// The first entry that cannot be read, if there is one: `models[3]`.
    pub fn unreadable(self) -> Option<String> {
        let models = self.models.and_then(|raw| first_unreadable("models", raw, model));
        let services = self.services.and_then(|raw| first_unreadable("services", raw, service));
        let features = self.features.filter(|raw| match each_feature(raw) {
            Some(said) => said.iter().any(|said| matches!(said, SentFeature::Unreadable)),
            None => true,
        });
        models.or(services).or(features.map(|_| "features".to_owned()))
    }
}

fn first_unreadable<T>(
    field: &str,
    list: &RawValue,
    read: impl Fn(&RawValue) -> Option<T>,
) -> Option<String> {
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else {
        return Some(field.to_owned());
    };
    let at = entries.into_iter().position(|entry| read(entry).is_none())?;
    Some(format!("{field}[{at}]"))
}

fn replace<T>(known: &mut Option<T>, sent: Option<T>) {
    if sent.is_some() {
        *known = sent;
    }
}

/// The entries of a list that can be read; `None` if it is no list.
fn entries<T: Ord>(list: &RawValue, read: impl Fn(&RawValue) -> Option<T>) -> Option<Vec<T>> {
    let entries: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    Some(sorted(entries.into_iter().take(MAX_ENTRIES).filter_map(read)))
}

/// In a fixed order, so that the same in another order is no change.
fn sorted<T: Ord>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut entries: Vec<T> = entries.collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn model(entry: &RawValue) -> Option<Model> {
    let said: InstalledModel<'_> = serde_json::from_str(entry.get()).ok()?;
    let named = [&said.src_lang, &said.tgt_lang].into_iter().flatten();
    let langs =
        named.chain(said.languages.iter().flatten()).filter_map(|tag| Lang::new(&tag.0).ok());
    Some(Model {
        id: ItemName::new(&said.model_id.0).ok()?,
        version: version(said.version.as_ref()),
        kind: kind(said.kind.as_ref()),
        langs: LangSet::new(langs).ok()?,
        loaded: said.enabled.unwrap_or(true) && said.loaded.unwrap_or(true),
    })
}

fn service(entry: &RawValue) -> Option<Service> {
    let said: InstalledService<'_> = serde_json::from_str(entry.get()).ok()?;
    let status = kind(said.status.as_ref()).or_else(|| ItemName::new("unknown").ok())?;
    Some(Service {
        id: ItemName::new(&said.service_id.0).ok()?,
        version: version(said.version.as_ref()),
        kind: kind(said.kind.as_ref()),
        status,
    })
}

fn version(said: Option<&Text<'_>>) -> Option<Version> {
    Version::new(&said?.0).ok()
}

fn kind(said: Option<&Text<'_>>) -> Option<ItemName> {
    ItemName::new(&said?.0.to_ascii_lowercase()).ok()
}

/// What is said of one feature.
enum SentFeature {
    There(Feature),
    NotThere,
    Unreadable,
}

/// Every feature that is spoken of; `None` if it is neither an object nor a list.
fn each_feature(sent: &RawValue) -> Option<Vec<SentFeature>> {
    let there = |name: &str, version: Option<&str>| {
        let version = version.map(Version::new).transpose();
        match (ItemName::new(&name.to_ascii_lowercase()), version) {
            (Ok(name), Ok(version)) => SentFeature::There(Feature { name, version }),
            _ => SentFeature::Unreadable,
        }
    };
    let of_field = |(name, value): (&String, &Value)| match value {
        Value::Bool(true) => there(name, None),
        Value::Bool(false) | Value::Null => SentFeature::NotThere,
        Value::String(version) => there(name, Some(version)),
        Value::Number(version) => there(name, Some(&version.to_string())),
        Value::Array(_) | Value::Object(_) => SentFeature::Unreadable,
    };
    let of_word = |word: &Value| match word.as_str().map(|word| word.split_once('@').ok_or(word)) {
        Some(Ok((name, version))) => there(name, Some(version)),
        Some(Err(name)) => there(name, None),
        None => SentFeature::Unreadable,
    };
    match serde_json::from_str(sent.get()).ok()? {
        Value::Object(fields) => Some(fields.iter().take(MAX_ENTRIES).map(of_field).collect()),
        Value::Array(words) => Some(words.iter().take(MAX_ENTRIES).map(of_word).collect()),
        _ => None,
    }
}

/// Features that are there.
fn read_features(sent: &RawValue) -> Option<Vec<Feature>> {
    let there = each_feature(sent)?.into_iter().filter_map(|said| match said {
        SentFeature::There(feature) => Some(feature),
        SentFeature::NotThere | SentFeature::Unreadable => None,
    });
    Some(sorted(there))
}

fn read_hardware(sent: &RawValue) -> Option<Hardware> {
    let Machine { cpu_cores, memory_gb, gpus } = serde_json::from_str(sent.get()).ok()?;
    let gpu = |card: Card| Gpu {
        name: cut(&card.name.unwrap_or_default(), MAX_ID_CHARS).into(),
        memory_mb: card.memory_gb.and_then(thousandths),
    };
    Some(Hardware {
        cpu_millis: cpu_cores.and_then(thousandths),
        memory_mb: memory_gb.and_then(thousandths),
        gpus: gpus.unwrap_or_default().into_iter().take(MAX_GPUS_PER_NODE).map(gpu).collect(),
    })
}

/// A count in thousandths, if there can be so much.
fn thousandths(count: f64) -> Option<u32> {
    (0.0..=1e6).contains(&count).then(|| (count * 1e3).round() as u32)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(field: &str, value: &Value) -> Inventory {
        let raw: Box<RawValue> = serde_json::from_str(&value.to_string()).unwrap();
        let mut sent = Sent::default();
        match field {
            "models" => sent.models = Some(&raw),
            "services" => sent.services = Some(&raw),
            "features" => sent.features = Some(&raw),
            _ => sent.hardware = Some(&raw),
        }
        let mut known = Inventory::default();
        sent.put_over(&mut known);
        known
    }

    #[test]
    fn models_are_read_as_existing_agents_and_as_newer_ones_write_them() {
        let models = sent(
            "models",
            &json!([
                { "model_id": "m2m100", "kind": "NMT", "src_lang": "en", "tgt_lang": "zh", "dialect": null,
                  "version": "1.2.0", "enabled": true },
                { "id": "whisper", "type": "asr", "languages": ["de", "en"], "version": "v3", "loaded": false },
                { "model_id": "plain" },
            ]),
        );
        let written = serde_json::to_value(models.models.unwrap()).unwrap();
        assert_eq!(
            written,
            json!([
                { "id": "m2m100", "version": "1.2.0", "kind": "nmt", "langs": ["en", "zh"], "loaded": true },
                { "id": "plain", "loaded": true },
                { "id": "whisper", "version": "v3", "kind": "asr", "langs": ["de", "en"], "loaded": false },
            ])
        );
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_not_there_and_the_others_are() {
        let models = json!([1, null, {}, { "model_id": "" }, { "model_id": "a@1" }, { "model_id": 7 },
            { "model_id": "x".repeat(65) }, { "model_id": "good", "version": "no version" }]);
        let models = sent("models", &models).models.unwrap();
        assert_eq!(models.len(), 1, "{models:?}");
        assert_eq!((models[0].id.as_str(), &models[0].version), ("good", &None));
        let services = json!([{ "service_id": "a", "status": "RUNNING", "type": "Tone" }, { "service_id": [] },
            { "service_id": "b", "status": "bad status" }, { "service_id": "c" }]);
        let services = sent("services", &services).services.unwrap();
        let said: Vec<_> = services.iter().map(|s| (s.id.as_str(), s.status.as_str())).collect();
        assert_eq!(said, [("a", "running"), ("b", "unknown"), ("c", "unknown")]);
        assert_eq!(services[0].kind.as_ref().unwrap().as_str(), "tone");
    }

    #[test]
    fn features_are_an_object_or_a_list() {
        let names = |value: &Value| {
            let features = sent("features", value).features?;
            let word = |f: Feature| match f.version {
                Some(version) => format!("{}@{version}", f.name),
                None => f.name.to_string(),
            };
            Some(features.into_iter().map(word).collect::<Vec<_>>())
        };
        let object =
            json!({ "Emotion": true, "speaker": false, "diarization": "2.1", "n": 3, "x": [] });
        assert_eq!(names(&object).unwrap(), ["diarization@2.1", "emotion", "n@3"]);
        assert_eq!(names(&json!(["a", "b@2", "c@", "@1", 7])).unwrap(), ["a", "b@2"]);
        assert_eq!(names(&json!("emotion")), None);
    }

    #[test]
    fn hardware_is_kept_in_whole_numbers_and_what_cannot_be_is_left_out() {
        let hardware = json!({ "cpu_cores": 7.5, "memory_gb": 31.25, "board": "x",
            "gpus": [{ "name": "RTX 4090", "memory_gb": 24 }, { "memory_gb": -1 }] });
        let hardware = *sent("hardware", &hardware).hardware.unwrap();
        assert_eq!((hardware.cpu_millis, hardware.memory_mb), (Some(7_500), Some(31_250)));
        let gpus: Vec<_> = hardware.gpus.iter().map(|gpu| (&*gpu.name, gpu.memory_mb)).collect();
        assert_eq!(gpus, [("RTX 4090", Some(24_000)), ("", None)]);
        assert_eq!(sent("hardware", &json!({ "cpu_cores": "many" })).hardware, None);
    }

    #[test]
    fn the_first_entry_that_cannot_be_read_is_named() {
        let of = |field: &str, value: Value| {
            let raw: Box<RawValue> = serde_json::from_str(&value.to_string()).unwrap();
            let mut sent = Sent::default();
            *(match field {
                "models" => &mut sent.models,
                "services" => &mut sent.services,
                _ => &mut sent.features,
            }) = Some(&raw);
            sent.unreadable()
        };
        assert_eq!(of("models", json!([{ "model_id": "a" }, 5])), Some("models[1]".to_owned()));
        assert_eq!(of("services", json!({})), Some("services".to_owned()));
        assert_eq!(of("features", json!({ "a": false, "b": [] })), Some("features".to_owned()));
        assert_eq!(of("features", json!(["a@"])), Some("features".to_owned()));
        assert_eq!(of("features", json!({ "a": false, "b": null, "c": "1" })), None);
        assert_eq!(of("models", json!([{ "model_id": "a" }])), None);
    }

    #[test]
    fn a_list_that_is_not_sent_stays_as_it_was() {
        let mut known = sent("models", &json!([{ "model_id": "a" }]));
        Sent::default().put_over(&mut known);
        assert_eq!(known.models.as_ref().unwrap().len(), 1);
        let none: Box<RawValue> = serde_json::from_str("[]").unwrap();
        Sent { models: Some(&none), ..Sent::default() }.put_over(&mut known);
        assert_eq!(known.models, Some(Vec::new()));
    }
}
