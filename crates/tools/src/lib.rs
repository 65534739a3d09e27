//! The laboratory's commands of `lingua`: they look at a scheduler, use it, measure it and break it.
//!
//! In reading order: `cli` (what can be asked for), `node`, `dispatch` and `speak` (one part each), `terminal` (how much fits on it), `top`, `load`, `bench`,
//! `chaos`, and `demo`, which has a part of each. All of them stand on `lingua-lab` and call the scheduler
//! over the sockets that everybody uses; `sim` alone has schedulers of its own, those of `lingua-sim`. No build of the scheduler needs them: see the feature `tools` of `crates/lingua`.

mod advice;
mod bench;
mod chaos;
mod cli;
mod demo;
mod dispatch;
mod load;
mod node;
mod sim;
mod speak;
mod terminal;
mod top;

use std::process::ExitCode;

pub use cli::Command;

/// Runs a command.
pub fn run(command: Command) -> ExitCode {
    let level = match command {
        // What happens in there is shown otherwise.
        Command::Demo(_) | Command::Top(_) | Command::Sim(_) => "error",
        _ => "info",
    };
    lingua_server::run_logged(level, || match command {
        Command::Demo(options) => demo::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Node(options) => node::run(&options),
        Command::Dispatch(options) => dispatch::run(&options),
        Command::Speak(options) => speak::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Chaos(options) => chaos::run(*options),
        Command::Sim(options) => sim::run(options),
        Command::Bench { what } => bench::run(&what),
    })
}
