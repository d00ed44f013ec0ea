//! Who is in a group, to search for them: what a plan asks of `isMemberOf`, `memberOf` and
//! `isDirectMemberOf`, which no index has.
//!
//! Invariant: all that are in the group are told; if there may be more, that is told, too.
//! Invariant: of a group that the reader may not see nobody is told.

use std::cell::{Cell, OnceCell};

use ldap::message::Scope;
use rustc_hash::FxHashSet;
use schema::{Assertion, AttributeDescription, DnKey, EntryId, EntryRead as _, ResolvedFilter};
use store::{Ask, CandidateIds, Computed, ComputedCandidates, Resolved, StoreError, StoredEntry};

use super::described::Described;
use super::kind::{is_group, is_posix};
use super::lookup::{GROUP_DEPTH_MAX, Groups};
use crate::access::guard::Guard;

/// Members of one assertion, at the most.
const MEMBERS_MAX: u64 = 4_000_000;
/// Of so many members it is asked one by one whether they are groups.
const FEW_MEMBERS: usize = 256;
/// The number of those in a list is not exact: what came and went since the last flush may be
/// counted. By so many it is thought to be wrong.
const LISTED_SLACK: u64 = 1_000;
/// So many members are read from a reference list at once.
const LISTED_AT_ONCE: usize = 65_536;
/// After so many members it is asked whether to go on.
const INTERRUPT_EVERY: usize = 256;

/// The members of groups, for one reader.
pub(crate) struct Members<'a> {
    groups: &'a Groups<'a>,
    reader: &'a Guard<'a>,
    interrupt: &'a dyn Fn() -> bool,
    /// All groups there are.
    all: OnceCell<CandidateIds>,
    /// Why the members of a group cannot be told.
    refusal: Cell<Option<&'static str>>,
}

/// What was found of one group.
struct Found {
    ids: Vec<EntryId>,
    at_most: u64,
    /// Some are left out: they are too many, or nobody knows them.
    is_cut: bool,
    /// All of them are members.
    exact: bool,
}

impl<'a> Members<'a> {
    pub(crate) fn new(
        groups: &'a Groups<'a>,
        reader: &'a Guard<'a>,
        interrupt: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { groups, reader, interrupt, all: OnceCell::new(), refusal: Cell::new(None) }
    }

    /// Why planning was interrupted, if it was because of a group.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        self.refusal.get()
    }

    fn find(&self, group: EntryId, is_direct: bool, found: &mut Found) -> Result<(), StoreError> {
        let known = self.groups.schema.well_known();
        let mut expanded = FxHashSet::from_iter([group]);
        let mut level = vec![group];
        // The groups that are so deep are not told either.
        for _ in 0..GROUP_DEPTH_MAX {
            let mut next = Vec::new();
            for id in level {
                if (self.interrupt)() {
                    return Err(StoreError::Interrupted);
                }
                let Some(entry) = self.groups.view.entry(id)? else { continue };
                let before = found.ids.len();
                for attribute in [&known.member, &known.unique_member] {
                    self.add_named(&entry, attribute, found)?;
                }
                let named = found.ids.len();
                self.add_users(&entry, found)?;
                if is_direct || found.is_cut {
                    return Ok(());
                }
                self.groups_among(found.ids.get(before..named).unwrap_or_default(), &mut next)?;
                next.extend(self.groups.shown_by(id)?.map(|group| group.id));
                self.add_described(&entry, found)?;
                if found.is_cut {
                    return Ok(());
                }
            }
            next.retain(|id| expanded.insert(*id));
            if next.is_empty() {
                break;
            }
            level = next;
        }
        Ok(())
    }

    /// The entries that the values of an attribute name.
    fn add_named(
        &self,
        entry: &StoredEntry<'_>,
        attribute: &AttributeDescription,
        found: &mut Found,
    ) -> Result<(), StoreError> {
        let groups = self.groups;
        let of_record = entry.record_attributes().filter(|(one, _)| attribute.covers(one));
        for (count, value) in of_record.flat_map(|(_, values)| values).enumerate() {
            if count.is_multiple_of(INTERRUPT_EVERY) && (self.interrupt)() {
                return Err(StoreError::Interrupted);
            }
            let text = std::str::from_utf8(value).unwrap_or_default();
            let Ok(key) = DnKey::from_text(groups.schema, text) else { continue };
            match groups.view.resolve(&key)? {
                Resolved::Found(id) => found.push(id),
                Resolved::Missing { .. } | Resolved::NoContext => {}
            }
            if found.is_cut {
                return Ok(());
            }
        }
        for (_, list) in entry.lists().filter(|(one, _)| attribute.covers(one)) {
            if list.count()? > found.at_most.saturating_add(LISTED_SLACK) {
                found.is_cut = true;
                return Ok(());
            }
            let mut last = EntryId::ROOT;
            loop {
                if (self.interrupt)() {
                    return Err(StoreError::Interrupted);
                }
                let ids = list.after(last, LISTED_AT_ONCE)?;
                ids.iter().for_each(|id| found.push(*id));
                match ids.last() {
                    Some(id) if !found.is_cut => last = *id,
                    Some(_) | None => break,
                }
            }
        }
        Ok(())
    }

    /// The accounts that a group names by their user names, where these count; and others that have
    /// one, too.
    fn add_users(&self, entry: &StoredEntry<'_>, found: &mut Found) -> Result<(), StoreError> {
        let Some(names) = self.groups.user_names() else { return Ok(()) };
        let (schema, view) = (self.groups.schema, self.groups.view);
        for (_, values) in
            entry.apart_values()?.iter().filter(|(one, _)| names.member_uid.covers(one))
        {
            if values.count() > found.at_most.saturating_add(LISTED_SLACK) {
                found.is_cut = true;
                return Ok(());
            }
        }
        let mut user_names: Vec<Vec<u8>> = Vec::new();
        entry.visit_values(&names.member_uid, &mut |_, value| {
            user_names.push(value.to_vec());
            true
        });
        for user_name in user_names {
            if (self.interrupt)() {
                return Err(StoreError::Interrupted);
            }
            found.exact = false;
            let uid = Assertion::equality(schema, schema.well_known().uid.clone(), &user_name);
            let Ok(filter) = uid.map(ResolvedFilter::Equality) else { continue };
            let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
            if !plan.indexed {
                found.is_cut = true;
            }
            for id in plan.candidates_until(view, EntryId::ROOT, self.interrupt) {
                if found.is_cut {
                    return Ok(());
                }
                found.push(id?);
            }
        }
        Ok(())
    }

    /// The entries that a group describes, as far as indexes know.
    fn add_described(&self, entry: &StoredEntry<'_>, found: &mut Found) -> Result<(), StoreError> {
        let view = self.groups.view;
        for place in Described::of(entry, self.groups.schema).places() {
            let Resolved::Found(base) = view.resolve(&place.base)? else { continue };
            let all = ResolvedFilter::Present(self.groups.schema.well_known().object_class.clone());
            let filter = place.filter.as_ref().unwrap_or(&all);
            let interrupt = self.interrupt;
            let plan = view.plan(&Ask { interrupt, ..Ask::new(filter, base, place.scope) })?;
            // Secrets do not count for groups, and a plan may hold too many.
            found.exact = false;
            if plan.estimate > found.at_most || !(plan.indexed || plan.exact) {
                found.is_cut = true;
                return Ok(());
            }
            for id in plan.candidates_until(view, EntryId::ROOT, interrupt) {
                found.push(id?);
                if found.is_cut {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Which of these entries are groups.
    fn groups_among(&self, ids: &[EntryId], next: &mut Vec<EntryId>) -> Result<(), StoreError> {
        if ids.len() <= FEW_MEMBERS {
            for id in ids {
                next.extend(self.groups.known(*id)?.map(|group| group.id));
            }
            return Ok(());
        }
        let all = match self.all.get() {
            Some(all) => all,
            None => {
                let found = self.find_groups()?;
                self.all.get_or_init(|| found)
            }
        };
        for id in ids.iter().filter(|id| all.contains(**id)) {
            next.extend(self.groups.known(*id)?.map(|group| group.id));
        }
        Ok(())
    }

    /// All entries that may be groups, by their classes.
    fn find_groups(&self) -> Result<CandidateIds, StoreError> {
        let Groups { view, schema, .. } = *self.groups;
        let classes =
            schema.object_classes().filter(|class| class.is_of_groups(schema) || is_posix(class));
        let parts = classes.filter_map(|class| {
            let description = schema.well_known().object_class.clone();
            Assertion::equality(schema, description, class.name().as_bytes()).ok()
        });
        let filter = ResolvedFilter::Or(parts.map(ResolvedFilter::Equality).collect());
        let interrupt = self.interrupt;
        let plan =
            view.plan(&Ask { interrupt, ..Ask::new(&filter, EntryId::ROOT, Scope::Subtree) })?;
        plan.ids(view, interrupt)
    }
}

impl Computed for Members<'_> {
    fn computes(&self, asked: &AttributeDescription) -> bool {
        let known = self.groups.schema.well_known();
        let of_groups: [&AttributeDescription; 3] =
            [&known.is_member_of, &known.member_of, &known.is_direct_member_of];
        asked.is_operational() && of_groups.contains(&asked)
    }

    fn candidates(
        &self,
        assertion: &Assertion,
        at_most: u64,
    ) -> Result<Option<ComputedCandidates>, StoreError> {
        let asked = &assertion.description;
        if !self.computes(asked) {
            return Ok(None);
        }
        let is_direct = self.groups.is_direct(asked);
        let key = DnKey::from_bytes(assertion.key.clone());
        let group = self.groups.entry(&key)?;
        let is_seen = |entry: &StoredEntry<'_>| {
            self.reader.is_bypassed() || self.reader.anywhere(|guard| guard.on(entry).may_see())
        };
        let is_one =
            |entry: &StoredEntry<'_>| is_group(entry, self.groups.schema) && is_seen(entry);
        let Some(group) = group.filter(is_one) else {
            return Ok(Some(ComputedCandidates { ids: Vec::new(), exact: true }));
        };
        let is_limited = at_most < MEMBERS_MAX;
        let at_most = at_most.min(MEMBERS_MAX);
        let mut found = Found { ids: Vec::new(), at_most, is_cut: false, exact: true };
        self.find(group.id(), is_direct, &mut found)?;
        if found.is_cut && !is_limited {
            self.refusal.set(Some(TOO_MANY));
            return Err(StoreError::Interrupted);
        }
        let Found { ids, is_cut, exact, .. } = found;
        Ok((!is_cut).then_some(ComputedCandidates { ids, exact }))
    }
}

impl Found {
    fn push(&mut self, id: EntryId) {
        match (self.ids.len() as u64) < self.at_most {
            true => self.ids.push(id),
            false => self.is_cut = true,
        }
    }
}

const TOO_MANY: &str = "the members of a group that the filter asks for are too many, or described \
                        by what no index answers: combine it with a term that an index answers";
