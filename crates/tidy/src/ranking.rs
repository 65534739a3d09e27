//! A ranking rule is one file, one arm of one `match` and one word of one option.
//!
//! The file has one function, `rank`. Its name in `fleet/rules.rs` is the one arm, and its variant of `RankRule` is
//! named there and where the option is declared. No other code knows single rules, so adding one touches
//! these three places.

use std::collections::BTreeSet;

use crate::tree::{Part, Source};
use crate::{Tree, Violation, code};

/// The name of the check.
pub const CHECK: &str = "ranking-rule";

/// The folder of the rules.
const FOLDER: &str = "crates/core/src/fleet/rules/";
/// The file with the `match`.
const MATCH: &str = "crates/core/src/fleet/rules.rs";
/// Where the option is declared and checked.
const OPTION: &str = "crates/server/src/config/";
/// The type whose variants are the rules.
const KIND: &str = "RankRule";
/// The one function of a rule.
const FUNCTION: &str = "rank";

/// The names of all rules.
pub fn rules(tree: &Tree) -> BTreeSet<String> {
    files(tree).map(|source| name(source).to_owned()).collect()
}

/// The rules that are more or less than that.
pub fn check(tree: &Tree) -> Vec<Violation> {
    files(tree).flat_map(|source| of_rule(tree, source)).collect()
}

fn files(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.sources().filter(|source| {
        source.part == Part::Source && source.path.starts_with(FOLDER) && name(source) != "tests"
    })
}

fn name(source: &Source) -> &str {
    source.path.trim_start_matches(FOLDER).trim_end_matches(".rs")
}

fn of_rule(tree: &Tree, rule: &Source) -> Vec<Violation> {
    let (name, mut found) = (name(rule), Vec::new());
    let mut say = |place: String, message: String| {
        found.push(Violation { check: CHECK, what: rule.path.clone(), place, size: None, message });
    };
    let functions = code::functions(&code::without_tests(&rule.tokens));
    let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    if names != [FUNCTION] {
        say(
            format!("{}:1", rule.path),
            format!("a rule is one function `{FUNCTION}`, not {names:?}"),
        );
    }
    let variant = variant(name);
    let (mut arms, mut options) = (0, 0);
    for source in tree.sources().filter(|source| source.part == Part::Source) {
        for path in code::paths(&code::without_tests(&source.tokens)) {
            let ends_with = |end: [&str; 2]| path.names.ends_with(&end.map(str::to_owned));
            let called = ends_with([name, FUNCTION]);
            if source.path == MATCH {
                arms += usize::from(called);
            } else if ends_with([KIND, &variant]) && source.path.starts_with(OPTION) {
                options += 1;
            } else if (called && source.path != rule.path) || ends_with([KIND, &variant]) {
                let message = format!("names the rule `{name}`: only `{MATCH}` and `{OPTION}` do");
                say(format!("{}:{}", source.path, path.line), message);
            }
        }
    }
    if arms != 1 {
        say(format!("{MATCH}:1"), format!("`{name}::{FUNCTION}` has {arms} arms instead of one"));
    }
    if options == 0 {
        say(format!("{MATCH}:1"), format!("`{KIND}::{variant}` is not a choice of the option"));
    }
    found
}

/// `same_region` -> `SameRegion`
fn variant(name: &str) -> String {
    let words = name.split('_').filter_map(|word| {
        let (first, rest) = word.split_at_checked(1)?;
        Some(first.to_uppercase() + rest)
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "pub fn rank(node: &Facts) -> Rank { Rank::new(node.age(), 0) }";
    const ARM: &str =
        "fn rank(self) { match self { RankRule::TheOldest => the_oldest::rank(facts) } }";
    const OPTION: &str = "words!(RankRule: \"oldest\" = RankRule::TheOldest);";

    fn found(rule: &str, arm: &str, option: &str, other: &str) -> Vec<String> {
        let files = [
            ("crates/core/src/fleet/rules/the_oldest.rs", rule),
            ("crates/core/src/fleet/rules.rs", arm),
            ("crates/server/src/config/setting.rs", option),
            ("crates/core/src/fleet/select.rs", other),
        ];
        let tree = Tree::made_up(&files);
        assert_eq!(rules(&tree).into_iter().collect::<Vec<_>>(), ["the_oldest"]);
        check(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_file_an_arm_and_an_option_are_enough() {
        assert_eq!(found(RULE, ARM, OPTION, "fn f() {}"), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_is_found() {
        let second = format!("{RULE} fn other() {{}}");
        assert!(found(&second, ARM, OPTION, "")[0].contains("one function `rank`"));
        assert!(found(RULE, "fn f() {}", OPTION, "")[0].contains("has 0 arms"));
        assert!(found(RULE, ARM, "fn f() {}", "")[0].contains("is not a choice"));
        let test = "fn f(rank: RankRule) -> bool { rank == RankRule::TheOldest }";
        assert!(found(RULE, ARM, OPTION, test)[0].contains("names the rule"));
    }
}
