//! A node's message about a job, as it came.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

/// A message with the places of its fields. The values are not parsed: a reader takes the fields that it needs,
/// without another pass over the text. Cheap to clone.
#[derive(Clone, Default)]
pub struct NodeMessage {
    body: Bytes,
    fields: Arc<[FoundField]>,
}

/// Where a field of a message stands.
#[derive(Clone, Debug)]
pub struct FoundField {
    /// Its name.
    pub name: FoundName,
    /// Its value, in bytes of the message.
    pub value: Range<u32>,
}

/// The name of a field.
#[derive(Clone, Debug)]
pub enum FoundName {
    /// As it stands in the message.
    At(Range<u32>),
    /// It was written with escapes.
    Owned(Box<str>),
}

impl NodeMessage {
    /// A message, and where its fields are. Fields beyond its text, and those of what is no text, are left out.
    pub fn new(body: Bytes, fields: impl IntoIterator<Item = FoundField>) -> Self {
        let fields = match str::from_utf8(&body) {
            Ok(text) => fields.into_iter().filter(|field| field.is_in(text)).collect(),
            Err(_) => Arc::default(),
        };
        NodeMessage { body, fields }
    }

    /// The fields in their order, each with its value as it was written.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = if self.fields.is_empty() { "" } else { self.text() };
        self.fields.iter().map(move |field| {
            let name = match &field.name {
                FoundName::At(place) => &text[bytes(place)],
                FoundName::Owned(name) => name,
            };
            (name, &text[bytes(&field.value)])
        })
    }

    /// The value of a field as it was written. Of a repeated field the last counts.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields().filter(|(found, _)| *found == name).last().map(|(_, value)| value)
    }

    /// The message as it came.
    pub fn into_bytes(self) -> Bytes {
        self.body
    }

    /// Bytes that remembering it takes.
    pub fn size(&self) -> usize {
        self.body.len() + self.fields.len() * size_of::<FoundField>()
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("only a text has fields")
    }
}

impl FoundField {
    fn is_in(&self, text: &str) -> bool {
        let name = match &self.name {
            FoundName::At(place) => text.get(bytes(place)).is_some(),
            FoundName::Owned(_) => true,
        };
        name && text.get(bytes(&self.value)).is_some()
    }
}

fn bytes(place: &Range<u32>) -> Range<usize> {
    place.start as usize..place.end as usize
}

impl From<Bytes> for NodeMessage {
    /// Without fields.
    fn from(body: Bytes) -> Self {
        NodeMessage { body, fields: Arc::default() }
    }
}

impl Deref for NodeMessage {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.body
    }
}

impl PartialEq for NodeMessage {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

impl Eq for NodeMessage {}

/// Without its content: what people said stays out of logs.
impl fmt::Debug for NodeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeMessage({} bytes)", self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_in_the_text_are_left_out() {
        let field = |name, value| FoundField { name: FoundName::At(name), value };
        let body = Bytes::from_static("{\"é\":1}".as_bytes());
        let found = [field(2..4, 6..7), field(3..4, 6..7), field(2..4, 6..99), field(9..10, 6..7)];
        let message = NodeMessage::new(body, found.clone());
        assert_eq!(message.fields().collect::<Vec<_>>(), [("é", "1")]);
        assert_eq!((message.field("é"), message.field("e")), (Some("1"), None));
        let no_text = NodeMessage::new(Bytes::from_static(b"{\"a\":\xff}"), found);
        assert_eq!(no_text.fields().count(), 0);
    }
}
