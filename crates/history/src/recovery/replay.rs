//! Applying records from their octets to a store.
//!
//! Invariant: what a record does follows from its octets and the state before it alone, so it is
//! the same on every machine.

use std::sync::Arc;

use schema::{Change, Schema};
use store::{Applied, Batch, LogPosition, Lsn, Mark, Store, StoreError, View};

use crate::log::ApplyError;
use crate::record::{Record, RecordError, RecordHead};

/// Records that are applied together, on what is published.
pub(super) struct Replay<'s> {
    batch: Batch<'s>,
    /// In force before the next record.
    schema: Arc<Schema>,
}

/// What became of a record.
pub(super) enum Outcome {
    /// It is in the batch.
    Done(Record),
    /// It was decided on another state: it is not the next one, or of another reign than the log
    /// has it in. So it changed nothing.
    Void(Lsn),
}

impl<'s> Replay<'s> {
    /// What was decided and is not published is dropped; waits for a batch that is being made.
    pub(super) fn begin(store: &'s Store) -> Result<Self, StoreError> {
        let batch = store.begin_on_published()?;
        let schema = Arc::clone(batch.view().schema());
        Ok(Self { batch, schema })
    }

    /// Applies the record that the log has at `position`.
    pub(super) fn record(
        &mut self,
        bytes: &[u8],
        position: LogPosition,
    ) -> Result<Outcome, ApplyError> {
        let next = Lsn(self.batch.last().lsn.0 + 1);
        let unreadable =
            |lsn, error: RecordError| ApplyError::Record { lsn, reason: error.to_string() };
        let head = RecordHead::read(bytes).map_err(|error| unreadable(next, error))?;
        let lsn = head.lsn;
        if lsn != next || head.reign.0 != position.term {
            return Ok(Outcome::Void(lsn));
        }
        let (record, schema) =
            decode(bytes, &self.schema).map_err(|error| unreadable(lsn, error))?;
        if let Some(schema) = schema {
            self.schema = Arc::new(schema);
        }
        let mark = Mark { lsn, hash: head.hash, time_us: head.time_us(), position };
        match self.batch.apply_record(head.prev_hash, mark, &record.changes) {
            Ok(Applied::Done) => self.batch.keep_request(head.request),
            Ok(Applied::Void) => return Ok(Outcome::Void(lsn)),
            // A row that a change does not fit is not what it was made on.
            Err(error @ (StoreError::Diverged { .. } | StoreError::Corrupt(_))) => {
                return Err(ApplyError::Diverged { lsn, reason: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
        if record.changes.iter().any(|change| matches!(change, Change::Schema(_))) {
            self.schema = Arc::clone(self.batch.view().schema());
        }
        Ok(Outcome::Done(record))
    }

    /// Why a record that is void ends a recovery.
    pub(super) fn does_not_follow(&self, lsn: Lsn) -> ApplyError {
        let last = self.batch.last().lsn.0;
        let reason = match lsn.0 == last + 1 {
            true => "it was decided in another reign".to_owned(),
            false => format!("its number is {}, and {last} is the last", lsn.0),
        };
        ApplyError::Diverged { lsn, reason }
    }

    /// The state that the records so far have led to.
    pub(super) fn view(&self) -> View<'_> {
        self.batch.view()
    }

    /// The last record that was applied.
    pub(super) fn last(&self) -> Mark {
        self.batch.last()
    }

    /// The memory that the rows take, in bytes.
    pub(super) fn row_bytes(&self) -> usize {
        self.batch.row_bytes()
    }

    /// Makes all of it visible, in one step.
    pub(super) fn publish(self) -> Mark {
        self.batch.publish()
    }
}

/// Decodes a record. What it tells of types that the schema has lost since they were stored, as
/// when an entry is deleted that held them, is read as the store reads it; the schema that this
/// took, if another.
pub(super) fn decode(
    bytes: &[u8],
    schema: &Schema,
) -> Result<(Record, Option<Schema>), RecordError> {
    let mut with: Option<Schema> = None;
    loop {
        let schema = with.as_ref().unwrap_or(schema);
        match Record::decode(bytes, schema) {
            Err(RecordError::Attribute { text, error }) => {
                match store::with_stand_in(schema, &text) {
                    Some(more) => with = Some(more),
                    None => return Err(RecordError::Attribute { text, error }),
                }
            }
            decoded => return decoded.map(|record| (record, with)),
        }
    }
}
