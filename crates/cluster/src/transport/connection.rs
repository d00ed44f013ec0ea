//! One connection to another node, as the dialing side has it: many requests at a time.
//!
//! Invariant: responses are matched by number; one that nobody waits for any more is dropped.
//! Invariant: a request that was given up before it was begun to be written is never written.
//! Invariant: what waits to be written is bounded in number and in octets.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority::node_name;
use super::door::{MemberAddresses, Side};
use super::frame::{Frame, FrameReader, Kind, Purpose};
use super::greeting::{Greeting, WELCOME_BYTES, Welcome};
use super::tls::Credentials;
use super::{GreetingError, NodeIdentity, PROTOCOL, socket};

/// How long connecting may take, greeting and all, in milliseconds.
pub const CONNECT_MAX_MS: u64 = 1_000;
/// How long a frame may wait for the peer to take it, in milliseconds.
pub const WRITE_MAX_MS: u64 = 10_000;
/// The most requests of one connection that wait to be written or answered.
pub const REQUESTS_MAX: usize = 1_024;
/// The most octets of one connection that wait to be written, in bytes.
pub const UNWRITTEN_MAX_BYTES: usize = 64 << 20;
/// Octets are counted in units of this many.
const UNIT_BYTES: usize = 1 << 10;
/// What is gathered for one write, in bytes.
const WRITE_BYTES: usize = 16 << 10;

/// Whom to dial, and as whom.
#[derive(Clone)]
pub(crate) struct Dialing {
    pub(crate) credentials: Credentials,
    pub(crate) wanted: u64,
    pub(crate) address: String,
    pub(crate) purpose: Purpose,
    /// Learns where the node is.
    pub(crate) addresses: MemberAddresses,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    TookTooLong,
    /// Nothing was said before the connection was reset: too many come there at a time.
    TurnedAway,
    Io(io::Error),
    Greeting(GreetingError),
}

/// Why a request has no response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CallError {
    /// The deadline passed.
    TimedOut { is_sent: bool },
    /// The connection broke.
    Broken { is_sent: bool, reason: String },
    /// The peer could not do it.
    Failed(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TookTooLong => write!(f, "connecting took longer than {CONNECT_MAX_MS} ms"),
            Self::TurnedAway => f.write_str("too many come there at a time"),
            Self::Io(error) => error.fmt(f),
            Self::Greeting(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { .. } => f.write_str("no response in time"),
            Self::Broken { reason, .. } | Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// An open connection; it is closed when the last handle is dropped.
pub(crate) struct Connection {
    outgoing: mpsc::Sender<Outgoing>,
    unwritten: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    shared: Arc<Shared>,
}

struct Outgoing {
    frame: Frame,
    stage: Arc<Stage>,
    _octets: OwnedSemaphorePermit,
}

struct Shared {
    purpose: Purpose,
    pending: Mutex<Pending>,
    /// Wakes the task that keeps the connection, to end it.
    end: Notify,
}

#[derive(Default)]
struct Pending {
    calls: HashMap<u32, oneshot::Sender<Frame>>,
    next: u32,
    /// Why the connection is over.
    over: Option<String>,
}

/// Whether a request is on its way: exactly one of the writer and the caller decides.
#[derive(Default)]
struct Stage(AtomicU8);

impl Stage {
    const QUEUED: u8 = 0;
    const WRITTEN: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// Whether it may still become `next`.
    fn enter(&self, next: u8) -> bool {
        self.0.compare_exchange(Self::QUEUED, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_written(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::WRITTEN
    }
}

/// A request that waits for its response; dropping it gives it up.
pub(crate) struct Call {
    response: oneshot::Receiver<Frame>,
    number: u32,
    kind: Kind,
    stage: Arc<Stage>,
    shared: Arc<Shared>,
    _waiting: OwnedSemaphorePermit,
}

impl Connection {
    /// Connects, proves who this is and sees who is there, all within [`CONNECT_MAX_MS`]. The
    /// current runtime keeps the connection.
    pub(crate) async fn dial(dialing: &Dialing) -> Result<Self, DialError> {
        let limit = Duration::from_millis(CONNECT_MAX_MS);
        let stream =
            timeout(limit, connect(dialing)).await.map_err(|_| DialError::TookTooLong)??;
        Ok(Self::over(stream, dialing.purpose))
    }

    /// A connection over a stream on which both sides have greeted.
    fn over<S>(stream: S, purpose: Purpose) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (outgoing, queue) = mpsc::channel(REQUESTS_MAX);
        let shared = Arc::new(Shared { purpose, pending: Mutex::default(), end: Notify::new() });
        tokio::spawn(run(stream, queue, Arc::clone(&shared)));
        Self {
            outgoing,
            unwritten: Arc::new(Semaphore::new(UNWRITTEN_MAX_BYTES / UNIT_BYTES)),
            waiting: Arc::new(Semaphore::new(REQUESTS_MAX)),
            shared,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.pending().over.is_none()
    }

    /// Ends the connection and all that wait for it.
    pub(crate) fn close(&self, reason: &str) {
        self.shared.close(reason);
    }

    /// Queues a request; requests are written in the order in which they were queued.
    pub(crate) async fn begin(
        &self,
        kind: Kind,
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<Call, CallError> {
        let late = |_| CallError::TimedOut { is_sent: false };
        timeout_at(deadline, self.queue(kind, body)).await.map_err(late)?
    }

    async fn queue(&self, kind: Kind, body: Vec<u8>) -> Result<Call, CallError> {
        let units = u32::try_from(body.len().div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let waiting = Arc::clone(&self.waiting).acquire_owned().await;
        let waiting = waiting.map_err(|_| self.shared.broken(false))?;
        let octets = Arc::clone(&self.unwritten).acquire_many_owned(units).await;
        let octets = octets.map_err(|_| self.shared.broken(false))?;
        // What is there is written in this order, so nothing is awaited behind the number.
        let place = self.outgoing.reserve().await.map_err(|_| self.shared.broken(false))?;
        let (sender, response) = oneshot::channel();
        let Some(number) = self.shared.expect(sender) else {
            return Err(self.shared.broken(false));
        };
        let stage = Arc::new(Stage::default());
        let frame = Frame { kind, number, body };
        place.send(Outgoing { frame, stage: Arc::clone(&stage), _octets: octets });
        let shared = Arc::clone(&self.shared);
        Ok(Call { response, number, kind, stage, shared, _waiting: waiting })
    }
}

impl Call {
    /// Waits for the response; can be asked again after the future was dropped.
    pub(crate) async fn response(&mut self, deadline: Instant) -> Result<Vec<u8>, CallError> {
        let response = match timeout_at(deadline, &mut self.response).await {
            Err(_) => return Err(CallError::TimedOut { is_sent: self.give_up() }),
            Ok(Err(_)) => return Err(self.shared.broken(self.give_up())),
            Ok(Ok(response)) => response,
        };
        if response.kind == Kind::Failure {
            return Err(CallError::Failed(String::from_utf8_lossy(&response.body).into_owned()));
        }
        if response.kind != self.kind.response() {
            self.shared.close("a response is of another kind than its request");
            return Err(self.shared.broken(true));
        }
        Ok(response.body)
    }

    /// Ends the connection that it waits on.
    pub(crate) fn close(&self, reason: &str) {
        self.shared.close(reason);
    }

    /// Whether it may have been sent; if not, it never will be.
    fn give_up(&self) -> bool {
        !self.stage.enter(Stage::GIVEN_UP) && self.stage.is_written()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.give_up();
        self.shared.pending().calls.remove(&self.number);
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a call whose response goes to `sender`; none when the connection is over.
    fn expect(&self, sender: oneshot::Sender<Frame>) -> Option<u32> {
        let mut pending = self.pending();
        if pending.over.is_some() {
            return None;
        }
        // Numbers come back after four thousand million; far fewer wait.
        let number = pending.next;
        pending.next = number.wrapping_add(1);
        pending.calls.insert(number, sender);
        Some(number)
    }

    fn close(&self, reason: &str) {
        let mut pending = self.pending();
        if pending.over.is_none() {
            pending.over = Some(reason.to_owned());
        }
        pending.calls.clear();
        self.end.notify_one();
    }

    fn broken(&self, is_sent: bool) -> CallError {
        let reason = self.pending().over.clone();
        CallError::Broken { is_sent, reason: reason.unwrap_or_else(|| CLOSED.to_owned()) }
    }
}

/// TCP, TLS and the greeting.
async fn connect(dialing: &Dialing) -> Result<TlsStream<TcpStream>, DialError> {
    let stream = TcpStream::connect(&dialing.address).await.map_err(DialError::Io)?;
    let there = stream.peer_addr().map_err(DialError::Io)?;
    dialing.addresses.note(dialing.wanted, Side::Here, there.ip());
    socket::prepare(&stream).map_err(DialError::Io)?;
    let own = dialing.credentials.identity();
    let wanted = NodeIdentity { node: dialing.wanted, ..own };
    let name = ServerName::try_from(node_name(wanted))
        .map_err(|error| DialError::Io(io::Error::other(error)))?;
    let connector = TlsConnector::from(dialing.credentials.client());
    let mut stream = connector.connect(name, stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => DialError::TurnedAway,
        _ => DialError::Io(error),
    })?;
    let purpose = dialing.purpose as u8;
    let greeting = Greeting { protocol: PROTOCOL, from: own, wanted: dialing.wanted, purpose };
    stream.write_all(&greeting.encode()).await.map_err(DialError::Io)?;
    stream.flush().await.map_err(DialError::Io)?;
    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).await.map_err(DialError::Io)?;
    let welcome = Welcome::decode(&welcome).map_err(DialError::Greeting)?;
    welcome.check(wanted).map_err(DialError::Greeting)?;
    Ok(stream)
}

/// Keeps the connection until it breaks or nobody wants it any more.
async fn run<S>(stream: S, queue: mpsc::Receiver<Outgoing>, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite,
{
    let (read, write) = tokio::io::split(stream);
    let reader = FrameReader::new(read, shared.purpose);
    let outcome = tokio::select! {
        outcome = read_responses(reader, &shared) => outcome,
        outcome = write_requests(write, queue, shared.purpose) => outcome,
        () = shared.end.notified() => Ok(()),
    };
    match outcome {
        Ok(()) => shared.close(CLOSED),
        Err(error) => shared.close(&error.to_string()),
    }
}

async fn read_responses<R: AsyncRead + Unpin>(
    mut reader: FrameReader<R>,
    shared: &Shared,
) -> io::Result<()> {
    while let Some(frame) = reader.next().await? {
        if frame.kind.is_request() {
            let reason = "a request came where responses come";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let call = shared.pending().calls.remove(&frame.number);
        if let Some(call) = call {
            // Who waited may have gone.
            drop(call.send(frame));
        }
    }
    Ok(())
}

async fn write_requests<W: AsyncWrite + Unpin>(
    stream: W,
    mut queue: mpsc::Receiver<Outgoing>,
    purpose: Purpose,
) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(WRITE_BYTES, stream);
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        while let Some(outgoing) = next {
            if outgoing.stage.enter(Stage::WRITTEN) {
                write_frame(&mut stream, &outgoing.frame, purpose).await?;
            }
            next = queue.try_recv().ok();
        }
        within_limit(stream.flush()).await?;
    }
    within_limit(stream.shutdown()).await
}

/// Writes a frame, without flushing it, within [`WRITE_MAX_MS`].
pub(crate) async fn write_frame<W: AsyncWrite + Unpin>(
    stream: &mut W,
    frame: &Frame,
    purpose: Purpose,
) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a frame is too long");
    let head = frame.head(purpose).ok_or_else(too_long)?;
    within_limit(async {
        stream.write_all(&head).await?;
        stream.write_all(&frame.body).await
    })
    .await
}

/// Does what waits for the peer to read, within [`WRITE_MAX_MS`].
pub(crate) async fn within_limit(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the peer does not read");
    timeout(Duration::from_millis(WRITE_MAX_MS), work).await.unwrap_or_else(|_| Err(late()))
}

const CLOSED: &str = "the connection was closed";

#[cfg(test)]
mod tests;
