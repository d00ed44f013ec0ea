//! Listeners: one TCP socket per address and worker, one Unix socket shared by all workers.
//!
//! Invariant: an address another process listens on is refused, although `SO_REUSEPORT` would let
//! both have it.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ServerError;
use crate::settings::Settings;

/// Where a server listens, with the ports the system chose where 0 was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// LDAP.
    pub ldap: Vec<SocketAddr>,
    /// LDAP inside TLS.
    pub ldaps: Vec<SocketAddr>,
    /// The Unix socket.
    pub ldapi: Option<PathBuf>,
    /// HTTP, for metrics.
    pub admin: Vec<SocketAddr>,
}

/// As URLs, one after the other: what is logged when a server is ready.
impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemes = [("ldap", &self.ldap), ("ldaps", &self.ldaps), ("http", &self.admin)];
        let urls = schemes.iter().flat_map(|(scheme, addresses)| {
            addresses.iter().map(move |address| format!("{scheme}://{address}"))
        });
        let socket = self.ldapi.iter().map(|path| format!("ldapi at {}", path.display()));
        f.write_str(&urls.chain(socket).collect::<Vec<_>>().join(", "))
    }
}

/// One listening socket of one worker.
#[derive(Debug)]
pub(crate) enum Listener {
    Ldap(TcpListener),
    Ldaps(TcpListener),
    Ldapi(UnixListener),
}

/// All listeners of a server.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) addresses: Addresses,
    /// One list for each worker.
    pub(crate) per_worker: Vec<Vec<Listener>>,
    /// Takes the socket file away when the server is gone.
    pub(crate) socket_file: Option<SocketFile>,
}

/// Opens every listener of the settings, once for each of `workers`.
pub(crate) fn open(settings: &Settings, workers: usize) -> Result<Listeners, ServerError> {
    let mut listeners = Listeners {
        addresses: Addresses::default(),
        per_worker: (0..workers).map(|_| Vec::new()).collect(),
        socket_file: None,
    };
    for address in &settings.listen.ldap {
        let (bound, sockets) = open_tcp(*address, workers)?;
        listeners.addresses.ldap.push(bound);
        add(&mut listeners.per_worker, sockets.into_iter().map(Listener::Ldap));
    }
    for address in &settings.listen.ldaps {
        let (bound, sockets) = open_tcp(*address, workers)?;
        listeners.addresses.ldaps.push(bound);
        add(&mut listeners.per_worker, sockets.into_iter().map(Listener::Ldaps));
    }
    if let Some(path) = settings.ldapi_path() {
        let failed = |reason: String| ServerError::Socket { path: path.clone(), reason };
        let (file, socket) = open_unix(&path, settings.listen.ldapi_mode).map_err(failed)?;
        let copies = (0..workers).map(|_| socket.try_clone()).collect::<io::Result<Vec<_>>>();
        let copies = copies.map_err(|error| failed(error.to_string()))?;
        listeners.socket_file = Some(file);
        listeners.addresses.ldapi = Some(path);
        add(&mut listeners.per_worker, copies.into_iter().map(Listener::Ldapi));
    }
    if listeners.per_worker.iter().all(Vec::is_empty) {
        return Err(ServerError::NoListener);
    }
    Ok(listeners)
}

fn add(per_worker: &mut [Vec<Listener>], listeners: impl Iterator<Item = Listener>) {
    for (list, listener) in per_worker.iter_mut().zip(listeners) {
        list.push(listener);
    }
}

/// One socket for each worker on the same address and port.
fn open_tcp(
    address: SocketAddr,
    workers: usize,
) -> Result<(SocketAddr, Vec<TcpListener>), ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    if address.port() != 0 {
        // Without SO_REUSEPORT, so that it fails when anybody listens there.
        tcp_socket(address, false).map_err(failed)?;
    }
    let first = tcp_socket(address, true).map_err(failed)?;
    let bound = first.local_addr().map_err(failed)?;
    let mut sockets = vec![first];
    while sockets.len() < workers {
        sockets.push(tcp_socket(bound, true).map_err(failed)?);
    }
    for socket in &sockets {
        socket2::SockRef::from(socket).listen(BACKLOG_CONNECTIONS).map_err(failed)?;
    }
    Ok((bound, sockets))
}

/// The socket of the admin listener, of which there is one for each address.
pub(crate) fn open_admin(address: SocketAddr) -> Result<(SocketAddr, TcpListener), ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    let socket = tcp_socket(address, false).map_err(failed)?;
    socket2::SockRef::from(&socket).listen(ADMIN_BACKLOG_CONNECTIONS).map_err(failed)?;
    Ok((socket.local_addr().map_err(failed)?, socket))
}

/// A bound socket that does not listen yet.
fn tcp_socket(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // Or a wildcard would take the IPv4 port as well, and the IPv4 address would fail.
        socket.set_only_v6(true)?;
    }
    // A port whose old connections are still winding down can be listened on again at once.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit it: a peer that vanished is noticed in the end.
    socket.set_keepalive(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The file of a Unix socket; removed when dropped, if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.device_and_inode);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the socket under another name and renames it, so that it is never there with permissions
/// other than `mode`. A socket left over by a process that is gone is replaced; nothing else is.
fn open_unix(path: &Path, mode: u32) -> Result<(SocketFile, UnixListener), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err("there is a file that is not a socket".to_owned());
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err("another process listens there".to_owned());
        }
        Ok(_) | Err(_) => {}
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let made = make_unix(&beside, mode, path);
    if made.is_err() {
        let _ = fs::remove_file(&beside);
    }
    made.map_err(|error| error.to_string())
}

fn make_unix(beside: &Path, mode: u32, path: &Path) -> io::Result<(SocketFile, UnixListener)> {
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(beside)?)?;
    fs::set_permissions(beside, fs::Permissions::from_mode(mode))?;
    // Nobody can connect before it listens, and it listens only with the right permissions.
    socket.listen(BACKLOG_CONNECTIONS)?;
    socket.set_nonblocking(true)?;
    let found = fs::symlink_metadata(beside)?;
    fs::rename(beside, path)?;
    let file = SocketFile { path: path.to_owned(), device_and_inode: (found.dev(), found.ino()) };
    Ok((file, socket.into()))
}

/// Connections the kernel holds for us until they are accepted.
const BACKLOG_CONNECTIONS: i32 = 1_024;
/// Connections that the kernel holds for the admin listener until they are accepted.
const ADMIN_BACKLOG_CONNECTIONS: i32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(data: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.server.data = data.to_owned();
        settings.listen.ldap = vec!["127.0.0.1:0".parse().unwrap()];
        settings.listen.ldaps = vec![];
        settings
    }

    #[test]
    fn addresses_are_shown_as_urls() {
        let addresses = Addresses {
            ldap: vec!["127.0.0.1:389".parse().unwrap(), "[::1]:389".parse().unwrap()],
            ldapi: Some("data/ldapi".into()),
            ..Addresses::default()
        };
        let shown = "ldap://127.0.0.1:389, ldap://[::1]:389, ldapi at data/ldapi";
        assert_eq!(addresses.to_string(), shown);
    }

    #[test]
    fn every_worker_listens_on_the_same_port() {
        let data = tempfile::tempdir().unwrap();
        let listeners = open(&settings(data.path()), 3).unwrap();
        let bound = listeners.addresses.ldap.first().copied().unwrap();
        assert_ne!(bound.port(), 0);
        for list in &listeners.per_worker {
            let ports = list.iter().filter_map(|listener| match listener {
                Listener::Ldap(socket) => socket.local_addr().ok(),
                Listener::Ldaps(_) | Listener::Ldapi(_) => None,
            });
            assert_eq!(ports.collect::<Vec<_>>(), [bound]);
            assert_eq!(list.len(), 2);
        }
    }

    #[test]
    fn an_address_in_use_is_refused_although_ports_are_shared() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        settings.listen.ldapi = PathBuf::new();
        let first = open(&settings, 1).unwrap();
        settings.listen.ldap = first.addresses.ldap.clone();
        let error = open(&settings, 1).unwrap_err().to_string();
        assert!(error.ends_with("is in use by another process"), "{error}");
        drop(first);
        open(&settings, 1).unwrap();
    }

    #[test]
    fn without_any_listener_there_is_nothing_to_serve() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        settings.listen.ldap = vec![];
        settings.listen.ldapi = PathBuf::new();
        assert!(matches!(open(&settings, 1), Err(ServerError::NoListener)));
    }

    #[test]
    fn the_unix_socket_has_the_mode_and_goes_with_the_server() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("ldapi");
        for mode in [0o600, 0o666, 0o660] {
            let (file, _socket) = open_unix(&path, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            UnixStream::connect(&path).unwrap();
            drop(file);
            assert!(!path.exists());
        }
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("ldapi");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_file, _socket) = open_unix(&path, 0o600).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_socket_somebody_listens_on_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("ldapi");
        let _theirs = UnixListener::bind(&path).unwrap();
        assert_eq!(open_unix(&path, 0o600).unwrap_err(), "another process listens there");
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("ldapi");
        fs::write(&path, "precious").unwrap();
        assert_eq!(open_unix(&path, 0o600).unwrap_err(), "there is a file that is not a socket");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_file_of_another_server_stays_when_ours_ends() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("ldapi");
        let (ours, _socket) = open_unix(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let _theirs = UnixListener::bind(&path).unwrap();
        drop(ours);
        assert!(path.exists());
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("x".repeat(200));
        assert!(open_unix(&path, 0o600).is_err());
    }
}
