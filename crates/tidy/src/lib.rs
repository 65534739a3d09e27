//! Rules about the sources that the compiler does not check.
//!
//! A check is a function from a [`Tree`] of files to a list of [`Violation`]s. `tests/it` runs every check
//! over the workspace; the unit tests run it over small made-up trees and show that it can fail. What
//! breaks a rule for now stands in `exceptions.toml` with a reason ([`exceptions`]).
//!
//! The checks read tokens and not a syntax tree: the inside of a macro is then read like any other code.

pub mod violation;
pub mod tree;
pub mod code;
pub mod exceptions;
pub mod length;
pub mod cycles;
pub mod backends;
pub mod lab;
pub mod layers;
pub mod assertions;
pub mod documents;
pub mod dependencies;
pub mod ranking;
pub mod wording;

pub use exceptions::Exceptions;
pub use tree::Tree;
pub use violation::Violation;
