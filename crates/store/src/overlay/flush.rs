//! Flushing: what is published becomes rows of LMDB, in one durable transaction, and leaves the
//! overlay.
//!
//! Two threads work on the overlay. The *merger* keeps the number of layers small that readers look
//! through. The *flusher* takes all layers that are published, makes them one, and writes it in the
//! order of the keys; it has a lower priority than the others, since nobody waits for it unless
//! the overlay is full. A third one builds indexes on the base, see `index/build.rs`.
//!
//! Invariants: LMDB goes from the state after one record to the state after a later one, never to
//! anything between. What a flush writes is durable in the log before, so the base is never ahead
//! of the log. Layers leave the overlay after the commit that wrote them; when it fails they stay,
//! and it is tried again. Neither thread holds anything that a reader or the writer needs.

mod lists;
mod log_sync;
mod pace;
mod threads;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::lists::ListWriter;
pub(crate) use self::log_sync::LogSync;
pub use self::log_sync::SyncLog;
pub use self::pace::{FlushOptions, OverlayStatus};
pub(crate) use self::pace::{Pace, now};
pub(crate) use self::threads::BACKGROUND_NICE;
pub use self::threads::{Flusher, OnFlush};

use crate::base::compress::{Compression, Compressor};
use crate::base::lmdb::{Environment, PLAIN_TABLES, PlainTable, Table};
use crate::base::meta::{self, Counters, Mark};
use crate::base::position::Lsn;
use crate::base::requests::{self, KeptRequest};
use crate::error::StoreError;
use crate::overlay::layer::{Layer, Row};
use crate::overlay::merge::{TIER_MAX, merge, merged_lists, merged_rows, together};
use crate::store::Store;

impl Store {
    /// Makes everything that is published durable in LMDB, now; returns the place of the last
    /// change.
    ///
    /// # Errors
    /// When LMDB fails; then the overlay is as it was.
    pub fn flush(&self) -> Result<Mark, StoreError> {
        let _flushing = self.flushing();
        let begin = now();
        let result = self.flush_locked();
        self.pace.flushed(&self.versions, begin, result.as_ref().err());
        result
    }

    fn flush_locked(&self) -> Result<Mark, StoreError> {
        let membership = self.pace.membership();
        let version = self.pace.freeze(&self.versions);
        let Some(last) = version.layers.last() else {
            if membership.is_some() {
                write(&version.environment, &[], None, membership.as_ref())?;
                self.pace.membership_written(membership);
            }
            return Ok(version.base);
        };
        let base = last.counters().mark();
        let merged = self.merge_frozen(&version.layers);
        let environment = Arc::clone(&version.environment);
        let compression = version.dictionary.compression().cloned();
        drop(version);
        self.log_sync.run(&base)?;
        write(&environment, &merged, compression.as_ref(), membership.as_ref())?;
        self.pace.membership_written(membership);
        let before = self.versions.load();
        self.versions.rebase(base);
        self.pace.retire(before.layers.iter().filter(|layer| layer.last() <= base.lsn));
        self.release_seat();
        Ok(base)
    }

    /// Makes the layers that are to be flushed one, also for the readers: while they are written
    /// there will be new ones on top.
    fn merge_frozen(&self, layers: &[Arc<Layer>]) -> Vec<Arc<Layer>> {
        // The merger may be at some of them; of what it has not begun it keeps off.
        drop(self.pace.merging());
        let Some(last) = layers.last().map(|layer| layer.last()) else { return Vec::new() };
        let version = self.versions.load();
        let frozen: Vec<Arc<Layer>> =
            version.layers.iter().filter(|layer| layer.last() <= last).cloned().collect();
        drop(version);
        if frozen.len() == 1 {
            return frozen;
        }
        let Some(merged) = merge(&frozen, &mut || ()) else { return frozen };
        let merged = Arc::new(merged);
        self.versions.replace_layers(&frozen, Arc::clone(&merged));
        self.pace.merged(&self.versions);
        self.pace.retire(frozen.iter());
        vec![merged]
    }

    /// Merges layers while there are too many. Large ones take a while, so smaller ones that come
    /// meanwhile are merged in between.
    pub(crate) fn merge_due(&self) {
        let merging = self.pace.merging();
        self.merge_below(TIER_MAX, Lsn(0));
        drop(merging);
        self.pace.sweep();
    }

    /// Merges layers of the tiers below `below` that came after `after`.
    fn merge_below(&self, below: u32, after: Lsn) {
        while let Some((run, tier)) = self.pace.layers_to_merge(&self.versions, below, after) {
            let last = run.last().map(|layer| layer.last()).unwrap_or_default();
            let merged = merge(&run, &mut || {
                if tier > 0 && self.pace.has_many(&self.versions) {
                    self.merge_below(tier, last);
                }
            });
            let Some(merged) = merged else { return };
            let is_done = self.versions.replace_layers(&run, Arc::new(merged));
            self.pace.merged(&self.versions);
            self.pace.retire(run.iter());
            if !is_done {
                return;
            }
        }
    }

    /// Has `sync` called before each flush with the last change of it: it makes durable in the log
    /// what comes up to there, and the flush waits for it. When it fails, the flush does.
    pub fn sync_log_before_flush(&self, sync: SyncLog) {
        self.log_sync.set(sync);
    }

    /// Keeps who takes part in the log, in the log's own octets: durable with the next flush.
    pub fn set_membership(&self, membership: Vec<u8>) {
        self.pace.set_membership(membership);
    }

    /// What records may say, as the base has it; see [`crate::View::record_level`].
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn base_record_level(&self) -> Result<Option<u16>, StoreError> {
        let environment = self.base_environment();
        let snapshot = environment.snapshot()?;
        let key = meta::setting_key(meta::LEVEL)?;
        let row = environment.tables.meta.get(snapshot.txn(), key.as_bytes())?;
        let values = row.map(|row| meta::setting_values(&key, row)).transpose()?;
        meta::record_level(&values.unwrap_or_default())
    }

    /// Who takes part in the log, as it was last set; empty when it never was.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn membership(&self) -> Result<Vec<u8>, StoreError> {
        match self.pace.membership() {
            Some(membership) => Ok(membership.to_vec()),
            None => {
                let environment = self.base_environment();
                let snapshot = environment.snapshot()?;
                meta::membership(environment.tables.meta, snapshot.txn())
            }
        }
    }

    /// The requests that have a record which is published, in the order of the records: those that
    /// are to be known after the last one. Empty where no digest is kept.
    ///
    /// # Errors
    /// When LMDB fails, or holds something else.
    pub fn requests(&self) -> Result<Vec<KeptRequest>, StoreError> {
        let version = self.versions.load();
        // Taken later, it has all that is below the layers.
        let snapshot = version.environment.snapshot()?;
        let mut all = requests::read(version.environment.tables.meta, snapshot.txn())?;
        let base = version.base.lsn;
        all.retain(|request| request.lsn <= base);
        all.extend(version.layers.iter().flat_map(|layer| layer.requests()));
        let last = version.counters.mark();
        all.retain(|request| request.is_kept(last.lsn, last.time_us));
        Ok(all)
    }

    /// Waits while the overlay is full; says whether there is room now. When it is nearly full it
    /// waits a little, so that the flusher keeps up and nobody has to wait for long.
    #[must_use]
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        self.pace.wait_for_room(timeout)
    }
}

/// Writes layers, the oldest first, in one durable transaction.
pub(crate) fn write_layers(
    environment: &Environment,
    layers: &[Arc<Layer>],
    compression: Option<&Arc<Compression>>,
) -> Result<(), StoreError> {
    write(environment, layers, compression, None)
}

fn write(
    environment: &Environment,
    layers: &[Arc<Layer>],
    compression: Option<&Arc<Compression>>,
    membership: Option<&Arc<[u8]>>,
) -> Result<(), StoreError> {
    // A process that was killed while it read may have left a mark that keeps pages from reuse.
    environment.clear_stale_readers()?;
    let tables = environment.tables;
    let mut txn = environment.write()?;
    let before = Counters::read(tables.meta, &txn)?;
    let (mut compressor, mut compressed) = (compression.map(Compressor::new), Vec::new());
    for table in PLAIN_TABLES {
        // Ids ascend: behind the last entry there was, rows are only added at the end.
        let new_from = match table {
            PlainTable::Entries => Some(before.next_entry_id.to_be_bytes()),
            _ => None,
        };
        // What is opened for writing has all tables.
        let Some(to) = tables.plain(table) else { continue };
        let mut rows = merged_rows(layers, table);
        while let Some(row) = rows.next_group().last() {
            let mut row = *row;
            if table == PlainTable::Entries
                && let (Some(compressor), Some(value)) = (&mut compressor, row.value)
                && compressor.compress(value, &mut compressed)
            {
                row.value = Some(&compressed);
            }
            let is_new = new_from.is_some_and(|from| row.key >= from.as_slice());
            write_row(to, &mut txn, &row, is_new)?;
        }
    }
    let mut writer = ListWriter::new(tables.postings);
    let mut lists = merged_lists(layers);
    let mut changes = Vec::new();
    while let [list, ..] = *lists.next_group() {
        writer.change(&mut txn, list.head, together(lists.group(), &mut changes))?;
    }
    if let Some(last) = layers.last() {
        last.counters().write(tables.meta, &mut txn)?;
        write_requests(tables.meta, &mut txn, layers, &last.counters().mark())?;
    }
    if let Some(membership) = membership {
        meta::write_membership(tables.meta, &mut txn, membership)?;
    }
    #[cfg(test)]
    fail_if_asked(environment)?;
    txn.commit().map_err(|error| environment.commit_failed(error))
}

fn write_requests(
    meta: Table,
    txn: &mut heed::RwTxn<'_>,
    layers: &[Arc<Layer>],
    last: &Mark,
) -> Result<(), StoreError> {
    // Most often there is one layer.
    let several: Vec<KeptRequest>;
    let all = match layers {
        [only] => only.requests(),
        _ => {
            several = layers.iter().flat_map(|layer| layer.requests()).copied().collect();
            &several
        }
    };
    if all.is_empty() { Ok(()) } else { requests::write(meta, txn, all, last) }
}

fn write_row(
    table: Table,
    txn: &mut heed::RwTxn<'_>,
    row: &Row<'_>,
    is_new: bool,
) -> Result<(), StoreError> {
    match row.value {
        Some(value) if is_new => {
            Ok(table.put_with_flags(txn, heed::PutFlags::APPEND, row.key, value)?)
        }
        Some(value) => Ok(table.put(txn, row.key, value)?),
        None if is_new => Ok(()),
        None => {
            table.delete(txn, row.key)?;
            Ok(())
        }
    }
}

#[cfg(test)]
pub(crate) use self::tests::{fail_if_asked, set_failing};

#[cfg(test)]
mod tests;
