//! `roster lockdown`: has a running server serve nobody but administrators on its machine.

use clap::{Args, ValueEnum};
use directory::{AskedLockdown, LOCKDOWN, LockdownState};
use ldap::result::ResultCode;
use serde_json::json;

use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::output;

/// Have a running server serve only administrators on its own machine, or everybody again.
///
/// Everybody else is refused with 'unavailable', and /readyz fails. It is of this server alone and
/// ends with a restart. Needs the privilege server-lockdown; to begin it, bypass-lockdown and a
/// connection from the server's machine as well.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// 'on' or 'off', or 'status'
    #[arg(value_name = "WHAT")]
    what: What,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    On,
    Off,
    Status,
}

const EXAMPLES: &str = "\
Examples:
  roster lockdown on -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster lockdown status -W
  roster lockdown off -W";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let login = options.server.login()?;
    if login.servers() > 1 {
        return Err(Failure::local("a lockdown is of one server: name one with -H"));
    }
    let on = match options.what {
        What::On => Some(true),
        What::Off => Some(false),
        What::Status => None,
    };
    let value = serde_json::to_vec(&AskedLockdown { on })
        .map_err(|error| Failure::local(format!("the request cannot be encoded: {error}")))?;
    let (outcome, value) = login.connect()?.extended(LOCKDOWN, Some(&value))?;
    if outcome.code != ResultCode::Success {
        let refused = Failure::refused(outcome.to_string());
        return Err(match outcome.code {
            ResultCode::InsufficientAccessRights => refused.hint(ADMINISTRATOR_HINT),
            _ => refused,
        });
    }
    let state: LockdownState = serde_json::from_slice(&value.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("the server answers what is none: {error}")))?;
    let text = match state.on {
        true => "locked down: only administrators on its machine are served",
        false => "not locked down",
    };
    match options.json {
        true => output::line(format_args!("{}", json!({ "on": state.on })))?,
        false => output::line(format_args!("{text}"))?,
    }
    Ok(Exit::Done)
}
