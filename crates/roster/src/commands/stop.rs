//! `roster stop`: has a running server stop; and what `roster restart` does.

use std::thread;
use std::time::Duration;

use clap::Args;
use client::Connection;
use directory::{AskedStop, STOP_SERVER, ServerRun, StopKind};
use environment::{Clock as _, SystemClock};
use serde_json::json;

use crate::connect::{Login, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::{json_operation, output};

/// Stop a running server.
///
/// It stops as on SIGTERM: operations in progress are finished, clients get a notice, and what is
/// queued is written. Needs the privilege server-shutdown.
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
  roster stop -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster stop -W";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let login = options.server.login()?;
    let mut connection = connect(&login)?;
    ask(&mut connection, StopKind::Stop)?;
    match options.json {
        true => output::line(format_args!("{}", json!({ "stops": true })))?,
        false => output::line(format_args!("the server stops"))?,
    }
    Ok(Exit::Done)
}

/// Has the server begin anew, and waits for it.
pub(crate) fn restart(login: &Login, json: bool) -> Result<Exit, Failure> {
    let mut connection = connect(login)?;
    let clock = SystemClock::new();
    let begin = clock.elapsed();
    let before = ask(&mut connection, StopKind::Restart)?;
    drop(connection);
    loop {
        thread::park_timeout(LOOK_EVERY);
        let took = clock.elapsed().saturating_sub(begin);
        let told = login.connect().and_then(|mut it| ask(&mut it, StopKind::Tell));
        let failure = match told {
            Ok(now) if now != before => {
                let seconds = took.as_secs_f64();
                match json {
                    true => output::line(format_args!("{}", json!({ "seconds": seconds })))?,
                    false => output::line(format_args!("it serves again, after {seconds:.1} s"))?,
                }
                return Ok(Exit::Done);
            }
            Ok(_) => Failure::refused("the server has not stopped yet"),
            Err(failure) => failure,
        };
        if took >= WAIT_MAX {
            let what = format!("the server does not serve again: {}", failure.message);
            return Err(Failure { message: what, ..failure }.hint("its log says why"));
        }
    }
}

fn connect(login: &Login) -> Result<Connection, Failure> {
    if login.servers() > 1 {
        return Err(Failure::local("one server is stopped at a time: name one with -H"));
    }
    login.connect()
}

fn ask(connection: &mut Connection, action: StopKind) -> Result<ServerRun, Failure> {
    json_operation::ask(connection, STOP_SERVER, &AskedStop { action })
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So long a server may take until it serves again: a start after a crash reads its journal.
const WAIT_MAX: Duration = Duration::from_secs(300);
