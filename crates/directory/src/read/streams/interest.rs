//! Which changes may concern a search that waits for them: others are passed over, and it goes on
//! waiting.
//!
//! Invariant: a change is passed over only where its reader would hear nothing of it, whatever the
//! rules say: they hide values, which makes terms of a filter Undefined, or False where a subtype
//! is hidden. That makes no filter true that negates nothing; one that does is not asked for
//! readers whom rules concern. Where it takes more than a glance to say so, the change concerns it.

use std::cell::OnceCell;
use std::sync::Arc;

use ldap::message::Scope;
use schema::{
    Attribute, AttributeDelta, AttributeDescription, Change, DeleteChange, DnKey, Entry, EntryRead,
    Meter, ResolvedFilter, Schema, Truth, WellKnown,
};
use store::{Lsn, StoredEntry, View};

use super::records::Told;
use crate::request::referral;
use crate::sinks::progress::is_position;

/// What a search that waits would hear of, as far as that can be said without its reader's rights.
#[derive(Debug)]
pub(crate) struct Interest {
    /// All of it as a text: those who ask alike share what is found out.
    pub(crate) text: Arc<str>,
    /// The schema by which it was resolved.
    pub(crate) generation: u64,
    pub(crate) base: DnKey,
    pub(crate) scope: Scope,
    /// None: whatever the filter says.
    pub(crate) filter: Option<ResolvedFilter>,
    /// Aliases lead it elsewhere, where there are any.
    pub(crate) follows_aliases: bool,
    /// It hears of what leaves, too.
    pub(crate) is_sync: bool,
    /// Rules concern its reader: the filter negates nothing.
    pub(crate) is_ruled: bool,
}

/// A place in the history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) lsn: Lsn,
    /// The running hash there.
    pub(crate) hash: u64,
}

/// What the changes behind a place are to somebody who waits there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// Nothing, up to this place.
    Passed(Place),
    /// The first that concerns it is behind this place.
    Concerned(Place),
    /// Nobody has looked.
    Unknown,
}

/// What changes are looked at with.
pub(crate) struct Ground<'v> {
    pub(crate) view: &'v View<'v>,
    pub(crate) schema: &'v Schema,
    /// Whether there are aliases.
    pub(crate) has_aliases: bool,
    /// Whether asking for an attribute may get one that is not stored.
    pub(crate) may_give: &'v dyn Fn(&AttributeDescription) -> bool,
}

/// A change, and what was found out about it for all who wait.
struct Looked<'v> {
    change: &'v Change,
    /// The name that its entry had.
    then: Option<DnKey>,
    /// Rules come or go with it.
    has_rules: bool,
    now: OnceCell<Now<'v>>,
    deleted: OnceCell<Option<Entry>>,
}

/// What has become of an entry.
enum Now<'v> {
    Here(Box<StoredEntry<'v>>, Option<DnKey>),
    Gone,
    Unknown,
}

/// Looks at records for those who wait behind a place each, in the order in which they are given.
pub(crate) fn look<'v>(
    ground: &Ground<'v>,
    told: &'v [Arc<Told>],
    asked: &[(Arc<Interest>, Place)],
) -> Vec<Found> {
    let changes = |told: &'v Told| {
        let all = told.record.changes.iter().map(|change| Looked::new(change, ground));
        all.collect::<Vec<_>>()
    };
    let looked: Vec<OnceCell<Vec<Looked<'v>>>> = told.iter().map(|_| OnceCell::new()).collect();
    let mut left = LOOKS_MAX;
    let each = asked.iter().map(|(interest, from)| {
        let mut place = *from;
        for (told, looked) in told.iter().zip(&looked) {
            if told.record.lsn <= place.lsn {
                continue;
            }
            // What does not follow is not for this history to say.
            if told.record.prev_hash != place.hash || told.record.lsn.0 != place.lsn.0 + 1 {
                return Found::Unknown;
            }
            let looked = looked.get_or_init(|| changes(told));
            if left < looked.len() {
                return Found::Unknown;
            }
            left -= looked.len();
            if looked.iter().any(|change| interest.is_concerned(change, ground)) {
                return Found::Concerned(place);
            }
            place = Place { lsn: told.record.lsn, hash: told.hash };
        }
        Found::Passed(place)
    });
    each.collect()
}

impl Interest {
    fn is_concerned<'v>(&self, change: &Looked<'v>, ground: &Ground<'v>) -> bool {
        if self.generation != ground.schema.generation()
            || (self.follows_aliases && ground.has_aliases)
        {
            return true;
        }
        match change.change {
            // What is stored of sinks changes nothing that is read.
            setting if is_position(setting) => false,
            Change::Schema(_) | Change::Setting(_) => true,
            Change::Index(_) | Change::Level(_) | Change::Gather(_) => false,
            Change::Add(_) | Change::Modify(_) | Change::Rename(_) | Change::Delete(_) => {
                change.has_rules || self.is_touched(change, ground)
            }
        }
    }

    /// A change of an entry.
    fn is_touched<'v>(&self, change: &Looked<'v>, ground: &Ground<'v>) -> bool {
        let Some(then) = &change.then else { return true };
        // The base may be there no more, or be hidden.
        if self.base.is_within(then) {
            return true;
        }
        match change.change {
            Change::Add(_) => self.holds(then) && self.may_be_found(change, ground),
            Change::Modify(modify) => self.is_modified(&modify.deltas, then, change, ground),
            Change::Rename(rename) => match DnKey::from_dn(ground.schema, &rename.new_dn) {
                Ok(new) => {
                    let concerns = |one: &DnKey| one.is_within(&self.base);
                    concerns(then) || concerns(&new) || self.base.is_within(&new)
                }
                Err(_) => true,
            },
            Change::Delete(delete) => {
                self.holds(then) && (self.is_sync || self.was_found(delete, change, ground))
            }
            Change::Schema(_)
            | Change::Setting(_)
            | Change::Index(_)
            | Change::Level(_)
            | Change::Gather(_) => true,
        }
    }

    fn is_modified<'v>(
        &self,
        deltas: &[AttributeDelta],
        then: &DnKey,
        change: &Looked<'v>,
        ground: &Ground<'v>,
    ) -> bool {
        // What is below it is hidden, or is so no more.
        if self.is_sync && changes_referral(deltas, ground.schema.well_known()) {
            return true;
        }
        match change.now(ground) {
            Now::Unknown => true,
            Now::Gone => self.is_sync && self.holds(then),
            Now::Here(stored, now) => {
                let is_there = self.holds(then) || now.as_ref().is_none_or(|now| self.holds(now));
                is_there
                    && (self.is_true_of(stored, ground) || (self.is_sync && self.asks_for(deltas)))
            }
        }
    }

    /// Whether an entry that was added is to be found by now.
    fn may_be_found<'v>(&self, change: &Looked<'v>, ground: &Ground<'v>) -> bool {
        match change.now(ground) {
            Now::Unknown => true,
            Now::Gone => false,
            Now::Here(stored, _) => self.is_true_of(stored, ground),
        }
    }

    /// Whether one that was deleted was to be found.
    fn was_found<'v>(
        &self,
        delete: &DeleteChange,
        change: &Looked<'v>,
        ground: &Ground<'v>,
    ) -> bool {
        let before = change.deleted.get_or_init(|| {
            let mut entry = Entry::new(delete.dn.clone());
            for one in &delete.attributes {
                entry.replace_values(ground.schema, &one.description, one.values.clone()).ok()?;
            }
            Some(entry)
        });
        before.as_ref().is_none_or(|before| self.says_true(before, ground))
    }

    fn holds(&self, name: &DnKey) -> bool {
        is_in_scope(self.scope, name, &self.base)
    }

    fn is_true_of(&self, stored: &StoredEntry<'_>, ground: &Ground<'_>) -> bool {
        self.says_true(stored, ground) || (stored.has_lists() && stored.complete().is_err())
    }

    fn says_true(&self, entry: &dyn EntryRead, ground: &Ground<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut is_given = false;
        filter.visit_descriptions(&mut |one| is_given |= (ground.may_give)(one));
        if is_given {
            return true;
        }
        let mut more = || 0;
        let mut meter = Meter::new(GLANCE_STEPS, &mut more);
        let truth = filter.matches_within(ground.schema, entry, &mut meter);
        meter.is_over() || truth == Truth::True
    }

    /// Whether any of these attributes is in the filter.
    fn asks_for(&self, deltas: &[AttributeDelta]) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut is_any = false;
        filter.visit_descriptions(&mut |asked| {
            is_any |= deltas.iter().any(|delta| asked.covers(&delta.description));
        });
        is_any
    }
}

impl<'v> Looked<'v> {
    fn new(change: &'v Change, ground: &Ground<'_>) -> Self {
        let schema = ground.schema;
        let aci = schema.describe("aci").ok();
        let is_aci = |one: &AttributeDescription| aci.as_ref().is_some_and(|aci| aci.covers(one));
        let of_values = |all: &[Attribute]| all.iter().any(|one| is_aci(&one.description));
        let of_deltas = |all: &[AttributeDelta]| all.iter().any(|one| is_aci(&one.description));
        let (name, has_rules) = match change {
            Change::Add(add) => (Some(add.entry.name()), of_values(add.entry.attributes())),
            Change::Modify(modify) => (Some(&modify.dn), of_deltas(&modify.deltas)),
            Change::Rename(rename) => (Some(&rename.old_dn), of_deltas(&rename.deltas)),
            Change::Delete(delete) => (Some(&delete.dn), of_values(&delete.attributes)),
            Change::Schema(_)
            | Change::Setting(_)
            | Change::Index(_)
            | Change::Level(_)
            | Change::Gather(_) => (None, false),
        };
        let then = name.and_then(|name| DnKey::from_dn(schema, name).ok());
        Self { change, then, has_rules, now: OnceCell::new(), deleted: OnceCell::new() }
    }

    fn now(&self, ground: &Ground<'v>) -> &Now<'v> {
        let id = match self.change {
            Change::Add(add) => Some(add.id),
            Change::Modify(modify) => Some(modify.id),
            Change::Rename(_)
            | Change::Delete(_)
            | Change::Schema(_)
            | Change::Setting(_)
            | Change::Index(_)
            | Change::Level(_)
            | Change::Gather(_) => None,
        };
        self.now.get_or_init(|| match id.map(|id| ground.view.entry(id)) {
            Some(Ok(Some(stored))) => {
                let name = DnKey::from_text(ground.schema, stored.dn()).ok();
                Now::Here(Box::new(stored), name)
            }
            Some(Ok(None)) => Now::Gone,
            Some(Err(_)) | None => Now::Unknown,
        })
    }
}

/// Whether an entry with this key is in this scope of a base.
pub(crate) fn is_in_scope(scope: Scope, key: &DnKey, base: &DnKey) -> bool {
    match scope {
        Scope::Base => key == base,
        Scope::One => key.parent().as_ref() == Some(base),
        Scope::Subtree => key.is_within(base),
        Scope::Subordinate => key != base && key.is_within(base),
    }
}

/// Whether an entry became a referral object, or is one no more: that hides what is below.
pub(crate) fn changes_referral(deltas: &[AttributeDelta], known: &WellKnown) -> bool {
    let classes = deltas.iter().filter(|delta| known.object_class.covers(&delta.description));
    let mut values = classes.flat_map(|delta| delta.removed.iter().chain(&delta.added));
    values.any(|value| referral::is_class(value))
}

/// So many changes are looked at in one round, counted for each who waits; the others look
/// themselves.
const LOOKS_MAX: usize = 20_000;
/// Steps that a filter may take with an entry.
const GLANCE_STEPS: u64 = 4_000;
