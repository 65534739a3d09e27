//! What the checks want to know of a piece of Rust: functions, paths, and which part is for tests.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Words that may stand between the attributes of a function and its `fn`.
const BEFORE_FN: [&str; 8] =
    ["pub", "async", "const", "unsafe", "extern", "default", "crate", "in"];

/// Words that begin an item, which ends with `;` or a body and not with a comma.
const ITEMS: [&str; 14] = [
    "pub", "async", "unsafe", "extern", "fn", "mod", "use", "impl", "struct", "enum", "const",
    "static", "type", "trait",
];

/// A function, wherever it is: in a module, an `impl`, another function or a macro.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name; in a macro that makes functions the one of the variable, with `$`.
    pub name: String,
    /// The line of `fn`.
    pub line: usize,
    /// The line of the closing brace.
    pub end: usize,
    /// The attributes without blanks, such as `tokio::test(start_paused=true)`.
    pub attributes: Vec<String>,
    /// What is between the braces.
    pub body: TokenStream,
}

/// A path as it is written, such as `crate::fleet::Entry`; those of a `use` with braces one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its names in order.
    pub names: Vec<String>,
    /// The line of the first name.
    pub line: usize,
    /// The modules with braces around it, from outside.
    pub inside: Vec<String>,
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, punct: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == punct)
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

fn list(tokens: &TokenStream) -> Vec<TokenTree> {
    tokens.clone().into_iter().collect()
}

/// The attribute that begins here, without blanks, and how many tokens it has.
fn attribute(tokens: &[TokenTree]) -> Option<(String, usize)> {
    let inner = usize::from(is_punct(tokens.get(1), '!'));
    let stream = group(tokens.get(1 + inner), Delimiter::Bracket)?.stream();
    if !is_punct(tokens.first(), '#') {
        return None;
    }
    let text = stream.to_string().chars().filter(|letter| !letter.is_whitespace()).collect();
    Some((text, 2 + inner))
}

fn is_doc(attribute: &str) -> bool {
    attribute.starts_with("doc=")
}

/// The numbers of the lines with code: neither blank nor only a comment.
pub fn lines(text: &str, tokens: &TokenStream) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    mark(tokens, &mut found);
    let blank = text.lines().enumerate().filter(|(_, line)| line.trim().is_empty());
    for (index, _) in blank {
        found.remove(&(index + 1));
    }
    found
}

fn mark(tokens: &TokenStream, found: &mut BTreeSet<usize>) {
    let tokens = list(tokens);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match attribute(&tokens[at..]) {
            Some((text, length)) if is_doc(&text) => at += length,
            _ => {
                match token {
                    TokenTree::Group(group) => {
                        found.insert(group.span_open().start().line);
                        mark(&group.stream(), found);
                        found.insert(group.span_close().end().line);
                    }
                    token => found.extend(token.span().start().line..=token.span().end().line),
                }
                at += 1;
            }
        }
    }
}

/// All functions with a body, outer ones before those inside them.
pub fn functions(tokens: &TokenStream) -> Vec<Function> {
    let mut found = Vec::new();
    find_functions(tokens, &mut found);
    found
}

fn find_functions(tokens: &TokenStream, found: &mut Vec<Function>) {
    let tokens = list(tokens);
    let mut attributes = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some((text, length)) = attribute(&tokens[at..]) {
            attributes.push(text);
            at += length;
            continue;
        }
        match token {
            TokenTree::Ident(word) if word == "fn" => {
                let is_variable = is_punct(tokens.get(at + 1), '$');
                let name = ident(tokens.get(at + 1 + usize::from(is_variable)));
                let name = name.map(|name| if is_variable { format!("${name}") } else { name });
                let attributes = std::mem::take(&mut attributes);
                if let Some(name) = name
                    && let Some(body) = body(&tokens[at..])
                {
                    let line = word.span().start().line;
                    let end = body.span_close().end().line;
                    found.push(Function { name, line, end, attributes, body: body.stream() });
                }
            }
            TokenTree::Ident(word) if BEFORE_FN.iter().any(|known| word == known) => {}
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                if group.delimiter() != Delimiter::Parenthesis {
                    attributes.clear();
                }
                find_functions(&group.stream(), found);
            }
            _ => attributes.clear(),
        }
        at += 1;
    }
}

/// All `macro_rules!` with their names.
pub fn macros(tokens: &TokenStream) -> Vec<(String, TokenStream)> {
    let tokens = list(tokens);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "macro_rules" => {
                if let (Some(name), Some(TokenTree::Group(body))) =
                    (ident(tokens.get(at + 2)), tokens.get(at + 3))
                {
                    found.push((name, body.stream()));
                }
            }
            TokenTree::Group(group) => found.extend(macros(&group.stream())),
            _ => {}
        }
    }
    found
}

/// The first braces before a semicolon.
fn body(tokens: &[TokenTree]) -> Option<&Group> {
    let until = tokens.iter().take_while(|token| !is_punct(Some(token), ';'));
    until.filter_map(|token| group(Some(token), Delimiter::Brace)).next()
}

/// The names of the modules in other files that exist only for `cfg(test)`.
pub fn test_modules(tokens: &TokenStream) -> Vec<String> {
    let tokens = list(tokens);
    let mut found = Vec::new();
    let mut at = 0;
    let mut is_test = false;
    while at < tokens.len() {
        if let Some((text, length)) = attribute(&tokens[at..]) {
            is_test |= text == "cfg(test)";
            at += length;
            continue;
        }
        if ident(tokens.get(at)).is_some_and(|word| word == "mod")
            && is_test
            && is_punct(tokens.get(at + 2), ';')
        {
            found.extend(ident(tokens.get(at + 1)));
        }
        if ident(tokens.get(at)).is_none_or(|word| word != "pub")
            && group(tokens.get(at), Delimiter::Parenthesis).is_none()
        {
            is_test = false;
        }
        at += 1;
    }
    found
}

/// The same code without what exists only for `cfg(test)`.
pub fn without_tests(tokens: &TokenStream) -> TokenStream {
    let tokens = list(tokens);
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match attribute(&tokens[at..]) {
            Some((text, length)) if text == "cfg(test)" => {
                at += length + item(&tokens[at + length..])
            }
            Some((text, length)) if is_doc(&text) => at += length,
            _ => {
                kept.push(match &tokens[at] {
                    TokenTree::Group(group) => {
                        let mut inner =
                            Group::new(group.delimiter(), without_tests(&group.stream()));
                        inner.set_span(group.span());
                        TokenTree::Group(inner)
                    }
                    token => token.clone(),
                });
                at += 1;
            }
        }
    }
    kept.into_iter().collect()
}

/// How many tokens the item, field or statement has that begins here.
fn item(tokens: &[TokenTree]) -> usize {
    let mut at = 0;
    while let Some((_, length)) = attribute(&tokens[at..]) {
        at += length;
    }
    let is_item = ident(tokens.get(at)).is_some_and(|word| ITEMS.contains(&word.as_str()));
    while let Some(token) = tokens.get(at) {
        at += 1;
        let ends = is_punct(Some(token), ';')
            || group(Some(token), Delimiter::Brace).is_some()
            || !is_item && is_punct(Some(token), ',');
        if ends {
            break;
        }
    }
    at
}

/// All paths of two names or more, and those that `use` names.
pub fn paths(tokens: &TokenStream) -> Vec<Path> {
    let mut found = Vec::new();
    find_paths(&list(tokens), &mut Vec::new(), &mut found);
    found
}

fn find_paths(tokens: &[TokenTree], inside: &mut Vec<String>, found: &mut Vec<Path>) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let before = at.checked_sub(1).and_then(|before| ident(tokens.get(before)));
        let before = before.as_deref();
        match token {
            TokenTree::Ident(word) if word == "use" => at += 1,
            TokenTree::Ident(_) => {
                let is_use = matches!(before, Some("use" | "crate"));
                at += path(&tokens[at..], &[], is_use, inside, found);
            }
            TokenTree::Group(group) if before == Some("use") => {
                path_list(&group.stream(), &[], inside, found);
                at += 1;
            }
            TokenTree::Group(group) => {
                let module = at.checked_sub(2).and_then(|at| ident(tokens.get(at)));
                let is_module = module.is_some_and(|word| word == "mod");
                if let Some(name) = before.filter(|_| is_module) {
                    inside.push(name.to_owned());
                }
                find_paths(&list(&group.stream()), inside, found);
                if is_module {
                    inside.pop();
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Reads the path that begins here; answers how many tokens it has.
fn path(
    tokens: &[TokenTree],
    prefix: &[String],
    is_use: bool,
    inside: &[String],
    found: &mut Vec<Path>,
) -> usize {
    let mut names = prefix.to_vec();
    let line = tokens.first().map_or(0, |token| token.span().start().line);
    let mut at = 0;
    while let Some(name) = ident(tokens.get(at)) {
        names.push(name);
        at += 1;
        if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
            break;
        }
        if let Some(group) = group(tokens.get(at + 2), Delimiter::Brace) {
            path_list(&group.stream(), &names, inside, found);
            return at + 3;
        }
        at += 2;
    }
    if is_use || names.len() > 1 {
        found.push(Path { names, line, inside: inside.to_vec() });
    }
    at.max(1)
}

/// The paths between the braces of a `use`.
fn path_list(tokens: &TokenStream, prefix: &[String], inside: &[String], found: &mut Vec<Path>) {
    let tokens = list(tokens);
    for entry in tokens.split(|token| is_punct(Some(token), ',')) {
        if ident(entry.first()).is_some() {
            path(entry, prefix, true, inside, found);
        } else if !entry.is_empty() {
            let line = entry[0].span().start().line;
            found.push(Path { names: prefix.to_vec(), line, inside: inside.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().unwrap()
    }

    fn written(text: &str) -> Vec<String> {
        paths(&tokens(text)).iter().map(|path| path.names.join("::")).collect()
    }

    #[test]
    fn comments_and_blank_lines_are_not_code() {
        let text = "//! Doc.\n\n/// Doc.\n#[derive(Debug)]\nstruct A; // code\n/* no\nno */\nconst T: &str = \"a\n\nb\";\n";
        assert_eq!(lines(text, &tokens(text)), BTreeSet::from([4, 5, 8, 10]));
    }

    #[test]
    fn functions_are_found_in_impls_and_macros() {
        let text = "impl A { pub(crate) async fn b() {} }\nproptest! { #[test]\nfn c(x in 0..3) {\n} }\nfn d();";
        let found = functions(&tokens(text));
        let known: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.end)).collect();
        assert_eq!(known, [("b", 1, 1), ("c", 3, 4)]);
        assert_eq!(found[1].attributes, ["test"]);
        assert!(found[0].attributes.is_empty());
    }

    #[test]
    fn a_use_with_braces_is_many_paths() {
        let text = "use a::{self, b::{c, d as e}, *}; use f;";
        assert_eq!(written(text), ["a::self", "a::b::c", "a::b::d", "a", "f"]);
    }

    #[test]
    fn paths_are_found_in_code_and_macros_and_know_their_module() {
        let text = "mod m { fn f(x: a::B) -> c { vec![$crate::d::e(), g] } }";
        assert_eq!(written(text), ["a::B", "crate::d::e"]);
        assert_eq!(paths(&tokens(text))[0].inside, ["m"]);
    }

    #[test]
    fn code_for_tests_can_be_left_out() {
        let text = "struct A { #[cfg(test)] a: b::C, d: e::F } #[cfg(test)] fn g<H, I>() { j::k() } l::m!();";
        assert_eq!(written(&without_tests(&tokens(text)).to_string()), ["e::F", "l::m"]);
    }

    #[test]
    fn a_module_for_tests_in_its_own_file_is_known() {
        let text = "#[cfg(test)] pub(crate) mod a; mod b; #[cfg(test)] mod c {}";
        assert_eq!(test_modules(&tokens(text)), ["a"]);
    }
}
