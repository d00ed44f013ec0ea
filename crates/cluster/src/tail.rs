//! Reading the records of the log behind the engine that writes it.
//!
//! Invariant: a record is handed out only after it was applied by the log here, and each follows
//! the one before.
//! What is void, and what is no record, is passed over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use history::log::{EncodedRecord, Gone, Tail};
use history::record::RecordHead;
use openraft::EntryPayload;
use store::Lsn;

use crate::log_store::LogStore;
use crate::shared::Shared;
use crate::types::Entry;

/// A reader of the records of the log.
pub(crate) struct RaftTail {
    shared: Arc<Shared>,
    log: LogStore,
    next: Lsn,
    /// Index, as the engine counts, of the next entry to be read.
    at: u64,
    /// The running hash before the next record, once that is known.
    hash: Option<u64>,
    /// Records that were read and come next.
    ready: VecDeque<EncodedRecord>,
}

/// Records of a leadership may be void although they have the number that is looked for: a batch
/// that was refused in the middle of others. Their numbers come again soon. Until the number has
/// grown by so many, a later record takes the place of an earlier one.
const VOID_REACH: u64 = 16_384;

/// How much of the log is read at once, in bytes, if more than one entry.
const READ_MAX_BYTES: usize = 256 << 10;

impl RaftTail {
    /// From record `from` on.
    ///
    /// # Errors
    /// When the log has it no more, or cannot be read.
    pub(crate) fn new(shared: Arc<Shared>, log: LogStore, from: Lsn) -> Result<Self, Gone> {
        // The index of a record, as the journal counts, is its number at least.
        let at = from.0.saturating_sub(1).max(log.first_readable());
        let mut tail = Self { shared, log, next: from, at, hash: None, ready: VecDeque::new() };
        if from <= tail.shared.progress.applied() {
            tail.seek()?;
        }
        Ok(tail)
    }

    /// Finds the next record, which is applied, so it is in the log or was purged.
    fn seek(&mut self) -> Result<(), Gone> {
        let (applied, next) = (self.shared.progress.applied(), self.next);
        self.check_copied(next)?;
        let mut found: Option<(u64, EncodedRecord)> = None;
        let (mut at, mut highest) = (self.at, Lsn(0));
        while highest < applied && highest.0 < next.0.saturating_add(VOID_REACH) {
            let entries = self.read(at)?;
            let Some(last) = entries.last() else { break };
            at = last.log_id.index + 1;
            for entry in &entries {
                let Some((_, record)) = record_of(entry) else { continue };
                if found.is_none() && record.lsn > next {
                    let reason = format!("record {} is not kept any more", next.0);
                    return Err(Gone { first: record.lsn, reason, may_pass: false });
                }
                highest = highest.max(record.lsn);
                if record.lsn == next {
                    found = Some((entry.log_id.index, record));
                }
            }
        }
        let Some((index, record)) = found else {
            return Err(self.unreadable("the log ends before it"));
        };
        self.at = index + 1;
        self.hash = Some(record.hash);
        self.ready.push_back(record);
        Ok(())
    }

    /// Reads on to the next record.
    fn fill(&mut self) -> Result<(), Gone> {
        if self.hash.is_none() {
            return self.seek();
        }
        let mut lsn = self.next;
        // Before the log is read: what is behind it may be replaced by something else.
        let applied = self.shared.progress.applied();
        self.check_copied(lsn)?;
        while self.ready.is_empty() {
            let entries = self.read(self.at)?;
            if entries.is_empty() {
                return Err(self.unreadable("the log ends before it"));
            }
            for entry in &entries {
                if lsn > applied || self.shared.behind_copy(lsn).is_some() {
                    break;
                }
                self.at = entry.log_id.index + 1;
                let Some((prev_hash, record)) = record_of(entry) else { continue };
                if record.lsn == lsn && Some(prev_hash) == self.hash {
                    self.hash = Some(record.hash);
                    lsn.0 += 1;
                    self.ready.push_back(record);
                }
            }
        }
        Ok(())
    }

    /// What came in a copy is in no log here, whatever the log has in its place.
    fn check_copied(&self, next: Lsn) -> Result<(), Gone> {
        let Some(first) = self.shared.behind_copy(next) else { return Ok(()) };
        let reason = format!("record {} came in a copy of the data", next.0);
        Err(Gone { first, reason, may_pass: false })
    }

    fn read(&self, at: u64) -> Result<Vec<Entry>, Gone> {
        let entries = self.log.entries_now(at, READ_MAX_BYTES);
        entries.map_err(|error| self.unreadable(&error.to_string()))
    }

    fn unreadable(&self, reason: &str) -> Gone {
        let reason = format!("record {} cannot be read: {reason}", self.next.0);
        // Nothing says that it is gone: whoever tries again finds what there is.
        Gone { first: self.next, reason, may_pass: true }
    }
}

impl Tail for RaftTail {
    fn next_within(&mut self, timeout: Duration) -> Result<Option<EncodedRecord>, Gone> {
        let before = Lsn(self.next.0.saturating_sub(1));
        let (applied, is_over) = self.shared.progress.wait_past(before, timeout);
        if self.next > applied {
            if is_over {
                return Err(self.unreadable("the log takes no more records"));
            }
            return Ok(None);
        }
        if self.ready.is_empty() {
            self.fill()?;
        }
        let record = self.ready.pop_front();
        self.next.0 += 1;
        Ok(record)
    }
}

/// The record of an entry that is of the term in which it was decided, and the hash before it.
fn record_of(entry: &Entry) -> Option<(u64, EncodedRecord)> {
    let EntryPayload::Normal(bytes) = &entry.payload else { return None };
    // Not a record of this release: it was not applied either.
    let head = RecordHead::read(&bytes.0).ok()?;
    let is_current = head.reign.0 == **entry.log_id.committed_leader_id();
    let bytes = Arc::clone(&bytes.0);
    is_current.then_some((head.prev_hash, EncodedRecord { lsn: head.lsn, hash: head.hash, bytes }))
}
