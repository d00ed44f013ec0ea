//! The LMDB environment and its tables: the only place that knows LMDB is a memory map.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | number or text |
//! | `attributes` | attribute id | attribute description |
//! | `entries` | entry id | record |
//! | `names` | parent id, RDN key | entry id |
//! | `children` | parent id | number of children |
//! | `postings` | index, value key, chunk | entry ids |
//! | `values` | attribute id, entry id, value key | values |
//!
//! Invariants: a base is always durable; a commit that returned is on disk. What a bulk load fills
//! is no base before it is. Only one process writes it, which the lock of the data directory sees
//! to; others may read beside it, and each of them sees one point in time.

use std::fs::File;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use heed::types::Bytes;
use heed::{
    AnyTls, CommitOrAbort, CompactionOption, Database, DatabaseStat, Env, EnvFlags, EnvOpenOptions,
    RoTxn, RwTxn, WithoutTls,
};

use crate::base::data_file;
use crate::base::digest::DigestKey;
use crate::error::StoreError;

/// A table; keys and values are octets.
pub(crate) type Table = Database<'static, Bytes, Bytes>;

/// The names of the tables, in the order of [`Tables::all`].
pub(crate) const TABLE_NAMES: [&str; 7] =
    [META, ATTRIBUTES, ENTRIES, NAMES, CHILDREN, POSTINGS, VALUES];
pub(crate) const META: &str = "meta";
pub(crate) const ATTRIBUTES: &str = "attributes";
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const NAMES: &str = "names";
pub(crate) const CHILDREN: &str = "children";
pub(crate) const POSTINGS: &str = "postings";
pub(crate) const VALUES: &str = "values";

/// How an environment is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Address space reserved for the data file, in bytes; the file grows up to it by itself.
    pub map_size_bytes: u64,
    /// The most read transactions at a time: one for each thread that reads.
    pub readers_max: u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { map_size_bytes: 1 << 40, readers_max: 1024 }
    }
}

/// Handles of all tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) meta: Table,
    pub(crate) attributes: Table,
    pub(crate) entries: Table,
    pub(crate) names: Table,
    pub(crate) children: Table,
    pub(crate) postings: Table,
    /// None in a file that is only read and that an older release has written.
    pub(crate) values: Option<Table>,
}

/// A table of whole rows: every one but `postings`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PlainTable {
    Meta,
    Attributes,
    Entries,
    Names,
    Children,
    Values,
}

/// Every plain table, in the order of [`TABLE_NAMES`].
pub(crate) const PLAIN_TABLES: [PlainTable; 6] = [
    PlainTable::Meta,
    PlainTable::Attributes,
    PlainTable::Entries,
    PlainTable::Names,
    PlainTable::Children,
    PlainTable::Values,
];

impl PlainTable {
    /// What is kept for this table, where something is kept for each of [`PLAIN_TABLES`].
    #[inline]
    pub(crate) const fn of<T>(self, each: &[T; PLAIN_TABLES.len()]) -> &T {
        let [meta, attributes, entries, names, children, values] = each;
        match self {
            Self::Meta => meta,
            Self::Attributes => attributes,
            Self::Entries => entries,
            Self::Names => names,
            Self::Children => children,
            Self::Values => values,
        }
    }

    /// What is kept for this table, to be changed.
    #[inline]
    pub(crate) const fn of_mut<T>(self, each: &mut [T; PLAIN_TABLES.len()]) -> &mut T {
        let [meta, attributes, entries, names, children, values] = each;
        match self {
            Self::Meta => meta,
            Self::Attributes => attributes,
            Self::Entries => entries,
            Self::Names => names,
            Self::Children => children,
            Self::Values => values,
        }
    }
}

impl Tables {
    /// The tables in the order of [`TABLE_NAMES`].
    const fn of(tables: [Table; TABLE_NAMES.len() - 1], values: Option<Table>) -> Self {
        let [meta, attributes, entries, names, children, postings] = tables;
        Self { meta, attributes, entries, names, children, postings, values }
    }

    /// A table; none where the file has none.
    #[inline]
    pub(crate) const fn plain(&self, table: PlainTable) -> Option<Table> {
        match table {
            PlainTable::Meta => Some(self.meta),
            PlainTable::Attributes => Some(self.attributes),
            PlainTable::Entries => Some(self.entries),
            PlainTable::Names => Some(self.names),
            PlainTable::Children => Some(self.children),
            PlainTable::Values => self.values,
        }
    }

    /// The tables that there are, in the order of [`TABLE_NAMES`].
    pub(crate) fn all(&self) -> impl Iterator<Item = Table> {
        let all =
            [self.meta, self.attributes, self.entries, self.names, self.children, self.postings];
        all.into_iter().chain(self.values)
    }

    /// Entries, pages and bytes of one table.
    pub(crate) fn stat(table: Table, txn: &RoTxn<'_>) -> Result<DatabaseStat, StoreError> {
        Ok(table.stat(txn)?)
    }
}

/// An open environment.
#[derive(Clone)]
pub(crate) struct Environment {
    env: Env<WithoutTls>,
    pub(crate) tables: Tables,
    /// The one point in time that is read, where another process may write.
    fixed: Option<Arc<FixedTxn>>,
    /// Where its files are, or the file by itself.
    directory: Arc<Path>,
    /// No other environment of this process has or had the same.
    number: u64,
    /// Read when it is first needed.
    digest_key: OnceLock<Arc<DigestKey>>,
}

/// The number of the next environment.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl Environment {
    /// Opens the environment in `directory`, which is there.
    pub(crate) fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        data_file::check(directory)?;
        data_file::sync(directory)?;
        Self::create(directory, options)
    }

    /// Opens the environment in `directory`, and makes it if there is none.
    #[expect(unsafe_code, reason = "a memory map is only as good as the file under it")]
    pub(crate) fn create(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let mut open = open_options(options);
        // SAFETY: NO_READ_AHEAD only advises the kernel; no flag that weakens syncing or locking is
        // set.
        unsafe { open.flags(EnvFlags::NO_READ_AHEAD) };
        // SAFETY: the data directory is locked by this process (see `format.rs`), so nobody changes
        // the file under the map; it was found whole, or is made anew; heed refuses to open the
        // same environment twice in one process.
        let env = unsafe { open.open(directory) }.map_err(|error| open_failed(directory, error))?;
        Self::with_tables(env)
    }

    /// Makes an environment in `directory`, which is empty, to fill it at once: a commit is not
    /// durable before [`Self::sync`].
    #[expect(unsafe_code, reason = "who fills a file that nobody reads need not sync each commit")]
    pub(crate) fn open_to_fill(
        directory: &Path,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let mut open = open_options(options);
        // SAFETY: a crash of the system may leave a file with NO_SYNC that is damaged. This file is
        // of no use before it is whole: it becomes a base after it was synced, and what is left of
        // it before that is removed unread.
        unsafe { open.flags(EnvFlags::NO_READ_AHEAD | EnvFlags::NO_SYNC) };
        // SAFETY: nobody else knows the file, which is in a directory that this load has made; heed
        // refuses to open the same environment twice in one process.
        let env = unsafe { open.open(directory) }.map_err(|error| open_failed(directory, error))?;
        Self::with_tables(env)
    }

    fn with_tables(env: Env<WithoutTls>) -> Result<Self, StoreError> {
        let txn = env.write_txn()?;
        let tables = env
            .create_databases_and_commit(txn, |opener, txn| {
                let mut tables = Vec::with_capacity(TABLE_NAMES.len());
                for name in TABLE_NAMES {
                    tables.push(opener.create_database::<Bytes, Bytes>(txn, Some(name))?);
                }
                let values = tables.pop();
                let tables: [_; TABLE_NAMES.len() - 1] =
                    tables.try_into().expect("one table was made for each name");
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((tables, values)))
            })?
            .unwrap_commit();
        let directory = env.path().into();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let ((tables, values), digest_key) = (tables, OnceLock::new());
        let tables = Tables::of(tables, values);
        Ok(Self { env, tables, fixed: None, directory, number, digest_key })
    }

    /// Makes all commits durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.env.force_sync()?)
    }

    /// Closes the environment, of which there is no other handle, and waits until it is closed.
    pub(crate) fn close(self) {
        let Self { env, fixed, .. } = self;
        drop(fixed);
        env.prepare_for_closing().wait();
    }

    /// This environment, whose files were moved to another directory.
    pub(crate) fn moved_to(self, directory: &Path) -> Self {
        Self { directory: directory.into(), ..self }
    }

    /// Opens the environment at `path` to read what is committed now, and nothing that is committed
    /// later: a data directory, which another process may be writing, or a file that nobody writes.
    ///
    /// The pages of this point in time are not reused while it is open: the file of a busy server
    /// grows meanwhile.
    pub(crate) fn open_read_only(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let env = open_beside(path, options)?;
        let txn = env.read_txn()?;
        let tables = env
            .open_databases_and_commit(txn, |opener, txn| {
                let mut tables = Vec::with_capacity(TABLE_NAMES.len());
                for name in TABLE_NAMES.into_iter().filter(|name| *name != VALUES) {
                    match opener.open_database::<Bytes, Bytes>(txn, Some(name))? {
                        Some(table) => tables.push(table),
                        None => return Ok(CommitOrAbort::Abort(name)),
                    }
                }
                let tables: [_; TABLE_NAMES.len() - 1] =
                    tables.try_into().expect("one table was opened for each name");
                // Older releases make none.
                let values = opener.open_database::<Bytes, Bytes>(txn, Some(VALUES))?;
                Ok::<_, heed::Error>(CommitOrAbort::Commit((tables, values)))
            })
            .map(|opened| match opened {
                CommitOrAbort::Commit((tables, values)) => Ok(Tables::of(tables, values)),
                CommitOrAbort::Abort(name) => Err(StoreError::corrupt(name, "", "is missing")),
            })??;
        let directory = env.path().into();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let digest_key = OnceLock::new();
        let environment = Self { env, tables, fixed: None, directory, number, digest_key };
        environment.clear_stale_readers()?;
        let fixed = FixedTxn::new(environment.read()?, &tables)?;
        Ok(Self { fixed: Some(Arc::new(fixed)), ..environment })
    }

    /// A point in time: the last commit, or the one that is fixed.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(match &self.fixed {
            Some(fixed) => Snapshot::Fixed(Arc::clone(fixed)),
            None => {
                let txn = self.read()?;
                let commit = Commit::new(self.number, txn.id() as u64);
                Snapshot::Read(txn, commit)
            }
        })
    }

    /// The key of the digest.
    ///
    /// # Errors
    /// When there is none, or LMDB fails.
    pub(crate) fn digest_key(&self) -> Result<Arc<DigestKey>, StoreError> {
        if let Some(key) = self.digest_key.get() {
            return Ok(Arc::clone(key));
        }
        let key = DigestKey::read(self.tables.meta, self.snapshot()?.txn())?;
        Ok(Arc::clone(self.digest_key.get_or_init(|| key)))
    }

    /// Frees the places of readers whose process is gone: each would keep its pages from being
    /// reused. Returns how many there were.
    pub(crate) fn clear_stale_readers(&self) -> Result<usize, StoreError> {
        Ok(self.env.clear_stale_readers()?)
    }

    /// A transaction that sees the last commit, and nothing after it.
    pub(crate) fn read(&self) -> Result<RoTxn<'static, WithoutTls>, StoreError> {
        Ok(self.env.clone().static_read_txn()?)
    }

    /// The write transaction; waits until there is no other.
    pub(crate) fn write(&self) -> Result<RwTxn<'_>, StoreError> {
        Ok(self.env.write_txn()?)
    }

    /// The directory of the data file.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Why a commit failed. LMDB calls it an I/O error when the disk took a write only in part;
    /// whether there is room tells which of the two it was.
    pub(crate) fn commit_failed(&self, error: heed::Error) -> StoreError {
        let is_short_write = matches!(
            &error,
            heed::Error::Io(source) if source.raw_os_error() == Some(SHORT_WRITE)
        );
        let room = || rustix::fs::statvfs(self.path()).map(|disk| disk.f_bavail * disk.f_frsize);
        if is_short_write && room().is_ok_and(|bytes| bytes < ROOM_FOR_A_COMMIT_BYTES) {
            return StoreError::Full;
        }
        error.into()
    }

    /// Writes the data file, as of its last commit, to `file`. Commits wait only while its first
    /// pages are written.
    pub(crate) fn copy_to(&self, file: &mut File) -> Result<(), StoreError> {
        Ok(self.env.copy_to_file(file, CompactionOption::Disabled)?)
    }

    /// How it was opened.
    pub(crate) fn options(&self) -> StoreOptions {
        let info = self.env.info();
        let readers_max = info.maximum_number_of_readers;
        StoreOptions { map_size_bytes: info.map_size as u64, readers_max }
    }

    /// How much of what is reserved is used.
    pub(crate) fn usage(&self) -> Usage {
        let info = self.env.info();
        Usage {
            map_bytes: info.map_size as u64,
            pages: info.last_page_number as u64 + 1,
            last_commit: info.last_txn_id as u64,
            readers: u64::from(info.number_of_readers),
            readers_max: u64::from(info.maximum_number_of_readers),
        }
    }

    /// The size of the data file, in bytes.
    pub(crate) fn file_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.env.real_disk_size()?)
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("env", &self.env)
            .field("is_fixed", &self.fixed.is_some())
            .finish_non_exhaustive()
    }
}

/// How much of an environment is used.
pub(crate) struct Usage {
    pub(crate) map_bytes: u64,
    /// Pages that were ever used.
    pub(crate) pages: u64,
    pub(crate) last_commit: u64,
    pub(crate) readers: u64,
    pub(crate) readers_max: u64,
}

/// EIO.
const SHORT_WRITE: i32 = 5;

/// Less room than this on the disk, and a failed commit failed for lack of it.
const ROOM_FOR_A_COMMIT_BYTES: u64 = 1 << 20;

/// Any page size of any system divides this.
const PAGE_ROUND_BYTES: usize = 1 << 16;

fn open_options(options: &StoreOptions) -> EnvOpenOptions<WithoutTls> {
    let mut open = EnvOpenOptions::new().read_txn_without_tls();
    // LMDB wants whole pages.
    let map_size = usize::try_from(options.map_size_bytes).unwrap_or(usize::MAX);
    open.map_size(map_size / PAGE_ROUND_BYTES * PAGE_ROUND_BYTES)
        .max_readers(options.readers_max)
        .max_dbs(TABLE_NAMES.len() as u32);
    open
}

/// Opens the environment at `path` to read it beside a process that may write it.
///
/// Where another base is just taking the place of this one, what is opened may be the data of the
/// one and the lock of the other: LMDB would then read a commit that is not the last. So it is
/// opened again until both are of one base.
fn open_beside(path: &Path, options: &StoreOptions) -> Result<Env<WithoutTls>, StoreError> {
    for _ in 0..OPEN_TRIES_MAX {
        let env = open_data_and_lock(path, options)?;
        // The data file says what was committed last, the lock file which commit is to be read.
        let before = env.info().last_txn_id;
        let read = env.read_txn()?.id();
        if (before..=env.info().last_txn_id).contains(&read) {
            return Ok(env);
        }
        env.prepare_for_closing().wait();
        thread::yield_now();
    }
    let reason = "the data and their lock are not of one base: another is taking its place";
    Err(StoreError::Lmdb(format!("{}: {reason}; try again", path.display())))
}

/// That another base takes the place of one is over in much less than so many tries, each of which
/// maps the file.
const OPEN_TRIES_MAX: u32 = 1000;

#[expect(unsafe_code, reason = "a memory map is only as good as the file under it")]
fn open_data_and_lock(path: &Path, options: &StoreOptions) -> Result<Env<WithoutTls>, StoreError> {
    data_file::check(path)?;
    let mut open = open_options(options);
    let mut flags = EnvFlags::READ_ONLY;
    if path.is_file() {
        flags |= EnvFlags::NO_SUB_DIR | EnvFlags::NO_LOCK;
    }
    // SAFETY: only a file by itself, which nobody writes, is opened without locks; no other flag
    // weakens syncing or locking.
    unsafe { open.flags(flags) };
    // SAFETY: a writer in another process takes LMDB's locks as this one does, and only adds to the
    // file; heed refuses to open the same environment twice in one process.
    unsafe { open.open(path) }.map_err(|error| open_failed(path, error))
}

/// Writes the data file of the environment in `directory`, as of its last commit, to `to`; another
/// process may be writing it.
pub(crate) fn copy_data_file(
    directory: &Path,
    options: &StoreOptions,
    to: &mut File,
) -> Result<(), StoreError> {
    Ok(open_beside(directory, options)?.copy_to_file(to, CompactionOption::Disabled)?)
}

fn open_failed(path: &Path, error: heed::Error) -> StoreError {
    match error {
        heed::Error::Io(source) => StoreError::io(path, source),
        other => other.into(),
    }
}

/// A read transaction that all views of an environment share.
pub(crate) struct FixedTxn(RoTxn<'static, WithoutTls>);

impl FixedTxn {
    /// Looks into every table once: LMDB reads the place of a table at its first use, and that
    /// first use is the only one that changes the transaction.
    fn new(txn: RoTxn<'static, WithoutTls>, tables: &Tables) -> Result<Self, StoreError> {
        for table in tables.all() {
            table.first(&txn)?;
        }
        Ok(Self(txn))
    }
}

// SAFETY: after `FixedTxn::new` every table is looked up, and reading through a read-only
// transaction changes nothing in it: its flags, its snapshot and its map stay as they are, and its
// cursors are not recorded in it. Only `Drop` ends it, and that needs the last reference.
#[expect(unsafe_code, reason = "one point in time has one transaction, which views share")]
unsafe impl Sync for FixedTxn {}

/// A commit of an environment: no two that this process ever reads have the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Commit(NonZero<u64>);

impl Commit {
    /// None for an environment that nothing is remembered of: when there were too many before it.
    pub(crate) fn new(environment: u64, commit: u64) -> Option<Self> {
        let fits = environment >> (u64::BITS - COMMIT_BITS) == 0 && commit >> COMMIT_BITS == 0;
        NonZero::new(environment << COMMIT_BITS | commit).filter(|_| fits).map(Self)
    }
}

/// So many low bits of a [`Commit`] are LMDB's number of it.
const COMMIT_BITS: u32 = 48;

/// Where a row lies, in the memory map and at a commit. Only a [`Snapshot`] can tell and be asked,
/// so it leads to a row, or, at any other commit, nowhere.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Place {
    /// The commit; 0 is none.
    commit: u64,
    /// The address, and in the lowest bits the length; 0 when it is not known.
    row: u64,
}

/// A row, and where it lies if that may be remembered.
pub(crate) type PlacedRow<'s> = (&'s [u8], Option<Place>);

/// So many low bits are the length of a row.
const ROW_LENGTH_BITS: u32 = 16;

impl Place {
    /// One that is not known.
    #[inline]
    pub(crate) const fn unknown(commit: Commit) -> Self {
        Self { commit: commit.0.get(), row: 0 }
    }

    #[inline]
    pub(crate) const fn is_of(self, commit: Commit) -> bool {
        self.commit == commit.0.get()
    }

    /// Of the same commit as another.
    #[inline]
    pub(crate) const fn is_beside(self, other: Self) -> bool {
        self.commit == other.commit
    }

    fn of_row(commit: Commit, row: &[u8]) -> Self {
        let (address, length) = (row.as_ptr().expose_provenance() as u64, row.len() as u64);
        let fits = address >> (u64::BITS - ROW_LENGTH_BITS) == 0 && length >> ROW_LENGTH_BITS == 0;
        let row = if fits { address << ROW_LENGTH_BITS | length } else { 0 };
        Self { commit: commit.0.get(), row }
    }

    /// None when it is not known.
    #[inline]
    const fn address(self) -> Option<(*const u8, usize)> {
        if self.row == 0 {
            return None;
        }
        let address = std::ptr::with_exposed_provenance((self.row >> ROW_LENGTH_BITS) as usize);
        Some((address, (self.row & ((1 << ROW_LENGTH_BITS) - 1)) as usize))
    }
}

/// A point in time.
pub(crate) enum Snapshot {
    /// The commit, where places of its rows may be remembered.
    Read(RoTxn<'static, WithoutTls>, Option<Commit>),
    Fixed(Arc<FixedTxn>),
}

impl Snapshot {
    #[inline]
    pub(crate) fn txn(&self) -> &RoTxn<'_, AnyTls> {
        match self {
            Self::Read(txn, _) => txn,
            Self::Fixed(fixed) => &fixed.0,
        }
    }

    /// The commit, where places of its rows may be remembered.
    #[inline]
    pub(crate) const fn commit(&self) -> Option<Commit> {
        match self {
            Self::Read(_, commit) => *commit,
            Self::Fixed(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        Ok(table.get(self.txn(), key)?)
    }

    /// Reads a row, and says where it lies if that may be remembered.
    pub(crate) fn find(
        &self,
        table: Table,
        key: &[u8],
    ) -> Result<Option<PlacedRow<'_>>, StoreError> {
        let row = self.get(table, key)?;
        Ok(row.map(|row| (row, self.commit().map(|commit| Place::of_row(commit, row)))))
    }

    /// The row at a place; none when that is not known, or of another commit.
    #[inline]
    #[expect(unsafe_code, reason = "a row that was found is found again without a tree")]
    pub(crate) fn at(&self, place: Place) -> Option<&[u8]> {
        if !self.commit().is_some_and(|commit| place.is_of(commit)) {
            return None;
        }
        let (address, length) = place.address()?;
        // SAFETY: `find` alone makes a known place, of a row that LMDB found in a read transaction
        // on the commit the place names. This snapshot holds a read transaction on the same commit
        // of the same environment, whose map stays where it is as long as it is open: nobody
        // resizes it. LMDB uses a page of a commit anew only for one that comes two commits later,
        // and not while a transaction reads the first. When both transactions began, their commit
        // was the last one, so no page of it was used anew between them, and none is while `self`
        // lives, to which the row is bound.
        Some(unsafe { std::slice::from_raw_parts(address, length) })
    }

    /// Has the processor fetch the beginning of a row that is read soon.
    #[inline]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "there is no other way to ask for what is not needed yet")
    )]
    pub(crate) fn prefetch(place: Place) {
        #[cfg(target_arch = "x86_64")]
        if let Some((address, length)) = place.address() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            for ahead in (0..length.min(PREFETCH_BYTES_MAX)).step_by(CACHE_LINE_BYTES) {
                // SAFETY: this is a hint, for which any address will do: nothing is read.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(ahead).cast()) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }
}

/// So much of a row is fetched ahead of its use.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES_MAX: usize = 1024;
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read(..) => "Snapshot::Read",
            Self::Fixed(_) => "Snapshot::Fixed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "makes a file as an older release did")]
    fn a_file_of_an_older_release_has_no_values_until_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::default();
        // SAFETY: nobody else knows the file.
        let env = unsafe { open_options(&options).open(directory.path()) }.unwrap();
        let txn = env.write_txn().unwrap();
        let made = env.create_databases_and_commit(txn, |opener, txn| {
            for name in TABLE_NAMES.into_iter().filter(|name| *name != VALUES) {
                opener.create_database::<Bytes, Bytes>(txn, Some(name))?;
            }
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        });
        made.unwrap();
        env.prepare_for_closing().wait();
        let read = Environment::open_read_only(directory.path(), &options).unwrap();
        assert!(read.tables.values.is_none());
        assert_eq!(read.tables.all().count(), TABLE_NAMES.len() - 1);
        read.close();
        let written = Environment::open(directory.path(), &options).unwrap();
        assert!(written.tables.values.is_some());
    }
}
