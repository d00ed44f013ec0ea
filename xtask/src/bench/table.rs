//! The table of a run: what each operation cost, and how many times roster's cost that is.

use std::fmt::Write as _;

use super::jobs::Job;
use crate::figures::{figure, half, median, thousands};

/// Turns that are too few to say between what half of them lie.
const FEW: usize = 4;

/// What was measured of one job on one server, a figure for each turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) cpu_us: Vec<f64>,
    pub(super) per_s: Vec<f64>,
    /// It was answered wrongly once: that is no figure.
    pub(super) is_wrong: bool,
}

/// A job and its cells, in the order of the servers; empty where it was not asked.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) job: &'static Job,
    pub(super) plain: Vec<Cell>,
    /// With the same rules and an access log in all servers.
    pub(super) equal: Vec<Cell>,
}

impl Row {
    pub(super) fn new(job: &'static Job, servers: usize) -> Self {
        let cells = vec![Cell::default(); servers];
        Self { job, plain: cells.clone(), equal: cells }
    }
}

impl Cell {
    fn figures(&self) -> Option<&[f64]> {
        (!self.is_wrong && !self.cpu_us.is_empty()).then_some(&self.cpu_us)
    }

    fn text(&self) -> String {
        let told = |cpu_us| format!("{} µs · {}/s", told(cpu_us), thousands(median(&self.per_s)));
        self.figures().map(told).unwrap_or_default()
    }

    /// How many times the other's CPU it takes, turn by turn.
    fn times(&self, other: &Self) -> String {
        let Some((own, others)) = self.figures().zip(other.figures()) else {
            return String::new();
        };
        let pairs = own.iter().zip(others);
        told(&pairs.map(|(own, other)| own / other).collect::<Vec<f64>>())
    }
}

/// The median, and between what half of the figures lie.
fn told(figures: &[f64]) -> String {
    let middle = figure(median(figures));
    if figures.len() < FEW {
        return middle;
    }
    let (low, high) = half(figures);
    format!("{middle} ({}–{})", figure(low), figure(high))
}

/// The table; `own` is the place of roster among the servers.
pub(super) fn table(servers: &[&str], own: usize, rows: &[Row]) -> String {
    let mut text = "| operation |".to_owned();
    for name in servers {
        let _ = write!(text, " {name} |");
    }
    let others = || servers.iter().enumerate().filter(|(place, _)| *place != own);
    for (_, name) in others() {
        let _ = write!(text, " {name} : roster |");
    }
    let columns = 2 * servers.len() - 1;
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(columns));
    for row in rows {
        line(&mut text, row.job, own, &row.plain);
    }
    let equal = || rows.iter().filter(|row| row.job.is_read());
    if equal().next().is_some() {
        let _ = writeln!(text, "| **{EQUAL}** |{}", " |".repeat(columns));
    }
    for row in equal() {
        line(&mut text, row.job, own, &row.equal);
    }
    text
}

const EQUAL: &str = "the same rules and an access log in all of them";

fn line(text: &mut String, job: &Job, own: usize, cells: &[Cell]) {
    let _ = write!(text, "| {} |", job.name);
    for cell in cells {
        let _ = write!(text, " {} |", cell.text());
    }
    let roster = cells.get(own).cloned().unwrap_or_default();
    for (_, cell) in cells.iter().enumerate().filter(|(place, _)| *place != own) {
        let _ = write!(text, " {} |", cell.times(&roster));
    }
    text.push('\n');
}

/// `text` with what stands between the two marks replaced.
pub(super) fn between(text: &str, name: &str, new: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{new}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::jobs::JOBS;
    use super::*;

    fn cell(cpu_us: &[f64]) -> Cell {
        let per_s = vec![25_000.0; cpu_us.len()];
        Cell { cpu_us: cpu_us.to_vec(), per_s, is_wrong: false }
    }

    #[test]
    fn ratios_are_to_roster() {
        let plain = vec![Cell::default(), cell(&[10.0]), cell(&[4_321.0])];
        let wrong = Cell { is_wrong: true, ..cell(&[1.0]) };
        let equal = vec![wrong, cell(&[10.0, 20.0, 10.0, 10.0]), cell(&[50.0; 4])];
        let rows = [Row { job: &JOBS[0], plain, equal }];
        let text = table(&["echo", "roster", "slapd"], 1, &rows);
        let want = "\
| operation | echo | roster | slapd | echo : roster | slapd : roster |
|---|---:|---:|---:|---:|---:|
| search by uid, 1 attribute |  | 10 µs · 25,000/s | 4,321 µs · 25,000/s |  | 432 |
| **the same rules and an access log in all of them** | | | | | |
| search by uid, 1 attribute |  | 10 (10–12) µs · 25,000/s | 50 (50–50) µs · 25,000/s |  | 5.0 \
(4.4–5.0) |
";
        assert_eq!(text, want);
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = "a\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nb\n";
        let new = between(text, "bench", "new").unwrap();
        assert_eq!(new, text.replace("old", "new"));
        assert_eq!(between(text, "other", "new"), None);
    }
}
