//! Files and functions are short enough to be read at once.
//!
//! A line of code is one that is neither blank nor only a comment. Unit tests in a file count; a nested
//! function counts for the one around it too. A function of a test has the limit of every other.

use crate::{Tree, Violation, code};

/// The name of the check of files.
pub const FILES: &str = "file-length";
/// The name of the check of functions.
pub const FUNCTIONS: &str = "function-length";

/// The most lines of code of a file.
pub const FILE_LINES: usize = 400;
/// The most lines of code of a function.
pub const FUNCTION_LINES: usize = 70;

/// The files that are too long.
pub fn files(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        let size = code::lines(&source.text, &source.tokens).len();
        if size > FILE_LINES {
            found.push(Violation {
                check: FILES,
                what: source.path.clone(),
                place: format!("{}:1", source.path),
                size: Some(size),
                message: format!(
                    "the file has {size} lines of code, the limit is {FILE_LINES}: split it where its \
                     subject changes, or move its tests to a file of their own"
                ),
            });
        }
    }
    found
}

/// The functions that are too long.
pub fn functions(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        let lines = code::lines(&source.text, &source.tokens);
        for function in code::functions(&source.tokens) {
            let size = lines.range(function.line..=function.end).count();
            if size > FUNCTION_LINES {
                found.push(Violation {
                    check: FUNCTIONS,
                    what: format!("{} {}", source.path, function.name),
                    place: format!("{}:{}", source.path, function.line),
                    size: Some(size),
                    message: format!(
                        "`{}` has {size} lines of code, the limit is {FUNCTION_LINES}: give its steps \
                         names",
                        function.name
                    ),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn sizes(found: &[Violation]) -> Vec<(String, Option<usize>)> {
        found.iter().map(|violation| (violation.what.clone(), violation.size)).collect()
    }

    #[test]
    fn a_file_over_the_limit_is_named() {
        let fits = format!("//! Doc.\n\n{}", "const A: u8 = 1; // one\n".repeat(FILE_LINES));
        assert!(files(&Tree::made_up(&[(PATH, &fits)])).is_empty());
        let long = format!("{fits}const B: u8 = 1;\n");
        let found = files(&Tree::made_up(&[(PATH, &long)]));
        assert_eq!(sizes(&found), [(PATH.to_owned(), Some(401))]);
    }

    #[test]
    fn a_function_over_the_limit_is_named_wherever_it_is() {
        let text = |inner: usize| {
            let body = "    step();\n\n    // A comment.\n".repeat(inner);
            format!("macro! {{\n/// Doc.\nfn long() {{\n{body}}}\n}}\n")
        };
        assert!(functions(&Tree::made_up(&[(PATH, &text(68))])).is_empty());
        let found = functions(&Tree::made_up(&[(PATH, &text(69))]));
        assert_eq!(sizes(&found), [(format!("{PATH} long"), Some(71))]);
        assert_eq!(found[0].place, format!("{PATH}:3"));
    }
}
