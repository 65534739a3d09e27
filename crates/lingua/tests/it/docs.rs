//! What the documentation says of the code is true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lingua_core::outcome::{Code, MissingReason, Retry};

/// Settings that no command line has.
const OTHER_SETTINGS: [&str; 2] = ["LINGUA_LOG", "LINGUA_"];

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
fn every_code_that_a_caller_can_see_has_a_paragraph() {
    let text = fs::read_to_string(root().join("docs/ERRORS.md")).unwrap();
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("### ")).collect();
    for code in Code::ALL {
        let said = format!("{} ({}", code.as_str(), code.http_status());
        assert!(headings.iter().any(|line| line.contains(&said)), "no paragraph for {said})");
    }
}

/// The words of the errors page for who may try again.
fn retry_word(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "no",
        Retry::Caller => "later",
        Retry::OtherNode => "other node",
    }
}

#[test]
fn the_table_of_errors_is_that_of_the_code() {
    let text = fs::read_to_string(root().join("docs/ERRORS.md")).unwrap();
    let table = text.split("## All of them").nth(1).unwrap().split("## One by one").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let listed: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, known, "every code once, in the order of the code, and no other");

    // What the HTTP door says of itself that it refuses with.
    let mut doors = String::new();
    sources(&root().join("crates/server/src/http"), &mut doors);
    let refusals = doors.split("refusals!(").skip(1).filter_map(|rest| rest.split(");").next());
    let refusals = refusals.filter_map(|list| list.split_once(": ")).flat_map(|(_, list)| {
        list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    });
    let refusals: BTreeSet<String> = refusals.collect();
    assert!(refusals.contains("StaleAttempt"), "{refusals:?}");

    for (row, code) in rows.iter().zip(Code::ALL) {
        let [_, status, retry, seen, ending] = row[..] else { panic!("{row:?}") };
        assert_eq!(status, code.http_status().to_string(), "{code}");
        assert_eq!(retry, retry_word(code.retry()), "{code}");
        if !ending.is_empty() {
            assert_eq!(ending.trim_matches('`'), code.missing_reason().as_str(), "{code}");
        }
        if refusals.contains(&format!("{code:?}")) {
            assert!(seen.starts_with("HTTP"), "{code} is seen over HTTP too");
        }
    }
    let endings: BTreeSet<&str> = rows.iter().map(|row| row[4].trim_matches('`')).collect();
    for reason in MissingReason::ALL {
        let told = reason == MissingReason::SilenceDetected || endings.contains(reason.as_str());
        assert!(told, "no code ends as {reason}");
    }
}

fn help(command: &[&str]) -> String {
    let lingua = Command::new(env!("CARGO_BIN_EXE_lingua")).args(command).arg("--help").output();
    String::from_utf8(lingua.unwrap().stdout).unwrap()
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let named = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    named.filter(|name| !name.is_empty() && *name != "help").collect()
}

/// What each command can be told, by the binary's own word; under "" all of it.
fn helps() -> BTreeMap<String, String> {
    let mut helps = BTreeMap::from([(String::new(), help(&[]))]);
    for command in commands(&helps[""].clone()) {
        let text = help(&[command]);
        for below in commands(&text) {
            helps.insert(format!("{command} {below}"), help(&[command, below]));
        }
        helps.insert(command.to_owned(), text);
    }
    for known in ["serve", "top", "chaos", "bench store", "bench dashboard"] {
        assert!(helps.contains_key(known), "{known} is not among {:?}", helps.keys());
    }
    let all: String = helps.values().map(String::as_str).collect();
    helps.insert(String::new(), all);
    helps
}

/// The names of all options in the environment.
fn options() -> BTreeSet<String> {
    let lingua = Command::new(env!("CARGO_BIN_EXE_lingua")).args(["config", "default"]).output();
    let sample = String::from_utf8(lingua.unwrap().stdout).unwrap();
    let mut section = String::new();
    let mut options = BTreeSet::new();
    for line in sample.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}_");
        } else if let Some((name, _)) = line.split_once(" = ") {
            options.insert(format!("LINGUA_{section}{name}").to_uppercase());
        }
    }
    options
}

/// Everything that an operator copies from, by name.
fn pages() -> Vec<(String, String)> {
    let folders = ["deploy", "deploy/prometheus", "deploy/grafana"];
    let files = folders.map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut pages: Vec<PathBuf> =
        files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.is_file());
    let manuals = ["README.md", "docs/METRICS.md", "docs/SECURITY.md", "docs/TUTORIAL.md"];
    pages.extend(manuals.map(|page| root().join(page)));
    let operations = fs::read_dir(root().join("docs/operations")).unwrap();
    pages.extend(operations.map(|entry| entry.unwrap().path()));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    pages.into_iter().map(read).collect()
}

/// Whether a help text has this word as a whole.
fn has(help: &str, word: &str) -> bool {
    let within = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    help.match_indices(word).any(|(at, _)| {
        !help[at + word.len()..].starts_with(within) && !help[..at].ends_with(within)
    })
}

/// The command of a line such as `lingua speak --signal 2`, and its flags; one for each `lingua`.
fn calls(line: &str) -> Vec<(String, Vec<String>)> {
    let line = line.replace("cargo run --release -- ", "lingua ").replace("bin/lingua", " lingua");
    let mut calls = Vec::new();
    for call in line.split("lingua ").skip(1) {
        let call = call.split(['`', '#', ';', '|', ')']).next().unwrap_or_default();
        let words: Vec<&str> = call.split_whitespace().collect();
        let flags = words.iter().filter(|word| word.starts_with("--"));
        let flags = flags.map(|flag| flag.trim_end_matches([',', '.', ':']).to_owned()).collect();
        let command = match words[..] {
            [first @ ("bench" | "config" | "token" | "audit"), what, ..] => {
                format!("{first} {what}")
            }
            [first, ..] => first.to_owned(),
            [] => String::new(),
        };
        calls.push((command, flags));
    }
    calls
}

#[test]
fn every_flag_and_setting_that_operators_are_shown_exists() {
    let (helps, options) = (helps(), options());
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        for rest in text.split("LINGUA_").skip(1) {
            let end = rest.find(|letter: char| !matches!(letter, 'A'..='Z' | '_'));
            let name = format!("LINGUA_{}", &rest[..end.unwrap_or(rest.len())]);
            let is_option = options.contains(&name);
            if !OTHER_SETTINGS.contains(&name.as_str()) && !is_option && !has(&helps[""], &name) {
                wrong.push(format!("{page}: {name}"));
            }
        }
        for line in text.lines() {
            for (command, flags) in calls(line) {
                let Some(help) = helps.get(&command) else { continue };
                let unknown = flags.into_iter().filter(|flag| !has(help, flag));
                wrong.extend(unknown.map(|flag| format!("{page}: lingua {command} {flag}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_files_to_deploy_agree_with_the_code_and_the_manual() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).unwrap();
    let container = read("deploy/Containerfile");
    assert!(container.contains(&format!("RUST_IMAGE=rust:{channel}-slim")), "not Rust {channel}");
    assert!(container.contains(&format!("RUSTUP_TOOLCHAIN={channel}\n")), "not Rust {channel}");
    // The rights of the store's user, as the manual gives them and a test of the store proves them.
    let rights = |text: &str| -> String {
        let line =
            text.lines().find(|line| line.contains("lingua on #SHA256-OF-ITS-PASSWORD")).unwrap();
        line.split_once("resetkeys").unwrap().1.to_owned()
    };
    assert_eq!(rights(&read("deploy/redis.conf")), rights(&read("docs/operations/production.md")));
    // Longer than a drain takes at most.
    let manual = read("docs/operations/first-run.md");
    assert!(manual.contains("Give the process 60 s before it is killed"));
    assert!(read("deploy/lingua.service").contains("\nTimeoutStopSec=60\n"));
    assert_eq!(read("deploy/compose.yaml").matches("stop_grace_period: 60s").count(), 1);
}
