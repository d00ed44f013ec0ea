//! Connecting to running servers: the options every such subcommand has, with the letters of
//! OpenLDAP's tools.
//!
//! `uris` reads lists of servers, `srv` finds those of a domain, `login` connects to the first that
//! answers.

mod login;
mod srv;
mod uris;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use client::{CertificateCheck, ClientError, Connection, TlsOptions};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use ldap::url::{LdapUrl, UrlScheme};

use self::login::Bind;
pub(crate) use self::login::{Login, LoginText, PATIENCE, note_passed_over};
pub(crate) use self::uris::SERVERS_MAX;
use self::uris::ServerUris;
use crate::commands::init::ADMINISTRATOR;
use crate::failure::Failure;

/// Which servers, and as whom.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerOptions {
    /// A server: ldap://, ldaps:// or ldapi://; several may be given, separated by spaces or
    /// commas. ldap:///dc=example,dc=com finds those of a domain in the DNS
    #[arg(
        short = 'H',
        long,
        value_name = "URI",
        env = URI_VARIABLE,
        default_value = URI_DEFAULT,
        hide_env_values = true,
        value_parser = ServerUris::parse
    )]
    uri: Vec<ServerUris>,

    #[command(flatten)]
    login: LoginOptions,
}

impl ServerOptions {
    /// Connects to the first server that answers, and binds.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        self.login()?.connect()
    }

    /// How the first of the servers that answers is connected to, as often as there is need.
    pub(crate) fn login(&self) -> Result<Login, Failure> {
        self.login.on(&srv::located(ServerUris::all(&self.uri)?)?)
    }

    /// How each of the servers is connected to. The password is asked for once.
    pub(crate) fn logins(&self) -> Result<Vec<Login>, Failure> {
        Ok(self.login()?.each())
    }

    /// As whom, for servers that are named elsewhere.
    pub(crate) const fn as_whom(&self) -> &LoginOptions {
        &self.login
    }

    /// Connects for requests that the server works on as long as it takes, as when it compares an
    /// index with millions of entries.
    pub(crate) fn connect_patiently(&self) -> Result<Connection, Failure> {
        self.login()?.patient().connect()
    }
}

/// Which servers, and as whom, for subcommands that can do without a server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct OnlineOptions {
    /// A running server: ldap://, ldaps:// or ldapi://; several may be given, separated by spaces
    /// or commas: the first that answers is used
    #[arg(short = 'H', long, value_name = "URI", value_parser = ServerUris::parse)]
    uri: Vec<ServerUris>,

    #[command(flatten)]
    login: LoginOptions,
}

impl OnlineOptions {
    /// How the server is connected to, if one was named.
    pub(crate) fn login(&self) -> Result<Option<Login>, Failure> {
        if self.uri.is_empty() {
            return Ok(None);
        }
        self.login.on(&srv::located(ServerUris::all(&self.uri)?)?).map(Some)
    }

    /// Whether a server is named.
    pub(crate) fn names_server(&self) -> bool {
        !self.uri.is_empty() || std::env::var_os(URI_VARIABLE).is_some()
    }

    /// Whether somebody says as whom.
    pub(crate) fn has_bind(&self) -> bool {
        let LoginOptions { bind_dn, bind_password, ask_password, bind_password_file, .. } =
            &self.login;
        let is_named = bind_dn.is_some() || bind_password.is_some();
        is_named || *ask_password || bind_password_file.is_some()
    }

    /// How a server is connected to that is not named on the command line: the one of LDAPURI, or
    /// this one, or the one on the default port.
    pub(crate) fn login_at(&self, uri: Option<String>) -> Result<Login, Failure> {
        let named = std::env::var(URI_VARIABLE).ok().or(uri);
        let uri = named.unwrap_or_else(|| URI_DEFAULT.to_owned());
        let uris = ServerUris::parse(&uri).map_err(Failure::local)?;
        self.login.on(&srv::located(ServerUris::all(&[uris])?)?)
    }
}

/// As whom.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct LoginOptions {
    /// Bind as this entry; by default 'cn=Directory Manager' if a password is given, and the owner
    /// of the process if the URI is ldapi://
    #[arg(short = 'D', long, value_name = "DN", env = "LDAPBINDDN", hide_env_values = true)]
    bind_dn: Option<String>,

    /// The password; other users of this machine can see it
    #[arg(short = 'w', long, value_name = "PASSWORD", group = "password")]
    bind_password: Option<String>,

    /// Ask for the password
    #[arg(short = 'W', long, group = "password")]
    ask_password: bool,

    /// Read the password from this file, '-' for standard input, without the newline at its end
    #[arg(short = 'y', long, value_name = "FILE", group = "password")]
    bind_password_file: Option<PathBuf>,

    /// Accepted for compatibility: binds with a password are always simple
    #[arg(short = 'x', hide = true)]
    simple: bool,

    /// Use StartTLS if the server offers it; twice: require it
    #[arg(short = 'Z', action = clap::ArgAction::Count)]
    start_tls: u8,

    /// Trust the certificates in this PEM file, such as DATA/tls/cert.pem, and no others
    #[arg(long, value_name = "FILE", env = "LDAPTLS_CACERT", hide_env_values = true)]
    cacert: Option<PathBuf>,

    /// Whether to verify the server's certificate: 'demand' or 'never'
    #[arg(long, value_name = "HOW", env = "LDAPTLS_REQCERT", default_value = "demand",
        hide_env_values = true, value_parser = certificate_check)]
    reqcert: CertificateCheck,
}

impl LoginOptions {
    /// Whether the password comes from standard input.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.bind_password_file.as_deref().is_some_and(is_standard_input)
    }

    /// How the servers of LDAP URLs are connected to: each is its host, or the first that answers
    /// of those that the DNS names for its entry; where it has one, as somebody else. The password
    /// is asked for once.
    pub(crate) fn on_urls(
        &self,
        urls: &[(&LdapUrl, Option<(&str, &Path)>)],
    ) -> Result<Vec<Login>, Failure> {
        let mut own = None;
        let mut logins = Vec::with_capacity(urls.len());
        for (url, other) in urls {
            let uris = srv::located(vec![server_of(url)])?;
            let login = match (other, &own) {
                (Some((dn, path)), _) => self.with(&uris, Some(dn), read_password(path).map(Some)?),
                (None, Some(password)) => {
                    self.with(&uris, self.bind_dn.as_deref(), Option::clone(password))
                }
                (None, None) => {
                    let password = own.insert(self.password()?).clone();
                    self.with(&uris, self.bind_dn.as_deref(), password)
                }
            };
            logins.push(login?);
        }
        Ok(logins)
    }

    /// How these servers are connected to. The password is asked for once.
    fn on(&self, uris: &[String]) -> Result<Login, Failure> {
        self.with(uris, self.bind_dn.as_deref(), self.password()?)
    }

    fn with(
        &self,
        uris: &[String],
        bind_dn: Option<&str>,
        password: Option<Vec<u8>>,
    ) -> Result<Login, Failure> {
        let bind = match (&password, bind_dn) {
            (Some(password), dn) => {
                let dn = dn.unwrap_or(ADMINISTRATOR);
                Some(Bind::Simple(dn.to_owned(), password.clone()))
            }
            (None, Some(dn)) => {
                return Err(Failure::local(format!("'{dn}' needs a password to bind"))
                    .hint("-W asks for it, -y FILE reads it"));
            }
            (None, None) => None,
        };
        let tls = TlsOptions::new(self.reqcert, self.cacert.clone());
        Ok(Login::new(uris, &tls, self.start_tls, bind.as_ref()))
    }

    fn password(&self) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(password) = &self.bind_password {
            return Ok(Some(password.clone().into_bytes()));
        }
        if self.ask_password {
            let password = rpassword::prompt_password("Password: ").map_err(|error| {
                let reason = crate::failure::plain(&error);
                Failure::local(format!("cannot ask for the password: {reason}"))
            })?;
            return Ok(Some(password.into_bytes()));
        }
        self.bind_password_file.as_deref().map(read_password).transpose()
    }
}

/// How the server of a URL is connected to, as whoever is named; else as nobody, or over a Unix
/// socket as who owns the process.
pub(crate) fn login_of(
    url: &LdapUrl,
    bind: Option<(&str, &Path)>,
    tls: &TlsOptions,
    start_tls: u8,
) -> Result<Login, Failure> {
    let uris = srv::located(vec![server_of(url)])?;
    let simple = |(dn, path): (&str, &Path)| {
        Ok::<_, Failure>(Bind::Simple(dn.to_owned(), read_password(path)?))
    };
    let bind = bind.map(simple).transpose()?;
    Ok(Login::new(&uris, tls, start_tls, bind.as_ref()))
}

/// A URL with nothing but its server: its host, this machine, or those of the domain that the entry
/// names.
fn server_of(url: &LdapUrl) -> String {
    let is_domain = url.host.is_none() && url.scheme != UrlScheme::Ldapi;
    let dn = if is_domain { url.dn.clone() } else { Dn::root() };
    let (attributes, extensions) = (Vec::new(), Vec::new());
    LdapUrl { dn, attributes, scope: None, filter: None, extensions, ..url.clone() }.to_string()
}

/// The password in a file.
fn read_password(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut password = Vec::new();
    let read = if is_standard_input(path) {
        std::io::stdin().read_to_end(&mut password).map(|_| ())
    } else {
        std::fs::read(path).map(|octets| password = octets)
    };
    read.map_err(|error| Failure::path("read", path, &error))?;
    for end in [b'\n', b'\r'] {
        if password.last() == Some(&end) {
            password.pop();
        }
    }
    // A bind without a password is one of nobody, and servers may let it pass.
    if password.is_empty() {
        return Err(Failure::local(format!("there is no password in {}", path.display())));
    }
    Ok(password)
}

/// Whether a file is standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(crate) fn certificate_check(text: &str) -> Result<CertificateCheck, String> {
    CertificateCheck::named(text).ok_or_else(|| "expected 'demand' or 'never'".to_owned())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let plain = |error: &std::io::Error| crate::failure::plain(error);
        let is_passing = is_passing(&error);
        let failure = match &error {
            ClientError::Connect { address, source } => {
                Self::local(format!("cannot connect to {address}: {}", plain(source)))
                    .hint("does the server run there? Name it with -H ldap://host:port")
            }
            ClientError::Lost(source) => {
                Self::refused(format!("the connection was lost: {}", plain(source)))
            }
            ClientError::Tls(reason) if reason.contains("ertificate") => {
                Self::local(&error).hint(CERTIFICATE_HINT)
            }
            ClientError::Refused { outcome, .. } => {
                let failure = Self::refused(&error);
                match outcome.code {
                    ResultCode::InvalidCredentials => {
                        failure.hint("is it the password that 'roster init' or the demo printed?")
                    }
                    ResultCode::InsufficientAccessRights => failure.hint(ADMINISTRATOR_HINT),
                    _ => failure,
                }
            }
            ClientError::Closed(_)
            | ClientError::TimedOut(_)
            | ClientError::TooMuch(_)
            | ClientError::Malformed(_) => Self::refused(&error),
            ClientError::Url { .. } | ClientError::Tls(_) | ClientError::Trust { .. } => {
                Self::local(&error)
            }
        };
        Self { is_passing, ..failure }
    }
}

/// Whether it may be otherwise when the same is asked later, as after a restart of the server.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. }
        | ClientError::Lost(_)
        | ClientError::Closed(_)
        | ClientError::TimedOut(_) => true,
        ClientError::Tls(reason) => !reason.contains("ertificate"),
        ClientError::Refused { outcome, .. } => {
            matches!(outcome.code, ResultCode::Busy | ResultCode::Unavailable)
        }
        ClientError::Url { .. }
        | ClientError::Trust { .. }
        | ClientError::TooMuch(_)
        | ClientError::Malformed(_) => false,
    }
}

/// Where OpenLDAP's tools find the servers, and where the server is by default.
const URI_VARIABLE: &str = "LDAPURI";
const URI_DEFAULT: &str = "ldap://127.0.0.1:1389";

/// What to do when the server wants the administrator.
pub(crate) const ADMINISTRATOR_HINT: &str = "run it as the administrator: -D 'cn=Directory \
                                             Manager' -W, or -H ldapi://SOCKET as the server's \
                                             user";

const CERTIFICATE_HINT: &str = "trust a self-signed certificate with --cacert DATA/tls/cert.pem, \
                                or skip the verification with --reqcert never";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_password_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, password) in [("secret\r\n", Some("secret")), ("\n", None), ("", None)] {
            std::fs::write(file.path(), text).unwrap();
            let read = read_password(file.path()).ok();
            assert_eq!(read.as_deref(), password.map(str::as_bytes), "{text:?}");
        }
    }
}
