//! What a caller wants of a job, carried unchanged from the edge to the node.
//!
//! A field of [`JobOptions`] is read from `session_init`, `set_languages`, `utterance` and the body of
//! `POST /v1/dispatch/f2f`, goes to other instances, and stands in `job_assign`. To add one, add a line to the
//! list below and its row to `docs/PROTOCOL.md`: its type says how it is checked and written.

use std::ops::Deref;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::{MAX_PASSING_BYTES, MAX_WORD_CHARS, check_text, wrong};
use crate::json::Text;
use crate::{Json, Refusal};

/// Entries of a list of words.
pub const MAX_WORDS: usize = 64;

macro_rules! job_options {
    ($(#[$about:meta])+ { $($(#[$attr:meta])+ $field:ident: $type:ty,)+ }) => {
        $(#[$about])+
        #[derive(Clone, Debug, Default, Deserialize, ToSchema)]
        pub struct JobOptions {
            $($(#[$attr])+ pub $field: $type,)+
        }

        /// As nodes are told: what is absent is left out.
        impl Serialize for JobOptions {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                $(if !self.$field.is_absent() {
                    map.serialize_entry(stringify!($field), &self.$field)?;
                })+
                map.end()
            }
        }

        impl JobOptions {
            /// As other instances are told: what is absent is `null`, as the first version wrote it.
            pub fn serialize_with_nulls<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                $(map.serialize_entry(stringify!($field), &self.$field)?;)+
                map.end()
            }

            /// Checks the size and form of every field. Languages and modes are checked where they are parsed.
            pub fn check(&self) -> Result<(), Refusal> {
                $(self.$field.check(stringify!($field))?;)+
                Ok(())
            }

            /// Takes what is absent from other options.
            pub fn fill_from(&mut self, other: &JobOptions) {
                $(self.$field.fill_from(&other.$field);)+
            }
        }
    };
}

job_options! {
    /// What a caller wants of a job.
    {
        /// What is spoken, as a BCP-47 tag; `auto` is either of `lang_a` and `lang_b`.
        #[schema(min_length = 1)]
        src_lang: String,
        /// What it becomes.
        #[schema(min_length = 1)]
        tgt_lang: String,
        /// `one_way`, or `two_way_auto`: the node may find out the direction. `auto` means `two_way_auto`.
        mode: Option<String>,
        /// One language of the conversation; with `auto` it must be there.
        #[schema(min_length = 1)]
        lang_a: Option<String>,
        /// The other one.
        #[schema(min_length = 1)]
        lang_b: Option<String>,
        /// Passed on to the node.
        #[schema(max_length = 128)]
        dialect: Option<String>,
        /// An object is passed on to the node, at most 64 KiB. A list of up to 64 names, each `name` or `name@version`,
        /// asks for a node that has all of them, which is told so as an object.
        #[schema(value_type = Option<serde_json::Value>)]
        features: Option<JsonObject>,
        /// Which steps the node takes: `use_asr`, `use_nmt`, `use_tts`, `use_semantic`, `use_tone`. Passed on, at
        /// most 64 KiB. Absent: all that the job needs. `use_tone`, `use_phonetic` and `use_punctuation` ask for a node
        /// that runs that service.
        #[schema(value_type = Option<Object>)]
        pipeline: Option<JsonObject>,
        /// Passed on to the node.
        #[schema(value_type = Option<Vec<String>>, max_items = 64)]
        auto_langs: Option<JsonWords>,
        /// Whether `asr_partial` is wanted. Absent: as in the session; in `session_init`, true for a client
        /// without `supports`.
        #[serde(default)]
        #[schema(value_type = Option<bool>)]
        enable_streaming_asr: Switch,
        /// How often, in milliseconds; passed on to the node.
        partial_update_interval_ms: Option<u64>,
    }
}

/// How a field is checked, written and taken over, by its type.
trait OptionField: Clone {
    fn is_absent(&self) -> bool {
        false
    }

    fn check(&self, _name: &str) -> Result<(), Refusal> {
        Ok(())
    }

    /// Takes the other value if this one is absent.
    fn fill_from(&mut self, other: &Self) {
        if self.is_absent() {
            self.clone_from(other);
        }
    }
}

impl OptionField for String {}

impl OptionField for Option<u64> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl OptionField for Option<String> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn check(&self, name: &str) -> Result<(), Refusal> {
        self.as_ref().map_or(Ok(()), |text| check_text(name, text, MAX_WORD_CHARS))
    }
}

impl OptionField for Option<JsonObject> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn check(&self, name: &str) -> Result<(), Refusal> {
        self.as_ref().map_or(Ok(()), |object| object.check(name))
    }
}

impl OptionField for Option<JsonWords> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn check(&self, name: &str) -> Result<(), Refusal> {
        let Some(JsonWords(list)) = self else { return Ok(()) };
        let words: Vec<Text<'_>> =
            serde_json::from_str(list.get()).map_err(|_| wrong(name, "is not a list of words"))?;
        check_words(name, &words)
    }
}

impl OptionField for Switch {
    fn fill_from(&mut self, other: &Self) {
        self.0 = self.0.or(other.0);
    }
}

/// Whether something is wanted. It is always written: undecided is no.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Switch(pub Option<bool>);

impl Switch {
    /// Whether it is wanted.
    pub fn is_on(self) -> bool {
        self.0.unwrap_or(false)
    }
}

impl Serialize for Switch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(self.is_on())
    }
}

/// An object that passes through as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(pub Json);

impl JsonObject {
    /// Checks that it is an object of a bounded size.
    pub fn check(&self, name: &str) -> Result<(), Refusal> {
        if !self.get().starts_with('{') {
            return Err(wrong(name, "is not an object"));
        }
        if self.get().len() > MAX_PASSING_BYTES {
            return Err(wrong(name, format_args!("has more than {MAX_PASSING_BYTES} bytes")));
        }
        Ok(())
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Deref for JsonObject {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.0
    }
}

/// A list of words that passes through as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonWords(pub Json);

/// Checks a list of words.
pub fn check_words(field: &str, words: &[Text<'_>]) -> Result<(), Refusal> {
    if words.len() > MAX_WORDS {
        return Err(wrong(field, format_args!("has more than {MAX_WORDS} words")));
    }
    if words.iter().any(|word| word.0.chars().nth(MAX_WORD_CHARS).is_some()) {
        let most = format_args!("has a word of more than {MAX_WORD_CHARS} characters");
        return Err(wrong(field, most));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn options(fields: Value) -> Result<JobOptions, serde_json::Error> {
        let mut message = json!({ "src_lang": "en", "tgt_lang": "zh" });
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_str(&message.to_string())
    }

    #[test]
    fn what_is_absent_is_left_out_for_nodes_and_null_for_instances() {
        let said = options(json!({ "features": { "a": 1 }, "dialect": null })).unwrap();
        let node = json!({ "src_lang": "en", "tgt_lang": "zh", "features": { "a": 1 },
            "enable_streaming_asr": false });
        assert_eq!(serde_json::to_value(&said).unwrap(), node);
        let mut text = Vec::new();
        said.serialize_with_nulls(&mut serde_json::Serializer::new(&mut text)).unwrap();
        let instance: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            (&instance["dialect"], &instance["features"]),
            (&Value::Null, &json!({ "a": 1 }))
        );
        assert_eq!(instance.as_object().unwrap().len(), 11);
    }

    #[test]
    fn what_passes_through_is_bounded() {
        for (field, value, wrong) in [
            ("dialect", json!("d".repeat(129)), "more than 128 characters"),
            ("dialect", json!("a\u{7}"), "control character"),
            ("features", json!([1]), "is not an object"),
            ("features", json!({ "a": "x".repeat(MAX_PASSING_BYTES) }), "bytes"),
            ("auto_langs", json!({}), "is not a list of words"),
            ("auto_langs", json!([1]), "is not a list of words"),
            ("auto_langs", json!(["x".repeat(129)]), "more than 128 characters"),
            ("auto_langs", json!(vec!["en"; 65]), "more than 64 words"),
        ] {
            let detail = options(json!({ field: value })).unwrap().check().unwrap_err().detail;
            assert!(detail.starts_with(field) && detail.contains(wrong), "{detail}");
        }
        let right = json!({ "dialect": "d", "features": {}, "auto_langs": ["en"] });
        assert_eq!(options(right).unwrap().check(), Ok(()));
    }

    #[test]
    fn what_is_absent_is_taken_from_the_session() {
        let session = options(json!({ "dialect": "d", "enable_streaming_asr": true,
            "partial_update_interval_ms": 5 }));
        let mut said =
            options(json!({ "partial_update_interval_ms": 7, "tgt_lang": "fr" })).unwrap();
        said.fill_from(&session.unwrap());
        assert_eq!(
            (said.dialect.as_deref(), said.enable_streaming_asr),
            (Some("d"), Switch(Some(true)))
        );
        assert_eq!((said.partial_update_interval_ms, said.tgt_lang.as_str()), (Some(7), "fr"));
    }

    #[test]
    fn both_languages_must_be_there() {
        let error = serde_json::from_str::<JobOptions>(r#"{"src_lang":"en"}"#).unwrap_err();
        assert!(error.to_string().contains("missing field `tgt_lang`"), "{error}");
    }
}
