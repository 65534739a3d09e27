//! What the fields of messages are checked for, the same through every door. The sentence of a
//! refusal names the field.

use std::fmt;

use bytes::Bytes;
use lingua_core::eligibility::{Form, Route};
use lingua_core::fleet::{AnswerForm, Fallbacks};
use lingua_core::outcome::Code;
use lingua_core::{Lang, Profile};
use serde_json::value::RawValue;

use crate::{Json, Refusal};

/// Levels of a body. Real messages have five; what passes through must not exhaust the stack of
/// whoever reads it next.
pub const MAX_DEPTH: usize = 64;

/// Characters of a sentence about a wrong body; it may quote what was sent.
pub const MAX_DETAIL_CHARS: usize = 300;

/// Bytes of each object that passes through to the node.
pub const MAX_PASSING_BYTES: usize = 64 * 1024;

/// Characters of a trace id, a dialect.
pub const MAX_WORD_CHARS: usize = 128;

/// Characters of a text that is to be translated in place of speech.
pub const MAX_TEXT_CHARS: usize = 4_096;

/// Indices are counted up by one; beyond this they are no longer exact in every client.
pub const MAX_INDEX: u64 = (1 << 53) - 1;

/// The source language that leaves it to the node to find out which of two is spoken.
pub const AUTO: &str = "auto";

/// Whether the languages of a direction may change places.
pub const MODES: [&str; 2] = ["one_way", "two_way_auto"];

/// The forms that speech may have.
pub const AUDIO_FORMATS: [&str; 3] = ["opus", "pcm16", "wav"];

/// A refusal of what was sent.
pub fn invalid(detail: impl Into<String>) -> Refusal {
    let mut detail: String = detail.into();
    if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL_CHARS) {
        detail.truncate(end);
        detail.push('…');
    }
    Refusal::new(Code::InvalidMessage, detail)
}

/// A refusal of one field.
pub fn wrong(field: &str, text: impl fmt::Display) -> Refusal {
    invalid(format!("{field}: {text}"))
}

/// A text of at most so many characters, none of them a control character.
pub fn text(
    field: &str,
    value: Option<String>,
    max_chars: usize,
) -> Result<Option<String>, Refusal> {
    if let Some(value) = &value {
        check_text(field, value, max_chars)?;
    }
    Ok(value)
}

/// Checks that a text has at most so many characters, none of them a control character.
pub fn check_text(field: &str, value: &str, max_chars: usize) -> Result<(), Refusal> {
    if value.chars().nth(max_chars).is_some() {
        return Err(wrong(field, format_args!("has more than {max_chars} characters")));
    }
    if value.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(wrong(field, "holds a control character"));
    }
    Ok(())
}

/// The caller's own span, as a text. What is no text counts as none.
pub fn traceparent(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// A number within its bounds.
pub fn within(
    field: &str,
    value: u64,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<u64, Refusal> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (low, high) = (bounds.start(), bounds.end());
    Err(wrong(field, format_args!("is from {low} to {high}, not {value}")))
}

/// An object that passes through as it is.
pub fn passing(
    field: &str,
    value: Option<Box<RawValue>>,
    max_bytes: usize,
) -> Result<Option<Json>, Refusal> {
    let Some(value) = value else { return Ok(None) };
    if !value.get().starts_with('{') {
        return Err(wrong(field, "is not an object"));
    }
    if value.get().len() > max_bytes {
        return Err(wrong(field, format_args!("has more than {max_bytes} bytes")));
    }
    Ok(Some(value.into()))
}

/// Whether brackets are nested deeper than so many levels.
pub fn deeper_than(json: &[u8], levels: usize) -> bool {
    // Most bodies have so few brackets that they cannot be: counting them is quicker than following.
    if json.iter().filter(|byte| matches!(**byte, b'{' | b'[')).count() <= levels {
        return false;
    }
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > levels {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A language by its tag.
pub fn language(field: &str, tag: &str) -> Result<Lang, Refusal> {
    Lang::new(tag).map_err(|error| Refusal::new(Code::InvalidLanguage, format!("{field}: {error}")))
}

/// The route, and the mode as the node is told.
pub fn direction(
    src: &str,
    tgt: &str,
    mode: Option<String>,
    a: Option<&str>,
    b: Option<&str>,
) -> Result<(Route, Option<String>), Refusal> {
    let target = language("tgt_lang", tgt)?;
    let a = a.map(|tag| language("lang_a", tag)).transpose()?;
    let b = b.map(|tag| language("lang_b", tag)).transpose()?;
    if mode.as_deref().is_some_and(|mode| !MODES.contains(&mode)) {
        return Err(wrong("mode", "is one_way or two_way_auto"));
    }
    if !src.eq_ignore_ascii_case(AUTO) {
        return Ok((Route::Directed(language("src_lang", src)?, target), mode));
    }
    if mode.as_deref() == Some("one_way") {
        return Err(wrong("mode", "the source is auto only in two_way_auto"));
    }
    match (a, b) {
        (Some(a), Some(b)) => Ok((Route::Either(a, b), Some("two_way_auto".to_owned()))),
        _ => Err(Refusal::new(
            Code::InvalidLanguage,
            "src_lang: auto needs lang_a and lang_b, the two languages that may be spoken",
        )),
    }
}

/// The form that speech has.
pub fn audio_format(word: Option<&str>) -> Result<&'static str, Refusal> {
    let word = word.unwrap_or("opus");
    let known = AUDIO_FORMATS.into_iter().find(|known| known.eq_ignore_ascii_case(word));
    known.ok_or_else(|| wrong("audio_format", "is opus, pcm16 or wav"))
}

/// What a person takes, by the words of `accept` and by whether speech was asked for: whether the translation
/// is to be spoken, and what will do in its place.
pub fn accepted(
    words: Option<&[&str]>,
    field: &str,
    said: Option<bool>,
    speech_field: &str,
) -> Result<(bool, Fallbacks), Refusal> {
    let Some(words) = words else {
        let captions = said != Some(true);
        return Ok((said.unwrap_or(true), Fallbacks { captions, pivot: true, original: false }));
    };
    let known = AnswerForm::ALL.map(AnswerForm::as_str);
    if words.is_empty() || words.len() > known.len() || words.iter().any(|w| !known.contains(w)) {
        return Err(wrong(field, format_args!("is a list of {}", known.join(", "))));
    }
    let has = |form: AnswerForm| words.contains(&form.as_str());
    let [speech, captions, original] = AnswerForm::ALL.map(has);
    if !(speech || captions) {
        return Err(wrong(field, "has speech or captions among its words"));
    }
    if said.is_some_and(|said| said != speech) {
        return Err(wrong(field, format_args!("contradicts {speech_field}")));
    }
    Ok((speech, Fallbacks { captions, pivot: true, original }))
}

/// A profile by its name.
pub fn profile(field: &str, word: Option<&str>) -> Result<Option<Profile>, Refusal> {
    let read = |word| Profile::parse(word).ok_or_else(|| wrong(field, "is stable or fast"));
    word.map(read).transpose()
}

/// A text that is to be translated in place of speech.
pub fn typed(field: &str, text: String) -> Result<Bytes, Refusal> {
    check_text(field, &text, MAX_TEXT_CHARS)?;
    if text.trim().is_empty() {
        return Err(wrong(field, "is empty"));
    }
    Ok(text.into())
}

/// Every step that the job needs.
pub fn whole_pipeline(route: Route, form: Form) -> Json {
    let translate = route.directions().any(|(src, tgt)| src != tgt);
    let (hear, speak) = (!form.typed, form.speech);
    let text = format!(
        r#"{{"use_asr":{hear},"use_nmt":{translate},"use_tts":{speak},"use_semantic":true,"use_tone":false}}"#
    );
    RawValue::from_string(text).expect("written as JSON").into()
}
