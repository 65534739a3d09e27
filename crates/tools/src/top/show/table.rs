//! Columns that fit: where there is no room for all, those that matter least are left out.

use super::super::text::Line;
use super::{Palette, Tone, cells, cut, wrapped};

/// Between two columns.
const GAP: usize = 2;

/// No column is cut shorter than this.
const LEAST: usize = 4;

/// A column.
pub(super) struct Column {
    pub(super) head: &'static str,
    /// 0 is always there; of the others the highest goes first.
    pub(super) rank: u8,
    pub(super) right: bool,
}

/// A column of words.
pub(super) const fn words(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: false }
}

/// A column of numbers.
pub(super) const fn numbers(head: &'static str, rank: u8) -> Column {
    Column { head, rank, right: true }
}

/// A row, and what is said below it.
pub(super) struct Row {
    pub(super) cells: Vec<(String, Tone)>,
    pub(super) below: Vec<(String, Tone)>,
}

impl From<Vec<(String, Tone)>> for Row {
    fn from(cells: Vec<(String, Tone)>) -> Self {
        Row { cells, below: Vec::new() }
    }
}

/// The heads and the rows.
pub(super) fn table(columns: &[Column], rows: &[Row], width: usize, palette: Palette) -> Vec<Line> {
    let shown = fitting(columns, rows, width);
    let cell = |text: &str, at: usize, room: usize, last: bool| {
        let text = cut(text, room);
        let space = " ".repeat(room - cells(&text));
        match (columns[at].right, last) {
            (true, _) => space + &text,
            (false, true) => text,
            (false, false) => text + &space,
        }
    };
    let line = |of: &dyn Fn(usize) -> (String, Tone)| {
        let mut spans = Vec::with_capacity(shown.len() * 2);
        for (place, (at, room)) in shown.iter().enumerate() {
            if place > 0 {
                spans.push(palette.span(" ".repeat(GAP), Tone::Plain));
            }
            let (text, tone) = of(*at);
            spans.push(palette.span(cell(&text, *at, *room, place + 1 == shown.len()), tone));
        }
        Line::from(spans)
    };
    let mut lines = vec![line(&|at| (columns[at].head.to_owned(), Tone::Soft))];
    for row in rows {
        lines.push(line(&|at| row.cells[at].clone()));
        for (text, tone) in &row.below {
            for (at, part) in wrapped(text, width.saturating_sub(4)).iter().enumerate() {
                let sign = if at == 0 { "└" } else { " " };
                lines.push(palette.line(cut(&format!("  {sign} {part}"), width), *tone));
            }
        }
    }
    lines
}

/// The columns that there is room for, each with its width.
fn fitting(columns: &[Column], rows: &[Row], width: usize) -> Vec<(usize, usize)> {
    let natural = |at: usize| {
        let widest = rows.iter().map(|row| cells(&row.cells[at].0)).max().unwrap_or(0);
        widest.max(cells(columns[at].head))
    };
    let mut shown: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, natural(at))).collect();
    let taken = |shown: &[(usize, usize)]| {
        shown.iter().map(|(_, room)| room).sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };
    while taken(&shown) > width {
        let least = shown.iter().enumerate().max_by_key(|(_, (at, _))| columns[*at].rank);
        match least {
            Some((place, (at, _))) if columns[*at].rank > 0 => {
                shown.remove(place);
            }
            _ => break,
        }
    }
    while taken(&shown) > width {
        let widest = shown.iter_mut().map(|(_, room)| room).max();
        match widest {
            Some(room) if *room > LEAST => *room -= 1,
            _ => break,
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: usize) -> Vec<String> {
        let columns = [words("Name", 0), numbers("Jobs", 1), words("Remark", 2)];
        let row = |name: &str, jobs: &str, remark: &str| {
            Row::from(vec![
                (name.to_owned(), Tone::Plain),
                (jobs.to_owned(), Tone::Plain),
                (remark.to_owned(), Tone::Plain),
            ])
        };
        let mut rows = vec![row("one", "5", "fine"), row("a-long-name", "1,234", "slow today")];
        rows[0].below.push(("more of it".to_owned(), Tone::Soft));
        let lines = table(&columns, &rows, width, Palette { colours: false });
        lines.iter().map(Line::plain).collect()
    }

    #[test]
    fn columns_stand_below_each_other() {
        assert_eq!(
            drawn(80),
            [
                "Name          Jobs  Remark",
                "one              5  fine",
                "  └ more of it",
                "a-long-name  1,234  slow today",
            ]
        );
    }

    #[test]
    fn where_it_is_narrow_the_least_is_left_out_and_then_names_are_cut() {
        let last = |width| drawn(width).pop().unwrap();
        assert_eq!(last(20), "a-long-name  1,234");
        assert_eq!(last(11), "a-long-name");
        assert_eq!(last(8), "a-long-…");
        assert!(drawn(8).iter().all(|line| cells(line) <= 8));
    }
}
