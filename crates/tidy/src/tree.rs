//! The files of the workspace, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use proc_macro2::TokenStream;

use crate::code;

/// Folders that nobody writes by hand.
const SKIPPED: [&str; 4] = [".git", "target", "node_modules", "__pycache__"];

/// Endings of the files whose text a check reads, beside the scripts; of all others only the name is kept.
const READ: [&str; 3] = ["rs", "md", "toml"];

/// Why a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// A Rust file is not made of Rust tokens.
    #[error("{0}: {1}")]
    Rust(String, proc_macro2::LexError),
    /// A manifest is not TOML.
    #[error("{0}: {1}")]
    Toml(String, toml::de::Error),
}

/// Which part of a crate a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `src`, and a build script.
    Source,
    /// `src`, in a module that exists only for `cfg(test)`.
    UnitTest,
    /// `tests`, `benches`, `examples`.
    Beside,
}

/// A Rust file of a crate.
#[derive(Debug)]
pub struct Source {
    /// From the root of the workspace, with `/`.
    pub path: String,
    /// As it is on disk.
    pub text: String,
    /// All of it.
    pub tokens: TokenStream,
    /// Source or test.
    pub part: Part,
    /// The module in its crate, by the convention for file names; empty for `lib.rs` and `main.rs`.
    pub module: Vec<String>,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// The package's name.
    pub name: String,
    /// The path of its folder, such as `crates/core`.
    pub folder: String,
    /// `Cargo.toml`.
    pub manifest: toml::Table,
    /// All its Rust files, by path.
    pub sources: Vec<Source>,
}

impl Crate {
    /// The path of `Cargo.toml`.
    pub fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// The files of the workspace.
#[derive(Debug)]
pub struct Tree {
    /// The crates in `crates/`, by folder.
    pub crates: Vec<Crate>,
    /// The documents (`*.md`), by path.
    pub documents: BTreeMap<String, String>,
    /// The manifests and scripts, by path.
    pub commented: BTreeMap<String, String>,
    /// The manifest at the root.
    pub manifest: toml::Table,
    /// The paths of all files and folders.
    pub paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the workspace in this folder.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        walk(root, "", &mut files)?;
        Self::of(files)
    }

    /// The tree of these files, each with its path and text.
    pub fn of(files: BTreeMap<String, String>) -> Result<Self, Error> {
        let mut paths = BTreeSet::new();
        let mut documents = BTreeMap::new();
        let mut commented = BTreeMap::new();
        let mut manifest = toml::Table::new();
        let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
        for (path, text) in &files {
            paths.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
            paths.insert(path.clone());
            let is_member = path.starts_with("crates/") && path.matches('/').count() == 2;
            if path.ends_with(".md") {
                documents.insert(path.clone(), text.clone());
            } else if !path.ends_with(".rs") && !text.is_empty() {
                commented.insert(path.clone(), text.clone());
            }
            if path == "Cargo.toml" {
                manifest = parse(path, text)?;
            } else if let Some(folder) = path.strip_suffix("/Cargo.toml").filter(|_| is_member) {
                let member = member(folder, parse(path, text)?, &files)?;
                crates.insert(folder.to_owned(), member);
            }
        }
        Ok(Self { crates: crates.into_values().collect(), documents, commented, manifest, paths })
    }

    /// All Rust files of all crates.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.crates.iter().flat_map(|member| &member.sources)
    }

    /// A tree of made-up files, for the tests of the checks. Each crate that has a file and no manifest
    /// gets one with its folder as its name.
    #[cfg(test)]
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Self {
        let mut all: BTreeMap<String, String> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        for (path, _) in files {
            if let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next())
            {
                let manifest = format!("[package]\nname = \"lingua-{name}\"\n");
                all.entry(format!("crates/{name}/Cargo.toml")).or_insert(manifest);
            }
        }
        Self::of(all).unwrap()
    }
}

fn parse(path: &str, text: &str) -> Result<toml::Table, Error> {
    text.parse().map_err(|error| Error::Toml(path.to_owned(), error))
}

fn walk(root: &Path, below: &str, files: &mut BTreeMap<String, String>) -> Result<(), Error> {
    let failed = |error| Error::Io(below.to_owned(), error);
    for entry in fs::read_dir(root.join(below)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(root, &path, files)?;
            continue;
        }
        let is_read = match name.rsplit_once('.') {
            Some((_, ending)) => READ.contains(&ending),
            None => below == "scripts",
        };
        let text = if is_read {
            fs::read_to_string(entry.path()).map_err(|error| Error::Io(path.clone(), error))?
        } else {
            String::new()
        };
        files.insert(path, text);
    }
    Ok(())
}

fn member(
    folder: &str,
    manifest: toml::Table,
    files: &BTreeMap<String, String>,
) -> Result<Crate, Error> {
    let mut sources = Vec::new();
    let inside = format!("{folder}/");
    for (path, text) in
        files.range(inside.clone()..).take_while(|(path, _)| path.starts_with(&inside))
    {
        let Some(stem) = path[inside.len()..].strip_suffix(".rs") else { continue };
        let tokens = text.parse().map_err(|error| Error::Rust(path.clone(), error))?;
        let mut module: Vec<String> = stem.split('/').map(str::to_owned).collect();
        let is_source = module[0] == "src" || stem == "build";
        module.remove(0);
        if module.last().is_some_and(|last| last == "mod")
            || module.len() == 1 && (module[0] == "lib" || module[0] == "main")
        {
            module.pop();
        }
        let part = if is_source { Part::Source } else { Part::Beside };
        sources.push(Source { path: path.clone(), text: text.clone(), tokens, part, module });
    }
    mark_unit_tests(&mut sources);
    let name = manifest.get("package").and_then(|package| package.get("name"));
    let name = name.and_then(toml::Value::as_str).unwrap_or(folder).to_owned();
    Ok(Crate { name, folder: folder.to_owned(), manifest, sources })
}

/// Finds the files that are there because of a `#[cfg(test)] mod name;`.
fn mark_unit_tests(sources: &mut [Source]) {
    let mut tests: Vec<Vec<String>> = Vec::new();
    for source in sources.iter().filter(|source| source.part == Part::Source) {
        for name in code::test_modules(&source.tokens) {
            let mut module = source.module.clone();
            module.push(name);
            tests.push(module);
        }
    }
    for source in sources.iter_mut().filter(|source| source.part == Part::Source) {
        if tests.iter().any(|test| source.module.starts_with(test)) {
            source.part = Part::UnitTest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_part_and_its_module() {
        let tree = Tree::made_up(&[
            ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod tests;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/tests.rs", "mod more;"),
            ("crates/a/src/tests/more.rs", ""),
            ("crates/a/tests/it/main.rs", ""),
        ]);
        let known: Vec<(String, Part, String)> = tree
            .sources()
            .map(|source| (source.path.clone(), source.part, source.module.join("::")))
            .collect();
        let expected = [
            ("crates/a/src/b/c.rs", Part::Source, "b::c"),
            ("crates/a/src/lib.rs", Part::Source, ""),
            ("crates/a/src/tests.rs", Part::UnitTest, "tests"),
            ("crates/a/src/tests/more.rs", Part::UnitTest, "tests::more"),
            ("crates/a/tests/it/main.rs", Part::Beside, "it::main"),
        ];
        assert_eq!(known, expected.map(|(path, part, module)| (path.into(), part, module.into())));
        assert!(tree.paths.contains("crates/a/tests/it"));
    }
}
