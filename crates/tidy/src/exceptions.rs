//! What breaks a rule for now, each with a reason.
//!
//! The list can only become shorter: an exception that is not needed any more is a violation itself, and
//! one for something too long has a ceiling.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Violation;

/// The place of the list in the workspace.
pub const FILE: &str = "crates/tidy/exceptions.toml";

/// One entry of the list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// What is excepted, as the violation names it.
    pub what: String,
    /// The largest size it may have.
    pub at_most: Option<usize>,
    /// Why it is allowed.
    pub reason: String,
}

/// The list, by the name of the check.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Exceptions(pub BTreeMap<String, Vec<Exception>>);

impl Exceptions {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The exceptions of this check.
    pub fn of(&self, check: &str) -> &[Exception] {
        self.0.get(check).map_or(&[], Vec::as_slice)
    }

    /// What is left of these violations, and the exceptions of this check that are wrong.
    pub fn apply(&self, check: &'static str, found: Vec<Violation>) -> Vec<Violation> {
        let mut left = Vec::new();
        let mut needed = vec![false; self.of(check).len()];
        for violation in found {
            let known = self.of(check).iter().position(|known| known.what == violation.what);
            let Some(index) = known else {
                left.push(violation);
                continue;
            };
            needed[index] = true;
            match (violation.size, self.of(check)[index].at_most) {
                (Some(size), Some(at_most)) if size > at_most => {
                    let message = format!(
                        "has {size} lines, and its exception allows {at_most}: make it shorter, do not \
                         raise the ceiling"
                    );
                    left.push(Violation { message, ..violation });
                }
                (Some(_), None) => {
                    let message =
                        "its exception has no `at_most`: add the size of today".to_owned();
                    left.push(Violation { message, ..violation });
                }
                _ => {}
            }
        }
        let stale = self.of(check).iter().zip(needed).filter(|(_, needed)| !needed);
        left.extend(stale.map(|(known, _)| stale_exception(check, &known.what)));
        let unexplained = self.of(check).iter().filter(|known| known.reason.trim().is_empty());
        left.extend(unexplained.map(|known| wrong(check, &known.what, "has no reason: add one")));
        left
    }
}

/// The violation of an exception that nothing needs.
pub fn stale_exception(check: &'static str, what: &str) -> Violation {
    wrong(check, what, "is an exception that nothing needs any more: remove it")
}

fn wrong(check: &'static str, what: &str, message: &str) -> Violation {
    let message = format!("`{what}` {message}");
    Violation { check, what: what.to_owned(), place: format!("{FILE}:1"), size: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[length]]\nwhat = \"a\"\nat_most = 500\nreason = \"old\"\n";

    fn long(what: &str, size: usize) -> Violation {
        let (what, place, message) = (what.to_owned(), "a:1".to_owned(), "too long".to_owned());
        Violation { check: "length", what, place, size: Some(size), message }
    }

    fn left(list: &str, found: Vec<Violation>) -> Vec<String> {
        let left = Exceptions::parse(list).unwrap().apply("length", found);
        left.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn an_exception_covers_what_it_names_and_nothing_else() {
        assert_eq!(left(LIST, vec![long("a", 500), long("b", 401)]), ["too long"]);
    }

    #[test]
    fn what_is_excepted_cannot_grow() {
        assert!(left(LIST, vec![long("a", 501)])[0].contains("allows 500"));
    }

    #[test]
    fn an_exception_without_need_ceiling_or_reason_is_wrong() {
        assert!(left(LIST, Vec::new())[0].contains("remove it"));
        let bare = "[[length]]\nwhat = \"a\"\nreason = \" \"\n";
        let left = left(bare, vec![long("a", 1)]);
        assert!(left[0].contains("at_most") && left[1].contains("no reason"), "{left:?}");
    }

    #[test]
    fn a_misspelled_field_is_refused() {
        Exceptions::parse("[[length]]\nwhat = \"a\"\nreson = \"b\"\n").unwrap_err();
    }
}
