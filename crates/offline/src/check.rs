//! Verifying a data directory while no server runs: `roster check`.
//!
//! Invariant: nothing is changed, not even what the next start would mend.

use std::path::Path;

use history::recovery::{JournalCheck, check_journal};
use history::{HistoryError, schema_of};
use store::{CheckReport, Store, StoreOptions};

use crate::backup::read_only_store;

/// What a check found.
#[derive(Debug)]
pub struct DirectoryCheck {
    /// The journal.
    pub journal: JournalCheck,
    /// The tables of the base.
    pub base: CheckReport,
    /// How many entries there are with the records that are in the journal alone; `None` when
    /// these cannot be applied, which is a finding of the journal.
    pub entries: Option<u64>,
}

impl DirectoryCheck {
    /// How many faults there are.
    pub fn faults(&self) -> u64 {
        self.base.counts.values().sum::<u64>() + self.journal.findings.len() as u64
    }
}

/// Verifies the journal and the tables of the data directory `data`, and that the records which are
/// in the journal alone can be applied. `progress` hears what is being done, how much of it is done
/// and how much there is.
///
/// # Errors
/// When the data directory cannot be opened or read, for example because a server uses it. What is
/// wrong with the data is no error, but a finding.
pub fn check(
    data: &Path,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<DirectoryCheck, HistoryError> {
    let mut journal = check_journal(data, progress)?;
    let options = StoreOptions::default();
    let base = Store::open(data, &options, schema_of(data)?)?.check(progress)?;
    if journal.unflushed == 0 || !journal.findings.is_empty() || !base.findings.is_empty() {
        let entries = (journal.unflushed == 0).then_some(base.entries);
        return Ok(DirectoryCheck { journal, base, entries });
    }
    progress("replaying", 0, journal.unflushed);
    let entries = match read_only_store(data, &options) {
        Ok(store) => Some(store.reader().view()?.entry_count()?),
        Err(error @ (HistoryError::Journal(_) | HistoryError::Mismatch { .. })) => {
            journal.findings.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    Ok(DirectoryCheck { journal, base, entries })
}
