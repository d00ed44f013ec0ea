//! The integrity check: every table against the entries, in both directions.
//!
//! Each entry must decode, have a superior and a row in `names` that leads to it; the counts of
//! subordinates must be exact; and each index must hold the keys of the entries and nothing else.
//! For the indexes a fingerprint is taken of the pairs (key, entry) that should be there and of
//! those that are; only where the two differ the index is gone through pair by pair.

mod postings;

use rustc_hash::FxHashMap;
use schema::EntryId;

use crate::apply::rdn_key;
use crate::error::{Corruption, StoreError};
use crate::key;
use crate::lmdb::{CHILDREN, ENTRIES, META, NAMES};
use crate::names::ids_in_row;
use crate::record::Record;
use crate::store::Store;
use crate::view::View;

use postings::{Fingerprint, Pairs};

/// The most findings that are listed; further ones are counted.
pub const FINDINGS_MAX: usize = 100;

/// What a check has found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// How many entries were checked.
    pub entries: u64,
    /// How many rows there are in all tables.
    pub rows: u64,
    /// How many contradictions there are; for a damaged index, at least how many.
    pub finding_count: u64,
    /// The first of them.
    pub findings: Vec<Corruption>,
}

impl CheckReport {
    fn add(&mut self, table: &'static str, key: impl std::fmt::Display, reason: impl Into<String>) {
        let key = key.to_string();
        self.push(Corruption { table, key, reason: reason.into() });
    }

    fn push(&mut self, finding: Corruption) {
        self.finding_count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Notes damage, and passes other failures on.
    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt(finding)) => {
                self.push(finding);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CheckProgress {
    /// The table that is being read.
    pub table: &'static str,
    /// Rows read.
    pub done: u64,
    /// Rows in all.
    pub total: u64,
}

impl Store {
    /// Checks everything; what is wrong is in the report, and only what keeps it from reading is an
    /// error. Runs on one snapshot, beside readers and writers.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport, StoreError> {
        let view = self.snapshot(Default::default())?;
        let mut check = Check { view: &view, report: CheckReport::default(), progress };
        for table in view.tables().all() {
            check.report.rows += table.len(view.txn())?;
        }
        let (children, expected) = check.entries()?;
        check.names()?;
        check.children(children)?;
        let found = check.postings()?;
        for index in view.dictionary().indexes() {
            if expected.of(index.id) != found.of(index.id) {
                check.compare_index(index)?;
            }
        }
        Ok(check.report)
    }
}

struct Check<'c> {
    view: &'c View<'static>,
    report: CheckReport,
    progress: &'c mut dyn FnMut(CheckProgress),
}

/// Rows between two calls of the progress function.
const PROGRESS_ROWS: u64 = 10_000;

impl Check<'_> {
    fn progress(&mut self, table: &'static str, done: u64, total: u64) {
        if done.is_multiple_of(PROGRESS_ROWS) || done == total {
            (self.progress)(CheckProgress { table, done, total });
        }
    }

    /// Checks each entry; returns how many subordinates each has, and the pairs of all indexes.
    fn entries(&mut self) -> Result<(FxHashMap<u64, u64>, Fingerprint), StoreError> {
        let view = self.view;
        let mut children: FxHashMap<u64, u64> = FxHashMap::default();
        let mut fingerprint = Fingerprint::new(view.dictionary().indexes().len());
        let mut pairs = Pairs::default();
        let mut last = 0;
        let total = view.entry_count()?;
        for row in view.tables().entries.iter(view.txn())? {
            let (row_key, row) = row?;
            self.report.entries += 1;
            self.progress(ENTRIES, self.report.entries, total);
            let Some(id) = key::id(row_key).filter(|&id| id != 0) else {
                self.report.add(ENTRIES, key::display(row_key), "is no id");
                continue;
            };
            last = id;
            let record = match Record::parse(row, view.dictionary().len()) {
                Ok(record) => record,
                Err(reason) => {
                    self.report.add(ENTRIES, id, reason);
                    continue;
                }
            };
            if let Some(reason) = damaged_values(&record) {
                self.report.add(ENTRIES, id, reason);
                continue;
            }
            *children.entry(record.parent).or_default() += 1;
            self.name(id, &record)?;
            pairs.of_record(view.dictionary(), &record, |index, key| {
                fingerprint.add(index, key, id)
            });
        }
        if last >= view.next_entry_id() {
            self.report.add(
                META,
                "counters",
                format!("entry {last} has an id that is yet to come"),
            );
        }
        Ok((children, fingerprint))
    }

    /// The entry's superior exists, its name leads to it, and no superior is below it.
    fn name(&mut self, id: u64, record: &Record<'_>) -> Result<(), StoreError> {
        let whole = self.view.entry(EntryId(id));
        if self.report.note(whole)?.is_none() {
            return Ok(());
        }
        let key = match rdn_key(record, self.view.schema()) {
            Ok(key) => key,
            Err(reason) => {
                self.report.add(ENTRIES, id, format!("has a name without a key: {reason}"));
                return Ok(());
            }
        };
        let found = self.view.child(record.parent, key.as_bytes());
        match self.report.note(found)? {
            Some(Some(found)) if found == id => {}
            Some(Some(found)) => {
                let name = record.rdn;
                self.report.add(NAMES, name, format!("leads to entry {found}, not to {id}"));
            }
            Some(None) => self.report.add(NAMES, record.rdn, format!("is missing for entry {id}")),
            None => {}
        }
        Ok(())
    }

    /// Each name leads to an entry of that name.
    fn names(&mut self) -> Result<(), StoreError> {
        let view = self.view;
        let total = view.tables().names.len(view.txn())?;
        let mut done = 0;
        for row in view.tables().names.iter(view.txn())? {
            let (row_key, row) = row?;
            done += 1;
            self.progress(NAMES, done, total);
            let Some(ids) = self.report.note(ids_in_row(row_key, row))? else { continue };
            for id in ids {
                let entry = view.tables().entries.get(view.txn(), &id.to_be_bytes())?;
                let record = entry.and_then(|row| Record::parse(row, view.dictionary().len()).ok());
                let shown = || key::display(row_key);
                let Some(record) = record else {
                    self.report.add(NAMES, shown(), format!("leads to {id}, which is no entry"));
                    continue;
                };
                let own = rdn_key(&record, view.schema());
                let own = own.map(|own| key::RowKey::name(record.parent, own.as_bytes()).0);
                if own.is_ok_and(|own| own.as_bytes() != row_key) {
                    self.report.add(NAMES, shown(), format!("leads to {id} of another name"));
                }
            }
        }
        Ok(())
    }

    /// The counts are those of the entries. Zero may be written down or not.
    fn children(&mut self, mut counted: FxHashMap<u64, u64>) -> Result<(), StoreError> {
        let view = self.view;
        let total = view.tables().children.len(view.txn())?;
        let mut done = 0;
        for row in view.tables().children.iter(view.txn())? {
            let (row_key, row) = row?;
            done += 1;
            self.progress(CHILDREN, done, total);
            let (Some(id), Some(count)) = (key::id(row_key), key::id(row)) else {
                self.report.add(CHILDREN, key::display(row_key), "is not well formed");
                continue;
            };
            let entry = view.tables().entries.get(view.txn(), row_key)?;
            if id != 0 && entry.is_none() {
                self.report.add(CHILDREN, id, "is about no entry");
            }
            let there = counted.remove(&id).unwrap_or(0);
            if count != there {
                self.report.add(CHILDREN, id, format!("counts {count} where there are {there}"));
            }
        }
        for (id, there) in counted {
            self.report.add(CHILDREN, id, format!("is missing where there are {there}"));
        }
        Ok(())
    }
}

/// What is wrong with the values of a record, each of which must be a whole OCTET STRING.
fn damaged_values(record: &Record<'_>) -> Option<&'static str> {
    let mut seen = Vec::new();
    for (id, values) in record.raw_attributes() {
        let mut reader = ldap::ber::Reader::new(values);
        while !reader.is_empty() {
            if reader.octets(ldap::ber::Tag::OCTET_STRING).is_err() {
                return Some("has values that are not in wire form");
            }
        }
        if seen.contains(&id) {
            return Some("has an attribute twice");
        }
        seen.push(id);
    }
    None
}

#[cfg(test)]
mod tests;
