//! How the indexes are: how far, how large, and which keys most entries have.
//!
//! Invariant: the time it takes has a bound that does not depend on the size of the directory. Of
//! an index that is too large to be counted within it, what is told is estimated and says so: from
//! the keys of some of the entries, and from how many rows there are in all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::base::lmdb::{POSTINGS, Snapshot, Tables};
use crate::base::meta::{self, Counters};
use crate::error::StoreError;
use crate::index::posting::Head;
use crate::index::{GRAM_BEGIN, GRAM_END, Index, IndexRow, IndexState};
use crate::read::reader::IndexUses;
use crate::rows::dictionary::Dictionary;
use crate::rows::key::{PostingKey, RowKey, display};
use crate::rows::record::Record;
use crate::store::Store;

/// How thoroughly indexes are looked at.
#[derive(Clone, Copy, Debug)]
pub struct IndexStatusOptions {
    /// So many rows of each index are counted; of a larger one the rest is estimated.
    pub rows_max: u64,
    /// So many of the keys that most entries have are told.
    pub popular_max: usize,
}

impl Default for IndexStatusOptions {
    fn default() -> Self {
        Self { rows_max: 20_000, popular_max: 5 }
    }
}

/// How an index is, in the base; what is in memory alone is not counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IndexStatus {
    /// What reports call it.
    pub name: String,
    /// Its definition, as a line.
    pub definition: String,
    /// Whether it is used, being built or being removed.
    pub state: IndexState,
    /// How many keys it has.
    pub keys: u64,
    /// How many ids its lists have together.
    pub ids: u64,
    /// The octets of its rows.
    pub bytes: u64,
    /// Whether the three are estimated.
    pub is_estimate: bool,
    /// How many entries are in it, about.
    pub entries_done: u64,
    /// How many entries there are.
    pub entries_total: u64,
    /// The keys that most entries have, with how many have them.
    pub popular: Vec<(String, u64)>,
    /// How often it was asked, see [`Store::index_uses`].
    pub lookups: Option<u64>,
}

impl Store {
    /// How each index is, in the order of their ids. One that is built anew is there twice: as it
    /// serves, and as it is being built.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn index_status(
        &self,
        options: &IndexStatusOptions,
    ) -> Result<Vec<IndexStatus>, StoreError> {
        let known = self.dictionary();
        let environment = self.base_environment();
        let snapshot = environment.snapshot()?;
        let tables = environment.tables;
        let rows = meta::indexes(tables.meta, snapshot.txn())?;
        let rows: Vec<IndexRow> = rows.into_iter().map(|(row, _)| row).collect();
        let dictionary = known.with_rows(&rows)?;
        let counted = dictionary
            .indexes()
            .iter()
            .map(|index| count(&snapshot, tables, index.id, options).map(|one| (index.id, one)))
            .collect::<Result<BTreeMap<u16, Counted>, StoreError>>()?;
        let uses = self.index_uses();
        let look = Look { snapshot, tables, dictionary, counted, uses };
        look.status(&known, options)
    }
}

/// What was counted of an index.
#[derive(Debug, Default)]
struct Counted {
    rows: u64,
    keys: u64,
    ids: u64,
    bytes: u64,
    is_whole: bool,
    /// How many ids the lists have that have most.
    popular: Vec<(u64, Vec<u8>)>,
}

/// Counts the rows of an index, up to a bound.
fn count(
    snapshot: &Snapshot,
    tables: Tables,
    id: u16,
    options: &IndexStatusOptions,
) -> Result<Counted, StoreError> {
    let mut counted = Counted { is_whole: true, ..Counted::default() };
    let popular_max = options.popular_max;
    for row in tables.postings.prefix_iter(snapshot.txn(), &id.to_be_bytes())? {
        let (key, row) = row?;
        if counted.rows == options.rows_max {
            counted.is_whole = false;
            break;
        }
        counted.rows += 1;
        counted.bytes += (key.len() + row.len()) as u64;
        let Some(PostingKey { value, chunk: None, .. }) = PostingKey::parse(key) else { continue };
        let ids = ids_of(key, row)?;
        counted.keys += 1;
        counted.ids += ids;
        keep_popular(&mut counted.popular, (ids, value), popular_max);
    }
    Ok(counted)
}

/// How many ids the list with this head row has.
fn ids_of(key: &[u8], row: &[u8]) -> Result<u64, StoreError> {
    match Head::read(row) {
        Some(Head::Inline(ids)) => Ok(ids.count() as u64),
        Some(Head::Chunked(count, _)) => Ok(count),
        None => Err(StoreError::corrupt(POSTINGS, display(key), "is not well formed")),
    }
}

fn keep_popular(popular: &mut Vec<(u64, Vec<u8>)>, one: (u64, Vec<u8>), max: usize) {
    let least = popular.last().map_or(0, |(ids, _)| *ids);
    if popular.len() >= max && one.0 <= least {
        return;
    }
    let at = popular.partition_point(|(ids, _)| *ids >= one.0);
    popular.insert(at, one);
    popular.truncate(max);
}

/// One point in time of the base, and what was counted in it.
struct Look {
    snapshot: Snapshot,
    tables: Tables,
    /// With the indexes of the base.
    dictionary: Dictionary,
    counted: BTreeMap<u16, Counted>,
    uses: IndexUses,
}

impl Look {
    fn status(
        mut self,
        known: &Dictionary,
        options: &IndexStatusOptions,
    ) -> Result<Vec<IndexStatus>, StoreError> {
        self.estimate(options)?;
        let total = self.tables.entries.len(self.snapshot.txn())?;
        let mut all = Vec::new();
        for (id, definition, state) in known.definitions() {
            // Of what is not in the base there is nothing to tell yet.
            let in_base = self.dictionary.index_with_id(id).map(|index| index.state);
            let one = self.counted.remove(&id).unwrap_or_default();
            let state = in_base.filter(|_| state != IndexState::Dropping).unwrap_or(state);
            let entries_done = match state {
                IndexState::Valid => total,
                IndexState::Dropping => 0,
                IndexState::Building { upto, end } => {
                    let span = u128::from(end.0.saturating_sub(1).max(1));
                    u64::try_from(u128::from(total) * u128::from(upto.0) / span).unwrap_or(total)
                }
            };
            let is_gram = self.dictionary.index_with_id(id).is_some_and(Index::is_of_grams);
            let show = |(ids, key): (u64, Vec<u8>)| (shown(&key, is_gram), ids);
            all.push(IndexStatus {
                name: definition.name(),
                definition: definition.to_string(),
                state,
                keys: one.keys,
                ids: one.ids,
                bytes: one.bytes,
                is_estimate: in_base.is_some() && !one.is_whole,
                entries_done: entries_done.min(total),
                entries_total: total,
                popular: one.popular.into_iter().map(show).collect(),
                lookups: self.uses.of(id),
            });
        }
        Ok(all)
    }

    /// Estimates the indexes that were not counted to the end.
    fn estimate(&mut self, options: &IndexStatusOptions) -> Result<(), StoreError> {
        if self.counted.values().all(|one| one.is_whole) {
            return Ok(());
        }
        let txn = self.snapshot.txn();
        let sample = self.sample()?;
        let entries = self.tables.entries.len(txn)?;
        let seen: u64 = self.counted.values().map(|one| one.rows).sum();
        let rest = self.tables.postings.len(txn)?.saturating_sub(seen);
        let ids_of_sample = |id: u16| -> u64 {
            let keys = sample.keys.get(&id).map_or(0, |keys| keys.values().sum());
            keys * entries / sample.entries.max(1)
        };
        // As many rows as it takes when each has as many ids as those that were counted have.
        let partial = self.counted.iter().filter(|(_, one)| !one.is_whole);
        let weigh = |(id, one): (&u16, &Counted)| {
            let ids = u128::from(ids_of_sample(*id).saturating_sub(one.ids).max(1));
            (*id, (ids * u128::from(one.rows) / u128::from(one.ids.max(1))).max(1))
        };
        let weights: BTreeMap<u16, u128> = partial.map(weigh).collect();
        let sum = weights.values().sum::<u128>().max(1);
        for (id, weight) in weights {
            let Some(one) = self.counted.get_mut(&id) else { continue };
            let more = u128::from(rest) * weight / sum;
            let rows = u128::from(one.rows) + more;
            let scale = |part: u64| {
                let all = u128::from(part) * rows / u128::from(one.rows.max(1));
                u64::try_from(all).unwrap_or(u64::MAX)
            };
            (one.keys, one.bytes) = (scale(one.keys), scale(one.bytes));
            one.ids = one.ids.max(ids_of_sample(id));
            // What many entries have is in the sample, wherever its rows are.
            let mut often: Vec<(&Vec<u8>, &u64)> =
                sample.keys.get(&id).into_iter().flatten().collect();
            often.sort_by_key(|(_, times)| Reverse(**times));
            for (key, _) in often.into_iter().take(SAMPLE_KEYS_MAX) {
                let head = RowKey::postings(id, key);
                let Some(row) = self.tables.postings.get(txn, head.as_bytes())? else { continue };
                if one.popular.iter().all(|(_, known)| known != key) {
                    let ids = ids_of(head.as_bytes(), row)?;
                    keep_popular(&mut one.popular, (ids, key.clone()), options.popular_max);
                }
            }
        }
        Ok(())
    }

    /// The keys of some entries, from all over the directory.
    fn sample(&self) -> Result<Sample, StoreError> {
        let txn = self.snapshot.txn();
        let next = Counters::read(self.tables.meta, txn)?.next_entry_id;
        let partial: Vec<&Index> = self
            .dictionary
            .indexes()
            .iter()
            .filter(|index| self.counted.get(&index.id).is_some_and(|one| !one.is_whole))
            .collect();
        let mut sample = Sample::default();
        let (mut scratch, mut buffer) = (Vec::new(), Vec::new());
        for at in 0..SAMPLE_ENTRIES {
            let from = (next / SAMPLE_ENTRIES * at + next % SAMPLE_ENTRIES * at / SAMPLE_ENTRIES)
                .to_be_bytes();
            let range = (Bound::Included(from.as_slice()), Bound::Unbounded);
            let Some(row) = self.tables.entries.range(txn, &range)?.next() else { break };
            let (_, row) = row?;
            let read = Record::read(row, &self.dictionary, &mut buffer);
            let Ok(record) = read else { continue };
            sample.entries += 1;
            for index in &partial {
                let keys = sample.keys.entry(index.id).or_default();
                index.entry_keys(&self.dictionary, &record, &mut scratch, |key| {
                    *keys.entry(key.to_vec()).or_default() += 1;
                });
            }
        }
        Ok(sample)
    }
}

/// Keys of some entries.
#[derive(Debug, Default)]
struct Sample {
    entries: u64,
    /// How often each key came, by index.
    keys: BTreeMap<u16, HashMap<Vec<u8>, u64>>,
}

/// A key for people: of a piece of a value, its begin and end as `^` and `$`.
fn shown(key: &[u8], is_gram: bool) -> String {
    if !is_gram {
        return text(key);
    }
    let mark = |&octet: &u8| match octet {
        GRAM_BEGIN => b'^',
        GRAM_END => b'$',
        other => other,
    };
    text(&key.iter().map(mark).collect::<Vec<u8>>())
}

fn text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => display(key),
    }
}

/// The keys of so many entries are looked at.
const SAMPLE_ENTRIES: u64 = 256;

/// And of each index so many of those that came most often.
const SAMPLE_KEYS_MAX: usize = 64;
