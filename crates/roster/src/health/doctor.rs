//! `roster doctor`: what is wrong, how that is seen, and what mends it.

use serde::Serialize;

use super::checks::{CHECKS, Check, Finding, Severity, Source};
use super::facts::Facts;
use crate::failure::{Exit, Failure};
use crate::output;

/// What was found, and what was not looked at.
#[derive(Serialize)]
struct Report<'f> {
    server: &'f str,
    findings: Vec<Told>,
    /// Checks that could not look, and why.
    not_looked_at: Vec<(String, &'static str)>,
    /// What the server did not show.
    refused: &'f [String],
}

#[derive(Serialize)]
struct Told {
    id: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// Prints it; the code says whether anything is above a note.
pub(crate) fn run(facts: &Facts, json: bool) -> Result<Exit, Failure> {
    let report = report(facts);
    if json {
        output::json(&report)?;
    } else {
        output::line(format_args!("{}", text(&report)))?;
    }
    let is_bad = |told: &Told| told.finding.severity < Severity::Info;
    Ok(if report.findings.iter().any(is_bad) { Exit::Refused } else { Exit::Done })
}

/// Lists the checks.
pub(crate) fn list() -> Result<Exit, Failure> {
    for check in CHECKS {
        output::line(format_args!("{:<12} {}", check.id, check.looks_for))?;
    }
    Ok(Exit::Done)
}

fn report(facts: &Facts) -> Report<'_> {
    let (mut findings, mut not_looked_at) = (Vec::new(), Vec::new());
    for check in CHECKS {
        match check.look(facts) {
            Some(found) => {
                findings.extend(found.into_iter().map(|finding| Told { id: check.id, finding }));
            }
            None => not_looked_at.push((why_not(check, facts), check.id)),
        }
    }
    findings.sort_by_key(|told| told.finding.severity);
    Report { server: &facts.url, findings, not_looked_at, refused: facts.refused() }
}

fn why_not(check: &Check, facts: &Facts) -> String {
    match check.source {
        Source::Connection => String::new(),
        Source::Named | Source::Machine => match &facts.machine {
            Some(Err(why)) => why.clone(),
            Some(Ok(_)) | None => "no data directory here: name it with --data".to_owned(),
        },
        Source::Backup => "no backup was named: --backup DIR".to_owned(),
        Source::Server => match &facts.server {
            Ok(server) => match &server.monitor {
                Err(failure) => failure.message.clone(),
                Ok(_) => String::new(),
            },
            Err(_) => "the server does not answer".to_owned(),
        },
    }
}

fn text(report: &Report<'_>) -> String {
    let mut lines = Vec::new();
    for Told { id, finding } in &report.findings {
        let Finding { severity, evidence, mend } = finding;
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "note",
        };
        lines.push(format!("{severity:<8} {id}: {}", output::within_line(evidence)));
        if !mend.is_empty() {
            lines.push(format!("{:<8}   {}", "", output::within_line(mend)));
        }
    }
    let count =
        |severity| report.findings.iter().filter(|told| told.finding.severity == severity).count();
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Info].map(count);
    let looked = CHECKS.len() - report.not_looked_at.len();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(format!(
        "{}: {looked} of {} checks, {errors} errors, {warnings} warnings, {notes} notes",
        report.server,
        CHECKS.len()
    ));
    let mut reasons: Vec<&String> = report.not_looked_at.iter().map(|(why, _)| why).collect();
    reasons.sort();
    reasons.dedup();
    for reason in reasons {
        let ids = report.not_looked_at.iter().filter(|(why, _)| why == reason);
        let ids = ids.map(|(_, id)| *id).collect::<Vec<_>>().join(", ");
        lines.push(format!("not looked at ({}): {ids}", output::within_line(reason)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn page() -> String {
        let mut page = "# What `roster doctor` looks for\n\nA row of the table in \
                        `crates/roster/src/health/checks.rs` each; [how \
                        to](../how-to/first-week.md).\n\n\
                        To regenerate this page: `ROSTER_WRITE_REFERENCE=1 cargo test --workspace \
                        --lib reference`.\n\n| id | looks at | looks for |\n|---|---|---|\n"
            .to_owned();
        for Check { id, source, looks_for, .. } in CHECKS {
            let source = match source {
                Source::Connection => "the connection",
                Source::Server => "the server, as its administrator",
                Source::Named | Source::Machine => "the data directory (`--data`)",
                Source::Backup => "the backup (`--backup`)",
            };
            page += &format!("| `{id}` | {source} | {looks_for} |\n");
        }
        page
    }

    #[test]
    fn the_reference_page_is_as_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/doctor.md");
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            there,
            page(),
            "write it: ROSTER_WRITE_REFERENCE=1 cargo test --workspace --lib"
        );
    }

    #[test]
    fn no_two_checks_have_one_id() {
        let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CHECKS.len());
    }
}
