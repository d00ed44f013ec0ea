//! The data file that a load fills, and the one thread that writes it.
//!
//! Invariants: rows are written in the order they are sent. The file is in the load's own
//! directory and is synced before [`Target::finish`] returns; nobody reads it before.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use heed::PutFlags;

use crate::base::lmdb::{Environment, StoreOptions, Tables};
use crate::error::StoreError;

/// Tables that are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum To {
    Meta,
    Attributes,
    Entries,
    Names,
    Children,
    Postings,
    Values,
}

/// Rows of one table.
#[derive(Debug)]
pub(super) struct Piece {
    to: To,
    /// Each comes after every row of the table.
    is_appended: bool,
    /// Length of the key (2 octets), length of the value (4), key, value; and again.
    octets: Vec<u8>,
}

impl Piece {
    /// Rows that come in order, and behind all that the table has.
    pub(super) const fn appended(to: To) -> Self {
        Self { to, is_appended: true, octets: Vec::new() }
    }

    /// Rows that come anywhere.
    pub(super) const fn anywhere(to: To) -> Self {
        Self { to, is_appended: false, octets: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_with(|out| out.extend_from_slice(key), |out| out.extend_from_slice(value));
    }

    /// One more row, of which key and value are appended to what there is.
    #[inline]
    pub(super) fn push_with(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.octets.len();
        self.octets.extend_from_slice(&[0; LENGTHS_BYTES]);
        key(&mut self.octets);
        let middle = self.octets.len();
        value(&mut self.octets);
        let key_length = (middle - start - LENGTHS_BYTES) as u16;
        let value_length = (self.octets.len() - middle) as u32;
        let lengths = self.octets.get_mut(start..).and_then(|row| row.split_at_mut_checked(2));
        if let Some((key, value)) = lengths {
            key.copy_from_slice(&key_length.to_le_bytes());
            if let Some(value) = value.first_chunk_mut() {
                *value = value_length.to_le_bytes();
            }
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Whether it is time to send it.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.octets.len() >= PIECE_BYTES
    }

    /// The rows, and an empty piece of the same sort in their place.
    pub(super) fn take(&mut self) -> Self {
        let octets = std::mem::take(&mut self.octets);
        if !octets.is_empty() {
            self.octets.reserve(PIECE_BYTES + PIECE_BYTES / 8);
        }
        Self { octets, ..*self }
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.octets.as_slice();
        std::iter::from_fn(move || {
            let (key, after) = rest.split_first_chunk()?;
            let (value, after) = after.split_first_chunk()?;
            let (key, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*key)))?;
            let (value, after) = after.split_at_checked(u32::from_le_bytes(*value) as usize)?;
            rest = after;
            Some((key, value))
        })
    }
}

const LENGTHS_BYTES: usize = 6;
/// A piece is sent when it has this many octets.
pub(super) const PIECE_BYTES: usize = 512 << 10;
/// So many pieces may wait to be written.
const PIECES_AHEAD: usize = 8;

/// What was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// How many rows `entries` has.
    pub(super) entries: u64,
    /// How many `names` has.
    pub(super) names: u64,
    /// How many `children` has.
    pub(super) children: u64,
    /// How many `postings` has.
    pub(super) postings: u64,
    /// The pages of `entries`, in bytes.
    pub(super) record_bytes: u64,
}

/// A data file that is being filled.
#[derive(Debug)]
pub(super) struct Target {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<Written, StoreError>>>,
    path: PathBuf,
}

#[derive(Debug)]
enum Message {
    Piece(Piece),
    /// All was sent. Where it does not come, nobody wants the file any more.
    End,
}

impl Target {
    /// Makes an empty one in `directory`. A commit comes after `commit_bytes`.
    pub(super) fn create(
        directory: &Path,
        options: &StoreOptions,
        commit_bytes: u64,
    ) -> Result<Self, StoreError> {
        let environment = Environment::open_to_fill(directory, options)?;
        let (sender, messages) = sync_channel(PIECES_AHEAD);
        let thread = std::thread::Builder::new()
            .name("bulk-write".to_owned())
            .spawn(move || {
                let written = write(&environment, &messages, commit_bytes);
                environment.close();
                written
            })
            .map_err(|source| StoreError::io(directory, source))?;
        Ok(Self { sender: Some(sender), thread: Some(thread), path: directory.to_owned() })
    }

    /// Writes rows after all that were sent before.
    pub(super) fn send(&self, piece: Piece) -> Result<(), StoreError> {
        if piece.is_empty() { Ok(()) } else { self.send_message(Message::Piece(piece)) }
    }

    fn send_message(&self, message: Message) -> Result<(), StoreError> {
        // Why the thread has ended, it tells at the end.
        let ended = || StoreError::Lmdb("the load's writer has ended".to_owned());
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        sender.send(message).map_err(|_| ended())
    }

    /// Waits until all is written and durable.
    pub(super) fn finish(mut self) -> Result<Written, StoreError> {
        let _ = self.send_message(Message::End);
        self.join()
    }

    /// Waits until the thread has ended, and hears why.
    fn join(&mut self) -> Result<Written, StoreError> {
        self.sender = None;
        let failed = || StoreError::Lmdb("the load's writer failed".to_owned());
        let thread = self.thread.take().ok_or_else(failed)?;
        thread.join().unwrap_or_else(|_| Err(failed()))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // So that no thread goes on with files that are about to go.
        let _ = self.join();
    }
}

fn write(
    environment: &Environment,
    messages: &Receiver<Message>,
    commit_bytes: u64,
) -> Result<Written, StoreError> {
    let tables = environment.tables;
    let mut txn = environment.write()?;
    let mut bytes = 0;
    loop {
        let piece = match messages.recv() {
            Ok(Message::Piece(piece)) => piece,
            Ok(Message::End) => break,
            Err(_) => return Err(StoreError::Interrupted),
        };
        let table = match piece.to {
            To::Meta => Some(tables.meta),
            To::Attributes => Some(tables.attributes),
            To::Entries => Some(tables.entries),
            To::Names => Some(tables.names),
            To::Children => Some(tables.children),
            To::Postings => Some(tables.postings),
            To::Values => tables.values,
        };
        // What is made anew has all tables.
        let Some(table) = table else { continue };
        let flags = if piece.is_appended { PutFlags::APPEND } else { PutFlags::empty() };
        for (key, value) in piece.rows() {
            table.put_with_flags(&mut txn, flags, key, value)?;
        }
        bytes += piece.octets.len() as u64;
        if bytes >= commit_bytes {
            txn.commit().map_err(|error| environment.commit_failed(error))?;
            txn = environment.write()?;
            bytes = 0;
        }
    }
    let rows = |table| Tables::stat(table, &txn).map(|stat| stat.entries as u64);
    let entries = Tables::stat(tables.entries, &txn)?;
    let pages = (entries.branch_pages + entries.leaf_pages + entries.overflow_pages) as u64;
    let written = Written {
        entries: entries.entries as u64,
        names: rows(tables.names)?,
        children: rows(tables.children)?,
        postings: rows(tables.postings)?,
        record_bytes: pages * u64::from(entries.page_size),
    };
    txn.commit().map_err(|error| environment.commit_failed(error))?;
    environment.sync()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut piece = Piece::anywhere(To::Names);
        let rows: [(&[u8], &[u8]); 3] = [(b"key", b"value"), (b"", b""), (b"x", &[7; 70_000])];
        rows.iter().for_each(|(key, value)| piece.push(key, value));
        let taken = piece.take();
        assert_eq!(taken.rows().collect::<Vec<_>>(), rows);
        assert!(piece.is_empty() && !piece.is_appended && taken.to == To::Names);
    }
}
