//! The terminal: taken over, drawn on, and given back as it was however this ends.

use std::io::{Result, Stdout, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Attributes, ContentStyle, PrintStyledContent};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::text::{Line, Style};

/// A terminal of ours; given back when this is dropped, and before a panic is told.
pub(super) struct Terminal {
    out: Stdout,
    size: (u16, u16),
    /// Its lines as they are: only what changes is written.
    shown: Vec<Line>,
}

impl Terminal {
    pub(super) fn take() -> Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        let mut terminal = Terminal { out: std::io::stdout(), size: (0, 0), shown: Vec::new() };
        execute!(terminal.out, EnterAlternateScreen, Hide)?;
        Ok(terminal)
    }

    /// Shows the lines that are made for its width and height.
    pub(super) fn draw(&mut self, lines: impl FnOnce(usize, usize) -> Vec<Line>) -> Result<()> {
        let size = size()?;
        let (width, height) = (usize::from(size.0), usize::from(size.1));
        let lines: Vec<Line> =
            lines(width, height).into_iter().take(height).map(|line| line.cut(width)).collect();
        queue!(self.out, BeginSynchronizedUpdate)?;
        if self.size != size {
            queue!(self.out, Clear(ClearType::All))?;
            (self.size, self.shown) = (size, Vec::new());
        }
        for (row, line) in (0..size.1).zip(&lines) {
            if self.shown.get(usize::from(row)) != Some(line) {
                queue!(self.out, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
                for span in &line.spans {
                    let styled = style(span.style).apply(span.text.as_str());
                    queue!(self.out, PrintStyledContent(styled))?;
                }
            }
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.shown = lines;
        self.out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// One that is gone needs nothing.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(std::io::stdout(), LeaveAlternateScreen, Show);
}

fn style(style: Style) -> ContentStyle {
    let attributes = [
        (style.bold, Attribute::Bold),
        (style.dim, Attribute::Dim),
        (style.reversed, Attribute::Reverse),
    ];
    let attributes: Attributes = attributes
        .into_iter()
        .filter_map(|(wanted, attribute)| wanted.then_some(attribute))
        .fold(Attributes::none(), Attributes::with);
    ContentStyle { foreground_color: style.colour, attributes, ..ContentStyle::default() }
}
