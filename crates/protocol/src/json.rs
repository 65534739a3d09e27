//! Messages as text: read by borrowing, written without a tree in between.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// JSON that passes through as it is.
pub type Json = Arc<RawValue>;

/// A string that is borrowed unless it holds an escape: in an `Option`, a bare `Cow` would always be
/// copied.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// What kind of message it is.
#[derive(Deserialize)]
pub struct Kind<'a> {
    /// Its `type`.
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
}

/// The `type` of a message that begins with it, as most do: found without reading what follows.
pub fn leading_kind(message: &str) -> Option<&str> {
    let mut value = message;
    for token in ["{", "\"type\"", ":", "\""] {
        value = value.trim_ascii_start().strip_prefix(token)?;
    }
    let (kind, _) = value.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}

/// Reads a message of a known shape. What is wrong is a sentence that names the field.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    if let Ok(read) = serde_json::from_str(text) {
        return Ok(read);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(_) => return Err("something follows the JSON object".to_owned()),
        Err(error) => error,
    };
    let path = error.path().to_string();
    let inner = error.into_inner();
    Err(match inner.classify() {
        Category::Data if path == "." => plain(&inner.to_string()),
        Category::Data => format!("{path}: {}", plain(&inner.to_string())),
        _ => {
            let (line, column) = (inner.line(), inner.column());
            format!("not a JSON object, from line {line}, column {column} on")
        }
    })
}

/// What serde says of a wrong value in words of ours: without the value, without the names of Rust types and
/// without a place in the text.
pub fn plain(error: &str) -> String {
    let error = without_value(error);
    let error = error.rsplit_once(" at line ").map_or(error.as_str(), |(error, _)| error);
    for (said, meant) in [("missing field ", "is missing"), ("duplicate field ", "is given twice")]
    {
        if let Some(field) = error.strip_prefix(said) {
            return format!("{field} {meant}");
        }
    }
    let Some((said, wanted)) = error.split_once(", expected ") else { return error.to_owned() };
    let wanted = expected(wanted);
    match said.strip_prefix("invalid type: ").map(kind) {
        Some(kind) => format!("{wanted} is expected, not {kind}"),
        None => format!("{wanted} is expected"),
    }
}

/// What serde wants.
fn expected(wanted: &str) -> &str {
    let first = wanted.split([' ', '<']).next().unwrap_or_default();
    match first {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "struct" | "map" => "an object",
        "enum" => "one of the documented words",
        "tuple" => "a list",
        _ => match wanted {
            "a boolean" => "true or false",
            "a sequence" | "an array" => "a list",
            "a map" => "an object",
            "a string" | "a borrowed string" => "a text",
            other => other,
        },
    }
}

/// What serde calls a value of JSON.
fn kind(said: &str) -> &'static str {
    match said.split(' ').next().unwrap_or_default() {
        "string" => "a text",
        "integer" | "floating" | "number" => "this number",
        "boolean" => "true or false",
        "map" => "an object",
        "sequence" => "a list",
        "null" | "unit" => "null",
        _ => "this value",
    }
}

/// What serde says of a wrong value, without the value: it may be what somebody said, or a token.
fn without_value(error: &str) -> String {
    // The value may hold the same signs: the first begins it, and the last ends it.
    let quotes = error.find(" \"").map(|from| (from, "\", expected"));
    let ticks = error.find(" `").map(|from| (from, "`, expected"));
    let first = [quotes, ticks].into_iter().flatten().min();
    match first.and_then(|(from, end)| Some((from, error.rfind(end)?))) {
        Some((from, to)) if from < to => format!("{}{}", &error[..from], &error[to + 1..]),
        _ => error.to_owned(),
    }
}

/// Writes a message behind what is in `out`.
pub fn write(message: &impl Serialize, out: &mut String) {
    let mut bytes = std::mem::take(out).into_bytes();
    serde_json::to_writer(&mut bytes, message)
        .expect("a message has text keys, and memory to go to");
    *out = String::from_utf8(bytes).expect("JSON is UTF-8");
}

/// For a field that is written behind the others, into an [`OpenObject`].
pub(crate) fn is_appended<T: ?Sized>(_field: &T) -> bool {
    true
}

/// A message that serde wrote, open for more fields.
///
/// Base64 and what passes through go in as they are. Serde would look at every byte of them again: a
/// `job_assign` with 30 kB of speech takes 3.4 times as long then, a `translation_result` 14 times
/// (`cargo bench -p lingua-protocol`).
pub struct OpenObject<'a>(&'a mut String);

impl<'a> OpenObject<'a> {
    /// Writes a message that has at least one field, without its last brace.
    pub fn begin(message: &impl Serialize, out: &'a mut String) -> Self {
        write(message, out);
        let brace = out.pop();
        debug_assert_eq!(brace, Some('}'));
        OpenObject(out)
    }

    /// A field whose value is JSON already. Names are ours and need no escape.
    pub fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.0.push_str(json);
    }

    /// Bytes as base64.
    pub fn base64(&mut self, name: &str, bytes: &[u8]) {
        self.name(name);
        self.0.push('"');
        STANDARD.encode_string(bytes, self.0);
        self.0.push('"');
    }

    /// Ends the message.
    pub fn end(self) {
        self.0.push('}');
    }

    fn name(&mut self, name: &str) {
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_where_a_message_begins_with_it() {
        assert_eq!(leading_kind(r#"{"type":"a","b":1}"#), Some("a"));
        assert_eq!(leading_kind(" {\n\t\"type\" : \"a\" , what is this"), Some("a"));
        let elsewhere = [
            r#"{"b":1,"type":"a"}"#,
            r#"{"type":"\u0061"}"#,
            r#"{"type":7}"#,
            r#"{"type":"a"#,
            r#"["type","a"]"#,
            "",
        ];
        for message in elsewhere {
            assert_eq!(leading_kind(message), None, "{message}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_by_its_kind_and_not_quoted() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code, reason = "only read")]
        struct Sample {
            seq: u32,
            kind: Option<Known>,
        }
        #[derive(Debug, Deserialize)]
        enum Known {
            One,
            Two,
        }
        let told = |text: &str| read::<Sample>(text).unwrap_err();
        for value in [
            "secret",
            "secret\\\", expected `secret",
            "`secret`, expected",
            "a \\\"secret\\\", expected",
        ] {
            let wrong = told(&format!("{{\"seq\": \"{value}\"}}"));
            let plain = "seq: a whole number from 0 to 4294967295 is expected, not a text";
            assert_eq!(wrong, plain);
            let wrong = told(&format!("{{\"seq\": 1, \"kind\": \"{value}\"}}"));
            assert_eq!(wrong, "kind: `One` or `Two` is expected");
        }
        assert_eq!(told("{}"), "`seq` is missing");
        assert_eq!(told("{\"seq\": 1, \"seq\": 2}"), "`seq` is given twice");
        assert_eq!(told("7"), "an object is expected, not this number");
        assert_eq!(told("{\"seq\": -1}"), "seq: a whole number from 0 to 4294967295 is expected");
        assert_eq!(told("{\"seq\": "), "not a JSON object, from line 1, column 8 on");
    }
}
