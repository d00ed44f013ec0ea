//! Reading a journal behind the log that writes it.
//!
//! Invariant: a record is handed out only after it was applied, and each follows the one before.

use std::sync::Arc;
use std::time::Duration;

use journal::{Entries, JournalError};
use store::Lsn;

use super::local::Shared;
use super::{EncodedRecord, Gone, Tail};
use crate::record::RecordHead;

/// A reader of the records of a journal.
pub(super) struct JournalTail {
    shared: Arc<Shared>,
    next: Lsn,
    /// Where the reading is in the journal; ends where the journal ended when it was opened.
    entries: Option<Entries>,
}

impl JournalTail {
    pub(super) fn new(shared: Arc<Shared>, from: Lsn) -> Self {
        Self { shared, next: from, entries: None }
    }

    /// The next record, which is applied, so it is in the journal.
    fn read(&mut self) -> Result<EncodedRecord, Gone> {
        let entry = match self.entries.as_mut().and_then(Iterator::next) {
            Some(entry) => entry,
            None => {
                let entries = self.shared.read(self.next).map_err(|error| self.gone(&error))?;
                let entry = self.entries.insert(entries).next();
                entry.ok_or_else(|| self.unreadable("the journal ends before it".to_owned()))?
            }
        };
        let entry = entry.map_err(|error| self.gone(&error))?;
        let head = RecordHead::read(&entry.payload);
        let head = head.map_err(|error| self.unreadable(error.to_string()))?;
        if head.lsn != self.next || entry.place.index != head.lsn.0 {
            return Err(self.unreadable(format!("record {} is in its place", head.lsn.0)));
        }
        self.next.0 += 1;
        Ok(EncodedRecord { lsn: head.lsn, hash: head.hash, bytes: entry.payload.into() })
    }

    fn gone(&self, error: &JournalError) -> Gone {
        match error {
            JournalError::Gone { first } => {
                let reason = format!("record {} is not kept any more", self.next.0);
                Gone { first: Lsn(*first), reason, may_pass: false }
            }
            other => {
                let may_pass = matches!(other, JournalError::Io { .. });
                Gone { may_pass, ..self.unreadable(other.to_string()) }
            }
        }
    }

    fn unreadable(&self, reason: String) -> Gone {
        let reason = format!("record {} cannot be read: {reason}", self.next.0);
        Gone { first: self.shared.first(), reason, may_pass: false }
    }
}

impl Tail for JournalTail {
    fn next_within(&mut self, timeout: Duration) -> Result<Option<EncodedRecord>, Gone> {
        let before = Lsn(self.next.0.saturating_sub(1));
        let (applied, is_over) = self.shared.progress.wait_past(before, timeout);
        if self.next <= applied {
            return self.read().map(Some);
        }
        if is_over {
            let reason = "the log takes no more records".to_owned();
            return Err(Gone { first: self.shared.first(), reason, may_pass: true });
        }
        Ok(None)
    }
}
