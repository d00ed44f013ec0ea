//! Going on alone with the data of a member whose cluster has no majority any more.
//!
//! Invariant: all that the log of the member holds is kept, also what it does not know to be
//! committed: others may have acknowledged it. What of it was never acknowledged is kept, too.
//! Invariant: broken off anywhere, it can be done again, and no server starts on what is half done.

use std::path::{Path, PathBuf};

use journal::{
    Disk, FileDisk, Journal, JournalError, JournalOptions, JournalPosition, LogEntry, copy,
};
use store::{Lsn, Mark, Store, StoreOptions};

use super::accept::{newest_aside, put_aside, remove};
use super::common::{is_untold, last_committed, refuse_lost};
use super::{flush_large, not_applied, replay_batch};
use crate::HistoryError;
use crate::data_directory::{CLUSTER_SETTINGS, JOURNAL_DIRECTORY, journal_disk, schema_of};
use crate::log::{ApplyError, ENTRY_MEMBERSHIP, Reign, is_record};
use crate::record::RecordHead;

/// What a member of a cluster holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holdings {
    /// Who took part at the end of the data, in the words of the log.
    pub membership: Vec<u8>,
    /// The last entry behind them that says who takes part, if there is one.
    pub membership_entry: Option<Vec<u8>>,
    /// The last record that it knows to be committed.
    pub committed: Lsn,
    /// The last record that it has.
    pub last: Lsn,
    /// When that was decided, in microseconds since 1970.
    pub time_us: u64,
    /// The last entry of its log, whatever is in it.
    pub end: JournalPosition,
    /// Why what follows in its journal cannot be used; none if nothing is wrong with it.
    pub damage: Option<String>,
}

/// Looks at what the data directory `data` of a member holds, and changes nothing.
///
/// # Errors
/// When a server uses it, it is not that of a member, or it cannot be read.
pub fn holdings(data: &Path) -> Result<Holdings, HistoryError> {
    let store = open(data)?;
    look(&store, &disk_of(&store, data)?)
}

/// Makes the data directory `data` of a member that of a server alone, with all that is in its
/// log, and as another store: `prepare` gets what it holds and the new id, before there is no way
/// back; returns the last record, and where the old journal is.
///
/// # Errors
/// As [`holdings`], and when `prepare` fails or the data directory cannot be written.
pub fn leave_cluster<E: From<HistoryError>>(
    data: &Path,
    prepare: impl FnOnce(&Holdings, [u8; 16]) -> Result<(), E>,
) -> Result<(Mark, Option<PathBuf>), E> {
    let holdings = {
        let store = open(data)?;
        let holdings = look(&store, &disk_of(&store, data)?)?;
        // Without it no member starts: what is kept from here on may not be committed.
        set_aside(&store, data)?;
        keep_all(&store, &disk_of(&store, data)?, holdings.end.index)?;
        holdings
    };
    let aside = newest_aside(data);
    store::renew_identity(data).map_err(HistoryError::from)?;
    let store = open(data)?;
    let options = JournalOptions::new(store.id());
    let journal = Journal::create(journal_disk(data)?, options, store.base().lsn.0 + 1);
    journal.map_err(HistoryError::from)?.close();
    store.note_journal().map_err(HistoryError::from)?;
    prepare(&holdings, store.id())?;
    let left = store.leave_cluster(Reign::ETERNAL.0, &CLUSTER_SETTINGS);
    left.map_err(HistoryError::from)?;
    let dropped = store.settle_copied().and_then(|()| store.drop_received());
    dropped.map_err(HistoryError::from)?;
    Ok((store.base(), aside))
}

fn open(data: &Path) -> Result<Store, HistoryError> {
    Ok(Store::open(data, &StoreOptions::default(), schema_of(data)?)?)
}

/// The journal of the member: where a run that was broken off has put it, or where it was.
fn disk_of(store: &Store, data: &Path) -> Result<FileDisk, HistoryError> {
    let own = data.join(JOURNAL_DIRECTORY);
    match newest_aside(data) {
        Some(aside) if !is_of_member(store, &own)? => Ok(FileDisk::new(aside)),
        _ => Ok(FileDisk::new(own)),
    }
}

/// Puts the journal of the member aside, unless that was done; what was made in its place goes.
fn set_aside(store: &Store, data: &Path) -> Result<(), HistoryError> {
    let directory = data.join(JOURNAL_DIRECTORY);
    if !directory.is_dir() {
        return Ok(());
    }
    if newest_aside(data).is_none() || is_of_member(store, &directory)? {
        return put_aside(data, &directory).map(drop);
    }
    remove(&directory)
}

/// Whether a journal is not one that was made for a server alone: damaged, it counts as that of the
/// member.
fn is_of_member(store: &Store, directory: &Path) -> Result<bool, HistoryError> {
    if !directory.is_dir() {
        return Ok(false);
    }
    match copy::open(&FileDisk::new(directory), store.id()) {
        Ok(journal) => Ok(journal.has_vote()),
        Err(JournalError::Missing | JournalError::Foreign { .. }) => Ok(false),
        Err(JournalError::Damaged(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn look(store: &Store, disk: &dyn Disk) -> Result<Holdings, HistoryError> {
    let membership = store.membership()?;
    if membership.is_empty() {
        return Err(HistoryError::NotOfCluster);
    }
    let base = store.base();
    let mut holdings = Holdings {
        membership,
        membership_entry: None,
        committed: base.lsn,
        last: base.lsn,
        time_us: base.time_us,
        end: JournalPosition { term: base.position.term, index: base.position.index },
        damage: None,
    };
    match entries(store, disk, &base) {
        Ok((committed, entries)) => {
            for entry in entries {
                if let Err(damage) = entry
                    .map_err(HistoryError::from)
                    .and_then(|entry| holdings.note(&entry, committed))
                {
                    holdings.damage = Some(damage.to_string());
                    break;
                }
            }
        }
        Err(error) => holdings.damage = Some(error.to_string()),
    }
    Ok(holdings)
}

type EntriesLeft = Box<dyn Iterator<Item = Result<LogEntry, JournalError>>>;

/// What the journal of a member has behind the base, and up to where it is known to be committed.
/// One that was put aside, by a run that was broken off, has nothing that the base lacks, and the
/// one after it has no vote.
fn entries(
    store: &Store,
    disk: &dyn Disk,
    base: &Mark,
) -> Result<(u64, EntriesLeft), HistoryError> {
    let journal = match copy::open(disk, store.id()) {
        // Another id is that of a run that was broken off after the base had all.
        Err(JournalError::Missing | JournalError::Foreign { .. }) => {
            return Ok((0, Box::new(std::iter::empty())));
        }
        opened => opened?,
    };
    if !journal.has_vote() || is_untold(base, store.copied()?, &journal) {
        return Ok((0, Box::new(std::iter::empty())));
    }
    refuse_lost(base, &journal)?;
    Ok((last_committed(base, &journal), Box::new(journal.read(base.position.index + 1)?)))
}

impl Holdings {
    fn note(&mut self, entry: &LogEntry, committed: u64) -> Result<(), HistoryError> {
        if is_record(&entry.payload) {
            let head = RecordHead::read(&entry.payload).map_err(|error| {
                let lsn = Lsn(self.last.0 + 1);
                let error = ApplyError::Record { lsn, reason: error.to_string() };
                not_applied(entry.place.index, &error)
            })?;
            // As those are told apart that have an effect.
            if head.lsn.0 == self.last.0 + 1 && head.reign.0 == entry.place.term {
                (self.last, self.time_us) = (head.lsn, head.time_us());
                if entry.place.index <= committed {
                    self.committed = head.lsn;
                }
            }
        }
        if entry.payload.starts_with(&ENTRY_MEMBERSHIP) {
            self.membership_entry = Some(entry.payload.clone());
        }
        self.end = entry.place;
        Ok(())
    }
}

/// Brings what the log has, up to entry `until`, into the base.
fn keep_all(store: &Store, disk: &dyn Disk, until: u64) -> Result<(), HistoryError> {
    let base = store.base();
    if until > base.position.index {
        let (_, entries) = entries(store, disk, &base)?;
        let wanted = usize::try_from(until - base.position.index).unwrap_or(usize::MAX);
        let mut entries = entries.take(wanted).peekable();
        while entries.peek().is_some() {
            replay_batch(store, &mut entries, true)?;
            flush_large(store)?;
        }
    }
    store.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
