//! `roster account`: who can sign in, why not, and what mends it.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use crate::account::act::{self, Act};
use crate::account::administrator::{self, NewPassword};
use crate::account::{list, moment, reset, show};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::location::DataLocation;

/// Show and change whether users can sign in.
///
/// Works on a running server, as an identity with the privilege password-reset, such as the
/// administrator. Name an account by its DN, or by its uid if only one entry has it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster account show anna -W
  roster account list --locked -W
  roster account unlock uid=anna,ou=people,dc=example,dc=com -W
  roster account disable anna bert -W
  roster account expire anna --at 2027-01-31 -W
  roster account expire anna --password -W
  roster account reset anna -W
  roster account set-administrator-password --data /var/lib/roster";

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    List(List),
    /// Enable accounts.
    Enable(Plain),
    /// Disable accounts, for every way to sign in.
    Disable(Plain),
    /// Unlock accounts that were locked by failed sign-ins, an administrator or idleness.
    Unlock(Plain),
    /// Lock accounts until they are unlocked: passwords are not accepted.
    Lock(Plain),
    Expire(Expire),
    Reset(Reset),
    SetAdministratorPassword(SetAdministratorPassword),
}

/// Show whether an account can sign in, why not, and the command that fixes it.
#[derive(Args, Debug)]
struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    plain: Plain,
}

/// List the accounts that are locked, disabled or expired: since when, until when, by which policy.
///
/// Lists those that you may see, and whose pwdAccountLockedTime (and the like) you may read.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
struct List {
    /// Those that failed sign-ins, an administrator or idleness has locked
    #[arg(long, group = "which")]
    locked: bool,

    /// Those that an administrator has disabled
    #[arg(long, group = "which")]
    disabled: bool,

    /// Those that have expired, and those whose password has
    #[arg(long, group = "which")]
    expired: bool,

    /// Those whose password must be changed first
    #[arg(long, group = "which")]
    must_change: bool,

    /// Only at and below this entry
    #[arg(short, long, value_name = "DN", default_value = "")]
    base: String,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Which accounts, on which server.
#[derive(Args, Debug)]
struct Plain {
    /// The accounts: DNs, or values of uid
    #[arg(value_name = "ACCOUNT", required = true)]
    accounts: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Expire an account, now or at a time; or its password.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("when").multiple(false))]
struct Expire {
    /// At this time: 2027-01-31, 2027-01-31T18:00:00Z or 20270131180000Z, all in UTC
    #[arg(long, value_name = "TIME", group = "when", value_parser = moment::parsed)]
    at: Option<environment::Timestamp>,

    /// After this time: 30d, 12h, 90m or 3600s
    #[arg(long = "in", value_name = "LENGTH", group = "when", value_parser = moment::length)]
    after: Option<std::time::Duration>,

    /// Never: the account does not expire
    #[arg(long, group = "when")]
    never: bool,

    /// Not the account, but its password: it must be changed at the next sign-in
    #[arg(long = "password", group = "when")]
    must_change: bool,

    #[command(flatten)]
    plain: Plain,
}

/// Set a new password; by default the server generates it, and it is printed.
#[derive(Args, Debug)]
struct Reset {
    /// Read the new password from this file, without the newline at its end
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,

    #[command(flatten)]
    plain: Plain,
}

/// Change the administrator's password, on the server's machine; by default it is generated.
///
/// For 'cn=Directory Manager', who has no entry, also if the password is lost. Writes to the data
/// directory, as its owner; a running server takes it at once. Each server of a cluster has its
/// own.
#[derive(Args, Debug)]
struct SetAdministratorPassword {
    /// Read the new password from this file, without the newline at its end
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,

    /// Ask for the new password
    #[arg(long, conflicts_with = "new_password_file")]
    ask_new_password: bool,

    #[command(flatten)]
    location: DataLocation,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::Show(Show { json, plain }) => {
            let mut connection = plain.server.connect()?;
            show::run(&mut connection, &plain.accounts, *json)
        }
        Action::List(options) => {
            let List { locked, disabled, expired, must_change, .. } = *options;
            let wanted = list::Wanted { locked, disabled, expired, must_change };
            let mut connection = options.server.connect()?;
            list::run(&mut connection, &options.base, wanted, options.json)
        }
        Action::Enable(plain) => plain.act(&Act::Enable),
        Action::Disable(plain) => plain.act(&Act::Disable),
        Action::Unlock(plain) => plain.act(&Act::Unlock),
        Action::Lock(plain) => plain.act(&Act::Lock),
        Action::Expire(Expire { at, after, never, must_change, plain }) => {
            plain.act(&match (at, after) {
                _ if *must_change => Act::ChangePassword,
                _ if *never => Act::NeverExpire,
                (Some(at), _) => Act::Expire(*at),
                (None, Some(length)) => Act::Expire(moment::from_now(*length)),
                (None, None) => Act::Expire(moment::now()),
            })
        }
        Action::SetAdministratorPassword(options) => {
            let file = options.new_password_file.as_deref();
            let new = NewPassword { file, is_asked: options.ask_new_password };
            administrator::run(&options.location, &new)
        }
        Action::Reset(Reset { new_password_file, plain }) => {
            let new = new_password_file.as_deref().map(reset::read).transpose()?;
            let mut connection = plain.server.connect()?;
            reset::run(&mut connection, &plain.accounts, new.as_deref())
        }
    }
}

impl Plain {
    fn act(&self, act: &Act) -> Result<Exit, Failure> {
        act::run(&mut self.server.connect()?, &self.accounts, act)
    }
}
