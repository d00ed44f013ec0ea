//! The offline check of the journal, as far as the journal itself cannot know: that the records
//! can be read, follow each other and lead on from the base.
//!
//! Invariant: nothing is changed, not even a torn tail.

use std::path::Path;
use std::sync::Arc;

use crate::HistoryError;
use crate::data_directory::{JOURNAL_DIRECTORY, schema_of};
use journal::{
    Disk, FileDisk, Journal, JournalError, JournalOptions, JournalPosition, TornTail, copy,
};
use schema::{Change, Definition, Schema};
use store::{LogPosition, Lsn, Mark, Store, StoreOptions};

use super::replay::decode;
use super::{common, loss};
use crate::log::is_record;
use crate::record::{Record, RecordError, RecordHead};

/// What the check found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JournalCheck {
    /// Records that were read.
    pub records: u64,
    /// Those of them that are not in the base: the next start applies them.
    pub unflushed: u64,
    /// The first record that is kept.
    pub first: Option<Lsn>,
    /// The last one.
    pub last: Option<Lsn>,
    /// Octets of segments that were checked.
    pub bytes: u64,
    /// What a power cut left half-written; the next start cuts it.
    pub torn: Option<TornTail>,
    /// Each thing that is wrong, as a sentence; no more than [`FINDINGS_MAX`].
    pub findings: Vec<String>,
}

/// No more findings than so many are listed.
pub const FINDINGS_MAX: usize = 100;

/// Checks the journal of a data directory that no server uses. `progress` hears what is being
/// done, how much of it is done and how much there is.
///
/// # Errors
/// When the data directory cannot be opened. What is wrong with the journal is no error, but a
/// finding.
pub fn check_journal(
    data: &Path,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<JournalCheck, HistoryError> {
    let store = Store::open(data, &StoreOptions::default(), schema_of(data)?)?;
    let directory = data.join(JOURNAL_DIRECTORY);
    let (base, has_journal) = (store.base(), store.has_journal());
    if !directory.is_dir() {
        return Ok(missing(has_journal, &base));
    }
    let options = JournalOptions::new(store.id());
    let disk = FileDisk::new(directory);
    let store = Checked {
        schema: store.schema(),
        base,
        has_journal,
        has_members: !store.membership()?.is_empty(),
        copied: store.copied()?,
    };
    Ok(check(&store, &disk, &options, progress))
}

/// What is to be said of a journal that is not there.
fn missing(has_journal: bool, base: &Mark) -> JournalCheck {
    let refused = loss::refuse_missing(has_journal, base).err();
    let findings = refused.iter().map(ToString::to_string).collect();
    JournalCheck { findings, ..JournalCheck::default() }
}

/// What is to be known of the store whose journal is checked.
pub(super) struct Checked {
    pub(super) schema: Arc<Schema>,
    /// The last record of the base.
    pub(super) base: Mark,
    /// Whether it is noted that there is a journal.
    pub(super) has_journal: bool,
    /// Whether it is noted who takes part in a cluster.
    pub(super) has_members: bool,
    /// Where the end of the copy is that was taken over and that the journal may not follow yet.
    pub(super) copied: Option<LogPosition>,
}

/// Checks the journal on `disk` against a store.
pub(super) fn check(
    store: &Checked,
    disk: &dyn Disk,
    options: &JournalOptions,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> JournalCheck {
    let mut told = |done, total| progress("journal", done, total);
    let verified = Journal::verify(disk, options, &mut told);
    let mut check =
        JournalCheck { bytes: verified.bytes, torn: verified.torn, ..JournalCheck::default() };
    check.findings.extend(verified.damage.iter().map(ToString::to_string));
    match verified.failure {
        Some(JournalError::Missing) => return missing(store.has_journal, &store.base),
        Some(error) => check.findings.push(error.to_string()),
        None => {}
    }
    if !check.findings.is_empty() {
        return check;
    }
    let mut chain = Chain { check, schema: None, store, cluster: None, before: None };
    if let Err(error) = chain.walk(disk, options, progress) {
        chain.found(error.to_string());
    }
    chain.check
}

/// A walk over all records.
struct Chain<'s> {
    check: JournalCheck,
    /// With the changes since the base; `None` before the first.
    schema: Option<Schema>,
    store: &'s Checked,
    /// The last entry that is committed; none where the server is alone, and all are.
    cluster: Option<u64>,
    /// The record before.
    before: Option<RecordHead>,
}

impl Chain<'_> {
    fn walk(
        &mut self,
        disk: &dyn Disk,
        options: &JournalOptions,
        progress: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<(), JournalError> {
        let source = copy::open(disk, options.id)?;
        let base = self.store.base;
        let is_of_cluster = self.store.has_members || source.has_vote();
        self.cluster = is_of_cluster.then(|| common::last_committed(&base, &source));
        let refused = match is_of_cluster {
            true if common::is_untold(&base, self.store.copied, &source) => return Ok(()),
            true => common::refuse_lost(&base, &source),
            false => loss::refuse_source(self.store.has_journal, &base, &source),
        };
        if let Err(error) = refused {
            self.found(error.to_string());
        }
        let Some(last) = source.last() else { return Ok(()) };
        let first = source.first();
        if !is_of_cluster && first > base.lsn.0 + 1 {
            self.found(format!(
                "the data end with record {}, and the journal begins with {first}",
                base.lsn.0
            ));
        }
        let total = (last.index + 1).saturating_sub(first);
        for entry in source.read(first)? {
            let entry = entry?;
            self.entry(entry.place, &entry.payload);
            if self.check.records.is_multiple_of(PROGRESS_RECORDS) {
                progress("change records", self.check.records, total);
            }
        }
        progress("change records", self.check.records, total);
        Ok(())
    }

    fn entry(&mut self, place: JournalPosition, payload: &[u8]) {
        let Some(committed) = self.cluster else { return self.record(place, payload) };
        // What is not committed may go; and the log has entries of its own.
        if place.index > committed || !is_record(payload) {
            return;
        }
        let Ok(head) = RecordHead::read(payload) else { return self.record(place, payload) };
        // Where the journal begins the record before is not known.
        let is_next = self.before.is_none_or(|before| head.lsn.0 == before.lsn.0 + 1);
        if is_next && head.reign.0 == place.term {
            self.record(place, payload);
        }
    }

    fn record(&mut self, place: JournalPosition, bytes: &[u8]) {
        let (index, base) = (place.index, self.store.base);
        let check = &mut self.check;
        check.records += 1;
        let head = match RecordHead::read(bytes) {
            Ok(head) => head,
            Err(error) => return self.found(format!("record {index}: {error}")),
        };
        let lsn = head.lsn;
        check.first.get_or_insert(lsn);
        check.last = Some(lsn);
        check.unflushed += u64::from(lsn > base.lsn);
        if self.cluster.is_none() && lsn.0 != index {
            self.found(format!("record {} is in the place of record {index}", lsn.0));
        }
        if let Some(before) = self.before.replace(head) {
            if head.prev_hash != before.hash {
                self.found(format!("record {}: the hash of the record before differs", lsn.0));
            }
            if head.csn.time <= before.csn.time {
                self.found(format!("record {} is not later than the one before", lsn.0));
            }
        }
        let is_next = lsn.0 == base.lsn.0 + 1;
        if (lsn == base.lsn && head.hash != base.hash) || (is_next && head.prev_hash != base.hash) {
            self.found(format!("record {} does not belong to the data: other hash", lsn.0));
        }
        let store = self.store;
        match decode(bytes, self.schema.as_ref().unwrap_or(&store.schema)) {
            Ok((record, _)) if lsn > base.lsn => self.follow(&store.schema, &record),
            Ok(_) => {}
            // Before the base other definitions may have been in force.
            Err(RecordError::Attribute { .. }) if lsn <= base.lsn => {}
            Err(error) => self.found(format!("record {}: {error}", lsn.0)),
        }
    }

    /// Takes over what the record does to the schema.
    fn follow(&mut self, schema: &Schema, record: &Record) {
        for change in &record.changes {
            let Change::Schema(change) = change else { continue };
            let parse = |lines: &[String]| {
                lines.iter().map(|line| Definition::parse_line(line)).collect::<Result<Vec<_>, _>>()
            };
            let (Ok(added), Ok(removed)) = (parse(&change.added), parse(&change.removed)) else {
                return self.found(format!("record {}: no schema definition", record.lsn.0));
            };
            match self.schema.as_ref().unwrap_or(schema).with_change(&added, &removed) {
                Ok(changed) => self.schema = Some(changed),
                Err(error) => self.found(format!("record {}: {error}", record.lsn.0)),
            }
        }
    }

    fn found(&mut self, finding: String) {
        if self.check.findings.len() < FINDINGS_MAX {
            self.check.findings.push(finding);
        }
    }
}

/// After so many records `progress` is called.
const PROGRESS_RECORDS: u64 = 4096;
