//! The sample file, and what is in force.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Origin;
use super::options::{ALL, About, Config, Profile};

/// A file with every option, its default and its reason.
pub(crate) fn sample() -> String {
    let config = Config::preset(Profile::default());
    let fast = Config::preset(Profile::Fast);
    let mut out = String::from(
        "# Lingua Scheduler: every option with its default.\n#\n\
         # An option that is left out has the value shown here. In the environment it is LINGUA_ and its\n\
         # name in capitals, with _ for the dot: jobs.ack_ms is LINGUA_JOBS_ACK_MS. The command line wins\n\
         # over the environment, the environment over this file. `lingua config check` reads it without\n\
         # starting anything. What is marked (SIGHUP) may change while the scheduler runs.\n",
    );
    for (option, begins) in with_sections() {
        if begins {
            let _ = write!(out, "\n{}", comment(option.section_says));
            if !option.section.is_empty() {
                let _ = writeln!(out, "[{}]", option.section);
            }
        }
        let value = config.print(option.path);
        let other = fast.print(option.path);
        let mut says = option.says.trim().to_owned();
        if other != value && option.path != super::options::PROFILE {
            let _ = write!(says, " With \"fast\": {other}.");
        }
        if option.reloads {
            says.push_str(" (SIGHUP)");
        }
        let _ = write!(out, "\n{}{} = {value}\n", comment(&says), key(option));
    }
    out
}

/// What is in force, and where it comes from; secrets are not shown.
pub(crate) fn effective(config: &Config, origins: &BTreeMap<&'static str, Origin>) -> String {
    let mut out = String::new();
    for (option, begins) in with_sections() {
        if begins && !option.section.is_empty() {
            let _ = writeln!(out, "\n[{}]", option.section);
        }
        let origin = origins.get(option.path).unwrap_or(&Origin::Default);
        let set = format!("{} = {}", key(option), config.print(option.path));
        let _ = match origin {
            Origin::Default => writeln!(out, "{set}"),
            origin => writeln!(out, "{set} # {origin}"),
        };
    }
    out
}

/// Each option, and whether its section begins with it.
fn with_sections() -> impl Iterator<Item = (&'static About, bool)> {
    let mut last = None;
    ALL.iter().map(move |option| {
        let begins = last != Some(option.section);
        last = Some(option.section);
        (option, begins)
    })
}

fn key(option: &About) -> &'static str {
    option.path.rsplit('.').next().unwrap_or(option.path)
}

/// Words as a comment of lines that are not too long.
fn comment(text: &str) -> String {
    const WIDTH: usize = 98;
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it begins with one");
        if line.len() + word.len() >= WIDTH {
            lines.push(format!("# {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
