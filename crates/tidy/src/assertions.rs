//! Every test can fail on what it is about.
//!
//! A test asserts if it has an assertion itself or calls a function or macro that asserts, through any
//! number of calls. A function is a test by its attribute, or because its name is given to a macro that makes
//! tests (`#[test] fn $name`). Calls are resolved by name: first in the same file, then in the tests of the same
//! crate, then in the lab. Where a name has several functions, all of them have to assert. `unwrap` and
//! `expect` alone do not assert: they say that a step worked, not that its answer is right.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::code::{self, Function};
use crate::tree::{Crate, Part, Source};
use crate::{Tree, Violation};

/// The name of the check.
pub const CHECK: &str = "assertion";

/// The crate whose functions may assert for the tests of all others.
const LAB: &str = "lingua-lab";

/// Beginnings of the names of macros that assert.
const MACROS: [&str; 7] =
    ["assert", "prop_assert", "debug_assert", "panic", "unreachable", "ensure", "bail"];

/// Methods that fail on the wrong answer, and not only on a failed step.
const METHODS: [&str; 3] = ["unwrap_err", "expect_err", "unwrap_none"];

/// What a function or macro does, as far as this check wants to know.
#[derive(Debug, Default)]
struct Facts {
    asserts: bool,
    /// Names as they are called, with the one before it of a path: `mutation::run`, `check`.
    calls: BTreeSet<String>,
}

/// Functions by name, and by their file's module and name, of one file, one crate or the lab.
type Scope = BTreeMap<String, Vec<Facts>>;

/// The scopes in which a call of one file is looked up, nearest first.
struct Scopes<'a>([&'a Scope; 3]);

/// The tests without an assertion.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut lab = Scope::new();
    for member in tree.crates.iter().filter(|member| member.name == LAB) {
        member.sources.iter().for_each(|source| add(source, &mut lab, true));
    }
    let mut found = Vec::new();
    for member in &tree.crates {
        let mut tests = Scope::new();
        member.sources.iter().for_each(|source| add(source, &mut tests, false));
        let listed = listed(member);
        for source in &member.sources {
            let mut file = Scope::new();
            add(source, &mut file, false);
            let scopes = Scopes([&file, &tests, &lab]);
            let functions = code::functions(&source.tokens);
            let silent = functions.iter().filter(|function| {
                is_test(function) && !function.name.starts_with('$')
                    || source.part != Part::Source && listed.contains(&function.name)
            });
            let silent = silent.filter(|function| {
                !function.attributes.iter().any(|attribute| attribute.starts_with("should_panic"))
                    && !scopes.asserts(&facts(&function.body))
            });
            found.extend(silent.map(|function| violation(source, function)));
        }
    }
    found
}

fn violation(source: &Source, function: &Function) -> Violation {
    Violation {
        check: CHECK,
        what: format!("{} {}", source.path, function.name),
        place: format!("{}:{}", source.path, function.line),
        size: None,
        message: format!(
            "the test `{}` asserts nothing: say with `assert!` what has to be true, or call a helper \
             that does",
            function.name
        ),
    }
}

fn is_test(function: &Function) -> bool {
    function.attributes.iter().any(|attribute| {
        let path = attribute.split('(').next().unwrap_or_default();
        path.rsplit("::").next() == Some("test")
    })
}

/// The names that are given to macros that make a test of each.
fn listed(member: &Crate) -> BTreeSet<String> {
    let macros = member.sources.iter().flat_map(|source| code::macros(&source.tokens));
    let makers: BTreeSet<String> = macros
        .filter(|(_, body)| {
            let mut functions = code::functions(body).into_iter();
            functions.any(|function| function.name.starts_with('$') && is_test(&function))
        })
        .map(|(name, _)| name)
        .collect();
    let mut found = BTreeSet::new();
    for source in &member.sources {
        find_listed(&source.tokens, &makers, &mut found);
    }
    found
}

fn find_listed(tokens: &TokenStream, makers: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let maker = at.checked_sub(2).and_then(|before| tokens.get(before));
        if maker.is_some_and(|maker| makers.contains(&maker.to_string())) {
            words(&group.stream(), found);
        }
        find_listed(&group.stream(), makers, found);
    }
}

/// All words but those before braces, which name a group.
fn words(tokens: &TokenStream, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (TokenTree::Ident(_), Some(TokenTree::Group(_))) => {}
            (TokenTree::Ident(word), _) => drop(found.insert(word.to_string())),
            (TokenTree::Group(group), _) => words(&group.stream(), found),
            _ => {}
        }
    }
}

impl Scopes<'_> {
    fn asserts(&self, facts: &Facts) -> bool {
        self.find(facts, &mut BTreeMap::new())
    }

    /// `known` has the names that were looked at; one that is being looked at does not assert yet.
    fn find<'a>(&'a self, facts: &'a Facts, known: &mut BTreeMap<&'a str, bool>) -> bool {
        facts.asserts
            || facts.calls.iter().any(|call| {
                if let Some(asserts) = known.get(call.as_str()) {
                    return *asserts;
                }
                let plain = call.rsplit("::").next().unwrap_or(call);
                let look = |name: &str| self.0.iter().find_map(|scope| scope.get(name));
                let Some(candidates) = look(call).or_else(|| look(plain)) else { return false };
                known.insert(call, false);
                let asserts = candidates.iter().all(|candidate| self.find(candidate, known));
                known.insert(call, asserts);
                asserts
            })
    }
}

/// Adds the functions and macros of a file that are not tests themselves. What the product asserts is no
/// assertion of a test.
fn add(source: &Source, scope: &mut Scope, is_lab: bool) {
    let mut product = BTreeSet::new();
    if source.part == Part::Source && !is_lab {
        let functions = code::functions(&code::without_tests(&source.tokens));
        product.extend(functions.into_iter().map(|function| (function.line, function.name)));
    }
    for function in code::functions(&source.tokens) {
        if !is_test(&function) && !product.contains(&(function.line, function.name.clone())) {
            if let Some(module) = source.module.last() {
                let name = format!("{module}::{}", function.name);
                scope.entry(name).or_default().push(facts(&function.body));
            }
            scope.entry(function.name).or_default().push(facts(&function.body));
        }
    }
    for (name, body) in code::macros(&source.tokens) {
        scope.entry(name).or_default().push(facts(&body));
    }
}

fn facts(body: &TokenStream) -> Facts {
    let mut facts = Facts::default();
    read(body, &mut facts);
    facts
}

fn read(tokens: &TokenStream, facts: &mut Facts) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => read(&group.stream(), facts),
            TokenTree::Ident(name) => {
                let name = name.to_string();
                let is_macro = matches!(tokens.get(at + 1), Some(TokenTree::Punct(next)) if next.as_char() == '!')
                    && matches!(tokens.get(at + 2), Some(TokenTree::Group(_)));
                if is_macro && MACROS.iter().any(|known| name.starts_with(known)) {
                    facts.asserts = true;
                } else if is_macro || is_call(&tokens[at + 1..]) {
                    facts.asserts |= METHODS.contains(&name.as_str());
                    let is_path = at >= 3 && tokens[at - 1].to_string() == ":";
                    let before =
                        if is_path { format!("{}::", tokens[at - 3]) } else { String::new() };
                    facts.calls.insert(format!("{before}{name}"));
                }
            }
            _ => {}
        }
    }
}

/// Whether arguments follow, with or without a `::<Type>` before them. A function that is handed on by its
/// name alone counts too: `run(check)` calls `check`.
fn is_call(after: &[TokenTree]) -> bool {
    match after.first() {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
        Some(TokenTree::Punct(punct)) => matches!(punct.as_char(), ':' | ','),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(test: &str, more: &[(&str, &str)]) -> Vec<String> {
        let files = [&[("crates/a/tests/it/main.rs", test)], more].concat();
        check(&Tree::made_up(&files)).into_iter().map(|violation| violation.place).collect()
    }

    #[test]
    fn a_test_without_an_assertion_is_found() {
        let text = "#[test]\nfn a() { let b = c().unwrap(); d(b).expect(\"e\"); }";
        assert_eq!(found(text, &[]), ["crates/a/tests/it/main.rs:2"]);
        let text = "#[tokio::test(start_paused = true)]\nasync fn a() -> Result<()> { b().await?; Ok(()) }";
        assert_eq!(found(text, &[]), ["crates/a/tests/it/main.rs:2"]);
        let text = "proptest! {\n#[test]\nfn a(b in 0..3) { c(b); } }";
        assert_eq!(found(text, &[]), ["crates/a/tests/it/main.rs:3"]);
    }

    #[test]
    fn assertions_of_all_kinds_are_seen() {
        for body in [
            "assert_eq!(a, b);",
            "for a in b { prop_assert!(a); }",
            "let Some(a) = b else { panic!() };",
            "a.unwrap_err();",
            "ensure!(a);",
        ] {
            assert!(found(&format!("#[test] fn a() {{ {body} }}"), &[]).is_empty(), "{body}");
        }
        assert!(found("#[test] #[should_panic(expected = \"b\")] fn a() { c() }", &[]).is_empty());
    }

    #[test]
    fn assertions_of_helpers_and_macros_are_seen() {
        let test = "#[test] fn a() { help::<u8>().b.check() }";
        let helper =
            ("crates/a/tests/it/help.rs", "fn help<T>() { deeper() } fn deeper() { assert!(c); }");
        assert!(found(test, &[helper]).is_empty());
        let in_lab = ("crates/lab/src/lib.rs", "impl B { pub fn check(&self) { panic!() } }");
        assert!(found(test, &[in_lab]).is_empty());
        let of_another_crate = ("crates/b/tests/it/help.rs", "fn help<T>() { assert!(c) }");
        assert_eq!(found(test, &[of_another_crate]).len(), 1);
        let by_macro =
            "macro_rules! check { ($a:expr) => { assert!($a) } } #[test] fn a() { check!(b) }";
        assert!(found(by_macro, &[]).is_empty());
        let one_of_two =
            ("crates/a/tests/it/help.rs", "fn help() { assert!(c) } mod d { fn help() {} }");
        assert_eq!(found(test, &[one_of_two]).len(), 1);
        let by_path = "#[test] fn a() { help::help() }";
        assert!(
            found(
                by_path,
                &[
                    ("crates/a/tests/it/help.rs", "fn help() { assert!(c) }"),
                    ("crates/a/tests/it/d.rs", "fn help() {}")
                ]
            )
            .is_empty()
        );
        let of_the_product =
            "fn b() { assert!(c) } #[cfg(test)] mod tests { #[test] fn a() { b() } }";
        assert_eq!(found("", &[("crates/a/src/lib.rs", of_the_product)]).len(), 1);
        let handed_on = "fn b() { assert!(c) } #[test] fn a() { run(1, b) }";
        assert!(found(handed_on, &[]).is_empty());
    }

    #[test]
    fn a_function_that_a_macro_makes_a_test_of_is_a_test() {
        let list = "macro_rules! tests { ($($name:ident),+) => { $(#[test] fn $name() { m::$name() })+ } }\n\
            macro_rules! on { ($store:expr) => { tests! { 1; d { loud, silent } } } }";
        let tests =
            ("crates/a/tests/it/m.rs", "fn loud() { assert!(b) }\nfn silent() { c() }\nfn d() {}");
        assert_eq!(found(list, &[tests]), ["crates/a/tests/it/m.rs:2"]);
    }

    #[test]
    fn another_test_does_not_assert_for_this_one() {
        let text = "#[test] fn a() { b() } #[test] fn b() { assert!(c) }";
        assert_eq!(found(text, &[]).len(), 1);
    }
}
