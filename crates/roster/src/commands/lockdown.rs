//! `roster lockdown`: has a running server serve nobody but administrators on its machine.

use clap::{Args, ValueEnum};
use directory::{AskedLockdown, LOCKDOWN, LockdownState};
use serde_json::json;

use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::{json_operation, output};

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
    let asked = AskedLockdown { on };
    let state: LockdownState = json_operation::ask(&mut login.connect()?, LOCKDOWN, &asked)?;
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
