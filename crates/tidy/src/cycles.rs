//! The arrows between the folders of a crate go one way.
//!
//! A crate's top-level modules are the nodes; a path such as `crate::fleet::Entry` in `nodes` is an arrow
//! from `nodes` to `fleet`. What the root re-exports leads to the module that defines it. Code for tests
//! has no arrows: a test may start everything.

use std::collections::{BTreeMap, BTreeSet};

use crate::exceptions::{Exception, stale_exception};
use crate::tree::{Crate, Part, Source};
use crate::{Tree, Violation, code};

/// The name of the check.
pub const CHECK: &str = "cycle";

/// The name of the node for what `lib.rs` defines itself.
const ROOT: &str = "lib.rs";

/// From one module to another, with the first place that does it.
type Arrows = BTreeMap<(String, String), String>;

/// The cycles that are left without the arrows in the list of exceptions (`engine: nodes -> dispatch`).
///
/// An exception is needed as long as its arrow alone would close a cycle with those that are not excepted.
pub fn check(tree: &Tree, exceptions: &[Exception]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for member in &tree.crates {
        let mut arrows = arrows(member);
        let excepted: Vec<(String, String)> = arrows
            .keys()
            .filter(|arrow| exceptions.iter().any(|known| known.what == named(member, arrow)))
            .cloned()
            .collect();
        for arrow in &excepted {
            arrows.remove(arrow);
        }
        for (from, to) in excepted {
            if reachable(&arrows, &to).contains(&from) {
                needed.insert(named(member, &(from, to)));
            }
        }
        found.extend(circles(member, &arrows));
    }
    let stale = exceptions.iter().filter(|known| !needed.contains(&known.what));
    found.extend(stale.map(|known| stale_exception(CHECK, &known.what)));
    found
}

/// One violation for each arrow of each circle.
fn circles(member: &Crate, arrows: &Arrows) -> Vec<Violation> {
    let mut found = Vec::new();
    for (arrow, place) in arrows {
        let (from, to) = arrow;
        if reachable(arrows, to).contains(from) {
            found.push(Violation {
                check: CHECK,
                what: named(member, arrow),
                place: place.clone(),
                size: None,
                message: format!(
                    "`{from}` uses `{to}`, which leads back to `{from}`: move what both need below both, \
                     or let one own a trait that the other implements"
                ),
            });
        }
    }
    found
}

fn named(member: &Crate, (from, to): &(String, String)) -> String {
    let folder = member.folder.rsplit('/').next().unwrap_or_default();
    format!("{folder}: {from} -> {to}")
}

/// All modules that this one leads to, itself only through a circle.
fn reachable(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(module) = open.pop() {
        let next = arrows.keys().filter(|(from, _)| *from == module).map(|(_, to)| to);
        let new: Vec<String> = next.filter(|to| !found.contains(*to)).cloned().collect();
        found.extend(new.iter().cloned());
        open.extend(new);
    }
    found
}

/// What the root of a crate gives its modules.
struct Root {
    modules: BTreeSet<String>,
    /// Where the names come from that the root re-exports, and the macros that a module exports.
    exported: BTreeMap<String, String>,
}

fn arrows(member: &Crate) -> Arrows {
    let in_library = |source: &&Source| {
        source.part == Part::Source
            && source.path.starts_with(&format!("{}/src/", member.folder))
            && !source.path.starts_with(&format!("{}/src/bin/", member.folder))
    };
    let has_library = member.sources.iter().any(|source| source.path.ends_with("/src/lib.rs"));
    let sources: Vec<&Source> = member
        .sources
        .iter()
        .filter(in_library)
        .filter(|source| !(has_library && source.path.ends_with("/src/main.rs")))
        .collect();
    let root = root(&sources);
    let mut arrows = Arrows::new();
    for source in sources {
        for path in code::paths(&code::without_tests(&source.tokens)) {
            let here: Vec<&String> = source.module.iter().chain(&path.inside).collect();
            let Some(from) = here.first() else { continue };
            let Some(to) = target(&root, &here, &path.names).filter(|to| to != *from) else {
                continue;
            };
            let place = format!("{}:{}", source.path, path.line);
            arrows.entry(((*from).clone(), to)).or_insert(place);
        }
    }
    // The root is above all of its modules: one that uses what the root defines closes a circle.
    let upward: Vec<(String, String)> =
        arrows.keys().filter(|(_, to)| to == ROOT).cloned().collect();
    for (from, to) in upward {
        let place = format!("{}/src/{ROOT}:1", member.folder);
        arrows.insert((to, from), place);
    }
    arrows
}

fn root(sources: &[&Source]) -> Root {
    let modules: BTreeSet<String> =
        sources.iter().filter_map(|source| source.module.first().cloned()).collect();
    let mut exported = BTreeMap::new();
    for source in sources {
        if let Some(module) = source.module.first() {
            let text = source.text.split("macro_rules!").skip(1);
            let names = text.filter_map(|rest| rest.trim_start().split([' ', '{', '(']).next());
            exported.extend(names.map(|name| (name.to_owned(), module.clone())));
            continue;
        }
        for path in code::paths(&code::without_tests(&source.tokens)) {
            let names = path.names.iter().filter(|name| *name != "crate" && *name != "self");
            let names: Vec<&String> = names.collect();
            if let [module, .., name] = names[..] {
                exported.entry(name.clone()).or_insert_with(|| module.clone());
            }
        }
    }
    Root { modules, exported }
}

/// The top-level module that this path leads to, if it leaves the module it is in.
fn target(root: &Root, here: &[&String], names: &[String]) -> Option<String> {
    let name = match names.first()?.as_str() {
        "crate" => names.get(1)?,
        "super" => {
            let up = names.iter().take_while(|name| *name == "super").count();
            if up < here.len() {
                return None;
            }
            names.get(up)?
        }
        _ => return None,
    };
    if root.modules.contains(name) {
        return Some(name.clone());
    }
    match root.exported.get(name) {
        // A name of another crate that the root passes on.
        Some(module) if !root.modules.contains(module) => None,
        Some(module) => Some(module.clone()),
        None => Some(ROOT.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], excepted: &[&str]) -> Vec<String> {
        let excepted: Vec<Exception> = excepted
            .iter()
            .map(|what| Exception { what: (*what).to_owned(), at_most: None, reason: "old".into() })
            .collect();
        let found = check(&Tree::made_up(files), &excepted);
        found
            .into_iter()
            .map(|violation| format!("{} {}", violation.place, violation.what))
            .collect()
    }

    const LIB: (&str, &str) =
        ("crates/a/src/lib.rs", "mod b; mod c; mod d; pub use c::{Deep, inner::Name};");

    #[test]
    fn arrows_that_go_one_way_are_allowed() {
        let below =
            ("crates/a/src/c.rs", "struct Name; #[cfg(test)] mod tests { use crate::b::B; }");
        let above = ("crates/a/src/b/inner.rs", "use super::B; use crate::{Name, c::Deep};");
        assert!(found(&[LIB, below, above], &[]).is_empty());
    }

    #[test]
    fn a_circle_is_found_through_braces_super_macros_and_reexports() {
        let c = ("crates/a/src/c.rs", "\nuse crate::{b::B};");
        for back in ["use super::super::c::X;", "vec![$crate::c::X];", "use crate::Name;"] {
            let b = ("crates/a/src/b/inner.rs", back);
            let circle = ["crates/a/src/b/inner.rs:1 a: b -> c", "crates/a/src/c.rs:2 a: c -> b"];
            assert_eq!(found(&[LIB, b, c], &[]), circle, "{back}");
        }
    }

    #[test]
    fn a_long_circle_and_one_with_the_root_are_found() {
        let b = ("crates/a/src/b.rs", "use crate::c;");
        let c = ("crates/a/src/c.rs", "use crate::d;");
        let d = ("crates/a/src/d.rs", "use crate::b;");
        assert_eq!(found(&[LIB, b, c, d], &[]).len(), 3);
        let lib = ("crates/a/src/lib.rs", "mod b; pub struct Own;");
        assert_eq!(found(&[lib, ("crates/a/src/b.rs", "use crate::Own;")], &[]).len(), 2);
    }

    #[test]
    fn an_excepted_arrow_breaks_the_circle_and_is_stale_without_one() {
        let b = ("crates/a/src/b.rs", "use crate::c;");
        let c = ("crates/a/src/c.rs", "use crate::b;");
        assert!(found(&[LIB, b, c], &["a: c -> b"]).is_empty());
        let leaf = ("crates/a/src/c.rs", "");
        let stale = found(&[LIB, b, leaf], &["a: b -> c", "a: c -> b"]);
        assert_eq!(stale.len(), 2, "{stale:?}");
    }
}
