//! What a document names exists.
//!
//! In every `*.md`: the targets of links, with their headings, and inline code that looks like a file of
//! ours. In comments of sources, manifests and scripts: inline code that begins with a folder of the root.

use std::collections::BTreeSet;

use crate::{Tree, Violation};

/// The name of the check.
pub const CHECK: &str = "document";

/// Endings by which a name is that of a file of ours.
const ENDINGS: [&str; 15] = [
    ".rs", ".md", ".toml", ".lua", ".py", ".js", ".mjs", ".ts", ".html", ".css", ".yaml", ".yml",
    ".conf", ".service", ".svg",
];

/// The names in documents that lead nowhere.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (document, text) in &tree.documents {
        let mut in_fence = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_fence = !in_fence;
                continue;
            }
            let mut wrong: Vec<String> = Vec::new();
            if in_fence {
                let words = line.split([' ', '"', '\'', '=', '(', ')', ';', '`']);
                let ours = words.map(clean).filter(|word| begins_in_tree(tree, word));
                wrong.extend(ours.filter(|word| !exists(tree, document, word)).map(str::to_owned));
            } else {
                wrong.extend(wrong_code(tree, document, line, |word| looks_like_file(tree, word)));
                wrong.extend(wrong_links(tree, document, line));
            }
            found.extend(wrong.iter().map(|name| violation(document, index + 1, name)));
        }
    }
    let sources = tree.sources().map(|source| (&source.path, &source.text, "//"));
    let others = tree.commented.iter().map(|(path, text)| (path, text, "#"));
    for (path, text, comment) in sources.chain(others) {
        for (index, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix(comment) else { continue };
            let wrong = wrong_code(tree, path, comment, |word| begins_in_tree(tree, word));
            found.extend(wrong.iter().map(|name| violation(path, index + 1, name)));
        }
    }
    found
}

fn violation(path: &str, line: usize, name: &str) -> Violation {
    Violation {
        check: CHECK,
        what: format!("{path} {name}"),
        place: format!("{path}:{line}"),
        size: None,
        message: format!("`{name}` does not exist: name what is there today, or nothing"),
    }
}

/// Inline code of a line that names no file, though it looks like one.
fn wrong_code(
    tree: &Tree,
    document: &str,
    line: &str,
    is_file: impl Fn(&str) -> bool,
) -> Vec<String> {
    let code = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).map(clean);
    let wrong = code.filter(|word| is_file(word) && !exists(tree, document, word));
    wrong.map(str::to_owned).collect()
}

/// Links of a line without their target.
fn wrong_links(tree: &Tree, document: &str, line: &str) -> Vec<String> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let inside = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    let wrong = inside.filter(|target| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { document.to_owned() } else { beside(document, file) };
        let text = tree.documents.get(&file);
        !tree.paths.contains(&file)
            || !heading.is_empty() && text.is_some_and(|text| !headings(text).contains(heading))
    });
    wrong.map(str::to_owned).collect()
}

/// The headings of a document as links name them; of several with the same words, the later have a number.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        if in_fence || !line.starts_with('#') {
            continue;
        }
        let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let words: String =
            words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let free = (0..).map(|number| match number {
            0 => words.clone(),
            number => format!("{words}-{number}"),
        });
        found.extend(free.into_iter().find(|name| !found.contains(name)));
    }
    found
}

/// The name without what is around it in a sentence, and without a line number.
fn clean(word: &str) -> &str {
    let word = word.trim_end_matches([',', '.', ':', ')', '/']).trim_start_matches('(');
    let word = word.strip_prefix("./").unwrap_or(word);
    match word.rsplit_once(':') {
        Some((name, line)) if line.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => word,
    }
}

/// Placeholders, patterns and addresses are not names.
fn is_name(word: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+');
    !word.is_empty() && word.chars().all(letters) && !word.starts_with('/')
}

/// Whether the first part is a folder at the root.
fn begins_in_tree(tree: &Tree, word: &str) -> bool {
    let first = word.split_once('/').map(|(first, _)| first);
    is_name(word) && first.is_some_and(|first| tree.paths.contains(first))
}

fn looks_like_file(tree: &Tree, word: &str) -> bool {
    let has_ending =
        ENDINGS.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending));
    is_name(word) && has_ending || begins_in_tree(tree, word)
}

/// Whether there is such a file or folder: from the root, from the document, or at the end of a path, as
/// in `server/app.rs` for `crates/server/src/app.rs`.
fn exists(tree: &Tree, document: &str, word: &str) -> bool {
    let in_crate = word.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"));
    let end = format!("/{word}");
    tree.paths.contains(word)
        || tree.paths.contains(&beside(document, word))
        || in_crate.is_some_and(|path| tree.paths.contains(&path))
        || !word.starts_with("crates/") && tree.paths.iter().any(|path| path.ends_with(&end))
}

/// The path that a document means with a relative one.
fn beside(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str, source: &str) -> Vec<String> {
        let tree = Tree::made_up(&[
            ("docs/A.md", document),
            ("docs/B.md", "# One two\n```\n# three\n```\n"),
            ("crates/server/src/app.rs", source),
        ]);
        check(&tree)
            .into_iter()
            .map(|violation| format!("{} {}", violation.place, violation.what))
            .collect()
    }

    #[test]
    fn names_that_lead_somewhere_are_fine() {
        let text = "[a](B.md#one-two) [b](../crates/server) [c](http://d.e) `crates/server/src/app.rs:12`\n\
            `server/app.rs` `app.rs` `GET /v1/x.json` `docs/*.md` `free/all`\n```\ncat docs/B.md\n```\n";
        assert_eq!(found(text, "//! See `docs/B.md`.\n"), [""; 0]);
    }

    #[test]
    fn names_that_lead_nowhere_are_found() {
        for name in ["`crates/gone`", "`docs/C.md`", "`server/gone.rs`", "`gone.rs`", "[a](C.md)"] {
            assert_eq!(found(&format!("\n{name}\n"), "").len(), 1, "{name}");
        }
        assert_eq!(found("[a](B.md#three)", ""), ["docs/A.md:1 docs/A.md B.md#three"]);
        assert_eq!(found("```\n./docs/gone\n```\n", ""), ["docs/A.md:2 docs/A.md docs/gone"]);
    }

    #[test]
    fn a_comment_that_names_a_gone_file_is_found() {
        let path = "crates/server/src/app.rs";
        assert_eq!(found("", "\n// `docs/gone.md`"), [format!("{path}:2 {path} docs/gone.md")]);
    }
}
