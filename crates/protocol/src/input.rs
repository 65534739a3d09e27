//! What a job works on: the speech of one utterance, with what is known about it.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::JobOptions;
use crate::options::{JsonObject, Switch};
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
    /// How long the speech lasts, as far as it is known; for figures here, and told to nobody.
    #[serde(skip)]
    pub speech_ms: u64,
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
        self.with_steps(&[("use_tts", false)])
    }

    /// The same without a translation: what was said, in writing.
    pub fn untranslated(&self) -> Self {
        let mut input = self.with_steps(&[("use_nmt", false), ("use_tts", false)]);
        input.options.tgt_lang.clone_from(&input.options.src_lang);
        input
    }

    /// The first half of a translation by way of `via`.
    pub fn into_language(&self, via: &str) -> Self {
        let mut input = self.with_steps(&[("use_nmt", true), ("use_tts", false)]);
        input.options.tgt_lang = via.to_owned();
        input.one_way()
    }

    /// The second half: of the text that the first one gave. Nothing is known of what was said before in
    /// that language.
    pub fn from_language(&self, via: &str, text: Bytes, speech: bool) -> Self {
        let steps = [("use_asr", false), ("use_nmt", true), ("use_tts", speech)];
        let mut input = self.with_steps(&steps);
        input.options.src_lang = via.to_owned();
        input.options.dialect = None;
        input.options.enable_streaming_asr = Switch(Some(false));
        (input.audio, input.typed, input.speech_ms) = (text, true, 0);
        (input.context_text, input.padding_ms) = (None, None);
        (input.manual_cut, input.timeout_cut, input.max_duration_cut) = (true, false, false);
        input.one_way()
    }

    fn one_way(mut self) -> Self {
        let options = &mut self.options;
        (options.mode, options.lang_a, options.lang_b) = (None, None, None);
        self
    }

    fn with_steps(&self, set: &[(&str, bool)]) -> Self {
        let steps = self.options.pipeline.as_ref().map(|steps| serde_json::from_str(steps.get()));
        let mut steps: serde_json::Map<String, serde_json::Value> =
            steps.and_then(Result::ok).unwrap_or_default();
        for (step, is_wanted) in set {
            steps.insert((*step).to_owned(), (*is_wanted).into());
        }
        let steps = serde_json::value::to_raw_value(&steps).expect("a map of JSON is JSON");
        let mut input = self.clone();
        input.options.pipeline = Some(JsonObject(steps.into()));
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> JobInput {
        let options = r#"{"src_lang":"de","tgt_lang":"zh","mode":"two_way_auto","lang_a":"de","lang_b":"zh",
            "dialect":"bar","pipeline":{"use_asr":true,"use_nmt":true,"use_tts":true,"mine":1}}"#;
        JobInput {
            options: serde_json::from_str(options).unwrap(),
            audio: Bytes::from_static(b"speech"),
            context_text: Some("vorher".into()),
            ..JobInput::default()
        }
    }

    fn steps(input: &JobInput) -> serde_json::Value {
        serde_json::from_str(input.options.pipeline.as_ref().unwrap().get()).unwrap()
    }

    #[test]
    fn the_halves_of_a_way_by_another_language_say_what_each_node_does() {
        let first = said().into_language("en");
        assert_eq!((&*first.options.src_lang, &*first.options.tgt_lang), ("de", "en"));
        assert_eq!((first.options.mode.as_ref(), first.text()), (None, None));
        let wanted =
            serde_json::json!({"use_asr": true, "use_nmt": true, "use_tts": false, "mine": 1});
        assert_eq!(steps(&first), wanted);
        assert_eq!(first.context_text.as_deref(), Some("vorher"));
        let second = said().from_language("en", Bytes::from_static(b"good morning"), true);
        assert_eq!((&*second.options.src_lang, &*second.options.tgt_lang), ("en", "zh"));
        assert_eq!(second.text(), Some("good morning"));
        assert_eq!((second.options.dialect.as_ref(), second.context_text.as_ref()), (None, None));
        let wanted =
            serde_json::json!({"use_asr": false, "use_nmt": true, "use_tts": true, "mine": 1});
        assert_eq!(steps(&second), wanted);
    }

    #[test]
    fn what_was_said_is_neither_translated_nor_spoken() {
        let input = said().untranslated();
        assert_eq!((&*input.options.src_lang, &*input.options.tgt_lang), ("de", "de"));
        assert_eq!(
            (&steps(&input)["use_nmt"], &steps(&input)["use_tts"]),
            (&false.into(), &false.into())
        );
    }
}
