//! Tables of text, for the screen.

use std::fmt::{self, Display, Formatter};

/// Rows of cells below a heading, each column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new<const COLUMNS: usize>(heading: [&str; COLUMNS]) -> Self {
        Self { heading: heading.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// One with all its rows.
    pub(crate) fn of(heading: Vec<String>, rows: Vec<Vec<String>>) -> Self {
        Self { heading, rows }
    }

    /// Adds a row; cells beyond the heading's are not shown.
    pub(crate) fn push<const COLUMNS: usize>(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        std::iter::once(&self.heading)
            .chain(&self.rows)
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let widths: Vec<_> = (0..self.heading.len()).map(|column| self.width(column)).collect();
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect();
        for row in [&self.heading, &rule].into_iter().chain(&self.rows) {
            let cells: Vec<_> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(formatter, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_counted_in_characters() {
        let mut table = Table::new(["a", "expected"]);
        table.push(["long one".to_owned(), "≥ 1".to_owned()]);
        table.push(["b".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "a         expected\n────────  ────────\nlong one  ≥ 1\nb\n");
    }
}
