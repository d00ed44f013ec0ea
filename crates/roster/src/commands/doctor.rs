//! `roster doctor`: what is wrong with a server, and what mends it.

use clap::Args;

use crate::commands::status::Where;
use crate::failure::{Exit, Failure};
use crate::health::doctor;

/// Look for what is wrong with a server, show how that is seen, and say what mends it.
///
/// Asks the server as its administrator, and looks at the data directory and the backup where they
/// are on this machine; changes nothing. docs/reference/doctor.md lists the checks. Exits with code
/// 1 if there is an error or a warning; notes are none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List what is looked for; asks nobody
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    place: Where,
}

const EXAMPLES: &str = "\
Examples:
  roster doctor --data ./data --backup /backup/roster
  roster doctor -H ldaps://ldap.example.com -W
  roster doctor --json -W";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.list {
        return doctor::list();
    }
    let login = options.place.login()?;
    let facts = options.place.facts(&login, true)?;
    doctor::run(&facts, options.json)
}
