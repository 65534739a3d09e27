//! Lines of text, each part of them in a style.

use crossterm::style::Color;

use crate::terminal::{beginning, cells};

/// How a part looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Style {
    pub(crate) colour: Option<Color>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) reversed: bool,
}

/// A part of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Line {
    pub(crate) spans: Vec<Span>,
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Line { spans }
    }
}

impl Line {
    /// The beginning that fits into so many cells. What a terminal would obey is left out.
    pub(crate) fn cut(&self, width: usize) -> Self {
        let mut room = width;
        let fitting = self.spans.iter().map_while(|span| {
            let text: String = span.text.chars().filter(|letter| !letter.is_control()).collect();
            let text = beginning(&text, room).to_owned();
            let is_whole = text.len() == span.text.len();
            room = if is_whole { room - cells(&text) } else { 0 };
            (is_whole || !text.is_empty()).then_some(Span { text, style: span.style })
        });
        Line { spans: fitting.collect() }
    }

    /// Its text alone.
    pub(crate) fn plain(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(texts: &[&str]) -> Line {
        let span = |text: &&str| Span { text: (*text).to_owned(), style: Style::default() };
        Line::from(texts.iter().map(span).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_is_cut_where_the_room_ends() {
        assert_eq!(line(&["abc", "def"]).cut(4), line(&["abc", "d"]));
        assert_eq!(line(&["abc", "def"]).cut(6), line(&["abc", "def"]));
        assert_eq!(line(&["a语", "x"]).cut(2), line(&["a"]), "half of a sign is none of it");
        assert_eq!(line(&["abc"]).cut(0), line(&[]));
    }

    #[test]
    fn what_moves_the_cursor_is_left_out() {
        assert_eq!(line(&["a\u{1b}[2J\nb", "c"]).cut(80).plain(), "a[2Jb");
    }
}
