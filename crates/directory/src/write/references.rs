//! Referential integrity: values that name an entry follow it when it is renamed, and go when it is
//! deleted, in the same change record.
//!
//! Invariant: nobody gets there what he may not have: nothing is told of the entries that change
//! but the name of one, to those who may see it, and no right on them is asked for. Whoever may
//! rename or delete an entry changes what names it.
//! Invariant: what follows is decided on the state that the change leaves, so nothing follows in
//! entries that go with it.

mod gathering;
mod listed;

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use aci::Permitted;
use ldap::dn::Dn;
use ldap::message::{Scope, Values};
use ldap::result::ResultCode;
use rustc_hash::FxHashMap;
use schema::{
    Assertion, AttributeDelta, AttributeDescription, Change, DnKey, EntryId, EntryRead as _,
    ModifyChange, ResolvedFilter, Schema,
};
use store::{Ask, Meant, Naming, References, StoreError, StoredEntry, View};

use crate::request::refusal::Refusal;
use crate::write::stamp::{self, Stamp};

pub(crate) use self::gathering::Gathering;
pub(crate) use self::listed::go_before;

/// The setting with the attributes whose values follow.
pub(crate) const REFERENCES: &str = "references";
/// Stands in the setting for none at all.
pub(crate) const NONE_AT_ALL: &str = "-";
/// Those that do by default, where they have an equality index.
pub(crate) const DEFAULT: [&str; 8] = [
    "member",
    "uniqueMember",
    "manager",
    "owner",
    "seeAlso",
    "secretary",
    "roleOccupant",
    "ds-target-group-dn",
];
/// The most entries of an attribute that one change may touch like this.
const REFERRERS_MAX: u64 = 100_000;
/// The most octets of values, old and new: a change record has a limit.
const OCTETS_MAX: usize = 12 << 20;
/// Of so many entries one is named that the client may know.
const EXAMPLES: usize = 100;

/// The attributes whose values follow in a view.
pub(crate) fn names(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    let set = view.setting(REFERENCES)?;
    Ok(match set.first() {
        None => DEFAULT.iter().map(|name| (*name).to_owned()).collect(),
        Some(first) if first == NONE_AT_ALL => Vec::new(),
        Some(_) => set,
    })
}

/// How many values name an entry, about, of the attributes whose values follow.
pub(crate) fn count(
    view: &View<'_>,
    kinds: &[Arc<AttributeDescription>],
    id: EntryId,
    name: &DnKey,
) -> Result<u64, StoreError> {
    let mut count = view.listed_references(id)?;
    for kind in kinds {
        let part =
            view.some_references(&kind.kind, Meant { name, naming: Naming::Itself }, None, 1)?;
        count += part.map_or(0, |part| part.ids.len() as u64);
    }
    Ok(count)
}

/// The attributes whose values follow, under a schema.
pub(crate) fn kinds(
    view: &View<'_>,
    schema: &Schema,
) -> Result<Vec<Arc<AttributeDescription>>, StoreError> {
    Ok(names(view)?.iter().filter_map(|name| schema.describe(name).ok()).collect())
}

/// Whether something may follow from a change.
pub(crate) const fn may_follow(change: &Change) -> bool {
    matches!(change, Change::Delete(_) | Change::Rename(_))
}

/// What follows from changes that are in the view already.
///
/// # Errors
/// When so much follows that it does not fit into one change record.
pub(crate) fn follow(
    view: &View<'_>,
    schema: &Schema,
    stamp: &Stamp,
    changes: &[Permitted<Change>],
) -> Result<Vec<Permitted<Change>>, Blocked> {
    let moved = Moved::of(view, schema, changes)?;
    if moved.causes.is_empty() {
        return Ok(Vec::new());
    }
    let kinds = kinds(view, schema)?;
    let follower = Follower { view, schema, moved };
    let (mut octets, mut largest) = (0, None);
    let mut follows = Vec::new();
    let referrers = follower.referrers(&kinds);
    for (id, references) in referrers.map_err(|why| why.by_others_than(view, changes))? {
        let Some(entry) = view.entry(id)? else { continue };
        let Some(change) = follower.change(&entry, &references, stamp)? else { continue };
        for delta in &change.deltas {
            let own = octets_of(delta);
            octets += own;
            if largest.as_ref().is_none_or(|(most, _)| own > *most) {
                let description = Arc::clone(&delta.description);
                largest = Some((own, InTheWay { id, description }));
            }
        }
        if octets > OCTETS_MAX {
            let why = format!("their values take more than {} MiB", OCTETS_MAX >> 20);
            let by = largest.into_iter().map(|(_, one)| one).collect();
            return Err(Blocked::TooMany { why, by }.by_others_than(view, changes));
        }
        follows.push(Permitted::internal(Change::Modify(change)));
    }
    Ok(follows)
}

/// Why what follows does not follow.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// So much follows that it does not fit into one change record.
    TooMany {
        /// Which limit that is, as the end of a sentence.
        why: String,
        /// Some of those.
        by: Vec<InTheWay>,
    },
    /// Something else.
    Refused(Refusal),
}

/// Whether the client may read an attribute of an entry.
type MayRead<'m> = &'m dyn Fn(&StoredEntry<'_>, &AttributeDescription) -> bool;

/// An entry that names what is renamed or deleted.
#[derive(Debug)]
pub(crate) struct InTheWay {
    id: EntryId,
    /// The attribute by which it does.
    description: Arc<AttributeDescription>,
}

impl InTheWay {
    /// Its name, if the client may read there what names others.
    fn seen(&self, may_read: MayRead<'_>, view: &View<'_>) -> Option<String> {
        let stored = view.entry(self.id).ok().flatten()?;
        may_read(&stored, &self.description).then(|| stored.dn().to_owned())
    }
}

impl Blocked {
    /// Without entries that were renamed, or are below one that was: rights may be others there.
    fn by_others_than(self, view: &View<'_>, changes: &[Permitted<Change>]) -> Self {
        let Self::TooMany { why, mut by } = self else { return self };
        let is_within = |id| -> Result<bool, StoreError> {
            let Some(stored) = view.entry(id)? else { return Ok(true) };
            for change in changes {
                if let Change::Rename(change) = change.get()
                    && view.is_within(&stored, change.id)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        by.retain(|one| is_within(one.id).is_ok_and(|is_within| !is_within));
        Self::TooMany { why, by }
    }

    /// What the client is told.
    pub(crate) fn refusal(self, may_read: MayRead<'_>, view: &View<'_>) -> Refusal {
        let (why, by) = match self {
            Self::TooMany { why, by } => (why, by),
            Self::Refused(refusal) => return refusal,
        };
        let one = by.into_iter().find_map(|one| one.seen(may_read, view));
        let one = one.map(|name| format!(", '{name}' is one of them")).unwrap_or_default();
        Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!(
                "so many entries name what is to be renamed or deleted that they cannot change \
                 with it ({why}{one}): change those that have most of these values before, or a \
                 part of the tree at a time, or take the attribute out of cn=References,cn=config"
            ),
        )
    }
}

impl From<Refusal> for Blocked {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Blocked {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

/// The entries that have other names now, or are gone.
struct Moved {
    causes: Vec<Cause>,
    /// Those that name nothing else, as their names were written: gone, or renamed alone.
    alone: FxHashMap<Vec<u8>, usize>,
}

struct Cause {
    old: DnKey,
    /// How deep that is.
    depth: usize,
    /// None: it is gone.
    new: Option<Dn>,
    new_key: Option<DnKey>,
}

impl Cause {
    /// The old name and the new one, under which something may have been named already; and how
    /// much each counts.
    fn named(&self) -> impl Iterator<Item = (Meant<'_>, usize)> {
        // Names below one that is gone never were, or went before.
        let naming = if self.new.is_some() { Naming::OrBelow } else { Naming::Itself };
        let new = self.new_key.as_ref().map(|name| (Meant { name, naming: Naming::OrBelow }, 0));
        iter::once((Meant { name: &self.old, naming }, 1)).chain(new)
    }
}

impl Moved {
    fn of(
        view: &View<'_>,
        schema: &Schema,
        changes: &[Permitted<Change>],
    ) -> Result<Self, StoreError> {
        let mut moved = Self { causes: Vec::new(), alone: FxHashMap::default() };
        for change in changes {
            let (old, new, is_alone) = match change.get() {
                Change::Delete(change) => (&change.dn, None, true),
                Change::Rename(change) => {
                    let is_alone = view.child_count(change.id)? == 0;
                    (&change.old_dn, Some(change.new_dn.clone()), is_alone)
                }
                _ => continue,
            };
            let Ok(key) = DnKey::from_dn(schema, old) else { continue };
            let new_key = new.as_ref().and_then(|new| DnKey::from_dn(schema, new).ok());
            // In another spelling it is named as before.
            if new_key.as_ref() == Some(&key) {
                continue;
            }
            if is_alone {
                moved.alone.insert(old.to_string().into_bytes(), moved.causes.len());
            }
            moved.causes.push(Cause { depth: key.depth(), old: key, new, new_key });
        }
        Ok(moved)
    }

    /// Whether a name is now that of what was renamed, or of something below it.
    fn has_become(&self, name: &DnKey) -> bool {
        let mut new = self.causes.iter().filter_map(|cause| cause.new_key.as_ref());
        new.any(|new| name.is_within(new))
    }

    /// What has become of what a name names; none if nothing has.
    fn cause(&self, name: &DnKey) -> Option<&Cause> {
        self.causes.iter().find(|cause| match cause.new {
            Some(_) => name.is_within(&cause.old),
            None => *name == cause.old,
        })
    }
}

/// Values of an attribute that have to change, in one entry.
struct Reference<'k> {
    kind: &'k AttributeDescription,
    /// By so many of the causes.
    causes: usize,
}

struct Follower<'a> {
    view: &'a View<'a>,
    schema: &'a Schema,
    moved: Moved,
}

impl Follower<'_> {
    /// The entries that have to change, with the attributes.
    fn referrers<'k>(
        &self,
        kinds: &'k [Arc<AttributeDescription>],
    ) -> Result<BTreeMap<EntryId, Vec<Reference<'k>>>, Blocked> {
        let mut referrers: BTreeMap<_, Vec<Reference<'k>>> = BTreeMap::new();
        for kind in kinds {
            for (meant, counts) in self.moved.causes.iter().flat_map(Cause::named) {
                match self.view.references(&kind.kind, meant, REFERRERS_MAX)? {
                    References::Unindexed => break,
                    References::TooMany => {
                        return Err(too_many(self.view, kind, meant)?);
                    }
                    References::Found(ids) => {
                        for id in ids {
                            let all = referrers.entry(id).or_default();
                            match all.last_mut() {
                                Some(last) if last.kind == &**kind => last.causes += counts,
                                _ => all.push(Reference { kind, causes: counts }),
                            }
                        }
                    }
                }
                if referrers.len() as u64 > REFERRERS_MAX {
                    return Err(too_many(self.view, kind, meant)?);
                }
            }
        }
        Ok(referrers)
    }

    /// What changes in one entry.
    fn change(
        &self,
        entry: &StoredEntry<'_>,
        references: &[Reference<'_>],
        stamp: &Stamp,
    ) -> Result<Option<ModifyChange>, Refusal> {
        let mut deltas = Vec::new();
        for (description, values) in entry.record_attributes() {
            let Some(reference) = references.iter().find(|one| one.kind.covers(description)) else {
                continue;
            };
            let fates = self.fates(values, reference.causes);
            // As text they go, and in the list they stay.
            let mut removed = self.doubled(entry, description)?;
            let mut added = removed.clone();
            for (value, new) in fates {
                removed.push(value.to_vec());
                if let Some(name) = new
                    && !self.has(entry, description, &name)?
                {
                    added.push(name.to_string().into_bytes());
                }
            }
            if !removed.is_empty() {
                let description = Arc::clone(description);
                deltas.push(AttributeDelta { description, removed, added });
            }
        }
        let Ok(dn) = Dn::parse_stored(entry.dn()) else { return Ok(None) };
        if deltas.is_empty() {
            return Ok(None);
        }
        deltas.extend(stamp::of_what_follows(entry, self.schema, stamp));
        Ok(Some(ModifyChange { id: entry.id(), dn, deltas }))
    }

    /// The values that change, each with the name that takes its place, if one does.
    fn fates<'v>(&self, values: Values<'v>, causes: usize) -> Vec<(&'v [u8], Option<Dn>)> {
        // As they were written, which takes no time for each of a million members: an attribute has
        // a name once.
        let of_cause = |at: &usize| self.moved.causes.get(*at).and_then(|cause| cause.new.clone());
        let written = values.iter().filter_map(|value| Some((value, self.moved.alone.get(value)?)));
        let found: Vec<_> = written.map(|(value, at)| (value, of_cause(at))).collect();
        if found.len() == causes {
            return found;
        }
        values.iter().filter_map(|value| Some((value, self.fate(value)?))).collect()
    }

    /// What becomes of a value that changes: nothing, or another name.
    #[expect(clippy::option_option, reason = "whether it changes, and into what")]
    fn fate(&self, value: &[u8]) -> Option<Option<Dn>> {
        let name = Dn::parse_stored(std::str::from_utf8(value).ok()?).ok()?;
        let key = DnKey::from_dn(self.schema, &name).ok()?;
        let cause = self.moved.cause(&key)?;
        let Some(new) = &cause.new else { return Some(None) };
        let below = key.depth() - cause.depth;
        let mut becomes = new.clone();
        for rdn in name.rdns().iter().take(below).rev() {
            becomes = becomes.child(rdn.clone());
        }
        Some(Some(becomes))
    }

    /// Whether an entry has a name already.
    fn has(
        &self,
        entry: &StoredEntry<'_>,
        own: &Arc<AttributeDescription>,
        name: &Dn,
    ) -> Result<bool, Refusal> {
        let (id, description, text) = (entry.id(), Arc::clone(own), name.to_string());
        let Ok(filter) = Assertion::equality(self.schema, description, text.as_bytes()) else {
            return Ok(false);
        };
        let filter = ResolvedFilter::Equality(filter);
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        let before = EntryId(id.0.saturating_sub(1));
        let next = plan.candidates(self.view, before).next().transpose()?;
        if plan.indexed && next != Some(id) {
            return Ok(false);
        }
        // The index knows no options.
        let Ok(name) = DnKey::from_dn(self.schema, name) else { return Ok(false) };
        for (_, list) in entry.lists().filter(|(one, _)| *one == own) {
            if list.find(&name)?.is_some() {
                return Ok(true);
            }
        }
        let of_record = entry.record_attributes().filter(|(one, _)| *one == own);
        Ok(of_record.flat_map(|(_, values)| values).any(|value| {
            let text = std::str::from_utf8(value).unwrap_or_default();
            DnKey::from_text(self.schema, text).is_ok_and(|one| one == name)
        }))
    }

    /// Values that named nothing before and now name what a reference list of the attribute has
    /// under its new name.
    fn doubled(
        &self,
        entry: &StoredEntry<'_>,
        own: &AttributeDescription,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut doubled = Vec::new();
        for (_, list) in entry.lists().filter(|(one, _)| ***one == *own) {
            let of_record = entry.record_attributes().filter(|(one, _)| ***one == *own);
            for value in of_record.flat_map(|(_, values)| values) {
                let text = std::str::from_utf8(value).unwrap_or_default();
                let Ok(name) = DnKey::from_text(self.schema, text) else { continue };
                if self.moved.has_become(&name) && list.find(&name)?.is_some() {
                    doubled.push(value.to_vec());
                }
            }
        }
        Ok(doubled)
    }
}

fn octets_of(delta: &AttributeDelta) -> usize {
    delta.removed.iter().chain(&delta.added).map(Vec::len).sum()
}

/// Those of `kind` are the last of too many.
fn too_many(
    view: &View<'_>,
    kind: &Arc<AttributeDescription>,
    meant: Meant<'_>,
) -> Result<Blocked, StoreError> {
    let why = format!("they are more than {REFERRERS_MAX}");
    let part = view.some_references(&kind.kind, meant, None, EXAMPLES)?;
    let ids = part.map(|part| part.ids).unwrap_or_default().into_iter().take(EXAMPLES);
    let by = ids.map(|id| InTheWay { id, description: Arc::clone(kind) }).collect();
    Ok(Blocked::TooMany { why, by })
}
