//! Lists that are put together from all instances, for operators.

use lingua_core::InstanceId;
use lingua_core::outcome::Code;
use serde::de::DeserializeOwned;

use super::Door;
use super::error::{Answer, refused};

/// What instances answered.
pub(crate) struct Gathered<P> {
    pub(crate) parts: Vec<P>,
    /// Those that did not answer, by name.
    pub(crate) silent: Vec<String>,
}

/// Asks every instance, or only one, for its part of a list: this one by `here`, others at `path`.
pub(crate) async fn gather<P: DeserializeOwned>(
    door: &Door,
    only: Option<&InstanceId>,
    here: impl FnOnce() -> P,
    path: &str,
) -> Answer<Gathered<P>> {
    let engine = &door.engine;
    let me = &engine.instance().id;
    let known = |id: &InstanceId| id == me || engine.peers().iter().any(|(peer, _)| peer.id == *id);
    if only.is_some_and(|only| !known(only)) {
        return Err(refused(Code::NotFound, "there is no such instance"));
    }
    let mut gathered = Gathered { parts: Vec::new(), silent: Vec::new() };
    if only.is_none_or(|only| only == me) {
        gathered.parts.push(here());
    }
    if only != Some(me) {
        let only = only.map(InstanceId::as_str);
        for answered in door.ask.others(engine, only, path).await {
            let said = answered.said.ok().flatten();
            match said.and_then(|said| serde_json::from_slice(&said).ok()) {
                Some(part) => gathered.parts.push(part),
                None => gathered.silent.push(answered.instance),
            }
        }
    }
    gathered.silent.sort_unstable();
    Ok(gathered)
}

/// A query of these values, those that are absent left out. None of them needs an escape.
pub(crate) fn query(path: &str, named: &[(&str, Option<String>)]) -> String {
    let given =
        named.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    format!("{path}?{}", given.collect::<Vec<_>>().join("&"))
}
