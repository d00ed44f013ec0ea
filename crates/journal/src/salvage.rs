//! What is left of a journal that does not open: for an operator who goes on without what is lost.
//!
//! Invariant: reads only. What is given follows without a gap; what a later release wrote, or what
//! belongs to another store, is never passed over.

use crate::format::Kind;
use crate::scan::{Opened, segment_sequence};
use crate::{Disk, JournalError, LogEntry};

/// What is left.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Salvaged {
    /// The index behind the last entry that was given.
    pub next: u64,
    /// The last entry that is there at all, though one before it is not; none where nothing is
    /// known to follow.
    pub beyond: Option<u64>,
}

/// Gives the entries from index `from` on, as far as they follow each other; `each` says of every
/// one whether it can be used, and after one that cannot no other is given.
///
/// # Errors
/// When a file cannot be read, belongs to another store, or a later release wrote it.
pub fn salvage<E: From<JournalError>>(
    disk: &dyn Disk,
    id: [u8; 16],
    from: u64,
    each: &mut dyn FnMut(LogEntry) -> Result<bool, E>,
) -> Result<Salvaged, E> {
    let names = disk.list().map_err(|error| JournalError::io("listing the journal", &error))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| segment_sequence(name)).collect();
    sequences.sort_unstable();
    let mut walk = Walk { next: from, last: None, is_over: false, each };
    for sequence in sequences {
        match Opened::open(disk, id, sequence) {
            Ok(opened) => walk.segment(&opened)?,
            // What it held is among what is lost.
            Err(JournalError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Walk { next, last, .. } = walk;
    Ok(Salvaged { next, beyond: last.filter(|last| *last >= next) })
}

struct Walk<'e, E> {
    /// The entry that is due.
    next: u64,
    /// The last entry there is.
    last: Option<u64>,
    /// No more is given.
    is_over: bool,
    each: &'e mut dyn FnMut(LogEntry) -> Result<bool, E>,
}

impl<E: From<JournalError>> Walk<'_, E> {
    fn segment(&mut self, opened: &Opened) -> Result<(), E> {
        let mut scan = opened.scan();
        loop {
            match scan.advance()? {
                None => {}
                Some(end) if end.unknown_kind.is_some() => {
                    let reason = end.reason.to_owned();
                    return Err(opened.damage(end.offset, None, reason).into());
                }
                Some(_) => return Ok(()),
            }
            for record in scan.records() {
                match record.kind {
                    Kind::Entry if self.is_due(record.place.index) => {
                        let payload = record.payload.to_vec();
                        if (self.each)(LogEntry { place: record.place, payload })? {
                            self.next += 1;
                        } else {
                            self.is_over = true;
                        }
                    }
                    // What was given is not what the log has in the end.
                    Kind::Truncate if record.place.index + 1 < self.next => self.is_over = true,
                    Kind::Entry
                    | Kind::Vote
                    | Kind::Committed
                    | Kind::Truncate
                    | Kind::Purge
                    | Kind::State
                    | Kind::Seal
                    | Kind::Cut
                    | Kind::Mark => {}
                }
            }
        }
    }

    /// Whether an entry is the next to be given.
    fn is_due(&mut self, index: u64) -> bool {
        self.last = self.last.max(Some(index));
        self.is_over |= index > self.next;
        index == self.next && !self.is_over
    }
}
