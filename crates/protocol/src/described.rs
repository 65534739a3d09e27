//! What a message is, for `/asyncapi.json`.

use serde_json::{Map, Value, json};
use utoipa::PartialSchema;

/// A message of a socket.
pub struct Described {
    /// Its type.
    pub name: &'static str,
    /// What it is for.
    pub about: String,
    /// JSON Schema of what it says; of a binary frame, of its bytes.
    pub payload: Value,
    /// The parts of a binary frame.
    pub frame: Option<Value>,
}

impl Described {
    /// A message that is written by this type.
    pub fn written<T: PartialSchema>(name: &'static str) -> Self {
        let schema = of::<T>();
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        let mut payload = json!({ "type": "object", "required": ["type"], "properties": {
            "type": { "type": "string", "const": name },
        } });
        add(&mut payload, schema);
        Described { name, about, payload, frame: None }
    }

    /// The same, with the fields of another type in it.
    pub fn with<T: PartialSchema>(mut self) -> Self {
        add(&mut self.payload, of::<T>());
        self
    }

    /// The same, with a field that is always there.
    pub fn always(mut self, field: &str) -> Self {
        if let Some(required) = self.payload["required"].as_array_mut() {
            required.push(field.into());
        }
        self
    }

    /// The same, with a field that may be `null`.
    pub fn or_null(mut self, field: &str) -> Self {
        let kind = self.payload["properties"][field]["type"].take();
        self.payload["properties"][field]["type"] = json!([kind, "null"]);
        self
    }

    /// The same, with nothing but these words in a field.
    pub fn one_of(mut self, field: &str, words: &[&str]) -> Self {
        self.payload["properties"][field]["enum"] = words.into();
        self
    }

    /// A message that is read, under any of these names, by types with these schemas.
    pub fn read(names: &[&'static str], about: &str, schemas: &[Value]) -> Self {
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
    pub fn binary(
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
pub fn of<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).expect("a schema is JSON")
}

/// These fields of a type that is read, those with a mark always there.
pub fn some_of(schema: &Value, fields: &[&str]) -> Value {
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
pub fn only(mut schema: Value, field: &str, words: &[&str]) -> Value {
    let words = words.iter().map(|word| Value::from(*word));
    schema["properties"][field]["enum"] = words.chain([Value::Null]).collect();
    schema
}

/// Adds the fields of a type that is written, which has no `null`s: what is absent is left out.
fn add(payload: &mut Value, schema: Value) {
    let Value::Object(mut schema) = schema else { return };
    let required = schema.remove("required");
    if let (Some(all), Some(Value::Array(more))) = (payload["required"].as_array_mut(), required) {
        all.extend(more);
    }
    let Some(Value::Object(fields)) = schema.remove("properties") else { return };
    for (name, mut field) in fields {
        written(&mut field);
        payload["properties"][name] = field;
    }
}

/// A field that is written, and those within it.
fn written(field: &mut Value) {
    one_form(field);
    forbid_null(field);
    plain_number(field);
    let inner = field.get_mut("properties").and_then(Value::as_object_mut);
    inner.into_iter().flat_map(|fields| fields.values_mut()).for_each(written);
}

/// Puts a type that stands in place, and what is said about the field, into one.
fn one_form(field: &mut Value) {
    let Some(fields) = field.as_object_mut() else { return };
    let Some(Value::Array(forms)) = fields.remove("allOf") else { return };
    for form in forms.into_iter().filter_map(|form| form.as_object().cloned()) {
        let is_type =
            form.get("type").is_none_or(|kind| kind != "object") || form.contains_key("properties");
        fields.extend(form.into_iter().filter(|(name, _)| is_type || name == "description"));
    }
}

/// Says the bounds of a number instead of the Rust type.
fn plain_number(field: &mut Value) {
    let Some(fields) = field.as_object_mut() else { return };
    let format = fields.remove("format");
    if format.is_some_and(|format| format == "int32") && fields.contains_key("minimum") {
        fields.insert("maximum".to_owned(), u32::MAX.into());
    }
}

fn forbid_null(schema: &mut Value) {
    let is_null = |form: &Value| form["type"] == "null";
    if let Some(forms) = schema["oneOf"].as_array().filter(|forms| forms.len() == 2)
        && let Some(Value::Object(form)) = forms.iter().find(|form| !is_null(form)).cloned()
        && let Some(fields) = schema.as_object_mut()
    {
        fields.remove("oneOf");
        fields.extend(form);
    }
    let Some(kinds) = schema["type"].as_array() else { return };
    let mut kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
    schema["type"] = if kinds.len() == 1 { kinds.remove(0) } else { kinds.into() };
}

#[cfg(test)]
mod tests {
    use utoipa::ToSchema;

    use super::*;

    /// What it is.
    #[derive(ToSchema)]
    #[allow(dead_code, reason = "only described")]
    struct Message {
        /// A number.
        seq: u32,
        /// A word.
        #[schema(inline)]
        word: Choice,
        /// A part.
        #[schema(inline)]
        part: Option<Part>,
    }

    #[derive(ToSchema)]
    #[schema(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only described")]
    enum Choice {
        Yes,
        No,
    }

    #[derive(ToSchema)]
    #[allow(dead_code, reason = "only described")]
    struct Part {
        /// May be left out.
        inner: Option<String>,
    }

    #[test]
    fn what_is_written_has_no_nulls_and_each_field_one_form() {
        let described = Described::written::<Message>("message");
        assert_eq!(described.about, "What it is.");
        let wanted = json!({ "type": "object", "required": ["type", "seq", "word"], "properties": {
            "type": { "type": "string", "const": "message" },
            "seq": { "type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "A number." },
            "word": { "type": "string", "enum": ["yes", "no"], "description": "A word." },
            "part": { "type": "object", "description": "A part.", "properties": {
                "inner": { "type": "string", "description": "May be left out." },
            } },
        } });
        assert_eq!(described.payload, wanted);
    }
}
