//! The product is built without the laboratory.
//!
//! Nothing that `lingua-server` reaches through normal dependencies, nor `lingua` without its feature
//! `tools`, is the lab or the tools. Dev-dependencies are free. The manifests are enough: the compiler
//! sees to it that code imports only what they name.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::tree::Crate;
use crate::{Tree, Violation};

/// The name of the check.
pub const CHECK: &str = "lab";

/// What is handed out.
const PRODUCT: [&str; 2] = ["lingua-server", "lingua"];
/// What is not.
const LABORATORY: [&str; 3] = ["lingua-lab", "lingua-sim", "lingua-tools"];
/// The feature of the binary that is off in images.
const FEATURE: &str = "tools";

/// The crates of the product that depend on the laboratory.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let members: BTreeMap<&str, &Crate> =
        tree.crates.iter().map(|member| (member.name.as_str(), member)).collect();
    let mut found = Vec::new();
    let mut open: Vec<&str> = PRODUCT.to_vec();
    let mut seen: BTreeSet<&str> = open.iter().copied().collect();
    while let Some(name) = open.pop() {
        let Some(member) = members.get(name) else { continue };
        for dependency in always(&member.manifest) {
            if LABORATORY.contains(&dependency.as_str()) {
                found.push(violation(member, &dependency));
            } else if let Some((name, _)) = members.get_key_value(dependency.as_str())
                && seen.insert(name)
            {
                open.push(name);
            }
        }
    }
    found
}

fn violation(member: &Crate, dependency: &str) -> Violation {
    Violation {
        check: CHECK,
        what: format!("{} {dependency}", member.name),
        place: format!("{}:1", member.manifest_path()),
        size: None,
        message: format!(
            "`{}` is part of the product and depends on `{dependency}`: move what needs it to \
             `crates/tools`, make it a dev-dependency, or in `crates/lingua` optional under `{FEATURE}`",
            member.name
        ),
    }
}

/// The packages that a crate depends on when `tools` is off and every other feature is on.
fn always(manifest: &Table) -> BTreeSet<String> {
    let features = manifest.get("features").and_then(Value::as_table);
    let switched: BTreeSet<&str> = features
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != FEATURE)
        .filter_map(|(_, gives)| gives.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .map(|given| given.trim_start_matches("dep:").split(['/', '?']).next().unwrap_or_default())
        .collect();
    let mut found = BTreeSet::new();
    for (name, value) in normal(manifest) {
        let is_optional = value.get("optional").and_then(Value::as_bool).unwrap_or(false);
        if !is_optional || switched.contains(name.as_str()) {
            let package = value.get("package").and_then(Value::as_str);
            found.insert(package.unwrap_or(name).to_owned());
        }
    }
    found
}

/// The entries of `[dependencies]`, `[build-dependencies]` and those of a target.
fn normal(manifest: &Table) -> Vec<(&String, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flatten().filter_map(|(_, target)| target.as_table());
    let tables = std::iter::once(manifest).chain(targets);
    tables
        .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
        .flatten()
        .filter_map(Value::as_table)
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(server: &str, binary: &str) -> Vec<String> {
        let server = format!("[package]\nname = \"lingua-server\"\n{server}");
        let binary = format!("[package]\nname = \"lingua\"\n{binary}");
        let engine =
            "[package]\nname = \"lingua-engine\"\n[dependencies]\nlingua-lab.workspace = true\n";
        let found = check(&Tree::made_up(&[
            ("crates/server/Cargo.toml", &server),
            ("crates/lingua/Cargo.toml", &binary),
            ("crates/engine/Cargo.toml", engine),
        ]));
        found.into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn the_lab_is_for_tests_and_behind_the_feature() {
        let tests = "[dev-dependencies]\nlingua-lab.workspace = true\n";
        let gated = "[features]\ndefault = [\"tools\"]\ntools = [\"dep:lingua-tools\"]\n\
            [dependencies]\nlingua-tools = { workspace = true, optional = true }\n";
        assert!(found(tests, gated).is_empty());
    }

    #[test]
    fn a_product_that_reaches_the_lab_is_found() {
        let direct = "[dependencies]\nlingua-lab.workspace = true\n";
        assert_eq!(found(direct, ""), ["lingua-server lingua-lab"]);
        let through = "[dependencies]\nlingua-engine.workspace = true\n";
        assert_eq!(found(through, ""), ["lingua-engine lingua-lab"]);
        assert_eq!(found("", &through.replace("engine", "tools")), ["lingua lingua-tools"]);
        let other_feature = "[features]\nextra = [\"lingua-tools\"]\n\
            [dependencies]\nlingua-tools = { workspace = true, optional = true }\n";
        assert_eq!(found("", other_feature), ["lingua lingua-tools"]);
    }
}
