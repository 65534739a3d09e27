//! What a job works on: the speech of one utterance, with what is known about it.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::JobOptions;
use crate::options::JsonObject;
use crate::raw::RawFields;

/// One utterance and what is wanted of it. Immutable, so that a retry has something to send.
///
/// Serde writes it for other instances, in one object with the fields of its options.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct JobInput {
    /// What the caller wants.
    #[serde(flatten, skip_deserializing, serialize_with = "JobOptions::serialize_with_nulls")]
    pub options: JobOptions,
    /// The utterance's number within its session.
    pub utterance_index: u64,
    /// The speech, or the text in its place. It goes to other instances by a way of its own.
    #[serde(skip)]
    pub audio: Bytes,
    /// What is to be translated is a text; unknown to instances from before there were any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
    /// `opus`, `pcm16`, …
    pub audio_format: String,
    /// In Hz.
    pub sample_rate: u32,
    /// For following one utterance through all logs.
    pub trace_id: String,
    /// The turn, as the client is told.
    pub group_id: Option<String>,
    /// Which part of its turn.
    pub part_index: Option<u64>,
    /// The last final sentences of the conversation. To other instances they go by a way of their own.
    #[serde(serialize_with = "left_out")]
    pub context_text: Option<String>,
    /// Silence that the node appends.
    pub padding_ms: Option<u64>,
    /// The speaker ended the utterance.
    pub manual_cut: bool,
    /// A pause ended it.
    pub timeout_cut: bool,
    /// Its length ended it.
    pub max_duration_cut: bool,
}

/// Writes nothing in the place of what must not go through the store.
fn left_out<S: Serializer>(_text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_none()
}

impl Serialize for JobInput {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        JobInput::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for JobInput {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let read = || {
            let fields = RawFields::read(text.get())?;
            let options = fields.view()?;
            Ok(JobInput { options, ..JobInput::deserialize(fields.deserializer())? })
        };
        read().map_err(|error: serde_json::Error| serde::de::Error::custom(error))
    }
}

impl JobInput {
    /// The text to be translated, if it is one and no speech.
    pub fn text(&self) -> Option<&str> {
        self.typed.then(|| std::str::from_utf8(&self.audio).unwrap_or_default())
    }

    /// The same without speech: the node has no voice for it.
    pub fn without_voice(&self) -> Self {
        let steps = self.options.pipeline.as_ref().map(|steps| serde_json::from_str(steps.get()));
        let mut steps: serde_json::Map<String, serde_json::Value> =
            steps.and_then(Result::ok).unwrap_or_default();
        steps.insert("use_tts".to_owned(), false.into());
        let steps = serde_json::value::to_raw_value(&steps).expect("a map of JSON is JSON");
        let mut input = self.clone();
        input.options.pipeline = Some(JsonObject(steps.into()));
        input
    }
}
