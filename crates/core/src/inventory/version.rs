//! Versions as nodes write them, in an order that needs no common scheme.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ItemError;

/// Characters of a version.
const MAX_VERSION_CHARS: usize = 32;

/// A version of a model, a service or a feature, such as `3`, `1.12.0`, `v3` or `2.0-rc1`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(Box<str>);

/// A part of a version. A word stands before any number: `2.0-rc1` comes before `2.0`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Word(&'a str),
    Number(u64),
}

impl Version {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, ItemError> {
        let fits = text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c));
        if text.is_empty() || text.len() > MAX_VERSION_CHARS || !fits {
            return Err(ItemError::Version(text.chars().take(MAX_VERSION_CHARS).collect()));
        }
        Ok(Version(text.into()))
    }

    /// The version as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `least` or a later one. `3` and `3.0` are the same, and so are `v3` and `3`.
    pub fn is_at_least(&self, least: &Version) -> bool {
        self.order(least).is_ge()
    }

    fn order(&self, other: &Version) -> Ordering {
        let (mut mine, mut theirs) = (self.parts(), other.parts());
        loop {
            let (a, b) = (mine.next(), theirs.next());
            if a.is_none() && b.is_none() {
                return Ordering::Equal;
            }
            // What is not written is 0.
            match a.unwrap_or(Part::Number(0)).cmp(&b.unwrap_or(Part::Number(0))) {
                Ordering::Equal => {}
                different => return different,
            }
        }
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let text = self.0.strip_prefix(['v', 'V']).filter(|rest| starts_with_digit(rest));
        text.unwrap_or(&self.0).split(['.', '-', '_', '+']).filter(|part| !part.is_empty()).map(
            // A number beyond all that are used is compared as a word.
            |part| part.parse().map_or(Part::Word(part), Part::Number),
        )
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By meaning, and by spelling where that is the same.
impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other).then_with(|| self.0.cmp(&other.0))
    }
}

impl TryFrom<String> for Version {
    type Error = ItemError;
    fn try_from(text: String) -> Result<Self, ItemError> {
        Version::new(&text)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> String {
        version.0.into()
    }
}

impl FromStr for Version {
    type Err = ItemError;
    fn from_str(text: &str) -> Result<Self, ItemError> {
        Version::new(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::new(text).unwrap()
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let rising = ["0.9", "1", "1.0.1", "1.2", "1.10", "2.0-rc1", "2.0-rc2", "2", "v3", "10"];
        for (i, low) in rising.iter().enumerate() {
            for high in &rising[i + 1..] {
                assert!(version(high).is_at_least(&version(low)), "{high} >= {low}");
                assert!(!version(low).is_at_least(&version(high)), "{low} < {high}");
            }
        }
        for (a, b) in [("3", "3.0"), ("v3", "3"), ("3.0.0", "v3")] {
            assert!(version(a).is_at_least(&version(b)) && version(b).is_at_least(&version(a)));
            assert_ne!(version(a).cmp(&version(b)), Ordering::Equal, "an order of its own");
        }
        assert!(version("large-v3").is_at_least(&version("large-v2")), "words by their letters");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for bad in ["", "1 2", "1@2", "1,2", "ä", &"1".repeat(33)] {
            assert!(Version::new(bad).is_err(), "{bad:?}");
        }
    }
}
