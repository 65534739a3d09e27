//! The list of what has to be installed, `scripts/needs`, has every program that a source starts, in a group that is
//! installed where it is started, and nothing that nobody starts.
//!
//! Sources are read as text. What is started by a name that is not written there has to be told here ([`BY_OTHER_NAMES`]).

mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use shell::Shell;

/// On every Debian: its essential packages, awk, and mount.
const BASE: &str = "awk basename bash cat chgrp chmod chown chroot chrt cp cut date dd df dirname du env expr find grep head \
    hostname id install ln ls mkdir mktemp mount mv nproc od paste perl printf prlimit ps readlink realpath rm rmdir sed seq \
    setpriv setsid sh sha256sum sleep sort split stat stty sync tac tail tar taskset tee test timeout touch tr true tty umount \
    uname uniq unshare wc xargs";

/// What is tried out, and needed by none.
const TRIED: &str = "apt-get apt-config sudo nvidia-smi";

/// Rust, what is built here, and what is in an environment of Python that a script made.
const OURS: &str = "cargo rustc rustup lingua pip pytest python ruff mypy";

/// File, what stands in `Command::new` there, and what it is by name.
const BY_OTHER_NAMES: [(&str, &str, &[&str]); 9] = [
    ("redis_server.rs", "&self.config.binary", &["redis-server"]),
    ("part.rs", "program", &["bash"]), // the scripts of the speech node
    ("process.rs", "&self.program", &[]), // this and the next one: `lingua`
    ("top.rs", "LINGUA", &[]),
    ("redis_tls.rs", "std::env::current_exe()?", &[]),
    ("same.rs", "std::env::current_exe().unwrap()", &[]), // the test itself, once more
    ("supply.rs", "program", &[]),                        // cargo and scripts/sbom
    ("prometheus.rs", "program", &["prometheus"]),
    ("deploy.rs", "program", &[]),
];

fn root() -> PathBuf {
    let root = option_env!("CARGO_MANIFEST_DIR").map(|crate_| Path::new(crate_).join("../.."));
    root.unwrap_or_else(|| PathBuf::from(".")).canonicalize().unwrap()
}

fn is_one_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

/// A line of the list.
struct Need {
    needed: String,
    groups: BTreeSet<String>,
}

fn needs() -> Vec<Need> {
    let text = fs::read_to_string(root().join("scripts/needs")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(words.len() > 3, "scripts/needs: does not say what for: {line}");
            let groups = words[2].split(',').map(str::to_owned).collect();
            Need { needed: words[0].to_owned(), groups }
        })
        .collect()
}

/// Everything below a directory that is a source, by its path from the top.
fn sources() -> BTreeMap<String, String> {
    let (root, mut found) = (root(), BTreeMap::new());
    let mut open =
        ["crates", "clients", "scripts", "fuzz", ".ci"].map(|name| root.join(name)).to_vec();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                let is_source = !["target", "node_modules", "dist", "corpus"].contains(&name);
                open.extend((is_source && !name.starts_with('.')).then_some(path));
            } else if name != "needs.rs"
                && let Ok(text) = fs::read_to_string(&path)
            {
                let from_top = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.insert(from_top, text);
            }
        }
    }
    assert!(found.len() > 300, "{} sources are not all", found.len());
    found
}

/// What stands in quotes behind each of these words.
fn quoted_behind(text: &str, opening: &str) -> Vec<String> {
    let parts = text.split(opening).skip(1);
    parts.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

fn started_by_rust(file: &str, text: &str) -> Vec<String> {
    let mut programs = Vec::new();
    for opening in ["Command::new(\"", "is_installed(\"", "output(\""] {
        programs.extend(quoted_behind(text, opening));
    }
    let name = file.rsplit('/').next().unwrap();
    for rest in text.split("Command::new(").skip(1) {
        if rest.starts_with('"') || rest.starts_with("env!(\"CARGO") {
            continue;
        }
        let mut depth = 1;
        let end = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let expression = &rest[..end.unwrap()];
        let known = BY_OTHER_NAMES.iter().find(|known| known.0 == name && known.1 == expression);
        let known = known.unwrap_or_else(|| {
            panic!("{file} starts `{expression}`: say in BY_OTHER_NAMES which programs that is")
        });
        programs.extend(known.2.iter().map(|&name| name.to_owned()));
    }
    programs
}

fn started_by_python(text: &str) -> Vec<String> {
    let mut programs = quoted_behind(text, "shutil.which(\"");
    // A list that begins with a name and goes on with an option or with more arguments.
    for rest in text.split("[\"").skip(1) {
        if let Some((name, behind)) = rest.split_once("\", ")
            && (behind.starts_with("\"-") || behind.starts_with('*'))
            && !name.contains('"')
        {
            programs.push(name.to_owned());
        }
    }
    if let Some((_, rest)) = text.split_once("\nPROGRAMS = {") {
        let table = rest.split_once('}').unwrap().0;
        programs.extend(table.split(',').map(|row| row.split('"').nth(1).unwrap().to_owned()));
    }
    programs
}

fn started_by_javascript(text: &str) -> Vec<String> {
    let calls = ["spawn(\"", "spawnSync(\"", "execFile(\"", "execFileSync(\"", "Process(t, \""];
    calls.iter().flat_map(|call| quoted_behind(text, call)).collect()
}

/// The commands of a page that a test runs.
fn started_by_page(text: &str) -> Vec<String> {
    let blocks = text.split("\n```sh").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("\n```").next()?.split_once('\n'));
    let run = blocks.filter(|(kind, _)| kind.trim() != "once");
    run.flat_map(|(_, commands)| Shell::started_by(commands)).collect()
}

/// Which programs each source starts. Those that are on every machine, and our own, are left out.
fn started() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources() {
        let first = text.lines().next().unwrap_or_default();
        let interpreter = first.strip_prefix("#!/usr/bin/env ");
        let mut programs = match file.rsplit_once('.').map(|(_, kind)| kind) {
            Some("rs") => started_by_rust(&file, &text),
            Some("py") => started_by_python(&text),
            Some("mjs") => started_by_javascript(&text),
            _ if interpreter == Some("bash") => Shell::started_by(&text),
            _ if interpreter == Some("python3") => started_by_python(&text),
            _ => continue,
        };
        programs.extend(interpreter.map(str::to_owned));
        all.entry(file).or_default().extend(programs);
    }
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let operations = read("docs/operations/production.md");
    let tls = operations.split("\n## ").find(|chapter| chapter.starts_with("TLS\n")).unwrap();
    for (page, text) in
        [("docs/TUTORIAL.md", &*read("docs/TUTORIAL.md")), ("docs/operations/production.md", tls)]
    {
        all.insert(page.to_owned(), started_by_page(text).into_iter().collect());
    }
    // Compilers are started by what builds with them.
    for (lock, crate_, compiler) in
        [("Cargo.lock", "cc", "cc"), ("fuzz/Cargo.lock", "libfuzzer-sys", "c++")]
    {
        if read(lock).contains(&format!("\nname = \"{crate_}\"\n")) {
            all.insert(lock.to_owned(), BTreeSet::from([compiler.to_owned()]));
        }
    }
    for programs in all.values_mut() {
        programs.retain(|name| {
            let is_elsewhere = [BASE, OURS, TRIED].iter().any(|words| is_one_of(words, name));
            !is_elsewhere && !name.contains('/') && !name.is_empty()
        });
    }
    all
}

/// The groups that are installed before this source starts anything.
fn installed_for(file: &str) -> Option<&'static [&'static str]> {
    const PLACES: [(&str, &[&str]); 6] = [
        ("crates/", &["build", "tests"]),
        ("docs/", &["build", "tests"]),
        ("scripts/sbom", &["tests"]),
        ("clients/python/examples/", &["python", "speech"]),
        ("clients/python/", &["python", "speech"]),
        ("clients/web/", &["web", "speech"]),
    ];
    PLACES.iter().find(|(place, _)| file.starts_with(place)).map(|(_, groups)| *groups)
}

#[test]
fn every_program_that_a_source_starts_is_in_the_list_of_what_is_installed() {
    let needs = needs();
    let mut wrong = Vec::new();
    for (file, programs) in started() {
        for program in programs {
            let groups: BTreeSet<&str> = needs
                .iter()
                .filter(|need| need.needed == program)
                .flat_map(|need| need.groups.iter().map(String::as_str))
                .collect();
            if groups.is_empty() {
                wrong.push(format!("{file} starts {program}: scripts/needs does not list it"));
            } else if let Some(here) = installed_for(&file)
                && !here.iter().any(|group| groups.contains(group))
            {
                wrong.push(format!(
                    "{file} starts {program}: in scripts/needs it is in {groups:?}, here {here:?} are installed"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn everything_in_the_list_of_what_is_installed_is_used() {
    let (sources, started) = (sources(), started());
    let says = |words: &str| sources.values().any(|text| text.contains(words));
    let mut seen = BTreeSet::new();
    for Need { needed, groups } in needs() {
        let is_used = match needed.split_once(':') {
            Some(("python3", "ensurepip")) => says("-m venv"),
            Some(_) => false,
            // What Rust needs beside a compiler is named by no source.
            None if needed.starts_with('/') => {
                let directory = Path::new(&needed).parent().unwrap().to_str().unwrap();
                groups.contains("build") || says(&format!("\"{directory}\""))
            }
            None => started.values().any(|programs| programs.contains(&needed)),
        };
        assert!(is_used, "scripts/needs lists {needed}, and nobody uses it");
        for group in groups {
            let is_installed = sources.values().any(|text| {
                let calls = text.lines().filter(|line| line.contains("install"));
                calls.flat_map(str::split_whitespace).any(|word| word == group)
            });
            assert!(is_installed, "no script installs the group {group}");
        }
        assert!(seen.insert(needed.clone()), "scripts/needs lists {needed} twice");
    }
}

#[test]
fn commands_of_a_script_are_told_from_its_other_words() {
    let script = r##"
        # remark of nobody
        x=$(one --a "$(two)" 'no | nobody') y=5 three || ! four; words=(nobody "$(five)"
          nobody) # nobody
        own() { six "$@"; }
        own && if [[ -n "$x" && nobody == "$(seven)" ]]; then eight; fi
        case "$(nine)" in
          nobody | none) ten ;;
          *) eleven >nobody 2>&1 </dev/null & ;;
        esac
        for nobody in nobody; do env -i A=b twelve; done < <(thirteen)
        ((${#words[@]} > nobody)) && command -v fourteen >/dev/null
        { exec 3<>"/nobody"; } 2>/dev/null && seventeen <<<nobody
        cat <<END
nobody | nobody
END
        "$x/nobody" "${x:-$(fifteen)}" \
          nobody; ./nobody
        awk '/nobody/ { nobody | nobody }
          nobody' && sixteen
    "##;
    let found = Shell::started_by(script);
    let mut expected =
        vec!["awk", "cat", "one", "two", "three", "four", "five", "six", "seven", "eight"];
    expected.extend([
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
    ]);
    expected.sort_unstable();
    assert_eq!(found, expected);
}
