//! Accounts of a server: asked about and changed by the policy state operation.
//!
//! Invariant: one account that fails does not keep the others from being worked on.

pub(crate) mod act;
pub(crate) mod administrator;
pub(crate) mod list;
pub(crate) mod moment;
pub(crate) mod reset;
pub(crate) mod show;

use std::borrow::Cow;

use client::{Connection, SearchFor};
use ldap::control_value::policy_state::{OID, PolicyState, StateOperation};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::Scope;
use ldap::result::ResultCode;
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::output;

/// What was answered about one account.
pub(crate) struct State {
    /// Its DN.
    pub(crate) dn: String,
    told: Vec<(u32, Vec<String>)>,
}

/// Something that keeps an account from being used, will, or is good to know.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// PingDirectory's name of it.
    pub(crate) name: String,
    /// What it means, for people.
    pub(crate) message: String,
}

impl State {
    /// The values of what was asked for.
    pub(crate) fn values(&self, number: u32) -> &[String] {
        let told = self.told.iter().find(|(told, _)| *told == number);
        told.map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    /// The one value.
    pub(crate) fn value(&self, number: u32) -> Option<&str> {
        self.values(number).first().map(String::as_str)
    }

    /// Whether it is `true`.
    pub(crate) fn is(&self, number: u32) -> bool {
        self.value(number) == Some("true")
    }

    /// The findings of a kind.
    pub(crate) fn findings(&self, number: u32) -> Vec<Finding> {
        self.values(number).iter().map(|line| Finding::parse(line)).collect()
    }
}

impl Finding {
    /// From `code=1<TAB>name=account-disabled<TAB>message=…`.
    fn parse(line: &str) -> Self {
        let field = |name: &str| {
            let mut parts = line.split('\t');
            let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default().to_owned()
        };
        Self { name: field("name"), message: field("message") }
    }
}

/// Asks for and changes the state of an account.
pub(crate) fn ask(
    connection: &mut Connection,
    dn: &str,
    operations: Vec<StateOperation<'_>>,
) -> Result<State, Failure> {
    let value = PolicyState { target: Cow::Borrowed(dn), operations }.encode();
    let (outcome, value) = connection.extended(OID, Some(&value))?;
    if outcome.code == ResultCode::InsufficientAccessRights {
        return Err(Failure::refused(format!("{dn}: {outcome}")).hint(PRIVILEGE_HINT));
    }
    outcome.into_result("account").map_err(|error| Failure::refused(format!("{dn}: {error}")))?;
    let value = value.unwrap_or_default();
    let state = PolicyState::decode(&value)
        .map_err(|error| Failure::refused(format!("the server sent a malformed state: {error}")))?;
    let owned = |values: &[Cow<'_, str>]| values.iter().map(ToString::to_string).collect();
    let told = state.operations.iter().map(|one| (one.number, owned(&one.values))).collect();
    Ok(State { dn: dn.to_owned(), told })
}

/// Does something with each account; those that fail are told at once.
pub(crate) fn each(
    connection: &mut Connection,
    accounts: &[String],
    work: &mut dyn FnMut(&mut Connection, &str) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for account in accounts {
        let done = named(connection, account).and_then(|dn| work(connection, &dn));
        match done {
            Ok(()) => {}
            Err(failure) if failure.exit == Exit::Refused => {
                output::failure(&failure);
                exit = Exit::Refused;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

/// The DN of an account; what is no DN is the uid of one entry.
fn named(connection: &mut Connection, account: &str) -> Result<String, Failure> {
    if account.contains('=') {
        return Ok(account.to_owned());
    }
    let uid = AvaFilter { description: "uid", value: Cow::Borrowed(account.as_bytes()) };
    let asked = SearchFor {
        scope: Scope::Subtree,
        attributes: &["1.1"],
        ..SearchFor::below("", Filter::Equality(uid))
    };
    let found = connection.search(&asked)?;
    found.outcome.into_result("search")?;
    match &found.entries[..] {
        [entry] => Ok(entry.dn.clone()),
        [] => Err(Failure::refused(format!("no entry that you may see has the uid '{account}'"))
            .hint("name it by its DN")),
        [first, ..] => {
            let count = found.entries.len();
            Err(Failure::refused(format!("{count} entries have the uid '{account}'"))
                .hint(format!("name one by its DN, such as {}", first.dn)))
        }
    }
}

/// A DN as a word of the shell.
pub(crate) fn quoted(dn: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "=,._@-".contains(letter);
    if dn.chars().all(is_plain) {
        dn.to_owned()
    } else {
        format!("'{}'", dn.replace('\'', "'\\''"))
    }
}

/// Who may ask.
const PRIVILEGE_HINT: &str = "run it as the administrator (-D 'cn=Directory Manager' -W), or as an \
                              identity with the privilege password-reset and the right to write \
                              the attributes to be changed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_a_name_and_a_sentence() {
        let finding = Finding::parse("code=1\tname=account-disabled\tmessage=off = off");
        assert_eq!(finding.name, "account-disabled");
        assert_eq!(finding.message, "off = off");
        assert_eq!(Finding::parse("x").name, "");
    }

    #[test]
    fn a_dn_is_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("uid=anna.b,dc=example"), "uid=anna.b,dc=example");
        assert_eq!(quoted("cn=Anna B,dc=x"), "'cn=Anna B,dc=x'");
        assert_eq!(quoted("cn=O'Neil,dc=x"), "'cn=O'\\''Neil,dc=x'");
    }
}
