//! A disk under the journal that fails, fills up and hesitates when a test says so; and room that
//! a test sets.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use directory::DiskSpace;
use journal::{Disk, DiskFile, FileDisk, Lock, LockKind};

/// Real files, and what is wrong with them.
#[derive(Debug)]
pub struct FaultyDisk {
    files: FileDisk,
    pub faults: Arc<Faults>,
}

/// What is wrong at the moment.
#[derive(Debug, Default)]
pub struct Faults {
    pub sync_fails: AtomicBool,
    pub is_full: AtomicBool,
    pub syncs: AtomicU64,
    held: Mutex<Held>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    holds: bool,
    waiting: usize,
}

impl FaultyDisk {
    /// The journal's directory of a data directory.
    pub fn of(data: &Path) -> (Arc<Self>, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let directory = data.join("journal");
        std::fs::create_dir(&directory).unwrap();
        let files = FileDisk::new(directory);
        (Arc::new(Self { files, faults: Arc::clone(&faults) }), faults)
    }
}

impl Faults {
    pub fn set(switch: &AtomicBool, value: bool) {
        switch.store(value, Ordering::SeqCst);
    }

    /// From now on syncs wait.
    pub fn hold(&self) {
        self.held.lock().unwrap().holds = true;
    }

    /// Waits until a sync waits.
    pub fn wait_for_sync(&self) {
        let waits = |held: &mut Held| held.waiting == 0;
        let _held = self.moved.wait_while(self.held.lock().unwrap(), waits).unwrap();
    }

    pub fn release(&self) {
        self.held.lock().unwrap().holds = false;
        self.moved.notify_all();
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut held = self.held.lock().unwrap();
        held.waiting += 1;
        self.moved.notify_all();
        held = self.moved.wait_while(held, |held| held.holds).unwrap();
        held.waiting -= 1;
        if self.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is broken"));
        }
        Ok(())
    }

    fn room(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.files.open(name, create)?;
        Ok(Box::new(FaultyFile { file, faults: Arc::clone(&self.faults) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.files.sync_names()
    }

    fn lock(&self, name: &str, kind: LockKind) -> io::Result<Option<Lock>> {
        self.files.lock(name, kind)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn DiskFile>,
    faults: Arc<Faults>,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buf, at)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.file.write_at(data, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.sync()?;
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.faults.room()?;
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn forget(&self) -> io::Result<()> {
        self.file.forget()
    }
}

/// As much room as a test says.
#[derive(Debug)]
pub struct SetSpace(pub AtomicU64);

impl DiskSpace for SetSpace {
    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::SeqCst))
    }
}
