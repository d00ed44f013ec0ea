//! How servers are connected to: the first of several that answers.
//!
//! Invariant: a server that refuses ends it. Only one that is not there, or says that it cannot
//! answer now, is passed over: a wrong password must not be tried on all members of a cluster,
//! which would lock the account.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use client::{CertificateCheck, ClientError, ConnectOptions, Connection, SearchFor, TlsOptions};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output;

/// How the first of some servers that answers is connected to, as often as there is need.
pub(crate) struct Login {
    /// At least one.
    servers: Vec<Server>,
    /// The one that answered last, which is asked first.
    current: AtomicUsize,
    start_tls: u8,
    /// That there is no TLS was told.
    is_noted: AtomicBool,
    /// Nobody is told which servers were passed over.
    is_silent: bool,
    waits: Waits,
}

/// One of the servers, and as whom.
#[derive(Debug)]
struct Server {
    options: ConnectOptions,
    bind: Bind,
    /// That it was passed over was told.
    is_noted: AtomicBool,
}

/// How long a server may take to let somebody in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Waits {
    /// As long as the client waits.
    Long,
    /// There are others to ask.
    Short,
}

/// As whom.
#[derive(Clone, Deserialize, Serialize)]
pub(super) enum Bind {
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

/// Likewise.
impl fmt::Debug for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bind")
    }
}

impl Login {
    /// For these servers; without `bind` as nobody, or over a Unix socket as who owns the process.
    pub(super) fn new(
        uris: &[String],
        tls: &TlsOptions,
        start_tls: u8,
        bind: Option<&Bind>,
    ) -> Self {
        let server = |uri: &String| {
            let bind = match bind {
                Some(bind) => bind.clone(),
                None if uri.starts_with("ldapi:") => Bind::External,
                None => Bind::Anonymous,
            };
            let options = ConnectOptions { tls: tls.clone(), ..ConnectOptions::new(uri) };
            Server { options, bind, is_noted: AtomicBool::new(false) }
        };
        let waits = if uris.len() > 1 { Waits::Short } else { Waits::Long };
        Self::of_servers(uris.iter().map(server).collect(), start_tls, waits)
    }

    fn of_servers(servers: Vec<Server>, start_tls: u8, waits: Waits) -> Self {
        Self {
            servers,
            current: AtomicUsize::new(0),
            start_tls,
            is_noted: AtomicBool::new(false),
            is_silent: false,
            waits,
        }
    }

    /// For each of the servers one of its own, which waits as long as for a server alone.
    pub(crate) fn each(self) -> Vec<Self> {
        let start_tls = self.start_tls;
        let one = |server| Self::of_servers(vec![server], start_tls, Waits::Long);
        self.servers.into_iter().map(one).collect()
    }

    /// This login, for answers of up to this size.
    pub(crate) fn for_answers(mut self, message_size_max_bytes: usize) -> Self {
        self.options(|options| options.message_size_max_bytes = message_size_max_bytes);
        self
    }

    /// This login, for answers that take as long as they take.
    pub(crate) fn patient(mut self) -> Self {
        self.options(|options| options.answer_timeout = PATIENCE);
        self
    }

    /// This login, for who asks others when this server does not answer soon.
    pub(crate) fn among_others(mut self) -> Self {
        self.waits = Waits::Short;
        self
    }

    /// This login, without notes about servers that do not answer.
    pub(crate) fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    fn options(&mut self, set: impl Fn(&mut ConnectOptions)) {
        self.servers.iter_mut().for_each(|server| set(&mut server.options));
    }

    /// For another process: the server that is asked first.
    pub(crate) fn text(&self) -> LoginText {
        let Server { options, bind, .. } = self.server();
        LoginText {
            url: options.url.clone(),
            checks_certificate: options.tls.check == CertificateCheck::Demand,
            trusted: options.tls.trusted.clone(),
            start_tls: self.start_tls,
            bind: bind.clone(),
        }
    }

    /// What another process was told.
    pub(crate) fn of(text: LoginText) -> Self {
        let check = match text.checks_certificate {
            true => CertificateCheck::Demand,
            false => CertificateCheck::Never,
        };
        let tls = TlsOptions::new(check, text.trusted);
        Self::new(&[text.url], &tls, text.start_tls, Some(&text.bind))
    }

    /// The server that answered last, or is asked first.
    pub(crate) fn uri(&self) -> &str {
        &self.server().options.url
    }

    fn server(&self) -> &Server {
        let current = self.servers.get(self.current.load(Ordering::Relaxed));
        current.or(self.servers.first()).expect("a login has at least one server")
    }

    /// Connects to the first server that answers, and binds.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        self.first_that_answers(|server| self.bind(server))
    }

    /// Connects to the first server that answers, with TLS where that is asked for, and stays
    /// anonymous.
    pub(crate) fn connect_unbound(&self) -> Result<Connection, Failure> {
        self.first_that_answers(|server| self.open(server))
    }

    /// Asks the servers, one after the other, beginning with the one that answered last.
    fn first_that_answers(
        &self,
        ask: impl Fn(&Server) -> Result<Connection, Failure>,
    ) -> Result<Connection, Failure> {
        let (count, first) = (self.servers.len(), self.current.load(Ordering::Relaxed));
        let mut failed: Option<Failure> = None;
        for turn in 0..count {
            let place = (first + turn) % count;
            let Some(server) = self.servers.get(place) else { continue };
            match ask(server) {
                Ok(connection) => {
                    self.current.store(place, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(failure) if failure.is_passing && count > 1 => {
                    if !self.is_silent && !server.is_noted.swap(true, Ordering::Relaxed) {
                        note_passed_over(&server.options.url, &failure);
                    }
                    failed.get_or_insert(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        let failure = failed.unwrap_or_else(|| Failure::local("no server is named"));
        let message = format!("none of {count} servers answers; the first: {}", failure.message);
        Err(Failure { message, ..failure })
    }

    fn bind(&self, server: &Server) -> Result<Connection, Failure> {
        let mut connection = self.open(server)?;
        match &server.bind {
            // One that accepts connections may be stuck: who has a choice sees it answer first.
            Bind::Anonymous if self.waits == Waits::Short => {
                connection.search(&SearchFor {
                    scope: Scope::Base,
                    attributes: &["1.1"],
                    ..SearchFor::below("", Filter::Present("objectClass"))
                })?;
            }
            Bind::Anonymous => {}
            Bind::External => connection.bind_external().map_err(not_known)?,
            Bind::Simple(dn, password) => connection.bind(dn, password)?,
        }
        connection.set_answer_timeout(server.options.answer_timeout)?;
        Ok(connection)
    }

    fn open(&self, server: &Server) -> Result<Connection, Failure> {
        let mut options = server.options.clone();
        if self.waits == Waits::Short {
            options.connect_timeout = options.connect_timeout.min(CONNECT_TIMEOUT_SHORT);
            options.answer_timeout = options.answer_timeout.min(BIND_TIMEOUT_SHORT);
        }
        let mut connection = Connection::open(options)?;
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

    /// How many servers it may connect to.
    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// How connections are protected: `none`, `starttls` or `ldaps`.
    pub(crate) fn protection(&self) -> &'static str {
        match (self.uri().starts_with("ldaps:"), self.start_tls) {
            (true, _) => "ldaps",
            (false, 0) => "none",
            (false, _) => "starttls",
        }
    }
}

/// The server does not know who runs this: no password has a part in it.
fn not_known(error: ClientError) -> Failure {
    let is_refused = matches!(
        &error,
        ClientError::Refused { outcome, .. } if outcome.code == ResultCode::InvalidCredentials
    );
    let failure = Failure::from(error);
    match is_refused {
        true => failure.hint(
            "the server knows whoever owns its data directory by this socket: run it as that user \
             (sudo -u USER), or sign in with -D DN -W",
        ),
        false => failure,
    }
}

/// Tells that another server is asked.
pub(crate) fn note_passed_over(uri: &str, failure: &Failure) {
    output::note(format_args!("roster: note: {uri} does not answer: {}", failure.message));
}

/// The longest wait for the answer to what is known to take long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(86_400);
/// The longest wait for a connection to one of several servers.
const CONNECT_TIMEOUT_SHORT: Duration = Duration::from_secs(3);
/// The longest wait for each answer of one of several servers until the bind is done; a server
/// that hashes passwords slowly takes seconds when many bind.
const BIND_TIMEOUT_SHORT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use client::Outcome;

    use super::*;

    #[test]
    fn whoever_the_socket_does_not_know_is_asked_for_no_password() {
        let refused = |code| ClientError::Refused {
            operation: "bind",
            outcome: Outcome {
                code,
                matched: String::new(),
                diagnostic: String::new(),
                referrals: Vec::new(),
            },
        };
        let hint = |code| not_known(refused(code)).hint.unwrap_or_default();
        assert!(hint(ResultCode::InvalidCredentials).contains("run it as that user"));
        assert!(!hint(ResultCode::Busy).contains("user"));
        let usual = Failure::from(refused(ResultCode::InvalidCredentials)).hint.unwrap();
        assert!(usual.contains("the password"), "{usual}");
    }
}
