//! What a message is, for `/asyncapi.json`.

use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

/// A message of a socket.
pub(crate) struct Described {
    /// Its type.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) about: String,
    /// JSON Schema of what it says; of a binary frame, of its bytes.
    pub(crate) payload: Value,
    /// The parts of a binary frame.
    pub(crate) frame: Option<Value>,
}

/// A field that is written: its name, the lines above it, whether it is always there, and its
/// schema.
type Written<'a> = (&'a str, &'a [&'a str], bool, Value);

impl Described {
    /// A message that goes out.
    pub(crate) fn written(name: &'static str, about: &[&str], fields: Vec<Written<'_>>) -> Self {
        let mut properties = Map::new();
        let mut required = vec!["type"];
        properties.insert("type".to_owned(), json!({ "type": "string", "const": name }));
        for (field, what, always, mut schema) in fields {
            schema["description"] = prose(what).into();
            properties.insert(field.to_owned(), schema);
            if always {
                required.push(field);
            }
        }
        let payload = json!({ "type": "object", "required": required, "properties": properties });
        Described { name, about: prose(about), payload, frame: None }
    }

    /// A message that is read, under any of these names, by types with these schemas.
    pub(crate) fn read(names: &[&'static str], about: &str, schemas: &[Value]) -> Self {
        let kind = match names {
            [name] => json!({ "type": "string", "const": name }),
            names => json!({ "type": "string", "enum": names }),
        };
        let (mut properties, mut required) = (Map::new(), vec![json!("type")]);
        for schema in schemas {
            let fields = schema["properties"].as_object();
            properties.extend(fields.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
            let must = schema["required"].as_array();
            required.extend(must.into_iter().flatten().filter(|name| *name != "type").cloned());
        }
        properties.insert("type".to_owned(), kind);
        let payload = json!({ "type": "object", "required": required, "properties": properties });
        Described { name: names[0], about: about.to_owned(), payload, frame: None }
    }

    /// A binary frame: its first byte, and the parts behind it.
    pub(crate) fn binary(
        name: &'static str,
        about: &str,
        first: u8,
        parts: &[(&str, &str, &str)],
    ) -> Self {
        let first = json!({ "name": "kind", "bytes": "1", "what": format!("{first:#04x}") });
        let parts = parts
            .iter()
            .map(|(name, bytes, what)| json!({ "name": name, "bytes": bytes, "what": what }));
        let frame = std::iter::once(first).chain(parts).collect();
        let payload = json!({ "type": "string", "format": "binary" });
        Described { name, about: about.to_owned(), payload, frame: Some(frame) }
    }
}

/// The schema of a type that is read.
pub(crate) fn of<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).expect("a schema is JSON")
}

/// These fields of a type that is read, those with a mark always there.
pub(crate) fn some_of(schema: &Value, fields: &[&str]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        let name = field.trim_end_matches('!');
        let mut schema = schema["properties"][name].clone();
        if name != *field {
            required.push(name);
            forbid_null(&mut schema);
        }
        properties.insert(name.to_owned(), schema);
    }
    json!({ "properties": properties, "required": required })
}

/// The same schema, with nothing but these words in a field that may be absent.
pub(crate) fn only(mut schema: Value, field: &str, words: &[&str]) -> Value {
    let words = words.iter().map(|word| Value::from(*word));
    schema["properties"][field]["enum"] = words.chain([Value::Null]).collect();
    schema
}

fn forbid_null(schema: &mut Value) {
    let mut kinds = schema["type"].as_array().into_iter().flatten().filter(|kind| *kind != "null");
    if let Some(kind) = kinds.next().cloned() {
        schema["type"] = kind;
    }
}

/// The lines of a comment as one text.
fn prose(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
