//! A directory in a temporary place and clients of it, in process: what a server does between the
//! socket and `directory`, without the socket.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(missing_docs, unreachable_pub, reason = "a module of tests")]

pub mod cluster;
pub mod disk;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use auth::password::Scheme;
use directory::{
    AdminPassword, Completion, Confidentiality, Directory, DirectoryOptions, Flow, GlobalAcis, Job,
    Next, Part, Peer, Ran, Receiver, Session, Tls, Worker,
};
use environment::{Clock, ManualClock, Timestamp};
use ldap::ber::{Frame, frame};
use ldap::dn::Dn;
use ldap::encode;
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, CompareRequest, Control, Controls,
    ControlsBuf, DecodeLimits, DeleteRequest, DerefAliases, ExtendedRequest, LdapResult, Message,
    MessageId, Modification, ModificationsBuf, ModifyDnRequest, ModifyOperation, ModifyRequest,
    PartialAttribute, Request, Response, Scope, SearchRequest, StringsBuf, ValuesBuf,
};
use ldap::result::ResultCode;
use tempfile::TempDir;

pub const SUFFIX: &str = "dc=example,dc=org";
pub const ROOT_DN: &str = "cn=Directory Manager";
pub const ROOT_PASSWORD: &str = "secret";
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;
/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000_000);

/// Makes an empty data directory with the one suffix.
pub fn init(data: &Path) {
    init_with(data, GlobalAcis::Public);
}

/// Likewise, with these global ACIs.
pub fn init_with(data: &Path, acis: GlobalAcis) {
    let clock = manual_clock();
    let suffix = Dn::parse(SUFFIX).unwrap();
    let admin = AdminPassword { clear: ROOT_PASSWORD.as_bytes(), storage: Scheme::Ssha.into() };
    Directory::init(data, &[suffix], Some(admin), acis, clock).unwrap();
}

/// The defaults, with a journal that takes little room.
pub fn small(data: PathBuf) -> DirectoryOptions {
    let mut options =
        DirectoryOptions { journal_segment_bytes: 1 << 20, ..DirectoryOptions::new(data) };
    // Most tests are not about passwords.
    options.passwords.storage = Scheme::Ssha512.into();
    options.passwords.check_own = false;
    // Nobody listens.
    options.authentication.plain_confidentiality = Confidentiality::Remote;
    options
}

/// A clock that stands still.
pub fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// An open directory and the place it lives in.
pub struct Served {
    pub directory: Arc<Directory>,
    pub options: DirectoryOptions,
    /// The clock of a directory that was not opened under another one.
    pub clock: Arc<ManualClock>,
    data: Arc<TempDir>,
}

impl Served {
    /// A new directory with one suffix and the defaults.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A new directory whose options `adjust` has changed.
    pub fn with(adjust: impl FnOnce(&mut DirectoryOptions)) -> Self {
        let data = Arc::new(TempDir::new().unwrap());
        let path = data.path().join("data");
        init(&path);
        let mut options = small(path);
        adjust(&mut options);
        Self::open(options, data, None)
    }

    /// Closes the directory and opens it under another clock. All clients must be gone.
    pub fn under(self, clock: Arc<dyn Clock>) -> Self {
        let (options, data) = self.close();
        Self::open(options, data, Some(clock))
    }

    /// A directory whose files are already in `data/data`.
    pub fn open_existing(data: TempDir) -> Self {
        let options = small(data.path().join("data"));
        Self::open(options, Arc::new(data), None)
    }

    fn open(
        options: DirectoryOptions,
        data: Arc<TempDir>,
        other_clock: Option<Arc<dyn Clock>>,
    ) -> Self {
        let clock = manual_clock();
        let told = other_clock.unwrap_or_else(|| Arc::<ManualClock>::clone(&clock));
        let opened = Directory::open(options.clone(), told);
        let directory = opened.unwrap_or_else(|error| panic!("{error}"));
        Self { directory, options, clock, data }
    }

    /// Closes the directory and opens it again. All clients must be gone.
    pub fn reopen(self) -> Self {
        let (options, data) = self.close();
        Self::open(options, data, None)
    }

    /// Opens the directory again after it ended without any shutdown. All clients must be gone.
    pub fn killed(self) -> Self {
        let (options, data) = self.pulled();
        Self::open(options, data, None)
    }

    /// A directory that was [`Self::pulled`], with other options.
    pub fn opened(options: DirectoryOptions, data: Arc<TempDir>) -> Self {
        Self::open(options, data, None)
    }

    /// Ends the directory without any shutdown; what is needed to open it again.
    pub fn pulled(self) -> (DirectoryOptions, Arc<TempDir>) {
        let Self { directory, options, data, .. } = self;
        // The writer holds it for a moment after it has answered; one that holds it for a minute
        // does so for ever.
        for _ in 0..60_000 {
            if Arc::strong_count(&directory) == 1 {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let alone = Arc::into_inner(directory);
        assert!(alone.is_some(), "somebody still holds the directory");
        (options, data)
    }

    fn close(self) -> (DirectoryOptions, Arc<TempDir>) {
        self.directory.shutdown();
        self.pulled()
    }

    /// An anonymous connection.
    pub fn client(&self) -> Client {
        Client { connection: Connection::new(&self.directory, Peer::default()), id: 0 }
    }

    /// A connection that comes from there.
    pub fn client_from(&self, peer: Peer) -> Client {
        Client { connection: Connection::new(&self.directory, peer), id: 0 }
    }

    /// A connection of the administrator.
    pub fn root(&self) -> Client {
        let mut client = self.client();
        assert_eq!(client.bind(ROOT_DN, ROOT_PASSWORD), ResultCode::Success);
        client
    }
}

/// What a server keeps for one connection.
pub struct Connection {
    pub worker: Worker,
    pub pool: Worker,
    pub session: Session,
    pub received: VecDeque<Vec<u8>>,
    pub closed: bool,
    inbox: Vec<u8>,
    /// How many requests went to the pool.
    pub jobs: usize,
    /// How many of them later requests could overtake.
    pub overtaken: usize,
    /// How many went to the hash pool.
    pub hashes: usize,
    /// How many waited for fresh data.
    pub waited: usize,
    /// Searches on the pool park whenever they may: after each chunk.
    pub parks: bool,
    /// How often they did.
    pub parked: usize,
    /// Searches that wait for changes.
    pub streams: Vec<(Job, Vec<u8>)>,
    /// The outcome of the last one.
    pub completion: Option<Completion>,
}

impl Connection {
    pub fn new(directory: &Arc<Directory>, peer: Peer) -> Self {
        Self {
            worker: directory.worker(),
            pool: directory.worker(),
            session: directory.session(peer),
            received: VecDeque::new(),
            closed: false,
            inbox: Vec::new(),
            jobs: 0,
            overtaken: 0,
            hashes: 0,
            waited: 0,
            parks: true,
            parked: 0,
            streams: Vec::new(),
            completion: None,
        }
    }

    /// Takes octets from the client, and serves each message that is whole.
    pub fn feed(&mut self, octets: &[u8]) {
        self.inbox.extend_from_slice(octets);
        while !self.closed {
            match frame(&self.inbox, MESSAGE_SIZE_MAX_BYTES) {
                Ok(Frame::Complete(length)) => {
                    let message: Vec<u8> = self.inbox.drain(..length).collect();
                    self.serve(&message);
                }
                Ok(Frame::Incomplete { .. }) => return,
                Err(error) => {
                    let mut out = Vec::new();
                    let code = ResultCode::ProtocolError;
                    encode::notice_of_disconnection(&mut out, code, &error.to_string());
                    self.send(&out);
                    self.closed = true;
                }
            }
        }
    }

    fn serve(&mut self, message: &[u8]) {
        let mut out = Vec::new();
        let next = self.worker.handle(&mut self.session, message, &mut out);
        self.follow(next, out);
    }

    fn follow(&mut self, next: Next, out: Vec<u8>) {
        match next {
            Next::Answered(completion) => self.end(&out, completion),
            Next::Write(pending) => {
                self.send(&out);
                let id = pending.id();
                let (sender, receiver) = channel();
                pending.submit(Box::new(move |done| sender.send(done).unwrap()));
                let done = receiver.recv().expect("every write is answered");
                self.session.forget(id);
                self.end(&done.bytes, done.completion);
            }
            Next::Later(job) => {
                self.jobs += 1;
                self.send(&out);
                self.run(job, Vec::new());
            }
            Next::Hash(job) => {
                assert!(out.is_empty(), "answered before the password was looked at");
                self.hashes += 1;
                let mut out = Vec::new();
                let next = self.worker.resume(&mut self.session, job.run(), &mut out);
                self.follow(next, out);
            }
            Next::Wait(read) => {
                assert!(out.is_empty(), "answered before the data were fresh enough");
                self.waited += 1;
                let (sender, receiver) = channel();
                read.submit(Box::new(move |ready| sender.send(ready).unwrap())).unwrap();
                let ready = receiver.recv().expect("every read goes on");
                let mut out = Vec::new();
                let next = self.worker.resume_read(&mut self.session, ready, &mut out);
                self.follow(next, out);
            }
            Next::StartTls(completion) => {
                self.end(&out, completion);
                self.inbox.clear();
                self.session.set_tls(Tls::default());
            }
            Next::Close(completion) => {
                self.end(&out, completion);
                self.closed = true;
            }
        }
    }

    /// Has a job, which has sent `sent`, run to its end, or until it waits for a change.
    fn run(&mut self, mut job: Job, sent: Vec<u8>) {
        let mut chunks = Vec::new();
        let mut is_overtaken = !job.keeps_order();
        let done = loop {
            let mut taker =
                Taker { chunks: &mut chunks, parks: self.parks, is_released: &mut is_overtaken };
            let ran = self.pool.run(job, &mut taker);
            match ran {
                Ran::Done(done) => break done,
                Ran::Parked(parked) if parked.waits_for_change() => {
                    let octets = chunks.concat();
                    self.send(&octets);
                    return self.streams.push((parked, [sent, octets].concat()));
                }
                Ran::Parked(parked) => job = parked,
                Ran::Broken => panic!("it cannot be read"),
            }
            self.parked += 1;
            self.session.renew(&mut job);
        };
        self.overtaken += usize::from(is_overtaken);
        self.session.finish(&done);
        chunks.push(done.end);
        let octets = chunks.concat();
        assert_outcome(&[sent, octets.clone()].concat(), &done.completion);
        self.completion = Some(done.completion);
        self.send(&octets);
    }

    /// Searches that waited for a change go on.
    pub fn go_on(&mut self) {
        for (mut job, sent) in std::mem::take(&mut self.streams) {
            self.session.renew(&mut job);
            let passes = self.pool.pass_changes(&mut job);
            let before = self.received.len();
            self.run(job, sent);
            let tells = self.received.iter().skip(before).any(|octets| tells(octets));
            assert!(!passes || !tells, "what is told was to be passed over");
        }
    }

    /// Sends the whole response to a request; its outcome says what it says.
    fn end(&mut self, out: &[u8], completion: Completion) {
        assert_outcome(out, &completion);
        self.completion = Some(completion);
        self.send(out);
    }

    fn send(&mut self, out: &[u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            let Ok(Frame::Complete(length)) = frame(rest, usize::MAX) else {
                panic!("an answer that is no message: {rest:02x?}");
            };
            let (message, after) = rest.split_at(length);
            self.received.push_back(message.to_vec());
            rest = after;
        }
    }
}

/// Somebody who asks, and reads the answers.
pub struct Client {
    pub connection: Connection,
    id: i32,
}

/// An entry as it was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    pub dn: String,
    pub attributes: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Found {
    /// The values of one attribute, as text.
    pub fn texts(&self, description: &str) -> Vec<String> {
        let values = self.attributes.get(description).map(Vec::as_slice).unwrap_or_default();
        values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

/// Everything that came back for one request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    pub code: Option<ResultCode>,
    pub matched: String,
    pub diagnostic: String,
    pub referrals: Vec<String>,
    pub entries: Vec<Found>,
    pub references: Vec<Vec<String>>,
    /// The server's part of a SASL exchange.
    pub sasl: Option<Vec<u8>>,
    /// Of an extended response.
    pub value: Option<Vec<u8>>,
    /// Notifications nobody asked for: name and value.
    pub notices: Vec<(String, Vec<u8>)>,
    /// Controls of the result: OID and value.
    pub controls: Vec<(String, Vec<u8>)>,
}

impl Answer {
    /// The names of the entries, in the order they came.
    pub fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.dn.as_str()).collect()
    }

    /// The result code.
    #[track_caller]
    pub fn code(&self) -> ResultCode {
        self.code.expect("every request has a result")
    }

    /// Puts one encoded answer to the others, if there is one.
    pub fn take(&mut self, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        let message = Message::<Response<'_>>::decode(octets, &DecodeLimits::default()).unwrap();
        match message.op {
            Response::SearchEntry { dn, attributes } => {
                let attributes = attributes.iter().map(|one| {
                    let values = one.values.iter().map(<[u8]>::to_vec).collect();
                    (one.description.to_owned(), values)
                });
                self.entries.push(Found { dn: dn.to_owned(), attributes: attributes.collect() });
            }
            Response::SearchReference(urls) => {
                self.references.push(urls.iter().map(str::to_owned).collect());
            }
            Response::Bind { result, server_sasl_credentials } => {
                self.result(&result);
                self.sasl = server_sasl_credentials.map(<[u8]>::to_vec);
            }
            Response::SearchDone(result)
            | Response::Modify(result)
            | Response::Add(result)
            | Response::Delete(result)
            | Response::ModifyDn(result)
            | Response::Compare(result) => self.result(&result),
            Response::Extended { oid, value, .. } if message.id == MessageId::UNSOLICITED => {
                let name = oid.unwrap_or_default().to_owned();
                self.notices.push((name, value.unwrap_or_default().to_vec()));
            }
            Response::Extended { result, value, .. } => {
                self.result(&result);
                self.value = value.map(<[u8]>::to_vec);
            }
            Response::Intermediate { oid, value } => {
                let name = oid.unwrap_or_default().to_owned();
                self.notices.push((name, value.unwrap_or_default().to_vec()));
            }
        }
        for control in message.controls.iter() {
            let value = control.value.unwrap_or_default().to_vec();
            self.controls.push((control.oid.to_owned(), value));
        }
    }

    fn result(&mut self, result: &LdapResult<'_>) {
        assert_eq!(self.code, None, "one result for one request");
        self.code = Some(result.code);
        self.matched = result.matched_dn.to_owned();
        self.diagnostic = result.diagnostic.to_owned();
        self.referrals = result.referrals.iter().map(str::to_owned).collect();
    }
}

/// What a search asks for; change what differs.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub base: &'a str,
    pub scope: Scope,
    pub deref: DerefAliases,
    pub filter: &'a str,
    pub attributes: &'a [&'a str],
    pub size_limit_entries: u32,
    pub time_limit_s: u32,
    /// OID, criticality, value.
    pub controls: &'a [(&'a str, bool, Option<&'a [u8]>)],
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Self {
            base: SUFFIX,
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            filter: "(objectClass=*)",
            attributes: &["1.1"],
            size_limit_entries: 0,
            time_limit_s: 0,
            controls: &[],
        }
    }
}

impl Client {
    /// The encoded request, under the next message id.
    pub fn encode(&mut self, op: Request<'_>, controls: Controls<'_>) -> Vec<u8> {
        self.id += 1;
        let mut out = Vec::new();
        Message { id: MessageId(self.id), op, controls }.encode(&mut out);
        out
    }

    pub fn request(&mut self, op: Request<'_>, controls: Controls<'_>) -> Answer {
        let message = self.encode(op, controls);
        self.connection.feed(&message);
        let mut answer = Answer::default();
        while let Some(message) = self.connection.received.pop_front() {
            answer.take(&message);
        }
        answer
    }

    pub fn bind(&mut self, name: &str, password: &str) -> ResultCode {
        let authentication = Authentication::Simple(password.as_bytes());
        let bind = BindRequest { version: 3, name, authentication };
        self.request(Request::Bind(bind), Controls::EMPTY).code()
    }

    pub fn add(&mut self, name: &str, attributes: &[(&str, &[&str])]) -> ResultCode {
        self.try_add(name, attributes).code()
    }

    pub fn try_add(&mut self, name: &str, attributes: &[(&str, &[&str])]) -> Answer {
        let list = add_attributes(attributes);
        let add = AddRequest { name, attributes: list.as_ref() };
        self.request(Request::Add(add), Controls::EMPTY)
    }

    pub fn delete(&mut self, name: &str) -> ResultCode {
        self.request(Request::Delete(DeleteRequest { name }), Controls::EMPTY).code()
    }

    pub fn modify(
        &mut self,
        name: &str,
        changes: &[(ModifyOperation, &str, &[&str])],
    ) -> ResultCode {
        self.try_modify(name, changes).code()
    }

    pub fn try_modify(
        &mut self,
        name: &str,
        changes: &[(ModifyOperation, &str, &[&str])],
    ) -> Answer {
        let list = modifications(changes);
        let modify = ModifyRequest { name, changes: list.as_ref() };
        self.request(Request::Modify(modify), Controls::EMPTY)
    }

    pub fn rename(
        &mut self,
        name: &str,
        new_rdn: &str,
        delete_old_rdn: bool,
        new_superior: Option<&str>,
    ) -> ResultCode {
        self.try_rename(name, new_rdn, delete_old_rdn, new_superior).code()
    }

    pub fn try_rename(
        &mut self,
        name: &str,
        new_rdn: &str,
        delete_old_rdn: bool,
        new_superior: Option<&str>,
    ) -> Answer {
        let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn, new_superior };
        self.request(Request::ModifyDn(rename), Controls::EMPTY)
    }

    pub fn compare(&mut self, name: &str, description: &str, value: &str) -> ResultCode {
        let compare = CompareRequest { name, description, value: value.as_bytes() };
        self.request(Request::Compare(compare), Controls::EMPTY).code()
    }

    pub fn extended(&mut self, oid: &str, value: Option<&[u8]>) -> Answer {
        self.request(Request::Extended(ExtendedRequest { oid, value }), Controls::EMPTY)
    }

    pub fn search(&mut self, asked: &Asked<'_>) -> Answer {
        let message = self.encode_search(asked);
        self.connection.feed(&message);
        let mut answer = Answer::default();
        while let Some(message) = self.connection.received.pop_front() {
            answer.take(&message);
        }
        answer
    }

    pub fn encode_search(&mut self, asked: &Asked<'_>) -> Vec<u8> {
        let attributes: StringsBuf = asked.attributes.iter().copied().collect();
        let mut controls = ControlsBuf::new();
        for (oid, critical, value) in asked.controls {
            controls.push(Control { oid, critical: *critical, value: *value });
        }
        let search = SearchRequest {
            base: asked.base,
            scope: asked.scope,
            deref: asked.deref,
            size_limit_entries: asked.size_limit_entries,
            time_limit_s: asked.time_limit_s,
            types_only: false,
            filter: Filter::parse(asked.filter).unwrap(),
            attributes: attributes.as_ref(),
        };
        self.encode(Request::Search(search), controls.as_ref())
    }
}

/// The attributes of an add request.
pub fn add_attributes(attributes: &[(&str, &[&str])]) -> AttributesBuf {
    let mut list = AttributesBuf::new();
    for (description, values) in attributes {
        let values = texts(values);
        list.push(PartialAttribute { description, values: values.as_ref() });
    }
    list
}

/// The modifications of a modify request.
pub fn modifications(changes: &[(ModifyOperation, &str, &[&str])]) -> ModificationsBuf {
    let mut list = ModificationsBuf::new();
    for (operation, description, values) in changes {
        let values = texts(values);
        let attribute = PartialAttribute { description, values: values.as_ref() };
        list.push(Modification { operation: *operation, attribute });
    }
    list
}

fn texts(values: &[&str]) -> ValuesBuf {
    values.iter().map(|value| value.as_bytes()).collect()
}

/// An outcome is what the messages of its response say.
#[track_caller]
/// Whether a message of a search is more than its end.
fn tells(octets: &[u8]) -> bool {
    let message = Message::<Response<'_>>::decode(octets, &DecodeLimits::default()).unwrap();
    !matches!(message.op, Response::SearchDone(_))
}

pub fn assert_outcome(mut out: &[u8], completion: &Completion) {
    assert_eq!(completion.bytes, out.len() as u64, "{completion:?}");
    let (mut entries, mut references, mut end) = (0, 0, None);
    while let Ok(Frame::Complete(length)) = frame(out, usize::MAX) {
        let (message, rest) = out.split_at(length);
        out = rest;
        let decoded = Message::<Response<'_>>::decode(message, &DecodeLimits::default()).unwrap();
        let result = match decoded.op {
            Response::SearchEntry { .. } => {
                entries += 1;
                continue;
            }
            Response::SearchReference(_) => {
                references += 1;
                continue;
            }
            // It answers no request.
            Response::Extended { oid: Some(encode::ABORTED_TRANSACTION), .. }
            | Response::Intermediate { .. } => continue,
            Response::Bind { result, .. }
            | Response::SearchDone(result)
            | Response::Modify(result)
            | Response::Add(result)
            | Response::Delete(result)
            | Response::ModifyDn(result)
            | Response::Compare(result)
            | Response::Extended { result, .. } => result,
        };
        assert!(decoded.id == completion.id || decoded.id == MessageId::UNSOLICITED);
        assert!(end.replace((result.code, result.diagnostic.to_owned())).is_none(), "two ends");
    }
    assert_eq!((completion.entries, completion.references), (entries, references));
    let said = completion.code.map(|code| (code, completion.diagnostic.to_string()));
    assert_eq!(said, end);
}

/// Takes the answer of a search, which parks as often as it may.
pub struct Taker<'c> {
    pub chunks: &'c mut Vec<Vec<u8>>,
    pub parks: bool,
    pub is_released: &'c mut bool,
}

impl Receiver for Taker<'_> {
    fn take(&mut self, part: Part) -> Flow {
        self.chunks.push(part.bytes);
        if self.parks { Flow::Park } else { Flow::Continue }
    }

    fn should_yield(&mut self) -> bool {
        self.parks
    }

    fn release(&mut self) {
        assert!(!*self.is_released, "it is released once");
        *self.is_released = true;
    }
}
