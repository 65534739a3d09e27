//! What the documentation says of the code is true.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

fn rows() -> Vec<(Vec<u32>, Vec<String>)> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [flaws, _, tests] = cells[..] else { return None };
        let flaws = flaws.split(", ").map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((flaws, tests.split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    });
    rows.collect()
}

#[test]
fn every_test_that_the_table_of_guarantees_names_exists() {
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    for (flaws, tests) in rows() {
        assert!(!tests.is_empty(), "{flaws:?} has no test");
        for test in tests {
            assert!(
                code.contains(&format!("fn {test}(")) || code.contains(&format!("fn {test}<")),
                "{test}"
            );
        }
    }
}

#[test]
fn the_table_of_guarantees_covers_capacity_stores_owners_and_sessions() {
    let covered: BTreeSet<u32> = rows().into_iter().flat_map(|(flaws, _)| flaws).collect();
    let owed = (1..=19).chain(62..=71).chain([72, 76, 77]).chain(80..=85).chain([88, 89, 91]);
    let missing: Vec<u32> = owed.filter(|flaw| !covered.contains(flaw)).collect();
    assert!(missing.is_empty(), "no test is named for {missing:?}");
}

#[test]
fn every_link_of_the_documentation_has_its_target() {
    let mut wrong = Vec::new();
    for page in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/REDIS.md", "docs/OPERATIONS.md"]
    {
        let path = root().join(page);
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !target.starts_with("http") && !path.parent().unwrap().join(target).exists() {
                wrong.push(format!("{page} -> {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_code_that_a_caller_can_see_has_a_paragraph() {
    let text = fs::read_to_string(root().join("docs/ERRORS.md")).unwrap();
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("### ")).collect();
    for code in lingua_core::outcome::Code::ALL {
        let said = format!("{} ({}", code.as_str(), code.http_status());
        assert!(headings.iter().any(|line| line.contains(&said)), "no paragraph for {said})");
    }
}
