//! After a load: values that name entries go into reference lists, where an entry has very many.
//!
//! Only now all entries have names. Everything is loaded by then: whoever ends this, or a disk that
//! is full, leaves values in records, from where later changes take them.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Phase;
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::flush::write_layers;
use crate::store::Store;
use crate::write::batch::Batch;

/// Makes the reference lists of these entries.
pub(super) fn gather_references(
    store: &Store,
    ids: &[u64],
    progress: &mut dyn FnMut(Phase, u64, u64) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let total = ids.len() as u64;
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

/// The lists of entries are made together until they have so many references: those of one entry
/// that is named often are then written once.
const REFERENCES_AT_ONCE: u64 = 1_000_000;
