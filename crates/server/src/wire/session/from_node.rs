//! What a node said, as far as it is for the client. Only fields with a name of the protocol go
//! through, as they came, and never who the node is.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::fields::{MAX_DEPTH, deeper_than};
use crate::wire::json::{Object, Text};

/// What every result has, empty if the node did not say it.
const TEXTS: [&str; 4] = ["text_asr", "text_translated", "tts_audio", "tts_format"];

/// What a result has if the node said it, and in which form. A client that trusts the protocol must
/// not fall over a node that does not keep to it.
const PASSING: [(&str, Form); 8] = [
    ("extra", is_object),
    ("service_timings", is_object),
    ("network_timings", is_object),
    ("asr_quality_level", is_text),
    ("reason_codes", is_list),
    ("quality_score", is_number),
    ("rerun_count", is_number),
    ("segments_meta", |json| is_object(json) || is_list(json)),
];

/// Whether JSON has a certain form.
type Form = fn(&str) -> bool;

/// Writes the node's part of a `translation_result`.
pub(super) fn write_result(body: &[u8], object: &mut Object<'_>) {
    let [asr, translated, audio, format] = TEXTS;
    let [a, b, c, d, e, f, g, h] = PASSING.map(|(name, _)| name);
    let found = fields(body, [asr, translated, audio, format, a, b, c, d, e, f, g, h]);
    let (texts, passing) = found.split_at(TEXTS.len());
    for (name, json) in TEXTS.into_iter().zip(texts) {
        object.word(name, json.filter(|json| is_text(json)).unwrap_or("\"\""));
    }
    for ((name, has_form), json) in PASSING.into_iter().zip(passing) {
        if let Some(json) = json.filter(|json| has_form(json)) {
            object.word(name, json);
        }
    }
}

/// The recognised words of a message on the way, as JSON, and whether they are final; `None` if it
/// is about something else.
pub(super) fn partial_text(body: &[u8]) -> Option<(&str, bool)> {
    let [text, is_final] = fields(body, ["text", "is_final"]);
    Some((text.filter(|text| is_text(text))?, is_final == Some("true")))
}

/// The values of these fields, as JSON. Of a field that is said twice the last counts; a message
/// that is not JSON has what comes before the fault.
fn fields<'a, const N: usize>(body: &'a [u8], names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    // Where it is wrong, there is nothing more to find.
    let _ = serde_json::Deserializer::from_slice(body)
        .deserialize_map(Fields { names: &names, found: &mut found });
    found
}

struct Fields<'n, 'a> {
    names: &'n [&'n str],
    found: &'n mut [Option<&'a str>],
}

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            match self.names.iter().position(|wanted| *wanted == name) {
                Some(at) => self.found[at] = Some(map.next_value::<&RawValue>()?.get()),
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
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

/// The message around it is one level more.
fn is_shallow(json: &str) -> bool {
    !deeper_than(json.as_bytes(), MAX_DEPTH - 1)
}

fn is_number(json: &str) -> bool {
    json.parse().is_ok_and(f64::is_finite)
}
