//! The list of what has to be installed, `scripts/needs`, has every program that a source starts, in a group that is
//! installed where it is started, and nothing that nobody starts.
//!
//! Sources are read as text. What is started by a name that is not written there has to be told here ([`BY_OTHER_NAMES`]).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

/// On every Debian: its essential packages, awk, and mount.
const BASE: &str = "awk basename bash cat chgrp chmod chown chroot chrt cp cut date dd df dirname du env expr find grep head \
    hostname id install ln ls mkdir mktemp mount mv nproc od paste perl printf readlink realpath rm rmdir sed seq \
    setpriv setsid sh sha256sum sleep sort split stat stty sync tac tail tar taskset tee test timeout touch tr true tty umount \
    uname uniq unshare wc xargs";

/// By the shell itself.
const BUILTINS: &str = ". : [ [[ alias break builtin cd compgen continue declare echo eval exit export false getopts hash jobs \
    kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt source test trap true type \
    ulimit umask unset wait";

/// What is tried out by scripts, and needed by none.
const TRIED: &str = "apt-get apt-config sudo";

/// Rust, what is built here, and what is in an environment of Python that a script made.
const OURS: &str = "cargo rustc rustup lingua pip pytest python ruff mypy";

/// File, what stands in `Command::new` there, and what it is by name.
const BY_OTHER_NAMES: [(&str, &str, &[&str]); 7] = [
    ("redis_server.rs", "&self.config.binary", &["redis-server"]),
    ("part.rs", "program", &["bash"]), // the scripts of the speech node
    ("instance.rs", "program", &[]),   // this and the next two: `lingua`
    ("process.rs", "program", &[]),
    ("top.rs", "LINGUA", &[]),
    ("redis_tls.rs", "std::env::current_exe()?", &[]),
    ("supply.rs", "program", &[]), // cargo and scripts/sbom
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

/// Reads a script word by word. It knows as much of the shell as these scripts use.
struct Shell<'a> {
    chars: Peekable<Chars<'a>>,
    commands: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// Where a here-document ends that begins with the next line.
    document: Option<String>,
}

/// What words mean at some place.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The next word is a command.
    Command,
    /// It is the name of a command: behind `command -v`.
    Name,
    Arguments,
    /// Within `[[` and `]]`, or the words of an array.
    Words,
    /// Between `case` and `in`.
    Subject,
    /// Of a `case`.
    Pattern,
}

impl<'a> Shell<'a> {
    fn started_by(script: &'a str) -> Vec<String> {
        let (commands, functions) = Default::default();
        let chars = script.chars().peekable();
        let mut shell = Shell { chars, commands, functions, document: None };
        shell.read(None, Place::Command);
        let Shell { commands, functions, .. } = shell;
        commands.difference(&functions).filter(|word| !is_one_of(BUILTINS, word)).cloned().collect()
    }

    fn skip_until(&mut self, end: char) {
        while self.chars.next().is_some_and(|c| c != end) {}
    }

    /// Up to the end of a parenthesis, or of the script.
    fn read(&mut self, end: Option<char>, begin: Place) {
        let (mut place, mut cases, mut word) = (begin, 0, String::new());
        // A word that is not written out: of a variable, or in quotes.
        let (mut is_made, mut option) = (false, false);
        loop {
            let c = self.chars.next();
            let ends_word = c.is_none_or(|c| " \t\n;|&()<>".contains(c));
            if ends_word && (is_made || !word.is_empty()) {
                let is_function = c == Some('(') && self.chars.peek() == Some(&')');
                if is_function {
                    self.functions.insert(word.clone());
                } else if !(c == Some('(') && word.ends_with('=')) {
                    place = self.meaning(&word, is_made, place, &mut cases, &mut option);
                }
            }
            let Some(c) = c else { return };
            match c {
                '\\' => {
                    // A line that goes on, or a character as it is.
                    if self.chars.next() != Some('\n') {
                        is_made = true;
                    }
                    continue;
                }
                '\'' => {
                    self.skip_until('\'');
                    is_made = true;
                    continue;
                }
                '"' => {
                    self.quoted();
                    is_made = true;
                    continue;
                }
                '$' => {
                    self.variable();
                    is_made = true;
                    continue;
                }
                '#' if word.is_empty() && !is_made => {
                    while self.chars.peek().is_some_and(|&c| c != '\n') {
                        self.chars.next();
                    }
                    continue;
                }
                '(' if self.chars.peek() == Some(&'(') => self.sum(),
                '(' if self.chars.peek() == Some(&')') => {
                    self.chars.next();
                }
                '(' if word.ends_with('=') => {
                    self.read(Some(')'), Place::Words);
                    word.clear();
                    is_made = true; // the assignment is a word of its own
                    place = Place::Command;
                    word.push('=');
                    continue;
                }
                '(' if place == Place::Words => self.read(Some(')'), Place::Words),
                '(' if place == Place::Pattern => {}
                '(' => self.read(Some(')'), Place::Command),
                ')' if place == Place::Pattern => place = Place::Command,
                ')' if end == Some(')') => return,
                '<' | '>' => self.redirection(c),
                '\n' | ';' | '|' | '&' => {
                    if c == '\n' {
                        self.skip_document();
                    }
                    let is_next_case = c == ';' && self.chars.next_if_eq(&';').is_some();
                    match place {
                        Place::Words | Place::Pattern | Place::Subject => {}
                        _ if is_next_case && cases > 0 => place = Place::Pattern,
                        _ => place = Place::Command,
                    }
                    option = false;
                }
                c if !ends_word => {
                    word.push(c);
                    continue;
                }
                _ => {}
            }
            word.clear();
            is_made = false;
        }
    }

    /// What the words behind this one are.
    fn meaning(
        &mut self,
        word: &str,
        is_made: bool,
        place: Place,
        cases: &mut i32,
        option: &mut bool,
    ) -> Place {
        match (place, word) {
            (Place::Words, "]]") => Place::Arguments,
            (Place::Subject, "in") => Place::Pattern,
            (Place::Pattern, "esac") => {
                *cases -= 1;
                Place::Arguments
            }
            (Place::Name, word) if word.starts_with('-') => Place::Name,
            (Place::Name, word) => {
                if !is_made {
                    self.commands.insert(word.to_owned());
                }
                Place::Arguments
            }
            (Place::Command, "case") => {
                *cases += 1;
                Place::Subject
            }
            (Place::Command, "[[") => Place::Words,
            (Place::Command, "for" | "select") => Place::Arguments,
            (Place::Command, "command" | "type") => Place::Name,
            (
                Place::Command,
                "if" | "then" | "elif" | "else" | "fi" | "do" | "done" | "while" | "until" | "!"
                | "{" | "}" | "time",
            ) => Place::Command,
            (Place::Command, "exec" | "env" | "sudo") => {
                *option = true;
                Place::Command
            }
            (Place::Command, word) if *option && word.starts_with('-') => Place::Command,
            (Place::Command, word) if word.contains('=') => Place::Command,
            (Place::Command, word) => {
                let is_name =
                    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-._".contains(c);
                let begins = word.starts_with(|c: char| c.is_ascii_lowercase());
                if !is_made && begins && word.chars().all(is_name) {
                    self.commands.insert(word.to_owned());
                }
                Place::Arguments
            }
            (place, _) => place,
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '"' => return,
                '\\' => drop(self.chars.next()),
                '$' => self.variable(),
                _ => {}
            }
        }
    }

    /// Behind a `$`.
    fn variable(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                match self.chars.peek() {
                    Some('(') => self.sum(),
                    _ => self.read(Some(')'), Place::Command),
                }
            }
            Some('{') => {
                self.chars.next();
                while let Some(c) = self.chars.next() {
                    match c {
                        '}' => return,
                        '\\' => drop(self.chars.next()),
                        '$' => self.variable(),
                        '"' => self.quoted(),
                        _ => {}
                    }
                }
            }
            // `$#` begins no remark.
            Some('#') => drop(self.chars.next()),
            _ => {}
        }
    }

    /// Behind the first of two parentheses: numbers, and no commands.
    fn sum(&mut self) {
        let mut depth = 1;
        while depth > 0
            && let Some(c) = self.chars.next()
        {
            depth += i32::from(c == '(') - i32::from(c == ')');
        }
    }

    fn redirection(&mut self, first: char) {
        if self.chars.next_if_eq(&'(').is_some() {
            return self.read(Some(')'), Place::Command);
        }
        let mut signs = String::from(first);
        while let Some(sign) = self.chars.next_if(|c| "<>&|".contains(*c)) {
            signs.push(sign);
        }
        if signs == "<<" && self.chars.peek().is_some_and(|c| *c != ' ') {
            let mut name = String::new();
            while let Some(c) = self.chars.next_if(|c| !c.is_whitespace()) {
                name.push(c);
            }
            self.document = Some(name.trim_matches(['\'', '"', '-']).to_owned());
            return;
        }
        // The file is no command.
        while self.chars.next_if_eq(&' ').is_some() {}
        while let Some(&c) = self.chars.peek()
            && !" \t\n;|&()<>".contains(c)
        {
            self.chars.next();
            match c {
                '"' => self.quoted(),
                '$' => self.variable(),
                _ => {}
            }
        }
    }

    fn skip_document(&mut self) {
        let Some(end) = self.document.take() else { return };
        loop {
            let mut line = String::new();
            while let Some(c) = self.chars.next()
                && c != '\n'
            {
                line.push(c);
            }
            if line.trim() == end || self.chars.peek().is_none() {
                return;
            }
        }
    }
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
        if interpreter == Some("bash") && text.contains(" -m venv ") {
            programs.push("python3:ensurepip".to_owned());
        }
        all.entry(file).or_default().extend(programs);
    }
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let operations = read("docs/OPERATIONS.md");
    let tls = operations.split("\n## ").find(|chapter| chapter.starts_with("TLS\n")).unwrap();
    for (page, text) in
        [("docs/TUTORIAL.md", &*read("docs/TUTORIAL.md")), ("docs/OPERATIONS.md", tls)]
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
    const PLACES: [(&str, &[&str]); 5] = [
        ("crates/", &["build", "tests"]),
        ("docs/", &["build", "tests"]),
        ("scripts/sbom", &["tests"]),
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
    // Of scripts/install-needs, by its name or by the variable that setup.sh has for it.
    let is_call =
        |line: &&str| line.contains("scripts/install-needs ") || line.contains("\"$install\" ");
    let scripts = sources.values().filter(|text| text.starts_with("#!/usr/bin/env bash"));
    let lines = scripts.flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let calls: Vec<&str> = lines.filter(is_call).collect();
    let mut seen = BTreeSet::new();
    for Need { needed, groups } in needs() {
        // What Rust needs beside a compiler is named by no source.
        let is_used = match Path::new(&needed).parent().and_then(Path::to_str) {
            Some("") | None => started.values().any(|programs| programs.contains(&needed)),
            Some(directory) => groups.contains("build") || says(&format!("\"{directory}\"")),
        };
        assert!(is_used, "scripts/needs lists {needed}, and nobody uses it");
        for group in groups {
            let is_installed =
                calls.iter().any(|call| call.split_whitespace().any(|word| word == group));
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
