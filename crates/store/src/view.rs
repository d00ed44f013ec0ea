//! Views: the directory at one point in time, for readers, or in the tentative state of a batch.
//!
//! Invariant: everything read through one view is from the same snapshot. Rows that contradict what
//! the writer guarantees are [`StoreError::Corrupt`], never guessed around.

mod lists;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, EntryId, Schema};

pub(crate) use lists::List;

use crate::deltas::Deltas;
use crate::dictionary::Dictionary;
use crate::entry::{StoredEntry, join};
use crate::error::StoreError;
use crate::index::IndexKind;
use crate::key::{self, RowKey};
use crate::lmdb::{CHILDREN, ENTRIES, NAMES, Snapshot, Tables};
use crate::meta::{Counters, Lsn};
use crate::names::{self, KnownParent, NameCache};
use crate::record::Record;
use crate::store::Context;

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
    snapshot: Snapshot<'t>,
    /// What the batch has changed in posting lists and not yet written.
    deltas: Option<&'t Deltas>,
    tables: Tables,
    contexts: Arc<[Context]>,
    dictionary: Arc<Dictionary>,
    counters: Counters,
    names: Names<'t>,
    /// The entry at the top of the first naming context, once looked up: every search asks for it.
    first_context: OnceCell<Option<u64>>,
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

/// What a view takes from its store.
pub(crate) struct ViewParts {
    pub(crate) tables: Tables,
    pub(crate) contexts: Arc<[Context]>,
    pub(crate) dictionary: Arc<Dictionary>,
}

impl View<'static> {
    /// The view of a reader, which lends what it remembers of names.
    pub(crate) fn of_reader(
        snapshot: Snapshot<'static>,
        parts: ViewParts,
        counters: Counters,
        names: NameCache,
    ) -> Self {
        let names = Names::Own(RefCell::new(names.renewed(counters.names_moved)));
        let ViewParts { tables, contexts, dictionary } = parts;
        let first_context = OnceCell::new();
        Self {
            snapshot,
            deltas: None,
            tables,
            contexts,
            dictionary,
            counters,
            names,
            first_context,
        }
    }

    /// Ends the view; what it remembers of names is for the next one.
    pub(crate) fn into_names(self) -> NameCache {
        match self.names {
            Names::Own(names) => names.into_inner(),
            Names::OfBatch(names) => names.take(),
        }
    }
}

impl<'t> View<'t> {
    /// The tentative state of a batch.
    pub(crate) fn of_batch(
        snapshot: Snapshot<'t>,
        deltas: &'t Deltas,
        parts: ViewParts,
        counters: Counters,
        names: &'t RefCell<NameCache>,
    ) -> Self {
        let ViewParts { tables, contexts, dictionary } = parts;
        let names = Names::OfBatch(names);
        let (deltas, first_context) = (Some(deltas), OnceCell::new());
        Self { snapshot, deltas, tables, contexts, dictionary, counters, names, first_context }
    }

    /// The number of the last change that is in this view.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        Lsn(self.counters.lsn)
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

    /// Finds the entry with this name.
    pub fn resolve(&self, name: &DnKey) -> Result<Resolved, StoreError> {
        let bytes = name.as_bytes();
        let mut contexts = self.contexts.iter();
        let Some(context) = contexts.find(|context| name.is_within(&context.key)) else {
            return Ok(Resolved::NoContext);
        };
        let base = context.key.as_bytes().len();
        let superior = superior_length(bytes);
        if superior >= base
            && let Some(parent) = bytes.get(..superior).and_then(|key| self.names.borrow().id(key))
        {
            let leaf = bytes.get(superior..bytes.len() - 1).unwrap_or_default();
            return Ok(match self.child(parent, leaf)? {
                Some(id) => Resolved::Found(EntryId(id)),
                None => Resolved::Missing { nearest: Some(EntryId(parent)) },
            });
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
        let is_first = self.contexts.first().is_some_and(|first| first.key == context.key);
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
        let (row_key, is_shortened) = RowKey::name(parent, rdn_key);
        match self.snapshot.get(self.tables.names, row_key.as_bytes())? {
            Some(row) => names::find_in_row(row, rdn_key, is_shortened),
            None => Ok(None),
        }
    }

    /// Reads an entry; none when there is no entry with this id.
    #[inline]
    pub fn entry(&self, id: EntryId) -> Result<Option<StoredEntry<'_>>, StoreError> {
        match self.snapshot.get(self.tables.entries, &id.0.to_be_bytes())? {
            Some(row) => self.stored(id.0, row).map(Some),
            None => Ok(None),
        }
    }

    /// An entry that a posting list or a name leads to.
    pub(crate) fn expect_entry(&self, id: u64) -> Result<StoredEntry<'_>, StoreError> {
        self.entry(EntryId(id))?.ok_or_else(|| StoreError::corrupt(ENTRIES, id, "is missing"))
    }

    #[inline]
    fn stored<'v>(&'v self, id: u64, row: &'v [u8]) -> Result<StoredEntry<'v>, StoreError> {
        let record = Record::parse(row, self.dictionary.len());
        let record = record.map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
        let superior = self.parent_dn(record.parent)?;
        Ok(StoredEntry::new(EntryId(id), record, superior, &self.dictionary))
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
        let rows = self.tables.names.prefix_iter(self.snapshot.txn(), &prefix)?;
        Ok(rows.flat_map(|row| {
            let ids = row.map_err(StoreError::from);
            let ids = ids.and_then(|(key, row)| names::ids_in_row(key, row));
            let (ids, error) = match ids {
                Ok(ids) => (ids, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            ids.into_iter().map(|id| Ok(EntryId(id))).chain(error)
        }))
    }

    /// How many subordinates an entry has one level below it.
    pub fn child_count(&self, parent: EntryId) -> Result<u64, StoreError> {
        match self.snapshot.get(self.tables.children, &parent.0.to_be_bytes())? {
            None => Ok(0),
            Some(row) => {
                key::id(row).ok_or_else(|| StoreError::corrupt(CHILDREN, parent.0, "is no number"))
            }
        }
    }

    /// How many entries there are.
    pub fn entry_count(&self) -> Result<u64, StoreError> {
        Ok(self.tables.entries.len(self.snapshot.txn())?)
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
            Some(index) => Ok(self.list(index.id, &[])?.is_some_and(|list| list.count() > 0)),
            None => Ok(true),
        }
    }

    /// Whether all entries are below this one, or are it.
    pub(crate) fn is_everything(&self, base: EntryId) -> Result<bool, StoreError> {
        if base == EntryId::ROOT {
            return Ok(true);
        }
        match &*self.contexts {
            [only] => Ok(self.context_entry(only)? == Some(base.0)),
            _ => Ok(false),
        }
    }

    /// Entries after `after` in the order of their ids.
    pub(crate) fn scan(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<StoredEntry<'_>, StoreError>>, StoreError> {
        let start = after.saturating_add(1).to_be_bytes();
        let range = (std::ops::Bound::Included(&start[..]), std::ops::Bound::Unbounded);
        let rows = self.tables.entries.range(self.snapshot.txn(), &range)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            let id = key::id(key).filter(|&id| id != 0);
            let id =
                id.ok_or_else(|| StoreError::corrupt(ENTRIES, key::display(key), "is no id"))?;
            self.stored(id, row)
        }))
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
            return Ok(known.clone());
        }
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
            let Some(row) = self.snapshot.get(self.tables.entries, &next.to_be_bytes())? else {
                return Err(StoreError::corrupt(NAMES, next, "has subordinates and is no entry"));
            };
            let record = Record::parse(row, self.dictionary.len());
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
