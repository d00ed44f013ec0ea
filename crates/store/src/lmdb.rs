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
//!
//! Invariants: the environment is always durable; a commit that returned is on disk. Only one
//! process opens it, which the lock of the data directory sees to.

use std::path::Path;

use heed::types::Bytes;
use heed::{
    AnyTls, CommitOrAbort, Database, DatabaseStat, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn,
    WithoutTls,
};

use crate::error::StoreError;

/// A table; keys and values are octets.
pub(crate) type Table = Database<'static, Bytes, Bytes>;

/// The names of the tables, in the order of [`Tables::all`].
pub(crate) const TABLE_NAMES: [&str; 6] = [META, ATTRIBUTES, ENTRIES, NAMES, CHILDREN, POSTINGS];
pub(crate) const META: &str = "meta";
pub(crate) const ATTRIBUTES: &str = "attributes";
pub(crate) const ENTRIES: &str = "entries";
pub(crate) const NAMES: &str = "names";
pub(crate) const CHILDREN: &str = "children";
pub(crate) const POSTINGS: &str = "postings";

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
}

impl Tables {
    pub(crate) fn all(&self) -> [Table; 6] {
        [self.meta, self.attributes, self.entries, self.names, self.children, self.postings]
    }

    /// Entries, pages and bytes of one table.
    pub(crate) fn stat(table: Table, txn: &RoTxn<'_>) -> Result<DatabaseStat, StoreError> {
        Ok(table.stat(txn)?)
    }
}

/// An open environment.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    env: Env<WithoutTls>,
    pub(crate) tables: Tables,
}

impl Environment {
    /// Opens the environment in `directory`, and makes it if there is none.
    #[expect(unsafe_code, reason = "a memory map is only as good as the file under it")]
    pub(crate) fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let mut open = EnvOpenOptions::new().read_txn_without_tls();
        // LMDB wants whole pages.
        let map_size = usize::try_from(options.map_size_bytes).unwrap_or(usize::MAX);
        open.map_size(map_size / PAGE_ROUND_BYTES * PAGE_ROUND_BYTES)
            .max_readers(options.readers_max)
            .max_dbs(TABLE_NAMES.len() as u32);
        // SAFETY: NO_READ_AHEAD only advises the kernel; no flag that weakens syncing or locking is
        // set.
        unsafe { open.flags(EnvFlags::NO_READ_AHEAD) };
        // SAFETY: the data directory is locked by this process (see `format.rs`), so nobody changes
        // the file under the map; heed refuses to open the same environment twice in one process.
        let env = unsafe { open.open(directory) }.map_err(|error| match error {
            heed::Error::Io(source) => StoreError::io(directory, source),
            other => other.into(),
        })?;
        let txn = env.write_txn()?;
        let tables = env
            .create_databases_and_commit(txn, |opener, txn| {
                let mut tables = Vec::with_capacity(TABLE_NAMES.len());
                for name in TABLE_NAMES {
                    tables.push(opener.create_database::<Bytes, Bytes>(txn, Some(name))?);
                }
                let tables: [_; TABLE_NAMES.len()] =
                    tables.try_into().expect("one table was made for each name");
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(tables))
            })?
            .unwrap_commit();
        let [meta, attributes, entries, names, children, postings] = tables;
        let tables = Tables { meta, attributes, entries, names, children, postings };
        Ok(Self { env, tables })
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
        self.env.path()
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

    /// The size of the data file, in bytes.
    pub(crate) fn file_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.env.real_disk_size()?)
    }
}

/// EIO.
const SHORT_WRITE: i32 = 5;

/// Less room than this on the disk, and a failed commit failed for lack of it.
const ROOM_FOR_A_COMMIT_BYTES: u64 = 1 << 20;

/// Any page size of any system divides this.
const PAGE_ROUND_BYTES: usize = 1 << 16;

/// A point in time: of a reader, or the tentative state of the writer.
pub(crate) enum Snapshot<'t> {
    Read(RoTxn<'static, WithoutTls>),
    Write(&'t RwTxn<'t>),
}

impl Snapshot<'_> {
    #[inline]
    pub(crate) fn txn(&self) -> &RoTxn<'_, AnyTls> {
        match self {
            Self::Read(txn) => txn,
            Self::Write(txn) => txn,
        }
    }

    #[inline]
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        Ok(table.get(self.txn(), key)?)
    }
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read(_) => "Snapshot::Read",
            Self::Write(_) => "Snapshot::Write",
        })
    }
}
