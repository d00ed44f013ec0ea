//! The server over real sockets: raw bytes go in, and what comes out is compared as text.

mod addresses;
mod admin;
mod anonymous_clients;
mod budgets;
mod follows;
mod forwarding;
mod hang_ups;
mod host_names;
mod isolation;
mod large_entries;
mod limits;
mod local;
mod logs;
mod metrics;
mod order;
mod passwords;
mod proxies;
mod read_levels;
mod rechecks;
mod sasl;
mod session;
mod sessions;
pub(crate) mod simulated;
mod slow_readers;
mod stalled;
mod stop;
mod streams;
mod time_slices;
mod tls;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use auth::password::Scheme;
use directory::{AdminPassword, Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::ber::{Frame, frame};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, CompareRequest, Controls, DecodeLimits,
    DerefAliases, ExtendedRequest, LdapResult, Message, MessageId, PartialAttribute, Request,
    Response, Scope, SearchRequest, Strings, ValuesBuf,
};

use crate::{Addresses, Server, ServerError, Settings, ShutdownHandle};

/// Stands for a bug in an operation: a message with these octets panics.
pub(crate) fn panic_if_asked(message: &[u8]) {
    let asked = message.windows(PANIC.len()).any(|window| window == PANIC.as_bytes());
    assert!(!asked, "a test asked for it");
}

const PANIC: &str = "cn=panic-please";

/// A server with a fresh directory, on ports of its own.
struct Running {
    addresses: Addresses,
    shutdown: ShutdownHandle,
    counters: Arc<crate::metrics::counters::Counters>,
    metrics: Arc<crate::metrics::Metrics>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
    data: tempfile::TempDir,
}

fn admin() -> AdminPassword<'static> {
    AdminPassword { clear: b"secret", storage: Scheme::Ssha512.into() }
}

impl Running {
    fn start() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_both(|settings, _| change(settings))
    }

    fn with_both(change: impl FnOnce(&mut Settings, &mut DirectoryOptions)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (directory, settings) = open(data.path(), change);
        Self::of(Server::start(directory, &settings).unwrap(), data)
    }

    /// One whose pool for updates of other servers is told.
    fn with_pool(
        change: impl FnOnce(&mut DirectoryOptions),
        pool: &std::sync::mpsc::Sender<crate::ForwardedPool>,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (directory, settings) = open(data.path(), |_, options| change(options));
        let server = Server::start(directory, &settings).unwrap();
        pool.send(server.forwarded_pool().unwrap()).unwrap();
        Self::of(server, data)
    }

    fn of(server: Server, data: tempfile::TempDir) -> Self {
        Self {
            addresses: server.addresses(),
            shutdown: server.shutdown_handle(),
            counters: Arc::clone(&server.counters),
            metrics: Arc::clone(&server.metrics),
            thread: Some(std::thread::spawn(move || server.wait().map(drop))),
            data,
        }
    }

    fn ldap(&self) -> SocketAddr {
        self.addresses.ldap[0]
    }

    fn connect(&self) -> Client {
        Client::plain(TcpStream::connect(self.ldap()).unwrap())
    }

    /// A client that has authenticated as the administrator.
    fn connect_root(&self) -> Client {
        let mut client = self.connect();
        client.send(&bind(1, ROOT, "secret"));
        assert_eq!(client.receive(), "1 bind success");
        client
    }

    fn stop(&mut self) {
        self.shutdown.shutdown();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    /// The server still serves others.
    #[track_caller]
    fn check_alive(&self) {
        let mut client = self.connect();
        client.send(&root_dse(7));
        assert_eq!(client.receive(), "7 entry ");
        assert_eq!(client.receive(), "7 done success");
    }
}

/// A fresh directory below `folder`, and the settings of a server for it.
fn open(
    folder: &Path,
    change: impl FnOnce(&mut Settings, &mut DirectoryOptions),
) -> (Arc<Directory>, Settings) {
    let path = folder.join("data");
    let clock = Arc::new(SystemClock::new());
    let suffix = Dn::parse("dc=example,dc=org").unwrap();
    Directory::init(&path, &[suffix], Some(admin()), GlobalAcis::Public, clock.clone()).unwrap();
    let mut settings = Settings::default();
    settings.server.data = path.clone();
    settings.server.workers = 2;
    settings.server.core_dumps = true;
    settings.listen.ldap = vec!["127.0.0.1:0".parse().unwrap()];
    settings.listen.ldaps = vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = DirectoryOptions::new(&path);
    options.offers_tls = true;
    options.passwords.storage = Scheme::Ssha512.into();
    options.passwords.check_own = false;
    change(&mut settings, &mut options);
    options.authentication = settings.authentication.options();
    let (limits, given) = (&mut options.limits, &settings.limits);
    limits.connections_per_identity_max = given.connections_per_identity_max;
    limits.operations_per_identity_max = given.operations_per_identity_max;
    limits.size_limit_entries = given.size_limit_entries;
    limits.search_work_anonymous_max = given.search_work_anonymous_max;
    options.policies = settings.policies.clone();
    (Directory::open(options, clock).unwrap(), settings)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

trait Transport: Read + Write + Send {}
impl<T: Read + Write + Send> Transport for T {}

/// One client connection.
struct Client {
    transport: Box<dyn Transport>,
    /// The socket itself, for half-closing.
    socket: Option<TcpStream>,
    received: Vec<u8>,
}

impl Client {
    fn plain(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        let copy = socket.try_clone().unwrap();
        Self { transport: Box::new(copy), socket: Some(socket), received: Vec::new() }
    }

    fn over(transport: impl Transport + 'static) -> Self {
        Self { transport: Box::new(transport), socket: None, received: Vec::new() }
    }

    fn unix(path: &Path) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self::over(socket)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.transport.write_all(bytes).unwrap();
        self.transport.flush().unwrap();
    }

    fn finish_sending(&self) {
        self.socket.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    }

    /// The next response as text, or `closed`.
    fn receive(&mut self) -> String {
        self.receive_message().map_or_else(|| "closed".to_owned(), |message| describe(&message))
    }

    /// The next response, or none when the connection is closed.
    fn receive_message(&mut self) -> Option<Vec<u8>> {
        loop {
            match frame(&self.received, usize::MAX).unwrap() {
                Frame::Complete(length) => return Some(self.received.drain(..length).collect()),
                Frame::Incomplete { .. } => {}
            }
            let mut buffer = [0; 16 * 1024];
            match self.transport.read(&mut buffer) {
                Ok(0) if self.received.is_empty() => return None,
                Ok(0) => panic!("closed within a message"),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if is_closed(error.kind()) => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Everything until the connection is closed.
    fn receive_all(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let next = self.receive();
            if next == "closed" {
                return all;
            }
            all.push(next);
        }
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe)
}

/// How long a test waits before it gives up; nothing waits that long when all is well.
const TIMEOUT: Duration = Duration::from_secs(120);

const ROOT: &str = "cn=Directory Manager";

const START_TLS: &str = "1.3.6.1.4.1.1466.20037";

const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

fn describe(bytes: &[u8]) -> String {
    let message = Message::<Response<'_>>::decode(bytes, &DecodeLimits::default()).unwrap();
    let id = message.id.0;
    let named = |name: &str, result: &LdapResult<'_>| format!("{id} {name} {}", result.code.name());
    match &message.op {
        Response::Bind { result, .. } => named("bind", result),
        Response::SearchEntry { dn, .. } => format!("{id} entry {dn}"),
        Response::SearchReference(_) => format!("{id} reference"),
        Response::SearchDone(result) => named("done", result),
        Response::Modify(result) => named("modify", result),
        Response::Add(result) => named("add", result),
        Response::Delete(result) => named("delete", result),
        Response::ModifyDn(result) => named("modifyDn", result),
        Response::Compare(result) => named("compare", result),
        Response::Extended { result, oid: Some(NOTICE), .. } => {
            format!("{} {}", named("notice", result), result.diagnostic)
        }
        Response::Extended { result, value, .. } => {
            let value = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
            format!("{} {value}", named("extended", result)).trim_end().to_owned()
        }
        Response::Intermediate { .. } => format!("{id} intermediate"),
    }
}

/// RFC 4511 §4.4.1.
const NOTICE: &str = "1.3.6.1.4.1.1466.20036";

fn request(id: i32, op: Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Message { id: MessageId(id), op, controls: Controls::EMPTY }.encode(&mut out);
    out
}

fn bind(id: i32, name: &str, password: &str) -> Vec<u8> {
    let authentication = Authentication::Simple(password.as_bytes());
    request(id, Request::Bind(BindRequest { version: 3, name, authentication }))
}

fn search(id: i32, base: &str, scope: Scope) -> Vec<u8> {
    search_by(id, base, scope, "(objectClass=*)")
}

fn search_by(id: i32, base: &str, scope: Scope, filter: &str) -> Vec<u8> {
    request(
        id,
        Request::Search(SearchRequest {
            base,
            scope,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::parse(filter).unwrap(),
            attributes: Strings::EMPTY,
        }),
    )
}

fn root_dse(id: i32) -> Vec<u8> {
    search(id, "", Scope::Base)
}

fn extended(id: i32, oid: &str) -> Vec<u8> {
    request(id, Request::Extended(ExtendedRequest { oid, value: None }))
}

/// Adds an organizational unit, with a description of `size` octets.
fn add(id: i32, name: &str, size: usize) -> Vec<u8> {
    let text = "x".repeat(size);
    let attributes = [("objectClass", "organizationalUnit"), ("description", &*text)];
    let attributes = if size > 0 { &attributes[..] } else { &attributes[..1] };
    add_entry(id, &format!("ou={name},dc=example,dc=org"), attributes)
}

fn add_entry(id: i32, name: &str, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut attributes = AttributesBuf::new();
    for same in pairs.chunk_by(|one, next| one.0 == next.0) {
        let mut values = ValuesBuf::new();
        same.iter().for_each(|(_, value)| values.push(value.as_bytes()));
        let description = same[0].0;
        attributes.push(PartialAttribute { description, values: values.as_ref() });
    }
    request(id, Request::Add(AddRequest { name, attributes: attributes.as_ref() }))
}

/// Fills the directory with entries, and returns how many there are below the suffix.
fn fill(running: &Running, entries: i32, size: usize) -> usize {
    let mut client = running.connect_root();
    for id in 1..=entries {
        client.send(&add(id, &format!("e{id}"), size));
        assert_eq!(client.receive(), format!("{id} add success"));
    }
    usize::try_from(entries).unwrap() + 1
}
