//! The whole command line.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use lingua_server::{Command as Product, Serve};

const COMPLETIONS: &str = "\
Examples:
  source <(lingua completions bash)                                      the current shell only
  lingua completions bash > /usr/share/bash-completion/completions/lingua
  lingua completions zsh > ~/.zfunc/_lingua";

/// The control plane of a real-time speech translation platform.
///
/// Without a command it runs `lingua serve`.
#[derive(Debug, Parser)]
#[command(name = "lingua", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Product(Product),

    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Which shell
        shell: Shell,
    },

    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(lingua_tools::Command),

    #[cfg(not(feature = "tools"))]
    #[command(external_subcommand)]
    Other(Vec<std::ffi::OsString>),
}

impl Cli {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            None => lingua_server::run(Product::Serve(self.serve)),
            Some(Command::Product(command)) => lingua_server::run(command),
            Some(Command::Completions { shell }) => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "lingua", &mut script);
                lingua_server::say!("{}", String::from_utf8_lossy(&script).trim_end());
                ExitCode::SUCCESS
            }
            #[cfg(feature = "tools")]
            Some(Command::Tool(command)) => lingua_tools::run(command),
            #[cfg(not(feature = "tools"))]
            Some(Command::Other(words)) => {
                lingua_server::run_logged("info", || Err(absent::command(&words)))
            }
        }
    }
}

/// Commands that are not in this build.
#[cfg(any(test, not(feature = "tools")))]
mod absent {
    use std::ffi::OsString;

    use lingua_server::Failure;

    /// What the feature `tools` adds.
    const TOOLS: [&str; 9] =
        ["demo", "top", "node", "dispatch", "speak", "load", "chaos", "sim", "bench"];

    /// Why there is no such command, and where to find it.
    pub(super) fn command(words: &[OsString]) -> Failure {
        let name = words.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        Failure::usage(why(&name))
    }

    fn why(name: &str) -> String {
        if TOOLS.contains(&name) {
            return format!(
                "this build has no {name}: it was made without the feature \"tools\". A build with it has the \
                 command: cargo build --release --package lingua"
            );
        }
        format!("there is no command {name}; lingua --help lists those of this build")
    }

    #[cfg(test)]
    mod tests {
        use clap::CommandFactory;

        use super::*;

        #[test]
        fn a_command_of_another_build_is_named_with_that_build() {
            assert!(why("demo").contains("feature \"tools\""), "{}", why("demo"));
            assert!(why("dmeo").contains("there is no command dmeo"), "{}", why("dmeo"));
            let refused = format!("{:?}", command(&["demo".into(), "--faults".into()]));
            assert!(refused.contains("cargo build --release --package lingua"), "{refused}");
        }

        #[cfg(feature = "tools")]
        #[test]
        fn the_list_is_what_the_feature_adds() {
            let product = [
                "serve",
                "config",
                "token",
                "audit",
                "probe",
                "nodes",
                "drain",
                "resume",
                "block",
                "sessions",
                "disconnect",
                "jobs",
                "job",
                "cancel",
                "explain",
                "completions",
            ];
            let all = crate::cli::Cli::command();
            let mut added: Vec<&str> = all.get_subcommands().map(|one| one.get_name()).collect();
            added.retain(|name| !product.contains(name));
            added.sort_unstable();
            let mut listed = TOOLS.to_vec();
            listed.sort_unstable();
            assert_eq!(added, listed);
        }
    }
}
