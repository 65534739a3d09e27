//! `lingua`, see the library of the same crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    lingua_server::run()
}
