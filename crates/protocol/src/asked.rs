//! What a caller asks for by name, the same through every door: services, models, features, regions, and a node.

use std::collections::BTreeMap;

use lingua_core::inventory::{ItemName, Required, Requirements};
use lingua_core::limits::{
    MAX_FEATURES_PER_JOB, MAX_MODELS_PER_JOB, MAX_REGIONS_PER_JOB, MAX_SERVICES_PER_NODE,
};
use lingua_core::{NodeId, Region};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::fields::wrong;
use crate::options::{JobOptions, JsonObject};
use crate::{Json, Refusal};

/// What `session_init`, `set_languages`, `utterance` and `text_utterance` ask for beside the languages. What an
/// utterance leaves out is as in its session.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct AskedFields {
    /// Services that the node must run, by type or by name: `tone`, or `tone@2` for version 2 or a later one.
    #[schema(max_items = 64)]
    pub services: Option<Vec<String>>,
    /// Models that the node must have loaded, as `name` or `name@version`.
    #[schema(max_items = 8)]
    pub models: Option<Vec<String>>,
    /// Regions where the node may be; a node that does not say where it is is in none.
    #[schema(max_items = 16)]
    pub residency: Option<Vec<String>>,
    /// Where the person is: with `jobs.rank = "region"` nodes there go first. Absent: where the instance is.
    pub region: Option<String>,
    /// The node to try first.
    pub preferred_node_id: Option<String>,
    /// Try no other node than the preferred one.
    pub strict: Option<bool>,
}

/// The same, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Services, models, features and regions.
    pub named: Requirements,
    /// Where the person is.
    pub region: Option<Region>,
    /// The node to try first.
    pub preferred: Option<NodeId>,
    /// Try no other.
    pub strict: bool,
}

impl AskedFields {
    /// Reads every field; what is absent is as `before`. Of `features` in the options a list asks and becomes the
    /// object that nodes understand; an object asks for nothing. `path` stands before the names of fields.
    pub fn read(self, path: &str, job: &mut JobOptions, before: &Asked) -> Result<Asked, Refusal> {
        let AskedFields { services, models, residency, region, preferred_node_id, strict } = self;
        let at = |field: &str| format!("{path}{field}");
        let features = take_features(job)?;
        let old = before.named.clone();
        let named = Requirements {
            services: match services {
                Some(words) => lowercase(names(&at("services"), &words, MAX_SERVICES_PER_NODE)?),
                None => old.services,
            },
            models: match models {
                Some(words) => names(&at("models"), &words, MAX_MODELS_PER_JOB)?,
                None => old.models,
            },
            features: features.unwrap_or(old.features),
            regions: match residency {
                Some(words) => regions(&at("residency"), &words)?,
                None => old.regions,
            },
            tenant_regions: old.tenant_regions,
        };
        let region = said(region).map(|name| one_region(&at("region"), &name)).transpose()?;
        let node = said(preferred_node_id);
        let node =
            node.map(|id| NodeId::new(id).map_err(|error| wrong(&at("preferred_node_id"), error)));
        let preferred = node.transpose()?.or_else(|| before.preferred.clone());
        let strict = strict.unwrap_or(before.strict);
        if strict && preferred.is_none() {
            return Err(wrong(&at("strict"), format_args!("needs {path}preferred_node_id")));
        }
        Ok(Asked { named, region: region.or_else(|| before.region.clone()), preferred, strict })
    }
}

/// Some clients send every field, and those without a value as an empty word.
fn said(word: Option<String>) -> Option<String> {
    word.filter(|word| !word.is_empty())
}

/// What a list asks for by name.
pub fn names(field: &str, words: &[String], most: usize) -> Result<Vec<Required>, Refusal> {
    if words.len() > most {
        return Err(wrong(field, format_args!("has more than {most} names")));
    }
    let read = words.iter().map(|word| word.parse::<Required>());
    read.collect::<Result<_, _>>().map_err(|error| wrong(field, error))
}

/// The same in lower case, where case does not matter.
pub fn lowercase(names: Vec<Required>) -> Vec<Required> {
    names.iter().map(Required::lowercase).collect()
}

/// The regions of a list.
pub fn regions(field: &str, words: &[String]) -> Result<Vec<Region>, Refusal> {
    if words.len() > MAX_REGIONS_PER_JOB {
        return Err(wrong(field, format_args!("has more than {MAX_REGIONS_PER_JOB} regions")));
    }
    words.iter().map(|word| one_region(field, word)).collect()
}

fn one_region(field: &str, name: &str) -> Result<Region, Refusal> {
    Region::new(name).map_err(|error| wrong(field, error))
}

/// Features that the options ask for in a list, which becomes the object that nodes understand; none if they
/// say an object, `None` if they say nothing.
pub fn take_features(job: &mut JobOptions) -> Result<Option<Vec<Required>>, Refusal> {
    let Some(said) = &job.features else { return Ok(None) };
    if !said.get().starts_with('[') {
        return Ok(Some(Vec::new()));
    }
    let words: Vec<String> = serde_json::from_str(said.get())
        .map_err(|_| wrong("features", "is neither an object nor a list of names"))?;
    let features = lowercase(names("features", &words, MAX_FEATURES_PER_JOB)?);
    job.features = Some(as_object(&features));
    Ok(Some(features))
}

/// The object that nodes understand.
pub fn as_object(features: &[Required]) -> JsonObject {
    let fields: BTreeMap<&str, bool> =
        features.iter().map(|feature| (feature.name.as_str(), true)).collect();
    let raw = serde_json::value::to_raw_value(&fields).expect("names and booleans are JSON");
    JsonObject(Json::from(raw))
}

/// Switches of a pipeline and the types of services that they ask for. The steps that a direction asks for are
/// not among them.
const SWITCHES: [(&str, &str); 3] =
    [("use_tone", "tone"), ("use_phonetic", "phonetic"), ("use_punctuation", "punctuation")];

/// The services that the switches of a pipeline ask for.
pub fn switched_on(pipeline: &JsonObject) -> Vec<Required> {
    let Ok(steps) = serde_json::from_str::<BTreeMap<String, &RawValue>>(pipeline.get()) else {
        return Vec::new();
    };
    let is_on = |switch: &str| steps.get(switch).is_some_and(|value| value.get() == "true");
    let on = SWITCHES.iter().filter(|(switch, _)| is_on(switch));
    on.map(|(_, kind)| Required {
        name: ItemName::new(kind).expect("a fixed word"),
        at_least: None,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(features: Value) -> JobOptions {
        let message = json!({ "src_lang": "en", "tgt_lang": "zh", "features": features });
        serde_json::from_value(message).unwrap()
    }

    fn read(fields: Value, before: &Asked) -> Result<Asked, String> {
        let fields: AskedFields = serde_json::from_value(fields).unwrap();
        fields.read("options.", &mut job(Value::Null), before).map_err(|refusal| refusal.detail)
    }

    fn words(list: &[Required]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_of_features_asks_and_an_object_is_passed_on() {
        let mut list = job(json!(["Emotion_Detection@2", "speaker"]));
        let asked = take_features(&mut list).unwrap().unwrap();
        assert_eq!(words(&asked), ["emotion_detection@2", "speaker"]);
        assert_eq!(list.features.unwrap().get(), r#"{"emotion_detection":true,"speaker":true}"#);
        let mut object = job(json!({ "emotion_detection": true }));
        assert_eq!(take_features(&mut object).unwrap(), Some(Vec::new()));
        assert_eq!(object.features.unwrap().get(), r#"{"emotion_detection":true}"#);
        assert_eq!(take_features(&mut job(Value::Null)).unwrap(), None);
        for wrong in [json!([5]), json!(["a b"]), json!(["a@"]), json!(vec!["f"; 65])] {
            assert!(take_features(&mut job(wrong.clone())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_switch_asks_for_its_service_and_what_a_direction_needs_is_not_asked_twice() {
        let on = |pipeline: Value| {
            let raw: Box<RawValue> = serde_json::from_str(&pipeline.to_string()).unwrap();
            words(&switched_on(&JsonObject(Json::from(raw))))
        };
        let all = json!({ "use_asr": true, "use_nmt": true, "use_semantic": true, "use_tts": true,
            "use_tone": true, "use_punctuation": true, "use_magic": true });
        assert_eq!(on(all), ["tone", "punctuation"]);
        assert_eq!(on(json!({ "use_tone": false, "use_phonetic": "true" })), [""; 0]);
    }

    #[test]
    fn what_is_left_out_is_as_before_and_what_is_said_replaces_it() {
        let first = json!({ "services": ["Tone"], "models": ["whisper@3"], "residency": ["eu"], "region": "eu",
            "preferred_node_id": "n", "strict": true });
        let first = read(first, &Asked::default()).unwrap();
        assert_eq!(words(&first.named.services), ["tone"]);
        assert_eq!(read(json!({}), &first).unwrap(), first);
        let second = read(json!({ "models": [], "strict": false }), &first).unwrap();
        assert_eq!((second.named.models, second.strict), (Vec::new(), false));
        assert_eq!(second.named.services, first.named.services);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        for (fields, says) in [
            (json!({ "services": vec!["s"; 65] }), "options.services: has more than 64 names"),
            (json!({ "models": vec!["m"; 9] }), "options.models: has more than 8 names"),
            (json!({ "models": ["a b"] }), "options.models: \"a b\" is not a name"),
            (json!({ "models": ["a@1 2"] }), "options.models: \"1 2\" is not a version"),
            (json!({ "residency": vec!["r"; 17] }), "options.residency: has more than 16 regions"),
            (json!({ "residency": ["e u"] }), "options.residency: an id holds only"),
            (json!({ "region": "e u" }), "options.region: an id holds only"),
            (json!({ "preferred_node_id": "a b" }), "options.preferred_node_id: an id holds only"),
            (json!({ "strict": true }), "options.strict: needs options.preferred_node_id"),
        ] {
            let detail = read(fields.clone(), &Asked::default()).unwrap_err();
            assert!(detail.starts_with(says), "{fields}: {detail}");
        }
    }
}
