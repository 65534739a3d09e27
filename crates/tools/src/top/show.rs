//! What is shown: lines of text, each part of them in a tone. The same lines are drawn on a screen
//! and printed by `--once`.
//!
//! - [`frame`]: what is around a view: headline, tabs, keys. [`table`]: columns that fit.
//! - [`overview`], [`pairs`], [`nodes`], [`sessions`], [`instances`]: the views.

pub(crate) mod frame;
mod instances;
mod nodes;
mod overview;
mod pairs;
mod sessions;
mod table;

use crossterm::style::Color;

use super::state::{State, View};
use super::text::{Line, Span, Style};
use crate::terminal::{cells, cut};

/// Of plain text; wide enough that no column is left out.
const PLAIN_WIDTH: usize = 160;

/// What a piece of text is about. As on the dashboard: blue is well, yellow and orange scarce, red
/// is trouble, grey is nobody's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    Plain,
    Soft,
    Strong,
    Fine,
    Good,
    Tight,
    Full,
    Bad,
    Nobody,
}

/// How tones look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Without them, what matters is bold.
    pub(crate) colours: bool,
}

impl Palette {
    pub(crate) fn style(self, tone: Tone) -> Style {
        let colour = match tone {
            Tone::Plain | Tone::Soft | Tone::Strong => None,
            Tone::Fine => Some(Color::Green),
            Tone::Good => Some(Color::Blue),
            Tone::Tight => Some(Color::Yellow),
            Tone::Full => Some(Color::AnsiValue(208)),
            Tone::Bad => Some(Color::Red),
            Tone::Nobody => Some(Color::DarkGrey),
        };
        Style {
            colour: colour.filter(|_| self.colours),
            bold: matches!(tone, Tone::Strong | Tone::Bad),
            dim: tone == Tone::Soft,
            reversed: false,
        }
    }

    fn span(self, text: impl Into<String>, tone: Tone) -> Span {
        Span { text: text.into(), style: self.style(tone) }
    }

    fn line(self, text: impl Into<String>, tone: Tone) -> Line {
        Line::from(vec![self.span(text, tone)])
    }

    fn heading(self, text: &str) -> Line {
        self.line(text, Tone::Strong)
    }
}

/// A view, as wide as this and as long as it is.
pub(crate) fn view(state: &State, view: View, width: usize, palette: Palette) -> Vec<Line> {
    let Some(snapshot) = state.snapshot() else {
        return vec![palette.line("Waiting for the first figures…", Tone::Soft)];
    };
    match view {
        View::Overview => overview::lines(state, snapshot, width, palette),
        View::Pairs => pairs::lines(state, snapshot, width, palette),
        View::Nodes => nodes::lines(state, width, palette),
        View::Sessions => sessions::lines(state, width, palette),
        View::Instances => instances::lines(state, snapshot, width, palette),
    }
}

/// Everything as plain text.
pub(crate) fn plain(state: &State) -> String {
    let palette = Palette { colours: false };
    let mut lines = frame::headline(state, palette);
    for one in View::ALL {
        if one != View::Overview {
            lines.push(Line::default());
            lines.push(palette.heading(one.name()));
        }
        if one != View::Overview || state.snapshot().is_some() {
            lines.extend(view(state, one, PLAIN_WIDTH, palette));
        }
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.plain().trim_end());
        text.push('\n');
    }
    text
}

/// Breaks a sentence into lines of this width, between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && cells(last) + 1 + cells(word) > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests;
