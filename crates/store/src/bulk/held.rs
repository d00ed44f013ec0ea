//! Entries that the store holds and keeps: their names before the load, their lists at its end.
//!
//! Invariant: a point in time of the base is read, and the base does not change meanwhile.

use std::ops::Bound;
use std::sync::Arc;

use heed::RoRange;
use heed::types::Bytes;
use ldap::message::Scope;
use rustc_hash::{FxHashMap, FxHashSet};
use schema::{Assertion, EntryId, ResolvedFilter};

use super::BulkError;
use super::budget::Budget;
use super::names::{NameHasher, NameMap};
use crate::base::lmdb::{CHILDREN, Environment, NAMES, POSTINGS, Snapshot, Table};
use crate::error::StoreError;
use crate::index::posting::{Chunk, Head, Span, Width};
use crate::index::{BRANCH_LISTS, LEVEL_LISTS, TARGET_LISTS};
use crate::read::plan::Ask;
use crate::read::view::{Memories, key_parts};
use crate::rows::dictionary::Dictionary;
use crate::rows::key::{self, PostingKey, display};
use crate::rows::names::row_items;
use crate::store::Store;

/// What a table of the base is to a merge.
#[derive(Debug)]
pub(super) struct HeldTable {
    snapshot: Snapshot,
    table: Table,
    form: HeldForm,
}

#[derive(Clone, Debug)]
enum HeldForm {
    Names,
    /// Posting lists, of the indexes that are written.
    Postings(Arc<Dictionary>),
}

impl HeldTable {
    pub(super) fn names(environment: &Environment) -> Result<Self, StoreError> {
        let (snapshot, table) = (environment.snapshot()?, environment.tables.names);
        Ok(Self { snapshot, table, form: HeldForm::Names })
    }

    pub(super) fn postings(
        environment: &Environment,
        dictionary: &Arc<Dictionary>,
    ) -> Result<Self, StoreError> {
        let (snapshot, table) = (environment.snapshot()?, environment.tables.postings);
        Ok(Self { snapshot, table, form: HeldForm::Postings(Arc::clone(dictionary)) })
    }

    /// Reads from a key on; keys of a merge begin with the number of an index, that of names is 0.
    pub(super) fn reader(&self, from: &[u8]) -> Result<HeldReader<'_>, StoreError> {
        let mut start = match &self.form {
            HeldForm::Names => from.get(2..).unwrap_or_default().to_vec(),
            HeldForm::Postings(_) => match from.split_first_chunk() {
                Some((index, value)) => {
                    let mut start = Vec::new();
                    key::append_postings(u16::from_be_bytes(*index), value, &mut start);
                    start
                }
                None => Vec::new(),
            },
        };
        if start.is_empty() {
            // LMDB does not look for an empty key; every one there is comes after this.
            start.push(0);
        }
        let range = (Bound::Included(start.as_slice()), Bound::Unbounded);
        let rows = self.table.range(self.snapshot.txn(), &range)?;
        let (next, key, spans) = (None, Vec::new(), Vec::new());
        Ok(HeldReader { form: &self.form, rows, next, key, spans })
    }
}

type Row<'r> = (&'r [u8], &'r [u8]);

/// Reads keys of a table of the base and the ids that have them.
pub(super) struct HeldReader<'r> {
    form: &'r HeldForm,
    rows: RoRange<'r, Bytes, Bytes>,
    /// A row that was read and is not of the list before it.
    next: Option<Row<'r>>,
    key: Vec<u8>,
    spans: Vec<Span>,
}

impl std::fmt::Debug for HeldReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldReader").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'r> HeldReader<'r> {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    fn index(&self) -> Option<u16> {
        self.key.first_chunk().map(|index| u16::from_be_bytes(*index))
    }

    /// Whether the key is that of a list of the tree, or of those that an entry names: what is
    /// replaced keeps its place there.
    pub(super) fn is_of_tree(&self) -> bool {
        matches!(self.index(), Some(LEVEL_LISTS | BRANCH_LISTS | TARGET_LISTS))
    }

    /// The entry that names those of the list; none when it is no such list.
    pub(super) fn source(&self) -> Option<u64> {
        self.index().filter(|index| *index == TARGET_LISTS)?;
        key_parts(self.key.get(2..)?).map(|(_, source)| source)
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    fn row(&mut self) -> Result<Option<Row<'r>>, StoreError> {
        match self.next.take() {
            Some(row) => Ok(Some(row)),
            None => Ok(self.rows.next().transpose()?),
        }
    }

    /// Goes to the next key; false when there is none.
    pub(super) fn advance(&mut self) -> Result<bool, StoreError> {
        match self.form {
            HeldForm::Names => self.advance_names(),
            HeldForm::Postings(dictionary) => {
                let dictionary = Arc::clone(dictionary);
                self.advance_postings(&dictionary)
            }
        }
    }

    fn advance_names(&mut self) -> Result<bool, StoreError> {
        let Some((key, row)) = self.row()? else { return Ok(false) };
        self.key.clear();
        self.key.extend_from_slice(&[0, 0]);
        self.key.extend_from_slice(key);
        self.spans.clear();
        for (id, _) in row_items(key, row)? {
            self.spans.push(Span { first: id, last: id });
        }
        self.spans.sort();
        Ok(true)
    }

    fn advance_postings(&mut self, dictionary: &Dictionary) -> Result<bool, StoreError> {
        loop {
            let Some((head, row)) = self.row()? else { return Ok(false) };
            let damaged = || StoreError::corrupt(POSTINGS, display(head), "is not well formed");
            let parsed = PostingKey::parse(head).ok_or_else(damaged)?;
            let is_written = parsed.index >= LEVEL_LISTS
                || dictionary
                    .index_with_id(parsed.index)
                    .is_some_and(|index| index.state.is_written());
            if parsed.chunk.is_some() {
                // Of a list that is left out.
                if is_written { return Err(damaged()) } else { continue }
            }
            self.spans.clear();
            match Head::read(row).ok_or_else(damaged)? {
                Head::Inline(ids) => {
                    self.spans.extend(ids.map(|id| Span { first: id, last: id }));
                }
                Head::Chunked(_, width) => self.chunks(head, width)?,
            }
            if is_written {
                self.key.clear();
                self.key.extend_from_slice(&parsed.index.to_be_bytes());
                self.key.extend_from_slice(&parsed.value);
                return Ok(true);
            }
        }
    }

    fn chunks(&mut self, head: &[u8], width: Width) -> Result<(), StoreError> {
        while let Some((row_key, row)) = self.row()? {
            let number = row_key.strip_prefix(head);
            let Some(&[a, b, c, d, e, f, g]) = number else {
                self.next = Some((row_key, row));
                return Ok(());
            };
            let number = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
            let chunk = Chunk::read(row).filter(|chunk| chunk.is_well_formed(width));
            let chunk = chunk.ok_or_else(|| {
                StoreError::corrupt(POSTINGS, display(row_key), "is not well formed")
            })?;
            chunk.for_each_run(|run| {
                let (first, last) = (width.id_at(number, run.first), width.id_at(number, run.last));
                match self.spans.last_mut() {
                    Some(before) if before.last + 1 == first => before.last = last,
                    _ => self.spans.push(Span { first, last }),
                }
            });
        }
        Ok(())
    }
}

/// What is known of the entries that the store holds.
#[derive(Debug, Default)]
pub(super) struct HeldNames {
    /// How many subordinates each superior has, or had once.
    pub(super) children: FxHashMap<u64, u64>,
    /// Whole RDN keys of those that are too long for a row, by entry id.
    pub(super) long: FxHashMap<u64, Box<[u8]>>,
}

/// Puts the names of all entries of the base into the map.
pub(super) fn read_names(
    environment: &Environment,
    budget: &Budget,
    hasher: NameHasher,
    names: &mut NameMap,
) -> Result<HeldNames, BulkError> {
    let snapshot = environment.snapshot()?;
    let (txn, tables) = (snapshot.txn(), environment.tables);
    let (mut held, mut count) = (HeldNames::default(), 0_u64);
    for row in tables.children.iter(txn)? {
        let (row_key, row) = row?;
        let damaged = || StoreError::corrupt(CHILDREN, display(row_key), "is no number");
        let parent = key::id(row_key).ok_or_else(damaged)?;
        held.children.insert(parent, key::id(row).ok_or_else(damaged)?);
    }
    // From the root down: a name has the hash of its superior's in it.
    let mut superiors = vec![(0, None)];
    while let Some((parent, hash)) = superiors.pop() {
        for row in tables.names.prefix_iter(txn, &u64::to_be_bytes(parent))? {
            let (row_key, row) = row?;
            for (id, whole) in row_items(row_key, row)? {
                let rdn_key = match whole {
                    Some(whole) => {
                        held.long.insert(id, whole.into());
                        whole
                    }
                    None => row_key.get(8..).unwrap_or_default(),
                };
                let hash = match hash {
                    None => hasher.of_naming_context(rdn_key),
                    Some(above) => hasher.below(above, rdn_key),
                };
                if names.insert(hash, id).is_err() {
                    let reason = "is the name of several entries";
                    return Err(StoreError::corrupt(NAMES, display(row_key), reason).into());
                }
                count += 1;
                if count.is_multiple_of(NAMES_BETWEEN) {
                    budget.put_names(names.bytes(), count)?;
                }
                if held.children.get(&id).is_some_and(|count| *count > 0) {
                    superiors.push((id, Some(hash)));
                }
            }
        }
    }
    Ok(held)
}

/// The memory that names take is looked at after so many.
const NAMES_BETWEEN: u64 = 4096;

/// The ids of all aliases that a store holds.
pub(super) fn aliases(store: &Store) -> Result<FxHashSet<u64>, StoreError> {
    let view = store.snapshot(Memories::default())?;
    let schema = store.schema();
    let known = schema.well_known();
    let of_class = Assertion::equality(&schema, known.object_class.clone(), b"alias");
    let Ok(of_class) = of_class else { return Ok(FxHashSet::default()) };
    let filter = ResolvedFilter::Equality(of_class);
    let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
    let mut aliases = FxHashSet::default();
    for entry in plan.entries(&view, EntryId::ROOT) {
        let entry = entry?;
        if known.is_alias(&entry) {
            aliases.insert(entry.id().0);
        }
    }
    Ok(aliases)
}
