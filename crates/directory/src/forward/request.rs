//! An update on its way to the node that decides: who asks, and the LDAP messages as they came.
//!
//! Layout, little-endian; a text is its length (u32) and UTF-8, a flag one octet:
//!
//! ```text
//! version u16, request id [16]
//! kind u8:  1 messages   session, count u32, of each: length u32 and octets
//!           2 events     count u32, of each: entry u64, urgent flag, count u32, of each:
//!                        time u64 (microseconds), success flag, counted flag
//!           3 rehash     name text, old value u32 + octets, new value u32 + octets
//! session:  kind u8 (0 anonymous, 1 administrator, 2 entry); name text, entry u64, prover u64
//!           bound name text, authorization identity text, address text, mechanism text, number u64
//!           address u8 (0 none, 4, 6) and its octets, proxied flag, secure flag, key bits u32
//!           local user flag, uid u32, gid u32, host name text, must change u64
//! ```
//!
//! Invariant: what is decoded is encoded again to the same octets; no number stands for two things.

use std::net::IpAddr;

use environment::Timestamp;
use history::record::Who;
use ldap::message::NAME_LENGTH_MAX_BYTES;
use schema::EntryId;
use zeroize::Zeroizing;

use super::forwarder::{MESSAGES_MAX, PROTOCOL_VERSION, REQUEST_MAX_BYTES};
use super::octets::{OctetReader, Unreadable, put_count, put_octets};
use super::outgoing::Turn;
use crate::password_policy::account_event::{
    ACCOUNTS_PER_WRITE, AccountEvents, EVENTS_PER_REQUEST, Event, What,
};
use crate::read::fresh::level::DefaultReadLevel;
use crate::request::asker_queues::{Asker, network};
use crate::request::session::{LocalUser, Peer, Session};

/// An update that is handed on.
pub(crate) struct ForwardedRequest {
    /// Names it, also when it is sent again.
    pub(crate) id: RequestId,
    pub(crate) work: ForwardedWork,
}

/// What of an update is needed to hand it on.
pub(crate) struct Forwardable {
    /// All of it, encoded.
    pub(crate) request: Zeroizing<Vec<u8>>,
    /// The number of the connection.
    pub(crate) session: u64,
    pub(crate) asker: Asker,
    /// Its place among the updates of the connection, while it is to be decided here.
    pub(crate) turn: Option<Turn>,
}

impl Forwardable {
    /// That of the messages of a session.
    pub(crate) fn new(session: &Session, id: RequestId, messages: Messages) -> Self {
        let told = Box::new(session.to_another());
        let work = ForwardedWork::Messages { session: told, messages };
        Self {
            request: ForwardedRequest { id, work }.encode(),
            session: session.number(),
            asker: Asker::of(session),
            turn: None,
        }
    }
}

/// The messages of one update, or of a transaction.
pub(crate) type Messages = Vec<Zeroizing<Vec<u8>>>;

/// Names a request in the whole cluster.
pub(crate) type RequestId = [u8; 16];

/// What is to be done.
pub(crate) enum ForwardedWork {
    /// The message of one update, or those of a transaction: its updates, then its end.
    Messages { session: Box<ForwardedSession>, messages: Messages },
    /// What binds at the other node left in accounts.
    Events(Vec<AccountEvents>),
    /// A password is stored anew.
    Rehash { name: String, old: Zeroizing<Vec<u8>>, new: Zeroizing<Vec<u8>> },
}

/// The connection on which it was asked for, as far as decisions and change records want to know.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedSession {
    pub(crate) identity: ForwardedIdentity,
    /// As the change records note it.
    pub(crate) who: Who,
    /// Where it comes from; `secure` says whether TLS protects it now.
    pub(crate) peer: Peer,
    /// Bits of the key of TLS.
    pub(crate) key_bits: u32,
    pub(crate) host_name: Option<String>,
    /// The account that has to change its password before anything else.
    pub(crate) must_change: Option<EntryId>,
}

/// Who has signed in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ForwardedIdentity {
    Anonymous,
    /// The administrator, under this name.
    Root(String),
    Entry {
        /// Under which it is known to the session.
        name: String,
        entry: EntryId,
        /// The entry that acts as this one.
        prover: Option<EntryId>,
    },
}

impl ForwardedRequest {
    /// What binds have left in accounts, as octets.
    pub(crate) fn of_events(id: RequestId, events: &[AccountEvents]) -> Zeroizing<Vec<u8>> {
        let copied = events.iter().map(|AccountEvents { id, events, is_urgent, .. }| {
            let (events, told) = (events.clone(), Vec::new());
            AccountEvents { id: *id, events, told, is_urgent: *is_urgent }
        });
        Self { id, work: ForwardedWork::Events(copied.collect()) }.encode()
    }

    /// It as octets, which hold whatever passwords the messages do.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(PROTOCOL_VERSION.to_le_bytes().to_vec());
        out.extend_from_slice(&self.id);
        match &self.work {
            ForwardedWork::Messages { session, messages } => {
                // At once, or clear texts would be left where the octets were before.
                let octets = messages.iter().map(|one| LENGTH_BYTES + one.len()).sum::<usize>();
                out.reserve_exact(SESSION_ROOM_BYTES + octets);
                out.push(MESSAGES);
                session.put(&mut out);
                put_count(&mut out, messages.len());
                messages.iter().for_each(|one| put_octets(&mut out, one));
            }
            ForwardedWork::Events(accounts) => {
                out.push(EVENTS);
                put_count(&mut out, accounts.len());
                accounts.iter().for_each(|one| put_events(&mut out, one));
            }
            ForwardedWork::Rehash { name, old, new } => {
                out.reserve_exact(REHASH_ROOM_BYTES + name.len() + old.len() + new.len());
                out.push(REHASH);
                put_octets(&mut out, name.as_bytes());
                put_octets(&mut out, old);
                put_octets(&mut out, new);
            }
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the octets are none, or one of another version.
    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Unreadable> {
        if octets.len() > REQUEST_MAX_BYTES {
            return Err(Unreadable("longer than a request may be"));
        }
        let mut reader = OctetReader::new(octets);
        if reader.u16()? != PROTOCOL_VERSION {
            return Err(Unreadable::OTHER_VERSION);
        }
        let id = reader.array()?;
        let work = match reader.u8()? {
            MESSAGES => ForwardedWork::Messages {
                session: Box::new(ForwardedSession::read(&mut reader)?),
                messages: read_messages(&mut reader)?,
            },
            EVENTS => {
                let count = reader.count(ACCOUNTS_PER_WRITE, ACCOUNT_MIN_BYTES)?;
                let accounts = (0..count).map(|_| read_events(&mut reader));
                ForwardedWork::Events(accounts.collect::<Result<_, _>>()?)
            }
            REHASH => ForwardedWork::Rehash {
                name: reader.text(NAME_LENGTH_MAX_BYTES)?.to_owned(),
                old: Zeroizing::new(reader.octets(STORED_MAX_BYTES)?.to_vec()),
                new: Zeroizing::new(reader.octets(STORED_MAX_BYTES)?.to_vec()),
            },
            _ => return Err(Unreadable("a request of a kind that is not known")),
        };
        reader.end()?;
        Ok(Self { id, work })
    }
}

/// Who has a turn with a request, as its forwarder tells it; none where it cannot be read. What the
/// server of another node does on its own account is the administrator's, as it is there.
///
/// Only what says so is read: whoever asks this has yet to decide whether the request is taken.
pub fn asker(octets: &[u8]) -> Option<Asker> {
    read_asker(&mut OctetReader::new(octets)).ok()
}

fn read_asker(reader: &mut OctetReader<'_>) -> Result<Asker, Unreadable> {
    if reader.u16()? != PROTOCOL_VERSION {
        return Err(Unreadable::OTHER_VERSION);
    }
    let _: RequestId = reader.array()?;
    match reader.u8()? {
        MESSAGES => {}
        EVENTS | REHASH => return Ok(Asker::Root),
        _ => return Err(Unreadable("a request of a kind that is not known")),
    }
    match ForwardedIdentity::read(reader)? {
        ForwardedIdentity::Root(_) => Ok(Asker::Root),
        ForwardedIdentity::Entry { entry, .. } => Ok(Asker::Entry(entry)),
        ForwardedIdentity::Anonymous => {
            let _ = read_who(reader)?;
            Ok(read_ip(reader)?.map_or(Asker::Local, |ip| Asker::Address(network(ip))))
        }
    }
}

fn read_who(reader: &mut OctetReader<'_>) -> Result<Who, Unreadable> {
    Ok(Who {
        dn: reader.text(NAME_LENGTH_MAX_BYTES)?.to_owned(),
        authz: reader.text(NAME_LENGTH_MAX_BYTES + "dn:".len())?.to_owned(),
        address: reader.text(ADDRESS_MAX_BYTES)?.to_owned(),
        mechanism: reader.text(MECHANISM_MAX_BYTES)?.to_owned().into(),
        session: reader.u64()?,
    })
}

fn read_ip(reader: &mut OctetReader<'_>) -> Result<Option<IpAddr>, Unreadable> {
    Ok(match reader.u8()? {
        0 => None,
        4 => Some(IpAddr::from(reader.array::<4>()?)),
        6 => Some(IpAddr::from(reader.array::<16>()?)),
        _ => return Err(Unreadable("an address of a kind that is not known")),
    })
}

fn read_messages(reader: &mut OctetReader<'_>) -> Result<Messages, Unreadable> {
    let count = reader.count(MESSAGES_MAX, LENGTH_BYTES)?;
    if count == 0 {
        return Err(Unreadable("a request without a message"));
    }
    let message = |reader: &mut OctetReader<'_>| {
        Ok(Zeroizing::new(reader.octets(REQUEST_MAX_BYTES)?.to_vec()))
    };
    (0..count).map(|_| message(reader)).collect()
}

fn put_events(out: &mut Vec<u8>, account: &AccountEvents) {
    out.extend_from_slice(&account.id.0.to_le_bytes());
    out.push(u8::from(account.is_urgent));
    put_count(out, account.events.len());
    for Event { at, what, is_counted } in &account.events {
        out.extend_from_slice(&at.0.to_le_bytes());
        out.push(u8::from(*what == What::Success));
        out.push(u8::from(*is_counted));
    }
}

fn read_events(reader: &mut OctetReader<'_>) -> Result<AccountEvents, Unreadable> {
    let (id, is_urgent) = (EntryId(reader.u64()?), reader.bool()?);
    let count = reader.count(EVENTS_PER_REQUEST, EVENT_BYTES)?;
    let event = |reader: &mut OctetReader<'_>| {
        let at = Timestamp(reader.u64()?);
        let what = if reader.bool()? { What::Success } else { What::Failure };
        Ok(Event { at, what, is_counted: reader.bool()? })
    };
    let events = (0..count).map(|_| event(reader)).collect::<Result<_, _>>()?;
    Ok(AccountEvents { id, events, told: Vec::new(), is_urgent })
}

impl ForwardedSession {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { identity, who, peer, key_bits, host_name, must_change } = self;
        identity.put(out);
        for text in [&who.dn, &who.authz, &who.address, &*who.mechanism] {
            put_octets(out, text.as_bytes());
        }
        out.extend_from_slice(&who.session.to_le_bytes());
        match peer.ip {
            None => out.push(0),
            Some(IpAddr::V4(four)) => {
                out.push(4);
                out.extend_from_slice(&four.octets());
            }
            Some(IpAddr::V6(six)) => {
                out.push(6);
                out.extend_from_slice(&six.octets());
            }
        }
        out.push(u8::from(peer.is_proxied));
        out.push(u8::from(peer.secure));
        out.extend_from_slice(&key_bits.to_le_bytes());
        out.push(u8::from(peer.local_user.is_some()));
        let LocalUser { uid, gid } = peer.local_user.unwrap_or(LocalUser { uid: 0, gid: 0 });
        out.extend_from_slice(&uid.to_le_bytes());
        out.extend_from_slice(&gid.to_le_bytes());
        put_octets(out, host_name.as_deref().unwrap_or_default().as_bytes());
        out.extend_from_slice(&must_change.unwrap_or(EntryId::ROOT).0.to_le_bytes());
    }

    fn read(reader: &mut OctetReader<'_>) -> Result<Self, Unreadable> {
        let identity = ForwardedIdentity::read(reader)?;
        let who = read_who(reader)?;
        let ip = read_ip(reader)?;
        let (is_proxied, secure) = (reader.bool()?, reader.bool()?);
        let key_bits = reader.u32()?;
        let is_local = reader.bool()?;
        let local_user = LocalUser { uid: reader.u32()?, gid: reader.u32()? };
        if !is_local && local_user != (LocalUser { uid: 0, gid: 0 }) {
            return Err(Unreadable("a user of no machine"));
        }
        let local_user = is_local.then_some(local_user);
        let host_name = reader.text(HOST_NAME_MAX_BYTES)?;
        let host_name = (!host_name.is_empty()).then(|| host_name.to_owned());
        let must_change = read_entry(reader)?;
        let address = who.address.clone();
        // It reads nothing here.
        let read_level = DefaultReadLevel::Local;
        let peer = Peer { address, ip, is_proxied, local_user, secure, read_level };
        Ok(Self { identity, who, peer, key_bits, host_name, must_change })
    }
}

impl ForwardedIdentity {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Anonymous => out.push(ANONYMOUS),
            Self::Root(name) => {
                out.push(ROOT);
                put_octets(out, name.as_bytes());
            }
            Self::Entry { name, entry, prover } => {
                out.push(ENTRY);
                put_octets(out, name.as_bytes());
                out.extend_from_slice(&entry.0.to_le_bytes());
                out.extend_from_slice(&prover.unwrap_or(EntryId::ROOT).0.to_le_bytes());
            }
        }
    }

    fn read(reader: &mut OctetReader<'_>) -> Result<Self, Unreadable> {
        Ok(match reader.u8()? {
            ANONYMOUS => Self::Anonymous,
            ROOT => Self::Root(reader.text(NAME_LENGTH_MAX_BYTES)?.to_owned()),
            ENTRY => {
                let name = reader.text(NAME_LENGTH_MAX_BYTES)?.to_owned();
                let entry = read_entry(reader)?.ok_or(Unreadable("an identity without entry"))?;
                Self::Entry { name, entry, prover: read_entry(reader)? }
            }
            _ => return Err(Unreadable("an identity of a kind that is not known")),
        })
    }
}

fn read_entry(reader: &mut OctetReader<'_>) -> Result<Option<EntryId>, Unreadable> {
    let id = EntryId(reader.u64()?);
    Ok((id != EntryId::ROOT).then_some(id))
}

const MESSAGES: u8 = 1;
const EVENTS: u8 = 2;
const REHASH: u8 = 3;

const ANONYMOUS: u8 = 0;
const ROOT: u8 = 1;
const ENTRY: u8 = 2;

/// Of a count or a length.
const LENGTH_BYTES: usize = 4;
/// Most sessions take no more.
const SESSION_ROOM_BYTES: usize = 512;
/// Of a rehash beside its texts.
const REHASH_ROOM_BYTES: usize = 1 + 3 * LENGTH_BYTES;
/// An account without events.
const ACCOUNT_MIN_BYTES: usize = 13;
const EVENT_BYTES: usize = 10;

/// Octets of the address of a client, as a text.
const ADDRESS_MAX_BYTES: usize = 4_096;
/// Octets of the name of a mechanism.
const MECHANISM_MAX_BYTES: usize = 64;
/// Octets of the name of a client's host.
const HOST_NAME_MAX_BYTES: usize = 1_024;
/// Octets of the stored form of a password.
const STORED_MAX_BYTES: usize = 64 * 1024;

/// Any octets are refused, or are a request that is written the same again.
#[cfg(any(test, feature = "test-support"))]
pub fn reads_as_written(octets: &[u8]) -> bool {
    let Ok(request) = ForwardedRequest::decode(octets) else { return false };
    assert_eq!(*request.encode(), octets, "what was read is written the same");
    assert!(asker(octets).is_some(), "what is read says who has a turn with it");
    true
}
