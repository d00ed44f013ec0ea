//! Connecting to a running server: the options every such subcommand has, with the letters of
//! OpenLDAP's tools.

use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use client::{CertificateCheck, ClientError, ConnectOptions, Connection, TlsOptions};
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use crate::commands::init::ADMINISTRATOR;
use crate::failure::Failure;
use crate::output;

/// Which server, and as whom.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerOptions {
    /// The server: ldap://, ldaps:// or ldapi://
    #[arg(
        short = 'H',
        long,
        value_name = "URI",
        env = "LDAPURI",
        default_value = "ldap://127.0.0.1:1389",
        hide_env_values = true
    )]
    uri: String,

    #[command(flatten)]
    login: LoginOptions,
}

impl ServerOptions {
    /// Connects and binds.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        self.login()?.connect()
    }

    /// Which server.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// How the server is connected to, as often as there is need.
    pub(crate) fn login(&self) -> Result<Login, Failure> {
        self.login.on(&self.uri)
    }

    /// Connects for requests that the server works on as long as it takes, as when it compares an
    /// index with millions of entries.
    pub(crate) fn connect_patiently(&self) -> Result<Connection, Failure> {
        let mut login = self.login.on(&self.uri)?;
        login.options.answer_timeout = PATIENCE;
        login.connect()
    }
}

/// Several servers of which any will do, and as whom.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ManyServers {
    /// A server: ldap://, ldaps:// or ldapi://; several can be given
    #[arg(
        short = 'H',
        long = "uri",
        value_name = "URI",
        env = "LDAPURI",
        value_delimiter = ' ',
        default_value = "ldap://127.0.0.1:1389",
        hide_env_values = true
    )]
    uris: Vec<String>,

    #[command(flatten)]
    login: LoginOptions,
}

impl ManyServers {
    /// How each is connected to. The password is asked for once.
    pub(crate) fn logins(&self) -> Result<Vec<Login>, Failure> {
        let mut logins = Vec::new();
        let mut password = None;
        for uri in &self.uris {
            if password.is_none() {
                password = Some(self.login.password()?);
            }
            logins.push(self.login.with(uri, password.clone().flatten())?);
        }
        Ok(logins)
    }
}

/// Which server, and as whom, for subcommands that can do without a server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct OnlineOptions {
    /// A running server: ldap://, ldaps:// or ldapi://
    #[arg(short = 'H', long, value_name = "URI")]
    uri: Option<String>,

    #[command(flatten)]
    login: LoginOptions,
}

impl OnlineOptions {
    /// How the server is connected to, if one was named.
    pub(crate) fn login(&self) -> Result<Option<Login>, Failure> {
        self.uri.as_deref().map(|uri| self.login.on(uri)).transpose()
    }
}

/// As whom.
#[derive(Args, Debug)]
struct LoginOptions {
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
    /// How the server at `uri` is connected to. The password is asked for once.
    fn on(&self, uri: &str) -> Result<Login, Failure> {
        self.with(uri, self.password()?)
    }

    fn with(&self, uri: &str, password: Option<Vec<u8>>) -> Result<Login, Failure> {
        let mut options = ConnectOptions::new(uri);
        options.tls = TlsOptions::new(self.reqcert, self.cacert.clone());
        let bind = match (password, &self.bind_dn) {
            (Some(password), dn) => {
                let dn = dn.as_deref().unwrap_or(ADMINISTRATOR);
                Bind::Simple(dn.to_owned(), password)
            }
            (None, Some(dn)) => {
                return Err(Failure::local(format!("'{dn}' needs a password to bind"))
                    .hint("-W asks for it, -y FILE reads it"));
            }
            (None, None) if uri.starts_with("ldapi:") => Bind::External,
            (None, None) => Bind::Anonymous,
        };
        let start_tls = self.start_tls;
        Ok(Login { options, start_tls, bind, is_noted: AtomicBool::new(false) })
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
        let Some(path) = &self.bind_password_file else { return Ok(None) };
        let mut password = Vec::new();
        let read = if path.as_os_str() == "-" {
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
        Ok(Some(password))
    }
}

/// How a server is connected to, as often as there is need.
pub(crate) struct Login {
    options: ConnectOptions,
    start_tls: u8,
    bind: Bind,
    /// That there is no TLS was told.
    is_noted: AtomicBool,
}

/// As whom.
#[derive(Clone, Deserialize, Serialize)]
enum Bind {
    Anonymous,
    External,
    Simple(String, Vec<u8>),
}

/// How a server is connected to, for another process to do it.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct LoginText {
    url: String,
    checks_certificate: bool,
    /// A file on the machine of that process.
    trusted: Option<PathBuf>,
    start_tls: u8,
    bind: Bind,
}

/// What it holds besides the address is a secret.
impl fmt::Debug for LoginText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginText").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Login {
    /// This login, for answers of up to this size.
    pub(crate) fn for_answers(mut self, message_size_max_bytes: usize) -> Self {
        self.options.message_size_max_bytes = message_size_max_bytes;
        self
    }

    /// For another process.
    pub(crate) fn text(&self) -> LoginText {
        LoginText {
            url: self.options.url.clone(),
            checks_certificate: self.options.tls.check == CertificateCheck::Demand,
            trusted: self.options.tls.trusted.clone(),
            start_tls: self.start_tls,
            bind: self.bind.clone(),
        }
    }

    /// What another process was told.
    pub(crate) fn of(text: LoginText) -> Self {
        let check = match text.checks_certificate {
            true => CertificateCheck::Demand,
            false => CertificateCheck::Never,
        };
        let mut options = ConnectOptions::new(text.url);
        options.tls = TlsOptions::new(check, text.trusted);
        let (start_tls, bind) = (text.start_tls, text.bind);
        Self { options, start_tls, bind, is_noted: AtomicBool::new(false) }
    }

    /// Which server.
    pub(crate) fn uri(&self) -> &str {
        &self.options.url
    }

    /// Connects and binds.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        let mut connection = self.connect_unbound()?;
        match &self.bind {
            Bind::Anonymous => {}
            Bind::External => connection.bind_external()?,
            Bind::Simple(dn, password) => connection.bind(dn, password)?,
        }
        Ok(connection)
    }

    /// Connects, with TLS where that is asked for, and stays anonymous.
    pub(crate) fn connect_unbound(&self) -> Result<Connection, Failure> {
        let mut connection = Connection::open(self.options.clone())?;
        if self.start_tls > 0 && !connection.is_secure() {
            match connection.start_tls() {
                Ok(()) => {}
                // Refused, the connection is as it was before.
                Err(ClientError::Refused { outcome, .. }) if self.start_tls == 1 => {
                    if !self.is_noted.swap(true, Ordering::Relaxed) {
                        let text = format_args!("roster: note: without TLS, as {outcome}");
                        output::note(text);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(connection)
    }

    /// How connections are protected: `none`, `starttls` or `ldaps`.
    pub(crate) fn protection(&self) -> &'static str {
        match (self.options.url.starts_with("ldaps:"), self.start_tls) {
            (true, _) => "ldaps",
            (false, 0) => "none",
            (false, _) => "starttls",
        }
    }
}

fn certificate_check(text: &str) -> Result<CertificateCheck, String> {
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
            ClientError::Closed(_) | ClientError::TimedOut(_) | ClientError::Malformed(_) => {
                Self::refused(&error)
            }
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
        ClientError::Url { .. } | ClientError::Trust { .. } | ClientError::Malformed(_) => false,
    }
}

/// What to do when the server wants the administrator.
pub(crate) const ADMINISTRATOR_HINT: &str = "run it as the administrator: -D 'cn=Directory \
                                             Manager' -W, or -H ldapi://SOCKET as the server's \
                                             user";

const CERTIFICATE_HINT: &str = "trust a self-signed certificate with --cacert DATA/tls/cert.pem, \
                                or skip the verification with --reqcert never";

/// The longest wait for the answer to what is known to take long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(86_400);
