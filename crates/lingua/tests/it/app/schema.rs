//! Whether an answer is as the description of its door says.
//!
//! Stricter than JSON Schema asks: a field that is not described is wrong too, and a keyword that
//! this does not know is an error, so that nothing is let through by not being looked at.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use regex_automata::dfa::regex::Regex;
use serde_json::Value;

/// Words of a schema that only describe.
const DESCRIBING: [&str; 7] =
    ["description", "example", "format", "title", "deprecated", "propertyNames", "contentEncoding"];

/// Every difference between a value and its schema, with its path.
pub fn differences(description: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(Whole { root: description, is_open: false }, schema, value, "$", &mut found);
    found
}

/// The same of what others say, who may say more than is described.
pub fn differences_but_more(description: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(Whole { root: description, is_open: true }, schema, value, "$", &mut found);
    found
}

/// What a schema is a part of.
#[derive(Clone, Copy)]
struct Whole<'a> {
    root: &'a Value,
    /// There may be more fields than are described.
    is_open: bool,
}

fn check(root: Whole<'_>, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(words) = schema.as_object() else {
        found.push(format!("{at}: the schema is no object: {schema}"));
        return;
    };
    for (word, argument) in words {
        match word.as_str() {
            "$ref" => check(root, target(root.root, argument), value, at, found),
            "oneOf" => one_of(root, argument, value, at, found),
            "type" => kind(argument, value, at, found),
            "enum" if !lists(root, argument, value) => {
                found.push(format!("{at}: {value} is not one of {argument}"));
            }
            "const" if argument != value => {
                found.push(format!("{at}: {value} is not {argument}"));
            }
            "maxLength" if length(value) > argument.as_u64() => {
                found.push(format!("{at}: is longer than {argument}"));
            }
            "minLength" if length(value).is_some_and(|n| Some(n) < argument.as_u64()) => {
                found.push(format!("{at}: is shorter than {argument}"));
            }
            "maxItems" if value.as_array().map(|list| list.len() as u64) > argument.as_u64() => {
                found.push(format!("{at}: has more entries than {argument}"));
            }
            "minItems"
                if value
                    .as_array()
                    .is_some_and(|list| (list.len() as u64) < argument.as_u64().unwrap()) =>
            {
                found.push(format!("{at}: has fewer entries than {argument}"));
            }
            "pattern" if value.as_str().is_some_and(|text| !fits(argument, text)) => {
                found.push(format!("{at}: {value} does not fit {argument}"));
            }
            "minimum" if value.as_f64().is_some_and(|n| n < argument.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is below {argument}"));
            }
            "maximum" if value.as_f64().is_some_and(|n| n > argument.as_f64().unwrap()) => {
                found.push(format!("{at}: {value} is above {argument}"));
            }
            "required" => required(argument, value, at, found),
            "properties" => fields(root, argument, value, at, found),
            "additionalProperties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    check(root, argument, field, &format!("{at}.{name}"), found);
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, argument, item, &format!("{at}[{i}]"), found);
                }
            }
            "enum" | "minimum" | "maximum" | "const" | "maxLength" | "minLength" | "maxItems"
            | "minItems" | "pattern" => {}
            other if DESCRIBING.contains(&other) => {}
            other => found.push(format!("{at}: the schema word {other:?} is not known here")),
        }
    }
}

/// Words of others are taken in any case.
fn lists(root: Whole<'_>, words: &Value, value: &Value) -> bool {
    let same = |word: &Value| match (word.as_str(), value.as_str()) {
        (Some(word), Some(value)) if root.is_open => word.eq_ignore_ascii_case(value),
        _ => word == value,
    };
    words.as_array().unwrap().iter().any(same)
}

fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn fits(pattern: &Value, text: &str) -> bool {
    // The same few patterns, for every message of a test.
    static KNOWN: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let pattern = pattern.as_str().unwrap();
    let mut known = KNOWN.lock();
    if !known.contains_key(pattern) {
        known.insert(pattern.to_owned(), Regex::new(pattern).unwrap());
    }
    known[pattern].is_match(text)
}

/// What a reference names.
pub fn target<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    let path = reference.as_str().unwrap().strip_prefix('#').expect("a reference within the page");
    root.pointer(path).unwrap_or_else(|| panic!("{reference} names nothing"))
}

fn one_of(root: Whole<'_>, choices: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let choices = choices.as_array().unwrap();
    let tries: Vec<Vec<String>> = choices
        .iter()
        .map(|choice| {
            let mut found = Vec::new();
            check(root, choice, value, at, &mut found);
            found
        })
        .collect();
    let fitting = tries.iter().filter(|found| found.is_empty()).count();
    if fitting != 1 {
        found.push(format!("{at}: {fitting} of the choices fit: {tries:?}"));
    }
}

fn kind(wanted: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = |wanted: &Value| wanted == is || (wanted == "number" && is == "integer");
    let fits = match wanted.as_array() {
        Some(list) => list.iter().any(fits),
        None => fits(wanted),
    };
    if !fits {
        found.push(format!("{at}: {value} is not of type {wanted}"));
    }
}

fn required(names: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(fields) = value.as_object() else { return };
    for name in names.as_array().unwrap() {
        if !fields.contains_key(name.as_str().unwrap()) {
            found.push(format!("{at}: {name} is missing"));
        }
    }
}

fn fields(root: Whole<'_>, described: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, field) in value.as_object().into_iter().flatten() {
        match described.get(name) {
            Some(schema) => check(root, schema, field, &format!("{at}.{name}"), found),
            None if root.is_open => {}
            None => found.push(format!("{at}.{name} is not described")),
        }
    }
}
