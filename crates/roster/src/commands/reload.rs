//! `roster reload`: has a running server read again what its machine says of settings.

use std::thread;
use std::time::Duration;

use clap::Args;
use client::Connection;
use directory::{RELOAD_SETTINGS, SettingsReload};
use serde_json::json;

use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::{json_operation, output};

/// Have a running server read its settings file and its certificates again.
///
/// What is in roster.toml, in other files that it names, and in the certificates' files comes into
/// force: listeners, TLS, limits and others; who is connected stays so. If any of it cannot be
/// used, all stays as it was. SIGHUP does the same. Needs the privilege config-write.
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
  roster reload -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster reload -W";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let mut told = ask(&mut connection, None)?;
    let mut turns = TURNS_MAX;
    while !told.is_done {
        turns -= 1;
        if turns == 0 {
            return Err(Failure::refused("the server has not read its settings within 60 s")
                .hint("its log tells when it has, and what came of it"));
        }
        wait();
        told = ask(&mut connection, Some(told.number))?;
    }
    if let Some(error) = told.error {
        return Err(Failure::refused(output::within_line(&error))
            .hint("the settings of before stay in force"));
    }
    let SettingsReload { changed, waiting, .. } = told;
    if options.json {
        output::line(format_args!("{}", json!({ "changed": changed, "waiting": waiting })))?;
        return Ok(Exit::Done);
    }
    if changed.is_empty() && waiting.is_empty() {
        output::line(format_args!("no setting has changed"))?;
    }
    for name in changed {
        output::line(format_args!("{}: in force", output::within_line(&name)))?;
    }
    for name in waiting {
        let name = output::within_line(&name);
        output::line(format_args!("{name}: takes effect with the next start"))?;
    }
    Ok(Exit::Done)
}

fn ask(connection: &mut Connection, number: Option<u64>) -> Result<SettingsReload, Failure> {
    json_operation::ask(connection, RELOAD_SETTINGS, &json!({ "number": number }))
}

#[allow(clippy::disallowed_methods, reason = "the server is asked again in a while")]
fn wait() {
    thread::sleep(PAUSE);
}

const PAUSE: Duration = Duration::from_millis(100);
/// So often it is asked, which takes a minute.
const TURNS_MAX: u32 = 600;
