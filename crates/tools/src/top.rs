//! `lingua top`: the essentials of the dashboard in a terminal.
//!
//! It says what the page says, in the same words, and its colours mean the same. What is known and
//! what a key does to it is in [`state`], and what is shown of it in [`show`]: neither touches a
//! terminal or a socket. [`mod@line`] is the way to the scheduler, [`screen`] the terminal.
//!
//! - [`state`]: what is known, what is looked at. [`news`]: what comes from the scheduler.
//! - [`show`]: lines of text with a tone each; the screen has a part of them, `--once` all.
//! - [`text`]: lines in parts of a style each. [`words`]: how numbers and times are written.

mod line;
mod news;
mod screen;
mod show;
mod state;
mod text;
mod words;

use std::io::IsTerminal;

use crate::cli::{Failure, Top, runtime};
use line::Line;

/// Shows how everything stands, once or until it is ended.
pub(crate) fn run(options: &Top) -> Result<(), Failure> {
    let runtime = runtime()?;
    let token = lingua_server::client::token_of_environment()?;
    let line = Line::to(&options.url, token.as_deref(), options.authority.trust(&options.url)?)?;
    if options.json {
        let stats = runtime.block_on(line.text("/api/v1/stats")).map_err(Failure::failed)?;
        say(&stats);
        return Ok(());
    }
    if options.once || !std::io::stdout().is_terminal() {
        let state = runtime.block_on(line.once()).map_err(Failure::failed)?;
        say(&show::plain(&state));
        return Ok(());
    }
    let colours = std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty());
    runtime.block_on(screen::run(line, show::Palette { colours }))
}

/// A pipe whose reader has seen enough is no failure.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
}
