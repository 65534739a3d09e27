//! Rules about the sources that the compiler does not check.
//!
//! A check is a function from a [`Tree`] of files to a list of [`Violation`]s. `tests/it` runs every check
//! over the workspace; the unit tests run it over small made-up trees and show that it can fail. What
//! breaks a rule for now stands in `exceptions.toml` with a reason ([`exceptions`]).
//!
//! The checks read tokens and not a syntax tree: the inside of a macro is then read like any other code.

pub mod tree;
pub mod code;
pub mod exceptions;
pub mod length;
pub mod cycles;
pub mod backends;
pub mod lab;
pub mod assertions;
pub mod documents;
pub mod dependencies;

pub use exceptions::Exceptions;
pub use tree::Tree;

use std::fmt;

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the check, which is its section in `exceptions.toml`.
    pub check: &'static str,
    /// What breaks the rule, as an exception names it; it has no line number, so that it stays the same.
    pub what: String,
    /// `file:line`.
    pub place: String,
    /// How large it is, for rules with a limit.
    pub size: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}: {}]", self.place, self.message, self.check, self.what)
    }
}
