//! `lingua`: the scheduler, and with the feature `tools` the laboratory around it.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::Cli::parse().run()
}
