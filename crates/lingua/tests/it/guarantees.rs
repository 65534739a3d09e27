//! The pages of guarantees and of the design papers are true of the sources, and the sentences that
//! were found untrue stay mended.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Every file below `folder` whose name ends like this.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The sources of the product without their tests, by path from the root.
fn product() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let rust = files(&crates, ".rs").into_iter().map(|path| {
        let name = path.strip_prefix(&crates).unwrap().to_string_lossy().replace('\\', "/");
        (name, fs::read_to_string(&path).unwrap())
    });
    let no_test = |name: &str| {
        !name.contains("/tests/") && !name.ends_with("tests.rs") && !name.ends_with("/testing.rs")
    };
    rust.filter(|(name, _)| name.contains("/src/") && no_test(name))
        .map(|(name, text)| (name, text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned()))
        .collect()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of the rows of a text's tables.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(line.split('|').map(str::trim).collect())
    })
}

/// The numbers such as `I7` that a text names.
fn numbers(text: &str, letter: char) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.strip_prefix(letter)?.parse().ok()).collect()
}

/// The guarantees: number and what is said of it.
fn guarantees(page: &str) -> Vec<(String, String)> {
    let promised = page.split("\n## What is promised\n").nth(1).unwrap();
    let promised = promised.split("\n## ").next().unwrap();
    let parts = promised.split("\n### ").skip(1).map(|part| {
        let (heading, text) = part.split_once('\n').unwrap();
        (heading.split(' ').next().unwrap().to_owned(), text.to_owned())
    });
    parts.collect()
}

#[test]
fn every_guarantee_and_every_decision_of_the_design_stands_once() {
    let page = read("docs/GUARANTEES.md");
    let promised: Vec<String> = guarantees(&page).into_iter().map(|(number, _)| number).collect();
    let all: Vec<String> = (1..=18).map(|number| format!("I{number}")).collect();
    assert_eq!(promised, all);
    let decided = page.split("\n## Decisions\n").nth(1).unwrap();
    let decided: Vec<&str> =
        rows(decided).map(|row| row[0]).filter(|cell| cell.starts_with('D')).collect();
    let all: Vec<String> = (1..=25).map(|number| format!("D{number}")).collect();
    assert_eq!(decided, all);
}

#[test]
fn every_test_that_the_page_of_guarantees_names_exists() {
    let page = read("docs/GUARANTEES.md");
    let rust = files(&root().join("crates"), ".rs");
    let code: String = rust.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let exists =
        |name: &str| code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<"));
    let mut missing = Vec::new();
    for (number, text) in guarantees(&page) {
        let tests = text.split("\nTests: ").nth(1).unwrap_or_default();
        let tests: Vec<&str> = quoted(tests.split("\n\n").next().unwrap()).collect();
        assert!(!tests.is_empty(), "{number} has no test");
        missing.extend(tests.into_iter().filter(|test| !exists(test)).map(str::to_owned));
    }
    let intro = page.split("\n## ").next().unwrap();
    let named = quoted(intro).filter(|word| word.matches('_').count() > 2);
    missing.extend(named.filter(|test| !exists(test)).map(str::to_owned));
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn no_page_cites_a_guarantee_or_a_contract_that_is_not_in_the_repository() {
    let mut pages = files(&root().join("docs"), ".md");
    pages.extend(["README.md", "ARCHITECTURE.md"].map(|page| root().join(page)));
    for path in pages {
        let text = fs::read_to_string(&path).unwrap();
        for (letter, last) in [('I', 18), ('D', 25)] {
            let unknown = numbers(&text, letter).into_iter().find(|n| *n == 0 || *n > last);
            assert_eq!(unknown, None, "{letter} in {}", path.display());
        }
        assert!(!text.contains("he contract"), "{} cites a contract", path.display());
    }
}

/// The headings of a page as links name them.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named = headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    });
    named.collect()
}

#[test]
fn every_link_of_decisions_guarantees_and_papers_has_its_target() {
    let mut wrong = Vec::new();
    for path in files(&root().join("docs"), ".md") {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("http") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            if !file.exists() || !heading.is_empty() && !headings(&file).contains(heading) {
                wrong.push(format!("{} -> {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_of_papers_names_modules_and_scripts_that_exist() {
    let page = read("docs/PAPERS.md");
    let mut wrong = Vec::new();
    // What the first column names is the papers' own.
    for row in rows(&page).filter(|row| row.len() == 2) {
        for word in quoted(row[1]) {
            if let Some((part, module)) = word.split_once("::") {
                let sources = root().join("crates").join(part).join("src");
                let module = module.split("::").next().unwrap();
                if !sources.join(module).is_dir() && !sources.join(format!("{module}.rs")).is_file()
                {
                    wrong.push(word);
                }
            } else if word.ends_with(".lua")
                && !root().join("crates/store/lua").join(word).is_file()
            {
                wrong.push(word);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    for paper in 1..=5 {
        assert_eq!(page.matches(&format!("\n## 00{paper}: ")).count(), 1, "paper {paper}");
    }
}

/// `UNAUTHORIZED` of `Unauthorized`.
fn on_the_wire(variant: &str) -> String {
    let mut word = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
}

#[test]
fn the_page_of_errors_says_where_each_code_is_met() {
    let page = read("docs/ERRORS.md");
    let table = page.split("## All of them").nth(1).unwrap().split("## One by one").next().unwrap();
    let seen = |code: &str| {
        let row = rows(table).find(|row| row[0].trim_matches('`') == code);
        row.unwrap_or_else(|| panic!("{code} is not in the table"))[3].to_owned()
    };
    assert!(!table.contains("nowhere yet"));
    // Who shows a wrong token hears it at every door, and so does who may not do what they ask for.
    for code in ["UNAUTHORIZED", "FORBIDDEN"] {
        assert_eq!(seen(code), "HTTP, node, session");
    }
    // By the folders in which a refusal with this code is made.
    let doors = [("/http/", "HTTP"), ("/node_socket", "node"), ("/session_socket", "session")];
    let mut looked = BTreeSet::new();
    for (name, text) in product() {
        let Some((_, door)) = doors.iter().find(|(folder, _)| name.contains(folder)) else {
            continue;
        };
        let made = ["Refusal::new(Code::", "refused(Code::"];
        for rest in made.iter().flat_map(|made| text.split(made).skip(1)) {
            let variant: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            let code = on_the_wire(&variant);
            assert!(seen(&code).contains(door), "{code} is met at {door}, {name}");
            looked.insert(*door);
        }
    }
    assert_eq!(looked.len(), doors.len(), "only {looked:?} were looked at");
    // A tenant that hands in too many jobs a second is told so over HTTP.
    let limits = product()
        .into_iter()
        .any(|(name, text)| name.ends_with("/admission.rs") && text.contains("Code::RateLimited"));
    assert!(!limits || seen("RATE_LIMITED").contains("HTTP"));
}

#[test]
fn the_limits_of_the_manual_name_options_that_exist() {
    let manual = read("docs/operations/production.md");
    let limits = manual.split("## Limits of the session socket").nth(1).unwrap();
    let limits = limits.split("\n## ").next().unwrap();
    assert!(!limits.contains("ixed in this version"));
    let sample = read("config/lingua.sample.toml");
    let mut options = BTreeSet::new();
    let mut section = "";
    for line in sample.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((name, _)) = line.split_once(" = ") {
            options.insert(format!("{section}.{name}"));
        }
    }
    let named: Vec<&str> = quoted(limits)
        .filter(|word| ["limits.", "sessions.", "jobs."].iter().any(|s| word.starts_with(s)))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let unknown: Vec<&str> = named.into_iter().filter(|word| !options.contains(*word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn manual_and_capacity_say_the_same_of_the_step_to_a_cluster() {
    let figure = |page: &str, before: &str, behind: &str| {
        let text = read(page);
        let end = text.find(behind).unwrap_or_else(|| panic!("{page} has no {behind:?}"));
        text[..end].rsplit(before).next().unwrap().trim().to_owned()
    };
    let manual =
        figure("docs/operations/scaling.md", " about ", " sentences per second with nodes");
    let capacity = figure("docs/CAPACITY.md", " about ", " jobs per second, which is more than");
    assert_eq!(manual, capacity);
}

#[test]
fn a_backend_is_opened_in_one_place() {
    let opens = |text: &str| {
        text.contains("MemoryStore::open(")
            || text.contains(" redis::open(")
            || text.contains("(redis::open(")
    };
    let product = product();
    let others = || product.iter().filter(|(name, _)| !name.starts_with("store/"));
    let named: Vec<&str> =
        others().filter(|(_, text)| opens(text)).map(|(name, _)| name.as_str()).collect();
    assert!(named.is_empty(), "these name a backend instead of a URL: {named:?}");
    let by_url: Vec<&str> = others()
        .filter(|(_, text)| text.contains("lingua_store::open("))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(by_url.len(), 1, "{by_url:?}");
}

#[test]
fn the_readme_says_what_of_existing_clients_is_not_served() {
    let readme = read("README.md");
    for word in ["rooms (`room_…`)", "(`webrtc_…`)", "`pairing_code`"] {
        assert!(readme.contains(word), "{word}");
    }
    let refused = product().into_iter().any(|(_, text)| {
        text.contains("starts_with(\"room_\")") && text.contains("starts_with(\"webrtc_\")")
    });
    assert!(refused, "rooms are served: say so");
}

#[test]
fn no_page_calls_the_pause_silence() {
    let pages = ["docs/PROTOCOL.md", "docs/operations/production.md", "config/lingua.sample.toml"];
    for page in pages {
        assert!(!read(page).to_lowercase().contains("silence that ends an utterance"), "{page}");
    }
}
