//! Tables for people.

/// Columns as wide as their widest cell, two spaces apart; the last one is not filled up.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| {
        let cells = all().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let fill = width - cell.chars().count() + 2;
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line.trim_end().to_owned()
    };
    all().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            [vec!["a".to_owned(), "ready".to_owned()], vec!["länger".to_owned(), "-".to_owned()]];
        assert_eq!(table(&["node", "state"], &rows), "node    state\na       ready\nlänger  -");
        assert_eq!(table(&["node", "state"], &[]), "node  state");
    }
}
