//! Finds the fields of a node's message about a job.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use lingua_core::job::NodeMessage;
use lingua_core::job::message::{FoundField, FoundName};

use crate::json::Text;
use crate::raw::RawFields;

/// The message with these bytes, found to have these fields.
pub(super) fn message(body: Bytes, text: &str, fields: &RawFields<'_>) -> NodeMessage {
    let found = fields.entries().filter_map(|(name, value)| {
        let name = match name {
            Cow::Borrowed(name) => FoundName::At(place(text, name)?),
            Cow::Owned(name) => FoundName::Owned(name.as_str().into()),
        };
        Some(FoundField { name, value: place(text, value)? })
    });
    NodeMessage::new(body, found)
}

/// Reads a message that another instance took. It has what comes before the first fault.
pub fn read_message(body: Bytes) -> NodeMessage {
    match str::from_utf8(&body) {
        Ok(text) => message(body.clone(), text, &RawFields::read_up_to_fault(text)),
        Err(_) => body.into(),
    }
}

/// The value of a field that is a text.
pub fn text<'a>(message: &'a NodeMessage, name: &str) -> Option<Cow<'a, str>> {
    let Text(text) = serde_json::from_str(message.field(name)?).ok()?;
    Some(text)
}

/// Where a part stands in its text; `None` beyond 4 GiB.
fn place(text: &str, part: &str) -> Option<Range<u32>> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(u32::try_from(start).ok()?..u32::try_from(start + part.len()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_as_they_were_written() {
        let json = r#" {"a": {"b" : 1.50}, "\u0063": "é\n", "d":null} "#;
        let message = read_message(Bytes::from_static(json.as_bytes()));
        let found: Vec<_> = message.fields().collect();
        assert_eq!(found, [("a", r#"{"b" : 1.50}"#), ("c", r#""é\n""#), ("d", "null")]);
        assert_eq!((text(&message, "c").as_deref(), text(&message, "a")), (Some("é\n"), None));
    }

    #[test]
    fn what_is_no_json_has_what_comes_before_the_fault() {
        let fields = |body: &'static [u8]| read_message(Bytes::from_static(body)).fields().count();
        assert_eq!(fields(br#"{"a":1,"b":"#), 1);
        assert_eq!((fields(b""), fields(b"{\"a\":\"\xff\"}")), (0, 0));
    }
}
