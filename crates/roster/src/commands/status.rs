//! `roster status`: how a server is, on one screen.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::connect::{Login, OnlineOptions};
use crate::failure::{Exit, Failure};
use crate::health::facts::{Facts, Look};
use crate::health::machine::Machine;
use crate::health::status;
use crate::location::DataLocation;

/// Show how a server is: version, connections, load, cluster, certificate, backup, disk, errors.
///
/// Asks the server as its administrator: with -W, or on its machine through the Unix socket in the
/// data directory, which is used if no server is named. What it does not say is called not known.
/// Exits with code 2 if no server answers.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

const EXAMPLES: &str = "\
Examples:
  roster status --data ./data
  roster status -H ldaps://ldap.example.com -W
  roster status --backup /backup/roster --json";

/// Which server is looked at, and what else.
#[derive(Args, Debug)]
pub(super) struct Where {
    /// Look at the backup in this directory, too
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,

    #[command(flatten)]
    location: DataLocation,

    #[command(flatten)]
    server: OnlineOptions,
}

impl Where {
    /// How the server is connected to: the one that is named, or the one of the data directory
    /// through its socket, or the one on the default port.
    pub(super) fn login(&self) -> Result<Login, Failure> {
        if let Some(login) = self.server.login()? {
            return Ok(login);
        }
        let socket = match self.server.has_bind() {
            true => None,
            false => self.location.settings().ok().and_then(|settings| settings.ldapi_path()),
        };
        let uri = socket.filter(|path| path.exists()).map(|path| {
            let path = path.display().to_string();
            format!("ldapi://{}", path.replace('%', "%25").replace('/', "%2F"))
        });
        self.server.login_at(uri)
    }

    /// What is known of it. The data directory is looked at where it is named, or no server is.
    pub(super) fn facts(&self, login: &Login, is_thorough: bool) -> Result<Facts, Failure> {
        let is_here = self.location.is_named() || !self.server.names_server();
        let machine = match is_here {
            true => Machine::look(self.location.settings()?),
            false => None,
        };
        let backup = self.backup.clone();
        Ok(Facts::gather(Look { login, machine, backup, is_thorough }))
    }
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let login = options.place.login()?;
    let mut facts = options.place.facts(&login, false)?;
    if facts.monitor().is_some() {
        status::measure(&mut login.connect()?, &mut facts, MEASURED);
    }
    status::run(&facts, options.json)
}

/// How long operations are counted.
const MEASURED: Duration = Duration::from_secs(1);
