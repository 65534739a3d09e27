//! What is said over HTTP: requests checked field by field, answers as they are described.
//!
//! - [`node`]: a node about itself. [`dispatch`]: a job is handed in.
//! - [`job`]: how a job stands. [`job_list`]: jobs for operators. [`job_message`]: what nodes say about jobs.
//! - [`fleet`]: nodes and pairs for people, with [`inventory`]. [`owner`]: a node for its owner.
//!
//! Unknown fields are ignored, `null` equals absent, and whatever is wrong is answered with a
//! sentence that names the field.

pub(crate) mod dispatch;
pub(crate) mod fleet;
pub(crate) mod inventory;
pub(crate) mod job;
pub(crate) mod job_list;
pub(crate) mod node;
pub(crate) mod owner;
pub(crate) mod job_message;

use std::fmt;
use std::marker::PhantomData;

use lingua_engine::job::Refusal;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use lingua_protocol::fields::{MAX_DEPTH, deeper_than};
pub(crate) use lingua_protocol::fields::{invalid, text, within, wrong};
use lingua_protocol::json::plain;

/// The longest that a call may wait for something to happen.
pub(crate) const MAX_WAIT_MS: u64 = 60_000;

/// The answer to an order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    /// Always true; errors have another form.
    #[schema(example = true)]
    ok: bool,
}

/// It was done.
pub(crate) const DONE: Done = Done { ok: true };

/// An error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// A stable code; a node's own code is passed on as it is.
    #[schema(example = "INVALID_MESSAGE")]
    pub(crate) error: String,
    /// A sentence for people that says what is wrong.
    #[schema(
        example = "src_lang: \"\" is not a BCP-47 language tag such as \"en\" or \"zh-Hant\""
    )]
    pub(crate) detail: String,
    /// When to retry, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// The name of the code in the older scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) legacy_code: Option<&'static str>,
    /// The reason, a stable word: why a token is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "expired")]
    pub(crate) reason: Option<&'static str>,
    /// The id of the request, as in the header `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) x_request_id: Option<String>,
}

/// The same in the form of RFC 9457, for callers that accept `application/problem+json`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody<'a> {
    /// `urn:lingua:error:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:lingua:error:INVALID_MESSAGE")]
    kind: String,
    /// The code in words.
    #[schema(example = "Invalid message")]
    title: String,
    /// The status of the answer.
    #[schema(example = 400)]
    status: u16,
    /// A sentence for people that says what is wrong.
    detail: &'a str,
    /// `urn:lingua:request:` and the id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The code, as `error` of the usual form has it.
    #[schema(example = "INVALID_MESSAGE")]
    code: &'a str,
    /// When to retry, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The reason, a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// The two forms of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Ours, unless a caller asks for the other.
    Plain,
    /// RFC 9457.
    Problem,
}

impl ErrorBody {
    /// The content type and the text.
    pub(crate) fn written(&self, status: u16, form: Form) -> (&'static str, String) {
        let text = match form {
            Form::Plain => serde_json::to_string(self),
            Form::Problem => serde_json::to_string(&self.problem(status)),
        };
        let kind = match form {
            Form::Plain => "application/json",
            Form::Problem => "application/problem+json",
        };
        (kind, text.expect("texts and numbers"))
    }

    fn problem(&self, status: u16) -> ProblemBody<'_> {
        let words = self.error.to_lowercase().replace('_', " ");
        let mut letters = words.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        ProblemBody {
            kind: format!("urn:lingua:error:{}", self.error),
            title: first.into_iter().chain(letters).collect(),
            status,
            detail: &self.detail,
            instance: self.x_request_id.as_ref().map(|id| format!("urn:lingua:request:{id}")),
            code: &self.error,
            retry_after_ms: self.retry_after_ms,
            reason: self.reason,
        }
    }
}

/// A JSON object and nothing else: serde alone would also take a list of the fields' values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Reads a body. The sentence of a refusal names the field.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    if deeper_than(body, MAX_DEPTH) {
        return Err(invalid(format!("the body is nested deeper than {MAX_DEPTH} levels")));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_syntax() || error.is_eof() || error.is_io() {
            return not_json(&error);
        }
        let text = plain(&error.to_string());
        match path.as_str() {
            "." => invalid(format!("the body: {text}")),
            path => wrong(path, text),
        }
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    invalid(format!("the body is not JSON, from line {line}, column {column} on"))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use lingua_protocol::fields::MAX_DETAIL_CHARS;

    #[derive(Debug, Deserialize)]
    struct Outer {
        name: String,
        inner: Option<Object<Inner>>,
        raw: Option<Box<RawValue>>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        count: Option<u64>,
    }

    fn refused(body: &str) -> String {
        parse::<Outer>(body.as_bytes()).unwrap_err().detail
    }

    #[test]
    fn a_wrong_field_is_named_with_its_path() {
        assert!(refused("{}").contains("`name`"));
        assert!(refused(r#"{"name":null}"#).starts_with("name: "));
        assert!(refused(r#"{"name":"a","inner":{"count":-1}}"#).starts_with("inner.count: "));
        assert!(!refused(r#"{"name":1}"#).contains("line"), "a field says more than a column");
        assert!(refused(r#"{"name":"a","name":"b"}"#).contains("`name` is given twice"));
    }

    #[test]
    fn only_objects_are_objects_and_only_json_is_json() {
        for body in ["", "[\"a\",[1]]", "\"a\"", "1", "null", "{", "{}{}", "\u{feff}{}", "NaN"] {
            assert!(parse::<Outer>(body.as_bytes()).is_err(), "{body:?}");
        }
        assert!(refused(r#"{"name":"a","inner":[1]}"#).contains("an object"));
        assert!(parse::<Outer>(b"{\"name\":\"\xff\"}").is_err(), "not UTF-8");
    }

    #[test]
    fn null_equals_absent_and_unknown_fields_are_ignored() {
        let outer: Outer =
            parse(br#"{"name":"a","inner":null,"raw":null,"more":{"x":[1]}}"#).unwrap();
        assert!(outer.inner.is_none() && outer.raw.is_none() && outer.name == "a");
        let outer: Outer =
            parse(br#"{"name":"a","inner":{"count":null}, "raw": {"b": 1} }"#).unwrap();
        assert_eq!(outer.inner.unwrap().0.count, None);
        assert_eq!(outer.raw.unwrap().get(), r#"{"b": 1}"#);
    }

    #[test]
    fn depth_is_bounded_also_of_what_is_ignored() {
        let nested = |n: usize| format!(r#"{{"name":"a","x":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        assert!(parse::<Outer>(nested(MAX_DEPTH - 1).as_bytes()).is_ok());
        assert!(refused(&nested(MAX_DEPTH)).contains("nested"));
        let quoted = format!(r#"{{"name":"\"{}"}}"#, "[".repeat(200));
        assert!(parse::<Outer>(quoted.as_bytes()).is_ok(), "brackets in a text are no levels");
    }

    #[test]
    fn a_sentence_that_quotes_what_was_sent_is_cut() {
        let long = format!(r#"{{"name":"a","inner":{{"count":"{}"}}}}"#, "x".repeat(10_000));
        assert!(refused(&long).chars().count() <= MAX_DETAIL_CHARS + 1);
    }
}
