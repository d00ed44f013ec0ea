//! Views: the directory at one point in time, for readers, or in the tentative state of a batch.
//!
//! A view is the base, the layers over it, and in a batch the open layer, see `overlay/stack.rs`.
//!
//! Invariant: everything read through one view is from the same point in time. Rows that contradict
//! what the writer guarantees are [`StoreError::Corrupt`], never guessed around.

mod apart_values;
mod lists;
mod ordered;
mod ranges;
mod reference_lists;
mod references;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, EntryId, Schema};

pub use apart_values::{ApartValues, OutsideValues};
pub(crate) use lists::List;
pub use ordered::{Members, OrderedGroup, OrderedGroups, OrderingIndex, ordering_would_help};
pub use reference_lists::ReferenceList;
pub(crate) use reference_lists::{key_parts, source_key, target_key};
pub use references::{Meant, Naming, References, SomeReferences};

use crate::base::lmdb::{CHILDREN, ENTRIES, META, NAMES, PlainTable};
use crate::base::meta::{self, Counters, Mark};
use crate::base::naming_context::{Context, NamingContexts};
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::index::{BRANCH_LISTS, IndexKind};
use crate::overlay::layer::Layer;
use crate::overlay::memtable::Memory;
use crate::overlay::stack::{Ground, MergedRows, Stack};
use crate::overlay::version::Version;
use crate::read::row_cache::{Remembered, SlotKey};
use crate::read::uses::Uses;
use crate::rows::dictionary::Dictionary;
use crate::rows::entry::{IsChecked, StoredEntry, join};
use crate::rows::key::{self, RowKey};
use crate::rows::names::{self, KnownParent, NameCache};
use crate::rows::record::RecordHead;

/// The deepest tree; deeper is a loop.
pub const TREE_DEPTH_MAX: usize = 4096;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resolved {
    /// This entry.
    Found(EntryId),
    /// No entry, though the name is in a naming context.
    Missing {
        /// The nearest superior that exists; none when the naming context's own entry is missing.
        nearest: Option<EntryId>,
    },
    /// The name is in none of the naming contexts.
    NoContext,
}

/// The directory at one point in time.
#[derive(Debug)]
pub struct View<'t> {
    ground: Held<'t>,
    /// What lies over the base, from the oldest to the newest.
    layers: Arc<[Arc<Layer>]>,
    /// What the batch has changed so far.
    memory: Option<&'t Memory>,
    dictionary: Arc<Dictionary>,
    counters: Counters,
    names: Names<'t>,
    uses: Counted<'t>,
    /// The entry at the top of the first naming context, once looked up: every search asks for it.
    first_context: OnceCell<Option<u64>>,
}

/// The base that a view reads: its own, or that of a batch.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a reader has one of them, and reads it all the time"
)]
enum Held<'t> {
    Own(Ground),
    OfBatch(&'t Ground),
}

impl std::ops::Deref for Held<'_> {
    type Target = Ground;

    #[inline]
    fn deref(&self) -> &Ground {
        match self {
            Self::Own(ground) => ground,
            Self::OfBatch(ground) => ground,
        }
    }
}

/// What is remembered of names: by the view itself, or by the batch.
#[derive(Debug)]
enum Names<'t> {
    Own(RefCell<NameCache>),
    OfBatch(&'t RefCell<NameCache>),
}

impl std::ops::Deref for Names<'_> {
    type Target = RefCell<NameCache>;

    #[inline]
    fn deref(&self) -> &RefCell<NameCache> {
        match self {
            Self::Own(names) => names,
            Self::OfBatch(names) => names,
        }
    }
}

/// Where it is counted what is used: of a reader, or of the writer.
#[derive(Debug)]
enum Counted<'t> {
    OfReader(Arc<Uses>),
    OfWriter(&'t Uses),
}

impl std::ops::Deref for Counted<'_> {
    type Target = Uses;

    #[inline]
    fn deref(&self) -> &Uses {
        match self {
            Self::OfReader(uses) => uses,
            Self::OfWriter(uses) => uses,
        }
    }
}

impl View<'static> {
    /// The number of the commit of LMDB that it reads.
    pub(crate) fn commit(&self) -> u64 {
        self.ground.snapshot.txn().id() as u64
    }

    /// The view of a reader, which lends what it remembers, and counts.
    pub(crate) fn of_reader(
        ground: Ground,
        version: &Version,
        memories: Memories,
        uses: Arc<Uses>,
    ) -> Self {
        debug_assert!(version.fits(&ground), "the layers go on where the base ends");
        let Memories { names, mut rows } = memories;
        let counters = version.counters;
        if let Some(rows) = &mut rows {
            rows.fit(counters.entry_count);
        }
        Self {
            ground: Held::Own(Ground { remembered: rows.map(RefCell::new), ..ground }),
            layers: Arc::clone(&version.layers),
            memory: None,
            dictionary: Arc::clone(&version.dictionary),
            counters,
            names: Names::Own(RefCell::new(names.renewed(version.naming(&counters)))),
            uses: Counted::OfReader(uses),
            first_context: OnceCell::new(),
        }
    }

    /// How often its reader has found something remembered.
    #[cfg(test)]
    pub(crate) fn remembered_hits(&self) -> u64 {
        self.ground.remembered.as_ref().map_or(0, |rows| rows.borrow().hits)
    }

    /// Goes on to a version over the same base; false when that has moved on.
    pub(crate) fn move_to(&mut self, version: &Version) -> bool {
        if !version.fits(&self.ground) {
            return false;
        }
        self.layers = Arc::clone(&version.layers);
        if !Arc::ptr_eq(&self.dictionary, &version.dictionary) {
            self.dictionary = Arc::clone(&version.dictionary);
        }
        self.counters = version.counters;
        self.first_context = OnceCell::new();
        if let Names::Own(names) = &mut self.names {
            names.get_mut().renew(version.naming(&version.counters));
        }
        true
    }

    /// Takes the view of a reader apart; none of a batch.
    pub(crate) fn into_parts(self) -> Option<ViewParts> {
        let (Held::Own(ground), Names::Own(names)) = (self.ground, self.names) else { return None };
        let Self { layers, dictionary, counters, .. } = self;
        Some(ViewParts { ground, layers, dictionary, counters, names: names.into_inner() })
    }

    /// Ends the view; what it remembers is for the next one.
    pub(crate) fn into_memories(self) -> Memories {
        let names = match self.names {
            Names::Own(names) => names.into_inner(),
            Names::OfBatch(names) => names.take(),
        };
        let rows = match self.ground {
            Held::Own(ground) => ground.remembered,
            Held::OfBatch(_) => None,
        };
        Memories { names, rows: rows.map(RefCell::into_inner) }
    }
}

/// The view of a reader, in parts: so it may go to another thread.
#[derive(Debug)]
pub(crate) struct ViewParts {
    ground: Ground,
    layers: Arc<[Arc<Layer>]>,
    dictionary: Arc<Dictionary>,
    counters: Counters,
    names: NameCache,
}

impl ViewParts {
    /// Takes out what it remembers.
    pub(crate) fn forget(&mut self) -> Memories {
        let rows = self.ground.remembered.take().map(RefCell::into_inner);
        Memories { names: std::mem::take(&mut self.names), rows }
    }

    /// The number of the last change that is in it.
    pub(crate) const fn lsn(&self) -> Lsn {
        Lsn(self.counters.lsn)
    }

    /// The view again; what it uses is counted there.
    pub(crate) fn into_view(self, uses: Arc<Uses>) -> View<'static> {
        let Self { ground, layers, dictionary, counters, names } = self;
        View {
            ground: Held::Own(ground),
            layers,
            memory: None,
            dictionary,
            counters,
            names: Names::Own(RefCell::new(names)),
            uses: Counted::OfReader(uses),
            first_context: OnceCell::new(),
        }
    }
}

/// What a reader remembers, and hands on from view to view.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    pub(crate) names: NameCache,
    /// None for whoever reads too little, or too much, for it to be of use.
    pub(crate) rows: Option<Remembered>,
}

/// What a batch has at hand for a view of its tentative state.
pub(crate) struct BatchParts<'t> {
    pub(crate) ground: &'t Ground,
    pub(crate) layers: Arc<[Arc<Layer>]>,
    pub(crate) memory: &'t Memory,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) counters: Counters,
    pub(crate) names: &'t RefCell<NameCache>,
    pub(crate) uses: &'t Uses,
}

impl<'t> View<'t> {
    /// The tentative state of a batch.
    pub(crate) fn of_batch(parts: BatchParts<'t>) -> Self {
        let BatchParts { ground, layers, memory, dictionary, counters, names, uses } = parts;
        Self {
            ground: Held::OfBatch(ground),
            layers,
            memory: Some(memory),
            dictionary,
            counters,
            names: Names::OfBatch(names),
            uses: Counted::OfWriter(uses),
            first_context: OnceCell::new(),
        }
    }

    #[inline]
    fn stack(&self) -> Stack<'_> {
        Stack { memory: self.memory, layers: &self.layers, ground: &self.ground }
    }

    /// The number of the last change that is in this view.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        Lsn(self.counters.lsn)
    }

    /// The place of the last change in the history.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.counters.mark()
    }

    /// The attribute ids this view uses.
    #[must_use]
    pub const fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// The schema in force when the view was made.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.dictionary.schema()
    }

    /// The naming contexts.
    #[must_use]
    pub fn naming_contexts(&self) -> &NamingContexts {
        self.dictionary.contexts()
    }

    /// Notes that an index was asked.
    #[inline]
    pub(crate) fn note_index(&self, id: u16) {
        self.uses.index(id);
    }

    /// Finds the entry with this name.
    pub fn resolve(&self, name: &DnKey) -> Result<Resolved, StoreError> {
        let bytes = name.as_bytes();
        let mut contexts = self.dictionary.contexts().all().iter();
        let Some(context) = contexts.find(|context| name.is_within(&context.key)) else {
            return Ok(Resolved::NoContext);
        };
        let base = context.key.as_bytes().len();
        let superior = superior_length(bytes);
        if superior >= base {
            let parent = bytes.get(..superior).and_then(|key| self.names.borrow().id(key));
            self.uses.name(parent.is_some());
            if let Some(parent) = parent {
                let leaf = bytes.get(superior..bytes.len() - 1).unwrap_or_default();
                return Ok(match self.child(parent, leaf)? {
                    Some(id) => Resolved::Found(EntryId(id)),
                    None => Resolved::Missing { nearest: Some(EntryId(parent)) },
                });
            }
        }
        let Some(mut found) = self.context_entry(context)? else {
            return Ok(Resolved::Missing { nearest: None });
        };
        let mut start = base;
        while start < bytes.len() {
            let rest = bytes.get(start..).unwrap_or_default();
            let length = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            let Some(id) = self.child(found, rest.get(..length).unwrap_or_default())? else {
                return Ok(Resolved::Missing { nearest: Some(EntryId(found)) });
            };
            // Only what has subordinates may be remembered, and this has one.
            self.names.borrow_mut().put_id(bytes.get(..start).unwrap_or_default(), found);
            found = id;
            start += length + 1;
        }
        Ok(Resolved::Found(EntryId(found)))
    }

    /// The entry at the top of a naming context.
    fn context_entry(&self, context: &Context) -> Result<Option<u64>, StoreError> {
        let is_first =
            self.dictionary.contexts().all().first().is_some_and(|first| first.key == context.key);
        if is_first && let Some(known) = self.first_context.get() {
            return Ok(*known);
        }
        let whole = context.key.as_bytes();
        let found = self.child(0, whole.get(..whole.len() - 1).unwrap_or_default())?;
        if is_first {
            // Set once: a view is one point in time.
            let _ = self.first_context.set(found);
        }
        Ok(found)
    }

    /// The entry with this RDN below `parent`.
    pub(crate) fn child(&self, parent: u64, rdn_key: &[u8]) -> Result<Option<u64>, StoreError> {
        let slot = SlotKey::name(parent, rdn_key);
        let known = self.ground.remembered(slot.as_ref(), &self.uses);
        if self.stack().is_bare()
            && let Some(known) = known
        {
            return Ok(known);
        }
        let (row_key, is_shortened) = RowKey::name(parent, rdn_key);
        let key = row_key.as_bytes();
        let find = |row| names::find_in_row(row, rdn_key, is_shortened);
        if let Some(row) = self.stack().changed(PlainTable::Names, key) {
            return row.map_or(Ok(None), find);
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let row = self.ground.snapshot.get(self.ground.tables.names, key)?;
        let id = row.map_or(Ok(None), find)?;
        self.ground.remember(slot.as_ref(), id, &self.uses);
        Ok(id)
    }

    /// Reads an entry; none when there is no entry with this id.
    #[inline]
    pub fn entry(&self, id: EntryId) -> Result<Option<StoredEntry<'_>>, StoreError> {
        if let Some(row) = self.stack().changed(PlainTable::Entries, &id.0.to_be_bytes()) {
            return row.map(|row| self.stored(id.0, row)).transpose();
        }
        if let Some(row) = self.ground.known_record(id.0) {
            return self.read(id.0, row, IsChecked(true)).map(Some);
        }
        let Some((row, place)) = self.ground.record(id.0)? else { return Ok(None) };
        let stored = self.stored(id.0, row)?;
        self.ground.remember_place(id.0, place);
        Ok(Some(stored))
    }

    /// An entry that a posting list or a name leads to.
    pub(crate) fn expect_entry(&self, id: u64) -> Result<StoredEntry<'_>, StoreError> {
        self.entry(EntryId(id))?.ok_or_else(|| StoreError::corrupt(ENTRIES, id, "is missing"))
    }

    #[inline]
    fn stored<'v>(&'v self, id: u64, row: &'v [u8]) -> Result<StoredEntry<'v>, StoreError> {
        self.read(id, row, IsChecked(false))
    }

    #[inline]
    fn read<'v>(
        &'v self,
        id: u64,
        row: &'v [u8],
        is_checked: IsChecked,
    ) -> Result<StoredEntry<'v>, StoreError> {
        let damaged = |reason| StoreError::corrupt(ENTRIES, id, reason);
        let head = RecordHead::parse(row).map_err(damaged)?;
        let superior = self.parent_dn(head.parent)?;
        StoredEntry::new(EntryId(id), &head, is_checked, superior, self).map_err(damaged)
    }

    /// The name of an entry, as text.
    pub fn dn(&self, id: EntryId) -> Result<String, StoreError> {
        if id == EntryId::ROOT {
            return Ok(String::new());
        }
        let entry = self.expect_entry(id.0)?;
        Ok(join(entry.rdn(), entry.superior_dn()))
    }

    /// The subordinates one level below `parent`, in the order of their RDN keys.
    pub fn children(
        &self,
        parent: EntryId,
    ) -> Result<impl Iterator<Item = Result<EntryId, StoreError>> + '_, StoreError> {
        let prefix = parent.0.to_be_bytes();
        let rows = self.stack().rows(PlainTable::Names, &prefix, &prefix)?;
        Ok(rows.flat_map(|row| {
            let ids = row.and_then(|(key, row)| names::ids_in_row(key, row));
            let (ids, error) = match ids {
                Ok(ids) => (ids, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            ids.into_iter().map(|id| Ok(EntryId(id))).chain(error)
        }))
    }

    /// How many subordinates an entry has one level below it.
    pub fn child_count(&self, parent: EntryId) -> Result<u64, StoreError> {
        match self.stack().get(PlainTable::Children, &parent.0.to_be_bytes())? {
            None => Ok(0),
            Some(row) => {
                key::id(row).ok_or_else(|| StoreError::corrupt(CHILDREN, parent.0, "is no number"))
            }
        }
    }

    /// The list of those entries one level below `parent` that have subordinates themselves; none
    /// when there are none.
    pub(crate) fn branches(&self, parent: EntryId) -> Result<Option<List<'_>>, StoreError> {
        self.list(BRANCH_LISTS, &parent.0.to_be_bytes())
    }

    /// The values of a setting of the directory; none when it is not set.
    pub fn setting(&self, name: &str) -> Result<Vec<String>, StoreError> {
        if let Some(values) = self.dictionary().setting(name) {
            return Ok(values.to_vec());
        }
        if meta::is_at_hand(name) {
            return Ok(Vec::new());
        }
        let key = meta::setting_key(name)?;
        match self.stack().get(PlainTable::Meta, key.as_bytes())? {
            Some(row) => meta::setting_values(&key, row),
            None => Ok(Vec::new()),
        }
    }

    /// The values of a setting as they are kept at hand, the same ones until it changes; none when
    /// it is not set, or changes with entries.
    #[inline]
    pub fn setting_at_hand(&self, name: &str) -> Option<&Arc<[String]>> {
        self.dictionary().setting(name)
    }

    /// Whether values of an attribute may be kept by number: see `may_be_listed` of the dictionary.
    pub fn may_be_listed(&self, description: &AttributeDescription) -> bool {
        let dictionary = self.dictionary();
        dictionary.id(description).is_some_and(|id| dictionary.may_be_listed(id))
    }

    /// Whether there are values of an attribute, or were, and none is ever kept by number.
    pub fn is_never_listed(&self, description: &AttributeDescription) -> bool {
        let dictionary = self.dictionary();
        dictionary.id(description).is_some_and(|id| !dictionary.may_be_listed(id))
    }

    /// What records may say, as the last of them that told it has it; none before the first.
    pub fn record_level(&self) -> Result<Option<u16>, StoreError> {
        meta::record_level(&self.setting(meta::LEVEL)?)
    }

    /// The definitions that were added online, as lines.
    pub(crate) fn schema_definitions(&self) -> Result<Vec<String>, StoreError> {
        let prefix = meta::SCHEMA.as_bytes();
        let rows = self.stack().rows(PlainTable::Meta, prefix, prefix)?;
        rows.map(|row| {
            let (key, text) = row?;
            let text = std::str::from_utf8(text);
            let text =
                text.map_err(|_| StoreError::corrupt(META, key::display(key), "is not text"));
            Ok(text?.to_owned())
        })
        .collect()
    }

    /// The id that the next entry gets.
    #[must_use]
    pub const fn next_entry_id(&self) -> EntryId {
        EntryId(self.counters.next_entry_id)
    }

    /// How many entries there are.
    pub fn entry_count(&self) -> Result<u64, StoreError> {
        Ok(self.counters.entry_count)
    }

    /// Whether `entry` is `base` or one of its subordinates; everything is within the root.
    pub fn is_within(&self, entry: &StoredEntry<'_>, base: EntryId) -> Result<bool, StoreError> {
        if base == EntryId::ROOT || entry.id() == base {
            return Ok(true);
        }
        let mut next = entry.parent().0;
        for _ in 0..TREE_DEPTH_MAX {
            if next == base.0 {
                return Ok(true);
            }
            if next == 0 {
                return Ok(false);
            }
            next = self.known_parent(next)?.parent;
        }
        Err(StoreError::corrupt(ENTRIES, entry.id().0, "is its own superior"))
    }

    /// Whether any entry has a value of this attribute; yes when no index tells.
    pub fn has_any(&self, description: &AttributeDescription) -> Result<bool, StoreError> {
        match self.dictionary.index(&description.kind, IndexKind::Presence) {
            Some(index) => {
                self.note_index(index.id);
                Ok(self.list(index.id, &[])?.is_some_and(|list| list.count() > 0))
            }
            None => Ok(true),
        }
    }

    /// Whether all entries are below this one, or are it.
    pub(crate) fn is_everything(&self, base: EntryId) -> Result<bool, StoreError> {
        if base == EntryId::ROOT {
            return Ok(true);
        }
        match self.dictionary.contexts().all() {
            [only] => Ok(self.context_entry(only)? == Some(base.0)),
            _ => Ok(false),
        }
    }

    /// Entries after `after` in the order of their ids; [`EntryId::ROOT`] is before all.
    pub fn entries_after(
        &self,
        after: EntryId,
    ) -> Result<impl Iterator<Item = Result<StoredEntry<'_>, StoreError>>, StoreError> {
        self.scan(after.0)
    }

    /// Entries after `after` in the order of their ids.
    pub(crate) fn scan(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<StoredEntry<'_>, StoreError>>, StoreError> {
        let start = after.saturating_add(1).to_be_bytes();
        let rows = self.stack().rows(PlainTable::Entries, &start, &[])?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            let id = key::id(key).filter(|&id| id != 0);
            let id =
                id.ok_or_else(|| StoreError::corrupt(ENTRIES, key::display(key), "is no id"))?;
            self.stored(id, row)
        }))
    }

    /// The rows of a table from the key `from` on that begin with `prefix`, as they are stored.
    pub(crate) fn rows(
        &self,
        table: PlainTable,
        from: &[u8],
        prefix: &[u8],
    ) -> Result<MergedRows<'_>, StoreError> {
        self.stack().rows(table, from, prefix)
    }

    #[inline]
    fn parent_dn(&self, parent: u64) -> Result<Arc<str>, StoreError> {
        Ok(self.known_parent(parent)?.dn)
    }

    /// An entry that has subordinates, or the root.
    fn known_parent(&self, id: u64) -> Result<KnownParent, StoreError> {
        if id == 0 {
            return Ok(KnownParent { dn: Arc::default(), parent: 0 });
        }
        if let Some(known) = self.names.borrow().parent(id) {
            self.uses.name(true);
            return Ok(known.clone());
        }
        self.uses.name(false);
        // From the entry up to what is known, and down again.
        let mut unknown = Vec::new();
        let mut next = id;
        let mut known = loop {
            if next == 0 {
                break KnownParent { dn: Arc::default(), parent: 0 };
            }
            if let Some(known) = self.names.borrow().parent(next) {
                break known.clone();
            }
            if unknown.len() >= TREE_DEPTH_MAX {
                return Err(StoreError::corrupt(ENTRIES, id, "is its own superior"));
            }
            let Some(row) = self.stack().get(PlainTable::Entries, &next.to_be_bytes())? else {
                return Err(StoreError::corrupt(NAMES, next, "has subordinates and is no entry"));
            };
            let record = RecordHead::parse(row);
            let record = record.map_err(|reason| StoreError::corrupt(ENTRIES, next, reason))?;
            unknown.push((next, record));
            next = record.parent;
        };
        while let Some((id, record)) = unknown.pop() {
            known = KnownParent { dn: join(record.rdn, &known.dn).into(), parent: record.parent };
            self.names.borrow_mut().put_parent(id, known.clone());
        }
        Ok(known)
    }
}

/// The length of the superior's key.
fn superior_length(dn_key: &[u8]) -> usize {
    let without_end = dn_key.len().saturating_sub(1);
    let rest = dn_key.get(..without_end).unwrap_or_default();
    rest.iter().rposition(|&byte| byte == 0).map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests;
