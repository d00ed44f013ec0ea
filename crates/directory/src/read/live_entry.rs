//! A stored entry together with the attributes that are computed when it is read.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use aci::Privilege;
use ldap::message::{Values, ValuesBuf};
use rustc_hash::FxHashSet;
use schema::{AttributeDescription, EntryRead, Schema, Selection, ValueKey, WellKnown};
use store::{StoreError, StoredEntry, View};

use crate::access::guard::Guard;
use crate::enforcement::placement;
use crate::groups::lookup::{Group, Groups, InGroups};
use crate::read::computed;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::controls::request::RequestControls;
use crate::virtual_attributes::giver::{Given, Giver, key_of};
use crate::virtual_attributes::set::VirtualAttributes;

/// A stored entry as filters and clients see it: with `entryDN` (RFC 5020), `subschemaSubentry`
/// (RFC 4512 §4.2), `governingStructureRule` (RFC 4512 §3.4.6), `hasSubordinates`,
/// `numSubordinates` and `etag`, and with the groups and roles that it is in: `isMemberOf` and
/// `memberOf`, `isDirectMemberOf`, `nsRole`. Values of those that were stored once are not seen. To
/// whoever reads it, it has virtual attributes, too.
pub struct LiveEntry<'v> {
    view: &'v View<'v>,
    stored: &'v StoredEntry<'v>,
    known: &'v WellKnown,
    /// Whether a reader of all attributes is to see the computed ones; they cost look-ups.
    computed: bool,
    /// Of groups and roles those that are selected.
    selection: Option<&'v Selection>,
    /// Groups that are known to all entries that one request reads, or to this one.
    groups: Option<&'v Groups<'v>>,
    own_groups: OnceCell<Box<Groups<'v>>>,
    looks_before: u64,
    /// The groups it is in, and its roles; none where that cannot be told.
    in_groups: OnceCell<Option<InGroups>>,
    roles: OnceCell<Option<Vec<Arc<Group>>>>,
    /// Who reads it, when that is not the server itself.
    reader: Option<&'v Guard<'v>>,
    /// What entries have without storing it, where that is anything, and what finds it.
    given: Option<&'v VirtualAttributes>,
    giver: OnceCell<Box<Giver<'v>>>,
    shown: Shown,
    /// What was computed of subordinates: whether there are any, and how many. A filter may ask for
    /// it in each of its terms.
    counted: [OnceCell<Option<u64>>; 2],
    /// Subordinates and superiors that were read for it.
    relatives_read: Cell<u64>,
}

impl<'v> LiveEntry<'v> {
    /// `stored` as it is read from `view`. With `computed`, a reader of all attributes sees those
    /// that are computed, too.
    pub fn new(
        view: &'v View<'v>,
        stored: &'v StoredEntry<'v>,
        known: &'v WellKnown,
        computed: bool,
    ) -> Self {
        Self {
            view,
            stored,
            known,
            computed,
            selection: None,
            groups: None,
            own_groups: OnceCell::new(),
            looks_before: 0,
            in_groups: OnceCell::new(),
            roles: OnceCell::new(),
            reader: None,
            given: None,
            giver: OnceCell::new(),
            shown: Shown::All,
            counted: Default::default(),
            relatives_read: Cell::new(0),
        }
    }

    /// The entry for a reader of what is selected: groups and roles are looked up only then.
    #[must_use]
    pub(crate) fn selecting(self, selection: &'v Selection) -> Self {
        Self { selection: Some(selection), ..self }
    }

    /// The entry among others, which are likely to be in the same groups.
    #[must_use]
    pub(crate) fn among(self, groups: &'v Groups<'v>) -> Self {
        Self { groups: Some(groups), looks_before: groups.looks(), ..self }
    }

    /// The entry as this reader sees it: subordinates that may not be seen are not counted.
    #[must_use]
    pub(crate) fn seen_by(self, reader: &'v Guard<'v>) -> Self {
        Self { reader: Some(reader), given: reader.given(), ..self }
    }

    /// The entry as it is sent to whoever asks for some of its attributes only.
    #[must_use]
    pub(crate) fn showing(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// Entries that were read to compute what it was asked for: subordinates, and those that may be
    /// groups.
    pub(crate) fn others_read(&self) -> u64 {
        let own = || self.own_groups.get().map_or(0, |groups| groups.looks());
        let looks = self.groups.map_or_else(own, Groups::looks);
        let given = self.giver.get().map_or(0, |giver| giver.reads());
        self.relatives_read.get() + given + looks.saturating_sub(self.looks_before)
    }

    /// Whether a reader is to see one of those of groups and roles: by `+` the two that all others
    /// follow from.
    fn is_selected(&self, description: &AttributeDescription) -> bool {
        let by_plus: [&AttributeDescription; 2] = [&self.known.is_member_of, &self.known.ns_role];
        self.selection.is_some_and(|selection| match by_plus.contains(&description) {
            true => selection.selects(description),
            false => selection.names_attribute(description),
        })
    }

    fn groups(&self) -> &Groups<'v> {
        self.groups.unwrap_or_else(|| {
            let own = || Box::new(Groups::new(self.view, self.view.schema()));
            self.own_groups.get_or_init(own)
        })
    }

    /// The names of the groups or roles that one of these attributes tells of, as far as the reader
    /// may see them; whether that can be told.
    fn visit_groups(
        &self,
        description: &AttributeDescription,
        visit: &mut dyn FnMut(&str) -> bool,
    ) -> bool {
        let known = self.known;
        let groups: Option<&[Arc<Group>]> = if *description == *known.ns_role {
            self.roles.get_or_init(|| told(self.find_roles())).as_deref()
        } else {
            let find = || told(self.groups().of(self.stored).map(Some));
            let found = self.in_groups.get_or_init(find).as_ref();
            let (is_direct, all) =
                (self.groups().is_direct(description), found.map(InGroups::told));
            found.and_then(|found| if is_direct { found.told_direct() } else { all.flatten() })
        };
        let Some(groups) = groups else { return false };
        let seen = groups.iter().filter(|group| self.may_see(group));
        seen.map(|group| visit(&group.name)).find(|goes_on| !goes_on);
        true
    }

    fn find_roles(&self) -> Result<Option<Vec<Arc<Group>>>, StoreError> {
        let found = self.groups().roles_of(self.stored)?;
        Ok((!found.is_cut).then_some(found.roles))
    }

    /// Whether the reader may see a group, or the definition of a role.
    fn may_see(&self, group: &Group) -> bool {
        // It may be anywhere, also where other rules hold than here.
        let Some(reader) = self.reader.filter(|reader| !reader.is_bypassed()) else { return true };
        self.groups().is_seen(group, &|| reader.anywhere(|guard| guard.sees_all()), &|| {
            let entry = self.view.entry(group.id).ok().flatten();
            entry.is_some_and(|entry| reader.anywhere(|guard| guard.on(&entry).may_see()))
        })
    }

    /// What finds its virtual attributes, where there are any.
    fn giver(&self) -> Option<&Giver<'v>> {
        let all = self.given?;
        let make = || Box::new(Giver::new(all, self.view, self.stored, self.reader));
        Some(self.giver.get_or_init(make))
    }

    /// The virtual attributes that are wanted.
    fn given(&self, wants: &dyn Fn(&AttributeDescription) -> bool) -> Vec<Rc<Given>> {
        let Some(giver) = self.giver() else { return Vec::new() };
        giver.of(wants, &|| {
            let roles = self.roles.get_or_init(|| told(self.find_roles()));
            roles.iter().flatten().map(|role| role.name.clone()).collect()
        })
    }

    /// Calls `visit` with the names of the subentries whose attributes it shares; whether to go on.
    fn visit_subentries(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let description = &self.known.collective_attribute_subentries;
        let giver = self.giver().filter(|_| asked.covers(description));
        let names = giver.map_or_else(Vec::new, |giver| giver.subentries());
        names.iter().all(|name| visit(description, name.as_bytes()))
    }

    fn compute(&self, description: &AttributeDescription) -> Option<String> {
        let known = self.known;
        if *description == *known.entry_dn {
            Some(self.stored.dn().to_owned())
        } else if *description == *known.subschema_subentry {
            Some(SUBSCHEMA_DN.to_owned())
        } else if *description == *known.etag {
            Some(computed::etag(self.stored, known))
        } else if *description == *known.context_csn {
            // It tells of changes that its reader may not see, failed binds of others included.
            let may_know = self.reader.is_none_or(|reader| {
                reader.is_bypassed() || reader.access().has(Privilege::ChangelogRead)
            });
            may_know.then(|| computed::context_csn(self.view, self.stored)).flatten()
        } else if *description == *known.governing_structure_rule {
            let found = placement::governing(self.view, self.stored).ok()?;
            self.relatives_read.set(self.relatives_read.get() + found.read);
            found.rule.map(|rule| rule.to_string())
        } else {
            // A store that cannot count answers as if there were no such attribute.
            let asks_how_many = *description == *known.num_subordinates;
            let [any, all] = &self.counted;
            let (known, enough) = if asks_how_many { (all, u64::MAX) } else { (any, 1) };
            let count =
                (*known.get_or_init(|| match self.reader.filter(|reader| !reader.sees_all()) {
                    None => self.view.child_count(self.stored.id()).ok(),
                    Some(reader) => self.seen(reader, enough),
                }))?;
            if !asks_how_many {
                Some(if count > 0 { "TRUE" } else { "FALSE" }.to_owned())
            } else {
                Some(count.to_string())
            }
        }
    }

    /// How many subordinates the reader may see, up to `enough`; none when there are too many to
    /// look at each.
    fn seen(&self, reader: &Guard<'_>, enough: u64) -> Option<u64> {
        let mut count = 0;
        for (number, child) in self.view.children(self.stored.id()).ok()?.enumerate() {
            if number >= SUBORDINATES_LOOKED_AT_MAX {
                return None;
            }
            self.relatives_read.set(self.relatives_read.get() + 1);
            let child = self.view.entry(child.ok()?).ok()??;
            count += u64::from(reader.on(&child).may_see());
            if count >= enough {
                break;
            }
        }
        Some(count)
    }
}

impl EntryRead for LiveEntry<'_> {
    fn dn(&self) -> &str {
        self.stored.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.stored.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        if asked.is_operational() {
            for description in computed::of_entry(self.known) {
                if asked.covers(description)
                    && let Some(value) = self.compute(description)
                    && !visit(description, value.as_bytes())
                {
                    return true;
                }
            }
            for description in computed::of_groups(self.known) {
                if asked.covers(description) && description.is_operational() {
                    // No attribute covers two of them, or one of them and others.
                    let visit = &mut |name: &str| visit(description, name.as_bytes());
                    return self.visit_groups(description, visit);
                }
            }
        }
        let Some(giver) = self.giver() else {
            return self.stored.visit_matching(asked, only, visit);
        };
        if asked.is_operational() && giver.has_subentries() && !self.visit_subentries(asked, visit)
        {
            return true;
        }
        if !giver.may_give(asked) {
            return self.stored.visit_matching(asked, only, visit);
        }
        let given = self.given(&|one| asked.covers(one));
        let mut goes_on = true;
        let told = self.stored.visit_matching(asked, only, &mut |description, value| {
            let is_hidden = given.iter().any(|one| one.hides && *one.description == *description);
            goes_on = is_hidden || visit(description, value);
            goes_on
        });
        let all = given.iter().flat_map(|one| one.values.iter().map(move |value| (one, value)));
        for (one, value) in all {
            goes_on = goes_on && visit(&one.description, value);
        }
        told
    }

    fn values_from(
        &self,
        description: &AttributeDescription,
        first: u64,
        most: u64,
        out: &mut ValuesBuf,
    ) -> bool {
        // Those that are computed are not in parts.
        if description.is_operational() {
            return false;
        }
        match self.given {
            Some(all) if all.may_give(description) => {
                let end = first.saturating_add(most);
                let (mut number, mut has_more) = (0, false);
                self.visit_values(description, &mut |found, value| {
                    if found != description {
                        return true;
                    }
                    has_more = number >= end;
                    if (first..end).contains(&number) {
                        out.push(value);
                    }
                    number += 1;
                    !has_more
                });
                has_more
            }
            Some(_) | None => self.stored.values_from(description, first, most, out),
        }
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        if self.given.is_some() || self.shown != Shown::All {
            return self.visit_shown(wants, visit);
        }
        self.visit_computed(wants, visit);
    }
}

impl LiveEntry<'_> {
    /// What is wanted, with virtual attributes, as far as it is to be shown.
    fn visit_shown(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        let known = self.known;
        let given = match self.shown {
            Shown::All | Shown::Virtual => self.given(wants),
            Shown::Real => Vec::new(),
        };
        let of = |description: &AttributeDescription| {
            given.iter().position(|one| *one.description == *description)
        };
        let mut seen = vec![false; given.len()];
        let is_virtual = |description: &AttributeDescription| {
            let computed = computed::descriptions(known);
            description.is_operational() && computed.contains(&description)
        };
        self.visit_computed(wants, &mut |description, values| match self.shown {
            // Whoever names one wants it.
            Shown::Real if is_virtual(description) && !self.names(description) => {}
            Shown::Virtual if !is_virtual(description) => {}
            Shown::Real | Shown::Virtual => visit(description, values),
            Shown::All => match (of(description), values) {
                (Some(at), Some(stored)) => {
                    let Some(one) = given.get(at) else { return };
                    if let Some(seen) = seen.get_mut(at) {
                        *seen = true;
                    }
                    let stored = (!one.hides).then_some(stored);
                    let values = together(one, stored, self.view.schema());
                    if !values.as_ref().is_empty() {
                        visit(description, Some(values.as_ref()));
                    }
                }
                (_, values) => visit(description, values),
            },
        });
        let others =
            given.iter().zip(&seen).filter(|(one, seen)| !**seen && !one.values.is_empty());
        let is_sent = |one: &Given| !one.named_only || self.names(&one.description);
        for (one, _) in others.filter(|(one, _)| is_sent(one)) {
            visit(&one.description, Some(together(one, None, self.view.schema()).as_ref()));
        }
        let subentries = &known.collective_attribute_subentries;
        if self.shown != Shown::Real && self.selection.is_some_and(|all| all.selects(subentries)) {
            let mut values = ValuesBuf::new();
            self.visit_subentries(subentries, &mut |_, name| {
                values.push(name);
                true
            });
            if !values.as_ref().is_empty() {
                visit(subentries, Some(values.as_ref()));
            }
        }
    }

    fn names(&self, description: &AttributeDescription) -> bool {
        self.selection.is_some_and(|selection| selection.names_attribute(description))
    }

    /// What is wanted of what is stored and computed.
    fn visit_computed(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        if !self.computed && self.selection.is_some() {
            // None of those that are computed is selected.
            return self.stored.visit_wanted(wants, visit);
        }
        let of_groups = computed::of_groups(self.known);
        self.stored.visit_wanted(wants, &mut |description, values| {
            let is_computed = description.is_operational()
                && of_groups.iter().any(|one| one.kind == description.kind);
            if !is_computed {
                visit(description, values);
            }
        });
        if !self.computed {
            return;
        }
        for description in computed::of_entry(self.known) {
            // They cost look-ups and a hash: nobody else pays for them.
            if wants(description)
                && let Some(value) = self.compute(description)
            {
                let mut values = ValuesBuf::new();
                values.push(value.as_bytes());
                visit(description, Some(values.as_ref()));
            }
        }
        let is_wanted = |one: &&AttributeDescription| one.is_operational() && self.is_selected(one);
        for description in of_groups.into_iter().filter(is_wanted) {
            let mut values = ValuesBuf::with_capacity(NAMES_BYTES);
            self.visit_groups(description, &mut |name| {
                values.push(name.as_bytes());
                true
            });
            if !values.as_ref().is_empty() {
                visit(description, Some(values.as_ref()));
            }
        }
    }
}

/// Which attributes of an entry are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Shown {
    /// Those that are selected.
    #[default]
    All,
    /// Those that are stored.
    Real,
    /// Those that are computed or given.
    Virtual,
}

impl Shown {
    /// What a search asks for; whoever asks for both gets what is stored.
    pub(crate) fn of(controls: &RequestControls<'_>) -> Self {
        match (controls.real_only, controls.virtual_only) {
            (true, _) => Self::Real,
            (false, true) => Self::Virtual,
            (false, false) => Self::All,
        }
    }
}

/// The values of an attribute, those that are given with them.
fn together(given: &Given, stored: Option<Values<'_>>, schema: &Schema) -> ValuesBuf {
    let mut values = ValuesBuf::new();
    let key = |value: &[u8]| key_of(&given.description, value, schema);
    let mut keys = FxHashSet::default();
    for value in stored.iter().flat_map(|stored| stored.iter()) {
        values.push(value);
        keys.insert(key(value));
    }
    for value in given.values.iter().filter(|value| keys.is_empty() || !keys.contains(&key(value)))
    {
        values.push(value);
    }
    values
}

/// What was found out; nothing is told of groups that could not be read.
fn told<T>(found: Result<Option<T>, StoreError>) -> Option<T> {
    found.unwrap_or_else(|error| {
        tracing::error!(%error, "the groups of an entry could not be read");
        None
    })
}

/// Octets of the names of its groups that most entries have less of.
const NAMES_BYTES: usize = 2_048;
/// The most subordinates of an entry that are looked at to count those its reader may see. Of an
/// entry with more, a reader who may not see all is told neither attribute.
pub(crate) const SUBORDINATES_LOOKED_AT_MAX: usize = 1_000;
