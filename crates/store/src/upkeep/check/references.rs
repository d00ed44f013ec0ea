//! Reference lists against the entries, and against each other.

use std::ops::ControlFlow;

use rustc_hash::FxHashSet;

use super::{Checker, FindingKind};
use crate::base::lmdb::{ENTRIES, POSTINGS};
use crate::error::StoreError;
use crate::index::{SOURCE_LISTS, TARGET_LISTS};
use crate::read::listed_rows::{ListedRow, each_listed};

impl Checker<'_> {
    /// Checks that what is in lists are entries, that records and lists agree on which there are,
    /// and that both sides tell the same.
    pub(super) fn references(&mut self) -> Result<(), StoreError> {
        let mut sums = [0_u128; 2];
        let mut lists: FxHashSet<(u64, u32)> = FxHashSet::default();
        let mut missing = Vec::new();
        let (txn, tables) = (self.txn, self.tables);
        let mut digest = self.digest.take();
        let read = each_listed(tables.postings, txn, TARGET_LISTS, |row| {
            let ListedRow { attribute, of: source, id: target } = row;
            lists.insert((source, attribute));
            sums[0] = sums[0].wrapping_add(mixed(source, attribute, target));
            if let Some((key, digest)) = &mut digest {
                *digest = digest.with(key.reference(source, attribute, target));
            }
            match tables.entries.get(txn, &target.to_be_bytes()) {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => missing.push((source, target)),
            }
            ControlFlow::Continue(())
        });
        self.digest = digest;
        self.note_references(read)?;
        let read = each_listed(tables.postings, txn, SOURCE_LISTS, |row| {
            sums[1] = sums[1].wrapping_add(mixed(row.id, row.attribute, row.of));
            ControlFlow::Continue(())
        });
        self.note_references(read)?;
        for (source, target) in missing {
            let reason = format!("names entry {target} in a list, which is not there");
            self.find(FindingKind::Posting, ENTRIES, source, reason);
        }
        for (source, attribute) in
            self.listed.symmetric_difference(&lists).copied().collect::<Vec<_>>()
        {
            let reason = format!("has a list of attribute {attribute}, or says so, and not both");
            self.find(FindingKind::Posting, ENTRIES, source, reason);
        }
        if let [named, naming] = sums
            && named != naming
        {
            let reason = "who is named in lists, and who names them, do not agree";
            self.find(FindingKind::Posting, POSTINGS, "reference lists", reason);
        }
        Ok(())
    }

    fn note_references(&mut self, read: Result<u64, StoreError>) -> Result<(), StoreError> {
        match read {
            Ok(rows) => self.report.rows += rows,
            Err(StoreError::Corrupt(corruption)) => {
                self.digest = None;
                let reason = corruption.reason.clone();
                self.find(FindingKind::Posting, POSTINGS, corruption.key.clone(), reason);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// A number of a reference, so that sums of different ones differ.
fn mixed(source: u64, attribute: u32, target: u64) -> u128 {
    let mut octets = [0; 20];
    let parts = source.to_be_bytes().into_iter().chain(attribute.to_be_bytes());
    octets.iter_mut().zip(parts.chain(target.to_be_bytes())).for_each(|(to, from)| *to = from);
    xxhash_rust::xxh3::xxh3_128(&octets)
}
