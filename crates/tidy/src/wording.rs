//! Words that say something.
//!
//! A doc comment of one word ("Why.", "Figures.") satisfies the lint for missing documentation and tells nobody anything.
//! Types that were renamed to the usual term of the field do not come back under their old name.

use proc_macro2::{TokenStream, TokenTree};

use crate::tree::Part;
use crate::{Tree, Violation};

/// The name of the check of comments.
pub const COMMENTS: &str = "empty-comment";
/// The name of the check of names.
pub const NAMES: &str = "retired-name";

/// A name that is no longer used for a type, and what to call it.
const RETIRED: [(&str, &str); 35] = [
    ("AboutItself", "NodeStatus"),
    ("Blame", "Fault"),
    ("Bounced", "Undeliverable"),
    ("Bye", "CloseReason"),
    ("Courier", "PeerSender"),
    ("Ears", "JobEvents"),
    ("Elsewhere", "RemoteNode"),
    ("Errand", "PendingDelivery"),
    ("FarEars", "JobEvents"),
    ("Gate", "Authenticator"),
    ("Goes", "ControlFlow"),
    ("Guild", "CapabilityClass"),
    ("Heir", "Successor"),
    ("Held", "LeaseState, or a guard by the name of what it guards"),
    ("Inherit", "TakeOver"),
    ("JobWord", "JobMessage"),
    ("Letter", "an envelope"),
    ("Letterbox", "a bounded channel"),
    ("Lines", "WaitQueue"),
    ("Mailbox", "SessionHandle"),
    ("Manner", "JobOptions"),
    ("OnceWindow", "RateLimits"),
    ("Pass", "SocketAuth"),
    ("Reign", "the generation of a store"),
    ("Said", "JobCall or ClientMessage"),
    ("Seat", "a permit"),
    ("Seats", "CapabilityClass"),
    ("Shown", "ShowValue"),
    ("Stray", "OrphanedOutcome"),
    ("There", "RemoteLink"),
    ("Told", "ErrorText"),
    ("Try", "Attempt"),
    ("Visitor", "Peer"),
    ("Word", "a message"),
    ("WordKind", "MessageKind"),
];

/// Doc comments of one word.
pub fn comments(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        let lines: Vec<Option<&str>> = source.text.lines().map(doc_text).collect();
        let starts = (0..lines.len())
            .filter(|&at| lines[at].is_some() && (at == 0 || lines[at - 1].is_none()));
        for start in starts {
            let text: Vec<&str> = lines[start..].iter().map_while(|line| *line).collect();
            let text = text.join(" ");
            let words = text.split_whitespace().count();
            if words <= 1 && !text.contains('`') {
                found.push(Violation {
                    check: COMMENTS,
                    what: format!("{} {text}", source.path),
                    place: format!("{}:{}", source.path, start + 1),
                    size: None,
                    message: format!("the comment \"{text}\" says nothing: say what it is"),
                });
            }
        }
    }
    found
}

/// The text of a line of an outer doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("///")?;
    (!text.starts_with('/')).then(|| text.trim())
}

/// Types of the product with a name that was given up.
pub fn names(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let product = tree.sources().filter(|source| source.part == Part::Source);
    let is_tool =
        |path: &str| ["crates/lab/", "crates/sim/"].iter().any(|tool| path.starts_with(tool));
    for source in product.filter(|source| !is_tool(&source.path)) {
        for (name, line) in types(&source.tokens) {
            if let Some((_, usual)) = RETIRED.iter().find(|(retired, _)| *retired == name) {
                found.push(Violation {
                    check: NAMES,
                    what: format!("{} {name}", source.path),
                    place: format!("{}:{line}", source.path),
                    size: None,
                    message: format!("`{name}` was given up: the usual term is {usual}"),
                });
            }
        }
    }
    found
}

/// The names behind `struct`, `enum`, `trait` and `type`, with their lines.
fn types(tokens: &TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut is_type = false;
    for token in tokens.clone() {
        match &token {
            TokenTree::Group(group) => found.extend(types(&group.stream())),
            TokenTree::Ident(name) if is_type => {
                found.push((name.to_string(), name.span().start().line));
            }
            _ => {}
        }
        is_type = matches!(&token, TokenTree::Ident(word)
            if ["struct", "enum", "trait", "type"].contains(&word.to_string().as_str()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn places(found: Vec<Violation>) -> Vec<String> {
        found.into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_comment_of_one_word_is_found_and_its_last_line_alone_is_none() {
        let text = "/// Why.\nstruct A;\n/// What is written over two\n/// lines.\nstruct B;\n///\nstruct C;\n/// `GET`\nstruct D;\n//// no\n";
        let tree = Tree::made_up(&[(PATH, text)]);
        assert_eq!(places(comments(&tree)), [format!("{PATH}:1"), format!("{PATH}:6")]);
    }

    #[test]
    fn a_type_of_a_retired_name_is_found_and_a_variable_or_a_test_is_not() {
        let text = "mod m {\n  pub enum Ears { There }\n}\nfn ears() { let gate = Pass(1); }\ntype Goes = u8;\n#[cfg(test)] mod tests;";
        let test = "struct Gate;";
        let tree = Tree::made_up(&[(PATH, text), ("crates/a/tests/it/main.rs", test)]);
        assert_eq!(places(names(&tree)), [format!("{PATH}:2"), format!("{PATH}:5")]);
    }
}
