//! After a load: where an entry has very many values, those that name entries go into reference
//! lists, and others become rows of their own.
//!
//! Only now all entries have names. Everything is loaded by then: whoever ends this, or a disk that
//! is full, leaves values in records, from where later changes take them.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Phase;
use crate::base::lmdb::ENTRIES;
use crate::base::meta;
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::flush::write_layers;
use crate::rows::apart;
use crate::rows::record::{ApartOf, Outside, Record, RecordWriter};
use crate::store::Store;
use crate::write::batch::Batch;

/// Has the values of these entries outside of their records that are to be there.
pub(super) fn gather_references(
    store: &Store,
    ids: &[u64],
    progress: &mut dyn FnMut(Phase, u64, u64) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let total = ids.len() as u64;
    for id in ids {
        match move_apart(store, *id) {
            Err(StoreError::Full | StoreError::NoRoom { .. }) => return Ok(()),
            moved => moved?,
        }
    }
    let mut rest = ids.iter();
    while !rest.as_slice().is_empty() {
        let mut batch = store.begin_on_published()?;
        let mut references = 0;
        while references < REFERENCES_AT_ONCE
            && let Some(id) = rest.next()
        {
            references += batch.gather(*id)?;
        }
        if references > 0 {
            match write(store, batch) {
                Err(StoreError::Full | StoreError::NoRoom { .. }) => break,
                written => written?,
            }
        }
        if progress(Phase::References, total - rest.len() as u64, total).is_break() {
            break;
        }
    }
    Ok(())
}

/// Writes what a batch has made, which is no change of what there is, and so no record.
fn write(store: &Store, mut batch: Batch<'_>) -> Result<(), StoreError> {
    let (counters, dictionary) = (batch.counters, Arc::clone(&batch.dictionary));
    let layer = Arc::new(batch.memory.seal(Lsn(counters.lsn), counters));
    let _flushing = store.flushing();
    let version = store.versions.load();
    let environment = &version.environment;
    write_layers(environment, &[layer], dictionary.compression())?;
    let base = (Arc::clone(environment), version.index_epoch);
    store.versions.restart(Some(base), counters, dictionary);
    Ok(())
}

/// Makes values of an entry rows of their own, straight in the base: there may be millions.
fn move_apart(store: &Store, id: u64) -> Result<(), StoreError> {
    let batch = store.begin_on_published()?;
    let moves = batch.moves_apart(id)?;
    // Who keeps a digest has not just loaded.
    if moves.is_empty() || batch.counters.digest.is_some() {
        return Ok(());
    }
    let counters = batch.counters;
    let mut dictionary = Arc::clone(&batch.dictionary);
    let _flushing = store.flushing();
    let version = store.versions.load();
    let environment = &version.environment;
    let tables = environment.tables;
    let Some(table) = tables.values else { return Ok(()) };
    let mut txn = environment.write()?;
    let key = id.to_be_bytes();
    let row = tables.entries.get(&txn, &key)?.map(<[u8]>::to_vec).unwrap_or_default();
    let (mut buffer, mut new_row) = (Vec::new(), Vec::new());
    let record = Record::read(&row, &dictionary, &mut buffer);
    let record = record.map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
    let mut apart: Vec<ApartOf> = record.apart.iter().collect();
    for (attribute, rule) in &moves {
        let mut of = ApartOf { attribute: *attribute, count: 0, octets: 0 };
        let mut values = record.values(*attribute).iter().peekable();
        while values.peek().is_some() {
            let keyed = |value| {
                (
                    apart::key(dictionary.schema(), rule, &apart::prefix(*attribute, id), value),
                    value,
                )
            };
            let mut some: Vec<_> = values.by_ref().take(VALUES_AT_ONCE).map(keyed).collect();
            some.sort_unstable();
            for (key, value) in some {
                let mut row = table.get(&txn, &key)?.map(<[u8]>::to_vec).unwrap_or_default();
                apart::push(&mut row, value);
                table.put(&mut txn, &key, &row)?;
                of.count += 1;
                of.octets += apart::octets(value);
            }
        }
        apart.push(of);
        Arc::make_mut(&mut dictionary).push_apart(*attribute, rule);
    }
    apart.sort_unstable_by_key(|of| of.attribute);
    let listed: Vec<u32> = record.listed.iter().collect();
    let outside = Outside { listed: &listed, apart: &apart };
    let mut writer = RecordWriter::begin_outside(record.parent, record.rdn, outside, &mut new_row);
    for (attribute, values) in record.attributes() {
        if !moves.iter().any(|(one, _)| *one == attribute) {
            writer.copy(attribute, values);
        }
    }
    writer.finish()?;
    tables.entries.put(&mut txn, &key, &new_row)?;
    let all = meta::apart_row(dictionary.apart().iter().map(|(one, rule)| (*one, rule.oid)));
    tables.meta.put(&mut txn, meta::APART.as_bytes(), &all)?;
    txn.commit().map_err(|error| environment.commit_failed(error))?;
    let base = (Arc::clone(environment), version.index_epoch);
    store.versions.restart(Some(base), counters, dictionary);
    Ok(())
}

/// So many keys of values are held to be sorted.
const VALUES_AT_ONCE: usize = 500_000;

/// The lists of entries are made together until they have so many references: those of one entry
/// that is named often are then written once.
const REFERENCES_AT_ONCE: u64 = 1_000_000;
