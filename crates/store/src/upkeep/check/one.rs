//! One index against the entries, without the rest of the check.

use std::sync::Arc;

use super::{CheckReport, Checker, PROGRESS_ENTRIES, Progress};
use crate::base::lmdb::Snapshot;
use crate::base::meta;
use crate::bulk::{Lists, PostingKeys};
use crate::error::StoreError;
use crate::index::{IndexRow, IndexState};
use crate::rows::key;
use crate::rows::record::Record;
use crate::store::Store;

impl Store {
    /// Compares one index, by its name or its definition, with the entries, both as they are in
    /// the base; none when there is no such index there. Of an index that is being built, what is
    /// done by now is compared.
    ///
    /// # Errors
    /// When LMDB cannot read its file; what can be read and is wrong is in the report.
    pub fn verify_index(
        &self,
        name: &str,
        progress: Progress<'_>,
    ) -> Result<Option<CheckReport>, StoreError> {
        let known = self.dictionary();
        let environment = self.base_environment();
        let snapshot = Snapshot::Read(environment.read()?, None);
        let txn = snapshot.txn();
        let rows = meta::indexes(environment.tables.meta, txn)?;
        let is_meant = |row: &IndexRow| {
            row.definition.name().eq_ignore_ascii_case(name) || row.definition.to_string() == name
        };
        let mut rows: Vec<IndexRow> = rows.into_iter().map(|(row, _)| row).collect();
        rows.retain(|row| row.state.is_written() && is_meant(row));
        // While it is built anew, the one that serves is meant.
        rows.sort_by_key(|row| row.state != IndexState::Valid);
        rows.truncate(1);
        let Some(id) = rows.first().map(|row| row.id) else { return Ok(None) };
        let dictionary = Arc::new(known.with_rows(&rows)?);
        let checker = Checker {
            txn,
            tables: environment.tables,
            lists: Lists::new(&dictionary),
            dictionary,
            children: rustc_hash::FxHashMap::default(),
            listed: rustc_hash::FxHashSet::default(),
            seen_apart: super::apart::SeenApart::default(),
            named: 0,
            digest: None,
            report: CheckReport::default(),
        };
        checker.one_index(id, progress).map(Some)
    }
}

impl Checker<'_> {
    fn one_index(mut self, id: u16, progress: Progress<'_>) -> Result<CheckReport, StoreError> {
        let total = self.tables.entries.len(self.txn)?;
        let (mut scratch, mut buffer) = (Vec::new(), Vec::new());
        for row in self.tables.entries.iter(self.txn)? {
            let (row_key, row) = row?;
            if self.report.entries.is_multiple_of(PROGRESS_ENTRIES) {
                progress("entries", self.report.entries, total);
            }
            self.report.entries += 1;
            let (Some(id), Ok(record)) =
                (key::id(row_key), Record::read(row, &self.dictionary, &mut buffer))
            else {
                continue;
            };
            let mut keys = PostingKeys::default();
            for (attribute, values) in record.attributes() {
                keys.extend(&self.dictionary, attribute, values.iter(), &mut scratch);
            }
            self.apart(id, &record, &mut keys, &mut scratch)?;
            keys.extend_with_record(&self.dictionary, &record, &mut scratch);
            self.lists.push(&keys, record.parent, id);
        }
        progress("entries", total, total);
        self.postings_of(id)?;
        Ok(self.report)
    }
}
