//! A connection: one request at a time, and its answers; `pipeline.rs` sends many.
//!
//! Invariant: a message id is used once; a response under another id is an error, except the notice
//! of disconnection (RFC 4511 §4.4.1).

mod going_on;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, SystemClock};
use ldap::ber::{Frame, Reader, Tag, Writer, frame};
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, Attributes, AttributesBuf, Authentication, BindRequest, Control, Controls,
    ControlsBuf, DecodeLimits, DeleteRequest, DerefAliases, ExtendedRequest, LdapResult, Message,
    MessageId, Modification, ModificationsBuf, ModifyOperation, ModifyRequest, PartialAttribute,
    Request, Response, Scope, SearchRequest, Strings, StringsBuf, ValuesBuf,
};
use ldap::url::{LdapUrl, UrlScheme};

pub use self::going_on::StreamAnswer;
use crate::answer::{Found, FoundEntry, Outcome};
use crate::error::ClientError;
use crate::stream::{ClientStream, HOST_DEFAULT};
use crate::tls::{self, TlsOptions};

/// How a server is connected to.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `ldap://`, `ldaps://` or `ldapi://`.
    pub url: String,
    /// Whom TLS trusts.
    pub tls: TlsOptions,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for an answer, whatever comes before it: for all of a search whose entries
    /// are collected, for the next entry of another.
    pub answer_timeout: Duration,
    /// The largest response that is taken; also of all entries together that are collected.
    pub message_size_max_bytes: usize,
}

impl ConnectOptions {
    /// The defaults for this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: TlsOptions::default(),
            connect_timeout: CONNECT_TIMEOUT,
            answer_timeout: ANSWER_TIMEOUT,
            message_size_max_bytes: MESSAGE_SIZE_MAX_BYTES,
        }
    }
}

/// What a search asks for; change what differs from [`SearchFor::below`].
#[derive(Clone, Debug)]
pub struct SearchFor<'a> {
    /// The name of the base.
    pub base: &'a str,
    /// Which entries, seen from the base.
    pub scope: Scope,
    /// When aliases are followed.
    pub deref: DerefAliases,
    /// Which entries match.
    pub filter: Filter<'a>,
    /// The attributes wanted; none stand for all user attributes.
    pub attributes: &'a [&'a str],
    /// The most entries wanted; 0: as many as the server allows.
    pub size_limit_entries: u32,
    /// The most time the server may take; 0: as long as it allows.
    pub time_limit_s: u32,
    /// In pages, only what is stored is wanted beside what is named, if the server can tell.
    pub stored_only: bool,
}

impl<'a> SearchFor<'a> {
    /// Entries at and below `base` that match.
    pub fn below(base: &'a str, filter: Filter<'a>) -> Self {
        Self {
            base,
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            filter,
            attributes: &[],
            size_limit_entries: 0,
            time_limit_s: 0,
            stored_only: false,
        }
    }
}

/// An attribute description and values, as text.
pub type TextAttribute<'a> = (&'a str, &'a [&'a str]);

/// A modification: what to do with an attribute, and values.
pub type TextModification<'a> = (ModifyOperation, &'a str, &'a [&'a str]);

/// One thing that a search has found, while the connection holds it.
#[derive(Clone, Copy, Debug)]
pub enum SearchAnswer<'a> {
    /// An entry.
    Entry {
        /// Its name.
        dn: &'a str,
        /// Its attributes.
        attributes: Attributes<'a>,
    },
    /// Where the search would go on, which it does not.
    Reference(Strings<'a>),
}

impl SearchAnswer<'_> {
    /// Roughly what it takes when it is kept in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Entry { dn, attributes } => {
                let of = |attribute: PartialAttribute<'_>| {
                    let values = attribute.values.iter().map(|value| KEPT_BYTES + value.len());
                    KEPT_BYTES + attribute.description.len() + values.sum::<usize>()
                };
                KEPT_BYTES + dn.len() + attributes.iter().map(of).sum::<usize>()
            }
            Self::Reference(urls) => urls.iter().map(|url| KEPT_BYTES + url.len()).sum(),
        }
    }
}

/// The end of a search, or of one page of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// How it ended.
    pub outcome: Outcome,
    /// What asks for the next page; empty when there is none.
    pub cookie: Vec<u8>,
}

/// A connection to a server.
pub struct Connection {
    /// `None` only while StartTLS changes it.
    stream: Option<ClientStream>,
    clock: Arc<dyn Clock>,
    /// The time-out of the socket is what was left of an answer's.
    is_shortened: bool,
    /// When the exchange began that has one time limit as a whole.
    began: Option<Duration>,
    /// When all answers are to have come.
    deadline: Option<Duration>,
    host: String,
    options: ConnectOptions,
    incoming: Vec<u8>,
    /// How much of `incoming` is done with.
    taken: usize,
    next_id: i32,
}

impl Connection {
    /// Connects; for `ldaps` with TLS.
    pub fn open(options: ConnectOptions) -> Result<Self, ClientError> {
        let bad = |reason: String| ClientError::Url { url: options.url.clone(), reason };
        let url = LdapUrl::parse(&options.url).map_err(|error| bad(error.to_string()))?;
        let stream = ClientStream::open(&url, options.connect_timeout)?;
        stream.set_timeout(options.answer_timeout).map_err(ClientError::Lost)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let host = url.host.clone().unwrap_or_else(|| HOST_DEFAULT.to_owned());
        let stream = match url.scheme {
            UrlScheme::Ldaps => {
                let config = tls::config(&options.tls)?;
                stream.secure(&host, config, &*clock, options.answer_timeout)?
            }
            UrlScheme::Ldap | UrlScheme::Ldapi => stream,
        };
        Ok(Self {
            stream: Some(stream),
            clock,
            is_shortened: false,
            began: None,
            deadline: None,
            host,
            options,
            incoming: Vec::new(),
            taken: 0,
            next_id: 1,
        })
    }

    /// Changes [`ConnectOptions::answer_timeout`].
    pub fn set_answer_timeout(&mut self, timeout: Duration) -> Result<(), ClientError> {
        let stream = self.stream.as_ref().ok_or(ClientError::Closed(None))?;
        stream.set_timeout(timeout).map_err(ClientError::Lost)?;
        self.options.answer_timeout = timeout;
        Ok(())
    }

    /// Has every answer come within what is left now, however many there are; none: each has its
    /// own time again.
    pub fn end_within(&mut self, left: Option<Duration>) {
        self.deadline = left.map(|left| self.clock.elapsed() + left);
    }

    /// Whether TLS protects the connection.
    pub fn is_secure(&self) -> bool {
        self.stream.as_ref().is_some_and(ClientStream::is_secure)
    }

    /// Gives up the socket, for those who send and read by themselves. `None` if it is lost.
    pub fn into_stream(mut self) -> Option<ClientStream> {
        // Whoever takes it has all the time again.
        self.stream.take().filter(|it| it.set_timeout(self.options.answer_timeout).is_ok())
    }

    /// StartTLS (RFC 4511 §4.14). An error after the server agreed leaves no connection.
    pub fn start_tls(&mut self) -> Result<(), ClientError> {
        let config = tls::config(&self.options.tls)?;
        let request = ExtendedRequest { oid: START_TLS, value: None };
        self.request(Request::Extended(request))?.into_result("StartTLS")?;
        // What came before the handshake is nobody's answer.
        self.incoming.clear();
        self.taken = 0;
        let stream = self.stream.take().ok_or(ClientError::Closed(None))?;
        let (clock, most) = (&*self.clock, self.options.answer_timeout);
        self.stream = Some(stream.secure(&self.host, config, clock, most)?);
        Ok(())
    }

    /// Binds with name and password.
    pub fn bind(&mut self, name: &str, password: &[u8]) -> Result<(), ClientError> {
        let authentication = Authentication::Simple(password);
        self.request(Request::Bind(BindRequest { version: 3, name, authentication }))?
            .into_result("bind")
    }

    /// Binds as whom the operating system says is asking, over a Unix socket (RFC 4422 §A).
    pub fn bind_external(&mut self) -> Result<(), ClientError> {
        let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials: Some(b"") };
        self.request(Request::Bind(BindRequest { version: 3, name: "", authentication }))?
            .into_result("bind")
    }

    /// Searches for what fits into memory. A refusal or a limit is in the outcome, together with
    /// the entries that came.
    pub fn search(&mut self, asked: &SearchFor<'_>) -> Result<Found, ClientError> {
        let (mut entries, mut references) = (Vec::new(), Vec::new());
        let (max, mut bytes) = (self.options.message_size_max_bytes, 0);
        let mut each = |found: SearchAnswer<'_>| {
            bytes += found.bytes();
            if bytes > max {
                return Err(ClientError::TooMuch(max));
            }
            match found {
                SearchAnswer::Entry { dn, attributes } => {
                    entries.push(FoundEntry::of(dn, attributes))
                }
                SearchAnswer::Reference(urls) => references.extend(urls.iter().map(str::to_owned)),
            }
            Ok(())
        };
        let done = self.whole(|all| all.search_each(asked, Controls::EMPTY, &mut each))?;
        Ok(Found { entries, references, outcome: done.outcome })
    }

    /// An exchange that has one time limit as a whole.
    fn whole<T>(
        &mut self,
        exchange: impl FnOnce(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.began = Some(self.clock.elapsed());
        let done = exchange(self);
        self.began = None;
        done
    }

    /// Searches for one page (RFC 2696): the first, or the one after the page that `cookie` came
    /// with. `each` is given what is found as it comes: while it does not return, no more is read,
    /// and the server waits. A server that knows no pages sends everything at once.
    ///
    /// # Errors
    /// What `each` fails with ends the search in its middle: the connection is of no use then.
    pub fn search_page<E: From<ClientError>>(
        &mut self,
        asked: &SearchFor<'_>,
        page_entries: u32,
        cookie: &[u8],
        each: &mut dyn FnMut(SearchAnswer<'_>) -> Result<(), E>,
    ) -> Result<Page, E> {
        self.search_page_with(asked, page_entries, cookie, Controls::EMPTY, each)
    }

    /// Searches for one page, as [`Self::search_page`] does, with more controls.
    ///
    /// # Errors
    /// What `each` fails with ends the search in its middle: the connection is of no use then.
    pub fn search_page_with<E: From<ClientError>>(
        &mut self,
        asked: &SearchFor<'_>,
        page_entries: u32,
        cookie: &[u8],
        more: Controls<'_>,
        each: &mut dyn FnMut(SearchAnswer<'_>) -> Result<(), E>,
    ) -> Result<Page, E> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let sequence = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, i64::from(page_entries));
        writer.octets(Tag::OCTET_STRING, cookie);
        writer.end(sequence);
        let mut controls: ControlsBuf = more.iter().collect();
        controls.push(Control { oid: PAGED_RESULTS, critical: false, value: Some(&value) });
        if asked.stored_only {
            controls.push(Control { oid: REAL_ATTRIBUTES_ONLY, critical: false, value: None });
        }
        self.search_each(asked, controls.as_ref(), each)
    }

    /// Searches with controls. `each` is given what is found as it comes.
    ///
    /// # Errors
    /// What `each` fails with ends the search in its middle: the connection is of no use then.
    pub fn search_with<E: From<ClientError>>(
        &mut self,
        asked: &SearchFor<'_>,
        controls: Controls<'_>,
        each: &mut dyn FnMut(SearchAnswer<'_>) -> Result<(), E>,
    ) -> Result<Outcome, E> {
        Ok(self.search_each(asked, controls, each)?.outcome)
    }

    fn search_each<E: From<ClientError>>(
        &mut self,
        asked: &SearchFor<'_>,
        controls: Controls<'_>,
        each: &mut dyn FnMut(SearchAnswer<'_>) -> Result<(), E>,
    ) -> Result<Page, E> {
        let id = self.send_search(asked, controls)?;
        loop {
            let page = self.receive::<_, E>(id, |message| match message.op {
                Response::SearchEntry { dn, attributes } => {
                    each(SearchAnswer::Entry { dn, attributes })?;
                    Ok(None)
                }
                Response::SearchReference(urls) => {
                    each(SearchAnswer::Reference(urls))?;
                    Ok(None)
                }
                Response::SearchDone(result) => {
                    let cookie = next_page(&message.controls)?;
                    Ok(Some(Page { outcome: Outcome::of(&result), cookie }))
                }
                Response::Intermediate { .. } => Ok(None),
                _ => Err(misplaced().into()),
            })?;
            if let Some(page) = page {
                return Ok(page);
            }
        }
    }

    fn send_search(
        &mut self,
        asked: &SearchFor<'_>,
        controls: Controls<'_>,
    ) -> Result<MessageId, ClientError> {
        let mut attributes = StringsBuf::new();
        for attribute in asked.attributes {
            attributes.push(attribute);
        }
        let request = SearchRequest {
            base: asked.base,
            scope: asked.scope,
            deref: asked.deref,
            size_limit_entries: asked.size_limit_entries,
            time_limit_s: asked.time_limit_s,
            types_only: false,
            filter: asked.filter.clone(),
            attributes: attributes.as_ref(),
        };
        self.send(Request::Search(request), controls)
    }

    /// Adds an entry.
    pub fn add(
        &mut self,
        name: &str,
        attributes: &[TextAttribute<'_>],
    ) -> Result<Outcome, ClientError> {
        let mut list = AttributesBuf::new();
        for (description, values) in attributes {
            let values = values_of(values);
            list.push(PartialAttribute { description, values: values.as_ref() });
        }
        self.request(Request::Add(AddRequest { name, attributes: list.as_ref() }))
    }

    /// Modifies an entry.
    pub fn modify(
        &mut self,
        name: &str,
        changes: &[TextModification<'_>],
    ) -> Result<Outcome, ClientError> {
        let mut list = ModificationsBuf::new();
        for (operation, description, values) in changes {
            let values = values_of(values);
            let attribute = PartialAttribute { description, values: values.as_ref() };
            list.push(Modification { operation: *operation, attribute });
        }
        self.request(Request::Modify(ModifyRequest { name, changes: list.as_ref() }))
    }

    /// Deletes an entry.
    pub fn delete(&mut self, name: &str) -> Result<Outcome, ClientError> {
        self.request(Request::Delete(DeleteRequest { name }))
    }

    /// A request with one answer.
    fn request(&mut self, request: Request<'_>) -> Result<Outcome, ClientError> {
        self.request_with(request, Controls::EMPTY)
    }

    /// A request with controls and one answer.
    pub fn request_with(
        &mut self,
        request: Request<'_>,
        controls: Controls<'_>,
    ) -> Result<Outcome, ClientError> {
        let id = self.send(request, controls)?;
        self.answer(id, |message| match single(&message.op) {
            Some(result) => Ok(Some(Outcome::of(result))),
            None if matches!(message.op, Response::Intermediate { .. }) => Ok(None),
            None => Err(misplaced()),
        })
    }

    /// An extended operation: how it ended, and the value of its response.
    pub fn extended(
        &mut self,
        oid: &str,
        value: Option<&[u8]>,
    ) -> Result<(Outcome, Option<Vec<u8>>), ClientError> {
        let request = Request::Extended(ExtendedRequest { oid, value });
        let id = self.send(request, Controls::EMPTY)?;
        self.answer(id, |message| match &message.op {
            Response::Extended { result, value, .. } => {
                Ok(Some((Outcome::of(result), value.map(<[u8]>::to_vec))))
            }
            Response::Intermediate { .. } => Ok(None),
            _ => Err(misplaced()),
        })
    }

    /// The one answer to `id`, in which `take` finds something; what comes before it takes none of
    /// its time.
    fn answer<T>(
        &mut self,
        id: MessageId,
        take: impl Fn(&Message<'_, Response<'_>>) -> Result<Option<T>, ClientError>,
    ) -> Result<T, ClientError> {
        self.whole(|all| {
            loop {
                if let Some(answer) = all.receive(id, &take)? {
                    return Ok(answer);
                }
            }
        })
    }

    fn send(&mut self, op: Request<'_>, controls: Controls<'_>) -> Result<MessageId, ClientError> {
        let mut message = Vec::new();
        let id = self.encode(op, controls, &mut message);
        self.write(&message)?;
        Ok(id)
    }

    /// Appends a request to `out`, under an id of its own.
    pub(crate) fn encode(
        &mut self,
        op: Request<'_>,
        controls: Controls<'_>,
        out: &mut Vec<u8>,
    ) -> MessageId {
        let id = MessageId(self.next_id);
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        Message { id, op, controls }.encode(out);
        id
    }

    /// Sends octets of requests.
    pub(crate) fn write(&mut self, octets: &[u8]) -> Result<(), ClientError> {
        let stream = self.stream.as_mut().ok_or(ClientError::Closed(None))?;
        let sent = stream.write_all(octets).and_then(|()| stream.flush());
        sent.map_err(|error| self.lost(error))
    }

    /// Waits for one response to `id` and has `take` look at it.
    fn receive<T, E: From<ClientError>>(
        &mut self,
        id: MessageId,
        take: impl FnOnce(&Message<'_, Response<'_>>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.next_response(|message| {
            if message.id == id {
                return take(message);
            }
            Err(ClientError::Malformed(format!("an answer to message {}", message.id)).into())
        })
    }

    /// Waits for the next response and has `take` look at it.
    pub(crate) fn next_response<T, E: From<ClientError>>(
        &mut self,
        take: impl FnOnce(&Message<'_, Response<'_>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let malformed = |error: &dyn std::fmt::Display| ClientError::Malformed(error.to_string());
        let size_max = self.options.message_size_max_bytes;
        let (begin, mut reads) = (self.began.unwrap_or_else(|| self.clock.elapsed()), 0);
        if self.began.is_some() || self.deadline.is_some() {
            self.left(begin)?;
        }
        let length = loop {
            let rest = self.incoming.get(self.taken..).unwrap_or_default();
            match frame(rest, size_max).map_err(|error| malformed(&error))? {
                Frame::Complete(length) => break length,
                Frame::Incomplete { .. } => {
                    self.limit(begin, reads)?;
                    self.read()?;
                    reads += 1;
                }
            }
        };
        let begin = self.taken;
        self.taken += length;
        let octets = self.incoming.get(begin..self.taken).unwrap_or_default();
        let message = Message::<Response<'_>>::decode(octets, &DecodeLimits::default())
            .map_err(|error| malformed(&error))?;
        match &message.op {
            Response::Extended { result, .. } if message.id == MessageId::UNSOLICITED => {
                Err(ClientError::Closed(Some(Outcome::of(result))).into())
            }
            _ => take(&message),
        }
    }

    /// Has a read end in time: the first of an answer has all the time there is, others what is
    /// left of it.
    fn limit(&mut self, begin: Duration, reads: u64) -> Result<(), ClientError> {
        let is_first = reads == 0 && self.began.is_none() && self.deadline.is_none();
        if is_first && !self.is_shortened {
            return Ok(());
        }
        let left = if is_first { self.options.answer_timeout } else { self.left(begin)? };
        self.is_shortened = !is_first;
        let stream = self.stream.as_ref().ok_or(ClientError::Closed(None))?;
        stream.set_read_timeout(left).map_err(ClientError::Lost)
    }

    /// What is left of the time of an answer since `begin`.
    fn left(&self, begin: Duration) -> Result<Duration, ClientError> {
        let all = self.options.answer_timeout;
        let now = self.clock.elapsed();
        let own = all.saturating_sub(now.saturating_sub(begin));
        let left = self.deadline.map_or(own, |deadline| own.min(deadline.saturating_sub(now)));
        if left.is_zero() { Err(ClientError::TimedOut(all.as_secs())) } else { Ok(left) }
    }

    fn read(&mut self) -> Result<(), ClientError> {
        self.incoming.drain(..self.taken);
        self.taken = 0;
        if self.incoming.is_empty() {
            self.incoming.shrink_to(READ_BYTES);
        }
        let mut buffer = [0; READ_BYTES];
        let stream = self.stream.as_mut().ok_or(ClientError::Closed(None))?;
        match stream.read_once(&mut buffer) {
            Ok(None) => Ok(()),
            Ok(Some(0)) => Err(ClientError::Closed(None)),
            Ok(Some(read)) => {
                self.incoming.extend_from_slice(buffer.get(..read).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.lost(error)),
        }
    }

    fn lost(&self, error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ClientError::TimedOut(self.options.answer_timeout.as_secs())
            }
            io::ErrorKind::UnexpectedEof => ClientError::Closed(None),
            _ => ClientError::Lost(error),
        }
    }
}

/// Says good-bye; a server that is gone need not hear it.
impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.send(Request::Unbind, Controls::EMPTY);
    }
}

fn values_of(values: &[&str]) -> ValuesBuf {
    let mut list = ValuesBuf::new();
    for value in values {
        list.push(value.as_bytes());
    }
    list
}

/// Where a search with pages goes on, by the controls of its end.
fn next_page(controls: &Controls<'_>) -> Result<Vec<u8>, ClientError> {
    let control = controls.iter().find(|control| control.oid == PAGED_RESULTS);
    let Some(value) = control.and_then(|control| control.value) else { return Ok(Vec::new()) };
    let cookie = || {
        let mut reader = Reader::new(value);
        let mut sequence = reader.sequence(Tag::SEQUENCE)?;
        sequence.integer_i32(Tag::INTEGER)?;
        sequence.octets(Tag::OCTET_STRING)
    };
    let cookie = cookie().map_err(|error| ClientError::Malformed(error.to_string()))?;
    Ok(cookie.to_vec())
}

/// The result of a response that is the only one.
pub(crate) fn single<'r, 'a>(response: &'r Response<'a>) -> Option<&'r LdapResult<'a>> {
    match response {
        Response::Bind { result, .. }
        | Response::Extended { result, .. }
        | Response::Modify(result)
        | Response::Add(result)
        | Response::Delete(result)
        | Response::ModifyDn(result)
        | Response::Compare(result) => Some(result),
        Response::SearchEntry { .. }
        | Response::SearchReference(_)
        | Response::SearchDone(_)
        | Response::Intermediate { .. } => None,
    }
}

pub(crate) fn misplaced() -> ClientError {
    ClientError::Malformed("a response of another kind".to_owned())
}

/// Simple paged results (RFC 2696).
const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";
/// Real attributes only.
const REAL_ATTRIBUTES_ONLY: &str = "2.16.840.1.113730.3.4.17";
/// RFC 4511 §4.14.1.
const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// What a text takes in memory beside its octets, about, in bytes.
const KEPT_BYTES: usize = 48;
/// Default of [`ConnectOptions::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of [`ConnectOptions::answer_timeout`].
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of [`ConnectOptions::message_size_max_bytes`].
const MESSAGE_SIZE_MAX_BYTES: usize = 64 << 20;
/// Octets asked for in one read.
const READ_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests;
