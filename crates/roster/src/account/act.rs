//! Changing an account: one request, and one line about what came of it.

use client::Connection;
use environment::Timestamp;
use ldap::control_value::policy_state::{StateOperation, operation};

use super::{State, ask, each, quoted};
use crate::failure::{Exit, Failure};
use crate::output;

/// What is to be done.
pub(crate) enum Act {
    Enable,
    Disable,
    Unlock,
    Lock,
    Expire(Timestamp),
    NeverExpire,
    ChangePassword,
}

impl Act {
    fn operations(&self) -> Vec<StateOperation<'static>> {
        let with = |number, value: String| StateOperation { number, values: vec![value.into()] };
        let truth = |number| with(number, "true".to_owned());
        match self {
            Self::Enable => vec![StateOperation::of(operation::CLEAR_DISABLED)],
            Self::Disable => vec![truth(operation::SET_DISABLED)],
            Self::Unlock => vec![StateOperation::of(operation::CLEAR_FAILURES)],
            Self::Lock => vec![truth(operation::SET_LOCKED)],
            Self::Expire(at) => vec![with(operation::SET_EXPIRATION, at.generalized_time())],
            Self::NeverExpire => vec![StateOperation::of(operation::CLEAR_EXPIRATION)],
            Self::ChangePassword => vec![truth(operation::SET_RESET)],
        }
    }

    /// What else the account needs, as it is now.
    fn further(&self, state: &State) -> Option<u32> {
        match self {
            // Switched on is now, not from its first day on.
            Self::Enable if state.is(operation::NOT_YET_ACTIVE) => {
                Some(operation::CLEAR_ACTIVATION)
            }
            // It would be locked again at once.
            Self::Unlock if state.is(operation::IDLE_LOCKED) => Some(operation::SET_LAST_LOGIN),
            _ => None,
        }
    }

    fn done(&self) -> &'static str {
        match self {
            Self::Enable => "enabled",
            Self::Disable => "disabled",
            Self::Unlock => "unlocked",
            Self::Lock => "locked until it is unlocked",
            Self::Expire(_) => "expires",
            Self::NeverExpire => "does not expire",
            Self::ChangePassword => "must change the password at the next sign-in",
        }
    }

    /// Whether signing in is meant to work afterwards.
    fn opens(&self) -> bool {
        matches!(self, Self::Enable | Self::Unlock | Self::NeverExpire)
    }
}

/// Does it with each account.
pub(crate) fn run(
    connection: &mut Connection,
    accounts: &[String],
    act: &Act,
) -> Result<Exit, Failure> {
    each(connection, accounts, &mut |connection, dn| {
        let asks = [
            operation::NOT_YET_ACTIVE,
            operation::IDLE_LOCKED,
            operation::USABLE,
            operation::ERRORS,
            operation::EXPIRATION,
        ];
        let with = |mut operations: Vec<StateOperation<'static>>| {
            operations.extend(asks.map(StateOperation::of));
            operations
        };
        let mut state = ask(connection, dn, with(act.operations()))?;
        if let Some(further) = act.further(&state) {
            state = ask(connection, dn, with(vec![StateOperation::of(further)]))?;
        }
        print(&state, act)
    })
}

fn print(state: &State, act: &Act) -> Result<(), Failure> {
    let dn = &state.dn;
    let when = match (act, state.value(operation::EXPIRATION)) {
        (Act::Expire(_), Some(at)) => format!(" {}", super::moment::told(at, super::moment::now())),
        _ => String::new(),
    };
    output::line(format_args!("{dn}: {}{when}", act.done()))?;
    let errors = state.findings(operation::ERRORS);
    if act.opens() && !state.is(operation::USABLE) {
        for finding in &errors {
            output::line(format_args!("  still cannot sign in: {}", finding.message))?;
        }
        output::line(format_args!("  see: roster account show {}", quoted(dn)))?;
    }
    let asks_for_change = errors.iter().any(|one| one.name == "must-change-password");
    if matches!(act, Act::ChangePassword) && !asks_for_change {
        output::line(format_args!(
            "  but its policy does not require that: pwdMustChange is not TRUE in it"
        ))?;
    }
    Ok(())
}
