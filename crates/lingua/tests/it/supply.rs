//! What we build on: allowed licences, one source, nothing twice that is not known, and a true list of it.
//!
//! `cargo deny` says the same and takes minutes to install; here the gate needs only cargo. Advisories are its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Name and version.
type Package = (String, String);

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).current_dir(root()).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn metadata() -> Vec<Value> {
    let text = output(env!("CARGO"), &["metadata", "--locked", "--format-version=1"]);
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(packages) = all["packages"].take() else { panic!("cargo names no packages") };
    assert!(packages.len() > 100);
    packages
}

fn rules() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn package(value: &Value) -> Package {
    let field = |name: &str| value[name].as_str().unwrap().to_owned();
    (field("name"), field("version"))
}

/// Whether one who allows these may use what stands under this licence.
fn allows(allowed: &BTreeSet<&str>, expression: &str) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let is_allowed = any(allowed, &mut words);
    is_allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(allowed: &BTreeSet<&str>, words: &mut Words<'_>) -> bool {
    let mut holds = all(allowed, words);
    while words.next_if_eq(&"OR").is_some() {
        holds |= all(allowed, words);
    }
    holds
}

fn all(allowed: &BTreeSet<&str>, words: &mut Words<'_>) -> bool {
    let mut holds = one(allowed, words);
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(allowed, words);
    }
    holds
}

fn one(allowed: &BTreeSet<&str>, words: &mut Words<'_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let holds = any(allowed, words);
        return words.next() == Some(")") && holds;
    }
    let Some(name) = words.next() else { return false };
    match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
        Some(exception) => allowed.contains(format!("{name} WITH {exception}").as_str()),
        None => allowed.contains(name),
    }
}

#[test]
fn licences_are_read_as_they_are_written() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for right in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "MIT AND (GPL-3.0 OR ISC)",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(allows(&allowed, right), "{right}");
    }
    for wrong in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT AND (GPL-3.0", "Apache-2.0", "MIT MIT"] {
        assert!(!allows(&allowed, wrong), "{wrong}");
    }
}

#[test]
fn every_package_has_an_allowed_licence_and_comes_from_the_registry() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<&str> = allowed.iter().map(|name| name.as_str().unwrap()).collect();
    for about in metadata() {
        let licence = about["license"].as_str().unwrap_or_default();
        assert!(allows(&allowed, licence), "{:?} is under {licence:?}", package(&about));
        let source = about["source"].as_str();
        let is_ours = source.is_none() && about["name"].as_str().unwrap().starts_with("lingua");
        assert!(is_ours || source == Some(REGISTRY), "{:?} is from {source:?}", package(&about));
    }
}

#[test]
fn nothing_is_there_twice_but_what_is_listed_and_nothing_that_is_banned() {
    let rules = rules();
    let bans = &rules["bans"];
    let listed = |of: &str, field: &str| -> Vec<String> {
        let all = bans[of].as_array().unwrap().iter();
        all.map(|one| one[field].as_str().unwrap().to_owned()).collect()
    };
    let known: Vec<Package> =
        listed("skip", "name").into_iter().zip(listed("skip", "version")).collect();
    let is_known = |(name, version): &Package| {
        let fits = |prefix: &str| version.starts_with(&format!("{prefix}."));
        known.iter().any(|(other, prefix)| other == name && fits(prefix))
    };
    let packages: BTreeSet<Package> = metadata().iter().map(package).collect();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version) in packages.iter().filter(|package| !is_known(package)) {
        versions.entry(name).or_default().push(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert!(versions.is_empty(), "several versions, and not in deny.toml: {versions:?}");
    for (name, prefix) in &known {
        let there = packages.iter().any(|package| package.0 == *name && is_known(package));
        assert!(there, "{name} {prefix} is gone: take it out of deny.toml");
    }
    for banned in listed("deny", "crate") {
        assert!(!packages.iter().any(|(name, _)| *name == banned), "{banned} is banned");
    }
}

#[test]
fn the_bill_of_materials_holds_what_the_binary_links_and_no_more() {
    let text = output("./scripts/sbom", &[]);
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "lingua");
    let linked = output(
        env!("CARGO"),
        &[
            "tree",
            "--locked",
            "--package=lingua-server",
            "--edges=normal,no-proc-macro",
            "--target=x86_64-unknown-linux-gnu",
            "--prefix=none",
        ],
    );
    let linked: BTreeSet<Package> = linked
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap().to_owned()))
        .collect();
    let components = bill["components"].as_array().unwrap();
    let told: Vec<Package> =
        components.iter().chain([&bill["metadata"]["component"]]).map(package).collect();
    let named = |(name, version): Package| match name.as_str() {
        "lingua" => ("lingua-server".to_owned(), version),
        _ => (name, version),
    };
    let told: Vec<Package> = told.into_iter().map(named).collect();
    assert_eq!(told.len(), linked.len(), "each once");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), linked);

    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    let locked: BTreeMap<Package, Option<&str>> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let field = |name: &str| one[name].as_str().unwrap().to_owned();
            let checksum = one.get("checksum").map(|checksum| checksum.as_str().unwrap());
            ((field("name"), field("version")), checksum)
        })
        .collect();
    let refs: BTreeSet<&str> =
        components.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
    for one in components {
        let (name, version) = package(one);
        assert_eq!(one["purl"], format!("pkg:cargo/{name}@{version}"));
        assert!(!one["licenses"][0]["expression"].as_str().unwrap().is_empty(), "{name}");
        let checksum = one["hashes"][0]["content"].as_str();
        assert_eq!(checksum, locked[&(name.clone(), version)], "{name}");
        assert!(checksum.is_some() || name.starts_with("lingua-"), "{name} has no checksum");
    }
    for edge in bill["dependencies"].as_array().unwrap() {
        for on in edge["dependsOn"].as_array().unwrap() {
            assert!(refs.contains(on.as_str().unwrap()), "{on} is needed and not listed");
        }
    }
    assert_eq!(output("./scripts/sbom", &[]), text, "the same sources give the same bytes");
}

/// Packages of a lock file: what each has under it, by name and version.
fn locked(file: &str) -> BTreeMap<Package, BTreeSet<String>> {
    let lock: toml::Table = std::fs::read_to_string(root().join(file)).unwrap().parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let packages = lock["package"].as_array().unwrap().iter().map(|package| {
        let below = package.get("dependencies").and_then(toml::Value::as_array);
        let below = below.into_iter().flatten().map(text);
        let names = below.map(|one| one.split(' ').next().unwrap().to_owned()).collect();
        ((text(&package["name"]), text(&package["version"])), names)
    });
    packages.collect()
}

/// `scripts/fuzz` takes no other versions than those in its lock file, which nothing else looks at.
#[test]
fn what_is_fuzzed_is_what_is_built() {
    let (built, fuzzed) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
    let engine = [
        "arbitrary",
        "cc",
        "find-msvc-tools",
        "jobserver",
        "libfuzzer-sys",
        "lingua-fuzz",
        "shlex",
    ];
    let other: Vec<&Package> = fuzzed
        .keys()
        .filter(|package| !built.contains_key(package) && !engine.contains(&package.0.as_str()))
        .collect();
    assert!(other.is_empty(), "fuzz/Cargo.lock has other versions: {other:?}");
    for name in ["core", "engine", "http-client", "server", "store"] {
        let manifest = root().join(format!("crates/{name}/Cargo.toml"));
        let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        let wanted = manifest["dependencies"].as_table().unwrap();
        let has = fuzzed.iter().find(|((package, _), _)| *package == format!("lingua-{name}"));
        let (_, has) = has.unwrap_or_else(|| panic!("fuzz/Cargo.lock lacks lingua-{name}"));
        let missing: Vec<&String> = wanted.keys().filter(|name| !has.contains(*name)).collect();
        assert!(missing.is_empty(), "fuzz/Cargo.lock: lingua-{name} lacks {missing:?}");
    }
}

/// Old flaws that can be switched on are in the builds of tests alone.
#[test]
fn no_flaw_can_be_planted_in_what_is_handed_out() {
    let core = |package: &str, edges: &str| -> Vec<String> {
        let (package, edges) = (format!("--package={package}"), format!("--edges={edges}"));
        let form = ["--prefix=none", "--format={p} [{f}]"];
        let tree = output(
            env!("CARGO"),
            &["tree", "--locked", "--target=all", &package, &edges, form[0], form[1]],
        );
        let core = tree.lines().filter(|line| line.starts_with("lingua-core "));
        core.map(str::to_owned).collect()
    };
    let planted = |line: &String| line.contains("planted]") || line.contains("planted,");
    let product = core("lingua", "no-dev");
    assert!(!product.is_empty() && !product.iter().any(planted), "{product:?}");
    let tested = core("lingua-engine", "normal,dev");
    assert!(tested.iter().any(planted), "this test sees the feature where it is: {tested:?}");
}
