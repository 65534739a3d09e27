//! The rules over the sources of the workspace.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use lingua_tidy::{
    Exceptions, Tree, Violation, assertions, backends, cycles, dependencies, documents, exceptions,
    lab, layers, length, ranking, wording,
};

/// The names of all checks.
const CHECKS: [&str; 12] = [
    length::FILES,
    length::FUNCTIONS,
    cycles::CHECK,
    backends::CHECK,
    lab::CHECK,
    layers::CHECK,
    assertions::CHECK,
    documents::CHECK,
    dependencies::CHECK,
    ranking::CHECK,
    wording::COMMENTS,
    wording::NAMES,
];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn tree() -> Tree {
    let tree = Tree::read(&root()).unwrap();
    assert!(tree.crates.len() >= 6, "not the workspace: {:?}", root());
    assert!(tree.sources().count() > 100);
    tree
}

fn excepted() -> Exceptions {
    let text = std::fs::read_to_string(root().join(exceptions::FILE)).unwrap();
    Exceptions::parse(&text).unwrap()
}

fn assert_none(found: &[Violation]) {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} violations:\n{}\n", found.len(), lines.join("\n"));
}

fn assert_tidy(check: &'static str, found: Vec<Violation>) {
    assert_none(&excepted().apply(check, found));
}

#[test]
fn files_are_short() {
    assert_tidy(length::FILES, length::files(&tree()));
}

#[test]
fn functions_are_short() {
    assert_tidy(length::FUNCTIONS, length::functions(&tree()));
}

#[test]
fn the_folders_of_a_crate_have_no_cycles() {
    assert_none(&cycles::check(&tree(), excepted().of(cycles::CHECK)));
}

#[test]
fn nobody_but_the_store_names_a_backend() {
    assert_tidy(backends::CHECK, backends::check(&tree()));
}

#[test]
fn redis_is_a_feature_of_the_store() {
    assert_tidy(backends::CHECK, backends::optional(&tree()));
}

#[test]
fn the_product_is_without_the_lab() {
    assert_tidy(lab::CHECK, lab::check(&tree()));
}

#[test]
fn a_crate_depends_on_those_below_it() {
    assert_tidy(layers::CHECK, layers::check(&tree()));
}

#[test]
fn every_test_asserts() {
    assert_tidy(assertions::CHECK, assertions::check(&tree()));
}

#[test]
fn documents_name_what_exists() {
    assert_tidy(documents::CHECK, documents::check(&tree()));
}

#[test]
fn every_dependency_is_used() {
    assert_tidy(dependencies::CHECK, dependencies::check(&tree()));
}

#[test]
fn a_ranking_rule_is_one_file_one_match_arm_and_one_option() {
    let tree = tree();
    let rules = ranking::rules(&tree);
    assert!(["load", "region", "cheapest"].iter().all(|rule| rules.contains(*rule)), "{rules:?}");
    assert_tidy(ranking::CHECK, ranking::check(&tree));
}

#[test]
fn comments_say_something() {
    assert_tidy(wording::COMMENTS, wording::comments(&tree()));
}

#[test]
fn names_that_were_given_up_stay_away() {
    assert_tidy(wording::NAMES, wording::names(&tree()));
}

#[test]
fn exceptions_belong_to_a_check() {
    for check in excepted().0.keys() {
        assert!(CHECKS.contains(&check.as_str()), "there is no check `{check}`");
    }
}
