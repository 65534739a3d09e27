//! Every dependency is used.
//!
//! A crate of `[dependencies]` is named by a path in `src` outside of tests; one that only tests name
//! belongs to `[dev-dependencies]`. A crate of `[workspace.dependencies]` is named by some manifest.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::tree::{Crate, Part};
use crate::{Tree, Violation, code};

/// The name of the check.
pub const CHECK: &str = "dependency";

/// Packages whose library has another name.
const IMPORTED_AS: [(&str, &str); 1] = [("rustls-webpki", "webpki")];

/// The dependencies that nothing uses.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for member in &tree.crates {
        let product = imports(member, false);
        let all = imports(member, true);
        let kinds =
            [("dependencies", &product), ("build-dependencies", &all), ("dev-dependencies", &all)];
        for (kind, imports) in kinds {
            for name in names(member.manifest.get(kind)) {
                if !imports.contains(&imported_as(name)) {
                    let only_tests = all.contains(&imported_as(name));
                    found.push(unused(member, kind, name, only_tests));
                }
                named.insert(name.clone());
            }
        }
    }
    let shared = tree.manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let members: BTreeMap<&str, &Crate> =
        tree.crates.iter().map(|member| (member.name.as_str(), member)).collect();
    let unnamed = names(shared)
        .into_iter()
        .filter(|name| !named.contains(*name) && !members.contains_key(name.as_str()));
    found.extend(unnamed.map(|name| Violation {
        check: CHECK,
        what: format!("workspace {name}"),
        place: "Cargo.toml:1".to_owned(),
        size: None,
        message: format!("no crate names `{name}` of `[workspace.dependencies]`: remove it"),
    }));
    found
}

fn unused(member: &Crate, kind: &str, name: &str, only_tests: bool) -> Violation {
    let advice = if only_tests {
        "only tests use it: move it to `[dev-dependencies]`"
    } else {
        "no code names it: remove it, or except it with the reason why it has to be there"
    };
    Violation {
        check: CHECK,
        what: format!("{} {name}", member.name),
        place: format!("{}:1", member.manifest_path()),
        size: None,
        message: format!("`{name}` is in `[{kind}]` of `{}`, and {advice}", member.name),
    }
}

fn names(table: Option<&Value>) -> Vec<&String> {
    table.and_then(Value::as_table).map(Table::keys).into_iter().flatten().collect()
}

fn imported_as(package: &str) -> String {
    let other = IMPORTED_AS.iter().find(|(name, _)| *name == package);
    other.map_or(package, |(_, library)| library).replace('-', "_")
}

/// The first names of all paths.
fn imports(member: &Crate, with_tests: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in member.sources.iter().filter(|source| with_tests || source.part == Part::Source) {
        let tokens =
            if with_tests { source.tokens.clone() } else { code::without_tests(&source.tokens) };
        found.extend(
            code::paths(&tokens).into_iter().filter_map(|path| path.names.into_iter().next()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, source: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"lingua-a\"\n{manifest}");
        let tree = Tree::made_up(&[
            ("Cargo.toml", "[workspace.dependencies]\nserde-json = \"1\"\nlingua-a.path = \"a\"\n"),
            ("crates/a/Cargo.toml", &manifest),
            ("crates/a/src/lib.rs", source),
            ("crates/a/tests/it/main.rs", "use proptest::prelude::*;"),
        ]);
        check(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn dependencies_that_are_used_are_fine() {
        let manifest = "[dependencies]\nserde-json.workspace = true\nrustls-webpki = \"1\"\n\
            [dev-dependencies]\nproptest = \"1\"\n";
        assert!(found(manifest, "use webpki; fn f() { serde_json::to_string() }").is_empty());
    }

    #[test]
    fn an_unused_dependency_is_found() {
        let manifest =
            "[dependencies]\nserde-json.workspace = true\n[dev-dependencies]\nrand = \"1\"\n";
        let found = found(manifest, "fn f() { let serde_json = 1; }");
        assert!(found[0].contains("serde-json") && found[1].contains("rand"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_dependency_of_tests_alone_and_one_of_nobody_are_found() {
        let found = found("[dependencies]\nproptest = \"1\"\n", "");
        assert!(found[0].contains("only tests"), "{found:?}");
        assert!(found[1].contains("no crate names `serde-json`"), "{found:?}");
    }
}
