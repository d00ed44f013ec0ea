//! Flushing: layers become rows of LMDB.

use std::sync::Arc;

use crate::deltas::ListWriter;
use crate::error::StoreError;
use crate::layer::Layer;
use crate::lmdb::{Environment, PLAIN_TABLES};

/// Writes layers, the oldest first, in one durable transaction.
pub(crate) fn write_layers(
    environment: &Environment,
    layers: &[Arc<Layer>],
) -> Result<(), StoreError> {
    let Some(last) = layers.last() else { return Ok(()) };
    let tables = environment.tables;
    let mut txn = environment.write()?;
    let mut lists = ListWriter { postings: tables.postings, row: Vec::new() };
    for layer in layers {
        for table in PLAIN_TABLES {
            for row in layer.rows(table).iter() {
                match row.value {
                    Some(value) => tables.plain(table).put(&mut txn, row.key, value)?,
                    None => {
                        tables.plain(table).delete(&mut txn, row.key)?;
                    }
                }
            }
        }
        for list in layer.lists().iter() {
            lists.change(&mut txn, list.head, list.changes)?;
        }
    }
    last.counters().write(tables.meta, &mut txn)?;
    txn.commit().map_err(|error| environment.commit_failed(error))
}
