//! `roster session`: who is connected to a running server, and ending that.

use clap::{ArgGroup, Args, Subcommand};

use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::session::{self, Which};

/// Show who is connected to a running server, and close sessions.
///
/// Listing needs the privilege config-read, closing disconnect-client. The administrator has both,
/// and so has the owner of the server's process through ldapi://.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster session list -W
  roster session list --address 192.0.2.7 --json -W
  roster session close 17 23 -W
  roster session close --identity uid=anna,ou=people,dc=example,dc=com -W
  roster session close --address 192.0.2.7 -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi";

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Close(Close),
}

/// List sessions: who, from where, since when, and the operations in progress.
#[derive(Args, Debug)]
struct List {
    /// Only sessions of this identity; "" for anonymous ones
    #[arg(long, value_name = "DN")]
    identity: Option<String>,

    /// Only sessions from this address; with a port, one; 'local' for the Unix socket
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Close sessions: by their numbers, or all of an identity or an address.
///
/// Their operations in progress are abandoned, and their clients get a notice. An application that
/// reconnects automatically comes back: to keep it out, disable the account ('roster account').
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
struct Close {
    /// The numbers of sessions, as in 'roster session list' and the access log
    #[arg(value_name = "NUMBER", group = "which", conflicts_with_all = ["identity", "address"])]
    numbers: Vec<u64>,

    /// All sessions of this identity; "" for anonymous ones
    #[arg(long, value_name = "DN", group = "which")]
    identity: Option<String>,

    /// All sessions from this address; with a port, one; 'local' for the Unix socket
    #[arg(long, value_name = "ADDRESS", group = "which")]
    address: Option<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(List { identity, address, json, server }) => {
            let which = Which { identity: identity.as_deref(), address: address.as_deref() };
            session::list(&mut server.connect()?, which, *json)
        }
        Action::Close(Close { numbers, identity, address, server }) => {
            let which = Which { identity: identity.as_deref(), address: address.as_deref() };
            let mut connection = server.connect()?;
            if numbers.is_empty() {
                session::close_all(&mut connection, which)
            } else {
                session::close(&mut connection, numbers)
            }
        }
    }
}
