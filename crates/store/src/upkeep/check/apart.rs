//! Values in rows of their own against the records that say how many there are.

use rustc_hash::FxHashSet;

use super::{Checker, FindingKind};
use crate::base::lmdb::{ENTRIES, VALUES};
use crate::bulk::PostingKeys;
use crate::error::StoreError;
use crate::rows::apart;
use crate::rows::key::display;
use crate::rows::record::{ApartOf, Record};

/// The values that are rows of their own, as far as they were looked through.
#[derive(Debug, Default)]
pub(super) struct SeenApart {
    /// The attributes, and the entries, whose rows were read.
    of: FxHashSet<(u32, u64)>,
    rows: u64,
}

impl Checker<'_> {
    /// Checks the rows of an entry, and gathers the keys that it has by them.
    pub(super) fn apart(
        &mut self,
        id: u64,
        record: &Record<'_>,
        keys: &mut PostingKeys,
        scratch: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        for of in record.apart.iter() {
            if !record.values(of.attribute).is_empty() {
                let reason = format!("has attribute {} and rows of its values", of.attribute);
                self.find(FindingKind::Record, ENTRIES, id, reason);
            }
            self.apart_of(id, of, keys, scratch)?;
        }
        Ok(())
    }

    fn apart_of(
        &mut self,
        id: u64,
        of: ApartOf,
        keys: &mut PostingKeys,
        scratch: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let attribute = of.attribute;
        let dictionary = std::sync::Arc::clone(&self.dictionary);
        let (Some(rule), Some(table)) = (dictionary.apart_rule(attribute), self.tables.values)
        else {
            let reason = format!("has values apart of attribute {attribute}, which has none");
            self.find(FindingKind::Record, ENTRIES, id, reason);
            return Ok(());
        };
        self.seen_apart.of.insert((attribute, id));
        let (mut count, mut octets) = (0, 0);
        for row in table.prefix_iter(self.txn, &apart::prefix(attribute, id))? {
            let (row_key, row) = row?;
            self.seen_apart.rows += 1;
            self.report.rows += 1;
            let Some(values) = apart::values(row).filter(|_| apart::parts(row_key).is_some())
            else {
                self.digest = None;
                self.find(FindingKind::Record, VALUES, display(row_key), "is not well formed");
                continue;
            };
            for value in values {
                count += 1;
                octets += apart::octets(value);
                let place = apart::prefix(attribute, id);
                if apart::key(dictionary.schema(), rule, &place, value) != row_key {
                    let reason = "has a value of another key";
                    self.find(FindingKind::Record, VALUES, display(row_key), reason);
                }
                if let Some((key, digest)) = &mut self.digest {
                    *digest = digest.with(key.value(id, attribute, value));
                }
                keys.extend_apart(&dictionary, attribute, value, scratch);
            }
        }
        if (count, octets) != (of.count, of.octets) {
            let reason = format!(
                "says {} values of attribute {attribute} in rows of their own, {} octets; there \
                 are {count}, {octets} octets",
                of.count, of.octets
            );
            self.find(FindingKind::Count, ENTRIES, id, reason);
        }
        Ok(())
    }

    /// Every row is of an entry that says so.
    pub(super) fn values(&mut self) -> Result<(), StoreError> {
        let Some(table) = self.tables.values else { return Ok(()) };
        if table.len(self.txn)? == self.seen_apart.rows {
            return Ok(());
        }
        for row in table.iter(self.txn)? {
            let (row_key, _) = row?;
            let place = apart::parts(row_key).map(|(attribute, id, _)| (attribute, id));
            if !place.is_some_and(|place| self.seen_apart.of.contains(&place)) {
                self.report.rows += 1;
                let reason = "is of no entry that says that it has such values";
                self.find(FindingKind::Key, VALUES, display(row_key), reason);
            }
        }
        Ok(())
    }
}
