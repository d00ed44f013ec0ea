//! `roster status`: how a server is, on one screen.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::TlsOptions;
use ldap::url::LdapUrl;
use server::Settings;

use crate::connect::{Login, OnlineOptions, login_of};
use crate::failure::{Exit, Failure};
use crate::health::facts::{Facts, Look};
use crate::health::machine::Machine;
use crate::health::status;
use crate::location::DataLocation;

/// Show how a server is: version, connections, load, cluster, certificate, backup, disk, errors.
///
/// Asks the server as its administrator: with -W, or on its machine through the Unix socket in the
/// data directory, which is used if no server is named. Where --data or --config is given, no other
/// server is asked unless -H names it. What it does not say is called not known. Exits with code 2
/// if no server answers.
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
    /// How the server is connected to: the one that is named, or that of the data directory that
    /// is named, and no other; else the one of the usual data directory through its socket, or the
    /// one on the default port.
    pub(super) fn login(&self) -> Result<Login, Failure> {
        if let Some(login) = self.server.login()? {
            return Ok(login);
        }
        if self.location.is_named() {
            return self.login_of_named(&self.location.settings()?);
        }
        let socket = match self.server.has_bind() {
            true => None,
            false => self.location.settings().ok().and_then(|settings| settings.ldapi_path()),
        };
        let uri = socket.filter(|path| path.exists()).map(|path| client::ldapi_url(&path));
        self.server.login_at(uri)
    }

    /// The server with these settings. What is said of another one would be taken for its own.
    fn login_of_named(&self, settings: &Settings) -> Result<Login, Failure> {
        let uri = uri_of(settings)?;
        if uri.starts_with("ldapi:") && !self.server.has_bind() {
            let url = LdapUrl::parse(&uri).map_err(Failure::local)?;
            return login_of(&url, None, &TlsOptions::default(), 0);
        }
        // A variable that is left over is not to name another server.
        if self.server.names_server() {
            let what = "LDAPURI names a server, and --data or --config, too";
            return Err(Failure::local(what).hint("name it with -H, or unset LDAPURI"));
        }
        self.server.login_at(Some(uri))
    }

    /// What is known of it. The data directory is looked at where it is named, or no server is.
    pub(super) fn facts(&self, login: &Login, is_thorough: bool) -> Result<Facts, Failure> {
        let is_named = self.location.is_named();
        let machine = match is_named || !self.server.names_server() {
            true => Some(Machine::look(self.location.settings()?)),
            false => None,
        };
        // Nobody says that there is one here.
        let machine = machine.filter(|machine| is_named || machine.is_ok());
        let backup = self.backup.clone();
        let mut facts = Facts::gather(Look { login, machine, backup, is_thorough });
        if let (true, Err(failure)) = (is_named, &mut facts.server) {
            self.tell_of_named(login, failure)?;
        }
        Ok(facts)
    }

    /// Says of which server it is that it does not answer, if it is that of the data directory.
    fn tell_of_named(&self, login: &Login, failure: &mut Failure) -> Result<(), Failure> {
        let settings = self.location.settings()?;
        let whole = |uri: &str| LdapUrl::parse(uri).map(|url| url.to_string()).ok();
        if !uri_of(&settings).is_ok_and(|uri| whole(&uri) == whole(login.uri())) {
            return Ok(());
        }
        let data = settings.server.data.display();
        let socket = settings.ldapi_path().map(|path| path.try_exists());
        let (state, hint) = match socket {
            Some(Ok(false)) => ("is not running", "start it, or name another one with -H"),
            _ if failure.is_passing => ("does not answer", "does it run, and as this user?"),
            _ => return Ok(()),
        };
        failure.message = format!("the server of {data} {state}: {}", failure.message);
        failure.hint = Some(hint.to_owned());
        Ok(())
    }
}

/// Where the server with these settings listens: on its socket, if it has one.
fn uri_of(settings: &Settings) -> Result<String, Failure> {
    match (settings.ldapi_path(), &*settings.listen.ldap, &*settings.listen.ldaps) {
        (Some(path), _, _) => Ok(client::ldapi_url(&path)),
        (None, [address, ..], _) => Ok(format!("ldap://{}", reachable(*address))),
        (None, [], [address, ..]) => Ok(format!("ldaps://{}", reachable(*address))),
        (None, [], []) => {
            let what = "by its settings the server listens nowhere";
            Err(Failure::local(what).hint("name it with -H ldap://host:port"))
        }
    }
}

/// An address to connect to, of one to listen on.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
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
