//! Tables on a terminal, and how numbers and long texts are shown in them and elsewhere.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::output;

/// Text in columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn column(&mut self, title: &'static str, side: Side) {
        self.columns.push((title, side));
    }

    /// Adds a row, of whatever text; a cell beyond the columns is a remark at its end.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let shown = |cell: String| match output::within_line(&cell) {
            Cow::Borrowed(_) => cell,
            Cow::Owned(shown) => shown,
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (title, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| width(cell)).chain([width(title)]).max().unwrap_or(0)
            })
            .collect();
        let titles = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let side = self.columns.get(at).map_or(Side::Left, |(_, side)| *side);
                let pad = widths.get(at).copied().unwrap_or(0).saturating_sub(width(cell));
                let (before, after) = if side == Side::Right { (pad, 0) } else { (0, pad) };
                write!(line, "{:before$}{cell}{:after$}  ", "", "")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Stands for what is not known.
pub(crate) fn dash() -> String {
    "–".to_owned()
}

/// A number with commas between thousands.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// At most so many characters, with an ellipsis for the rest.
pub(crate) fn shortened(text: &str, characters_max: usize) -> String {
    if width(text) <= characters_max {
        return text.to_owned();
    }
    text.chars().take(characters_max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let texts = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn long_text_is_shortened_by_characters() {
        assert_eq!(shortened("öäü", 3), "öäü");
        assert_eq!(shortened("öäüß", 3), "öä…");
    }
}
