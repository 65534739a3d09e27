//! Which crates of the workspace a crate may depend on.
//!
//! Dev-dependencies are free. Crates that are not in the list may depend on any.

use toml::Value;

use crate::{Tree, Violation};

/// The name of the check.
pub const CHECK: &str = "layer";

/// A crate, and the crates of the workspace that it may depend on.
const LAYERS: [(&str, &[&str]); 5] = [
    ("lingua-core", &[]),
    ("lingua-protocol", &["lingua-core"]),
    ("lingua-store", &["lingua-core"]),
    ("lingua-engine", &["lingua-core", "lingua-protocol", "lingua-store"]),
    (
        "lingua-server",
        &["lingua-core", "lingua-engine", "lingua-http-client", "lingua-protocol", "lingua-store"],
    ),
];

/// The dependencies that go up.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, allowed) in LAYERS {
        let Some(member) = tree.crates.iter().find(|member| member.name == name) else { continue };
        let named = member.manifest.get("dependencies").and_then(Value::as_table);
        for dependency in named.into_iter().flat_map(|table| table.keys()) {
            if dependency.starts_with("lingua-") && !allowed.contains(&dependency.as_str()) {
                found.push(Violation {
                    check: CHECK,
                    what: format!("{name} {dependency}"),
                    place: format!("{}:1", member.manifest_path()),
                    size: None,
                    message: format!(
                        "`{name}` may not depend on `{dependency}`, only on {allowed:?}"
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

    fn found(dependency: &str) -> Vec<String> {
        let manifest = format!(
            "[package]\nname = \"lingua-protocol\"\n[dependencies]\nserde = \"1\"\n\
             {dependency}.workspace = true\n[dev-dependencies]\nlingua-lab.workspace = true\n"
        );
        let tree = Tree::made_up(&[("crates/protocol/Cargo.toml", &manifest)]);
        check(&tree).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_dependency_that_goes_up_is_found() {
        assert_eq!(found("lingua-engine"), ["lingua-protocol lingua-engine"]);
        assert!(found("lingua-core").is_empty());
    }
}
