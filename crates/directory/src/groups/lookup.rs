//! Which groups a name or an entry is in, at one point in time. What was found out of a group is
//! remembered: the next entry is likely to be in it, too.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ldap::dn::Dn;
use ldap::message::Scope;
use rustc_hash::{FxHashMap, FxHashSet};
use schema::{
    Assertion, AttributeDescription, DnKey, EntryId, EntryRead, MatchingRule, RdnKey,
    ResolvedFilter, Schema, Truth,
};
use store::{Ask, Resolved, StoreError, StoredEntry, View};

use super::described::Described;
use super::kind::is_group;
use super::known::KnownGroups;

/// The setting that says which groups `memberOf` tells, and the value by which they are those that
/// name an entry themselves.
pub(crate) const MEMBER_OF: &str = "member-of";
pub(crate) const DIRECT: &str = "direct";
/// Groups that one question goes through, at the most.
pub(crate) const GROUPS_MAX: usize = 1_000;
/// Entries that one question looks at to find groups, at the most: a group may be found on many
/// ways.
const LOOKS_MAX: u64 = 20_000;
/// How deep groups are looked for in groups.
pub(crate) const GROUP_DEPTH_MAX: usize = 16;

/// The groups of a view.
pub(crate) struct Groups<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) schema: &'a Schema,
    /// What is known, of other requests on the thread as well, or of this one.
    known: Option<&'a KnownGroups>,
    /// What was found out. Most requests ask for no groups, and pay for none of this.
    asked: OnceCell<Box<Asked>>,
    /// Entries that were looked at to find groups, and when the question began.
    looks: Cell<u64>,
    begun: Cell<u64>,
}

/// What was found out of the groups of a view for one request.
#[derive(Default)]
pub(super) struct Asked {
    own: KnownGroups,
    /// Whether whoever reads may see a group, and whether all there are.
    seen: RefCell<FxHashMap<EntryId, bool>>,
    sees_all: OnceCell<bool>,
    describing: OnceCell<Listed<Described>>,
    /// Those that show the members of another one, which is named.
    showing: OnceCell<Listed<DnKey>>,
    pub(super) roles: OnceCell<super::roles::Defined>,
    means_direct: OnceCell<bool>,
    pub(super) user_names: OnceCell<Option<Box<super::user_names::UserNames>>>,
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: EntryId,
    /// Its name, as it was sent.
    pub(crate) name: String,
    pub(crate) key: DnKey,
    /// It is known that no group names it: what most are.
    is_top: AtomicBool,
}

/// All groups of a kind, with what makes them of the kind.
pub(crate) struct Listed<T> {
    pub(crate) groups: Vec<(Arc<Group>, T)>,
    /// Some were left out.
    pub(crate) is_cut: bool,
}

/// Which groups a name is in by an index.
pub(crate) enum Naming {
    /// No index tells.
    Unindexed,
    /// Whether some were left out.
    Found { is_cut: bool },
}

/// The groups that an entry is in.
#[derive(Debug, Default)]
pub(crate) struct InGroups {
    groups: Vec<Arc<Group>>,
    /// So many of them, the first, name it themselves.
    direct: usize,
    /// Some of those were left out, and some of any.
    direct_is_cut: bool,
    is_cut: bool,
    /// Groups that name it by what names others as well: it is in none of them.
    doubtful: Vec<Arc<Group>>,
}

impl InGroups {
    /// Groups that it would be in, if nobody else had the same user name.
    pub(crate) fn doubtful(&self) -> &[Arc<Group>] {
        &self.doubtful
    }

    /// All of them, if none was left out.
    pub(crate) fn told(&self) -> Option<&[Arc<Group>]> {
        (!self.is_cut).then_some(self.groups.as_slice())
    }

    /// Those that were found, whether some were left out or not.
    pub(crate) fn found(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// Those of them that name it.
    pub(crate) fn found_direct(&self) -> &[Arc<Group>] {
        self.groups.get(..self.direct).unwrap_or_default()
    }

    /// Those that name it, if none of them was left out.
    pub(crate) fn told_direct(&self) -> Option<&[Arc<Group>]> {
        let direct = self.groups.get(..self.direct);
        direct.filter(|_| !self.direct_is_cut)
    }
}

impl<'a> Groups<'a> {
    pub(crate) fn new(view: &'a View<'a>, schema: &'a Schema) -> Self {
        Self {
            view,
            schema,
            known: None,
            asked: OnceCell::new(),
            looks: Cell::new(0),
            begun: Cell::new(0),
        }
    }

    /// With what the thread knows of the view.
    #[must_use]
    pub(crate) fn knowing(self, known: &'a KnownGroups) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Others of the same view, with what the thread knows.
    pub(crate) fn once_more(&self) -> Self {
        Self { known: self.known, ..Self::new(self.view, self.schema) }
    }

    fn memo(&self) -> &KnownGroups {
        let asked = self.asked();
        self.known.unwrap_or(&asked.own)
    }

    pub(super) fn asked(&self) -> &Asked {
        self.asked.get_or_init(|| {
            if let Some(known) = self.known {
                known.turn_to(self.view, self.schema);
            }
            Box::default()
        })
    }

    /// Whether whoever reads may see a group: all of them, or this one.
    pub(crate) fn is_seen(
        &self,
        group: &Group,
        sees_all: &dyn Fn() -> bool,
        is_seen: &dyn Fn() -> bool,
    ) -> bool {
        if *self.asked().sees_all.get_or_init(sees_all) {
            return true;
        }
        if let Some(seen) = self.asked().seen.borrow().get(&group.id) {
            return *seen;
        }
        let seen = is_seen();
        self.asked().seen.borrow_mut().insert(group.id, seen);
        seen
    }

    /// Another question begins.
    pub(crate) fn begin(&self) {
        self.begun.set(self.looks.get());
    }

    /// Entries that were looked at since the beginning, for all questions.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Whether the question may look at one more.
    pub(super) fn takes_one(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() - self.begun.get() <= LOOKS_MAX
    }

    /// Whether an attribute tells only the groups that name an entry themselves.
    pub(crate) fn is_direct(&self, description: &AttributeDescription) -> bool {
        let known = self.schema.well_known();
        *description == *known.is_direct_member_of
            || (*description == *known.member_of
                && *self.asked().means_direct.get_or_init(|| {
                    let set = self.view.setting(MEMBER_OF).unwrap_or_default();
                    set.iter().any(|value| value == DIRECT)
                }))
    }

    /// The entry with this name.
    pub(crate) fn entry(&self, name: &DnKey) -> Result<Option<StoredEntry<'a>>, StoreError> {
        match self.view.resolve(name)? {
            Resolved::Found(id) => self.view.entry(id),
            Resolved::Missing { .. } | Resolved::NoContext => Ok(None),
        }
    }

    pub(crate) fn key(&self, entry: &StoredEntry<'_>) -> DnKey {
        if let Some(key) = self.key_below(entry) {
            return key;
        }
        let name = Dn::parse_stored(entry.dn()).ok();
        name.and_then(|name| DnKey::from_dn(self.schema, &name).ok()).unwrap_or_default()
    }

    /// The name of an entry that is below another one, whose name is perhaps known.
    fn key_below(&self, entry: &StoredEntry<'_>) -> Option<DnKey> {
        let (rdn, above) = entry.split_dn()?;
        let rdn = Dn::parse_stored(rdn).ok()?;
        let rdn = RdnKey::from_rdn(self.schema, rdn.rdns().first()?).ok()?;
        let find = || DnKey::from_dn(self.schema, &Dn::parse_stored(above).ok()?).ok();
        self.memo().name(entry.parent(), &rdn, find)
    }

    pub(crate) fn named(&self, entry: &StoredEntry<'_>) -> Arc<Group> {
        let (id, name, key) = (entry.id(), entry.dn().to_owned(), self.key(entry));
        Arc::new(Group { id, name, key, is_top: AtomicBool::new(false) })
    }

    /// The group that an entry is.
    fn group(&self, entry: &StoredEntry<'_>) -> Option<Arc<Group>> {
        is_group(entry, self.schema).then(|| self.named(entry))
    }

    /// The group with this number.
    pub(super) fn known(&self, id: EntryId) -> Result<Option<Arc<Group>>, StoreError> {
        if let Some(known) = self.memo().entry(id) {
            return Ok(known);
        }
        let entry = self.view.entry(id)?;
        let group = entry.and_then(|entry| self.group(&entry));
        self.memo().put_entry(id, &group);
        Ok(group)
    }

    /// The attributes that name members, but for those that no entry has.
    fn naming_attributes(&self) -> impl Iterator<Item = &'a Arc<AttributeDescription>> {
        let known = self.schema.well_known();
        let all = [&known.member, &known.unique_member].into_iter().enumerate();
        let dictionary = self.view.dictionary();
        let may_be = all.filter(move |(number, description)| {
            self.memo().may_name(*number, || dictionary.may_be_stored(description))
        });
        may_be.map(|(_, description)| description)
    }

    /// The assertions that an entry has a name as a member, but for those that are true of none.
    pub(crate) fn names_it(&self, member: &DnKey) -> impl Iterator<Item = ResolvedFilter> {
        self.naming_attributes().map(|description| names(description, member))
    }

    /// The groups that name `member`, which has this number if it is known; one that names it twice
    /// perhaps twice. What is no group counts: the work has an end.
    pub(crate) fn naming(
        &self,
        member: &DnKey,
        id: Option<EntryId>,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<Naming, StoreError> {
        let mut is_cut = false;
        for description in self.naming_attributes() {
            if let Some(ids) = self.view.few_naming(description, member, id)? {
                found.reserve(ids.len());
                for id in ids {
                    is_cut |= !self.takes_one();
                    if is_cut {
                        break;
                    }
                    found.extend(self.known(id)?);
                }
                continue;
            }
            let filter = names(description, member);
            let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
            if !plan.indexed {
                return Ok(Naming::Unindexed);
            }
            for (number, id) in plan.candidates(self.view, EntryId::ROOT).enumerate() {
                is_cut |= number >= GROUPS_MAX || !self.takes_one();
                if is_cut {
                    break;
                }
                let id = id?;
                let is_one = plan.exact || self.is_true_of(&filter, id)?;
                if is_one && let Some(group) = self.known(id)? {
                    found.push(group);
                }
            }
        }
        Ok(Naming::Found { is_cut })
    }

    pub(super) fn is_true_of(
        &self,
        filter: &ResolvedFilter,
        id: EntryId,
    ) -> Result<bool, StoreError> {
        let entry = self.view.entry(id)?;
        Ok(entry.is_some_and(|entry| filter.matches(self.schema, &entry) == Truth::True))
    }

    /// All entries of a class, if `of` makes something of them.
    pub(super) fn listed<T>(
        &self,
        class: &'static str,
        of: impl Fn(&StoredEntry<'_>) -> Option<(Arc<Group>, T)>,
    ) -> Result<Listed<T>, StoreError> {
        let mut listed = Listed { groups: Vec::new(), is_cut: false };
        if self.memo().is_absent(class) {
            return Ok(listed);
        }
        let description = self.schema.well_known().object_class.clone();
        let Ok(filter) = Assertion::equality(self.schema, description, class.as_bytes()) else {
            return Ok(listed);
        };
        let filter = ResolvedFilter::Equality(filter);
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            listed.is_cut = true;
            return Ok(listed);
        }
        for (number, entry) in plan.entries(self.view, EntryId::ROOT).enumerate() {
            listed.is_cut |= number >= GROUPS_MAX;
            if listed.is_cut {
                break;
            }
            listed.groups.extend(of(&entry?));
        }
        if listed.groups.is_empty() && !listed.is_cut {
            self.memo().put_absent(class);
        }
        Ok(listed)
    }

    /// The groups that describe their members instead of naming them.
    pub(crate) fn describing(&self) -> Result<&Listed<Described>, StoreError> {
        if let Some(listed) = self.asked().describing.get() {
            return Ok(listed);
        }
        let listed = self.listed("groupOfURLs", |entry| {
            Some((self.group(entry)?, Described::of(entry, self.schema)))
        })?;
        Ok(self.asked().describing.get_or_init(|| listed))
    }

    /// The groups that show the members of one of these; whether some were left out.
    pub(crate) fn showing_any<'k>(
        &self,
        groups: impl IntoIterator<Item = &'k DnKey>,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        let showing = self.showing()?;
        if showing.groups.is_empty() {
            return Ok(showing.is_cut);
        }
        let groups: FxHashSet<&DnKey> = groups.into_iter().collect();
        let shows = |(_, target): &&(Arc<Group>, DnKey)| groups.contains(target);
        found.extend(showing.groups.iter().filter(shows).map(|(one, _)| Arc::clone(one)));
        Ok(showing.is_cut)
    }

    /// The group whose members another one shows, if it shows any, and that is a group.
    pub(super) fn shown_by(&self, group: EntryId) -> Result<Option<Arc<Group>>, StoreError> {
        let showing = self.showing()?;
        let Some((_, target)) = showing.groups.iter().find(|(one, _)| one.id == group) else {
            return Ok(None);
        };
        match self.view.resolve(target)? {
            Resolved::Found(id) => self.known(id),
            Resolved::Missing { .. } | Resolved::NoContext => Ok(None),
        }
    }

    /// The groups that show the members of another one (`ds-virtual-static-group`).
    fn showing(&self) -> Result<&Listed<DnKey>, StoreError> {
        if let Some(listed) = self.asked().showing.get() {
            return Ok(listed);
        }
        let target = &self.schema.well_known().ds_target_group_dn;
        let listed = self.listed("ds-virtual-static-group", |entry| {
            Some((self.group(entry)?, self.names(entry, target).pop()?))
        })?;
        Ok(self.asked().showing.get_or_init(|| listed))
    }

    /// The names that an attribute of an entry has.
    pub(crate) fn names(&self, entry: &dyn EntryRead, asked: &AttributeDescription) -> Vec<DnKey> {
        let mut names = Vec::new();
        entry.visit_values(asked, &mut |_, value| {
            let text = std::str::from_utf8(value).ok();
            names.extend(text.and_then(|text| DnKey::from_text(self.schema, text).ok()));
            true
        });
        names
    }

    /// The groups that an entry is in: those that name it first, then those that describe it, and
    /// those that these are in, and so on.
    pub(crate) fn of(&self, entry: &StoredEntry<'_>) -> Result<InGroups, StoreError> {
        self.of_known(entry, &self.key(entry), Some(entry.id()))
    }

    /// As [`Self::of`], of an entry that is perhaps not there yet, or not as it is now.
    pub(crate) fn of_named(
        &self,
        entry: &dyn EntryRead,
        key: &DnKey,
    ) -> Result<InGroups, StoreError> {
        self.of_known(entry, key, None)
    }

    fn of_known(
        &self,
        entry: &dyn EntryRead,
        key: &DnKey,
        id: Option<EntryId>,
    ) -> Result<InGroups, StoreError> {
        self.begin();
        let mut level = Vec::new();
        let mut is_cut = self.naming_all(key, id, &mut level)?;
        let mut doubtful = Vec::new();
        // That user names cannot be told is no reason to look for no others.
        let users_are_cut = self.naming_user(entry, key, &mut level, &mut doubtful)?;
        let mut seen: FxHashSet<EntryId> = FxHashSet::default();
        // Those that one index names are in order.
        if !level.is_sorted_by(|one, next| one.id < next.id) {
            level.retain(|group| seen.insert(group.id));
        }
        let (direct, direct_is_cut) = (level.len(), is_cut || users_are_cut);
        seen.clear();
        let describing = self.describing()?;
        is_cut |= describing.is_cut;
        if !is_cut && describing.groups.is_empty() && self.are_top(&level)? {
            let is_cut = users_are_cut;
            return Ok(InGroups { groups: level, direct, direct_is_cut, is_cut, doubtful });
        }
        for (group, described) in &describing.groups {
            is_cut |= !self.takes_one();
            if !is_cut && described.means(entry, key, self.schema) == Truth::True {
                level.push(Arc::clone(group));
            }
        }
        let mut groups = Vec::new();
        for depth in 0.. {
            level.retain(|group| seen.insert(group.id));
            groups.extend(level.iter().cloned());
            if level.is_empty() {
                break;
            }
            if is_cut || depth >= GROUP_DEPTH_MAX || groups.len() > GROUPS_MAX {
                is_cut = true;
                break;
            }
            let mut next = Vec::new();
            for group in &level {
                is_cut |= self.above(group, &mut next)?;
            }
            is_cut |= self.showing_any(level.iter().map(|group| &group.key), &mut next)?;
            level = next;
        }
        let is_cut = is_cut || users_are_cut;
        let direct = direct.min(groups.len());
        Ok(InGroups { groups, direct, direct_is_cut, is_cut, doubtful })
    }

    /// Whether it is known of all these, and not too many, that they are in no groups.
    fn are_top(&self, level: &[Arc<Group>]) -> Result<bool, StoreError> {
        if level.len() > GROUPS_MAX || !level.iter().all(|one| one.is_top.load(Ordering::Relaxed)) {
            return Ok(false);
        }
        let showing = self.showing()?;
        Ok(showing.groups.is_empty() && !showing.is_cut)
    }

    /// The groups that name a group; whether some were left out.
    fn above(&self, group: &Group, found: &mut Vec<Arc<Group>>) -> Result<bool, StoreError> {
        if group.is_top.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if let Some(above) = self.memo().above(group.id) {
            found.extend(above.iter().cloned());
            return Ok(false);
        }
        let mut above = Vec::new();
        let is_cut = self.naming_all(&group.key, Some(group.id), &mut above)?;
        // What is left out depends on the question.
        if !is_cut && above.is_empty() {
            group.is_top.store(true, Ordering::Relaxed);
        } else if !is_cut {
            self.memo().put_above(group.id, &above);
        }
        found.append(&mut above);
        Ok(is_cut)
    }

    /// As [`Self::naming`]; whether some were left out.
    fn naming_all(
        &self,
        member: &DnKey,
        id: Option<EntryId>,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        Ok(match self.naming(member, id, found)? {
            Naming::Unindexed => true,
            Naming::Found { is_cut } => is_cut,
        })
    }
}

/// The assertion that an entry has a name as a value.
fn names(description: &Arc<AttributeDescription>, member: &DnKey) -> ResolvedFilter {
    let rule = description.kind.equality.or_else(|| MatchingRule::find(DN_MATCH));
    rule.map_or(ResolvedFilter::Undefined, |rule| {
        let (description, key) = (Arc::clone(description), member.as_bytes().to_vec());
        ResolvedFilter::Equality(Assertion { description, rule, key })
    })
}

const DN_MATCH: &str = "2.5.13.1";
