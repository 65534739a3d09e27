//! The fields of one JSON object, found in one pass over the text and not parsed.
//!
//! One message may be read by several types ([`RawFields::view`]), each of which parses only its own fields.
//! Serde's `flatten` cannot do that: it copies everything, and knows no [`RawValue`].

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::Error;
use serde_json::value::RawValue;

use crate::json::{self, Text};

/// The fields of an object in their order, each with its value as it was written.
pub struct RawFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// The fields of an object that is the whole text.
    pub fn read(text: &'a str) -> Result<Self, Error> {
        serde_json::from_str(text)
    }

    /// The fields in front of the first fault; all of them if there is none.
    pub fn read_up_to_fault(text: &'a str) -> Self {
        let mut fields = Vec::new();
        // Where it is wrong, there is nothing more to find.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(Into(&mut fields));
        RawFields(fields)
    }

    /// The value of a field. Of one that is there twice the last counts.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(found, _)| found == name).map(|(_, value)| *value)
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Cow<'a, str>, &'a str)> {
        self.0.iter().map(|(name, value)| (name, value.get()))
    }

    /// What a type with named fields is read from; the values of all others are not looked at.
    pub fn deserializer(&self) -> impl Deserializer<'a, Error = Error> {
        View(self)
    }

    /// Reads a type with named fields; the values of all others are not looked at.
    pub fn view<T: Deserialize<'a>>(&self) -> Result<T, Error> {
        T::deserialize(View(self))
    }
}

/// A message that several types are read from. A refusal is a sentence that names the field.
pub struct RawMessage<'a> {
    text: &'a str,
    fields: RawFields<'a>,
}

impl<'a> RawMessage<'a> {
    /// Finds the fields.
    pub fn read(text: &'a str) -> Result<Self, String> {
        match RawFields::read(text) {
            Ok(fields) => Ok(RawMessage { text, fields }),
            Err(_) => Err(sentence::<RawFields<'_>>(text)),
        }
    }

    /// Reads a type with named fields; the values of all others are not looked at.
    pub fn view<T: Deserialize<'a>>(&self) -> Result<T, String> {
        self.fields.view().map_err(|_| sentence::<T>(self.text))
    }
}

/// What is wrong with a text, found by another pass over it.
fn sentence<'a, T: Deserialize<'a>>(text: &'a str) -> String {
    json::read::<T>(text).err().unwrap_or_else(|| "the message could not be read".to_owned())
}

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut fields = Vec::new();
        from.deserialize_map(Into(&mut fields))?;
        Ok(RawFields(fields))
    }
}

/// Puts the fields of an object into a list.
struct Into<'l, 'a>(&'l mut Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Visitor<'a> for Into<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.reserve(16);
        while let Some(Text(name)) = map.next_key()? {
            self.0.push((name, map.next_value()?));
        }
        Ok(())
    }
}

/// The fields as something to read a type from.
struct View<'f, 'a>(&'f RawFields<'a>);

impl<'de> Deserializer<'de> for View<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(self.0.iter()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let own = self.0.iter().filter(|(name, _)| fields.contains(name));
        visitor.visit_map(MapDeserializer::new(own))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Numbers {
        a: u32,
        b: Option<u32>,
    }

    #[derive(Deserialize)]
    struct Texts<'a> {
        #[serde(borrow)]
        c: Option<Text<'a>>,
        d: Option<Box<RawValue>>,
    }

    #[test]
    fn one_message_is_read_by_several_types() {
        let text = r#" {"a":1,"b":null,"c":"x\n","d":{"e": [1.50]},"other":true} "#;
        let fields = RawFields::read(text).unwrap();
        let numbers: Numbers = fields.view().unwrap();
        assert_eq!((numbers.a, numbers.b), (1, None));
        let texts: Texts<'_> = fields.view().unwrap();
        assert_eq!(texts.c.unwrap().0, "x\n");
        assert_eq!(texts.d.unwrap().get(), r#"{"e": [1.50]}"#);
        assert_eq!(fields.get("other").unwrap().get(), "true");
    }

    #[test]
    fn a_type_is_refused_by_its_own_fields_alone() {
        let fields = RawFields::read(r#"{"a":"no number","c":"x"}"#).unwrap();
        assert!(fields.view::<Numbers>().is_err());
        assert!(fields.view::<Texts<'_>>().is_ok());
        let twice = RawFields::read(r#"{"a":1,"a":2,"c":1,"c":2}"#).unwrap();
        assert!(twice.view::<Numbers>().err().unwrap().to_string().contains("duplicate field `a`"));
        assert_eq!(twice.get("c").unwrap().get(), "2");
    }

    #[test]
    fn only_a_whole_object_is_read_and_what_comes_before_a_fault_can_be() {
        for text in ["", "[1]", "7", "{\"a\":1} x", "{\"a\":1,", "{\"a\":}"] {
            assert!(RawFields::read(text).is_err(), "{text}");
        }
        let fields = RawFields::read_up_to_fault(r#"{"a":1,"b":2,"c":"#);
        assert_eq!(fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    }
}
