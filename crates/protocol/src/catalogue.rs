//! The catalogue of services: what exists, with versions, sizes and languages.

use std::collections::BTreeSet;

use lingua_core::Lang;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json;

/// Bytes of a catalogue.
pub const MAX_CATALOGUE_BYTES: usize = 1 << 20;

/// Services of a catalogue.
const MAX_SERVICES: usize = 1_000;

/// Versions of one service.
const MAX_VERSIONS: usize = 64;

/// Languages of one service.
const MAX_LANGUAGES: usize = 200;

/// Characters of an id, a kind and a version.
const MAX_NAME_CHARS: usize = 64;

/// Characters of a title.
const MAX_TITLE_CHARS: usize = 200;

/// All services that exist, as whoever builds them lists them. Unknown fields are passed over.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Catalogue {
    /// In the order of the file.
    pub services: Vec<CatalogueService>,
}

/// A service that exists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CatalogueService {
    /// As nodes name it in their installed services or models.
    #[schema(example = "faster-whisper")]
    pub id: String,
    /// What it does: `asr`, `semantic`, `nmt`, `tts` or another word.
    #[schema(example = "asr")]
    pub kind: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Languages that it is for; empty if they are not limited.
    #[serde(default)]
    pub languages: Vec<String>,
    /// The newest first, as the list has them.
    #[serde(default)]
    pub versions: Vec<CatalogueVersion>,
}

/// A version of a service.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CatalogueVersion {
    /// Its name.
    #[schema(example = "3")]
    pub version: String,
    /// What has to be downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

impl Catalogue {
    /// Reads and checks a catalogue. What is wrong is a sentence that names the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_CATALOGUE_BYTES {
            return Err("is larger than 1 MiB".to_owned());
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
        let catalogue: Catalogue = json::read(text)?;
        catalogue.check()?;
        Ok(catalogue)
    }

    fn check(&self) -> Result<(), String> {
        at_most("services", self.services.len(), MAX_SERVICES)?;
        let mut known = BTreeSet::new();
        for (at, service) in self.services.iter().enumerate() {
            service.check().map_err(|error| format!("services[{at}].{error}"))?;
            if !known.insert((&service.kind, &service.id)) {
                return Err(format!("services[{at}].id: is given twice for this kind"));
            }
        }
        Ok(())
    }
}

impl CatalogueService {
    fn check(&self) -> Result<(), String> {
        name("id", &self.id)?;
        name("kind", &self.kind)?;
        let title = self.title.as_deref().unwrap_or_default();
        if title.chars().nth(MAX_TITLE_CHARS).is_some() || title.chars().any(char::is_control) {
            return Err(format!(
                "title: has at most {MAX_TITLE_CHARS} characters, none of control"
            ));
        }
        at_most("languages", self.languages.len(), MAX_LANGUAGES)?;
        for (at, tag) in self.languages.iter().enumerate() {
            Lang::new(tag).map_err(|error| format!("languages[{at}]: {error}"))?;
        }
        at_most("versions", self.versions.len(), MAX_VERSIONS)?;
        let mut known = BTreeSet::new();
        for (at, version) in self.versions.iter().enumerate() {
            name(&format!("versions[{at}].version"), &version.version)?;
            if !known.insert(&version.version) {
                return Err(format!("versions[{at}].version: is given twice"));
            }
        }
        Ok(())
    }
}

fn name(field: &str, text: &str) -> Result<(), String> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > MAX_NAME_CHARS || !printable {
        return Err(format!("{field}: is 1 to {MAX_NAME_CHARS} printable ASCII characters"));
    }
    Ok(())
}

fn at_most(field: &str, listed: usize, most: usize) -> Result<(), String> {
    if listed > most { Err(format!("{field}: has more than {most} entries")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_is_read_and_unknown_fields_are_passed_over() {
        let json = r#"{"generated":"now","services":[
            {"id":"faster-whisper","kind":"asr","title":"Whisper","languages":["en","zh-CN"],"license":"MIT",
             "versions":[{"version":"3","size_bytes":3100000000},{"version":"2"}]},
            {"id":"opus-mt","kind":"nmt"}]}"#;
        let read = Catalogue::parse(json.as_bytes()).unwrap();
        let [whisper, opus] = &read.services[..] else { panic!("{read:?}") };
        assert_eq!(whisper.versions[0].size_bytes, Some(3_100_000_000));
        assert_eq!((opus.languages.len(), opus.versions.len()), (0, 0));
    }

    #[test]
    fn what_is_wrong_is_a_sentence_that_names_the_field() {
        let service = |fields: &str| format!("{{\"services\":[{{{fields}}}]}}");
        let many = (0..1_001).map(|n| format!("{{\"id\":\"a{n}\",\"kind\":\"asr\"}}"));
        let many = format!("{{\"services\":[{}]}}", many.collect::<Vec<_>>().join(","));
        for (json, wanted) in [
            ("", "not a JSON object"),
            ("[]", "an object is expected"),
            ("{}", "`services` is missing"),
            (&service("\"id\":\"a\""), "services[0]: `kind` is missing"),
            (&service("\"id\":\"a b\",\"kind\":\"asr\""), "services[0].id: is 1 to 64 printable"),
            (
                &service("\"id\":\"a\",\"kind\":\"asr\",\"languages\":[\"en\",\"x y\"]"),
                "services[0].languages[1]: ",
            ),
            (
                &service(
                    "\"id\":\"a\",\"kind\":\"asr\",\"versions\":[{\"version\":\"1\",\"size_bytes\":-1}]",
                ),
                "services[0].versions[0].size_bytes: a whole number of 0 or more",
            ),
            (
                r#"{"services":[{"id":"a","kind":"asr"},{"id":"a","kind":"asr"}]}"#,
                "services[1].id: is given twice",
            ),
            (&many, "services: has more than 1000 entries"),
        ] {
            let said = Catalogue::parse(json.as_bytes()).unwrap_err();
            assert!(said.contains(wanted), "{said:?} instead of {wanted:?}");
        }
        assert_eq!(Catalogue::parse(&[0xff]).unwrap_err(), "is not UTF-8");
        let large = vec![b' '; MAX_CATALOGUE_BYTES + 1];
        assert_eq!(Catalogue::parse(&large).unwrap_err(), "is larger than 1 MiB");
    }
}
