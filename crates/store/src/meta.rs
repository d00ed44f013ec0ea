//! The table `meta`: counters, naming contexts, indexes, and the schema changes made online.
//!
//! Rows: `counters` (three numbers of eight octets, see [`Counters`]); `context 0000` … (a DN as
//! text); `index 0000` … (kind, attribute type and rule, as text; the number is the index's id in
//! row keys); `schema attributeTypes 1.2.3` … (a definition as a line, by kind and OID).

use heed::{AnyTls, RoTxn, RwTxn};
use schema::Definition;

use crate::error::StoreError;
use crate::index::{Index, IndexKind};
use crate::lmdb::{META, Table};

/// The number of a change; each change has one more than the change before it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lsn(pub u64);

/// The numbers that every commit writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Counters {
    /// The number of the last change.
    pub(crate) lsn: u64,
    /// The id the next entry gets.
    pub(crate) next_entry_id: u64,
    /// Counts the changes that made names of others wrong: renames and deletions of entries that
    /// have or had subordinates. Readers forget the names they know when it moves.
    pub(crate) names_moved: u64,
}

impl Counters {
    /// Before the first change.
    pub(crate) const FIRST: Self = Self { lsn: 0, next_entry_id: 1, names_moved: 0 };

    pub(crate) fn read(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Self, StoreError> {
        let damaged = || StoreError::corrupt(META, COUNTERS, "is not three numbers");
        let row = meta.get(txn, COUNTERS.as_bytes())?.ok_or_else(damaged)?;
        let (numbers, []) = row.as_chunks::<8>() else { return Err(damaged()) };
        let &[lsn, next_entry_id, names_moved] = numbers else { return Err(damaged()) };
        let [lsn, next_entry_id, names_moved] =
            [lsn, next_entry_id, names_moved].map(u64::from_be_bytes);
        Ok(Self { lsn, next_entry_id, names_moved })
    }

    pub(crate) fn write(&self, meta: Table, txn: &mut RwTxn<'_>) -> Result<(), StoreError> {
        let numbers = [self.lsn, self.next_entry_id, self.names_moved].map(u64::to_be_bytes);
        Ok(meta.put(txn, COUNTERS.as_bytes(), numbers.as_flattened())?)
    }
}

/// Whether a row with this key belongs into the table.
pub(crate) fn is_known_key(key: &[u8]) -> bool {
    key == COUNTERS.as_bytes()
        || [CONTEXT, INDEX, SCHEMA].iter().any(|prefix| key.starts_with(prefix.as_bytes()))
}

/// The DNs of the naming contexts, in the order they were given.
pub(crate) fn contexts(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<String>, StoreError> {
    Ok(rows(meta, txn, CONTEXT)?.into_iter().map(|(_, text)| text).collect())
}

pub(crate) fn write_context(
    meta: Table,
    txn: &mut RwTxn<'_>,
    position: usize,
    dn: &str,
) -> Result<(), StoreError> {
    Ok(meta.put(txn, format!("{CONTEXT}{position:04}").as_bytes(), dn.as_bytes())?)
}

/// Attribute type, kind and rule of each index, in the order of their ids.
pub(crate) fn indexes(
    meta: Table,
    txn: &RoTxn<'_, AnyTls>,
) -> Result<Vec<(String, IndexKind, String)>, StoreError> {
    let mut indexes = Vec::new();
    for (at, (key, text)) in rows(meta, txn, INDEX)?.into_iter().enumerate() {
        let damaged = || StoreError::corrupt(META, &key, "is no index");
        let mut words = text.split(' ');
        let (Some(kind), Some(attribute), Some(rule), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(damaged());
        };
        let kind = IndexKind::from_name(kind).ok_or_else(damaged)?;
        if key != format!("{INDEX}{at:04}") {
            return Err(damaged());
        }
        indexes.push((attribute.to_owned(), kind, rule.to_owned()));
    }
    Ok(indexes)
}

pub(crate) fn write_index(
    meta: Table,
    txn: &mut RwTxn<'_>,
    index: &Index,
) -> Result<(), StoreError> {
    let key = format!("{INDEX}{:04}", index.id);
    let text = format!("{} {} {}", index.kind.name(), index.attribute.text(), rule_of(index));
    Ok(meta.put(txn, key.as_bytes(), text.as_bytes())?)
}

/// What `meta` says of the rule by which an index was made.
pub(crate) fn rule_of(index: &Index) -> &'static str {
    index.rule.map_or(NO_RULE, |rule| rule.oid)
}

/// The definitions that were added online, as lines.
pub(crate) fn definitions(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<String>, StoreError> {
    Ok(rows(meta, txn, SCHEMA)?.into_iter().map(|(_, text)| text).collect())
}

/// Keeps a definition; one of the same kind and OID is replaced.
pub(crate) fn put_definition(
    meta: Table,
    txn: &mut RwTxn<'_>,
    line: &str,
) -> Result<(), StoreError> {
    Ok(meta.put(txn, definition_key(line)?.as_bytes(), line.as_bytes())?)
}

/// Forgets a definition.
pub(crate) fn delete_definition(
    meta: Table,
    txn: &mut RwTxn<'_>,
    line: &str,
) -> Result<(), StoreError> {
    meta.delete(txn, definition_key(line)?.as_bytes())?;
    Ok(())
}

fn definition_key(line: &str) -> Result<String, StoreError> {
    let definition = Definition::parse_line(line).map_err(|error| StoreError::Invalid {
        what: "schema definition",
        text: line.to_owned(),
        reason: error.to_string(),
    })?;
    let kind = line.split(':').next().unwrap_or_default();
    let mut key = format!("{SCHEMA}{kind} {}", definition.oid);
    key.truncate(key.floor_char_boundary(crate::key::KEY_LENGTH_MAX_BYTES));
    Ok(key)
}

/// Rows whose key starts with `prefix`, as text.
fn rows(
    meta: Table,
    txn: &RoTxn<'_, AnyTls>,
    prefix: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let mut rows = Vec::new();
    for row in meta.prefix_iter(txn, prefix.as_bytes())? {
        let (key, text) = row?;
        let key = String::from_utf8_lossy(key).into_owned();
        match std::str::from_utf8(text) {
            Ok(text) => rows.push((key, text.to_owned())),
            Err(_) => return Err(StoreError::corrupt(META, key, "is not text")),
        }
    }
    Ok(rows)
}

const COUNTERS: &str = "counters";
const CONTEXT: &str = "context ";
const INDEX: &str = "index ";
const SCHEMA: &str = "schema ";
const NO_RULE: &str = "-";
