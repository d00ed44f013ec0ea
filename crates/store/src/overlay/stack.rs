//! The rows of one point in time: the open layer of a batch, sealed layers, and the base.
//!
//! Invariant: for each key the newest says what holds. Posting lists are read in
//! `read/view/lists.rs`.

use std::cell::RefCell;
use std::sync::Arc;
use std::vec;

use heed::RoRange;
use heed::types::Bytes;

use crate::base::lmdb::{Place, PlacedRow, PlainTable, Snapshot, Tables};
use crate::base::meta::{self, Counters};
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::cells::row_hash;
use crate::overlay::layer::{Layer, Row, RowsFrom};
use crate::overlay::memtable::Memory;
use crate::overlay::version::Version;
use crate::read::row_cache::{Remembered, SlotKey};
use crate::read::uses::Uses;

/// The base at one point in time.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) snapshot: Snapshot,
    /// Which base of the store it is.
    pub(crate) number: u64,
    /// The last change in it.
    pub(crate) lsn: Lsn,
    /// How often an index became valid in it.
    pub(crate) index_epoch: u64,
    pub(crate) tables: Tables,
    /// What its reader has found in it lately; batches do without.
    pub(crate) remembered: Option<RefCell<Remembered>>,
}

impl Ground {
    /// The base of a version as of its last commit, which may be one that the version does not
    /// know of.
    pub(crate) fn take(version: &Version) -> Result<Self, StoreError> {
        let snapshot = version.environment.snapshot()?;
        let tables = version.environment.tables;
        let lsn = Lsn(Counters::read(tables.meta, snapshot.txn())?.lsn);
        let index_epoch = meta::index_epoch(tables.meta, snapshot.txn())?;
        let number = version.number;
        Ok(Self { snapshot, number, lsn, index_epoch, tables, remembered: None })
    }

    /// What a row leads to, if that is remembered: an entry, or none.
    #[inline]
    pub(crate) fn remembered(&self, key: Option<&SlotKey>, uses: &Uses) -> Option<Option<u64>> {
        let (remembered, commit) = (self.remembered.as_ref()?, self.snapshot.commit()?);
        let found = remembered.borrow_mut().find(commit, key?)?;
        Snapshot::prefetch(found.place);
        uses.row(true);
        Some(found.id)
    }

    /// Remembers what a row leads to: an entry, or none.
    pub(crate) fn remember(&self, key: Option<&SlotKey>, id: Option<u64>, uses: &Uses) {
        if let (Some(remembered), Some(key)) = (&self.remembered, key)
            && let Some(commit) = self.snapshot.commit()
        {
            remembered.borrow_mut().put(commit, key, id);
            uses.row(false);
        }
    }

    /// The record of an entry, if it is remembered where it lies: it was read through then.
    #[inline]
    pub(crate) fn known_record(&self, id: u64) -> Option<&[u8]> {
        let place = self.remembered.as_ref()?.borrow().place(id)?;
        self.snapshot.at(place)
    }

    /// The record of an entry, and where it lies if that may be remembered.
    pub(crate) fn record(&self, id: u64) -> Result<Option<PlacedRow<'_>>, StoreError> {
        self.snapshot.find(self.tables.entries, &id.to_be_bytes())
    }

    /// Remembers where the record of an entry lies, after it was read through.
    pub(crate) fn remember_place(&self, id: u64, place: Option<Place>) {
        if let (Some(remembered), Some(place)) = (&self.remembered, place) {
            remembered.borrow_mut().put_place(id, place);
        }
    }
}

/// Where rows are looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack<'v> {
    /// What a batch has changed so far.
    pub(crate) memory: Option<&'v Memory>,
    /// From the oldest to the newest.
    pub(crate) layers: &'v [Arc<Layer>],
    pub(crate) ground: &'v Ground,
}

impl<'v> Stack<'v> {
    /// Reads a row.
    #[inline]
    pub(crate) fn get(
        &self,
        table: PlainTable,
        key: &[u8],
    ) -> Result<Option<&'v [u8]>, StoreError> {
        match self.changed(table, key) {
            Some(found) => Ok(found),
            None => match self.ground.tables.plain(table) {
                Some(table) => self.ground.snapshot.get(table, key),
                None => Ok(None),
            },
        }
    }

    /// There is nothing over the base.
    #[inline]
    pub(crate) const fn is_bare(&self) -> bool {
        self.layers.is_empty() && self.memory.is_none()
    }

    /// What lies over the base for a row: another one, or that it is gone.
    #[inline]
    pub(crate) fn changed(&self, table: PlainTable, key: &[u8]) -> Option<Option<&'v [u8]>> {
        if self.is_bare() { None } else { self.changed_row(table, key) }
    }

    fn changed_row(&self, table: PlainTable, key: &[u8]) -> Option<Option<&'v [u8]>> {
        let hash = row_hash(key);
        if let Some(found) = self.memory.and_then(|memory| memory.get(table, hash, key)) {
            return Some(found);
        }
        self.layers.iter().rev().find_map(|layer| layer.get(table, hash, key))
    }

    /// The rows whose keys start with `prefix` and are `from` or after it, in order.
    pub(crate) fn rows(
        &self,
        table: PlainTable,
        from: &[u8],
        prefix: &[u8],
    ) -> Result<MergedRows<'v>, StoreError> {
        let range = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let base = match self.ground.tables.plain(table) {
            Some(table) => Some(table.range(self.ground.snapshot.txn(), &range)?),
            None => None,
        };
        let mut changed = Vec::new();
        if let Some(memory) = self.memory {
            changed.push(Changed::open(memory.rows_in(table, from, prefix)));
        }
        for layer in self.layers.iter().rev() {
            changed.push(Changed::sealed(layer.rows(table).iter_from(from)));
        }
        changed.retain(|changed| changed.next.is_some());
        let first = first_of(&changed);
        Ok(MergedRows { base, from_base: None, changed, first, prefix: prefix.into() })
    }
}

/// The changed rows of one layer, with the next one read.
struct Changed<'v> {
    next: Option<Row<'v>>,
    rest: Rest<'v>,
}

enum Rest<'v> {
    Open(vec::IntoIter<Row<'v>>),
    Sealed(RowsFrom<'v>),
}

impl<'v> Changed<'v> {
    fn open(rows: Vec<Row<'v>>) -> Self {
        let mut rows = rows.into_iter();
        Self { next: rows.next(), rest: Rest::Open(rows) }
    }

    fn sealed(mut rows: RowsFrom<'v>) -> Self {
        Self { next: rows.next(), rest: Rest::Sealed(rows) }
    }

    fn step(&mut self) {
        self.next = match &mut self.rest {
            Rest::Open(rows) => rows.next(),
            Rest::Sealed(rows) => rows.next(),
        };
    }
}

/// Walks rows in the order of their keys.
pub(crate) struct MergedRows<'v> {
    /// None where the base has no such table.
    base: Option<RoRange<'v, Bytes, Bytes>>,
    /// A row of the base that was read and is not its turn yet.
    from_base: Option<(&'v [u8], &'v [u8])>,
    /// From the newest to the oldest.
    changed: Vec<Changed<'v>>,
    /// Of the changed rows the one whose turn is next, from the newest layer that has it.
    first: Option<Row<'v>>,
    prefix: Box<[u8]>,
}

/// The row with the first key; of several, the newest.
fn first_of<'v>(changed: &[Changed<'v>]) -> Option<Row<'v>> {
    // `min_by_key` takes the first of equal ones.
    changed.iter().filter_map(|one| one.next).min_by_key(|row| row.key)
}

/// Key and value.
type KeyValue<'v> = (&'v [u8], &'v [u8]);

impl<'v> MergedRows<'v> {
    fn merged(&mut self) -> Result<Option<KeyValue<'v>>, StoreError> {
        loop {
            if self.from_base.is_none() {
                self.from_base = self.base.as_mut().and_then(Iterator::next).transpose()?;
            }
            let Some(first) = self.first else { return Ok(self.from_base.take()) };
            if let Some((key, _)) = self.from_base
                && key < first.key
            {
                return Ok(self.from_base.take());
            }
            if self.from_base.is_some_and(|(key, _)| key == first.key) {
                self.from_base = None;
            }
            for changed in &mut self.changed {
                if changed.next.is_some_and(|row| row.key == first.key) {
                    changed.step();
                }
            }
            self.first = first_of(&self.changed);
            if let Some(value) = first.value {
                return Ok(Some((first.key, value)));
            }
        }
    }
}

impl<'v> Iterator for MergedRows<'v> {
    type Item = Result<KeyValue<'v>, StoreError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let row = if self.changed.is_empty() {
            let next = self.base.as_mut().and_then(Iterator::next);
            next.transpose().map_err(StoreError::from)
        } else {
            self.merged()
        };
        row.transpose().filter(|row| match row {
            Ok((key, _)) => key.starts_with(&self.prefix),
            Err(_) => true,
        })
    }
}
