//! The base of one member of a cluster for another: copied out, received beside, put in place.
//!
//! All of it lies below `copy/` in the data directory: `sent-N`, a copy that is being sent, and for
//! one that is received a directory that has its id for a name, with the data file in it. The note
//! `decided` says that a copy that was received takes the place of the base, whatever happens.
//!
//! Invariant: what a copy holds is read from the copy itself.
//! Invariant: without the note the old base counts, and with it the copy: whoever opens the data
//! directory finishes what the note says.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schema::Schema;

use crate::base::copy_files::{
    COPY_DIRECTORY, Note, SENT, copy_directory, make_directory, name_of, remove_others,
};
use crate::base::format::{DATA_FILE, FORMAT, by_chance, sync_directory};
use crate::base::lmdb::{Environment, StoreOptions};
use crate::base::meta::{self, Counters, Mark};
use crate::base::position::LogPosition;
use crate::base::swap::OtherBase;
use crate::error::StoreError;
use crate::overlay::stack::Ground;
use crate::overlay::version::Version;
use crate::read::view::{Memories, View};
use crate::store::Store;

/// A copy leaves so much room on the disk, in bytes.
pub const COPY_LEAVES_BYTES: u64 = 64 << 20;
/// Copies of this process: no two have the same name.
static COPIES: AtomicU64 = AtomicU64::new(1);

/// What a copy of a base is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyHead {
    /// What names it, made by chance.
    pub id: [u8; 16],
    /// The format of the data.
    pub format: u32,
    /// How long it is.
    pub bytes: u64,
    /// The last change that is in it.
    pub mark: Mark,
}

/// A copy of the base to be sent; its file goes with it.
#[derive(Debug)]
pub struct BaseCopy {
    head: CopyHead,
    membership: Vec<u8>,
    file: File,
    shares_blocks: bool,
    _path: Removed,
}

/// A file that is removed in the end.
#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // What cannot be removed now goes when the data directory is opened.
        let _ = fs::remove_file(&self.0);
    }
}

impl BaseCopy {
    /// What it is.
    #[must_use]
    pub const fn head(&self) -> &CopyHead {
        &self.head
    }

    /// Who takes part in the log, as the copy says.
    #[must_use]
    pub fn membership(&self) -> &[u8] {
        &self.membership
    }

    /// Whether it shares its blocks with the base, because the file system can: then it was made
    /// at once, and takes room only as the base is written.
    #[must_use]
    pub const fn shares_blocks(&self) -> bool {
        self.shares_blocks
    }

    /// Fills `into` with the octets from `offset` on.
    ///
    /// # Errors
    /// When there are not so many, or the file cannot be read.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

impl Store {
    /// How long a copy of the base would be, about, in bytes.
    ///
    /// # Errors
    /// When the size of the data file cannot be read.
    pub fn copy_bytes(&self) -> Result<u64, StoreError> {
        self.base_environment().file_bytes()
    }

    /// Copies the base as it is now into a file beside it. Where the file system can it shares the
    /// blocks, and nobody writes to the base for that moment; elsewhere it is read to its end,
    /// while the pages of that point in time are kept. Batches go on in both cases.
    ///
    /// # Errors
    /// When there is no room, or the base cannot be read.
    pub fn copy_base(&self) -> Result<BaseCopy, StoreError> {
        let directory = copy_directory(self.data_directory().path())?;
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let path = Removed(directory.join(format!("{SENT}{number}")));
        let io = |source| StoreError::io(&path.0, source);
        let mut open = OpenOptions::new();
        let open = open.read(true).write(true).create(true).truncate(true).mode(0o600);
        let mut file = open.open(&path.0).map_err(io)?;
        let shares_blocks = self.copy_into(&mut file, &path.0)?;
        let bytes = file.metadata().map_err(io)?.len();
        let environment = Environment::open_read_only(&path.0, &StoreOptions::default())?;
        let snapshot = environment.snapshot()?;
        let meta = environment.tables.meta;
        let mark = Counters::read(meta, snapshot.txn())?.mark();
        let membership = meta::membership(meta, snapshot.txn())?;
        drop(snapshot);
        environment.close();
        let head = CopyHead { id: by_chance(&path.0)?, format: FORMAT, bytes, mark };
        Ok(BaseCopy { head, membership, file, shares_blocks, _path: path })
    }

    /// Whether it shares its blocks.
    fn copy_into(&self, file: &mut File, path: &Path) -> Result<bool, StoreError> {
        let environment = {
            let _flushing = self.flushing();
            let environment = self.base_environment();
            let base = environment.path().join(DATA_FILE);
            let source = File::open(&base).map_err(|source| StoreError::io(&base, source))?;
            if rustix::fs::ioctl_ficlone(&*file, &source).is_ok() {
                return Ok(true);
            }
            environment
        };
        let bytes = environment.file_bytes()?;
        refuse_without_room(path, bytes)?;
        paced::copy(&environment, file, path, bytes)?;
        Ok(false)
    }

    /// Begins to receive a copy, or goes on where it was left. What is there of others goes.
    ///
    /// # Errors
    /// When it is of another format, there is no room for it, or the disk fails.
    pub fn receive_base(&self, head: &CopyHead) -> Result<BaseIntake, StoreError> {
        if head.format != FORMAT {
            return Err(invalid(format!("its data have format {}, not {FORMAT}", head.format)));
        }
        let above = copy_directory(self.data_directory().path())?;
        let directory = above.join(name_of(&head.id));
        remove_others(&above, Some(&directory))?;
        make_directory(&directory)?;
        let path = directory.join(DATA_FILE);
        let io = |source| StoreError::io(&path, source);
        let mut open = OpenOptions::new();
        let open = open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open.open(&path).map_err(io)?;
        let mut written = file.metadata().map_err(io)?.len();
        if written > head.bytes {
            file.set_len(0).map_err(io)?;
            written = 0;
        }
        refuse_without_room(&path, head.bytes - written)?;
        Ok(BaseIntake { head: *head, file, directory, written })
    }

    /// Opens a copy that was received to its end: what it holds is looked at, and is what was
    /// announced. One that is not is removed. `schema` is as in [`Store::open`].
    ///
    /// # Errors
    /// When it is no base, one of other naming contexts, or not the one that was announced.
    pub fn open_received(
        &self,
        intake: BaseIntake,
        schema: Arc<Schema>,
    ) -> Result<ReceivedBase, StoreError> {
        let directory = intake.directory.clone();
        let opened = self.open_intake(intake, schema);
        if opened.is_err() {
            // It would be of no use the next time either.
            let _ = fs::remove_dir_all(&directory);
        }
        opened
    }

    fn open_intake(
        &self,
        intake: BaseIntake,
        schema: Arc<Schema>,
    ) -> Result<ReceivedBase, StoreError> {
        let BaseIntake { head, file, directory, written } = intake;
        if written != head.bytes {
            return Err(invalid(format!("it has {written} bytes of {}", head.bytes)));
        }
        file.sync_all().map_err(|source| StoreError::io(&directory, source))?;
        sync_directory(&directory)?;
        directory.parent().map_or(Ok(()), sync_directory)?;
        let options = self.base_environment().options();
        let other = self.open_other(&directory, &options, schema)?;
        if other.counters.mark() != head.mark {
            return Err(invalid(format!("it ends with {:?}", other.counters.mark())));
        }
        let snapshot = other.environment.snapshot()?;
        let membership = meta::membership(other.environment.tables.meta, snapshot.txn())?;
        drop(snapshot);
        Ok(ReceivedBase { head, membership, directory, other })
    }

    /// Puts a copy in the place of the base, under readers: views that were taken before stay what
    /// they are. Everything that was over the old base goes, published or not. Waits until there
    /// is no batch and no flush.
    ///
    /// `prepare` gets what is published until now and a view of the copy, which nobody sees yet;
    /// no batch is made meanwhile. When it fails nothing has happened.
    ///
    /// # Errors
    /// When `prepare` fails. When the files cannot be moved the store is of no more use: whoever
    /// opens the data directory finishes it.
    pub fn put_in_place<E: From<StoreError>>(
        &self,
        received: ReceivedBase,
        prepare: impl FnOnce(&Mark, &View<'_>) -> Result<(), E>,
    ) -> Result<Mark, E> {
        let ReceivedBase { head, directory, other, .. } = received;
        let (mut seat, _flushing) = self.seat_and_flushing();
        seat.release();
        self.versions.drop_tentative();
        let published = self.published();
        prepare(&published, &self.view_of(&other)?)?;
        let note = Note { id: head.id, position: head.mark.position };
        note.write(self.data_directory().path())?;
        #[cfg(test)]
        crate::bulk::tests::crash::die_at("copy decided");
        // What of it was made here and never came must not be told of the records of others.
        self.digests.drop_after(published.lsn);
        self.pace.forget_membership();
        self.replaced().clear();
        self.swap_alone(other, &directory)?;
        self.note_published();
        // Nothing is left in it.
        let _ = fs::remove_dir_all(&directory);
        Ok(head.mark)
    }

    fn view_of(&self, other: &OtherBase) -> Result<View<'static>, StoreError> {
        let environment = Arc::new(other.environment.clone());
        let dictionary = Arc::new(other.dictionary.clone());
        let version = Version::first(environment, other.counters, dictionary, other.index_epoch);
        let ground = Ground::take(&version)?;
        Ok(View::of_reader(ground, &version, Memories::default(), Arc::default()))
    }

    /// Where the log has the end of the copy that was put in place and that the log may not follow
    /// yet; none if there is no such copy.
    ///
    /// # Errors
    /// When what says so cannot be read.
    pub fn copied(&self) -> Result<Option<LogPosition>, StoreError> {
        let note = Note::read(self.data_directory().path())?;
        Ok(note.map(|note| note.position))
    }

    /// The log follows the copy that was put in place.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn settle_copied(&self) -> Result<(), StoreError> {
        Note::remove(self.data_directory().path())
    }

    /// Removes what was received of a copy and not put in place.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn drop_received(&self) -> Result<(), StoreError> {
        let above = self.data_directory().path().join(COPY_DIRECTORY);
        if above.is_dir() { remove_others(&above, None) } else { Ok(()) }
    }
}

/// A copy that is being received. What has come stays when this is dropped.
#[derive(Debug)]
pub struct BaseIntake {
    head: CopyHead,
    file: File,
    directory: PathBuf,
    written: u64,
}

impl BaseIntake {
    /// So many octets are there.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Adds octets behind those that are there.
    ///
    /// # Errors
    /// When there would be more than were announced, or the disk fails.
    pub fn write(&mut self, octets: &[u8]) -> Result<(), StoreError> {
        let end = self.written.saturating_add(octets.len() as u64);
        if end > self.head.bytes {
            return Err(invalid(format!("it has more than {} bytes", self.head.bytes)));
        }
        let written = self.file.write_all_at(octets, self.written);
        written.map_err(|source| match StoreError::io(&self.directory, source) {
            StoreError::Full => self.no_room(),
            error => error,
        })?;
        self.written = end;
        Ok(())
    }

    /// The disk did not take the next octets.
    fn no_room(&self) -> StoreError {
        let left = self.head.bytes.saturating_sub(self.written);
        // There may be room again by now.
        refuse_without_room(&self.directory, left).err().unwrap_or(StoreError::Full)
    }

    /// Fills `into` with what is there from `offset` on.
    ///
    /// # Errors
    /// When there is not so much, or the disk fails.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let read = self.file.read_exact_at(into, offset);
        read.map_err(|source| StoreError::io(&self.directory, source))
    }

    /// What has come is damaged: it begins anew.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn clear(&mut self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(|source| StoreError::io(&self.directory, source))?;
        self.written = 0;
        Ok(())
    }
}

/// A copy that was received and looked at.
pub struct ReceivedBase {
    head: CopyHead,
    membership: Vec<u8>,
    directory: PathBuf,
    other: OtherBase,
}

impl ReceivedBase {
    /// What it is.
    #[must_use]
    pub const fn head(&self) -> &CopyHead {
        &self.head
    }

    /// Who takes part in the log, as the copy says.
    #[must_use]
    pub fn membership(&self) -> &[u8] {
        &self.membership
    }
}

impl std::fmt::Debug for ReceivedBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedBase").field("head", &self.head).finish_non_exhaustive()
    }
}

/// Refuses to write so much where it would leave too little room.
fn refuse_without_room(path: &Path, bytes: u64) -> Result<(), StoreError> {
    let above = path.parent().unwrap_or(path);
    let disk = rustix::fs::statvfs(above).map_err(|error| StoreError::io(above, error.into()))?;
    let room = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed_bytes = bytes.saturating_add(COPY_LEAVES_BYTES);
    match room < needed_bytes {
        true => Err(StoreError::NoRoom { needed_bytes, free_bytes: room }),
        false => Ok(()),
    }
}

fn invalid(reason: String) -> StoreError {
    StoreError::Invalid { what: "copy", text: "of another member".to_owned(), reason }
}

mod paced;
#[cfg(test)]
mod tests;
