//! What the server recommends, from the searches it had.

use client::Connection;
use ldap::message::Scope;
use serde::Serialize;

use super::read;
use crate::failure::{Exit, Failure};
use crate::output;

/// One recommendation.
#[derive(Debug, Eq, PartialEq, Serialize)]
struct Advice<'a> {
    /// add or drop
    action: &'a str,
    definition: &'a str,
    reason: &'a str,
}

impl<'a> Advice<'a> {
    /// From a line such as `add substring description: 812 searches tested 90,000 entries each`.
    fn parse(line: &'a str) -> Option<Self> {
        let (action, rest) = line.split_once(' ')?;
        let (definition, reason) = rest.split_once(": ")?;
        matches!(action, "add" | "drop").then_some(Self { action, definition, reason })
    }
}

/// Prints the recommendations.
pub(crate) fn run(connection: &mut Connection, json: bool) -> Result<Exit, Failure> {
    let entries = read(connection, FILTERS, Scope::Base, &[ADVICE])?;
    let lines: Vec<&str> = entries.iter().flat_map(|entry| entry.texts(ADVICE)).collect();
    let all: Vec<Advice<'_>> = lines.iter().filter_map(|line| Advice::parse(line)).collect();
    if json {
        output::json(&all)?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        output::line(format_args!("no advice: recent searches need no other indexes"))?;
    }
    for Advice { action, definition, reason } in &all {
        output::line(format_args!("roster index {action} '{definition}'"))?;
        output::line(format_args!("    {reason}"))?;
    }
    Ok(Exit::Done)
}

/// Where the server tells of filters.
const FILTERS: &str = "cn=filters,cn=monitor";
/// What it recommends.
const ADVICE: &str = "roster-index-advice";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_action_a_definition_and_a_reason() {
        let line = "add equality uid where (objectClass=person): 12 searches of 40 ms: slow";
        let want = Advice {
            action: "add",
            definition: "equality uid where (objectClass=person)",
            reason: "12 searches of 40 ms: slow",
        };
        assert_eq!(Advice::parse(line), Some(want));
        for line in ["", "add", "add equality uid", "consider equality uid: why not"] {
            assert_eq!(Advice::parse(line), None, "{line}");
        }
    }
}
