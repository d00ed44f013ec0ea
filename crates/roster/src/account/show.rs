//! `roster account show`: an account on one screen, for people and as JSON.

use client::Connection;
use environment::Timestamp;
use ldap::control_value::policy_state::{StateOperation, operation};
use serde::Serialize;

use super::{Finding, State, ask, each, moment, quoted};
use crate::failure::{Exit, Failure};
use crate::output;

/// What is asked for.
const ASKED: &[u32] = &[
    operation::POLICY_DN,
    operation::DISABLED,
    operation::ACTIVATION,
    operation::EXPIRATION,
    operation::CHANGED,
    operation::PASSWORD_EXPIRATION,
    operation::FAILURES,
    operation::REMAINING_FAILURES,
    operation::LOCKED,
    operation::UNTIL_UNLOCK,
    operation::LAST_LOGIN,
    operation::UNTIL_IDLE_LOCK,
    operation::IDLE_LOCKED_TIME,
    operation::RESET,
    operation::GRACE_USES,
    operation::REMAINING_GRACE,
    operation::PASSWORD_EXPIRED,
    operation::HISTORY_COUNT,
    operation::HAS_PASSWORD,
    operation::USABLE,
    operation::ERRORS,
    operation::WARNINGS,
    operation::NOTICES,
];

/// An account as JSON.
#[derive(Serialize)]
struct Shown<'s> {
    dn: &'s str,
    can_sign_in: bool,
    problems: Vec<Mended>,
    warnings: Vec<Finding>,
    notices: Vec<Finding>,
    policy: Option<&'s str>,
    disabled: bool,
    locked: bool,
    seconds_until_unlock: Option<u64>,
    valid_from: Option<&'s str>,
    valid_until: Option<&'s str>,
    has_password: bool,
    password_changed: Option<&'s str>,
    password_expires: Option<&'s str>,
    must_change_password: bool,
    remembered_passwords: u64,
    grace_uses: &'s [String],
    remaining_grace: u64,
    failures: &'s [String],
    remaining_failures: Option<u64>,
    last_login: Option<&'s str>,
    idle_lock: Option<&'s str>,
}

/// A problem, and the command that mends it.
#[derive(Serialize)]
struct Mended {
    #[serde(flatten)]
    finding: Finding,
    mend: Option<String>,
}

/// Prints each account.
pub(crate) fn run(
    connection: &mut Connection,
    accounts: &[String],
    json: bool,
) -> Result<Exit, Failure> {
    let now = moment::now();
    let mut all = Vec::new();
    let mut is_first = true;
    let exit = each(connection, accounts, &mut |connection, dn| {
        let operations = ASKED.iter().map(|number| StateOperation::of(*number)).collect();
        let state = ask(connection, dn, operations)?;
        if json {
            all.push(state);
            return Ok(());
        }
        if !std::mem::take(&mut is_first) {
            output::line(format_args!(""))?;
        }
        for line in lines(&state, now) {
            output::line(format_args!("{}", output::within_line(&line)))?;
        }
        Ok(())
    })?;
    if json {
        let shown: Vec<Shown<'_>> = all.iter().map(shown).collect();
        output::json(&shown)?;
    }
    Ok(exit)
}

fn shown(state: &State) -> Shown<'_> {
    let number = |of: u32| state.value(of).and_then(|value| value.parse().ok());
    let problems = state.findings(operation::ERRORS).into_iter();
    Shown {
        dn: &state.dn,
        can_sign_in: state.is(operation::USABLE),
        problems: problems
            .map(|finding| Mended { mend: mend(&finding, &state.dn), finding })
            .collect(),
        warnings: state.findings(operation::WARNINGS),
        notices: state.findings(operation::NOTICES),
        policy: state.value(operation::POLICY_DN),
        disabled: state.is(operation::DISABLED),
        locked: state.is(operation::LOCKED),
        seconds_until_unlock: number(operation::UNTIL_UNLOCK),
        valid_from: state.value(operation::ACTIVATION),
        valid_until: state.value(operation::EXPIRATION),
        has_password: state.is(operation::HAS_PASSWORD),
        password_changed: state.value(operation::CHANGED),
        password_expires: state.value(operation::PASSWORD_EXPIRATION),
        must_change_password: state.is(operation::RESET),
        remembered_passwords: number(operation::HISTORY_COUNT).unwrap_or(0),
        grace_uses: state.values(operation::GRACE_USES),
        remaining_grace: number(operation::REMAINING_GRACE).unwrap_or(0),
        failures: state.values(operation::FAILURES),
        remaining_failures: number(operation::REMAINING_FAILURES),
        last_login: state.value(operation::LAST_LOGIN),
        idle_lock: state.value(operation::IDLE_LOCKED_TIME),
    }
}

/// The screen: the verdict and its reasons first, what mends them, then what is known.
fn lines(state: &State, now: Timestamp) -> Vec<String> {
    let dn = &state.dn;
    let problems = state.findings(operation::ERRORS);
    let notices = state.findings(operation::NOTICES);
    let verdict = match (state.is(operation::USABLE), problems.is_empty()) {
        (true, true) => "can sign in",
        (true, false) => "can sign in, but",
        (false, _) => "cannot sign in",
    };
    let mut lines = vec![dn.clone(), format!("  {verdict}")];
    let no_password = notices.iter().filter(|one| one.name == "no-static-password");
    for finding in problems.iter().chain(no_password) {
        lines.push(format!("    - {}", finding.message));
        lines.extend(mend(finding, dn).map(|command| format!("        {command}")));
    }
    for finding in state.findings(operation::WARNINGS) {
        lines.push(format!("    ! {}", finding.message));
    }
    for finding in notices.iter().filter(|one| one.name != "no-static-password") {
        lines.push(format!("    . {}", finding.message));
    }
    let at = |number| state.value(number).map(|time| moment::told(time, now));
    let mut row = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:<16} {value}")));
    };
    let policy = state.value(operation::POLICY_DN).unwrap_or("none governs this account");
    row("policy", Some(policy.to_owned()));
    row("password set", at(operation::CHANGED));
    let is_over = state.is(operation::PASSWORD_EXPIRED);
    row(if is_over { "expired" } else { "expires" }, at(operation::PASSWORD_EXPIRATION));
    let uses = state.values(operation::GRACE_USES).len();
    let grace = format!("{} left", state.value(operation::REMAINING_GRACE).unwrap_or("0"));
    row("grace sign-ins", (is_over || uses > 0).then(|| format!("{uses} used, {grace}")));
    row("last sign-in", at(operation::LAST_LOGIN));
    let failures = state.values(operation::FAILURES);
    let last = failures.last().map(|last| format!(", last {}", moment::told(last, now)));
    let left = state.value(operation::REMAINING_FAILURES).filter(|left| *left != "0");
    let left = left.map(|left| format!("; {left} more lock the account")).unwrap_or_default();
    let failed = format!("{}{}{left}", failures.len(), last.unwrap_or_default());
    row("failed sign-ins", (!failures.is_empty() || !left.is_empty()).then_some(failed));
    row("locked if idle", at(operation::IDLE_LOCKED_TIME));
    row("valid from", at(operation::ACTIVATION));
    row("valid until", at(operation::EXPIRATION));
    let kept = state.value(operation::HISTORY_COUNT).filter(|count| *count != "0");
    row("used passwords", kept.map(|count| format!("{count} remembered")));
    lines
}

/// The command that mends a problem, if one does.
fn mend(finding: &Finding, dn: &str) -> Option<String> {
    let action = match finding.name.as_str() {
        "account-disabled" | "account-not-yet-active" => "enable",
        "account-expired" => "expire --never",
        "account-permanently-locked-due-to-bind-failures"
        | "account-temporarily-locked-due-to-bind-failures"
        | "account-idle-locked" => "unlock",
        "password-expired"
        | "password-expired-with-grace-logins"
        | "account-reset-locked"
        | "no-static-password" => "reset",
        // What only the person can do.
        _ => return None,
    };
    Some(format!("roster account {action} {}", quoted(dn)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(told: &[(u32, &[&str])]) -> State {
        let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let told = told.iter().map(|(number, values)| (*number, owned(values))).collect();
        State { dn: "uid=anna,dc=example".to_owned(), told }
    }

    #[test]
    fn a_locked_account_says_since_when_until_when_and_what_mends_it() {
        let locked = "code=5\tname=account-temporarily-locked-due-to-bind-failures\tmessage=the \
                      account is locked since 2027-01-01 10:00:00 UTC, until 2027-01-01 11:00:00 \
                      UTC";
        let told = state(&[
            (operation::POLICY_DN, &["cn=staff,dc=example"]),
            (operation::USABLE, &["false"]),
            (operation::ERRORS, &[locked]),
            (operation::CHANGED, &["20261201100000Z"]),
            (operation::PASSWORD_EXPIRATION, &["20270301100000Z"]),
            (operation::FAILURES, &["20270101095900Z", "20270101100000Z"]),
            (operation::REMAINING_FAILURES, &["0"]),
            (operation::LAST_LOGIN, &["20261230100000Z"]),
            (operation::HISTORY_COUNT, &["3"]),
        ]);
        let now = moment::parsed("2027-01-01T10:30:00Z").unwrap();
        let want = "\
uid=anna,dc=example
  cannot sign in
    - the account is locked since 2027-01-01 10:00:00 UTC, until 2027-01-01 11:00:00 UTC
        roster account unlock uid=anna,dc=example
  policy           cn=staff,dc=example
  password set     2026-12-01 10:00 UTC (31 days ago)
  expires          2027-03-01 10:00 UTC (in 58 days)
  last sign-in     2026-12-30 10:00 UTC (2 days ago)
  failed sign-ins  2, last 2027-01-01 10:00 UTC (30 minutes ago)
  used passwords   3 remembered";
        assert_eq!(lines(&told, now).join("\n"), want);
        let json = serde_json::to_value(shown(&told)).unwrap();
        assert_eq!(json["can_sign_in"], false);
        assert_eq!(json["problems"][0]["mend"], "roster account unlock uid=anna,dc=example");
        assert_eq!(json["remaining_failures"], 0);
    }

    #[test]
    fn an_account_in_order_is_short() {
        let told = state(&[(operation::USABLE, &["true"])]);
        let want = [
            "uid=anna,dc=example",
            "  can sign in",
            "  policy           none governs this account",
        ];
        assert_eq!(lines(&told, Timestamp(0)), want);
    }
}
