//! `roster cluster`: making a cluster out of a data directory, how a running one is doing,
//! changing who takes part in it, and comparing what its members have stored.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cluster_status::ClusterView;
use crate::commands::cluster_init::{self, Init};
use crate::commands::cluster_join::{self, Join, Rejoin, Token};
use crate::commands::cluster_members::{self, Demote, Promote, Remove, Rename, Replace, Transfer};
use crate::commands::cluster_recover::{self, Recover};
use crate::commands::cluster_verify::{self, Verify};
use crate::connect::{Login, ServerOptions, note_passed_over};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output;

/// Make a cluster of servers that hold one directory, show how it is doing, and change who takes
/// part.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster cluster init -H ldap://192.0.2.1 -Z -W --member '1 192.0.2.1:7636 ldap://192.0.2.1:389'
  roster cluster init --data ./data --member '1 192.0.2.1:7636 ldap://192.0.2.1:389'
  roster cluster token -H ldap://192.0.2.1 -Z -W
  roster cluster join TOKEN --data ./data --address 192.0.2.2:7636 --url ldap://192.0.2.2:389
  roster cluster init --data ./data --out ./nodes \\
    --member '1 192.0.2.1:7636 ldap://192.0.2.1:389' \\
    --member '2 192.0.2.2:7636 ldap://192.0.2.2:389' \\
    --member '3 192.0.2.3:7636 ldap://192.0.2.3:389'
  roster cluster status -H ldap://192.0.2.1 -H ldap://192.0.2.2 -W
  roster cluster status --json -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster cluster transfer -H ldap://192.0.2.1 -W 2
  roster cluster replace -H ldap://192.0.2.1 -W 3 65612
  roster cluster recover --data ./data
  roster cluster verify -H ldap://192.0.2.1 -W";

#[derive(Debug, Subcommand)]
enum Action {
    Status(Status),
    Init(Init),
    Token(Token),
    Join(Join),
    Promote(Promote),
    Demote(Demote),
    Remove(Remove),
    Replace(Replace),
    Transfer(Transfer),
    Rename(Rename),
    Rejoin(Rejoin),
    Recover(Recover),
    Verify(Verify),
}

/// Show the members of a cluster: role, term, and how far each is behind the leader.
///
/// Any member knows it; with several servers, the first that answers and knows who leads is asked.
/// It needs the privilege config-read, as 'roster top' does. Exits with 1 if something is wrong,
/// and says what to do.
#[derive(Args, Debug)]
struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Show it again and again, until Ctrl-C
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    servers: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::Status(options) => status(options),
        Action::Init(options) => cluster_init::init(options),
        Action::Token(options) => cluster_join::token(options),
        Action::Join(options) => cluster_join::join(options),
        Action::Promote(options) => cluster_members::promote(options),
        Action::Demote(options) => cluster_members::demote(options),
        Action::Remove(options) => cluster_members::remove(options),
        Action::Replace(options) => cluster_members::replace(options),
        Action::Transfer(options) => cluster_members::transfer(options),
        Action::Rename(options) => cluster_members::rename(options),
        Action::Rejoin(options) => cluster_join::rejoin(options),
        Action::Recover(options) => cluster_recover::recover(options),
        Action::Verify(options) => cluster_verify::verify(options),
    }
}

fn status(options: &Status) -> Result<Exit, Failure> {
    let logins = options.servers.logins()?.into_iter().map(Login::among_others);
    let logins: Vec<Login> = logins.collect();
    if options.watch {
        return watch(options, &logins);
    }
    let noted = |login: &Login, failure: &Failure| note_passed_over(login.uri(), failure);
    let (mut connection, first) = ask(&logins, &noted).map_err(|(failure, _)| failure)?;
    // Whether a lag grows takes two looks.
    let (view, before) = if first.has_lag() {
        thread::park_timeout(SECOND_LOOK_AFTER);
        (ClusterView::read(&mut connection)?, Some(first))
    } else {
        (first, None)
    };
    let advice = view.advice(before.as_ref());
    if options.json {
        output::json(&serde_json::json!({ "cluster": view, "advice": advice }))?;
    } else {
        output::line(format_args!("{}", view.table()))?;
        for line in &advice {
            output::note(format_args!("roster: note: {line}"));
        }
    }
    Ok(if advice.is_empty() { Exit::Done } else { Exit::Refused })
}

/// Shows the members until somebody ends it, whatever becomes of them.
fn watch(options: &Status, logins: &[Login]) -> Result<Exit, Failure> {
    let interrupted = interrupt::flag()?;
    // A page of its own for a person; one after the other for programs.
    let begin = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut before = None;
    while !interrupted.load(Ordering::Relaxed) {
        let seen = match ask(logins, &|_, _| {}) {
            // A login that is refused once is not tried every two seconds.
            Err((failure, Asking::IsOver)) => return Err(failure),
            Err((failure, Asking::GoesOn)) => Err(failure),
            Ok((_, view)) => Ok(view),
        };
        if options.json {
            let line = match &seen {
                Ok(view) => {
                    let advice = view.advice(before.as_ref());
                    serde_json::json!({ "cluster": view, "advice": advice })
                }
                Err(failure) => serde_json::json!({ "error": failure.message }),
            };
            output::line(format_args!("{line}"))?;
        } else {
            let (table, advice) = match &seen {
                Ok(view) => (view.table(), view.advice(before.as_ref())),
                Err(failure) => (failure.message.clone(), Vec::new()),
            };
            let advice: String = advice.iter().map(|line| format!("note: {line}\n")).collect();
            output::line(format_args!("{begin}{table}\n\n{advice}"))?;
        }
        before = seen.ok();
        thread::park_timeout(WATCH_EVERY);
    }
    Ok(Exit::Done)
}

/// Whether who watches asks again after a failure.
enum Asking {
    GoesOn,
    IsOver,
}

/// The first server that knows who leads; else the first that answers. One that refuses the login
/// ends it: all members would refuse it, and count it.
fn ask(
    logins: &[Login],
    pass_over: &dyn Fn(&Login, &Failure),
) -> Result<(client::Connection, ClusterView), (Failure, Asking)> {
    let mut best = None;
    let mut failed = None;
    for login in logins {
        let mut connection = match login.connect() {
            Ok(connection) => connection,
            Err(failure) if failure.is_passing => {
                if logins.len() > 1 {
                    pass_over(login, &failure);
                }
                failed = failed.or(Some(failure));
                continue;
            }
            Err(failure) => return Err((failure, Asking::IsOver)),
        };
        match ClusterView::read(&mut connection) {
            Ok(view) if view.leader().is_some() => return Ok((connection, view)),
            Ok(view) => best = best.or(Some((connection, view))),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    best.ok_or_else(|| {
        (failed.unwrap_or_else(|| Failure::local("no server is named")), Asking::GoesOn)
    })
}

/// Time between two looks at a lag.
const SECOND_LOOK_AFTER: Duration = Duration::from_millis(1_500);
/// Time between two looks of who watches.
const WATCH_EVERY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod reference;
