//! Connecting to a running server: the options every such subcommand has, with the letters of
//! OpenLDAP's tools.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use client::{CertificateCheck, ClientError, ConnectOptions, Connection, TlsOptions};
use ldap::result::ResultCode;

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

    /// Bind as this entry; 'cn=Directory Manager' when only a password is given, and the owner of
    /// the process when the URI is ldapi://
    #[arg(short = 'D', long, value_name = "DN", env = "LDAPBINDDN", hide_env_values = true)]
    bind_dn: Option<String>,

    /// The password; others on this machine may see it
    #[arg(short = 'w', long, value_name = "PASSWORD", group = "password")]
    bind_password: Option<String>,

    /// Ask for the password
    #[arg(short = 'W', long, group = "password")]
    ask_password: bool,

    /// Read the password from this file, '-' for standard input; all of it, without the newline at
    /// its end
    #[arg(short = 'y', long, value_name = "FILE", group = "password")]
    bind_password_file: Option<PathBuf>,

    /// Accepted for habit: binds are simple wherever there is a password
    #[arg(short = 'x', hide = true)]
    simple: bool,

    /// Protect the connection by StartTLS if the server offers it; twice: or do not go on
    #[arg(short = 'Z', action = clap::ArgAction::Count)]
    start_tls: u8,

    /// Trust the certificates in this PEM file, such as DATA/tls/cert.pem, and no others
    #[arg(long, value_name = "FILE", env = "LDAPTLS_CACERT", hide_env_values = true)]
    cacert: Option<PathBuf>,

    /// How to look at the server's certificate: 'demand' or 'never'
    #[arg(long, value_name = "HOW", env = "LDAPTLS_REQCERT", default_value = "demand",
        hide_env_values = true, value_parser = certificate_check)]
    reqcert: CertificateCheck,
}

impl ServerOptions {
    /// Connects and binds.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        let mut options = ConnectOptions::new(&self.uri);
        options.tls = TlsOptions { check: self.reqcert, trusted: self.cacert.clone() };
        let mut connection = Connection::open(options)?;
        if self.start_tls > 0 && !connection.is_secure() {
            match connection.start_tls() {
                Ok(()) => {}
                // Refused, the connection is as it was before.
                Err(ClientError::Refused { outcome, .. }) if self.start_tls == 1 => {
                    let text = format_args!("roster: note: without TLS, as {outcome}");
                    output::note(text);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match (self.password()?, &self.bind_dn) {
            (Some(password), dn) => {
                connection.bind(dn.as_deref().unwrap_or(ADMINISTRATOR), &password)?;
            }
            (None, Some(dn)) => {
                return Err(Failure::local(format!("'{dn}' needs a password to bind"))
                    .hint("-W asks for it, -y FILE reads it"));
            }
            (None, None) if self.uri.starts_with("ldapi:") => connection.bind_external()?,
            (None, None) => {}
        }
        Ok(connection)
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

fn certificate_check(text: &str) -> Result<CertificateCheck, String> {
    CertificateCheck::named(text).ok_or_else(|| "it is 'demand' or 'never'".to_owned())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let plain = |error: &std::io::Error| crate::failure::plain(error);
        match &error {
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
        }
    }
}

/// What to do when the server wants the administrator.
pub(crate) const ADMINISTRATOR_HINT: &str = "ask as the administrator: -D 'cn=Directory Manager' \
                                             -W, or -H ldapi://SOCKET as the server's user";

const CERTIFICATE_HINT: &str = "trust a self-signed certificate with --cacert \
                                DATA/tls/cert.pem, or do not look with --reqcert never";
