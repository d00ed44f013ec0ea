//! `roster restart`: has a running server begin anew.

use clap::Args;

use crate::commands::stop;
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};

/// Have a running server begin anew, and wait until it serves again.
///
/// It stops as on SIGTERM, then starts in the same process with the arguments that it has: settings
/// that take effect with a start do so. It does not stop when its settings cannot be used. Needs
/// the privilege server-restart.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster restart -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster restart -W";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    stop::restart(&options.server.login()?, options.json)
}
