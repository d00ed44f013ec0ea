//! Integrity check: every table and every index against the entries, in both directions.
//!
//! Names, counts and posting lists are made anew from the records and compared with the rows; a row
//! that nothing justifies is a finding as much as one that is missing.
//!
//! Invariants: the check changes nothing, and no damage of the data makes it fail. It works on one
//! point in time, so the directory may be in use. It needs memory for all posting lists, as the
//! bulk load does.

mod apart;
mod one;
mod postings;
mod references;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use heed::{AnyTls, RoTxn};
use ldap::ber::{Reader, Tag};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::data_file;
use crate::base::digest::{Digest, DigestKey};
use crate::base::lmdb::{ATTRIBUTES, CHILDREN, ENTRIES, META, NAMES, Snapshot, Tables};
use crate::base::meta::{self, Counters};
use crate::base::requests;
use crate::bulk::{Lists, PostingKeys};
use crate::error::{Corruption, StoreError};
use crate::index::IndexRow;
use crate::rows::dictionary::Dictionary;
use crate::rows::key::{self, RowKey, display};
use crate::rows::names::{find_in_row, ids_in_row};
use crate::rows::record::{Record, RecordHead};
use crate::store::Store;
use crate::write::apply::rdn_key;
use crate::write::digest::entry_hash;

/// This many findings are listed; the others are only counted.
pub const CHECK_FINDINGS_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CheckReport {
    /// How many entries there are.
    pub entries: u64,
    /// How many rows were compared, in all tables.
    pub rows: u64,
    /// The first [`CHECK_FINDINGS_MAX`] findings.
    pub findings: Vec<Finding>,
    /// How many findings there are of each kind, those that are not listed included.
    pub counts: BTreeMap<FindingKind, u64>,
}

/// Something that contradicts what always holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// What sort of thing.
    pub kind: FindingKind,
    /// Which row, and what is wrong with it.
    pub corruption: Corruption,
}

/// Sorts of findings.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FindingKind {
    /// A record cannot be read.
    Record,
    /// An entry's superior is missing, or is below the entry.
    Superior,
    /// An entry is not found by its name, or a name leads to no entry.
    Name,
    /// A number of subordinates is wrong.
    Count,
    /// A posting list lacks an id or has one too many.
    Posting,
    /// An attribute id or a counter is wrong.
    Number,
    /// A row has a key that no writer makes.
    Key,
}

impl FindingKind {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Record => "unreadable records",
            Self::Superior => "missing superiors",
            Self::Name => "wrong names",
            Self::Count => "wrong counts of subordinates",
            Self::Posting => "wrong index rows",
            Self::Number => "wrong numbers",
            Self::Key => "unknown rows",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.corruption.fmt(f)
    }
}

impl Store {
    /// Compares every table and every index with the entries. `progress` hears what is being
    /// checked, how much of it is done, and how much there is.
    ///
    /// # Errors
    /// When LMDB cannot read its file; what can be read and is wrong is in the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<CheckReport, StoreError> {
        let environment = self.base_environment();
        // What follows is read through a map.
        data_file::check_pages(environment.path())?;
        let snapshot = Snapshot::Read(environment.read()?, None);
        let txn = snapshot.txn();
        // How far an index is says the base alone: what is checked is its point in time.
        let rows = meta::indexes(environment.tables.meta, txn)?;
        let rows: Vec<IndexRow> = rows.into_iter().map(|(row, _)| row).collect();
        let dictionary = self.dictionary().with_rows(&rows)?;
        // A row that cannot be read is a finding; then the naming contexts stay.
        let dictionary = match meta::settings(environment.tables.meta, txn) {
            Ok(settings) => dictionary.with_settings(settings)?,
            Err(_) => dictionary,
        };
        let dictionary = Arc::new(dictionary);
        let counters = Counters::read(environment.tables.meta, txn)?;
        let checker = Checker {
            txn,
            tables: environment.tables,
            lists: Lists::new(&dictionary),
            dictionary,
            children: FxHashMap::default(),
            listed: FxHashSet::default(),
            seen_apart: apart::SeenApart::default(),
            named: 0,
            digest: match counters.digest {
                Some(_) => Some((environment.digest_key()?, Digest::default())),
                None => None,
            },
            report: CheckReport::default(),
        };
        checker.run(progress)
    }
}

struct Checker<'c> {
    txn: &'c RoTxn<'c, AnyTls>,
    tables: Tables,
    dictionary: Arc<Dictionary>,
    /// The posting lists as they should be.
    lists: Lists,
    /// The numbers of subordinates as they should be.
    children: FxHashMap<u64, u64>,
    /// The entries, and those of their attributes, that say that they have a reference list.
    listed: FxHashSet<(u64, u32)>,
    /// The values in rows of their own that were looked through.
    seen_apart: apart::SeenApart,
    /// How many entries are found by their names.
    named: u64,
    /// The digest as it should be, where one is kept and all rows can be read.
    digest: Option<(Arc<DigestKey>, Digest)>,
    report: CheckReport,
}

type Progress<'p> = &'p mut dyn FnMut(&'static str, u64, u64);

impl Checker<'_> {
    fn run(mut self, progress: Progress<'_>) -> Result<CheckReport, StoreError> {
        self.meta()?;
        self.attributes()?;
        self.entries(progress)?;
        self.superiors()?;
        self.names()?;
        self.children()?;
        self.postings(progress)?;
        Ok(self.report)
    }

    fn find(
        &mut self,
        kind: FindingKind,
        table: &'static str,
        key: impl fmt::Display,
        reason: impl Into<String>,
    ) {
        *self.report.counts.entry(kind).or_default() += 1;
        if self.report.findings.len() < CHECK_FINDINGS_MAX {
            let corruption = Corruption { table, key: key.to_string(), reason: reason.into() };
            self.report.findings.push(Finding { kind, corruption });
        }
    }

    fn meta(&mut self) -> Result<(), StoreError> {
        for row in self.tables.meta.iter(self.txn)? {
            let (key, row) = row?;
            self.report.rows += 1;
            if let Some((digest_key, digest)) = &mut self.digest
                && meta::is_digested(key)
            {
                *digest = digest.with(digest_key.meta(key, row));
            }
            if !meta::is_known_key(key) {
                self.find(FindingKind::Key, META, display(key), "is not known");
            } else if let Some(reason) =
                meta::setting_fault(key, row).or_else(|| requests::fault(key, row))
            {
                self.find(FindingKind::Key, META, display(key), reason);
            }
        }
        Ok(())
    }

    /// That each id has its row was checked when the store was opened.
    fn attributes(&mut self) -> Result<(), StoreError> {
        for row in self.tables.attributes.iter(self.txn)? {
            let (row_key, text) = row?;
            self.report.rows += 1;
            let id = row_key.try_into().map(u32::from_be_bytes);
            let id = id.ok();
            if let Some(((digest_key, digest), id)) = self.digest.as_mut().zip(id) {
                *digest = digest.with(digest_key.attribute(id, text));
            }
            let known = id.and_then(|id| self.dictionary.description(id));
            if known.is_none_or(|known| known.text().as_bytes() != text) {
                let reason = format!("'{}' is not what is in use", display(text));
                self.find(FindingKind::Number, ATTRIBUTES, display(row_key), reason);
            }
        }
        Ok(())
    }

    fn entries(&mut self, progress: Progress<'_>) -> Result<(), StoreError> {
        let counters = Counters::read(self.tables.meta, self.txn)?;
        let next_id = counters.next_entry_id;
        let total = self.tables.entries.len(self.txn)?;
        let (mut scratch, mut buffer) = (Vec::new(), Vec::new());
        for row in self.tables.entries.iter(self.txn)? {
            let (row_key, row) = row?;
            if self.report.entries.is_multiple_of(PROGRESS_ENTRIES) {
                progress("entries", self.report.entries, total);
            }
            self.report.rows += 1;
            let Some(id) = key::id(row_key).filter(|&id| id != 0) else {
                self.find(FindingKind::Key, ENTRIES, display(row_key), "is no entry id");
                continue;
            };
            self.report.entries += 1;
            if id >= next_id {
                let reason = format!("is not below the next id, {next_id}");
                self.find(FindingKind::Number, ENTRIES, id, reason);
            }
            match read(row, &self.dictionary, &mut buffer) {
                Ok(record) => self.entry(id, &record, &mut scratch)?,
                Err(reason) => {
                    self.digest = None;
                    self.find(FindingKind::Record, ENTRIES, id, reason);
                }
            }
        }
        progress("entries", total, total);
        self.lists.make_branches();
        self.references()?;
        self.values()?;
        self.counters(&counters);
        Ok(())
    }

    /// What the counters say must agree with the entries and with each other.
    fn counters(&mut self, counters: &Counters) {
        let (said, found) = (counters.entry_count, self.report.entries);
        if said != found {
            let reason = format!("says {said} entries, there are {found}");
            self.find(FindingKind::Number, META, "counters", reason);
        }
        if counters.lsn == 0 && counters.hash != 0 {
            let reason = "has a running hash before the first change";
            self.find(FindingKind::Number, META, "counters", reason);
        }
        if let Some((said, (_, found))) = counters.digest.zip(self.digest.as_ref())
            && said != *found
        {
            let reason = format!("has the digest {said}, and that of the data is {found}");
            self.find(FindingKind::Number, META, "counters", reason);
        }
    }

    fn entry(
        &mut self,
        id: u64,
        record: &Record<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        *self.children.entry(record.parent).or_default() += 1;
        if let Some((key, digest)) = &mut self.digest {
            *digest = digest.with(entry_hash(key, id, record));
        }
        let mut keys = PostingKeys::default();
        for (attribute, values) in record.attributes() {
            keys.extend(&self.dictionary, attribute, values.iter(), scratch);
        }
        self.apart(id, record, &mut keys, scratch)?;
        self.listed.extend(record.listed.iter().map(|attribute| (id, attribute)));
        keys.extend_with_record(&self.dictionary, record, scratch);
        self.lists.push(&keys, record.parent, id);
        let rdn_key = match rdn_key(record.parent, record.rdn, self.dictionary.schema()) {
            Ok(rdn_key) => rdn_key,
            Err(reason) => {
                self.find(FindingKind::Record, ENTRIES, id, format!("has no name: {reason}"));
                return Ok(());
            }
        };
        let (row_key, is_shortened) = RowKey::name(record.parent, rdn_key.as_bytes());
        let row = self.tables.names.get(self.txn, row_key.as_bytes())?;
        let found = row.map(|row| find_in_row(row, rdn_key.as_bytes(), is_shortened));
        match found {
            Some(Ok(Some(found))) if found == id => self.named += 1,
            Some(Ok(_)) | Some(Err(_)) | None => {
                let reason = format!("does not lead to entry {id}");
                self.find(FindingKind::Name, NAMES, display(row_key.as_bytes()), reason);
            }
        }
        let is_context =
            record.parent != 0
                || self.dictionary.contexts().keys().any(|context| {
                    context.as_bytes().strip_suffix(&[0]) == Some(rdn_key.as_bytes())
                });
        if !is_context {
            let reason = format!("'{}' is no naming context", record.rdn);
            self.find(FindingKind::Superior, ENTRIES, id, reason);
        }
        Ok(())
    }

    /// Each superior is an entry, and the way up from it ends at the root.
    fn superiors(&mut self) -> Result<(), StoreError> {
        let mut rooted: FxHashSet<u64> = FxHashSet::from_iter([0]);
        let mut parents: Vec<u64> = self.children.keys().copied().collect();
        parents.sort_unstable();
        for start in parents {
            let mut way: FxHashSet<u64> = FxHashSet::default();
            let mut at = start;
            while !rooted.contains(&at) {
                if !way.insert(at) {
                    self.find(FindingKind::Superior, ENTRIES, at, "is its own superior");
                    break;
                }
                let row = self.tables.entries.get(self.txn, &at.to_be_bytes())?;
                match row.map(RecordHead::parse) {
                    Some(Ok(head)) => at = head.parent,
                    // A finding already.
                    Some(Err(_)) => break,
                    None => {
                        let reason = "is missing, though it has subordinates";
                        self.find(FindingKind::Superior, ENTRIES, at, reason);
                        break;
                    }
                }
            }
            // What is above a finding is not reported again.
            rooted.extend(way);
        }
        Ok(())
    }

    /// Every name leads to an entry. Each entry was found by its name, or is a finding; so when
    /// there are not more names than that, there is nothing to look for.
    fn names(&mut self) -> Result<(), StoreError> {
        let mut count = 0;
        for row in self.tables.names.iter(self.txn)? {
            let (row_key, row) = row?;
            self.report.rows += 1;
            match ids_in_row(row_key, row) {
                Ok(ids) => count += ids.len() as u64,
                Err(_) => {
                    self.find(FindingKind::Name, NAMES, display(row_key), "is not well formed");
                }
            }
        }
        if count == self.named {
            return Ok(());
        }
        for row in self.tables.names.iter(self.txn)? {
            let (row_key, row) = row?;
            for id in ids_in_row(row_key, row).unwrap_or_default() {
                if !self.has_name(id, row_key)? {
                    let reason = format!("leads to entry {id}, which has another name or is none");
                    self.find(FindingKind::Name, NAMES, display(row_key), reason);
                }
            }
        }
        Ok(())
    }

    fn has_name(&self, id: u64, row_key: &[u8]) -> Result<bool, StoreError> {
        let Some(row) = self.tables.entries.get(self.txn, &id.to_be_bytes())? else {
            return Ok(false);
        };
        let Ok(head) = RecordHead::parse(row) else { return Ok(false) };
        let rdn_key = rdn_key(head.parent, head.rdn, self.dictionary.schema());
        let Ok(rdn_key) = rdn_key else { return Ok(false) };
        Ok(RowKey::name(head.parent, rdn_key.as_bytes()).0.as_bytes() == row_key)
    }

    fn children(&mut self) -> Result<(), StoreError> {
        for row in self.tables.children.iter(self.txn)? {
            let (row_key, row) = row?;
            self.report.rows += 1;
            let (Some(parent), Some(count)) = (key::id(row_key), key::id(row)) else {
                self.find(FindingKind::Count, CHILDREN, display(row_key), "is no number");
                continue;
            };
            let want = self.children.remove(&parent).unwrap_or_default();
            if want != count {
                let reason = format!("says {count}, there are {want}");
                self.find(FindingKind::Count, CHILDREN, parent, reason);
            }
            let entry = self.tables.entries.get(self.txn, row_key)?;
            if want == 0 && parent != 0 && entry.is_none() {
                self.find(FindingKind::Count, CHILDREN, parent, "is of an entry that is not there");
            }
        }
        let mut missing: Vec<(u64, u64)> = self.children.drain().collect();
        missing.sort_unstable();
        for (parent, want) in missing {
            let reason = format!("is missing, there are {want}");
            self.find(FindingKind::Count, CHILDREN, parent, reason);
        }
        Ok(())
    }
}

/// Reads a record with all its values.
fn read<'r>(
    row: &'r [u8],
    dictionary: &Dictionary,
    buffer: &'r mut Vec<u8>,
) -> Result<Record<'r>, String> {
    let record = Record::read(row, dictionary, buffer)?;
    let mut seen = Vec::new();
    for (attribute, values) in record.attributes_unchecked() {
        if seen.contains(&attribute) {
            return Err(format!("has attribute {attribute} twice"));
        }
        seen.push(attribute);
        let mut values = Reader::new(values);
        while !values.is_empty() {
            let value = values.octets(Tag::OCTET_STRING);
            value.map_err(|error| format!("has a value of attribute {attribute}: {error}"))?;
        }
    }
    Ok(record)
}

/// Progress is told every so many entries.
const PROGRESS_ENTRIES: u64 = 10_000;

#[cfg(test)]
mod tests;
