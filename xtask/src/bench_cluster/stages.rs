//! What the threads of several processes spent on each operation, by their names, as a table.

use std::fmt::Write as _;

use crate::figures::figure;
use crate::threads::Spent;

/// Threads that spent less on an operation everywhere are summed, in µs.
const LEAST_US: f64 = 0.3;

/// Columns of a table.
#[derive(Debug, Default)]
pub(super) struct Stages(Vec<(String, Spent)>);

/// What was spent on each of so many operations.
pub(super) fn per_operation(spent: &Spent, operations: u64) -> Spent {
    let each = |(name, us): (&String, &f64)| (name.clone(), us / operations.max(1) as f64);
    Spent(spent.0.iter().map(each).collect())
}

impl Stages {
    pub(super) fn put(&mut self, columns: &[(String, Spent)]) {
        let columns = columns.iter().map(|(title, spent)| (title.clone(), Spent(spent.0.clone())));
        self.0.extend(columns);
    }

    /// A line for each name, those that spent most first; then what the rest spent, and all.
    pub(super) fn table(&self, what: &str, connections: u64) -> String {
        let us = |spent: &Spent, name: &str| spent.0.get(name).copied().unwrap_or_default();
        let sum = |name: &str| self.0.iter().map(|(_, spent)| us(spent, name)).sum::<f64>();
        let mut names: Vec<&String> = self.0.iter().flat_map(|(_, spent)| spent.0.keys()).collect();
        names.sort();
        names.dedup();
        names.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
        let is_told = |name: &String| self.0.iter().any(|(_, spent)| us(spent, name) >= LEAST_US);
        let (told, rest): (Vec<&String>, Vec<&String>) =
            names.into_iter().partition(|name| is_told(name));
        let titles: Vec<&str> = self.0.iter().map(|(title, _)| title.as_str()).collect();
        let mut text = format!(
            "| µs of CPU for each {what}, {connections} connections, by thread | {} |\n|---|{}\n",
            titles.join(" | "),
            "---:|".repeat(titles.len())
        );
        let mut line = |name: &str, of: &dyn Fn(&Spent) -> f64| {
            let cells = self.0.iter().map(|(_, spent)| match of(spent) {
                0.0 => "–".to_owned(),
                us => figure(us),
            });
            let cells: Vec<String> = cells.collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        };
        for name in told {
            line(&format!("`{name}`"), &|spent| us(spent, name));
        }
        line("others", &|spent| rest.iter().map(|name| us(spent, name)).sum());
        line("all", &Spent::all_us);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_spent_most_come_first() {
        let spent = |figures: &[(&str, f64)]| {
            let figures = figures.iter().map(|(name, us)| ((*name).to_owned(), *us));
            per_operation(&Spent(figures.collect()), 10)
        };
        let mut stages = Stages::default();
        let one = spent(&[("idle", 1.0), ("raft", 20.0), ("writer", 300.0)]);
        stages.put(&[("leader".to_owned(), one)]);
        stages.put(&[("follower".to_owned(), spent(&[("raft", 50.0)]))]);
        let text = stages.table("add", 50);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let want = [
            "| `writer` | 30 | – |",
            "| `raft` | 2.0 | 5.0 |",
            "| others | 0.1 | – |",
            "| all | 32 | 5.0 |",
        ];
        assert_eq!(lines, want);
    }
}
