//! Standard output and standard error of a command.
//!
//! Whoever reads may go away at any time (`lingua nodes | head -1`). `println!` panics then; here a command whose
//! reader is gone ends quietly, as other programs do.

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// Says a line on standard output.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::out::say_line(format_args!($($arg)*)) };
}

/// Says a line on standard error, about the work.
#[macro_export]
macro_rules! remark {
    ($($arg:tt)*) => { $crate::out::remark_line(format_args!($($arg)*)) };
}

pub(crate) use {remark, say};

/// Says a line on standard output. If nobody reads it any more the process ends, with 0.
pub fn say_line(line: fmt::Arguments<'_>) {
    if is_gone(&writeln!(io::stdout().lock(), "{line}")) {
        std::process::exit(0);
    }
}

/// Says a line on standard error. If nobody reads it the work goes on.
pub fn remark_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Nobody reads what was written. Other errors, such as a full disk, are not told either: there is nowhere to tell
/// them, and the exit code is about the work.
fn is_gone(written: &io::Result<()>) -> bool {
    matches!(written, Err(error) if error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_is_gone_ends_a_command() {
        assert!(is_gone(&Err(ErrorKind::BrokenPipe.into())));
        assert!(!is_gone(&Err(ErrorKind::StorageFull.into())));
        assert!(!is_gone(&Ok(())));
    }
}
