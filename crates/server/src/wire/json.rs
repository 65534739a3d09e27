//! Messages as text: read by borrowing, written without a tree in between.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::error::Category;

/// A string that is borrowed unless it holds an escape: in an `Option`, a bare `Cow` would always be
/// copied.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// What kind of message it is.
#[derive(Deserialize)]
pub(crate) struct Kind<'a> {
    /// Its `type`.
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
}

/// The `type` of a message that begins with it, as most do: found without reading what follows.
pub(crate) fn leading_kind(message: &str) -> Option<&str> {
    let mut value = message;
    for token in ["{", "\"type\"", ":", "\""] {
        value = value.trim_ascii_start().strip_prefix(token)?;
    }
    let (kind, _) = value.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}

/// Reads a message of a known shape. What is wrong is a sentence that names the field.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
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
        _ => format!("not a JSON object: {inner}"),
    })
}

/// What serde says of a wrong value, without the value and without the names of Rust types.
fn plain(error: &str) -> String {
    let error = without_value(error);
    let Some((said, wanted)) = error.split_once(", expected ") else { return error };
    let end = wanted.find(" at line ").unwrap_or(wanted.len());
    let (wanted, place) = wanted.split_at(end);
    let first = wanted.split([' ', '<']).next().unwrap_or_default();
    let known = match first {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "struct" | "map" => "an object",
        "enum" => "one of the documented words",
        "tuple" => "a list",
        _ => match wanted {
            "a boolean" => "true or false",
            "a sequence" => "a list",
            "a map" => "an object",
            other => other,
        },
    };
    format!("{said}, expected {known}{place}")
}

/// What serde says of a wrong value, without the value: it may be what somebody said, or a token.
pub(crate) fn without_value(error: &str) -> String {
    // The value may hold the same signs: the first begins it, and the last ends it.
    let quotes = error.find(" \"").map(|from| (from, "\", expected"));
    let ticks = error.find(" `").map(|from| (from, "`, expected"));
    let first = [quotes, ticks].into_iter().flatten().min();
    match first.and_then(|(from, end)| Some((from, error.rfind(end)?))) {
        Some((from, to)) if from < to => format!("{}{}", &error[..from], &error[to + 1..]),
        _ => error.to_owned(),
    }
}

/// A JSON object in the making; names are ours and need no escape.
pub(crate) struct Object<'a>(&'a mut String);

impl<'a> Object<'a> {
    /// A message of this type.
    pub(crate) fn begin(kind: &str, out: &'a mut String) -> Self {
        out.push_str("{\"type\":\"");
        out.push_str(kind);
        out.push('"');
        Object(out)
    }

    pub(crate) fn end(self) {
        self.0.push('}');
    }

    /// An object within it; goes on when that one has ended.
    pub(crate) fn object(&mut self, name: &str) -> Object<'_> {
        self.name(name);
        self.0.push('{');
        Object(self.0)
    }

    fn name(&mut self, name: &str) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    /// A value that is JSON as it stands.
    pub(crate) fn word(&mut self, name: &str, word: &str) {
        self.name(name);
        self.0.push_str(word);
    }

    /// A string without anything to escape.
    pub(crate) fn plain(&mut self, name: &str, text: &str) {
        self.name(name);
        self.0.push('"');
        self.0.push_str(text);
        self.0.push('"');
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        escape(text, self.0);
    }

    pub(crate) fn texts(&mut self, name: &str, texts: &[String]) {
        self.name(name);
        self.0.push('[');
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            escape(text, self.0);
        }
        self.0.push(']');
    }

    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.word(name, itoa::Buffer::new().format(number));
    }

    pub(crate) fn boolean(&mut self, name: &str, yes: bool) {
        self.word(name, if yes { "true" } else { "false" });
    }

    pub(crate) fn base64(&mut self, name: &str, bytes: &[u8]) {
        self.name(name);
        self.0.push('"');
        STANDARD.encode_string(bytes, self.0);
        self.0.push('"');
    }
}

/// A JSON string. Stretches without anything to escape are copied as they are.
fn escape(text: &str, out: &mut String) {
    out.push('"');
    let mut copied = 0;
    for (i, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[copied..i]);
        copied = i + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(control >> 4)]));
                out.push(char::from(HEX[usize::from(control & 15)]));
            }
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        struct Said {
            seq: u32,
            kind: Option<Known>,
        }
        #[derive(Debug, Deserialize)]
        enum Known {
            One,
            Two,
        }
        let told = |text: &str| read::<Said>(text).unwrap_err();
        for value in [
            "secret",
            "secret\\\", expected `secret",
            "`secret`, expected",
            "a \\\"secret\\\", expected",
        ] {
            let wrong = told(&format!("{{\"seq\": \"{value}\"}}"));
            let plain = "seq: invalid type: string, expected a whole number of 0 or more at line";
            assert!(wrong.starts_with(plain), "{wrong}");
            let wrong = told(&format!("{{\"seq\": 1, \"kind\": \"{value}\"}}"));
            assert!(wrong.starts_with("kind: unknown variant, expected `One` or `Two`"), "{wrong}");
        }
        assert!(told("{}").starts_with("missing field `seq`"));
        assert!(told("7").contains("expected an object"), "{}", told("7"));
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_its_escaped_form(text in any::<String>()) {
            let mut out = String::new();
            escape(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
