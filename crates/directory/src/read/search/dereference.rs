//! What values of an entry name, told beside it: the dereference control.
//!
//! Invariant: a value is followed only where the asker may read it, and of what it names nothing is
//! told but what a search of that entry would tell.

use std::sync::Arc;

use ldap::control_value::dereference::DereferenceResponse;
use ldap::message::{AttributesBuf, PartialAttribute};
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, Schema, Selection};
use store::{Resolved, StoredEntry, View};

use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::computed;
use crate::read::live_entry::LiveEntry;
use crate::request::controls::dereference::OID;
use crate::request::controls::request::RequestControls;
use crate::request::controls::response::ResponseControl;
use crate::request::referral;
use crate::request::refusal::Refusal;

/// What is to be followed.
pub(crate) struct Dereference {
    all: Vec<Specification>,
    /// The control is critical.
    critical: bool,
}

struct Specification {
    attribute: Arc<AttributeDescription>,
    /// That attribute alone.
    own: Selection,
    /// What of the entries is wanted.
    wanted: Selection,
}

impl Dereference {
    /// What the control of a request means; none without one, or where no values are returned.
    /// Attributes that the schema does not know have no values.
    pub(super) fn resolve(
        controls: &RequestControls<'_>,
        types_only: bool,
        schema: &Schema,
    ) -> Option<Box<Self>> {
        let asked = controls.dereference.as_ref().filter(|_| !types_only)?;
        let resolve = |one: &ldap::control_value::dereference::DereferenceSpecification<'_>| {
            let own = Selection::resolve([one.attribute].into_iter(), schema);
            let attribute = match own.ranges() {
                [range, ..] => Arc::clone(&range.description),
                [] => schema.describe(one.attribute).ok()?,
            };
            let wanted = Selection::resolve(one.attributes.iter(), schema);
            Some(Specification { attribute, own, wanted })
        };
        let all = asked.all.iter().filter_map(resolve).collect();
        Some(Box::new(Self { all, critical: asked.critical }))
    }

    /// Refuses with `protocolError` to follow values that name no entries.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let other = self.all.iter().find(|one| !one.attribute.kind.names_entries());
        other.map_or(Ok(()), |other| {
            let why = format!("values of '{}' name no entries to follow", other.attribute.text());
            Err(Refusal::new(ResultCode::ProtocolError, why))
        })
    }
}

/// What came of following.
pub(super) enum Followed {
    /// The control for the entry, if it has any such values.
    Done(Option<ResponseControl>),
    /// It takes too long here.
    TooMuch,
}

/// An entry whose values are followed.
pub(super) struct Follower<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) state: &'a State,
    pub(super) guard: &'a Guard<'a>,
    pub(super) stored: &'a StoredEntry<'a>,
    /// Referral objects are looked out for.
    pub(super) referrals: bool,
    /// On the thread that reads requests, so many names may be found, and so many octets written.
    pub(super) here: Option<Here>,
}

/// What may be done where requests are read.
#[derive(Clone, Copy)]
pub(super) struct Here {
    pub(super) names: u64,
    pub(super) bytes: usize,
}

/// Values of an attribute, as it is called in the response.
struct Values {
    attribute: String,
    values: Vec<Vec<u8>>,
}

impl Follower<'_> {
    /// Follows the values of all attributes that are asked for; how many names were found for it.
    ///
    /// More than is followed is refused as a critical control that cannot be carried out is (RFC
    /// 4511 §4.1.11): then a client goes on without it, as SSSD does, which takes the code of a
    /// limit for the end of what there is.
    pub(super) fn follow(&self, asked: &Dereference) -> Result<(Followed, u64), Refusal> {
        self.follow_all(asked).map_err(|refusal| match refusal.code {
            ResultCode::AdminLimitExceeded if asked.critical => {
                Refusal { code: ResultCode::UnavailableCriticalExtension, ..refusal }
            }
            _ => refusal,
        })
    }

    fn follow_all(&self, asked: &Dereference) -> Result<(Followed, u64), Refusal> {
        let mut names = 0;
        let mut response = DereferenceResponse::default();
        for one in &asked.all {
            let Some(Values { attribute, values }) = self.values(one, &mut names)? else {
                return Ok((Followed::TooMuch, names));
            };
            if self.is_too_much(names, 0) {
                return Ok((Followed::TooMuch, names));
            }
            // They may be anywhere, also where other rules hold than here.
            let is_done = self.guard.anywhere(|guard| -> Result<bool, Refusal> {
                for name in &values {
                    let found = self.found(guard, name, &one.wanted, &mut names)?;
                    let Some(found) = found else { return Ok(false) };
                    response.push(&attribute, name, found.as_ref());
                    if response.len() > FOLLOWED_MAX_BYTES {
                        return Err(too_many());
                    }
                    if self.is_too_much(names, response.len()) {
                        return Ok(false);
                    }
                }
                Ok(true)
            })?;
            if !is_done {
                return Ok((Followed::TooMuch, names));
            }
        }
        let value = (!response.is_empty()).then(|| Some(response.finish()));
        Ok((Followed::Done(value.map(|value| ResponseControl { oid: OID, value })), names))
    }

    fn is_too_much(&self, names: u64, bytes: usize) -> bool {
        self.here.is_some_and(|here| names > here.names || bytes > here.bytes)
    }

    /// How many names an entry has in lists that are asked for and may be read. Refuses more than
    /// are followed.
    fn listed(
        &self,
        guard: &Guard<'_>,
        entry: &StoredEntry<'_>,
        wanted: &Selection,
    ) -> Result<u64, Refusal> {
        if !entry.has_lists() {
            return Ok(0);
        }
        let (rights, mut whole, mut parts) = (guard.on(entry), 0, 0);
        for (description, list) in entry.outside()? {
            // Of what may not be read nothing is told, not how many there are either.
            if !rights.may_see() || !rights.may_read(description) {
                continue;
            }
            if wanted.selects(description) {
                whole += list.count()?;
            } else if wanted.ranges().iter().any(|range| range.description == *description) {
                parts += list.count()?.min(FOLLOWED_MAX as u64);
            }
        }
        match whole > LISTED_MAX {
            true => Err(too_many()),
            false => Ok(whole + parts),
        }
    }

    /// The values of an attribute to follow. None where it takes too long here. Refuses more than
    /// are followed for an entry.
    fn values(&self, one: &Specification, names: &mut u64) -> Result<Option<Values>, Refusal> {
        let known = self.state.schema.well_known();
        *names += self.listed(self.guard, self.stored, &one.own)?;
        if self.is_too_much(*names, 0) {
            return Ok(None);
        }
        let live = LiveEntry::new(self.view, self.stored, known, true).seen_by(self.guard);
        let live = live.selecting(&one.own);
        let (mut attribute, mut values) = (one.attribute.text().to_owned(), Vec::new());
        self.guard.on(self.stored).visible(&live, &one.own).visit(&mut |description, found| {
            if !one.own.ranges().is_empty() {
                description.clone_into(&mut attribute);
            }
            let left = FOLLOWED_MAX + 1 - values.len();
            values.extend(found.iter().take(left).map(<[u8]>::to_vec));
        });
        if values.len() > FOLLOWED_MAX {
            return Err(too_many());
        }
        *names += values.len() as u64 * FOLLOWED_NAMES;
        Ok(Some(Values { attribute, values }))
    }

    /// What is wanted of the entry that a value names, as far as the asker may read it. None where
    /// it takes too long here.
    fn found(
        &self,
        guard: &Guard<'_>,
        name: &[u8],
        wanted: &Selection,
        names: &mut u64,
    ) -> Result<Option<AttributesBuf>, Refusal> {
        let mut found = AttributesBuf::new();
        let schema = &self.state.schema;
        let key = std::str::from_utf8(name).ok().and_then(|it| DnKey::from_text(schema, it).ok());
        let Some(key) = key else { return Ok(Some(found)) };
        let Resolved::Found(id) = self.view.resolve(&key)? else { return Ok(Some(found)) };
        let Some(entry) = self.view.entry(id)? else { return Ok(Some(found)) };
        let known = schema.well_known();
        // A search would lead elsewhere.
        if self.referrals
            && (referral::is_referral(&entry, known)
                || referral::is_below(self.view, known, entry.parent())?)
        {
            return Ok(Some(found));
        }
        *names += self.listed(guard, &entry, wanted)?;
        if self.is_too_much(*names, 0) {
            return Ok(None);
        }
        let computed = wanted.may_select_operational()
            && computed::descriptions(known).iter().any(|one| wanted.selects(one));
        let live = LiveEntry::new(self.view, &entry, known, computed);
        let live = live.seen_by(guard).selecting(wanted);
        guard.on(&entry).visible(&live, wanted).visit(&mut |description, values| {
            if !values.is_empty() {
                found.push(PartialAttribute { description, values });
            }
        });
        Ok(Some(found))
    }
}

fn too_many() -> Refusal {
    let why = format!(
        "at most {FOLLOWED_MAX} values of an entry are followed, and {} MiB of what they name: \
         follow a part of the values, as 'member;range=0-999' does",
        FOLLOWED_MAX_BYTES >> 20
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// As many names take as long to find as to read an entry that one names.
const FOLLOWED_NAMES: u64 = 8;
/// The number of those in a list is not exact. By so many it is thought to be wrong.
const LISTED_SLACK: u64 = 1_000;
/// The most values of an attribute that are followed, and names in lists of what one names.
pub(super) const FOLLOWED_MAX: usize = 5_000;
/// The most names in lists of an entry that comes with another one, as far as can be told.
pub(super) const LISTED_MAX: u64 = FOLLOWED_MAX as u64 + LISTED_SLACK;
/// The most octets of what they name that come with an entry.
const FOLLOWED_MAX_BYTES: usize = 4 << 20;
