//! Rows of a bulk load, appended in the order of their keys.

use heed::{PutFlags, RwTxn};
use rustc_hash::FxHashMap;

use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::key::RowKey;
use crate::lmdb::{Environment, Table};
use crate::meta::Counters;
use crate::names::add_to_row;

/// Rows of about this size together are written in one transaction.
const TRANSACTION_BYTES: usize = 64 << 20;

/// Writes rows in transactions of a bounded size.
pub(super) struct Appender<'e> {
    environment: &'e Environment,
    txn: Option<RwTxn<'e>>,
    written_bytes: usize,
}

impl<'e> Appender<'e> {
    pub(super) fn begin(environment: &'e Environment) -> Result<Self, StoreError> {
        let txn = Some(environment.write()?);
        Ok(Self { environment, txn, written_bytes: 0 })
    }

    /// Appends a row; its key comes after all keys of the table.
    pub(super) fn append(
        &mut self,
        table: Table,
        key: &[u8],
        row: &[u8],
    ) -> Result<(), StoreError> {
        let bytes = key.len() + row.len();
        self.write(bytes, |txn| Ok(table.put_with_flags(txn, PutFlags::APPEND, key, row)?))
    }

    /// Writes about so many bytes with the transaction of the moment.
    pub(super) fn write(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut RwTxn<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut txn = match self.txn.take() {
            Some(txn) => txn,
            None => self.environment.write()?,
        };
        write(&mut txn)?;
        self.written_bytes += bytes;
        if self.written_bytes >= TRANSACTION_BYTES {
            txn.commit()?;
            self.written_bytes = 0;
        } else {
            self.txn = Some(txn);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), StoreError> {
        match self.txn {
            Some(txn) => Ok(txn.commit()?),
            None => Ok(()),
        }
    }
}

/// Records that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// Id and end of each.
    ends: Vec<(u64, usize)>,
}

impl Records {
    pub(super) fn push(
        &mut self,
        id: u64,
        row: &[u8],
        environment: &Environment,
    ) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(row);
        self.ends.push((id, self.bytes.len()));
        if self.bytes.len() >= TRANSACTION_BYTES {
            self.flush(environment)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, environment: &Environment) -> Result<(), StoreError> {
        let mut appender = Appender::begin(environment)?;
        let mut start = 0;
        for &(id, end) in &self.ends {
            let row = self.bytes.get(start..end).unwrap_or_default();
            appender.append(environment.tables.entries, &id.to_be_bytes(), row)?;
            start = end;
        }
        self.bytes.clear();
        self.ends.clear();
        appender.finish()
    }
}

/// A row of `names` before it is one.
#[derive(Debug)]
pub(super) struct NameRow {
    pub(super) parent: u64,
    pub(super) key: Box<[u8]>,
    pub(super) id: u64,
}

pub(super) fn names(environment: &Environment, mut names: Vec<NameRow>) -> Result<(), StoreError> {
    // By the keys of the rows: where they are shortened, their order is not that of whole keys.
    let row_key = |name: &NameRow| RowKey::name(name.parent, &name.key);
    names.sort_unstable_by(|one, other| (one.parent, &one.key).cmp(&(other.parent, &other.key)));
    if names.iter().any(|name| row_key(name).1) {
        names.sort_by(|one, other| row_key(one).0.as_bytes().cmp(row_key(other).0.as_bytes()));
    }
    let table = environment.tables.names;
    let mut appender = Appender::begin(environment)?;
    let mut names = names.into_iter().peekable();
    while let Some(name) = names.next() {
        let (key, is_shortened) = row_key(&name);
        let mut row = add_to_row(None, &name.key, is_shortened, name.id);
        if is_shortened {
            let shares = |other: &NameRow| row_key(other).0.as_bytes() == key.as_bytes();
            while let Some(other) = names.next_if(shares) {
                row = add_to_row(Some(&row), &other.key, true, other.id);
            }
        }
        appender.append(table, key.as_bytes(), &row)?;
    }
    appender.finish()
}

pub(super) fn children(
    environment: &Environment,
    counts: &FxHashMap<u64, u64>,
) -> Result<(), StoreError> {
    let mut counts: Vec<(u64, u64)> = counts.iter().map(|(id, count)| (*id, *count)).collect();
    counts.sort_unstable();
    let mut appender = Appender::begin(environment)?;
    for (id, count) in counts {
        appender.append(environment.tables.children, &id.to_be_bytes(), &count.to_be_bytes())?;
    }
    appender.finish()
}

pub(super) fn dictionary_and_counters(
    environment: &Environment,
    dictionary: &Dictionary,
    counters: &Counters,
) -> Result<(), StoreError> {
    let mut txn = environment.write()?;
    let table = environment.tables.attributes;
    for (id, description) in (0_u32..).map_while(|id| Some((id, dictionary.description(id)?))) {
        table.put(&mut txn, &id.to_be_bytes(), description.text().as_bytes())?;
    }
    counters.write(environment.tables.meta, &mut txn)?;
    Ok(txn.commit()?)
}
