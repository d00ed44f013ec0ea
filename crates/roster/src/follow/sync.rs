//! A source that is followed by content synchronisation (RFC 4533), as OpenLDAP's `syncprov`
//! provides it.
//!
//! Invariant: a position is given only when everything before it was told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use client::{Connection, Outcome, SearchFor, StreamAnswer};
use ldap::control_value::sync::{
    DONE_OID, EntryState, INFO_OID, REQUEST_OID, STATE_OID, SyncDone, SyncInfo, SyncRequest,
    SyncState,
};
use ldap::filter::Filter;
use ldap::message::{Attributes, Control, Controls, ControlsBuf, MessageId, Scope};
use ldap::result::ResultCode;
use offline::PlainEntry;

use super::line::Position;
use super::source::{Lag, Source, Told, has_entry};
use super::wanted::Uuid;
use crate::connect::Login;
use crate::failure::Failure;
use crate::online::now;

/// A search that goes on.
pub(super) struct SyncSource<'l> {
    login: &'l Login,
    connection: Connection,
    /// Asks how far the source is; opened when that is asked first.
    other: Option<Connection>,
    search: MessageId,
    base: String,
    cookie: Option<Vec<u8>>,
    /// All there is came; from now on cookies come with each change.
    is_complete: bool,
    /// Nothing was asked before with a cookie.
    is_first: bool,
    /// When something came last.
    heard: Instant,
    /// When all answers are to have come.
    deadline: Option<Instant>,
}

impl<'l> SyncSource<'l> {
    /// Begins where a cookie says, or with everything.
    pub(super) fn begin(
        login: &'l Login,
        base: &str,
        cookie: Option<&[u8]>,
    ) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let request = SyncRequest { persists: true, cookie, reload_hint: false };
        let value = request.encode();
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: REQUEST_OID, critical: true, value: Some(&value) });
        controls.push(Control { oid: MANAGE_DSA_IT, critical: false, value: None });
        let asked = SearchFor {
            attributes: &["*", "+", "ref"],
            ..SearchFor::below(base, Filter::Present("objectClass"))
        };
        let search = connection.begin_search(&asked, controls.as_ref())?;
        Ok(Self {
            login,
            connection,
            other: None,
            search,
            base: base.to_owned(),
            cookie: cookie.map(<[u8]>::to_vec),
            is_complete: false,
            is_first: cookie.is_none(),
            heard: now(),
            deadline: None,
        })
    }

    fn other(&mut self) -> Result<&mut Connection, Failure> {
        match &mut self.other {
            Some(connection) => Ok(connection),
            none => {
                let connection = none.insert(self.login.connect()?);
                let left = |until: Instant| until.saturating_duration_since(now());
                connection.end_within(self.deadline.map(left));
                Ok(connection)
            }
        }
    }

    /// The stamps of the last changes there, by the server that made them.
    fn there(&mut self) -> Result<BTreeMap<String, String>, Failure> {
        let base = self.base.clone();
        let attributes = [CONTEXT_CSN];
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &attributes,
            ..SearchFor::below(&base, Filter::Present("objectClass"))
        };
        let found = self.other()?.search(&asked)?;
        let texts = found.entries.iter().flat_map(|entry| entry.texts(CONTEXT_CSN));
        Ok(texts.filter_map(by_server).collect())
    }
}

impl Source for SyncSource<'_> {
    fn next(&mut self, wait: Duration) -> Result<Option<Told>, Failure> {
        let state = State { is_complete: self.is_complete, is_first: self.is_first };
        let told = self.connection.next_told(self.search, wait, |answer| read(answer, state))?;
        let Some((told, cookie)) = told else { return Ok(None) };
        self.heard = now();
        if let Told::Complete { .. } = told {
            self.is_complete = true;
        }
        if let Some(cookie) = cookie {
            self.cookie = Some(cookie);
        }
        Ok(Some(told))
    }

    fn position(&self) -> Option<Position> {
        self.cookie.clone().filter(|_| self.is_complete).map(Position::Cookie)
    }

    fn is_there(&mut self, uuid: &Uuid) -> Result<bool, Failure> {
        let base = self.base.clone();
        has_entry(self.other()?, &base, uuid)
    }

    fn is_stale(&mut self, _: &Uuid) -> Result<bool, Failure> {
        Ok(false)
    }

    fn tells_in_order(&self) -> bool {
        true
    }

    fn end_within(&mut self, left: Option<Duration>) {
        self.deadline = left.map(|left| now() + left);
        self.connection.end_within(left);
        if let Some(other) = &mut self.other {
            other.end_within(left);
        }
    }

    fn questions(&mut self) -> Result<&mut Connection, Failure> {
        self.other()
    }

    /// A search shows either them or all other entries.
    fn tells_subentries(&self) -> bool {
        false
    }

    fn lag(&mut self) -> Result<Lag, Failure> {
        let there = self.there()?;
        let cookie = self.cookie.as_deref().unwrap_or_default();
        let here = stamps_of_cookie(&String::from_utf8_lossy(cookie));
        if there.is_empty() || here.is_empty() {
            // It tells no stamps: nothing came for a while is all that is known.
            let is_none = self.is_complete && self.heard.elapsed() >= QUIET;
            return Ok(Lag { is_none, ..Lag::default() });
        }
        let missing =
            |(server, stamp): &(&String, &String)| here.get(*server).is_none_or(|own| own < *stamp);
        let is_none = self.is_complete && !there.iter().any(|one| missing(&one));
        let seconds = there.iter().filter(missing).map(|(server, stamp)| {
            let own = here.get(server).and_then(|own| seconds_of(own));
            seconds_of(stamp).zip(own).map_or(0.0, |(there, here)| there - here)
        });
        let seconds = seconds.fold(0.0, f64::max).max(0.0);
        if !is_none && self.is_complete && self.heard.elapsed() > DEAF_AFTER {
            return Err(Failure {
                is_passing: true,
                ..Failure::refused("the source has changes and does not send them")
            });
        }
        Ok(Lag { seconds: Some(seconds), changes: None, is_none })
    }
}

#[derive(Clone, Copy)]
struct State {
    is_complete: bool,
    is_first: bool,
}

/// What one answer tells, and the cookie with it.
fn read(answer: StreamAnswer<'_>, state: State) -> Result<(Told, Option<Vec<u8>>), Failure> {
    let malformed =
        |error: &dyn std::fmt::Display| Failure::refused(format!("the source is wrong: {error}"));
    match answer {
        StreamAnswer::Entry { dn, attributes, controls } => {
            let value = value_of(controls, STATE_OID)
                .ok_or_else(|| malformed(&"an entry comes without its state"))?;
            let told = EntryState::decode(value).map_err(|error| malformed(&error))?;
            // Before all there is came, what comes with an entry is no place to go on from.
            let cookie = told.cookie.filter(|_| state.is_complete).map(<[u8]>::to_vec);
            let uuid = told.uuid;
            let told = match told.state {
                SyncState::Delete => Told::Gone(vec![uuid]),
                SyncState::Present => Told::Present(vec![uuid]),
                SyncState::Add | SyncState::Modify => {
                    Told::Entry(Some(uuid), plain(dn, attributes))
                }
            };
            Ok((told, cookie))
        }
        StreamAnswer::Reference(urls) => {
            Ok((Told::Elsewhere(urls.iter().map(str::to_owned).collect()), None))
        }
        StreamAnswer::Between { oid: Some(INFO_OID), value } => {
            let info = SyncInfo::decode(value.unwrap_or_default());
            let info = info.map_err(|error| malformed(&error))?;
            let owned = |cookie: Option<&[u8]>| cookie.map(<[u8]>::to_vec);
            Ok(match info {
                SyncInfo::NewCookie(cookie) => (Told::Moved, owned(Some(cookie))),
                SyncInfo::RefreshDelete { cookie, is_done: true } => {
                    (Told::Complete { without_the_rest: state.is_first }, owned(cookie))
                }
                SyncInfo::RefreshPresent { cookie, is_done: true } => {
                    (Told::Complete { without_the_rest: true }, owned(cookie))
                }
                SyncInfo::RefreshDelete { .. } | SyncInfo::RefreshPresent { .. } => {
                    return Err(malformed(&"it begins to tell all in two phases"));
                }
                SyncInfo::IdSet { cookie, is_gone: true, uuids } => {
                    (Told::Gone(uuids), owned(cookie).filter(|_| state.is_complete))
                }
                SyncInfo::IdSet { cookie, is_gone: false, uuids } => {
                    (Told::Present(uuids), owned(cookie).filter(|_| state.is_complete))
                }
            })
        }
        StreamAnswer::Between { .. } => Ok((Told::Moved, None)),
        StreamAnswer::Done { outcome, controls } => Err(ended(&outcome, controls, state)),
    }
}

/// Why the search is over, which was to go on.
fn ended(outcome: &Outcome, controls: Controls<'_>, state: State) -> Failure {
    let failure = Failure::refused(format!("the source ends the search: {outcome}"));
    match outcome.code {
        ResultCode::SyncRefreshRequired => failure.hint(BEGIN_ANEW),
        ResultCode::SizeLimitExceeded
        | ResultCode::TimeLimitExceeded
        | ResultCode::AdminLimitExceeded => failure.hint(
            "it limits how much this entry may read: bind there as the administrator, or lift the \
             limit ('limits dn.exact=\"...\" size=unlimited time=unlimited' of OpenLDAP)",
        ),
        ResultCode::UnavailableCriticalExtension | ResultCode::ProtocolError => failure.hint(
            "it does not provide content synchronisation to this entry: OpenLDAP needs 'overlay \
             syncprov' on the database; others are followed with --by changelog",
        ),
        ResultCode::NoSuchObject => {
            // One that was there may be made anew.
            let is_passing = state.is_complete || !state.is_first;
            let failure = failure.hint("is that the branch, and may this entry see it there?");
            Failure { is_passing, ..failure }
        }
        ResultCode::Success | ResultCode::Canceled => {
            // A server that does not go on with changes says where to ask again.
            let done = value_of(controls, DONE_OID).and_then(|value| SyncDone::decode(value).ok());
            let is_passing = done.is_some();
            Failure { is_passing, ..failure }
        }
        _ => {
            let is_passing = matches!(outcome.code, ResultCode::Busy | ResultCode::Unavailable);
            Failure { is_passing, ..failure }
        }
    }
}

fn value_of<'a>(controls: Controls<'a>, oid: &str) -> Option<&'a [u8]> {
    controls.iter().find(|control| control.oid == oid).and_then(|control| control.value)
}

/// An entry of an answer.
pub(super) fn plain(dn: &str, attributes: Attributes<'_>) -> PlainEntry {
    let values = attributes.iter().flat_map(|attribute| {
        let name = attribute.description;
        attribute.values.iter().map(move |value| (name.to_owned(), value.to_vec()))
    });
    PlainEntry { dn: dn.to_owned(), values: values.collect() }
}

/// A failure that says that the position is of no use any more.
pub(super) fn begin_anew(why: &str) -> Failure {
    Failure::refused(why).hint(BEGIN_ANEW)
}

/// Whether a failure says that the position is of no use any more.
pub(super) fn is_begin_anew(failure: &Failure) -> bool {
    failure.hint.as_deref() == Some(BEGIN_ANEW)
}

/// A stamp, and the number of the server that made it.
fn by_server(stamp: &str) -> Option<(String, String)> {
    let server = stamp.split('#').nth(2)?;
    Some((server.to_owned(), stamp.to_owned()))
}

/// The stamps in a cookie of OpenLDAP: `rid=…,csn=A;B`.
fn stamps_of_cookie(cookie: &str) -> BTreeMap<String, String> {
    let csn = cookie.split(',').find_map(|part| part.strip_prefix("csn="));
    csn.unwrap_or_default().split(';').filter_map(by_server).collect()
}

/// The seconds in a stamp, of its day; days do not matter where two are compared.
fn seconds_of(stamp: &str) -> Option<f64> {
    let time = stamp.split('Z').next()?;
    let number = |range: std::ops::Range<usize>| time.get(range)?.parse::<f64>().ok();
    let (day, hour, minute) = (number(6..8)?, number(8..10)?, number(10..12)?);
    let second = time.get(12..)?.parse::<f64>().ok()?;
    Some(((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second)
}

const CONTEXT_CSN: &str = "contextCSN";
/// RFC 3296 §3.
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
/// What is said of a position that the source does not know any more.
const BEGIN_ANEW: &str = "the source does not know the position any more: everything is compared";
/// A source without stamps that is silent for so long has nothing to say.
const QUIET: Duration = Duration::from_secs(2);
/// A source that has changes and is silent for so long is connected to anew.
const DEAF_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_by_server() {
        let one = "20270131180000.500000Z#000000#001#000000";
        let other = "20270131180002.000000Z#000000#002#000000";
        let found = stamps_of_cookie(&format!("rid=000,sid=001,csn={one};{other}"));
        assert_eq!(found.get("001").map(String::as_str), Some(one));
        assert_eq!(found.get("002").map(String::as_str), Some(other));
        assert!(stamps_of_cookie("rid=000").is_empty() && stamps_of_cookie("\u{fffd}").is_empty());
        let between = seconds_of(other).unwrap() - seconds_of(one).unwrap();
        assert!((between - 1.5).abs() < 1e-6, "{between}");
        assert_eq!(seconds_of("Z"), None);
    }
}
