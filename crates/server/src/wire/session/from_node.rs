//! What a node said, as far as it is for the client. Only fields with a name of the protocol go
//! through, as they came, and never who the node is.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::told::ServiceTimings;
use crate::wire::fields::{MAX_DEPTH, deeper_than};
use crate::wire::json::Text;
use crate::wire::message::{
    ListAsItCame, NumberAsItCame, ObjectAsItCame, ObjectOrListAsItCame, TextAsItCame,
};

/// The node's part of a `translation_result`. A client that trusts the protocol must not fall over
/// a node that does not keep to it: what has another form than it should have is left out.
pub(super) struct NodePart<'a> {
    pub(super) text_asr: TextAsItCame<'a>,
    pub(super) text_translated: TextAsItCame<'a>,
    pub(super) tts_audio: TextAsItCame<'a>,
    pub(super) tts_format: TextAsItCame<'a>,
    pub(super) extra: Option<ObjectAsItCame<'a>>,
    pub(super) service_timings: Option<ServiceTimings<'a>>,
    pub(super) network_timings: Option<ObjectAsItCame<'a>>,
    pub(super) asr_quality_level: Option<TextAsItCame<'a>>,
    pub(super) reason_codes: Option<ListAsItCame<'a>>,
    pub(super) quality_score: Option<NumberAsItCame<'a>>,
    pub(super) rerun_count: Option<NumberAsItCame<'a>>,
    pub(super) segments_meta: Option<ObjectOrListAsItCame<'a>>,
}

/// Finds the node's part in its message.
pub(super) fn result(body: &[u8]) -> NodePart<'_> {
    let [
        asr,
        translated,
        audio,
        format,
        extra,
        service,
        took,
        network,
        level,
        codes,
        score,
        reruns,
        meta,
    ] = fields(
        body,
        [
            "text_asr",
            "text_translated",
            "tts_audio",
            "tts_format",
            "extra",
            "service_timings",
            "processing_time_ms",
            "network_timings",
            "asr_quality_level",
            "reason_codes",
            "quality_score",
            "rerun_count",
            "segments_meta",
        ],
    );
    NodePart {
        text_asr: always(asr),
        text_translated: always(translated),
        tts_audio: always(audio),
        tts_format: always(format),
        extra: extra.filter(is_object).map(ObjectAsItCame),
        service_timings: service
            .filter(is_object)
            .map(|json| ServiceTimings::AsItCame(ObjectAsItCame(json)))
            .or_else(|| Some(ServiceTimings::Total { ms: took?.parse().ok()? })),
        network_timings: network.filter(is_object).map(ObjectAsItCame),
        asr_quality_level: level.filter(is_text).map(TextAsItCame),
        reason_codes: codes.filter(is_list).map(ListAsItCame),
        quality_score: score.filter(is_number).map(NumberAsItCame),
        rerun_count: reruns.filter(is_number).map(NumberAsItCame),
        segments_meta: meta
            .filter(|json| is_object(json) || is_list(json))
            .map(ObjectOrListAsItCame),
    }
}

/// What every result has, empty if the node did not say it.
fn always(json: Option<&str>) -> TextAsItCame<'_> {
    TextAsItCame(json.filter(is_text).unwrap_or("\"\""))
}

/// The recognised words of a message on the way, as JSON, and whether they are final; `None` if it
/// is about something else.
pub(super) fn partial_text(body: &[u8]) -> Option<(&str, bool)> {
    let [text, is_final] = fields(body, ["text", "is_final"]);
    Some((text.filter(is_text)?, is_final == Some("true")))
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
fn is_text(json: &&str) -> bool {
    let readable = || serde_json::from_str::<Text<'_>>(json).is_ok();
    json.starts_with('"') && (!json.contains('\\') || readable())
}

fn is_object(json: &&str) -> bool {
    json.starts_with('{') && is_shallow(json)
}

fn is_list(json: &&str) -> bool {
    json.starts_with('[') && is_shallow(json)
}

/// The message around it is one level more.
fn is_shallow(json: &str) -> bool {
    !deeper_than(json.as_bytes(), MAX_DEPTH - 1)
}

fn is_number(json: &&str) -> bool {
    json.parse().is_ok_and(f64::is_finite)
}
