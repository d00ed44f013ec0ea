//! The accepting side: connections of other nodes, and what they ask.
//!
//! Invariant: what is not authenticated is bounded in number and in time, costs no log line of its
//! own, and never reaches a handler.
//! Invariant: requests of a connection are handed over in the order in which they came.
//! Invariant: nothing is read while too much waits: for the handler, or for the peer to read.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::conversation::Conversation;
use super::door::{Door, MemberAddresses, Peer, Side, Strangers, Visitors};
use super::frame::Purpose;
use super::greeting::{GREETING_BYTES, Greeting, PROTOCOL};
use super::handler::Handler;
use super::limits::ServerLimits;
use super::peers::Peers;
use super::socket;
use super::tls::{Credentials, is_node};

/// The most connections of one node for one purpose; a further one ends the oldest, which the node
/// may have lost without this side's knowing.
pub const CONNECTIONS_PER_PURPOSE_MAX: usize = 2;
/// The pause after the system could not accept a connection, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 50;

/// The accepting side; dropping it ends it with all its connections.
pub struct PeerServer {
    task: AbortHandle,
    shared: Arc<Shared>,
}

struct Shared {
    credentials: Credentials,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    members: MemberAddresses,
    door: Door,
    strangers: Strangers,
    /// Members that sent what none may send.
    offenders: Strangers,
    visitors: Visitors,
}

/// Serves other nodes over `listener`, as tasks of the current runtime; `peers` are those that it
/// reaches itself.
pub fn serve(
    listener: TcpListener,
    credentials: Credentials,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    peers: &Peers,
) -> PeerServer {
    let members = peers.addresses().clone();
    let shared = Arc::new(Shared {
        credentials,
        handler,
        limits,
        door: Door::new(limits, members.clone()),
        members,
        strangers: Strangers::default(),
        offenders: Strangers::default(),
        visitors: Visitors::default(),
    });
    let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
    PeerServer { task, shared }
}

impl PeerServer {
    /// Connections that were refused since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.strangers.count()
    }

    /// Connections that are not authenticated yet.
    #[must_use]
    pub fn unauthenticated(&self) -> usize {
        self.shared.door.inside()
    }

    /// Connections that were refused before anything of them was looked at.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.shared.door.turned_away()
    }

    /// Connections of members that were ended because of what came over them.
    #[must_use]
    pub fn offended(&self) -> u64 {
        self.shared.offenders.count()
    }

    /// Authenticated connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.visitors.count()
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborts what is in it when it is dropped.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => begin(&mut connections, stream, from.ip(), &shared),
                // No more descriptors, as a rule: they come back.
                Err(_) => sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Has one say who it is, and then what it wants.
fn begin(connections: &mut JoinSet<()>, stream: TcpStream, from: IpAddr, shared: &Arc<Shared>) {
    // A stranger that is ended is reset, so that nothing of it stays here.
    let linger = |stream: &TcpStream, time| drop(SockRef::from(stream).set_linger(time));
    linger(&stream, Some(Duration::ZERO));
    let Some(entered) = shared.door.enter(from, Instant::now()) else {
        return shared.strangers.refuse(from, "too many come at a time");
    };
    let shared = Arc::clone(shared);
    connections.spawn(async move {
        let admitted = tokio::select! {
            admitted = timeout(shared.limits.handshake, admit(stream, &shared)) => {
                admitted.unwrap_or_else(|_| Err("it took too long to say who it is".to_owned()))
            }
            () = entered.superseded() => Err("too many connections say nothing".to_owned()),
        };
        drop(entered);
        match admitted {
            Ok(admitted) => {
                linger(admitted.stream.get_ref().0, None);
                if shared.handler.hears(admitted.node) {
                    shared.members.note(admitted.node, Side::There, from);
                }
                converse(admitted, from, &shared).await;
            }
            Err(reason) => shared.strangers.refuse(from, &reason),
        }
    });
}

struct Admitted {
    stream: TlsStream<TcpStream>,
    node: u64,
    purpose: Purpose,
}

/// TLS and the greeting; otherwise why not.
async fn admit(stream: TcpStream, shared: &Shared) -> Result<Admitted, String> {
    let text = |error: io::Error| error.to_string();
    socket::prepare(&stream).map_err(text)?;
    let acceptor = TlsAcceptor::from(shared.credentials.server());
    let mut stream = acceptor.accept(stream).await.map_err(text)?;
    let mut octets = [0; GREETING_BYTES];
    stream.read_exact(&mut octets).await.map_err(text)?;
    let greeting = Greeting::decode(&octets).ok_or("it does not greet")?;
    let own = shared.credentials.identity();
    let chain = stream.get_ref().1.peer_certificates();
    let certificate = chain.and_then(|chain| chain.first()).ok_or("it has no certificate")?;
    if greeting.from.cluster == own.cluster && !is_node(certificate, greeting.from) {
        return Err("it says that it is another node than its certificate".to_owned());
    }
    let (purpose, mut welcome) = greeting.response(own);
    // One that was removed is told so when it asks, and heard for nothing else.
    let is_heard =
        matches!(purpose, None | Some(Purpose::Asks)) || shared.handler.hears(greeting.from.node);
    welcome.is_welcome &= is_heard;
    stream.write_all(&welcome.encode()).await.map_err(text)?;
    stream.flush().await.map_err(text)?;
    let Some(purpose) = purpose.filter(|_| is_heard) else {
        stream.shutdown().await.map_err(text)?;
        return Err(match greeting.protocol {
            PROTOCOL if !is_heard => format!("node {} was removed", greeting.from.node),
            PROTOCOL => "it wants another node or cluster".to_owned(),
            theirs => format!(
                "node {} speaks version {theirs} of the protocol, and this one version {PROTOCOL}",
                greeting.from.node
            ),
        });
    };
    Ok(Admitted { stream, node: greeting.from.node, purpose })
}

async fn converse(admitted: Admitted, from: IpAddr, shared: &Arc<Shared>) {
    let Admitted { stream, node, purpose } = admitted;
    let visit = shared.visitors.enter(Peer { node, purpose }, CONNECTIONS_PER_PURPOSE_MAX);
    let (read, write) = tokio::io::split(stream);
    let handler = Arc::clone(&shared.handler);
    let conversation = Conversation::new(read, write, handler, Peer { node, purpose });
    let outcome = tokio::select! {
        outcome = conversation.run() => outcome,
        () = visit.superseded() => Ok(()),
    };
    match outcome {
        Ok(()) => tracing::debug!(node, ?purpose, "a node closed its connection"),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            shared.offenders.refuse(from, &format!("node {node} sent what it may not: {error}"));
        }
        Err(error) => tracing::debug!(node, ?purpose, %error, "a connection of a node broke"),
    }
}

#[cfg(test)]
mod tests;
