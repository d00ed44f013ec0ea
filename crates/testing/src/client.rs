//! A blocking LDAP client over TCP for programs that need more than dialogues: many requests, in
//! flight at the same time, and exact knowledge of which of them were answered.
//!
//! Invariant: an answer is reported once, with the id its request was given; nothing is resent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::ber::{
    self, ENUMERATED, INTEGER, OCTET_STRING, SEQUENCE, SET, put, put_boolean, put_number, put_with,
};
use crate::filter;
use crate::request::{PASSWORD_MODIFY, SORT};
use crate::response::{self, Body};

/// User attributes of an entry: description to values.
pub type Attributes = BTreeMap<String, BTreeSet<String>>;

/// Entries by their names, with attributes and values in the order in which they came.
pub type Tree = BTreeMap<String, Vec<(String, Vec<Vec<u8>>)>>;

/// How long a server may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Searches sent before the first answer is read.
const PIPELINED_MAX: usize = 32;
/// The id of the notice of disconnection (RFC 4511 §4.4.1); the end of the connection follows.
const NOTICE_ID: i64 = 0;
/// Octets read at a time.
const READ_BYTES: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// Octets of `received` that were taken.
    taken: usize,
    next_id: i64,
}

/// A request that changes something, or authenticates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Request {
    /// Simple bind.
    Bind {
        /// Who.
        dn: String,
        /// The password.
        password: String,
    },
    /// Adds an entry.
    Add {
        /// Its name.
        dn: String,
        /// All its attributes.
        attributes: Attributes,
    },
    /// Changes attributes of an entry.
    Modify {
        /// The entry.
        dn: String,
        /// What to change, in this order.
        changes: Vec<Change>,
    },
    /// Renames or moves an entry.
    ModifyDn {
        /// The entry.
        dn: String,
        /// Its new RDN.
        new_rdn: String,
        /// Whether the values of the old RDN go.
        delete_old_rdn: bool,
        /// The new superior, if it moves.
        new_superior: Option<String>,
    },
    /// Removes an entry.
    Delete {
        /// The entry.
        dn: String,
    },
    /// An extended operation.
    Extended {
        /// Which.
        oid: &'static str,
        /// Its value.
        value: Option<Vec<u8>>,
    },
    /// Gives whoever is bound another password (RFC 3062).
    Password {
        /// The password so far.
        old: String,
        /// The new one.
        new: String,
    },
}

/// A control of a request (RFC 4511 §4.1.11).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Control {
    /// Which.
    pub oid: &'static str,
    /// Whether the request is refused where the control is unknown.
    pub critical: bool,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

/// One change of a modify request (RFC 4511 §4.6, RFC 4525).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// What to do with the values.
    pub kind: ChangeKind,
    /// The attribute.
    pub attribute: String,
    /// The values.
    pub values: Vec<String>,
}

/// The kinds of change, with their numbers on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// Adds values.
    Add = 0,
    /// Deletes values, or all.
    Delete = 1,
    /// Replaces all values.
    Replace = 2,
    /// Adds to a number.
    Increment = 3,
}

/// A search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Search {
    /// Where.
    pub base: String,
    /// 0 the base entry, 1 one level, 2 the whole subtree.
    pub scope: i64,
    /// Which.
    pub filter: String,
    /// What of them; nothing means all user attributes.
    pub attributes: Vec<String>,
}

/// What a search found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// The entries, in the order they came.
    pub entries: Vec<(String, Attributes)>,
    /// The result code.
    pub code: i64,
    /// What the server said to it.
    pub diagnostic: String,
}

/// The final answer to a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The id of the request.
    pub id: i64,
    /// The result code.
    pub code: i64,
    /// What the server said to it.
    pub diagnostic: String,
    /// The value of an extended response.
    pub value: Option<Vec<u8>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The connection is gone: nobody knows what became of what was not answered.
    Gone(std::io::Error),
    /// The server took too long.
    Late,
    /// What came is no LDAP answer, or an answer to nothing.
    Malformed(String),
    /// The request cannot be encoded.
    Request(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(error) => write!(f, "the connection is gone: {error}"),
            Self::Late => write!(f, "no answer in time"),
            Self::Malformed(what) => write!(f, "malformed answer: {what}"),
            Self::Request(what) => write!(f, "a request that cannot be sent: {what}"),
        }
    }
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self, ClientError> {
        Self::connect_within(address, ANSWER_TIMEOUT)
    }

    /// Connects, to a server that may take no longer than `limit` for that and for each answer.
    pub fn connect_within(address: SocketAddr, limit: Duration) -> Result<Self, ClientError> {
        let stream = TcpStream::connect_timeout(&address, limit).map_err(ClientError::Gone)?;
        stream.set_nodelay(true).map_err(ClientError::Gone)?;
        stream.set_read_timeout(Some(limit)).map_err(ClientError::Gone)?;
        stream.set_write_timeout(Some(limit)).map_err(ClientError::Gone)?;
        Ok(Self { stream, received: Vec::new(), taken: 0, next_id: 1 })
    }

    /// Sends a request with these controls; its id.
    pub fn send(&mut self, request: &Request, controls: &[Control]) -> Result<i64, ClientError> {
        let mut content = Vec::new();
        put_number(&mut content, INTEGER, self.next_id);
        put_request(request, &mut content);
        put_controls(controls, &mut content);
        self.send_content(&content)
    }

    /// Waits for the next final answer, whichever request it is for; entries are passed over.
    pub fn receive(&mut self) -> Result<Answer, ClientError> {
        loop {
            let message = self.message()?;
            if let Body::Result(ended) = message.body {
                let diagnostic = ended.diagnostic;
                let (code, value) = (ended.code, ended.value);
                return Ok(Answer { id: message.id, code, diagnostic, value });
            }
        }
    }

    /// Sends a request and waits for its answer; nothing else may be in flight.
    pub fn call(&mut self, request: &Request) -> Result<Answer, ClientError> {
        let id = self.send(request, &[])?;
        let answer = self.receive()?;
        if answer.id == id { Ok(answer) } else { Err(unexpected(answer.id)) }
    }

    /// Binds; anything but success is an error.
    pub fn bind(&mut self, dn: &str, password: &str) -> Result<(), ClientError> {
        let request = Request::Bind { dn: dn.to_owned(), password: password.to_owned() };
        match self.call(&request)? {
            Answer { code: 0, .. } => Ok(()),
            Answer { code, diagnostic, .. } => {
                Err(ClientError::Malformed(format!("the bind ended with {code}: {diagnostic}")))
            }
        }
    }

    /// Searches; nothing else may be in flight.
    pub fn search(&mut self, search: &Search) -> Result<Found, ClientError> {
        let mut all = self.search_all(std::slice::from_ref(search))?;
        all.pop().ok_or_else(|| ClientError::Malformed("no outcome".to_owned()))
    }

    /// Searches many times, several requests in flight; the outcomes in the order asked.
    pub fn search_all(&mut self, searches: &[Search]) -> Result<Vec<Found>, ClientError> {
        let mut outcomes = Vec::with_capacity(searches.len());
        for some in searches.chunks(PIPELINED_MAX) {
            let first = self.next_id;
            for search in some {
                self.begin_search(search, 0, &[])?;
            }
            let mut founds = vec![Found::default(); some.len()];
            let mut open = some.len();
            while open > 0 {
                let message = self.message()?;
                let place = usize::try_from(message.id - first).ok();
                let Some(found) = place.and_then(|place| founds.get_mut(place)) else {
                    return Err(unexpected(message.id));
                };
                match message.body {
                    Body::Entry { dn, attributes } => found.entries.push((dn, texts(attributes))),
                    Body::Result(ended) => {
                        found.code = ended.code;
                        found.diagnostic = ended.diagnostic;
                        open -= 1;
                    }
                    Body::Reference(_) | Body::Intermediate => {}
                }
            }
            outcomes.append(&mut founds);
        }
        Ok(outcomes)
    }

    /// Searches, and keeps what is found octet for octet; any code but success is an error.
    pub fn search_tree(&mut self, search: &Search) -> Result<Tree, ClientError> {
        let id = self.begin_search(search, 0, &[])?;
        let mut tree = Tree::new();
        loop {
            let message = self.message()?;
            match message.body {
                _ if message.id != id => return Err(unexpected(message.id)),
                Body::Entry { dn, attributes } => {
                    tree.insert(dn, attributes);
                }
                Body::Result(ended) if ended.code == 0 => return Ok(tree),
                Body::Result(ended) => {
                    let (code, diagnostic) = (ended.code, ended.diagnostic);
                    let what = format!("the search ended with {code}: {diagnostic}");
                    return Err(ClientError::Malformed(what));
                }
                Body::Reference(_) | Body::Intermediate => {}
            }
        }
    }

    /// Sends a search without waiting for what it finds; its id. A time limit of 0 is none.
    pub fn begin_search(
        &mut self,
        search: &Search,
        time_limit_s: u32,
        controls: &[Control],
    ) -> Result<i64, ClientError> {
        let mut content = Vec::new();
        put_number(&mut content, INTEGER, self.next_id);
        let mut body = Vec::new();
        put(&mut body, OCTET_STRING, search.base.as_bytes());
        put_number(&mut body, ENUMERATED, search.scope);
        put_number(&mut body, ENUMERATED, 0);
        put_number(&mut body, INTEGER, 0);
        put_number(&mut body, INTEGER, time_limit_s.into());
        put_boolean(&mut body, false);
        filter::encode(&search.filter, &mut body).map_err(ClientError::Request)?;
        put_with(&mut body, SEQUENCE, |out| {
            for attribute in &search.attributes {
                put(out, OCTET_STRING, attribute.as_bytes());
            }
        });
        put(&mut content, 0x63, &body);
        put_controls(controls, &mut content);
        self.send_content(&content)
    }

    /// Abandons a request; nothing is answered to that (RFC 4511 §4.11).
    pub fn abandon(&mut self, id: i64) -> Result<(), ClientError> {
        let mut content = Vec::new();
        put_number(&mut content, INTEGER, self.next_id);
        put_number(&mut content, 0x50, id);
        self.send_content(&content).map(drop)
    }

    fn send_content(&mut self, content: &[u8]) -> Result<i64, ClientError> {
        let mut message = Vec::with_capacity(content.len() + 6);
        put(&mut message, SEQUENCE, content);
        let id = self.next_id;
        self.next_id += 1;
        self.stream.write_all(&message).map_err(failed)?;
        Ok(id)
    }

    fn message(&mut self) -> Result<response::Response, ClientError> {
        loop {
            let rest = self.received.get(self.taken..).unwrap_or_default();
            if let Some((_, header, content)) = ber::measure(rest)
                && let Some(octets) = rest.get(..header + content)
            {
                let message = response::decode(octets)
                    .ok_or_else(|| ClientError::Malformed(format!("{octets:02x?}")))?;
                self.taken += header + content;
                if message.id == NOTICE_ID {
                    return Err(ClientError::Gone(ErrorKind::ConnectionAborted.into()));
                }
                return Ok(message);
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            let mut chunk = [0; READ_BYTES];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ClientError::Gone(ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.received.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn failed(error: std::io::Error) -> ClientError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::Late,
        _ => ClientError::Gone(error),
    }
}

fn unexpected(id: i64) -> ClientError {
    ClientError::Malformed(format!("an answer to request {id}, which is not in flight"))
}

fn texts(attributes: Vec<(String, Vec<Vec<u8>>)>) -> Attributes {
    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
    let all =
        |(name, values): (String, Vec<Vec<u8>>)| (name, values.into_iter().map(text).collect());
    attributes.into_iter().map(all).collect()
}

fn put_request(request: &Request, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let tag = match request {
        Request::Bind { dn, password } => {
            put_number(&mut body, INTEGER, 3);
            put(&mut body, OCTET_STRING, dn.as_bytes());
            put(&mut body, 0x80, password.as_bytes());
            0x60
        }
        Request::Add { dn, attributes } => {
            put(&mut body, OCTET_STRING, dn.as_bytes());
            put_with(&mut body, SEQUENCE, |out| {
                for (attribute, values) in attributes {
                    put_attribute(attribute, values.iter(), out);
                }
            });
            0x68
        }
        Request::Modify { dn, changes } => {
            put(&mut body, OCTET_STRING, dn.as_bytes());
            put_with(&mut body, SEQUENCE, |out| {
                for change in changes {
                    put_with(out, SEQUENCE, |out| {
                        put_number(out, ENUMERATED, change.kind as i64);
                        put_attribute(&change.attribute, change.values.iter(), out);
                    });
                }
            });
            0x66
        }
        Request::ModifyDn { dn, new_rdn, delete_old_rdn, new_superior } => {
            put(&mut body, OCTET_STRING, dn.as_bytes());
            put(&mut body, OCTET_STRING, new_rdn.as_bytes());
            put_boolean(&mut body, *delete_old_rdn);
            if let Some(superior) = new_superior {
                put(&mut body, 0x80, superior.as_bytes());
            }
            0x6c
        }
        Request::Delete { dn } => {
            body.extend_from_slice(dn.as_bytes());
            0x4a
        }
        Request::Extended { oid, value } => {
            put(&mut body, 0x80, oid.as_bytes());
            if let Some(value) = value {
                put(&mut body, 0x81, value);
            }
            0x77
        }
        Request::Password { old, new } => {
            put(&mut body, 0x80, PASSWORD_MODIFY.as_bytes());
            put_with(&mut body, 0x81, |out| {
                put_with(out, SEQUENCE, |out| {
                    put(out, 0x81, old.as_bytes());
                    put(out, 0x82, new.as_bytes());
                });
            });
            0x77
        }
    };
    put(out, tag, &body);
}

fn put_attribute<'a>(name: &str, values: impl Iterator<Item = &'a String>, out: &mut Vec<u8>) {
    put_with(out, SEQUENCE, |out| {
        put(out, OCTET_STRING, name.as_bytes());
        put_with(out, SET, |out| {
            for value in values {
                put(out, OCTET_STRING, value.as_bytes());
            }
        });
    });
}

/// A critical sort control for one attribute in its own order (RFC 2891 §1.1).
pub fn sort_by(attribute: &str) -> Control {
    let mut value = Vec::new();
    put_with(&mut value, SEQUENCE, |out| {
        put_with(out, SEQUENCE, |out| put(out, OCTET_STRING, attribute.as_bytes()));
    });
    Control { oid: SORT, critical: true, value: Some(value) }
}

/// The value of the request that ends a transaction (RFC 5805 §2.4).
pub fn end_of_transaction(id: &[u8], commits: bool) -> Vec<u8> {
    let mut value = Vec::new();
    put_with(&mut value, SEQUENCE, |out| {
        // RFC 4511 §5.1: a default value is not encoded.
        if !commits {
            put_boolean(out, false);
        }
        put(out, OCTET_STRING, id);
    });
    value
}

fn put_controls(controls: &[Control], out: &mut Vec<u8>) {
    if controls.is_empty() {
        return;
    }
    put_with(out, 0xa0, |out| {
        for control in controls {
            put_with(out, SEQUENCE, |out| {
                put(out, OCTET_STRING, control.oid.as_bytes());
                // RFC 4511 §5.1: a default value is not encoded.
                if control.critical {
                    put_boolean(out, true);
                }
                if let Some(value) = &control.value {
                    put(out, OCTET_STRING, value);
                }
            });
        }
    });
}
