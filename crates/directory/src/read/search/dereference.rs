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
use crate::request::refusal::Refusal;

/// What is to be followed.
pub(crate) struct Dereference(Vec<Specification>);

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
            let attribute = schema.describe(one.attribute).ok()?;
            let own = Selection::resolve([attribute.text()].into_iter(), schema);
            let wanted = Selection::resolve(one.attributes.iter(), schema);
            Some(Specification { attribute, own, wanted })
        };
        Some(Box::new(Self(asked.iter().filter_map(resolve).collect())))
    }

    /// Refuses with `protocolError` to follow values that name no entries.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let other = self.0.iter().find(|one| !one.attribute.kind.names_entries());
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
}

impl Follower<'_> {
    /// The values to follow, of each attribute that is asked for. Refuses more than are followed
    /// for an entry.
    pub(super) fn values(&self, asked: &Dereference) -> Result<Vec<Vec<Vec<u8>>>, Refusal> {
        let known = self.state.schema.well_known();
        let mut all = Vec::new();
        let mut left = FOLLOWED_MAX;
        for Specification { attribute, own, .. } in &asked.0 {
            for (description, list) in self.stored.lists() {
                if attribute.covers(description) && list.count()? > left as u64 {
                    return Err(too_many());
                }
            }
            let live = LiveEntry::new(self.view, self.stored, known, true).seen_by(self.guard);
            let live = live.selecting(own);
            let mut values = Vec::new();
            self.guard.on(self.stored).visible(&live, own).visit(&mut |_, found| {
                values.extend(found.iter().take(left + 1 - values.len()).map(<[u8]>::to_vec));
            });
            left = left.checked_sub(values.len()).ok_or_else(too_many)?;
            all.push(values);
        }
        Ok(all)
    }

    /// The control that tells what they name.
    pub(super) fn control(
        &self,
        asked: &Dereference,
        values: &[Vec<Vec<u8>>],
    ) -> Result<Option<ResponseControl>, Refusal> {
        // They may be anywhere, also where other rules hold than here.
        self.guard.anywhere(|guard| {
            let mut response = DereferenceResponse::default();
            for (one, values) in asked.0.iter().zip(values) {
                for name in values {
                    let found = self.found(guard, name, &one.wanted)?;
                    response.push(one.attribute.text(), name, found.as_ref());
                    if response.len() > FOLLOWED_MAX_BYTES {
                        return Err(too_many());
                    }
                }
            }
            let value = (!response.is_empty()).then(|| Some(response.finish()));
            Ok(value.map(|value| ResponseControl { oid: OID, value }))
        })
    }

    /// What is wanted of the entry that a value names, as far as the asker may read it.
    fn found(
        &self,
        guard: &Guard<'_>,
        name: &[u8],
        wanted: &Selection,
    ) -> Result<AttributesBuf, Refusal> {
        let mut found = AttributesBuf::new();
        let schema = &self.state.schema;
        let key = std::str::from_utf8(name).ok().and_then(|it| DnKey::from_text(schema, it).ok());
        let Some(key) = key else { return Ok(found) };
        let Resolved::Found(id) = self.view.resolve(&key)? else { return Ok(found) };
        let Some(entry) = self.view.entry(id)? else { return Ok(found) };
        let known = schema.well_known();
        let computed = wanted.may_select_operational()
            && computed::descriptions(known).iter().any(|one| wanted.selects(one));
        let live = LiveEntry::new(self.view, &entry, known, computed);
        let live = live.seen_by(guard).selecting(wanted);
        guard.on(&entry).visible(&live, wanted).visit(&mut |description, values| {
            if !values.is_empty() {
                found.push(PartialAttribute { description, values });
            }
        });
        Ok(found)
    }
}

fn too_many() -> Refusal {
    let why = format!(
        "at most {FOLLOWED_MAX} values of an entry are followed, and {} MiB of what they name: ask \
         for a part of the values, as 'member;range=0-999' does, and for those entries",
        FOLLOWED_MAX_BYTES >> 20
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// The most values of an entry that are followed.
const FOLLOWED_MAX: usize = 5_000;
/// The most octets of what they name that come with an entry.
const FOLLOWED_MAX_BYTES: usize = 4 << 20;
