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
use tokio::sync::watch;

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
pub(crate) struct Listener {
    pub(crate) socket: ListenerSocket,
    /// Hears when nothing is to be accepted any more.
    pub(crate) closed: Closed,
}

/// The socket of a listener, by what is spoken there.
#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Ldap(TcpListener),
    Ldaps(TcpListener),
    Ldapi(UnixListener),
}

impl ListenerSocket {
    /// From now on the kernel takes connections; a Unix socket does so already.
    fn listen(&self) -> Result<(), ServerError> {
        let (Self::Ldap(socket) | Self::Ldaps(socket)) = self else { return Ok(()) };
        socket2::SockRef::from(socket).listen(BACKLOG_CONNECTIONS).map_err(|source| {
            let address = socket.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into());
            ServerError::Listen { address, source }
        })
    }
}

/// Hears when a listener is closed.
#[derive(Clone, Debug)]
pub(crate) struct Closed(watch::Receiver<()>);

impl Closed {
    /// Waits until it is.
    pub(crate) async fn wait(&mut self) {
        // Nothing is ever sent: it ends when the sender is gone.
        while self.0.changed().await.is_ok() {}
    }
}

/// What a setting asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Asked {
    Ldap(SocketAddr),
    Ldaps(SocketAddr),
    Ldapi(PathBuf),
}

impl Asked {
    /// All that the settings ask for.
    fn of(settings: &Settings) -> Vec<Self> {
        let ldap = settings.listen.ldap.iter().copied().map(Self::Ldap);
        let ldaps = settings.listen.ldaps.iter().copied().map(Self::Ldaps);
        let ldapi = settings.ldapi_path().map(Self::Ldapi);
        ldap.chain(ldaps).chain(ldapi).collect()
    }

    fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Ldap(address) | Self::Ldaps(address) => Some(*address),
            Self::Ldapi(_) => None,
        }
    }
}

/// A listener that is open, on all workers.
#[derive(Debug)]
struct Open {
    asked: Asked,
    /// With the port that the system chose.
    bound: Option<SocketAddr>,
    /// Gone with this, it closes.
    _closing: watch::Sender<()>,
    /// Takes the socket file away when the listener is gone.
    socket_file: Option<SocketFile>,
}

impl Open {
    /// Whether clients find it: somebody may have taken the socket file away.
    fn is_there(&self) -> bool {
        self.socket_file.as_ref().is_none_or(SocketFile::is_ours)
    }
}

/// All that a server listens on.
#[derive(Debug, Default)]
pub(crate) struct Listening(Vec<Open>);

/// What a server is to listen on: what is open already stays.
#[derive(Debug)]
pub(crate) struct OtherListeners {
    asked: Vec<Asked>,
    opened: Vec<Open>,
    ldapi_mode: u32,
    /// One list for each worker.
    per_worker: Vec<Vec<Listener>>,
}

impl Listening {
    /// Opens what the settings ask for and is not open, once for each of `workers`. Whatever is
    /// open stays as it is until [`Self::begin`].
    ///
    /// # Errors
    /// An address or a socket that cannot be had, and settings without any.
    pub(crate) fn open(
        &self,
        settings: &Settings,
        workers: usize,
    ) -> Result<OtherListeners, ServerError> {
        let asked = Asked::of(settings);
        if asked.is_empty() {
            return Err(ServerError::NoListener);
        }
        let addresses = asked.iter().filter_map(Asked::address);
        let mut twice = addresses.filter(|address| {
            let same = asked.iter().filter(|one| one.address() == Some(*address));
            address.port() != 0 && same.count() > 1
        });
        if let Some(address) = twice.next() {
            let source = io::Error::other("the settings name it twice");
            return Err(ServerError::Listen { address, source });
        }
        let per_worker = (0..workers).map(|_| Vec::new()).collect();
        let ldapi_mode = settings.listen.ldapi_mode;
        let mut others = OtherListeners { asked, opened: Vec::new(), ldapi_mode, per_worker };
        for one in others.asked.clone() {
            if !self.0.iter().any(|open| open.asked == one && open.is_there()) {
                let is_ours = self.is_given_up(&one, &others.asked);
                others.open(one, workers, is_ours)?;
            }
        }
        Ok(others)
    }

    /// Whether this server listens there, and is to give that up.
    fn is_given_up(&self, one: &Asked, asked: &[Asked]) -> bool {
        let Some(address) = one.address() else { return false };
        let given_up = self.0.iter().filter(|open| !asked.contains(&open.asked));
        given_up.filter_map(|open| open.asked.address()).any(|own| {
            let is_all = own.ip().is_unspecified() || address.ip().is_unspecified();
            own == address || own.port() == address.port() && is_all
        })
    }

    /// Listens on these from now on, and closes the rest; what each worker is to accept on.
    ///
    /// # Errors
    /// An address that is bound and cannot be listened on.
    pub(crate) fn begin(
        &mut self,
        others: OtherListeners,
    ) -> Result<Vec<Vec<Listener>>, ServerError> {
        let OtherListeners { asked, opened, ldapi_mode, per_worker } = others;
        for listener in per_worker.iter().flatten() {
            listener.socket.listen()?;
        }
        let is_new = |open: &Open| opened.iter().any(|new| new.asked == open.asked);
        for open in self.0.iter_mut().filter(|open| is_new(open)) {
            // What is there now is the new one's, which may even have the inode of this one.
            open.socket_file.take().into_iter().for_each(SocketFile::give_up);
        }
        self.0.retain(|open| asked.contains(&open.asked) && !is_new(open));
        for file in self.0.iter().filter_map(|open| open.socket_file.as_ref()) {
            if let Err(error) = file.set_mode(ldapi_mode) {
                tracing::error!(%error, path = %file.path.display(), "the socket keeps its mode");
            }
        }
        self.0.extend(opened);
        Ok(per_worker)
    }

    /// Where that is, without the admin listener.
    pub(crate) fn addresses(&self) -> Addresses {
        let mut addresses = Addresses::default();
        for open in &self.0 {
            match &open.asked {
                Asked::Ldap(_) => addresses.ldap.extend(open.bound),
                Asked::Ldaps(_) => addresses.ldaps.extend(open.bound),
                Asked::Ldapi(path) => addresses.ldapi = Some(path.clone()),
            }
        }
        addresses
    }
}

impl OtherListeners {
    fn open(&mut self, asked: Asked, workers: usize, is_ours: bool) -> Result<(), ServerError> {
        let (mut bound, mut socket_file) = (None, None);
        let sockets: Vec<ListenerSocket> = match &asked {
            Asked::Ldap(address) => {
                let (at, sockets) = open_tcp(*address, workers, is_ours)?;
                bound = Some(at);
                sockets.into_iter().map(ListenerSocket::Ldap).collect()
            }
            Asked::Ldaps(address) => {
                let (at, sockets) = open_tcp(*address, workers, is_ours)?;
                bound = Some(at);
                sockets.into_iter().map(ListenerSocket::Ldaps).collect()
            }
            Asked::Ldapi(path) => {
                let failed = |reason: String| ServerError::Socket { path: path.clone(), reason };
                let (file, socket) = open_unix(path, self.ldapi_mode).map_err(failed)?;
                let copies = (0..workers).map(|_| socket.try_clone());
                let copies = copies.collect::<io::Result<Vec<_>>>();
                socket_file = Some(file);
                let copies = copies.map_err(|error| failed(error.to_string()))?;
                copies.into_iter().map(ListenerSocket::Ldapi).collect()
            }
        };
        let (closing, closed) = watch::channel(());
        for (list, socket) in self.per_worker.iter_mut().zip(sockets) {
            list.push(Listener { socket, closed: Closed(closed.clone()) });
        }
        self.opened.push(Open { asked, bound, _closing: closing, socket_file });
        Ok(())
    }
}

/// One socket for each worker on the same address and port, bound; `is_ours`: this server listens
/// there.
fn open_tcp(
    address: SocketAddr,
    workers: usize,
    is_ours: bool,
) -> Result<(SocketAddr, Vec<TcpListener>), ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    if address.port() != 0 && !is_ours {
        // Without SO_REUSEPORT, so that it fails when anybody listens there.
        tcp_socket(address, false).map_err(failed)?;
    }
    let first = tcp_socket(address, true).map_err(failed)?;
    let bound = first.local_addr().map_err(failed)?;
    let mut sockets = vec![first];
    while sockets.len() < workers {
        sockets.push(tcp_socket(bound, true).map_err(failed)?);
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

impl SocketFile {
    /// Whether it is there, and nothing else in its place.
    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.device_and_inode)
    }

    /// It is not taken away.
    fn give_up(mut self) {
        self.path = PathBuf::new();
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        // Of another file, or what a link points to, the mode is none of our business.
        if !self.is_ours() {
            return Err(io::Error::other("there is another file in its place"));
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours() {
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
        let mut listening = Listening::default();
        let others = listening.open(&settings(data.path()), 3).unwrap();
        let per_worker = listening.begin(others).unwrap();
        let bound = listening.addresses().ldap.first().copied().unwrap();
        assert_ne!(bound.port(), 0);
        for list in &per_worker {
            let ports = list.iter().filter_map(|listener| match &listener.socket {
                ListenerSocket::Ldap(socket) => socket.local_addr().ok(),
                ListenerSocket::Ldaps(_) | ListenerSocket::Ldapi(_) => None,
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
        let mut first = Listening::default();
        let per_worker = first.begin(first.open(&settings, 1).unwrap()).unwrap();
        settings.listen.ldap = first.addresses().ldap;
        let error = Listening::default().open(&settings, 1).unwrap_err().to_string();
        assert!(error.ends_with("is in use by another process"), "{error}");
        drop((first, per_worker));
        Listening::default().open(&settings, 1).unwrap();
    }

    #[test]
    fn what_stays_is_not_opened_again_and_what_goes_is_closed() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        settings.listen.ldap = vec![free];
        let mut listening = Listening::default();
        let before = listening.begin(listening.open(&settings, 1).unwrap()).unwrap();
        let socket = listening.addresses().ldapi.unwrap();
        // The port moves to LDAPS, and the socket stays.
        settings.listen.ldap = vec![];
        settings.listen.ldaps = vec![free];
        settings.listen.ldapi_mode = 0o600;
        let after = listening.begin(listening.open(&settings, 1).unwrap()).unwrap();
        let want =
            Addresses { ldaps: vec![free], ldapi: Some(socket.clone()), ..Addresses::default() };
        assert_eq!(listening.addresses(), want);
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(after.iter().map(Vec::len).sum::<usize>(), 1, "only what is new");
        let waiting = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let closed = before.into_iter().flatten().filter_map(|mut one| {
            let is_ldap = matches!(one.socket, ListenerSocket::Ldap(_));
            is_ldap.then(|| waiting.block_on(one.closed.wait()))
        });
        assert_eq!(closed.count(), 1);
    }

    #[test]
    fn what_is_named_twice_or_taken_by_another_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [one_at, other_at] = [&one, &other].map(|it| it.local_addr().unwrap());
        drop(one);
        settings.listen.ldap = vec![one_at];
        settings.listen.ldaps = vec![one_at];
        let twice = Listening::default().open(&settings, 1).unwrap_err().to_string();
        assert!(twice.ends_with("the settings name it twice"), "{twice}");
        settings.listen.ldaps = vec![];
        let mut listening = Listening::default();
        let _kept = listening.begin(listening.open(&settings, 1).unwrap()).unwrap();
        settings.listen.ldap = vec![other_at];
        let taken = listening.open(&settings, 1).unwrap_err().to_string();
        assert!(taken.ends_with("in use by another process"), "{taken}");
    }

    #[test]
    fn a_socket_file_that_has_gone_is_made_again_and_a_link_is_not_followed() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        let mut listening = Listening::default();
        let _first = listening.begin(listening.open(&settings, 1).unwrap()).unwrap();
        let path = data.path().join("ldapi");
        fs::remove_file(&path).unwrap();
        let _second = listening.begin(listening.open(&settings, 1).unwrap()).unwrap();
        UnixStream::connect(&path).unwrap();
        // In its place there is a link to something precious.
        let precious = data.path().join("precious");
        fs::write(&precious, "").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        settings.listen.ldapi_mode = 0o666;
        let refused = listening.open(&settings, 1).unwrap_err().to_string();
        assert!(refused.ends_with("there is a file that is not a socket"), "{refused}");
        assert_eq!(fs::metadata(&precious).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_any_listener_there_is_nothing_to_serve() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        settings.listen.ldap = vec![];
        settings.listen.ldapi = PathBuf::new();
        assert!(matches!(Listening::default().open(&settings, 1), Err(ServerError::NoListener)));
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
