//! Which indexes there are, after a change of them.
//!
//! Invariant: which definitions there are after a change depends on those before it and the change
//! alone. Their ids, and how far they are, are this server's own.

use std::sync::Arc;

use schema::{EntryId, IndexChange, Schema};

use crate::error::StoreError;
use crate::index::{INDEX_COUNT_MAX, Index, IndexDefinition, IndexRow, IndexState};
use crate::rows::dictionary::Dictionary;

impl Dictionary {
    /// Whether an index is to be built or to be removed.
    pub(crate) fn has_index_work(&self) -> bool {
        self.indexes().iter().any(|index| index.state != IndexState::Valid)
    }

    /// The dictionary after a change of indexes, and the ids of those that it touched. Entries
    /// from `end` on are still to come.
    ///
    /// What is to come and is there already is built anew; what was valid stays so until then.
    pub(crate) fn changed_by(
        &self,
        change: &IndexChange,
        end: EntryId,
    ) -> Result<(Self, Vec<u16>), StoreError> {
        let mut rows = self.rows();
        let mut touched = Vec::new();
        for line in &change.removed {
            let definition = self.canonical(line)?;
            let before = touched.len();
            drop_each(&mut rows, &mut touched, |row| row.definition == definition);
            if touched.len() == before {
                return Err(refused(line, "there is no such index"));
            }
        }
        for line in &change.added {
            let definition = self.canonical(line)?;
            let is_half_built = |row: &IndexRow| {
                row.definition == definition && matches!(row.state, IndexState::Building { .. })
            };
            drop_each(&mut rows, &mut touched, is_half_built);
            if rows.iter().filter(|row| row.state.is_written()).count() >= INDEX_COUNT_MAX {
                return Err(StoreError::TooMany { what: "indexes", limit: INDEX_COUNT_MAX });
            }
            let id = free_id(&rows).ok_or_else(|| refused(line, "too many others are going"))?;
            let state = IndexState::Building { upto: EntryId::ROOT, end };
            let at = rows.partition_point(|row| row.id < id);
            rows.insert(at, IndexRow { id, definition, state });
            touched.push(id);
        }
        Ok((self.with_rows(&rows)?, touched))
    }

    /// The dictionary when these indexes are filled: they are valid, and those of the same
    /// definitions that were so go. One that is not being built here stays as it is.
    pub(crate) fn with_valid(&self, ids: &[u16]) -> Result<Self, StoreError> {
        let mut rows = self.rows();
        for &id in ids {
            let is_it = |row: &&mut IndexRow| {
                row.id == id && matches!(row.state, IndexState::Building { .. })
            };
            let Some(row) = rows.iter_mut().find(is_it) else { continue };
            row.state = IndexState::Valid;
            let definition = row.definition.clone();
            drop_each(&mut rows, &mut Vec::new(), |row| {
                row.id != id && row.state == IndexState::Valid && row.definition == definition
            });
        }
        self.with_rows(&rows)
    }

    /// The dictionary without an index that has gone.
    pub(crate) fn without_index(&self, id: u16) -> Result<Self, StoreError> {
        let mut rows = self.rows();
        rows.retain(|row| row.id != id || row.state != IndexState::Dropping);
        self.with_rows(&rows)
    }

    /// An index that is another under this schema, or none; its rows would not fit any more.
    #[must_use]
    pub fn misfit(&self, schema: &Schema) -> Option<&IndexDefinition> {
        let is_same = |index: &Index| {
            let under = Index::resolve(index.id, &index.definition, index.state, schema);
            under.is_ok_and(|under| {
                under.definition == index.definition && under.rules() == index.rules()
            })
        };
        let misfit = self.indexes().iter().find(|index| !is_same(index));
        misfit.map(|index| &index.definition)
    }

    /// The dictionary with these indexes.
    pub(crate) fn with_rows(&self, rows: &[IndexRow]) -> Result<Self, StoreError> {
        self.made_anew(Arc::clone(self.schema()), rows)
    }

    fn canonical(&self, line: &str) -> Result<IndexDefinition, StoreError> {
        IndexDefinition::parse(line)?.canonical(self.schema())
    }
}

/// Each of those that are not going yet goes from now on.
fn drop_each(rows: &mut [IndexRow], touched: &mut Vec<u16>, is_meant: impl Fn(&IndexRow) -> bool) {
    for row in rows.iter_mut().filter(|row| row.state.is_written() && is_meant(row)) {
        row.state = IndexState::Dropping;
        touched.push(row.id);
    }
}

/// The lowest id that no index has.
fn free_id(rows: &[IndexRow]) -> Option<u16> {
    let taken = rows.iter().map(|row| row.id);
    let gap = (0..).zip(taken).find(|(want, id)| want != id).map(|(want, _)| want);
    let id = gap.or_else(|| u16::try_from(rows.len()).ok())?;
    (id < INDEX_ID_LIMIT).then_some(id)
}

fn refused(line: &str, reason: &str) -> StoreError {
    StoreError::Invalid { what: "index", text: line.to_owned(), reason: reason.to_owned() }
}

/// Ids are below this: as many as there may be, and as many that are going.
const INDEX_ID_LIMIT: u16 = 2 * INDEX_COUNT_MAX as u16;
