//! Only the place that puts the program together names a concrete store.
//!
//! A backend is a module of the store crate whose name a folder has too (`memory`, `redis`). Everybody else
//! uses the traits. Tests may name one, and so may the tools, whose subject a store can be.

use std::collections::BTreeSet;

use crate::tree::{Crate, Part};
use crate::{Tree, Violation, code};

/// The name of the check.
pub const CHECK: &str = "backend";

/// The crate that has the backends.
const STORE: &str = "lingua-store";
/// The crates that may name them anywhere.
const FREE: [&str; 2] = [STORE, "lingua-tools"];
/// The file that puts the program together.
const ALLOWED: &str = "crates/server/src/app.rs";

/// The places that name a backend and may not.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let store = tree.crates.iter().find(|member| member.name == STORE);
    let backends = store.map(backends).unwrap_or_default();
    let mut found = Vec::new();
    for member in tree.crates.iter().filter(|member| !FREE.contains(&member.name.as_str())) {
        for source in &member.sources {
            if source.part != Part::Source || source.path == ALLOWED {
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
                    "`{}` names a backend, which only `{ALLOWED}` may: take `dyn Backend`, or a type of \
                     the store's contract",
                    path.names.join("::")
                ),
            }));
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
    fn a_backend_is_named_in_one_file_by_the_tools_and_by_tests() {
        let text = "use lingua_store::redis;";
        assert!(found("crates/server/src/app.rs", text).is_empty());
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
}
