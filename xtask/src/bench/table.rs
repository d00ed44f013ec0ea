//! The table of a run: what each operation cost, and how many times roster's cost that is.

use std::fmt::Write as _;

use super::jobs::Job;

/// What was measured of one job on one server, a figure for each turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) cpu_us: Vec<f64>,
    pub(super) per_s: Vec<f64>,
}

/// A job and its cells, in the order of the servers; none where it was not asked.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) job: &'static Job,
    pub(super) cells: Vec<Option<Cell>>,
}

impl Cell {
    fn middle(&self) -> (f64, f64) {
        (median(&self.cpu_us), median(&self.per_s))
    }
}

/// The middle one, or between the two in the middle.
fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let at = |place: usize| figures.get(place).copied().unwrap_or_default();
    f64::midpoint(at(figures.len().saturating_sub(1) / 2), at(figures.len() / 2))
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
        let _ = write!(text, "| {} |", row.job.name);
        for cell in &row.cells {
            match cell.as_ref().map(Cell::middle) {
                Some((cpu_us, per_s)) => {
                    let _ = write!(text, " {} µs · {}/s |", figure(cpu_us), thousands(per_s));
                }
                None => text.push_str(" |"),
            }
        }
        let roster = row.cells.get(own).and_then(Option::as_ref).map(|cell| cell.middle().0);
        for (place, _) in others() {
            let other = row.cells.get(place).and_then(Option::as_ref).map(|cell| cell.middle().0);
            match other.zip(roster) {
                Some((other, roster)) => {
                    let _ = write!(text, " {} |", figure(other / roster));
                }
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    text
}

/// A number with as many digits as it is worth.
fn figure(number: f64) -> String {
    match number {
        small if small < 10.0 => format!("{small:.1}"),
        large if large < 1000.0 => format!("{large:.0}"),
        thousands_of => thousands(thousands_of),
    }
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

    #[test]
    fn ratios_are_to_roster() {
        let cell = |cpu_us: f64| Some(Cell { cpu_us: vec![cpu_us], per_s: vec![25_000.0] });
        let rows = [Row { job: &JOBS[0], cells: vec![None, cell(10.0), cell(4_321.0)] }];
        let text = table(&["echo", "roster", "slapd"], 1, &rows);
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "| search by uid, 1 attribute | | 10 µs · 25,000/s | 4,321 µs · 25,000/s | | 432 |"
        );
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = "a\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nb\n";
        let new = between(text, "bench", "new").unwrap();
        assert_eq!(new, text.replace("old", "new"));
        assert_eq!(between(text, "other", "new"), None);
    }
}
