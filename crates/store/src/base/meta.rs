//! The table `meta`: counters, membership, naming contexts, indexes, and the schema changes made
//! online.
//!
//! Rows: `counters` (nine numbers of eight octets, and two more where a digest is kept, see
//! [`Counters`]); `digest-key` (32 octets, see `digest.rs`); `membership` (octets of the
//! log that the records come from, the store does not read them); `context 0000` … (a DN as text);
//! `index 0000` … (rules and definition, as text; the number is the index's id in row keys);
//! `index-state 0000` … (of an index that is being built or dropped); `index-epoch` (eight octets,
//! see [`index_epoch`]); `schema attributeTypes 1.2.3` … (a definition as a line, by kind and OID);
//! `compression 0000` … (a dictionary, see `compress.rs`); `setting NAME` (the values of a setting
//! of the directory, each behind its length in four octets; the store does not read them);
//! `request 00000000000000000001` … (requests that have records, see `requests.rs`).

use heed::{AnyTls, RoTxn, RwTxn};
use schema::Definition;

use crate::base::digest::{DIGEST_KEY, Digest, DigestPoint};
use crate::base::lmdb::{META, Table};
use crate::base::position::{LogPosition, Lsn};
use crate::base::requests::REQUEST;
use crate::error::StoreError;
use crate::index::{Index, IndexDefinition, IndexRow, IndexState, LEVEL_LISTS};
use crate::rows::dictionary::Settings;

/// A record's place in the history.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark {
    /// Its number.
    pub lsn: Lsn,
    /// The running hash of all records up to it: where two stores differ in it, their histories do.
    pub hash: u64,
    /// When it was decided, in microseconds since 1970; never earlier than the record before.
    pub time_us: u64,
    /// Its place in the log.
    pub position: LogPosition,
}

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
    /// How many entries there are.
    pub(crate) entry_count: u64,
    /// The running hash after the last change, see [`Mark::hash`].
    pub(crate) hash: u64,
    /// The time of the last change, see [`Mark::time_us`].
    pub(crate) time_us: u64,
    /// Where the last change is in the log.
    pub(crate) position: LogPosition,
    /// Which kinds of records may be written: those that every release that may have to read them
    /// knows.
    pub(crate) level: u64,
    /// The digest of the state after the last change; only servers of a cluster keep one.
    pub(crate) digest: Option<Digest>,
}

impl Counters {
    /// Before the first change.
    pub(crate) const FIRST: Self = Self {
        lsn: 0,
        next_entry_id: 1,
        names_moved: 0,
        entry_count: 0,
        hash: 0,
        time_us: 0,
        position: LogPosition { term: 0, index: 0 },
        level: 1,
        digest: None,
    };

    pub(crate) fn read(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Self, StoreError> {
        let damaged = || StoreError::corrupt(META, COUNTERS, "is not nine or eleven numbers");
        let row = meta.get(txn, COUNTERS.as_bytes())?.ok_or_else(damaged)?;
        let (numbers, []) = row.as_chunks::<8>() else { return Err(damaged()) };
        let (numbers, rest) = numbers.split_first_chunk::<9>().ok_or_else(damaged)?;
        let digest = match rest {
            [] => None,
            [high, low] => Some(Digest::of_halves([*high, *low].map(u64::from_be_bytes))),
            _ => return Err(damaged()),
        };
        let [lsn, next_entry_id, names_moved, entry_count, hash, time_us, term, index, level] =
            numbers.map(u64::from_be_bytes);
        let position = LogPosition { term, index };
        Ok(Self {
            lsn,
            next_entry_id,
            names_moved,
            entry_count,
            hash,
            time_us,
            position,
            level,
            digest,
        })
    }

    pub(crate) fn write(&self, meta: Table, txn: &mut RwTxn<'_>) -> Result<(), StoreError> {
        Ok(meta.put(txn, COUNTERS.as_bytes(), &self.row())?)
    }

    /// What [`Self::write`] writes.
    pub(crate) fn row(&self) -> Vec<u8> {
        let numbers = [
            self.lsn,
            self.next_entry_id,
            self.names_moved,
            self.entry_count,
            self.hash,
            self.time_us,
            self.position.term,
            self.position.index,
            self.level,
        ];
        let mut row = numbers.map(u64::to_be_bytes).as_flattened().to_vec();
        if let Some(digest) = self.digest {
            row.extend_from_slice(digest.halves().map(u64::to_be_bytes).as_flattened());
        }
        row
    }

    /// The digest at the last change, if one is kept.
    pub(crate) const fn digest_point(&self) -> Option<DigestPoint> {
        match self.digest {
            Some(digest) => Some(DigestPoint { lsn: Lsn(self.lsn), hash: self.hash, digest }),
            None => None,
        }
    }

    /// The place of the last change in the history.
    pub(crate) const fn mark(&self) -> Mark {
        let Self { lsn, hash, time_us, position, .. } = *self;
        Mark { lsn: Lsn(lsn), hash, time_us, position }
    }

    /// Takes over the place of a change.
    pub(crate) const fn set_mark(&mut self, mark: &Mark) {
        self.lsn = mark.lsn.0;
        self.hash = mark.hash;
        self.time_us = mark.time_us;
        self.position = mark.position;
    }
}

/// Who takes part in the log, in the log's own words; empty when it never said.
pub(crate) fn membership(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<u8>, StoreError> {
    Ok(meta.get(txn, MEMBERSHIP.as_bytes())?.unwrap_or_default().to_vec())
}

pub(crate) fn write_membership(
    meta: Table,
    txn: &mut RwTxn<'_>,
    membership: &[u8],
) -> Result<(), StoreError> {
    Ok(meta.put(txn, MEMBERSHIP.as_bytes(), membership)?)
}

/// Nobody takes part any more.
pub(crate) fn remove_membership(meta: Table, txn: &mut RwTxn<'_>) -> Result<(), StoreError> {
    meta.delete(txn, MEMBERSHIP.as_bytes())?;
    Ok(())
}

/// Whether a row with this key belongs into the table.
pub(crate) fn is_known_key(key: &[u8]) -> bool {
    [COUNTERS, MEMBERSHIP, INDEX_EPOCH, DIGEST_KEY, LISTED, APART]
        .iter()
        .any(|name| key == name.as_bytes())
        || [CONTEXT, INDEX, INDEX_STATE, SCHEMA, COMPRESSION, SETTING, REQUEST]
            .iter()
            .any(|prefix| key.starts_with(prefix.as_bytes()))
}

/// Whether the servers of a cluster have a row with this key in common, and its octets.
pub(crate) fn is_digested(key: &[u8]) -> bool {
    [SCHEMA, SETTING].iter().any(|prefix| key.starts_with(prefix.as_bytes()))
}

/// The DNs of the naming contexts, in the order they were given.
pub(crate) fn contexts(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<String>, StoreError> {
    Ok(rows(meta, txn, CONTEXT)?.into_iter().map(|(_, text)| text).collect())
}

/// The attributes that have reference lists, or once had.
pub(crate) fn listed(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<u32>, StoreError> {
    let Some(row) = meta.get(txn, LISTED.as_bytes())? else { return Ok(Vec::new()) };
    let (ids, rest) = row.as_chunks::<4>();
    match rest {
        [] => Ok(ids.iter().map(|id| u32::from_be_bytes(*id)).collect()),
        _ => Err(StoreError::corrupt(META, LISTED, "is no list of attributes")),
    }
}

/// The row of [`listed`].
pub(crate) fn listed_row(listed: &[u32]) -> Vec<u8> {
    listed.iter().flat_map(|id| id.to_be_bytes()).collect()
}

/// The attributes that have values in rows of their own, or once had, and the OIDs of the rules by
/// which these are kept.
pub(crate) fn apart(
    meta: Table,
    txn: &RoTxn<'_, AnyTls>,
) -> Result<Vec<(u32, String)>, StoreError> {
    let Some(mut rest) = meta.get(txn, APART.as_bytes())? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    while !rest.is_empty() {
        let damaged = || StoreError::corrupt(META, APART, "is no list of attributes and rules");
        let (id, after) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (length, after) = after.split_first().ok_or_else(damaged)?;
        let (rule, after) = after.split_at_checked(usize::from(*length)).ok_or_else(damaged)?;
        let rule = std::str::from_utf8(rule).map_err(|_| damaged())?;
        all.push((u32::from_be_bytes(*id), rule.to_owned()));
        rest = after;
    }
    Ok(all)
}

/// The row of [`apart`].
pub(crate) fn apart_row<'r>(apart: impl Iterator<Item = (u32, &'r str)>) -> Vec<u8> {
    let mut row = Vec::new();
    for (id, rule) in apart {
        row.extend_from_slice(&id.to_be_bytes());
        row.push(u8::try_from(rule.len()).expect("the OIDs of rules are short"));
        row.extend_from_slice(rule.as_bytes());
    }
    row
}

pub(crate) fn write_context(
    meta: Table,
    txn: &mut RwTxn<'_>,
    position: usize,
    dn: &str,
) -> Result<(), StoreError> {
    Ok(meta.put(txn, format!("{CONTEXT}{position:04}").as_bytes(), dn.as_bytes())?)
}

/// Each index in the order of the ids, and the rules by which it was made.
pub(crate) fn indexes(
    meta: Table,
    txn: &RoTxn<'_, AnyTls>,
) -> Result<Vec<(IndexRow, String)>, StoreError> {
    let mut indexes = Vec::new();
    for (key, text) in rows(meta, txn, INDEX)? {
        let damaged = || StoreError::corrupt(META, &key, "is no index");
        let id: u16 = key.strip_prefix(INDEX).and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
        if id >= LEVEL_LISTS || key != index_key(id) {
            return Err(damaged());
        }
        let (rules, line) = text.split_once(' ').ok_or_else(damaged)?;
        let definition = IndexDefinition::parse(line).map_err(|_| damaged())?;
        let state_key = state_key(id);
        let state = match meta.get(txn, state_key.as_bytes())? {
            None => IndexState::Valid,
            Some(text) => {
                let state = std::str::from_utf8(text).ok().and_then(IndexState::parse);
                state.ok_or_else(|| StoreError::corrupt(META, &state_key, "is no state"))?
            }
        };
        indexes.push((IndexRow { id, definition, state }, rules.to_owned()));
    }
    Ok(indexes)
}

pub(crate) fn write_index(
    meta: Table,
    txn: &mut RwTxn<'_>,
    index: &Index,
) -> Result<(), StoreError> {
    meta.put(txn, index_key(index.id).as_bytes(), index_row(index).as_bytes())?;
    if let Some(state) = state_row(index.state) {
        meta.put(txn, state_key(index.id).as_bytes(), state.as_bytes())?;
    }
    Ok(())
}

/// The key of the row of an index.
pub(crate) fn index_key(id: u16) -> String {
    format!("{INDEX}{id:04}")
}

/// The row of an index: the rules by which it was made, and its definition.
pub(crate) fn index_row(index: &Index) -> String {
    format!("{} {}", index.rules(), index.definition)
}

/// The key of the row of an index's state.
pub(crate) fn state_key(id: u16) -> String {
    format!("{INDEX_STATE}{id:04}")
}

/// The row of a state; a valid index has none.
pub(crate) fn state_row(state: IndexState) -> Option<String> {
    (state != IndexState::Valid).then(|| state.to_string())
}

/// How often an index became valid, see [`crate::overlay::version::Version::index_epoch`].
pub(crate) fn index_epoch(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<u64, StoreError> {
    let Some(row) = meta.get(txn, INDEX_EPOCH.as_bytes())? else { return Ok(0) };
    crate::rows::key::id(row).ok_or_else(|| StoreError::corrupt(META, INDEX_EPOCH, "is no number"))
}

pub(crate) fn write_index_epoch(
    meta: Table,
    txn: &mut RwTxn<'_>,
    epoch: u64,
) -> Result<(), StoreError> {
    Ok(meta.put(txn, INDEX_EPOCH.as_bytes(), &epoch.to_be_bytes())?)
}

/// Writes how far an index is; of a valid one there is no row.
pub(crate) fn write_state(
    meta: Table,
    txn: &mut RwTxn<'_>,
    id: u16,
    state: IndexState,
) -> Result<(), StoreError> {
    let key = state_key(id);
    match state_row(state) {
        Some(text) => meta.put(txn, key.as_bytes(), text.as_bytes())?,
        None => {
            meta.delete(txn, key.as_bytes())?;
        }
    }
    Ok(())
}

/// The key of the row of a compression dictionary.
pub(crate) fn compression_key(number: usize) -> String {
    format!("{COMPRESSION}{number:04}")
}

/// Removes an index that has no rows any more.
pub(crate) fn remove_index(meta: Table, txn: &mut RwTxn<'_>, id: u16) -> Result<(), StoreError> {
    for key in [index_key(id), state_key(id)] {
        meta.delete(txn, key.as_bytes())?;
    }
    Ok(())
}

/// The definitions that were added online, as lines.
pub(crate) fn definitions(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<String>, StoreError> {
    Ok(rows(meta, txn, SCHEMA)?.into_iter().map(|(_, text)| text).collect())
}

/// The key of the row of a definition; one of the same kind and OID has the same.
pub(crate) fn definition_key(line: &str) -> Result<String, StoreError> {
    let definition = Definition::parse_line(line).map_err(|error| StoreError::Invalid {
        what: "schema definition",
        text: line.to_owned(),
        reason: error.to_string(),
    })?;
    let kind = line.split(':').next().unwrap_or_default();
    let mut key = format!("{SCHEMA}{kind} {}", definition.oid);
    key.truncate(key.floor_char_boundary(crate::rows::key::KEY_LENGTH_MAX_BYTES));
    Ok(key)
}

/// The key of the row of a setting.
pub(crate) fn setting_key(name: &str) -> Result<String, StoreError> {
    let is_word = name.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'-');
    if name.is_empty() || name.len() > SETTING_NAME_MAX_BYTES || !is_word {
        let reason = "is not a word of lower-case letters and '-'".to_owned();
        return Err(StoreError::Invalid { what: "setting", text: name.to_owned(), reason });
    }
    Ok(format!("{SETTING}{name}"))
}

/// Whether a dictionary has a setting at hand: what changes with entries would make it anew each
/// time, and the level is no setting.
pub(crate) fn is_at_hand(name: &str) -> bool {
    ![LEVEL, COUNTED].contains(&name)
}

/// The settings that a dictionary has at hand.
pub(crate) fn settings(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Settings, StoreError> {
    let mut settings = Settings::default();
    for row in meta.prefix_iter(txn, SETTING.as_bytes())? {
        let (key, row) = row?;
        let key = String::from_utf8_lossy(key);
        let name = key.strip_prefix(SETTING).unwrap_or_default();
        if is_at_hand(name) {
            settings.insert(name.to_owned(), setting_values(&key, row)?.into());
        }
    }
    Ok(settings)
}

/// The row of a setting.
pub(crate) fn setting_row(values: &[String]) -> Vec<u8> {
    let mut row = Vec::new();
    for value in values {
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        row.extend_from_slice(&length.to_be_bytes());
        row.extend_from_slice(value.as_bytes());
    }
    row
}

/// The values in the row of a setting.
pub(crate) fn setting_values(key: &str, row: &[u8]) -> Result<Vec<String>, StoreError> {
    let damaged = || StoreError::corrupt(META, key, "is no list of texts");
    let (mut values, mut rest) = (Vec::new(), row);
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| damaged())?;
        let (value, after) = after.split_at_checked(length).ok_or_else(damaged)?;
        values.push(std::str::from_utf8(value).map_err(|_| damaged())?.to_owned());
        rest = after;
    }
    Ok(values)
}

/// What records may say, as the values of the setting have it.
pub(crate) fn record_level(values: &[String]) -> Result<Option<u16>, StoreError> {
    let Some(text) = values.first() else { return Ok(None) };
    text.parse().map(Some).map_err(|_| StoreError::corrupt(META, LEVEL, "is no number"))
}

/// Why the row of a setting cannot be read; nothing when it can, or is that of something else.
pub(crate) fn setting_fault(key: &[u8], row: &[u8]) -> Option<&'static str> {
    let is_read = !key.starts_with(SETTING.as_bytes()) || setting_values("", row).is_ok();
    (!is_read).then_some("is no list of texts")
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

/// What records may say stands among the settings under this name.
pub(crate) const LEVEL: &str = "record-level";

/// The setting that changes with entries: which numbers are given next.
pub(crate) const COUNTED: &str = "assigned";
/// The longest name of a setting.
const SETTING_NAME_MAX_BYTES: usize = 64;

/// The key of [`Counters`].
pub(crate) const COUNTERS: &str = "counters";
const MEMBERSHIP: &str = "membership";
/// The key of the row of the attributes that have reference lists.
pub(crate) const LISTED: &str = "reference-lists";
/// The key of the row of the attributes that have values in rows of their own.
pub(crate) const APART: &str = "values-apart";
const INDEX_EPOCH: &str = "index-epoch";
const CONTEXT: &str = "context ";
const INDEX: &str = "index ";
const INDEX_STATE: &str = "index-state ";
/// What the keys of compression dictionaries start with.
pub(crate) const COMPRESSION: &str = "compression ";
/// What the keys of settings start with.
const SETTING: &str = "setting ";
/// What the keys of definitions start with.
pub(crate) const SCHEMA: &str = "schema ";
