//! Reading what changed, however long ago: from the archive, then from the log.
//!
//! Invariant: records come in order and without a gap, each on the state that the one before left;
//! else the reading ends and says from where on it can begin anew.
//! Invariant: a reader holds one block of the archive or one record of the log, and nobody waits
//! for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use environment::Timestamp;
use store::Lsn;

use crate::archive::{Archive, ArchiveError, ArchiveReader};
use crate::log::{CommitLog, EncodedRecord, Gone, Tail};
use crate::record::RecordHead;

/// All change records that are kept, and those to come.
#[derive(Clone)]
pub struct Changes {
    log: Arc<dyn CommitLog>,
    archive: Option<Arc<Archive>>,
}

impl Changes {
    /// Those of a log, and what an archive has of before.
    pub fn new(log: Arc<dyn CommitLog>, archive: Option<Arc<Archive>>) -> Self {
        Self { log, archive }
    }

    /// The first record that can be read; all up to the present follow it.
    pub fn first(&self) -> Lsn {
        let kept = self.kept_by_log();
        let archived = self.archive.as_ref().and_then(|archive| {
            let reaches = archive.last().is_some_and(|last| last.0 + 1 >= kept.0);
            archive.first().filter(|_| reaches)
        });
        archived.map_or(kept, |first| first.min(kept))
    }

    /// The last record that was applied here.
    pub fn last(&self) -> Lsn {
        self.log.applied()
    }

    /// The records from `from` on, those to come included.
    ///
    /// # Errors
    /// When `from` is not kept any more.
    pub fn read(&self, from: Lsn) -> Result<ChangeReader, Gone> {
        let mut reader =
            ChangeReader { changes: self.clone(), next: from, hash: None, source: None };
        reader.open()?;
        Ok(reader)
    }

    /// The records behind `last`, after which the running hash was `hash`: for a reader who was
    /// here before.
    ///
    /// # Errors
    /// When what follows is not kept any more, or the history is another: it was restored, or
    /// loaded anew.
    pub fn read_after(&self, last: Lsn, hash: u64) -> Result<ChangeReader, Gone> {
        let other = |first: Lsn| Gone {
            first,
            reason: format!("record {} is of another history of these data", last.0),
            may_pass: false,
        };
        if last > self.last() {
            return Err(other(self.first()));
        }
        // The record itself is there or not; what follows tells the hash before it, too.
        if let Ok(mut reader) = self.read(last)
            && let Some(record) = reader.next_within(Duration::ZERO)?
        {
            return if record.hash == hash { Ok(reader) } else { Err(other(self.first())) };
        }
        let mut reader = self.read(Lsn(last.0 + 1))?;
        reader.hash = Some(hash);
        Ok(reader)
    }

    /// The first record that was not decided before `time`; the one to come if all were. What the
    /// archive does not have is looked through, until `is_over` says to end; then there is none.
    ///
    /// # Errors
    /// When records cannot be read.
    pub fn first_since(
        &self,
        time: Timestamp,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Lsn>, Gone> {
        let mut from = self.kept_by_log();
        if let Some(archive) = &self.archive {
            let found = archive.first_since(time).map_err(|error| self.unreadable(&error))?;
            // The log may go back further than the archive.
            let is_first = found == archive.first() && found.is_some_and(|found| from < found);
            if found.is_some() && !is_first {
                return Ok(found);
            }
            if found.is_none() {
                from = archive.last().map_or(from, |last| from.max(Lsn(last.0 + 1)));
            }
        }
        let mut reader = self.read(from)?;
        while reader.next <= self.last() {
            if is_over() {
                return Ok(None);
            }
            let next = reader.next;
            let Some(record) = reader.next_within(Duration::ZERO)? else { break };
            let head = RecordHead::read(&record.bytes);
            if head.is_ok_and(|head| head.csn.time >= time) {
                return Ok(Some(next));
            }
        }
        Ok(Some(reader.next))
    }

    /// The first record that the log itself has.
    fn kept_by_log(&self) -> Lsn {
        self.log.tail(Lsn(0)).err().map_or(Lsn(1), |gone| gone.first)
    }

    fn unreadable(&self, error: &ArchiveError) -> Gone {
        let reason = format!("the archive cannot be read: {error}");
        let may_pass = matches!(error, ArchiveError::Io { .. });
        Gone { first: self.kept_by_log(), reason, may_pass }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("archive", &self.archive).finish_non_exhaustive()
    }
}

/// Reads records in order; see [`Changes::read`].
pub struct ChangeReader {
    changes: Changes,
    next: Lsn,
    /// The running hash after the record that was read last.
    hash: Option<u64>,
    source: Option<Source>,
}

/// Where a reader is.
enum Source {
    Archive(ArchiveReader),
    Log(Box<dyn Tail>),
}

impl ChangeReader {
    /// The record that comes next.
    pub const fn position(&self) -> Lsn {
        self.next
    }

    /// Goes to where the next record is: the log, which has the later ones, or the archive.
    fn open(&mut self) -> Result<(), Gone> {
        self.source = None;
        let gone = match self.changes.log.tail(self.next) {
            Ok(tail) => {
                self.source = Some(Source::Log(tail));
                return Ok(());
            }
            Err(gone) => gone,
        };
        let reader = self.changes.archive.as_ref().map(|archive| archive.read(self.next));
        let Some(reader) = reader.filter(|_| self.next < gone.first && self.is_archived()) else {
            return Err(Gone { first: self.changes.first(), ..gone });
        };
        self.source = Some(Source::Archive(reader));
        Ok(())
    }

    fn is_archived(&self) -> bool {
        let Some(archive) = &self.changes.archive else { return false };
        archive.first().is_some_and(|first| first <= self.next)
            && archive.last().is_some_and(|last| self.next <= last)
    }

    /// Takes a record if it follows the one before.
    fn take(&mut self, record: EncodedRecord) -> Result<EncodedRecord, Gone> {
        let head = RecordHead::read(&record.bytes);
        let follows = head.is_ok_and(|head| {
            head.lsn == self.next && self.hash.is_none_or(|hash| hash == head.prev_hash)
        });
        if !follows {
            let reason = format!("record {} does not follow the one before", self.next.0);
            return Err(Gone { first: self.changes.first(), reason, may_pass: false });
        }
        self.next = Lsn(record.lsn.0 + 1);
        self.hash = Some(record.hash);
        Ok(record)
    }
}

impl Tail for ChangeReader {
    fn next_within(&mut self, timeout: Duration) -> Result<Option<EncodedRecord>, Gone> {
        // Twice: from the log, which gave the record up, to the archive, or the other way round.
        let mut moves_left = 2;
        loop {
            let moved = match &mut self.source {
                Some(Source::Archive(reader)) => match reader.next_record() {
                    Ok(Some(record)) => return self.take(record).map(Some),
                    Ok(None) => None,
                    Err(error) => {
                        return Err(self.changes.unreadable(&error));
                    }
                },
                Some(Source::Log(tail)) => match tail.next_within(timeout) {
                    Ok(Some(record)) => return self.take(record).map(Some),
                    Ok(None) => return Ok(None),
                    Err(gone) => Some(gone),
                },
                None => None,
            };
            if moves_left == 0 {
                let reason = format!("record {} cannot be read now", self.next.0);
                let first = self.changes.first();
                return Err(moved.unwrap_or(Gone { first, reason, may_pass: true }));
            }
            if let Some(gone) = moved.filter(|gone| gone.first <= self.next) {
                return Err(gone);
            }
            moves_left -= 1;
            self.open()?;
        }
    }
}

impl fmt::Debug for ChangeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeReader").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
