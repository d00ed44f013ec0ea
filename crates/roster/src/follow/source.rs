//! What a source tells, whichever way it is followed.

use std::time::Duration;

use offline::PlainEntry;

use client::{Connection, SearchAnswer, SearchFor};
use ldap::control_value::sync::REQUEST_OID;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::Scope;
use ldap::result::ResultCode;

use super::line::Position;
use super::wanted::{Uuid, text_of_uuid};
use crate::failure::Failure;
use crate::online::server::Server;

/// One thing that a source tells.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// An entry is like this.
    Entry(Option<Uuid>, PlainEntry),
    /// Entries are there as they were.
    Present(Vec<Uuid>),
    /// Entries are gone.
    Gone(Vec<Uuid>),
    /// The entry of this name is gone.
    GoneByName(String),
    /// The entry with this identity, or else of this name, is gone from the branch with all below.
    GoneWithAllBelow(Option<Uuid>, String),
    /// An entry has another name, and all below it.
    Renamed(super::goal::Renamed),
    /// All there is was told, and changes follow; whether what was not told of is gone.
    Complete { without_the_rest: bool },
    /// A part of the directory is elsewhere.
    Elsewhere(Vec<String>),
    /// The position has moved on.
    Moved,
}

/// What is known of how far behind one is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lag {
    /// Seconds between the last change there and the last one that came.
    pub(super) seconds: Option<f64>,
    /// Changes that did not come yet.
    pub(super) changes: Option<u64>,
    /// Nothing is missing.
    pub(super) is_none: bool,
}

impl Lag {
    /// Whether it will be over soon when the source takes no more changes.
    pub(super) fn is_small(&self) -> bool {
        self.seconds.is_some_and(|seconds| seconds <= SMALL_S)
            || self.changes.is_some_and(|changes| changes <= SMALL_CHANGES)
    }
}

/// What is over soon.
const SMALL_S: f64 = 1.0;
const SMALL_CHANGES: u64 = 50;

/// A server that is followed.
pub(super) trait Source {
    /// What it tells next; none if nothing comes within `wait`.
    fn next(&mut self, wait: Duration) -> Result<Option<Told>, Failure>;

    /// Where one is when all that was told so far is done; none while that cannot be gone on from.
    fn position(&self) -> Option<Position>;

    /// Whether the source has an entry with this identity.
    fn is_there(&mut self, uuid: &Uuid) -> Result<bool, Failure>;

    /// Whether an entry that was told of and waits may be gone without that being told of it.
    fn is_stale(&mut self, uuid: &Uuid) -> Result<bool, Failure>;

    /// Whether it tells each thing as it was then, once it has told all there is.
    fn tells_in_order(&self) -> bool;

    /// Whether something that it told since this was asked last has a name that it got later than
    /// what was told before: another entry may have that name here.
    fn has_told_ahead(&mut self) -> bool {
        false
    }

    /// Has all answers come within what is left.
    fn end_within(&mut self, left: Option<Duration>);

    /// A connection to ask what else there is.
    fn questions(&mut self) -> Result<&mut Connection, Failure>;

    /// Whether subentries are among what it tells.
    fn tells_subentries(&self) -> bool;

    /// How far behind that is, by a question to the source.
    fn lag(&mut self) -> Result<Lag, Failure>;
}

/// Whether a source is rather followed by content synchronisation: 389 has it, but tells more in
/// its change log.
pub(super) fn prefers_sync(connection: &mut Connection) -> Result<bool, Failure> {
    let attributes = ["supportedControl", "vendorVersion"];
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &attributes,
        ..SearchFor::below("", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let has = |name: &str, is_it: &dyn Fn(&str) -> bool| {
        found.entries.iter().any(|entry| entry.texts(name).any(is_it))
    };
    let is_389 = has("vendorVersion", &|version| version.starts_with("389-"));
    Ok(!is_389 && has("supportedControl", &|oid| oid == REQUEST_OID))
}

/// Whether a server has an entry with this identity, as it tells it, or in the form of 389.
pub(super) fn has_entry(
    connection: &mut Connection,
    base: &str,
    uuid: &Uuid,
) -> Result<bool, Failure> {
    let text = text_of_uuid(uuid);
    let plain = text.replace('-', "");
    let parts = [0..8, 8..16, 16..24, 24..32].map(|part| plain.get(part).unwrap_or_default());
    let unique = parts.join("-");
    let equal = |description, value: &str| {
        let value = value.as_bytes().to_vec().into();
        Filter::Equality(AvaFilter { description, value })
    };
    let identities = [("entryUUID", &text), ("nsUniqueId", &unique)];
    // Some servers show subentries to who names their class, and others by a control.
    let filter = Filter::Or(
        identities
            .iter()
            .flat_map(|(name, value)| {
                let subentry = equal("objectClass", "ldapSubEntry");
                [equal(name, value), Filter::And(vec![equal(name, value), subentry])]
            })
            .collect(),
    );
    let attributes = ["1.1"];
    let asked = SearchFor { attributes: &attributes, ..SearchFor::below(base, filter) };
    for controls in Server::look(connection)?.controls_for_all(Scope::Subtree) {
        let mut is_any = false;
        let mut each = |_: SearchAnswer<'_>| {
            // Behind a reference it may be.
            is_any = true;
            Ok::<_, Failure>(())
        };
        let outcome = connection.search_with(&asked, controls.as_ref(), &mut each)?;
        match outcome.code {
            _ if is_any => return Ok(true),
            ResultCode::Success | ResultCode::NoSuchObject => {}
            // What the source does not say is not taken for a no: entries would go here.
            _ => {
                let failed = outcome.into_result("search for an entry");
                return Err(failed
                    .map_or_else(Failure::from, |()| Failure::refused("the search has no end")));
            }
        }
    }
    Ok(false)
}
