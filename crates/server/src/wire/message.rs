//! Messages that go out, as types: a field's type says how it is written and how it is described,
//! and the words above it are its description. So a message cannot be written otherwise than
//! `/asyncapi.json` says.

use lingua_core::outcome::MissingReason;
use lingua_engine::job::Json;
use lingua_engine::sessions::words::{Action, Step};
use serde_json::{Value, json};

use super::json::Object;

/// What stands in a field of a message.
pub(crate) trait Field {
    /// Whether the field is always there.
    const ALWAYS: bool = true;

    /// Writes the field.
    fn write(&self, name: &str, object: &mut Object<'_>);

    /// What it is, as JSON Schema.
    fn schema() -> Value;
}

/// Makes messages of their fields. Each is a struct with `write`, and `described` for all of them.
macro_rules! messages {
    ($(
        $(#[doc = $about:literal])+
        $name:literal $kind:ident $(<$life:lifetime>)? {
            $($(#[doc = $what:literal])+ $field:ident: $type:ty,)*
        }
    )+) => {
        $(
            $(#[doc = $about])+
            pub(super) struct $kind $(<$life>)? {
                $($(#[doc = $what])+ pub(super) $field: $type,)*
            }

            impl $(<$life>)? $kind $(<$life>)? {
                /// Writes it behind what is in `out`.
                pub(super) fn write(&self, out: &mut String) {
                    #[allow(unused_mut, reason = "a message may have no fields")]
                    let mut object = $crate::wire::json::Object::begin($name, out);
                    $($crate::wire::message::Field::write(
                        &self.$field, stringify!($field), &mut object,
                    );)*
                    object.end();
                }

                fn described() -> $crate::wire::described::Described {
                    use $crate::wire::message::Field;
                    $crate::wire::described::Described::written($name, &[$($about),+], vec![
                        $((
                            stringify!($field),
                            &[$($what),+],
                            <$type as Field>::ALWAYS,
                            <$type as Field>::schema(),
                        ),)*
                    ])
                }
            }
        )+

        /// All of them, described.
        pub(crate) fn described() -> Vec<$crate::wire::described::Described> {
            vec![$($kind::described()),+]
        }
    };
}
pub(crate) use messages;

/// Bytes, as base64.
pub(crate) struct Base64<'a>(pub(crate) &'a [u8]);

/// Said only when it is so.
pub(crate) struct Flag(pub(crate) bool);

/// Texts for people.
pub(crate) struct Sentences<'a>(pub(crate) &'a [String]);

/// A number, or `null` when there is none.
pub(crate) struct OrNull(pub(crate) Option<u64>);

macro_rules! as_it_came {
    ($($(#[$doc:meta])+ $name:ident $kind:tt),+ $(,)?) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy)]
        pub(crate) struct $name<'a>(pub(crate) &'a str);

        impl Field for $name<'_> {
            fn write(&self, name: &str, object: &mut Object<'_>) {
                object.word(name, self.0);
            }

            fn schema() -> Value {
                json!({ "type": $kind })
            }
        }
    )+};
}

as_it_came! {
    /// JSON that is a string.
    TextAsItCame "string",
    /// JSON that is a number.
    NumberAsItCame "number",
    /// JSON that is an object.
    ObjectAsItCame "object",
    /// JSON that is a list.
    ListAsItCame "array",
    /// JSON that is either.
    ObjectOrListAsItCame ["object", "array"],
}

impl<'a> ObjectAsItCame<'a> {
    /// An object that was checked when it came.
    pub(crate) fn of(json: &'a Option<Json>) -> Option<Self> {
        json.as_ref().map(|json| ObjectAsItCame(json.get()))
    }
}

impl<'a> ListAsItCame<'a> {
    /// A list that was checked when it came.
    pub(crate) fn of(json: &'a Option<Json>) -> Option<Self> {
        json.as_ref().map(|json| ListAsItCame(json.get()))
    }
}

impl Field for &str {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.text(name, self);
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Field for u64 {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.number(name, *self);
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl Field for u32 {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.number(name, u64::from(*self));
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }
}

impl Field for bool {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.boolean(name, *self);
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

impl<T: Field> Field for Option<T> {
    const ALWAYS: bool = false;

    fn write(&self, name: &str, object: &mut Object<'_>) {
        if let Some(value) = self {
            value.write(name, object);
        }
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl Field for Base64<'_> {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.base64(name, self.0);
    }

    fn schema() -> Value {
        json!({ "type": "string", "contentEncoding": "base64" })
    }
}

impl Field for Flag {
    const ALWAYS: bool = false;

    fn write(&self, name: &str, object: &mut Object<'_>) {
        if self.0 {
            object.boolean(name, true);
        }
    }

    fn schema() -> Value {
        json!({ "type": "boolean", "const": true })
    }
}

impl Field for Sentences<'_> {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.texts(name, self.0);
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }
}

impl Field for OrNull {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        match self.0 {
            Some(number) => object.number(name, number),
            None => object.word(name, "null"),
        }
    }

    fn schema() -> Value {
        json!({ "type": ["integer", "null"], "minimum": 0 })
    }
}

macro_rules! words {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn write(&self, name: &str, object: &mut Object<'_>) {
                object.plain(name, self.as_str());
            }

            fn schema() -> Value {
                json!({ "type": "string", "enum": <$type>::ALL.map(<$type>::as_str) })
            }
        }
    )+};
}

words!(MissingReason, Step, Action);
