//! `cargo xtask gauges`: numbers that show whether the source stays easy to read.

use std::collections::BTreeSet;

use crate::shell::{cargo, output, root};
use crate::tidy::{manifests, source};
use crate::{Error, lines, no_arguments};

/// Files above this many lines are worth a look before they reach the limit.
const LONG_FILE_LINES: usize = 600;

/// Prints the gauges.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let files = source::files(&root());
    let rust = || files.iter().filter(|file| file.is_rust());
    let mut functions: Vec<usize> = rust().flat_map(|file| function_lines(&file.text)).collect();
    functions.sort_unstable();
    println!("gauges:");
    let crates = lines::count(&files).map_err(Error::Wrong)?;
    println!("  lines of Rust without tests  {}", lines::together(&crates).lines);
    println!("  functions                    {}", functions.len());
    println!("  function length p90 / p99    {} / {}", at(&functions, 90), at(&functions, 99));
    let long = rust().filter(|file| file.product_lines() > LONG_FILE_LINES).count();
    println!("  files over {LONG_FILE_LINES} lines         {long}");
    println!("  dialogues                    {}", dialogues());
    let edges: usize = manifests::read(&root()).iter().map(|one| one.dependencies.len()).sum();
    println!("  edges between crates         {edges}");
    if let Some(count) = third_party() {
        println!("  third-party crates in roster {count}");
    }
    println!("  tidy exceptions              {}", crate::tidy::exception_count());
    Ok(())
}

/// The length of every function, told by the indentation that rustfmt gives it.
fn function_lines(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut lengths = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let is_function = line.trim_start().split(' ').take(4).any(|word| word == "fn");
        if !is_function || line.trim_start().starts_with("//") || line.ends_with(';') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let after = lines.iter().skip(start);
        if let Some(length) = after.clone().position(|line| **line == close) {
            lengths.push(length + 1);
        }
    }
    lengths
}

fn at(sorted: &[usize], percent: usize) -> usize {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or_default()
}

fn dialogues() -> usize {
    let paths = testing::run::script_paths(&root().join("tests/scripts")).unwrap_or_default();
    let scripts = paths.iter().filter_map(|path| testing::Script::read(path).ok());
    scripts.map(|script| script.dialogues.len()).sum()
}

fn third_party() -> Option<usize> {
    let tree = output(cargo(&["tree", "-p", "roster", "-e", "normal", "--prefix", "none"]))?;
    let crates: BTreeSet<&str> = tree
        .lines()
        .filter(|line| !line.contains("(/") && !line.is_empty())
        .map(|line| line.trim_end_matches(" (*)"))
        .collect();
    Some(crates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_head_to_closing_brace() {
        let text =
            "fn a() {\n    x();\n}\n\nimpl B {\n    pub fn c(\n    ) {\n        y();\n    }\n}\n";
        assert_eq!(function_lines(text), [3, 4]);
    }
}
