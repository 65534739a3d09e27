//! Query parameters. One that the call does not have is refused, with those that it has; an empty value
//! is as good as none, and a wrong one is refused with its name.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, MatchedPath, Path, Query};
use axum::http::request::Parts;

use super::error::{Answer, Refused};
use super::openapi;
use crate::wire::http::{MAX_WAIT_MS, invalid, within, wrong};

/// The parameters of a call.
pub(crate) struct Params(Result<HashMap<String, String>, String>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) else {
            return Ok(Params(Err("the query is not name=value&…".to_owned())));
        };
        let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let known = path.and_then(|path| openapi::parameters(parts.method.as_str(), path));
        let unknown =
            pairs.iter().find(|(name, _)| known.is_some_and(|names| !names.contains(name)));
        if let (Some((name, _)), Some(known)) = (unknown, known) {
            return Ok(Params(Err(no_such(name, known))));
        }
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

fn no_such(name: &str, known: &BTreeSet<String>) -> String {
    let name: String = name.chars().take(64).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    format!("{name:?}: is no parameter of this call; it takes {}", known.join(", "))
}

impl Params {
    /// A parameter, if it is there.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Answer<Option<T>>
    where
        T::Err: Display,
    {
        let params = self.0.as_ref().map_err(|why| invalid(why.as_str()))?;
        let Some(value) = params.get(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|error| wrong(name, error).into())
    }

    /// How long to wait for something to happen; not at all if it is not said.
    pub(crate) fn wait(&self) -> Answer<Duration> {
        let ms = self.get::<u64>("wait_ms")?.unwrap_or(0);
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
