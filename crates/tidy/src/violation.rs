//! What a check answers.

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
