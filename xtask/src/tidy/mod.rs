//! `cargo xtask tidy`: the rules of the house that clippy cannot hold. Runs as a test too.
//!
//! Exceptions stand in `xtask/tidy-exceptions.toml` with a reason each; one that is not needed is
//! itself a finding.

pub(crate) mod circles;
mod doors;
pub(crate) mod manifests;
mod names;
mod pages;
mod scripts;
pub(crate) mod source;
mod standards;

use std::path::Path;

use crate::shell::root;
use crate::{Error, no_arguments};

/// One breach of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    /// The rule's short name, as exceptions use it.
    pub(crate) rule: &'static str,
    /// Relative to the root.
    pub(crate) path: String,
    /// Counted from 1; 0 for the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
}

#[derive(Debug)]
struct Exception {
    rule: String,
    path: String,
    /// For circles: how many files the largest has.
    most: Option<usize>,
}

/// Prints every finding.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let findings = check(&root()).map_err(Error::Wrong)?;
    for finding in &findings {
        println!("{}:{}: {} ({})", finding.path, finding.line, finding.message, finding.rule);
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(Error::Wrong(format!("tidy: {count} findings"))),
    }
}

/// All findings in the tree at `root` that no exception covers.
fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let files = source::files(root);
    let mut findings = Vec::new();
    for file in &files {
        source::check(file, &mut findings);
        pages::check_links(root, file, &mut findings);
    }
    names::check(&files, &mut findings);
    doors::check(&files, &mut findings);
    pages::check_architecture(root, &mut findings);
    pages::check_folders(&files, &mut findings);
    scripts::check(root, &mut findings);
    standards::check(&files, &mut findings);
    let exceptions = exceptions(root)?;
    let (of_circles, exceptions): (Vec<_>, Vec<_>) =
        exceptions.into_iter().partition(|one| one.rule == circles::RULE);
    circles::check(&files, &of_circles, &mut findings)?;
    let covers =
        |one: &Exception, finding: &Finding| one.rule == finding.rule && one.path == finding.path;
    let unused: Vec<Finding> = exceptions
        .iter()
        .filter(|one| !findings.iter().any(|finding| covers(one, finding)))
        .map(|one| Finding {
            rule: "exception",
            path: EXCEPTIONS.to_owned(),
            line: 0,
            message: format!("not needed: {} in {}", one.rule, one.path),
        })
        .collect();
    findings.retain(|finding| !exceptions.iter().any(|one| covers(one, finding)));
    findings.extend(unused);
    Ok(findings)
}

/// How many exceptions there are, for the gauges.
pub(crate) fn exception_count() -> usize {
    exceptions(&root()).map_or(0, |list| list.len())
}

fn exceptions(root: &Path) -> Result<Vec<Exception>, String> {
    let text = std::fs::read_to_string(root.join(EXCEPTIONS)).map_err(|e| e.to_string())?;
    let table: toml::Table = text.parse().map_err(|e| format!("{EXCEPTIONS}: {e}"))?;
    let list = table.get("exception").and_then(toml::Value::as_array);
    list.into_iter().flatten().map(exception).collect()
}

fn exception(value: &toml::Value) -> Result<Exception, String> {
    let text = |key: &str| {
        let text = value.get(key).and_then(toml::Value::as_str).unwrap_or_default().trim();
        if text.is_empty() { Err(format!("{EXCEPTIONS}: no {key}")) } else { Ok(text.to_owned()) }
    };
    text("reason")?;
    let most = value.get("most").map(|most| {
        let most = most.as_integer().and_then(|most| usize::try_from(most).ok());
        most.ok_or_else(|| format!("{EXCEPTIONS}: most is a number of files"))
    });
    Ok(Exception { rule: text("rule")?, path: text("path")?, most: most.transpose()? })
}

const EXCEPTIONS: &str = "xtask/tidy-exceptions.toml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&root()).unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}
