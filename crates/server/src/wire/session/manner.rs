//! How a client wants its speech to be worked on.

use std::borrow::Cow;

use lingua_core::eligibility::Route;
use lingua_engine::job::{Json, Refusal};
use lingua_engine::sessions::words::Manner;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Codec, SAMPLE_RATE};
use crate::wire::fields::{
    AUTO, MAX_PASSING_BYTES, MAX_WORD_CHARS, direction, passing, text, whole_pipeline, wrong,
};
use crate::wire::json::Text;

/// Entries of a list of words.
pub(super) const MAX_WORDS: usize = 64;

/// The fields of `session_init` and `set_languages` that say how to work.
#[derive(Deserialize, ToSchema)]
pub(super) struct Wishes {
    /// What is spoken, as a BCP-47 tag; `auto` is either of `lang_a` and `lang_b`.
    #[schema(min_length = 1)]
    pub(super) src_lang: String,
    /// What it becomes.
    #[schema(min_length = 1)]
    pub(super) tgt_lang: String,
    /// Whether the node may find out the direction. `auto` means `two_way_auto`.
    pub(super) mode: Option<String>,
    /// One language of the conversation; with `auto` it must be there.
    #[schema(min_length = 1)]
    pub(super) lang_a: Option<String>,
    /// The other one.
    #[schema(min_length = 1)]
    pub(super) lang_b: Option<String>,
    /// Passed on to the node.
    #[schema(max_length = 128)]
    pub(super) dialect: Option<String>,
    /// Passed on, at most 64 KiB.
    #[schema(value_type = Option<Object>)]
    pub(super) features: Option<Box<RawValue>>,
    /// Passed on.
    #[schema(value_type = Option<Vec<String>>, max_items = 64)]
    pub(super) auto_langs: Option<Box<RawValue>>,
    /// Whether `asr_partial` is wanted. Absent: as in the session; in `session_init`, true for a client
    /// without `supports`.
    pub(super) enable_streaming_asr: Option<bool>,
    /// How often; passed on.
    pub(super) partial_update_interval_ms: Option<u64>,
}

impl Wishes {
    /// The manner of a new session, with what it said about speech; a client that lists nothing expects
    /// partials unless it says otherwise.
    pub(super) fn of_session(
        self,
        codec: Codec,
        said: Option<bool>,
        existing: bool,
    ) -> Result<Manner, Refusal> {
        let a = self.lang_a.as_deref();
        let (route, mode) =
            direction(&self.src_lang, &self.tgt_lang, self.mode, a, self.lang_b.as_deref())?;
        let speech = said.unwrap_or(true);
        Ok(Manner {
            route,
            speech,
            insists_on_speech: said == Some(true),
            mode,
            lang_a: self.lang_a,
            lang_b: self.lang_b,
            dialect: text("dialect", self.dialect, MAX_WORD_CHARS)?,
            features: passing("features", self.features, MAX_PASSING_BYTES)?,
            pipeline: whole_pipeline(route, speech),
            auto_langs: languages(self.auto_langs)?,
            enable_streaming_asr: self.enable_streaming_asr.unwrap_or(existing),
            partial_update_interval_ms: self.partial_update_interval_ms,
            audio_format: codec.as_str(),
            sample_rate: SAMPLE_RATE,
            src_lang: self.src_lang,
            tgt_lang: self.tgt_lang,
        })
    }

    /// The manner of what names its own direction within a session. What it leaves out is as in the
    /// session, where that fits the direction.
    pub(super) fn within(
        self,
        session: &Manner,
        pipeline: Option<Box<RawValue>>,
    ) -> Result<Manner, Refusal> {
        let lang_a = self.lang_a.or_else(|| session.lang_a.clone());
        let lang_b = self.lang_b.or_else(|| session.lang_b.clone());
        // Only a node that may find out the language itself is told that it goes both ways.
        let fits = |mode: &String| mode == "one_way" && !self.src_lang.eq_ignore_ascii_case(AUTO);
        let mode = self.mode.or_else(|| session.mode.clone().filter(fits));
        let (route, mode) =
            direction(&self.src_lang, &self.tgt_lang, mode, lang_a.as_deref(), lang_b.as_deref())?;
        let dialect = match text("dialect", self.dialect, MAX_WORD_CHARS)? {
            // A dialect is one of its language.
            None if self.src_lang.eq_ignore_ascii_case(&session.src_lang) => {
                session.dialect.clone()
            }
            dialect => dialect,
        };
        let features = passing("features", self.features, MAX_PASSING_BYTES)?;
        let (pipeline, speech) = steps(pipeline, route, session.speech)?;
        let streaming = self.enable_streaming_asr.unwrap_or(session.enable_streaming_asr);
        let interval = self.partial_update_interval_ms.or(session.partial_update_interval_ms);
        Ok(Manner {
            route,
            speech,
            insists_on_speech: session.insists_on_speech,
            mode,
            lang_a,
            lang_b,
            dialect,
            features: features.or_else(|| session.features.clone()),
            pipeline,
            auto_langs: languages(self.auto_langs)?.or_else(|| session.auto_langs.clone()),
            enable_streaming_asr: streaming,
            partial_update_interval_ms: interval,
            audio_format: session.audio_format,
            sample_rate: session.sample_rate,
            src_lang: self.src_lang,
            tgt_lang: self.tgt_lang,
        })
    }
}

/// The steps that a node is to take, and whether the last of them is to speak.
fn steps(own: Option<Box<RawValue>>, route: Route, speech: bool) -> Result<(Json, bool), Refusal> {
    #[derive(Deserialize)]
    struct Steps {
        use_tts: Option<bool>,
    }
    let Some(own) = passing("pipeline", own, MAX_PASSING_BYTES)? else {
        return Ok((whole_pipeline(route, speech), speech));
    };
    let steps: Steps = serde_json::from_str(own.get())
        .map_err(|_| wrong("pipeline.use_tts", "is true or false, and said once"))?;
    Ok((own, steps.use_tts.unwrap_or(speech)))
}

/// A list of languages that passes through.
fn languages(list: Option<Box<RawValue>>) -> Result<Option<Json>, Refusal> {
    let Some(list) = list else { return Ok(None) };
    let words: Vec<Text<'_>> = serde_json::from_str(list.get())
        .map_err(|_| wrong("auto_langs", "is not a list of words"))?;
    check_words("auto_langs", words.len(), words.iter().map(|Text(word)| word))?;
    Ok(Some(list.into()))
}

/// Checks a list of words.
pub(super) fn check_words<'a>(
    field: &str,
    count: usize,
    mut words: impl Iterator<Item = &'a Cow<'a, str>>,
) -> Result<(), Refusal> {
    if count > MAX_WORDS {
        return Err(wrong(field, format_args!("has more than {MAX_WORDS} words")));
    }
    if words.any(|word| word.chars().nth(MAX_WORD_CHARS).is_some()) {
        let most = format_args!("has a word of more than {MAX_WORD_CHARS} characters");
        return Err(wrong(field, most));
    }
    Ok(())
}
