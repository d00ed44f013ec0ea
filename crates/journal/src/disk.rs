//! The file interface under the journal, and the real one.
//!
//! The journal touches the disk only through these traits, so that tests can put a disk
//! beneath it that loses, tears and refuses (see `simulated.rs`).

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A directory of files.
pub trait Disk: Send + Sync + Debug {
    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing; makes it when `create` is set and it is missing.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file over another; durable after [`Disk::sync_names`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; who has it open reads on. Durable after [`Disk::sync_names`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Locks a file (made when missing) until the answer is dropped; `None` when another
    /// holder is in the way. Never waits.
    fn lock(&self, name: &str, kind: LockKind) -> io::Result<Option<Lock>>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `at`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes all of `data` at `at`.
    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()>;
    /// Makes what was written durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// The length of the file, in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reserves space up to `len` bytes; the file is at least so long afterwards.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Forgets what the system remembers of the file and takes to be on the medium, so that it is
    /// read from there. After a sync failed, the two may differ.
    fn forget(&self) -> io::Result<()>;
}

/// How a file is locked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockKind {
    /// Beside others that share.
    Shared,
    /// Alone.
    Exclusive,
}

/// A held lock; dropped, it is released.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] Box<dyn LockGuard>);

impl Lock {
    /// Wraps what releases the lock when it is dropped.
    pub fn new(guard: impl Debug + Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

/// Anything that releases a lock when it is dropped.
trait LockGuard: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> LockGuard for T {}

/// A locked file. It is unlocked and not only closed: a process that another thread has just
/// begun holds the file too until it runs its program, and would keep the lock so long.
#[derive(Debug)]
pub struct LockedFile(pub File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // When this fails the closing of the file does it.
        let _ = self.0.unlock();
    }
}

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct FileDisk {
    directory: PathBuf,
}

impl FileDisk {
    /// The directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Disk for FileDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        let mut options = own_file();
        let opened = options.create(create).open(&path);
        match opened {
            // A copy to be read only (a backup) may well be write-protected.
            Err(error) if !create && is_protected(&error) => {
                Ok(Box::new(RealFile(File::open(path)?)))
            }
            opened => Ok(Box::new(RealFile(opened?))),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn lock(&self, name: &str, kind: LockKind) -> io::Result<Option<Lock>> {
        let path = self.directory.join(name);
        let file = match own_file().create(true).open(&path) {
            // One that is there can be locked all the same.
            Err(error) if is_protected(&error) => File::open(path).map_err(|_| error)?,
            opened => opened?,
        };
        let locked = match kind {
            LockKind::Shared => file.try_lock_shared(),
            LockKind::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => Ok(Some(Lock::new(LockedFile(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn is_protected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Records hold passwords, if hashed: nobody but the owner reads what is made here.
fn own_file() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).truncate(false).mode(0o600);
    options
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..)
            && !rest.is_empty()
        {
            match self.0.read_at(rest, at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(data, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            // Not every file system can reserve; a longer file is all it can do then.
            Err(rustix::io::Errno::OPNOTSUPP) if self.len()? < len => self.0.set_len(len),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            done => done.map_err(io::Error::from),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn forget(&self) -> io::Result<()> {
        // An advice, which file systems in memory need not take.
        Ok(rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_guard_though_another_process_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = own_file().create(true).open(folder.path().join("lock")).unwrap();
        // As a process that was begun a moment ago: the same open file once more.
        let inherited = file.try_clone().unwrap();
        file.try_lock().unwrap();
        let held = Lock::new(LockedFile(file));
        let disk = FileDisk::new(folder.path());
        assert!(disk.lock("lock", LockKind::Shared).unwrap().is_none());
        drop(held);
        assert!(disk.lock("lock", LockKind::Exclusive).unwrap().is_some());
        drop(inherited);
    }
}
