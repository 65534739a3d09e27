//! The fields of a `job_result` that reach the client.

use std::borrow::Cow;

use lingua_core::job::NodeMessage;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::fields::{MAX_DEPTH, deeper_than};
use crate::json::{OpenObject, Text};

macro_rules! result_fields {
    ($($(#[$attr:meta])+ $field:ident: $form:ident,)+) => {
        /// What a node said, as far as it is for the client: only fields with a name of the protocol go through,
        /// as they came, and never who the node is. What has another form than it should have is left out: a client
        /// that trusts the protocol must not fall over a node that does not keep to it.
        #[derive(Default, ToSchema)]
        pub struct ResultFields<'a> {
            $($(#[$attr])+ $field: Option<Cow<'a, str>>,)+
        }

        impl<'a> ResultFields<'a> {
            /// Takes them from a message. Of a field that is there twice the last counts.
            ///
            /// A node that tells how long it took, and nothing of its services, has said the total.
            fn find(message: &'a NodeMessage) -> Self {
                let mut found = ResultFields::default();
                let mut took = None;
                for (name, json) in message.fields() {
                    match name {
                        $(stringify!($field) => found.$field = $form(json).then_some(json.into()),)+
                        "processing_time_ms" => took = json.parse::<u64>().ok(),
                        _ => {}
                    }
                }
                let total = || took.map(|ms| format!("{{\"total_ms\":{ms}}}").into());
                found.service_timings = found.service_timings.or_else(total);
                found
            }

            /// Writes those that are there.
            pub fn append_to(&self, object: &mut OpenObject<'_>) {
                $(if let Some(json) = &self.$field {
                    object.raw(stringify!($field), json);
                })+
            }
        }
    };
}

result_fields! {
    /// What was heard; empty if the node did not say it.
    #[schema(value_type = String)]
    text_asr: is_text,
    /// What it means; empty if the node did not say it.
    #[schema(value_type = String)]
    text_translated: is_text,
    /// The speech, as base64; may be empty.
    #[schema(value_type = String)]
    tts_audio: is_text,
    /// Its form.
    #[schema(value_type = String)]
    tts_format: is_text,
    /// Anything more, as the node sent it.
    #[schema(value_type = Option<Object>)]
    extra: is_object,
    /// Times by service, as the node sent them; `total_ms` alone if it told only how long it took.
    #[schema(value_type = Option<Object>)]
    service_timings: is_object,
    /// Times on the way, as the node sent them.
    #[schema(value_type = Option<Object>)]
    network_timings: is_object,
    /// How well it was heard, as the node sent it.
    #[schema(value_type = Option<String>)]
    asr_quality_level: is_text,
    /// Why that is so, as the node sent it.
    #[schema(value_type = Option<List>, inline)]
    reason_codes: is_list,
    /// The same as a number, as the node sent it.
    #[schema(value_type = Option<f64>)]
    quality_score: is_number,
    /// How often the node tried, as it sent it.
    #[schema(value_type = Option<f64>)]
    rerun_count: is_number,
    /// Of the parts of the speech, as the node sent it.
    #[schema(value_type = Option<ObjectOrList>, inline)]
    segments_meta: is_object_or_list,
}

impl<'a> ResultFields<'a> {
    /// The client's part of a result.
    pub fn of(message: &'a NodeMessage) -> Self {
        let mut found = ResultFields::find(message);
        for always in [
            &mut found.text_asr,
            &mut found.text_translated,
            &mut found.tts_audio,
            &mut found.tts_format,
        ] {
            always.get_or_insert(Cow::Borrowed("\"\""));
        }
        found
    }
}

/// The recognised words of a message on the way, as JSON, and whether they are final; `None` if it is about
/// something else. The text of a later step is a translation, and not what was recognised.
pub fn partial_text(message: &NodeMessage) -> Option<(&str, bool)> {
    let of_asr = message.field("type") == Some("\"asr_partial\"")
        || message.field("stage") == Some("\"asr\"");
    let text = message.field("text").filter(|json| of_asr && is_text(json))?;
    Some((text, message.field("is_final") == Some("true")))
}

/// A string that everybody can read: escapes may stand for something that is no text.
fn is_text(json: &str) -> bool {
    let readable = || serde_json::from_str::<Text<'_>>(json).is_ok();
    json.starts_with('"') && (!json.contains('\\') || readable())
}

fn is_object(json: &str) -> bool {
    json.starts_with('{') && is_shallow(json)
}

fn is_list(json: &str) -> bool {
    json.starts_with('[') && is_shallow(json)
}

fn is_object_or_list(json: &str) -> bool {
    is_object(json) || is_list(json)
}

/// The message around it is one level more.
fn is_shallow(json: &str) -> bool {
    !deeper_than(json.as_bytes(), MAX_DEPTH - 1)
}

fn is_number(json: &str) -> bool {
    json.parse().is_ok_and(f64::is_finite)
}

/// The schema of any list.
struct List;

/// The schema of an object or a list.
struct ObjectOrList;

fn any_of(kinds: &[Type]) -> RefOr<Schema> {
    let kinds = match kinds {
        [kind] => SchemaType::Type(kind.clone()),
        kinds => SchemaType::Array(kinds.to_vec()),
    };
    ObjectBuilder::new().schema_type(kinds).into()
}

impl PartialSchema for List {
    fn schema() -> RefOr<Schema> {
        any_of(&[Type::Array])
    }
}

impl ToSchema for List {}

impl PartialSchema for ObjectOrList {
    fn schema() -> RefOr<Schema> {
        any_of(&[Type::Object, Type::Array])
    }
}

impl ToSchema for ObjectOrList {}
