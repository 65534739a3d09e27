//! How the scheduler is set up: one file, the environment, the command line.
//!
//! - `options`: every option with its help text, its bounds and its place, a file per section. All else follows:
//!   the file that is read, the sample that is printed, the names in the environment.
//! - `setting`: the kinds of values. `file`: TOML into values, each with its line.
//! - `older`: a file of the older scheduler, which is not read. `check`: what must fit together. `print`: the sample, and what is in force.
//! - `reload`: what may change while it runs.
//!
//! What comes later wins: the profile's defaults, the file, `LINGUA_…`, the command line. A file
//! with a name that is not an option is refused, and so is a value out of bounds; every problem is
//! told at once, with its place.

#[allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::bare_urls,
    reason = "these comments are the text of the sample file"
)]
mod options;
mod setting;
mod file;
mod older;
mod check;
mod print;
mod reload;

pub(crate) use check::kid;
pub(crate) use older::warn_of_older_file;
pub(crate) use options::{Config, Limits, Profile};
pub(crate) use print::{effective, sample};
pub(crate) use reload::changes;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use setting::Raw;

/// What the names in the environment begin with.
const PREFIX: &str = "LINGUA_";

/// Names in the environment that other commands and tests go by.
const OTHERS: [&str; 13] = [
    "LINGUA_BIN",
    "LINGUA_CA",
    "LINGUA_CHAOS_SECONDS",
    "LINGUA_CONFIG",
    "LINGUA_FUZZ_CASES",
    "LINGUA_LOG",
    "LINGUA_MODEL_CASES",
    "LINGUA_NODE_TOKEN",
    "LINGUA_PROPTEST_CASES",
    "LINGUA_SOAK_SECONDS",
    "LINGUA_TOKEN",
    "LINGUA_TOKEN_FILE",
    "LINGUA_URL",
];

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Of the profile.
    Default,
    /// A line of the file.
    File(usize),
    /// This name in the environment.
    Environment(String),
    /// A flag, or the environment by way of it.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(line) => write!(f, "line {line}"),
            Origin::Environment(name) => f.write_str(name),
            Origin::CommandLine => f.write_str("command line or environment"),
        }
    }
}

/// What was asked for from outside: the file's path, and what the command line says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) file: Option<PathBuf>,
    /// By the paths of the options; they win over all else.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// A configuration that fits, and where each of its values comes from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) origins: BTreeMap<&'static str, Origin>,
    /// Names in the environment that look like ours and are not.
    pub(crate) strangers: Vec<String>,
}

/// Everything that is wrong with a configuration, each with its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "the configuration has an error: {one}"),
            several => {
                write!(f, "the configuration has {} errors:", several.len())?;
                several.iter().try_for_each(|one| write!(f, "\n  - {one}"))
            }
        }
    }
}

impl Asked {
    /// Reads all of it with this environment.
    pub(crate) fn load(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Loaded, Problems> {
        let mut problems = Vec::new();
        let mut wishes = Vec::new();
        if let Some(path) = &self.file {
            match read(path) {
                Ok(text) => {
                    wishes = file::values(&text, path, &mut problems);
                    problems.extend(older::hint(&text).map(|hint| {
                        format!("{} is of the older scheduler: {hint}", path.display())
                    }));
                }
                Err(problem) => problems.push(problem),
            }
        }
        let mut strangers = Vec::new();
        for (name, value) in environment.filter(|(name, _)| name.starts_with(PREFIX)) {
            match options::names().find(|path| environment_name(path) == name) {
                Some(path) => {
                    wishes.push((path, Raw::Text(value), Origin::Environment(name)));
                }
                None if OTHERS.contains(&name.as_str()) => {}
                None => strangers.push(stranger(&name)),
            }
        }
        for (path, value) in &self.flags {
            wishes.push((path, Raw::Text(value.clone()), Origin::CommandLine));
        }
        let loaded = settle(wishes, self.file.as_deref(), &mut problems);
        problems.extend(check::problems(&loaded.config));
        match problems.is_empty() {
            true => Ok(Loaded { strangers, ..loaded }),
            false => Err(Problems(problems)),
        }
    }
}

/// Reads a file of this text, without an environment and flags.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn of_text(text: &str) -> Result<Loaded, Problems> {
    let (path, mut problems) = (Path::new("file"), Vec::new());
    let loaded = settle(file::values(text, path, &mut problems), Some(path), &mut problems);
    problems.extend(check::problems(&loaded.config));
    if problems.is_empty() { Ok(loaded) } else { Err(Problems(problems)) }
}

/// Puts wishes over the defaults of the profile that they name.
fn settle(
    wishes: Vec<(&'static str, Raw, Origin)>,
    file: Option<&Path>,
    problems: &mut Vec<String>,
) -> Loaded {
    // The last word on the profile says which defaults the others are put over.
    let profile = wishes.iter().rev().find(|(path, ..)| *path == options::PROFILE);
    let profile = profile.and_then(|(_, raw, _)| Profile::of(raw)).unwrap_or_default();
    let mut config = Config::preset(profile);
    let mut origins = BTreeMap::new();
    for (path, raw, origin) in wishes {
        if let Err(why) = config.set(path, &raw) {
            let place = match (&origin, file) {
                (Origin::File(line), Some(file)) => format!("{}, line {line}", file.display()),
                (origin, _) => origin.to_string(),
            };
            problems.push(format!("{place}: {path} {why}"));
        }
        origins.insert(path, origin);
    }
    Loaded { config, origins, strangers: Vec::new() }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of an option in the environment.
pub(crate) fn environment_name(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_uppercase())
}

fn stranger(name: &str) -> String {
    let names: Vec<String> = options::names().map(environment_name).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("{name} is not an option; did you mean {near}?"),
        None => format!("{name} is not an option"),
    }
}

/// The right name that was probably meant.
fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let alike = among.map(|other| (strsim::jaro_winkler(name, other), other));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, other)| other)
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Failure::refused(problems.to_string())
    }
}

#[cfg(test)]
mod tests;
