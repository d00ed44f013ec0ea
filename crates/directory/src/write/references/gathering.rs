//! Before something is renamed that very many values name: these are kept by number first, entry by
//! entry, in steps between which others write. Then the rename changes none of them, and is one
//! small record.
//!
//! Invariant: no step changes what anybody reads of an entry, but for the order of its values and
//! for how names are spelled: each can be the last, and what was begun can be begun anew.
//! Invariant: memory is bounded: by the entries that name [`NAMES_AT_ONCE`] entries.
//! Invariant: it ends. Each name is come by once, whoever adds values meanwhile.

use std::sync::Arc;
use std::time::Duration;

use aci::Permitted;
use ldap::dn::Dn;
use rustc_hash::FxHashSet;
use schema::{AttributeDescription, Change, DnKey, EntryId, EntryRead as _, GatherChange, Schema};
use store::{Meant, Naming, References, StoreError, StoredEntry, View};

use super::{Blocked, REFERRERS_MAX, kinds, too_many};

/// How far it came.
#[derive(Debug)]
pub(crate) struct Gathering {
    kinds: Vec<Arc<AttributeDescription>>,
    /// Which of the kinds is looked through.
    kind: usize,
    /// The next of its names; none at the first.
    from: Option<Box<[u8]>>,
    /// Entries that name those that were come by, the next one last.
    waiting: Vec<EntryId>,
    /// An entry of which a part was taken, and how many values it had before.
    partly: Option<(EntryId, usize)>,
    /// When it began, by the clock that never goes back.
    began: Duration,
    steps: u64,
    entries: u64,
}

impl Gathering {
    /// Begins, where more names what `name` names, or is below it, than is changed at once; none
    /// where that is not so.
    ///
    /// # Errors
    /// When the rename would be refused at its end, for what cannot be kept by number.
    pub(crate) fn begin(
        view: &View<'_>,
        schema: &Schema,
        name: &DnKey,
        now: Duration,
    ) -> Result<Option<Self>, Blocked> {
        let kinds = kinds(view, schema)?;
        let (mut is_much, mut count) = (false, 0);
        for kind in &kinds {
            match view.references(
                &kind.kind,
                Meant { name, naming: Naming::OrBelow },
                AT_ONCE_ENTRIES_MAX,
            )? {
                References::Unindexed => {}
                References::TooMany => is_much = true,
                References::Found(ids) => {
                    count += ids.len() as u64;
                    is_much |= count > AT_ONCE_ENTRIES_MAX || any_large(view, &kinds, &ids)?;
                }
            }
            if is_much {
                refuse_too_many_as_text(view, &kinds, name)?;
                let (from, waiting, partly) = (None, Vec::new(), None);
                let (kind, steps, entries) = (0, 0, 0);
                return Ok(Some(Self {
                    kinds,
                    kind,
                    from,
                    waiting,
                    partly,
                    began: now,
                    steps,
                    entries,
                }));
            }
        }
        Ok(None)
    }

    /// The changes of the next step; there may be none in one that is not the last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn step(
        &mut self,
        view: &View<'_>,
        name: &DnKey,
    ) -> Result<Vec<Permitted<Change>>, StoreError> {
        let (mut changes, mut values) = (Vec::new(), 0);
        let (mut looks, mut refills) = (0, 0);
        // What is in this step is not in the view yet, and is come by again.
        let (mut taken, mut again) = (FxHashSet::default(), None);
        while values < STEP_VALUES_MAX && looks < STEP_ENTRIES_MAX {
            let Some(id) = self.waiting.pop() else {
                if refills >= STEP_REFILLS_MAX || !self.refill(view, name)? {
                    break;
                }
                refills += 1;
                continue;
            };
            looks += 1;
            if !taken.insert(id) {
                continue;
            }
            let Some(stored) = view.entry(id)? else { continue };
            let (attributes, count) = by_text(view, &self.kinds, &stored);
            let is_stuck = self.partly == Some((id, count));
            let Ok(dn) = Dn::parse_stored(stored.dn()) else { continue };
            if attributes.is_empty() || is_stuck {
                continue;
            }
            // Each part takes writing the whole entry, so there are to be few.
            let part = STEP_VALUES_MAX.max(count / LARGE_PARTS);
            if count > part {
                self.partly = Some((id, count));
                again = Some(id);
            } else {
                self.entries += 1;
            }
            values += count.min(part);
            let change = GatherChange { id, dn, attributes, values_max: part as u64 };
            changes.push(Permitted::internal(Change::Gather(change)));
        }
        self.waiting.extend(again);
        self.steps += 1;
        Ok(changes)
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.kind >= self.kinds.len()
    }

    /// Takes those that name the next names; false when there are no more names.
    fn refill(&mut self, view: &View<'_>, name: &DnKey) -> Result<bool, StoreError> {
        let Some(kind) = self.kinds.get(self.kind) else { return Ok(false) };
        let meant = Meant { name, naming: Naming::OrBelow };
        let from = self.from.as_deref();
        let mut names_max = NAMES_AT_ONCE;
        let mut part = loop {
            let Some(part) = view.some_references(&kind.kind, meant, from, names_max)? else {
                (self.kind, self.from) = (self.kind + 1, None);
                return Ok(true);
            };
            // What one name alone has too many of stays text, and the rename is refused.
            if !part.is_too_many || names_max == 1 {
                break part;
            }
            names_max /= 2;
        };
        part.ids.sort_unstable_by(|one, other| other.cmp(one));
        part.ids.dedup();
        self.waiting = part.ids;
        self.from = part.next;
        if self.from.is_none() {
            self.kind += 1;
        }
        Ok(true)
    }

    /// Says in the log that it begins.
    pub(crate) fn announce(&self, dn: &Dn) {
        tracing::info!(
            dn = %dn,
            "very many values name what is to be renamed: they are kept by number first, in steps \
             between which others write"
        );
    }

    /// Says in the log that it is over.
    pub(crate) fn tell_end(&self, dn: &Dn, now: Duration) {
        let milliseconds = now.saturating_sub(self.began).as_millis() as u64;
        let Self { entries, steps, .. } = self;
        tracing::info!(
            dn = %dn,
            entries,
            steps,
            milliseconds,
            "values that name what is to be renamed are kept by number now: the rename follows"
        );
    }
}

/// Refuses what would be refused at the end: very many entries name it by attributes that are never
/// kept by number, such as those with one value.
fn refuse_too_many_as_text(
    view: &View<'_>,
    kinds: &[Arc<AttributeDescription>],
    name: &DnKey,
) -> Result<(), Blocked> {
    let meant = Meant { name, naming: Naming::OrBelow };
    let mut all = FxHashSet::default();
    for kind in kinds.iter().filter(|kind| view.is_never_listed(kind)) {
        match view.references(&kind.kind, meant, REFERRERS_MAX)? {
            References::Unindexed => {}
            References::TooMany => return Err(too_many(view, kind, meant)?),
            References::Found(ids) => all.extend(ids),
        }
        if all.len() as u64 > REFERRERS_MAX {
            return Err(too_many(view, kind, meant)?);
        }
    }
    Ok(())
}

/// The attributes of an entry that have values as text which could be kept by number, and how many
/// values these are.
fn by_text(
    view: &View<'_>,
    kinds: &[Arc<AttributeDescription>],
    stored: &StoredEntry<'_>,
) -> (Vec<Arc<AttributeDescription>>, usize) {
    let (mut attributes, mut count) = (Vec::new(), 0);
    for (description, values) in stored.record_attributes() {
        if kinds.iter().any(|kind| kind.covers(description)) && view.may_be_listed(description) {
            attributes.push(Arc::clone(description));
            count += values.iter().count();
        }
    }
    (attributes, count)
}

/// Whether one of these entries has so many values as text that changing one of them takes long.
fn any_large(
    view: &View<'_>,
    kinds: &[Arc<AttributeDescription>],
    ids: &[EntryId],
) -> Result<bool, StoreError> {
    for id in ids {
        if let Some(stored) = view.entry(*id)?
            && by_text(view, kinds, &stored).1 > LARGE_VALUES_MIN
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// So many entries that name others change in the record of a rename; where there are more, their
/// values are kept by number before.
const AT_ONCE_ENTRIES_MAX: u64 = 200;
/// An entry with more values as text is one of very many, from before they were kept by number.
const LARGE_VALUES_MIN: usize = 2000;
/// Values that are looked at in one step, about: others wait for it.
const STEP_VALUES_MAX: usize = 5000;
/// Of an entry with very many values such a part of what is left is taken at once.
const LARGE_PARTS: usize = 8;
/// Entries that are looked at in one step.
const STEP_ENTRIES_MAX: usize = 200;
/// So often names are come by in one step.
const STEP_REFILLS_MAX: usize = 8;
/// So many names are come by at once.
const NAMES_AT_ONCE: usize = 1000;
