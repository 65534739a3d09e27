//! The sample file, and what is in force.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Origin;
use super::options::{About, Config, Profile, SECTIONS};

/// A file with every option, its default and its reason.
pub(crate) fn sample() -> String {
    let config = Config::preset(Profile::default());
    let fast = Config::preset(Profile::Fast);
    let mut out = String::from(
        "# Lingua Scheduler: every option with its default.\n#\n\
         # An option that is not set has the value shown here. Its environment variable is LINGUA_ and the\n\
         # name in capitals, with _ for the dot: jobs.ack_ms is LINGUA_JOBS_ACK_MS. The command line takes\n\
         # precedence over the environment, and the environment over this file. `lingua config check`\n\
         # validates a file. Options marked (SIGHUP) can be changed without a restart.\n",
    );
    for section in SECTIONS {
        let _ = write!(out, "\n{}", comment(section.says));
        if !section.name.is_empty() {
            let _ = writeln!(out, "[{}]", section.name);
        }
        for option in section.options {
            let (value, other) = (option.print(&config), option.print(&fast));
            let mut says = option.says.trim().to_owned();
            if other != value && option.path != super::options::PROFILE {
                let _ = write!(says, " With \"fast\": {other}.");
            }
            if option.reloads {
                says.push_str(" (SIGHUP)");
            }
            let _ = write!(out, "\n{}{} = {value}\n", comment(&says), key(option));
        }
    }
    out
}

/// What is in force, and where it comes from; secrets are not shown.
pub(crate) fn effective(config: &Config, origins: &BTreeMap<&'static str, Origin>) -> String {
    let mut out = String::new();
    for section in SECTIONS {
        if !section.name.is_empty() {
            let _ = writeln!(out, "\n[{}]", section.name);
        }
        for option in section.options {
            let origin = origins.get(option.path).unwrap_or(&Origin::Default);
            let set = format!("{} = {}", key(option), option.print(config));
            let _ = match origin {
                Origin::Default => writeln!(out, "{set}"),
                origin => writeln!(out, "{set} # {origin}"),
            };
        }
    }
    out
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
