//! Query parameters. One that the call does not have is refused, with those that it has; an empty value
//! is as good as none, and a wrong one is refused with its name.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use lingua_engine::job::Refusal;

use super::error::{Answer, Refused};
use super::openapi;
use crate::wire::http::{MAX_WAIT_MS, invalid, within, wrong};

const NO_QUERY: &str = "the query is not name=value&…";

/// The parameters of a call.
pub(crate) struct Params(Result<HashMap<String, String>, String>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) else {
            return Ok(Params(Err(NO_QUERY.to_owned())));
        };
        let mut params = HashMap::new();
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            if params.contains_key(&name) {
                return Ok(Params(Err(format!("{name}: is given more than once"))));
            }
            params.insert(name, value);
        }
        Ok(Params(Ok(params)))
    }
}

/// Refuses parameters that the described call does not have, with those that it has.
pub(super) fn known(method: &Method, path: &str, uri: &Uri) -> Result<(), Refusal> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let Some(known) = openapi::parameters(method, path) else { return Ok(()) };
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Err(invalid(NO_QUERY));
    };
    match pairs.iter().find(|(name, _)| !known.contains(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let name: String = name.chars().take(64).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(invalid(format!("{name:?}: is no parameter of this call; it takes {known}")))
        }
    }
}

impl Params {
    /// A parameter as it came, if it is there.
    fn text(&self, name: &str) -> Answer<Option<&str>> {
        let params = self.0.as_ref().map_err(|why| invalid(why.as_str()))?;
        Ok(params.get(name).map(String::as_str))
    }

    /// A parameter of one of our own types, whose errors are sentences of ours. Numbers have
    /// [`Params::number`], true and false [`Params::flag`].
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Answer<Option<T>>
    where
        T::Err: Display,
    {
        let Some(value) = self.text(name)? else { return Ok(None) };
        value.parse().map(Some).map_err(|error| wrong(name, error).into())
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &str) -> Answer<Option<u64>> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        // A sign is no digit, although Rust takes one.
        let number = value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok());
        match number.flatten() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, "is a whole number of 0 or more").into()),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Answer<Option<bool>> {
        self.one_of(name, &[("true", true), ("false", false)])
    }

    /// One of these words.
    pub(crate) fn one_of<T: Clone>(&self, name: &str, words: &[(&str, T)]) -> Answer<Option<T>> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == value) {
            return Ok(Some(meant.clone()));
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(wrong(name, format_args!("is one of {}", words.join(", "))).into())
    }

    /// How long to wait for something to happen; not at all if it is not said.
    pub(crate) fn wait(&self) -> Answer<Duration> {
        let ms = self.number("wait_ms")?.unwrap_or(0);
        Ok(Duration::from_millis(within("wait_ms", ms, 0..=MAX_WAIT_MS)?))
    }
}

/// The one variable part of a path.
pub(crate) type Segment = Result<Path<String>, PathRejection>;

/// The variable part of a path as what it names.
pub(crate) fn named<T: FromStr>(field: &str, segment: Segment) -> Answer<T>
where
    T::Err: Display,
{
    let Path(text) =
        segment.map_err(|_| Refused(wrong(field, "is not UTF-8 in percent-encoding")))?;
    text.parse().map_err(|error| wrong(field, error).into())
}
