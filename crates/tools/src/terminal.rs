//! What a terminal has room for, and a line at its end that is always new.

use std::io::{IsTerminal, Write};

use parking_lot::Mutex;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Of a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// How many cells a text takes.
pub(crate) fn cells(text: &str) -> usize {
    text.width()
}

/// The beginning of a text that fits into so many cells.
pub(crate) fn beginning(text: &str, width: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, letter)| {
        taken += letter.width().unwrap_or(0);
        taken > width
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// A text that takes at most so many cells.
pub(crate) fn cut(text: &str, width: usize) -> String {
    match cells(text) <= width {
        true => text.to_owned(),
        false if width == 0 => String::new(),
        false => format!("{}…", beginning(text, width - 1)),
    }
}

/// The last line of the terminal on standard error; nothing if there is no terminal.
pub(crate) struct StatusLine {
    is_live: bool,
    shown: Mutex<String>,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        StatusLine { is_live: std::io::stderr().is_terminal(), shown: Mutex::default() }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Replaces its text; an empty one takes it away.
    pub(crate) fn show(&self, text: &str) {
        let mut shown = self.shown.lock();
        text.clone_into(&mut shown);
        self.draw(&shown);
    }

    /// Lets something be printed above it.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        let shown = self.shown.lock();
        self.draw("");
        print();
        self.draw(&shown);
    }

    fn draw(&self, text: &str) {
        if self.is_live {
            let width = crossterm::terminal::size().map_or(USUAL_WIDTH, |(width, _)| width.into());
            // Nobody need be there to read it. The last cell is left free: some terminals would begin a line behind it.
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[2K{}", cut(text, width.saturating_sub(1)));
            let _ = out.flush();
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if !self.shown.lock().is_empty() {
            self.show("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_cells() {
        assert_eq!((cells("abc"), cells("语言"), cells("")), (3, 4, 0));
        assert_eq!((cut("abcdef", 6), cut("abcdef", 4)), ("abcdef".into(), "abc…".into()));
        assert_eq!((cut("语言对", 4), cut("语言", 4)), ("语…".into(), "语言".into()));
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), String::new()));
        assert_eq!((beginning("语言", 3), beginning("ab", 9)), ("语", "ab"));
    }
}
