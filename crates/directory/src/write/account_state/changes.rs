//! What can be changed of an account: one row for each operation.

use environment::Timestamp;
use ldap::control_value::policy_state::operation as number;
use ldap::result::ResultCode;
use schema::{Entry, Schema};

use super::change_operation::{AccountChange, ChangeOperation};
use crate::password_policy::{DISABLED, EXPIRATION, Locked, Switches, time};
use crate::request::refusal::Refusal;

/// The row of an operation.
pub(super) fn change_operation(number: u32) -> Option<&'static ChangeOperation> {
    CHANGE_OPERATIONS.iter().find(|one| one.number == number)
}

const fn row(
    number: u32,
    reports: u32,
    change: fn(&mut AccountChange<'_>, &[String]) -> Result<(), Refusal>,
) -> ChangeOperation {
    ChangeOperation { number, reports, change }
}

/// All of them.
static CHANGE_OPERATIONS: &[ChangeOperation] = &[
    row(number::SET_DISABLED, number::DISABLED, |it, values| {
        it.account.switches.is_disabled = truth(values)?;
        Ok(())
    }),
    row(number::CLEAR_DISABLED, number::DISABLED, |it, _| {
        it.account.switches.is_disabled = false;
        Ok(())
    }),
    row(number::SET_EXPIRATION, number::EXPIRATION, |it, values| {
        it.account.state.end = Some(it.moment(values)?);
        it.account.switches.expires = None;
        Ok(())
    }),
    row(number::CLEAR_EXPIRATION, number::EXPIRATION, |it, _| {
        (it.account.state.end, it.account.switches.expires) = (None, None);
        Ok(())
    }),
    row(number::SET_CHANGED, number::CHANGED, |it, values| {
        it.account.state.changed = Some(it.moment(values)?);
        Ok(())
    }),
    row(number::CLEAR_CHANGED, number::CHANGED, |it, _| {
        it.account.state.changed = None;
        Ok(())
    }),
    row(number::SET_WARNED, number::WARNED, |_, _| Err(not_kept())),
    row(number::CLEAR_WARNED, number::WARNED, |_, _| Ok(())),
    row(number::ADD_FAILURE, number::FAILURES, |it, values| {
        let state = &it.account.state;
        let failed = state.after_failure(it.policy, it.moment(values)?);
        it.account.state = failed;
        it.account.state.failures.sort_unstable();
        Ok(())
    }),
    row(number::SET_FAILURES, number::FAILURES, |it, values| {
        it.account.state.failures = it.moments(values)?;
        Ok(())
    }),
    row(number::CLEAR_FAILURES, number::FAILURES, |it, _| {
        it.unlock();
        Ok(())
    }),
    row(number::SET_LAST_LOGIN, number::LAST_LOGIN, |it, values| {
        it.account.state.last_success = Some(it.moment(values)?);
        Ok(())
    }),
    row(number::CLEAR_LAST_LOGIN, number::LAST_LOGIN, |it, _| {
        it.account.state.last_success = None;
        Ok(())
    }),
    row(number::SET_RESET, number::RESET, |it, values| {
        it.account.state.is_reset = truth(values)?;
        Ok(())
    }),
    row(number::CLEAR_RESET, number::RESET, |it, _| {
        it.account.state.is_reset = false;
        Ok(())
    }),
    row(number::ADD_GRACE_USE, number::GRACE_USES, |it, values| {
        let moment = it.moment(values)?;
        it.account.state.grace_uses.push(moment);
        it.account.state.grace_uses.sort_unstable();
        Ok(())
    }),
    row(number::SET_GRACE_USES, number::GRACE_USES, |it, values| {
        it.account.state.grace_uses = it.moments(values)?;
        Ok(())
    }),
    row(number::CLEAR_GRACE_USES, number::GRACE_USES, |it, _| {
        it.account.state.grace_uses.clear();
        Ok(())
    }),
    row(number::SET_REQUIRED_CHANGE, number::REQUIRED_CHANGE, |_, _| Err(not_kept())),
    row(number::CLEAR_REQUIRED_CHANGE, number::REQUIRED_CHANGE, |_, _| Ok(())),
    row(number::CLEAR_HISTORY, number::HISTORY, |it, _| {
        it.account.state.history.clear();
        Ok(())
    }),
    row(number::SET_ACTIVATION, number::ACTIVATION, |it, values| {
        it.account.state.start = Some(it.moment(values)?);
        Ok(())
    }),
    row(number::CLEAR_ACTIVATION, number::ACTIVATION, |it, _| {
        it.account.state.start = None;
        Ok(())
    }),
    row(number::SET_LOCKED, number::LOCKED, |it, values| {
        if truth(values)? {
            // Nothing but an unlock ends what an administrator did.
            it.account.state.locked = Some(Locked::ForEver);
        } else {
            it.unlock();
        }
        Ok(())
    }),
];

impl AccountChange<'_> {
    fn unlock(&mut self) {
        self.account.state.locked = None;
        self.account.state.failures.clear();
    }

    /// The one time that was sent, or now.
    fn moment(&self, values: &[String]) -> Result<Timestamp, Refusal> {
        match values {
            [] => Ok(self.now),
            [value] => moment(value),
            [_, _, ..] => Err(violates("there is one time".to_owned())),
        }
    }

    /// The times that were sent, or now.
    fn moments(&self, values: &[String]) -> Result<Vec<Timestamp>, Refusal> {
        if values.is_empty() {
            return Ok(vec![self.now]);
        }
        let mut moments = values.iter().map(|one| moment(one)).collect::<Result<Vec<_>, _>>()?;
        moments.sort_unstable();
        moments.dedup();
        Ok(moments)
    }
}

fn moment(value: &str) -> Result<Timestamp, Refusal> {
    time(value).ok_or_else(|| {
        violates(format!("'{value}' is not a time after 1970 such as 20301231120000Z"))
    })
}

fn truth(values: &[String]) -> Result<bool, Refusal> {
    match values {
        [value] if value.eq_ignore_ascii_case("true") => Ok(true),
        [value] if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(violates("the value is true or false".to_owned())),
    }
}

fn violates(why: String) -> Refusal {
    Refusal::new(ResultCode::ConstraintViolation, why)
}

fn not_kept() -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, "this server keeps no such time for an account")
}

/// Writes what switches an account off, where the entry says something else. An account that is
/// disabled by the name of one server stays so by that name; one that is enabled is so by all.
pub(super) fn write_switches(
    switches: Switches,
    entry: &mut Entry,
    schema: &Schema,
) -> Result<(), Refusal> {
    let there = crate::password_policy::SwitchTypes::new(schema).read(entry);
    if there.expires != switches.expires {
        replace(entry, schema, EXPIRATION, Vec::new())?;
    }
    match (there.is_disabled, switches.is_disabled) {
        (true, true) | (false, false) => {}
        (false, true) => replace(entry, schema, DISABLED[0], vec!["true".to_owned()])?,
        (true, false) => {
            for name in DISABLED {
                replace(entry, schema, name, Vec::new())?;
            }
        }
    }
    Ok(())
}

/// Replaces the values of an attribute; one that the schema does not know has none.
pub(super) fn replace(
    entry: &mut Entry,
    schema: &Schema,
    name: &str,
    values: Vec<String>,
) -> Result<(), Refusal> {
    let Ok(description) = schema.describe(name) else { return Ok(()) };
    let values = values.into_iter().map(String::into_bytes).collect();
    Ok(entry.replace_values(schema, &description, values)?)
}
