//! The octets of a connection: TCP, a Unix socket, or TLS over TCP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use ldap::url::{LdapUrl, UrlScheme};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::error::ClientError;

/// One of the ways to a server.
pub enum ClientStream {
    /// `ldap://`.
    Tcp(TcpStream),
    /// `ldapi://`.
    Unix(UnixStream),
    /// `ldaps://`, or StartTLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ClientStream {
    /// Opens the connection that the URL names; without TLS, also for `ldaps`.
    pub(crate) fn open(url: &LdapUrl, timeout: Duration) -> Result<Self, ClientError> {
        if url.scheme == UrlScheme::Ldapi {
            let path = url.host.as_deref().unwrap_or(LDAPI_DEFAULT);
            let failed = |source| ClientError::Connect { address: path.to_owned(), source };
            return UnixStream::connect(path).map(Self::Unix).map_err(failed);
        }
        let host = url.host.as_deref().unwrap_or(HOST_DEFAULT);
        let port = url.port_or_default();
        let failed = |source| ClientError::Connect { address: format!("{host}:{port}"), source };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(failed)?.collect();
        // A name may have many addresses that do not answer: all together get the time of one.
        let timeout =
            (timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1)).max(TIMEOUT_MIN);
        for address in addresses {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(failed)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Puts TLS over it, for this host, which may take so long by this clock.
    pub(crate) fn secure(
        self,
        host: &str,
        config: Arc<ClientConfig>,
        clock: &dyn Clock,
        most: Duration,
    ) -> Result<Self, ClientError> {
        let failed = |error: &dyn std::fmt::Display| ClientError::Tls(error.to_string());
        let Self::Tcp(mut socket) = self else {
            return Err(failed(&"it is for TCP connections, once"));
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let mut session = ClientConnection::new(config, name).map_err(|error| failed(&error))?;
        let begin = clock.elapsed();
        while session.is_handshaking() {
            if clock.elapsed().saturating_sub(begin) > most {
                return Err(failed(&format!("no handshake within {} s", most.as_secs())));
            }
            step(&mut session, &mut socket).map_err(|error| failed(&error))?;
        }
        while session.wants_write() {
            session.write_tls(&mut socket).map_err(|error| failed(&error))?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Limits each wait.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        let timeout = Some(timeout.max(TIMEOUT_MIN));
        match self {
            Self::Tcp(socket) => socket.set_write_timeout(timeout),
            Self::Unix(socket) => socket.set_write_timeout(timeout),
            Self::Tls(tls) => tls.get_ref().set_write_timeout(timeout),
        }
    }

    /// Limits each wait for octets.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(TIMEOUT_MIN));
        match self {
            Self::Tcp(socket) => socket.set_read_timeout(timeout),
            Self::Unix(socket) => socket.set_read_timeout(timeout),
            Self::Tls(tls) => tls.get_ref().set_read_timeout(timeout),
        }
    }

    /// Reads once from the socket: how many octets came, or none if those are of TLS alone. So
    /// whoever sends octet after octet does not keep the reader from looking at the time.
    pub(crate) fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Self::Tls(tls) = self else { return self.read(buffer).map(Some) };
        let StreamOwned { conn, sock } = &mut **tls;
        for is_read in [false, true] {
            if is_read {
                step(conn, sock)?;
            }
            match conn.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.map(Some),
            }
        }
        Ok(None)
    }

    /// Whether nobody else can listen.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// One step of TLS: what it has to say, or else what the socket has now.
fn step(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    if session.wants_write() {
        return session.write_tls(socket).map(drop);
    }
    if session.read_tls(socket)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let processed = session.process_new_packets();
    processed.map(drop).map_err(|error| {
        // Why it ends, for the other side.
        let _ = session.write_tls(socket);
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}

impl Read for ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Unix(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(buffer),
            Self::Unix(socket) => socket.write(buffer),
            Self::Tls(tls) => tls.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Unix(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// The host of a URL that names none.
pub(crate) const HOST_DEFAULT: &str = "localhost";
/// The URL of a Unix socket.
#[must_use]
pub fn ldapi_url(socket: &Path) -> String {
    let path = socket.display().to_string();
    format!("ldapi://{}", path.replace('%', "%25").replace('/', "%2F"))
}

/// The socket of an `ldapi` URL that names none, as OpenLDAP has it.
const LDAPI_DEFAULT: &str = "/var/run/ldapi";
/// Sockets take no time-out of 0.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
