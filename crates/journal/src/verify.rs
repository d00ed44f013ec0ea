//! The offline check of every byte, for `roster check`.

use crate::recover::{Reach, load};
use crate::segment::first_readable;
use crate::{Damage, Disk, JournalError, JournalOptions, JournalPosition, TornTail};

/// What the check found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerifyReport {
    /// Segments looked at.
    pub segments: u64,
    /// Bytes of whole groups in them.
    pub bytes: u64,
    /// Entries in them.
    pub entries: u64,
    /// The first index that can be read.
    pub first: Option<u64>,
    /// The last entry.
    pub last: Option<JournalPosition>,
    /// Entries up to here are not needed for recovery.
    pub purged: Option<JournalPosition>,
    /// What a power cut left half written; opening the journal will cut it.
    pub torn: Option<TornTail>,
    /// Damage that no power cut explains.
    pub damage: Vec<Damage>,
    /// What kept the check from going on.
    pub failure: Option<JournalError>,
}

impl VerifyReport {
    /// Whether the journal can be opened with nothing lost but a torn tail.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.failure.is_none()
    }
}

/// Checks every byte of a journal that is not being written.
///
/// `progress` is called now and then with the bytes checked so far and their total.
pub fn verify(
    disk: &dyn Disk,
    options: &JournalOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> VerifyReport {
    let mut report = VerifyReport::default();
    match load(disk, options.id, Reach::All, progress) {
        Ok(loaded) => {
            report.segments = loaded.segments.len() as u64;
            report.bytes = loaded.checked.bytes;
            report.entries = loaded.checked.entries;
            report.first = Some(first_readable(&loaded.log, &loaded.segments));
            report.last = loaded.log.last;
            report.purged = loaded.log.purged;
            report.torn = loaded.torn;
            report.damage.extend(loaded.damaged_history);
        }
        Err(JournalError::Damaged(damage)) => report.damage.push(damage),
        Err(error) => report.failure = Some(error),
    }
    report
}
