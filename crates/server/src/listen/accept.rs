//! Accepting connections, and what surrounds a session: TLS handshakes and closing.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use directory::{LocalUser, Peer};
use ldap::encode;
use ldap::result::ResultCode;
use rustix::io::Errno;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::connection::bind_throttle::BindThrottle;
use crate::connection::holding::Holding;
use crate::connection::{Client, Connection, Ending};
use crate::limits::open_files::warn_of_files;
use crate::listen::listeners::{Closed, Listener, ListenerSocket};
use crate::listen::proxy_header::ProxyHeader;
use crate::listen::stream::Stream;
use crate::log::ConnectionLog;
use crate::worker::Worker;

/// Starts accepting on `listener`.
pub(crate) fn start(worker: &Rc<Worker>, listener: Listener) -> io::Result<()> {
    let worker = Rc::clone(worker);
    let Listener { socket, closed } = listener;
    match socket {
        ListenerSocket::Ldap(socket) => {
            let listener = TcpListener::from_std(socket)?;
            spawn_local(accept_tcp(worker, listener, closed, Protection::Plain));
        }
        ListenerSocket::Ldaps(socket) => {
            let listener = TcpListener::from_std(socket)?;
            spawn_local(accept_tcp(worker, listener, closed, Protection::Tls));
        }
        ListenerSocket::Ldapi(socket) => {
            let listener = UnixListener::from_std(socket)?;
            spawn_local(accept_unix(worker, listener, closed));
        }
    }
    Ok(())
}

/// How a TCP connection begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    Plain,
    Tls,
}

async fn accept_tcp(
    worker: Rc<Worker>,
    listener: TcpListener,
    mut closed: Closed,
    protection: Protection,
) {
    let name = if protection == Protection::Tls { "ldaps" } else { "ldap" };
    let own_address = listener.local_addr().ok();
    while !worker.is_stopping() {
        let Some(accepted) =
            next(&worker, &mut closed, |context| listener.poll_accept(context)).await
        else {
            return;
        };
        match accepted {
            Ok((stream, address)) => {
                // Without it the kernel holds small answers back to join them with later ones.
                let _ = stream.set_nodelay(true);
                let rules = worker.shared.accept_rules.get();
                let peer = Peer {
                    address: address.to_string(),
                    ip: Some(address.ip()),
                    secure: protection == Protection::Tls,
                    read_level: rules.read_levels.of(name, own_address),
                    ..Peer::default()
                };
                let connection_log = ConnectionLog::new(name);
                if rules.proxies.iter().any(|network| network.contains(address.ip())) {
                    begin_proxied(&worker, stream, peer, connection_log);
                } else {
                    begin(&worker, Stream::Tcp(stream), peer, connection_log);
                }
            }
            Err(error) => pause_after(&worker, &error).await,
        }
    }
}

async fn accept_unix(worker: Rc<Worker>, listener: UnixListener, mut closed: Closed) {
    while !worker.is_stopping() {
        let Some(accepted) =
            next(&worker, &mut closed, |context| listener.poll_accept(context)).await
        else {
            return;
        };
        match accepted {
            Ok((stream, _)) => {
                let local_user = user_of(&stream);
                let address = "local".to_owned();
                let read_level = worker.shared.accept_rules.get().read_levels.of("ldapi", None);
                let peer = Peer { address, local_user, read_level, ..Peer::default() };
                begin(&worker, Stream::Unix(stream), peer, ConnectionLog::new("ldapi"));
            }
            Err(error) => pause_after(&worker, &error).await,
        }
    }
}

/// The next connection; none when the worker stops, or the listener is closed and no client is
/// left that the kernel has let in already.
async fn next<T>(
    worker: &Worker,
    closed: &mut Closed,
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Option<io::Result<T>> {
    tokio::select! {
        biased;
        () = worker.stop.notified() => return None,
        () = closed.wait() => {}
        accepted = poll_fn(&mut accept) => return Some(accepted),
    }
    poll_fn(|context| match accept(context) {
        Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Who is at the other end, as the kernel vouches for.
fn user_of(stream: &UnixStream) -> Option<LocalUser> {
    let credentials = stream.peer_cred().ok()?;
    Some(LocalUser { uid: credentials.uid(), gid: credentials.gid() })
}

/// Without a pause, a process out of file descriptors would spin; only this listener waits. An
/// anonymous one gives up its own: otherwise none might become free, and even the administrator
/// would find no way in.
async fn pause_after(worker: &Worker, error: &io::Error) {
    if error.kind() == io::ErrorKind::ConnectionAborted {
        return;
    }
    if matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) {
        worker.shared.connection_slots.make_room();
    }
    let count = worker.shared.counters.not_accepted.add(1);
    if count.is_power_of_two() {
        tracing::error!(%error, count, "cannot accept connections");
    }
    sleep(ACCEPT_PAUSE).await;
}

/// Reads what a proxy says of its client, then serves that one. A trusted proxy has to say it: a
/// connection without a header is one of somebody who can reach us from the same address.
fn begin_proxied(
    worker: &Rc<Worker>,
    mut stream: TcpStream,
    mut peer: Peer,
    connection_log: ConnectionLog,
) {
    if !has_room(worker, false) {
        return worker.recorder.refused(&connection_log, &peer.address, TOO_MANY);
    }
    let worker = Rc::clone(worker);
    spawn_local(async move {
        let limit = worker.shared.accept_rules.get().handshake_timeout;
        let header = tokio::select! {
            () = worker.stop.notified() => None,
            read = timeout(limit, read_proxy_header(&mut stream)) => Some(read),
        };
        match header {
            Some(Ok(Ok(client))) => {
                if let Some(client) = client {
                    peer.address = client.to_string();
                    peer.ip = Some(client.ip());
                }
                peer.is_proxied = true;
                return admit(&worker, Stream::Tcp(stream), peer, connection_log);
            }
            Some(Ok(Err(error))) => {
                tracing::debug!(proxy = peer.address, %error, "a connection of a proxy is refused");
                worker.recorder.refused(&connection_log, &peer.address, &error.to_string());
            }
            Some(Err(_)) => {
                tracing::debug!(proxy = peer.address, "no header came in time");
                let why = "no header of the PROXY protocol came in time";
                worker.recorder.refused(&connection_log, &peer.address, why);
            }
            None => {}
        }
        worker.shared.counters.connections.subtract(1);
    });
}

/// The client that the header names. Not an octet behind the header is read.
async fn read_proxy_header(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut octets = Vec::new();
    loop {
        let header = ProxyHeader::read(&octets)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match header {
            ProxyHeader::Complete { client, .. } => return Ok(client),
            ProxyHeader::Incomplete { need_at_least } => {
                let have = octets.len();
                octets.resize(need_at_least, 0);
                let spare = octets.get_mut(have..).unwrap_or_default();
                stream.read_exact(spare).await?;
            }
        }
    }
}

/// Admits a connection and serves it, or answers that there are too many.
pub(crate) fn begin(
    worker: &Rc<Worker>,
    stream: Stream,
    peer: Peer,
    connection_log: ConnectionLog,
) {
    if has_room(worker, peer.local_user.is_some()) {
        return admit(worker, stream, peer, connection_log);
    }
    worker.recorder.refused(&connection_log, &peer.address, TOO_MANY);
    if !peer.secure {
        refuse(&stream, TOO_MANY);
    }
}

/// Counts one connection more, if there may be one; for local ones some are reserved. When there
/// is none, one that has not authenticated gives up its own.
fn has_room(worker: &Worker, is_local: bool) -> bool {
    let shared = &worker.shared;
    let open = shared.counters.connections.add(1);
    let reserved = if is_local { shared.limits().connections_reserved } else { 0 };
    let max = shared.limits().connections_max.saturating_add(reserved);
    if let Some(files) = shared.limits().open_files_max
        && open > u64::try_from(max - max / 10).unwrap_or(u64::MAX)
        && !shared.warned_of_files.swap(true, Ordering::Relaxed)
    {
        warn_of_files(shared.limits().connections_max, files);
    }
    let leaving = shared.connection_slots.leaving();
    let max = max.saturating_add(leaving);
    if open > u64::try_from(max).unwrap_or(u64::MAX)
        && (is_local || !shared.connection_slots.make_room())
    {
        shared.counters.connections.subtract(1);
        if shared.counters.refused.add(1).is_power_of_two() {
            tracing::warn!(open, "connections are refused: limits.connections_max is reached");
        }
        return false;
    }
    true
}

/// Serves a connection that was counted, unless its address has too many.
fn admit(worker: &Rc<Worker>, stream: Stream, peer: Peer, mut connection_log: ConnectionLog) {
    let shared = &worker.shared;
    let Ok(counted) = shared.client_addresses.connect(peer.ip) else {
        shared.counters.connections.subtract(1);
        if shared.counters.refused.add(1).is_power_of_two() {
            let address = &peer.address;
            tracing::warn!(%address, "limits.connections_per_address_max is reached");
        }
        worker.recorder.refused(
            &connection_log,
            &peer.address,
            "too many connections of the address",
        );
        if !peer.secure {
            refuse(&stream, "too many connections of your address");
        }
        return;
    };
    worker.recorder.meter().accepted(connection_log.listener());
    let address = peer.ip;
    let secure = peer.secure;
    let session = shared.directory.session(peer);
    let (id, mailbox) = worker.admit(&session, connection_log.listener());
    if !secure {
        // Of others the log hears when TLS protects them.
        worker.recorder.connected(&mut connection_log, &session);
    }
    let bind_throttle = BindThrottle::new(address, counted);
    let holding = Holding::new(shared, address, worker.now());
    let presence = Arc::clone(holding.presence());
    let client = Client { session, mailbox, log: connection_log, bind_throttle, holding };
    let connection = Connection::new(Rc::clone(worker), id, stream, client);
    spawn_local(async move {
        let mut serving = pin!(serve(connection, secure));
        poll_fn(|cx| {
            presence.register(cx.waker());
            // Whatever it waits for, and without a word: it takes none, or nobody listens.
            if presence.ended().is_some() { Poll::Ready(()) } else { serving.as_mut().poll(cx) }
        })
        .await;
    });
}

/// A notice of disconnection, if the peer takes it at once.
fn refuse(stream: &Stream, why: &str) {
    let mut out = Vec::new();
    encode::notice_of_disconnection(&mut out, ResultCode::Busy, why);
    let _ = match stream {
        Stream::Tcp(stream) => stream.try_write(&out),
        Stream::Unix(stream) => stream.try_write(&out),
        Stream::Tls(_) | Stream::Gone => Ok(0),
        #[cfg(test)]
        Stream::Simulated(_) => Ok(0),
    };
}

/// One connection from its first byte to its last.
async fn serve(mut connection: Connection, secure: bool) {
    if let (Some(names), Some(address)) =
        (&connection.worker.shared.host_names, connection.session.ip())
    {
        let name = names.of(address).await;
        connection.session.set_host_name(name);
    }
    if secure && !handshake(&mut connection).await {
        return;
    }
    loop {
        match poll_fn(|cx| connection.poll(cx)).await {
            Ending::Lost => return,
            Ending::Closed => return close(&mut connection, Linger::No).await,
            Ending::Dismissed => return close(&mut connection, Linger::Yes).await,
            Ending::StartTls => {
                if !handshake(&mut connection).await {
                    return;
                }
            }
        }
    }
}

/// Puts TLS on a connection; says whether that succeeded. If not, it is to be dropped: a client
/// that asked for TLS must not be left without (RFC 4513 §3.1.1).
async fn handshake(connection: &mut Connection) -> bool {
    let Stream::Tcp(stream) = connection.stream.replace(Stream::Gone) else {
        return false;
    };
    let shared = Arc::clone(&connection.worker.shared);
    let tls = shared.tls.current();
    let limit = shared.accept_rules.get().handshake_timeout;
    let shaken = timeout(limit, Box::pin(tls.acceptor.accept(stream))).await;
    let shaken = shaken.map(|shaken| {
        let stream = shaken?;
        let facts = tls.facts(stream.get_ref().1)?;
        Ok::<_, io::Error>((stream, facts))
    });
    match shaken {
        Ok(Ok((stream, facts))) => {
            let (version, cipher) = protection(stream.get_ref().1);
            connection.worker.recorder.meter().handshake(Some(version));
            connection.log.secured(version, cipher);
            connection.mailbox.status.secured(version);
            connection.resume_secure(Stream::Tls(Box::new(stream)), facts);
            connection.worker.recorder.connected(&mut connection.log, &connection.session);
            true
        }
        Ok(Err(error)) => {
            tracing::debug!(connection = connection.id.0, %error, "TLS handshake failed");
            not_secured(connection, &format!("TLS handshake failed: {error}"));
            false
        }
        Err(_) => {
            tracing::debug!(connection = connection.id.0, "TLS handshake took too long");
            not_secured(connection, "TLS handshake took too long");
            false
        }
    }
}

fn not_secured(connection: &mut Connection, why: &str) {
    let Connection { worker, log, session, .. } = connection;
    worker.recorder.meter().handshake(None);
    worker.recorder.not_secured(log, session, why);
}

/// What protects a connection, as the access log says it.
fn protection(tls: &rustls::ServerConnection) -> (&'static str, String) {
    let version = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(_) | None => "unknown",
    };
    let cipher = tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    (version, cipher.unwrap_or("unknown").to_owned())
}

/// Whether what the client still sends is read and dropped for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linger {
    /// The client has said it is done.
    No,
    /// The client has not: if bytes of it are left unread, the kernel resets the connection, and
    /// our last words may never be seen.
    Yes,
}

/// Says that nothing more will come, then lets the connection go.
async fn close(connection: &mut Connection, linger: Linger) {
    connection.abandon();
    let goodbye = async {
        let shut = poll_fn(|cx| connection.stream.borrow_mut().poll_shutdown(cx)).await;
        while linger == Linger::Yes && shut.is_ok() {
            let dropped = poll_fn(|cx| {
                let received = connection.worker.read_buffer.poll_read(cx, &connection.stream);
                received.map_ok(|received| received.len())
            });
            if dropped.await.unwrap_or(0) == 0 {
                return;
            }
        }
    };
    let _ = timeout(LINGER, goodbye).await;
}

/// Why a connection is refused.
const TOO_MANY: &str = "too many connections";

/// How long a client has to take notice of its dismissal.
const LINGER: Duration = Duration::from_secs(1);

/// How long accepting pauses after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
