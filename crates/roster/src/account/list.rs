//! `roster account list`: which accounts cannot sign in, since when, until when and by which
//! policy.
//!
//! Invariant: what an account is, the server says, one account at a time; the search only finds
//! those that are worth asking about. Whoever may not ask is told so, not that there are none.

use std::borrow::Cow;

use client::{Connection, FoundEntry, Page, SearchAnswer, SearchFor};
use environment::Timestamp;
use ldap::control_value::policy_state::{OID, PolicyState, StateOperation, operation};
use ldap::filter::{AvaFilter, Filter};
use ldap::result::ResultCode;
use serde::Serialize;

use super::{Finding, PRIVILEGE_HINT, State, ask, moment, quoted};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{Side, Table, dash, number};

/// Which accounts are wanted: those with any of these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) locked: bool,
    pub(crate) disabled: bool,
    pub(crate) expired: bool,
    pub(crate) must_change: bool,
}

/// A state that accounts are listed by.
struct Kind {
    is_wanted: fn(Wanted) -> bool,
    /// The state in a word.
    word: &'static str,
    /// What entries that are worth asking about have.
    attributes: &'static [&'static str],
    /// PingDirectory's names of what the server finds then.
    findings: &'static [&'static str],
    /// Where the entry says since when, if it does.
    since: Option<&'static str>,
}

const KINDS: &[Kind] = &[
    Kind {
        is_wanted: |wanted| wanted.locked,
        word: "locked",
        attributes: &[LOCKED_TIME],
        findings: &[
            "account-permanently-locked-due-to-bind-failures",
            "account-temporarily-locked-due-to-bind-failures",
        ],
        since: Some(LOCKED_TIME),
    },
    Kind {
        is_wanted: |wanted| wanted.locked,
        word: "idle too long",
        attributes: &["pwdLastSuccess"],
        findings: &["account-idle-locked"],
        since: None,
    },
    Kind {
        is_wanted: |wanted| wanted.disabled,
        word: "disabled",
        attributes: &["nsAccountLock", "ds-pwp-account-disabled"],
        findings: &["account-disabled"],
        since: None,
    },
    Kind {
        is_wanted: |wanted| wanted.expired,
        word: "expired",
        attributes: &[END_TIME, "ds-pwp-account-expiration-time"],
        findings: &["account-expired"],
        since: Some(END_TIME),
    },
    Kind {
        is_wanted: |wanted| wanted.expired,
        word: "password expired",
        attributes: &["pwdChangedTime"],
        findings: &["password-expired", "password-expired-with-grace-logins"],
        since: Some(PASSWORD_END),
    },
    Kind {
        is_wanted: |wanted| wanted.must_change,
        word: "must change",
        attributes: &["pwdReset"],
        findings: &["must-change-password", "account-reset-locked"],
        since: None,
    },
];

/// An account of the list.
#[derive(Debug, Serialize)]
struct Listed {
    dn: String,
    state: &'static str,
    message: String,
    since: Option<String>,
    /// When it ends by itself.
    until: Option<String>,
    policy: Option<String>,
}

/// Prints the accounts at and below `base`.
pub(crate) fn run(
    connection: &mut Connection,
    base: &str,
    wanted: Wanted,
    json: bool,
) -> Result<Exit, Failure> {
    check_privilege(connection)?;
    let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| (kind.is_wanted)(wanted)).collect();
    let (mut all, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let mut found = Vec::new();
        let page = page(connection, base, &kinds, &cookie, &mut found)?;
        page.outcome.into_result("search")?;
        for entry in &found {
            all.extend(listed(connection, entry, &kinds)?);
        }
        cookie = page.cookie;
        if cookie.is_empty() || all.len() >= ACCOUNTS_MAX {
            break;
        }
    }
    match json {
        true => output::json(&all)?,
        false => output::line(format_args!("{}", text(&all)))?,
    }
    if !cookie.is_empty() {
        let more = number(ACCOUNTS_MAX as u64);
        output::note(format_args!(
            "roster: note: there may be more than {more}: name a part of the tree with --base"
        ));
    }
    Ok(Exit::Done)
}

/// Refuses those whom the server would tell nothing: an empty list would say that all is well.
fn check_privilege(connection: &mut Connection) -> Result<(), Failure> {
    // What is no DN is nobody's account, and is looked at after the privilege.
    let value = PolicyState { target: Cow::Borrowed("="), operations: Vec::new() }.encode();
    let (outcome, _) = connection.extended(OID, Some(&value))?;
    match outcome.code {
        ResultCode::InsufficientAccessRights => Err(Failure::refused(outcome).hint(PRIVILEGE_HINT)),
        ResultCode::ProtocolError => Err(Failure::refused(
            "the server does not know the policy state operation (1.3.6.1.4.1.26027.1.6.1)",
        )),
        _ => Ok(()),
    }
}

/// One page of the entries that are worth asking about.
fn page(
    connection: &mut Connection,
    base: &str,
    kinds: &[&Kind],
    cookie: &[u8],
    found: &mut Vec<FoundEntry>,
) -> Result<Page, Failure> {
    let names = kinds.iter().flat_map(|kind| kind.attributes);
    let filter = Filter::Or(names.map(|name| present(name)).collect());
    let asked = SearchFor {
        attributes: &[LOCKED_TIME, END_TIME, PASSWORD_END],
        ..SearchFor::below(base, filter)
    };
    connection.search_page(&asked, PAGE_ENTRIES, cookie, &mut |answer| {
        if let SearchAnswer::Entry { dn, attributes } = answer {
            found.push(FoundEntry::of(dn, attributes));
        }
        Ok::<_, Failure>(())
    })
}

fn present(name: &'static str) -> Filter<'static> {
    match name {
        "pwdReset" => {
            let value = Cow::Borrowed(b"TRUE".as_slice());
            Filter::Equality(AvaFilter { description: name, value })
        }
        _ => Filter::Present(name),
    }
}

/// What the server says of one account; nothing if it can sign in, or has gone meanwhile.
fn listed(
    connection: &mut Connection,
    entry: &FoundEntry,
    kinds: &[&Kind],
) -> Result<Option<Listed>, Failure> {
    let asked = [
        operation::POLICY_DN,
        operation::UNTIL_UNLOCK,
        operation::ERRORS,
        operation::EXPIRATION,
        operation::PASSWORD_EXPIRATION,
    ];
    let operations = asked.iter().map(|number| StateOperation::of(*number)).collect();
    match ask(connection, &entry.dn, operations) {
        Ok(state) => Ok(of(&state, entry, kinds, moment::now())),
        Err(failure) if failure.exit == Exit::Refused && !failure.is_passing => {
            output::failure(&failure);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn of(state: &State, entry: &FoundEntry, kinds: &[&Kind], now: Timestamp) -> Option<Listed> {
    let findings = state.findings(operation::ERRORS);
    let known = |kind: &&&Kind| -> Option<Finding> {
        findings.iter().find(|one| kind.findings.contains(&one.name.as_str())).cloned()
    };
    let (kind, finding) = kinds.iter().find_map(|kind| Some((kind, known(&kind)?)))?;
    let since = kind.since.and_then(|name| match name {
        PASSWORD_END => state.value(operation::PASSWORD_EXPIRATION),
        END_TIME => state.value(operation::EXPIRATION),
        name => entry.text(name),
    });
    let until = state.value(operation::UNTIL_UNLOCK).and_then(|left| left.parse::<u64>().ok());
    let until = until.filter(|left| kind.word == "locked" && *left > 0);
    let end = |left: u64| Timestamp(now.0.saturating_add(left.saturating_mul(1_000_000)));
    Some(Listed {
        dn: state.dn.clone(),
        state: kind.word,
        message: finding.message,
        // An administrator's lock has no time, but one that stands for all of it.
        since: since.filter(|since| !since.starts_with("0000")).map(str::to_owned),
        until: until.map(|left| end(left).generalized_time()),
        policy: state.value(operation::POLICY_DN).map(str::to_owned),
    })
}

fn text(all: &[Listed]) -> String {
    let mut table = Table::new(&[
        ("account", Side::Left),
        ("state", Side::Left),
        ("since (UTC)", Side::Left),
        ("until (UTC)", Side::Left),
        ("policy", Side::Left),
    ]);
    for one in all {
        let time = |time: &Option<String>| time.as_deref().map_or_else(dash, moment::written);
        table.row(vec![
            one.dn.clone(),
            one.state.to_owned(),
            time(&one.since),
            time(&one.until),
            one.policy.clone().unwrap_or_else(dash),
        ]);
    }
    let count = number(all.len() as u64);
    let ending = if all.len() == 1 { "" } else { "s" };
    match all.first() {
        None => "no such account".to_owned(),
        Some(first) => format!(
            "{table}\n{count} account{ending}; 'roster account show {}' says more, and what mends \
             it",
            quoted(&first.dn)
        ),
    }
}

const LOCKED_TIME: &str = "pwdAccountLockedTime";
const END_TIME: &str = "pwdEndTime";
const PASSWORD_END: &str = "pwdExpirationTime";
const PAGE_ENTRIES: u32 = 500;
/// Accounts of one list.
const ACCOUNTS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_a_beginning_an_end_and_a_policy() {
        let entry = FoundEntry {
            dn: "uid=anna,dc=example".to_owned(),
            attributes: vec![(LOCKED_TIME.to_owned(), vec![b"20270101100000Z".to_vec()])],
        };
        let error = "code=5\tname=account-temporarily-locked-due-to-bind-failures\tmessage=why";
        let told = [
            (operation::ERRORS, error),
            (operation::UNTIL_UNLOCK, "60"),
            (operation::POLICY_DN, "cn=staff,dc=example"),
        ];
        let told = told.iter().map(|(at, text)| (*at, vec![(*text).to_owned()])).collect();
        let state = State { dn: entry.dn.clone(), told };
        let now = moment::parsed("2027-01-01T10:00:30Z").unwrap();
        let kinds: Vec<&Kind> = KINDS.iter().collect();
        let listed = of(&state, &entry, &kinds, now).unwrap();
        let text = text(&[listed]);
        let row = text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let want = "uid=anna,dc=example locked 2027-01-01 10:00 2027-01-01 10:01 cn=staff";
        assert!(row.starts_with(want), "{text}");
        // One that can sign in is in no list.
        let state = State { dn: String::new(), told: Vec::new() };
        assert!(of(&state, &entry, &kinds, now).is_none());
    }
}
