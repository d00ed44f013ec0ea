//! Counts of instructions: read from what callgrind writes, and from and to the baseline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Functions with less than this share of an operation are not in the baseline.
const SHARE_MIN: f64 = 0.003;

/// A function that grew by less of its operation is not worth its line.
const GROWTH_MIN: f64 = 0.001;

const HEAD: &str = "\
# Instructions of one operation, and of its functions that take the most: what 'cargo xtask gauge'
# compares with. 'cargo xtask gauge --write' renews it; the commit says why they are others.
# Counted with ";

/// What was counted of each operation, in the order of the gauge's program.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) operations: Vec<Operation>,
}

/// The instructions of one operation, on average.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) total: f64,
    /// Of each function alone, without those it calls.
    functions: BTreeMap<String, f64>,
}

/// What was committed.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    pub(super) counts: Counts,
    /// With which tools it was counted.
    pub(super) tools: String,
}

impl Counts {
    pub(super) fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// As it is committed.
    pub(super) fn baseline(&self, tools: &str) -> String {
        let mut text = format!("{HEAD}{tools}\n");
        for operation in &self.operations {
            let _ = writeln!(text, "\n{} {:.0}", operation.name, operation.total);
            for (name, count) in operation.by_size() {
                if count >= operation.total * SHARE_MIN {
                    let _ = writeln!(text, "  {count:.0} {name}");
                }
            }
        }
        text
    }
}

impl Baseline {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut counts = Counts::default();
        let tools = text.strip_prefix(HEAD).and_then(|rest| rest.lines().next());
        for (number, line) in text.lines().enumerate() {
            let wrong = || format!("line {} of the baseline: {line}", number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (first, rest) = line.trim_start().split_once(' ').ok_or_else(wrong)?;
            if line.starts_with(' ') {
                let operation = counts.operations.last_mut().ok_or_else(wrong)?;
                let count = first.parse().map_err(|_| wrong())?;
                operation.functions.insert(rest.to_owned(), count);
            } else {
                let (name, total) = (first.to_owned(), rest.parse().map_err(|_| wrong())?);
                counts.operations.push(Operation { name, total, ..Operation::default() });
            }
        }
        Ok(Self { counts, tools: tools.unwrap_or_default().to_owned() })
    }
}

impl Operation {
    /// Reads what callgrind wrote of so many operations.
    pub(super) fn read(name: &str, operations: u32, text: &str) -> Result<Self, String> {
        // A function has its name at the first mention and its number ever after.
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let mut function = "";
        let mut is_call = false;
        for line in text.lines() {
            if let Some(named) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                let (number, known) = named.split_once(')').unwrap_or((named, ""));
                if !known.is_empty() {
                    names.insert(number, known.trim_start());
                }
                if line.starts_with('f') {
                    function = number;
                }
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                // The line after a call is what the called function took; it is counted there.
                if !std::mem::take(&mut is_call) {
                    let count = line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
                    *counts.entry(function).or_default() += count.ok_or(line)?;
                }
            }
        }
        let mut functions: BTreeMap<String, f64> = BTreeMap::new();
        for (number, count) in &counts {
            let name = plain(names.get(number).copied().unwrap_or(number));
            *functions.entry(name).or_default() += *count as f64 / f64::from(operations);
        }
        let total = functions.values().sum();
        if total == 0.0 {
            return Err(format!("{name}: callgrind counted nothing"));
        }
        Ok(Self { name: name.to_owned(), total, functions })
    }

    /// The functions that take more than before: name, before, now; the one that grew most first.
    /// Of those that the baseline leaves out, it is known that they were small.
    pub(super) fn grown<'a>(&'a self, before: &Self) -> Vec<(&'a str, f64, f64)> {
        let mut grown: Vec<(&str, f64, f64)> = Vec::new();
        for (name, now) in &self.functions {
            let small = before.total * SHARE_MIN;
            let then = before.functions.get(name).copied().unwrap_or(small);
            if now - then > before.total * GROWTH_MIN {
                grown.push((name, then, *now));
            }
        }
        grown.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
        grown
    }

    fn by_size(&self) -> Vec<(&str, f64)> {
        let mut list: Vec<(&str, f64)> =
            self.functions.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        list.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        list
    }
}

/// The name without what tells its copies apart: levels of recursion, units of the compiler.
fn plain(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    match name.rsplit_once('\'') {
        Some((before, level)) if level.parse::<u32>().is_ok() => before.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\
version: 1
events: Ir

ob=(1) /usr/bin/gauge
fl=(1) ???
fn=(1) gauge::measured
0 10
cfn=(2) store::find
calls=2 0
0 40
* 2

fn=(2)
0 30
fn=(3) store::find'2
0 10
totals: 52
";

    #[test]
    fn a_function_counts_what_it_does_itself() {
        let operation = Operation::read("search", 2, WRITTEN).unwrap();
        assert_eq!(operation.total, 26.0);
        assert_eq!(operation.by_size(), [("store::find", 20.0), ("gauge::measured", 6.0)]);
    }

    #[test]
    fn what_is_written_is_read() {
        let counts = Counts { operations: vec![Operation::read("search", 2, WRITTEN).unwrap()] };
        let baseline = Baseline::parse(&counts.baseline("rustc 1, valgrind-3")).unwrap();
        assert_eq!(baseline.tools, "rustc 1, valgrind-3");
        let operation = baseline.counts.operation("search").unwrap();
        assert_eq!(operation.total, 26.0);
        let more = Operation::read("search", 1, WRITTEN).unwrap();
        let grown = more.grown(operation);
        assert_eq!(grown.first(), Some(&("store::find", 20.0, 40.0)));
    }
}
