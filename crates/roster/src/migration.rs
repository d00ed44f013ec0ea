//! What the configuration of another server says, set in a directory.
//!
//! Invariant: each setting is made by an ordinary request, so whatever refuses one of an
//! administrator refuses this one, too; one that is refused does not keep the others back.

use std::path::Path;

use client::{Connection, SearchFor, TextAttribute};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use offline::{Configuration, SettingKind};

use crate::connect::Login;
use crate::failure::Failure;
use crate::index::{change, offline as served};
use crate::output;

/// Where settings are made.
#[derive(Clone, Copy)]
pub(crate) enum Target<'t> {
    /// In a data directory that no server uses.
    Data(&'t Path),
    /// In one that is served.
    Server(&'t Login),
}

/// How the settings fared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Applied {
    /// Those that were made.
    pub(crate) made: usize,
    /// Those that were as they are to be.
    pub(crate) unchanged: usize,
    /// Those that the server refused.
    pub(crate) refused: usize,
}

/// Makes all settings, and tells of those that are refused.
pub(crate) fn apply(configuration: &Configuration, target: Target<'_>) -> Result<Applied, Failure> {
    match target {
        Target::Data(data) => {
            served::with_server(data, |connection| make(connection, configuration))
        }
        Target::Server(login) => make(&mut login.connect()?, configuration),
    }
}

fn make(connection: &mut Connection, configuration: &Configuration) -> Result<Applied, Failure> {
    let mut applied = Applied::default();
    let indexes = change::ensure(connection, configuration.indexes())?;
    for (definition, outcome) in configuration.indexes().zip(indexes) {
        applied.count(&format!("index {definition}"), outcome)?;
    }
    for setting in &configuration.settings {
        let outcome = match &setting.change {
            SettingKind::Value { entry, attribute, value, replaces } => {
                let kind = if *replaces { ModifyOperation::Replace } else { ModifyOperation::Add };
                set_value(connection, kind, entry, (attribute, &[value]))?
            }
            SettingKind::Entry { dn, attributes } => add_entry(connection, dn, attributes)?,
            SettingKind::Index(_) | SettingKind::File { .. } => continue,
        };
        applied.count(&setting.change.to_string(), outcome)?;
    }
    for name in &configuration.default_policies {
        if !is_policy(connection, name)? {
            output::note(format_args!(
                "roster: warning: the default password policy '{}' is not in the directory: nobody \
                 would have it",
                output::within_line(name)
            ));
        }
    }
    Ok(applied)
}

impl Applied {
    /// Counts what became of a setting: whether it was made, or why it was refused.
    fn count(&mut self, what: &str, outcome: Result<bool, String>) -> Result<(), Failure> {
        match outcome {
            Ok(true) => self.made += 1,
            Ok(false) => self.unchanged += 1,
            Err(why) => {
                self.refused += 1;
                let what = output::within_line(what);
                output::line(format_args!("  refused: {what}: {}", output::within_line(&why)))?;
            }
        }
        Ok(())
    }
}

/// Adds a value unless it is there.
fn set_value(
    connection: &mut Connection,
    operation: ModifyOperation,
    entry: &str,
    wanted: TextAttribute<'_>,
) -> Result<Result<bool, String>, Failure> {
    let (attribute, wanted) = wanted;
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &[attribute],
        ..SearchFor::below(entry, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let has = |value: &&str| {
        let mut own = found.entries.iter().flat_map(|found| found.texts(attribute));
        own.any(|own| is_same(attribute, own, value))
    };
    if wanted.iter().all(has) {
        return Ok(Ok(false));
    }
    let outcome = connection.modify(entry, &[(operation, attribute, wanted)])?;
    Ok(if outcome.is_success() { Ok(true) } else { Err(outcome.to_string()) })
}

/// Whether a value is there already. Lines may differ by case alone, as in a pattern; names of
/// attributes and `direct` do not.
fn is_same(attribute: &str, own: &str, wanted: &str) -> bool {
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(attribute));
    own == wanted || (is_word && own.eq_ignore_ascii_case(wanted))
}

/// Adds an entry unless there is one of the name.
fn add_entry(
    connection: &mut Connection,
    dn: &str,
    attributes: &[(String, String)],
) -> Result<Result<bool, String>, Failure> {
    let mut joined: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in attributes {
        match joined.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.push(value),
            None => joined.push((name, vec![value])),
        }
    }
    let attributes: Vec<(&str, &[&str])> =
        joined.iter().map(|(name, values)| (*name, values.as_slice())).collect();
    let outcome = connection.add(dn, &attributes)?;
    Ok(match outcome.code {
        ResultCode::Success => Ok(true),
        ResultCode::EntryAlreadyExists => Ok(false),
        _ => Err(outcome.to_string()),
    })
}

/// Whether an entry is there and is a password policy.
fn is_policy(connection: &mut Connection, name: &str) -> Result<bool, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["objectClass"],
        ..SearchFor::below(name, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let is_one = |class: &str| POLICIES.iter().any(|own| own.eq_ignore_ascii_case(class));
    Ok(found.entries.iter().any(|entry| entry.texts("objectClass").any(is_one)))
}

/// Settings whose values are names of attributes, or `direct`.
const WORDS: [&str; 2] = ["roster-reference", "roster-member-of"];
/// Classes of password policies.
const POLICIES: [&str; 5] = [
    "pwdPolicy",
    "passwordPolicy",
    "sunPwdPolicy",
    "ds-pwp-password-policy",
    "ds-cfg-password-policy",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_by_case_are_two() {
        for (attribute, own, wanted, same) in [
            ("roster-constraint", "a: pattern uid /[a-z]/", "a: pattern uid /[a-z]/", true),
            ("roster-constraint", "a: pattern uid /[a-z]/", "a: pattern uid /[A-Z]/", false),
            ("roster-assignment", "a: number uid 1..", "A: number uid 1..", false),
            ("roster-reference", "documentAuthor", "documentauthor", true),
            ("roster-reference", "owner", "manager", false),
            ("roster-member-of", "direct", "Direct", true),
        ] {
            assert_eq!(is_same(attribute, own, wanted), same, "{own} and {wanted}");
        }
    }
}
