//! Nobody but the store names a backend, and Redis is optional.
//!
//! A backend is a module of the store crate whose name a folder has too (`memory`, `redis`). Everybody else
//! uses the traits, and opens a store by its URL. Tests may name one, and so may the tools and the simulation, whose
//! subject a store can be. The crate `redis` is an optional dependency of the store, and only what puts a program together
//! switches the feature on.

use std::collections::BTreeSet;

use crate::tree::{Crate, Part};
use crate::{Tree, Violation, code};

/// The name of the check.
pub const CHECK: &str = "backend";

/// The crate that has the backends.
const STORE: &str = "lingua-store";
/// The crates that may name them anywhere.
const FREE: [&str; 3] = [STORE, "lingua-sim", "lingua-tools"];
/// The backend that is optional: a feature of the store and of these crates.
const OPTIONAL: &str = "redis";
/// The crates that put a program together.
const PROGRAMS: [&str; 3] = ["lingua-server", "lingua-tools", "lingua"];

/// The places that name a backend and may not.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let store = tree.crates.iter().find(|member| member.name == STORE);
    let backends = store.map(backends).unwrap_or_default();
    let mut found = Vec::new();
    for member in tree.crates.iter().filter(|member| !FREE.contains(&member.name.as_str())) {
        for source in &member.sources {
            if source.part != Part::Source {
                continue;
            }
            let paths = code::paths(&code::without_tests(&source.tokens));
            let names = paths.iter().filter(|path| {
                matches!(&path.names[..], [krate, backend, ..]
                    if *krate == STORE.replace('-', "_") && backends.contains(backend))
            });
            found.extend(names.map(|path| Violation {
                check: CHECK,
                what: source.path.clone(),
                place: format!("{}:{}", source.path, path.line),
                size: None,
                message: format!(
                    "`{}` names a backend, which only the store may: take `Backend`, or a type of the \
                     store's contract",
                    path.names.join("::")
                ),
            }));
        }
    }
    found
}

/// The manifests that make the optional backend part of every build.
pub fn optional(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |member: &Crate, message: &str| {
        found.push(Violation {
            check: CHECK,
            what: member.manifest_path(),
            place: format!("{}:1", member.manifest_path()),
            size: None,
            message: message.to_owned(),
        });
    };
    let workspace = tree.manifest.get("workspace").and_then(|it| it.get("dependencies"));
    let switched_off = workspace
        .and_then(|all| all.get(STORE)?.get("default-features")?.as_bool())
        .is_some_and(|on| !on);
    for member in &tree.crates {
        let dependencies = member.manifest.get("dependencies");
        if member.name == STORE {
            let optional =
                dependencies.and_then(|all| all.get(OPTIONAL)?.get("optional")?.as_bool());
            if optional != Some(true) {
                say(member, "its dependency `redis` is not optional");
            }
            if !switched_off {
                say(member, "the workspace depends on it with its default features");
            }
        } else if let Some(store) = dependencies.and_then(|all| all.get(STORE))
            && !PROGRAMS.contains(&member.name.as_str())
            && (store.get("features").is_some() || store.get("default-features").is_some())
        {
            say(member, "it chooses features of the store, which only a program does");
        }
    }
    found
}

/// The top-level modules of the store that have a folder.
fn backends(store: &Crate) -> BTreeSet<String> {
    let sources = store.sources.iter().filter(|source| source.part == Part::Source);
    sources
        .filter(|source| source.module.len() > 1)
        .map(|source| source.module[0].clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE_FILES: [(&str, &str); 3] = [
        ("crates/store/src/lib.rs", "pub mod redis; pub mod clock;"),
        ("crates/store/src/redis/open.rs", ""),
        ("crates/store/src/clock.rs", ""),
    ];

    fn found(path: &str, text: &str) -> Vec<String> {
        let files = [&STORE_FILES[..], &[(path, text)]].concat();
        check(&Tree::made_up(&files)).into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_backend_is_named_by_the_store_the_tools_and_tests() {
        let text = "use lingua_store::redis;";
        assert!(found("crates/tools/src/bench.rs", text).is_empty());
        assert!(found("crates/engine/tests/it/main.rs", text).is_empty());
        assert!(
            found("crates/engine/src/a.rs", "#[cfg(test)] mod tests { use lingua_store::redis; }")
                .is_empty()
        );
        assert!(found("crates/engine/src/a.rs", "use lingua_store::clock::Clock;").is_empty());
    }

    #[test]
    fn a_backend_that_others_name_is_found() {
        let group = "use lingua_store::{\n    clock,\n    redis,\n};";
        assert_eq!(found("crates/server/src/cli.rs", group), ["crates/server/src/cli.rs:3"]);
        let code = "fn f() { lingua_store::redis::open() }";
        assert_eq!(found("crates/engine/src/a.rs", code), ["crates/engine/src/a.rs:1"]);
    }

    fn switched(root: &str, store: &str, engine: &str) -> Vec<String> {
        let store =
            format!("[package]\nname = \"lingua-store\"\n[dependencies]\nredis = {store}\n");
        let engine = format!(
            "[package]\nname = \"lingua-engine\"\n[dependencies]\nlingua-store = {engine}\n"
        );
        let root = format!("[workspace.dependencies]\nlingua-store = {root}\n");
        let files = [
            ("Cargo.toml", root.as_str()),
            ("crates/store/Cargo.toml", &store),
            ("crates/engine/Cargo.toml", &engine),
        ];
        optional(&Tree::made_up(&files)).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn redis_is_switched_on_by_programs_alone() {
        let (off, optional, plain) = (
            "{ path = \"\", default-features = false }",
            "{ optional = true }",
            "{ workspace = true }",
        );
        assert!(switched(off, optional, plain).is_empty());
        assert!(switched("{ path = \"\" }", optional, plain)[0].contains("default features"));
        assert!(switched(off, plain, plain)[0].contains("not optional"));
        let on = "{ workspace = true, features = [\"redis\"] }";
        assert!(switched(off, optional, on)[0].contains("only a program"));
    }
}
