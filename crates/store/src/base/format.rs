//! The data directory: its `format` file with the store's id, and its lock.
//!
//! The id is made by chance with the directory and never changes. What belongs to the store and is
//! kept beside it, or elsewhere, names it, so that files of another store are refused.
//!
//! Invariant: while a [`DataDirectory`] lives that was created or opened, no other process has the
//! directory open to write; the system gives the lock back when the process ends, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bulk::remove_remains;
use crate::error::StoreError;

/// The format this release writes, and the one it reads.
pub const FORMAT: u32 = 3;

/// The length of a store's id, in octets.
const ID_LENGTH: usize = 16;

/// A data directory that this process has locked, or only reads.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    id: [u8; ID_LENGTH],
    /// See [`Self::note_journal`].
    has_journal: AtomicBool,
    /// Held for its lock; none when the directory is only read.
    _lock: Option<LockedFile>,
}

/// The locked file. It is unlocked and not only closed: a process that another thread has just
/// begun holds the file too until it runs its program, and would keep the lock so long.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // When this fails the closing of the file does it.
        let _ = self.0.unlock();
    }
}

impl DataDirectory {
    /// Makes a data directory of an empty or missing directory. The `format` file is to be written
    /// with [`Self::write_format`] when all else is there: without it nothing opens.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        match fs::create_dir_all(path) {
            Ok(()) => {}
            Err(_) if path.exists() && !path.is_dir() => {
                return Err(StoreError::NotADirectory { path: path.to_owned() });
            }
            Err(source) => return Err(StoreError::io(path, source)),
        }
        refuse_files_of_others(path)?;
        let id = by_chance(path)?;
        let directory = Self::lock(path, Format { id, has_journal: false })?;
        directory.remove_remains()?;
        Ok(directory)
    }

    /// Makes a data directory of this store, beside files that are there; or takes the one that is
    /// there already, and says so.
    pub(crate) fn create_of(path: &Path, id: [u8; ID_LENGTH]) -> Result<(Self, bool), StoreError> {
        if path.join(FORMAT_FILE).exists() {
            let directory = Self::open(path)?;
            return match directory.id() == id {
                true => Ok((directory, true)),
                false => Err(StoreError::NotEmpty { path: path.to_owned() }),
            };
        }
        fs::create_dir_all(path).map_err(|source| StoreError::io(path, source))?;
        let directory = Self::lock(path, Format { id, has_journal: false })?;
        directory.remove_remains()?;
        Ok((directory, false))
    }

    /// A key that nobody knows, for a directory that is being created.
    pub(crate) fn new_key<const N: usize>(&self) -> Result<[u8; N], StoreError> {
        by_chance(self.path())
    }

    /// Creates it in a directory that holds nothing but what an interrupted creation left.
    pub(crate) fn create_alone(path: &Path) -> Result<Self, StoreError> {
        let is_left = path.join(LOCK_FILE).exists() && !path.join(FORMAT_FILE).exists();
        let holds_more = match fs::read_dir(path) {
            Ok(mut listing) => {
                listing.any(|entry| entry.is_ok_and(|entry| entry.file_name() != LOST_AND_FOUND))
            }
            // Whatever is wrong with the directory, creating it will find.
            Err(_) => false,
        };
        if holds_more && !is_left {
            return Err(StoreError::NotEmpty { path: path.to_owned() });
        }
        Self::create(path)
    }

    /// Opens an existing data directory.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let directory = Self::lock(path, found(path)?)?;
        // A load that did not come to its end has left nothing that is of use.
        remove_remains(path)?;
        Ok(directory)
    }

    /// Opens an existing data directory beside a process that may have locked it.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let Format { id, has_journal } = found(path)?;
        let has_journal = AtomicBool::new(has_journal);
        Ok(Self { path: path.to_owned(), id, has_journal, _lock: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The id of the store.
    pub(crate) const fn id(&self) -> [u8; ID_LENGTH] {
        self.id
    }

    /// Whether there must be a journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.has_journal.load(Ordering::Relaxed)
    }

    /// Notes durably that there is a journal: from now on one that is missing is a loss. In a
    /// directory that does not open yet it is noted with the rest.
    pub(crate) fn note_journal(&self) -> Result<(), StoreError> {
        if self.has_journal.swap(true, Ordering::Relaxed) || !self.path.join(FORMAT_FILE).exists() {
            return Ok(());
        }
        self.write_format()
    }

    /// The same files as another store, once its format is written.
    pub(crate) fn renewed(mut self) -> Result<Self, StoreError> {
        self.id = by_chance(&self.path)?;
        self.has_journal = AtomicBool::new(false);
        Ok(self)
    }

    /// Makes the directory one that opens.
    pub(crate) fn write_format(&self) -> Result<(), StoreError> {
        let path = self.path.join(NEW_FORMAT_FILE);
        let write = || {
            let mut file = File::create(&path)?;
            let id: String = self.id.iter().map(|octet| format!("{octet:02x}")).collect();
            let journal = if self.has_journal() { FORMAT_JOURNAL } else { "" };
            let text = format!("{FORMAT_HEAD}\nformat {FORMAT}\nid {id}\n{journal}");
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&path, self.path.join(FORMAT_FILE))
        };
        write().map_err(|source| StoreError::io(&path, source))?;
        sync_directory(&self.path)
    }

    fn lock(path: &Path, format: Format) -> Result<Self, StoreError> {
        let file_path = path.join(LOCK_FILE);
        let io = |source| StoreError::io(&file_path, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file_path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::InUse { path: path.to_owned(), pid });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let mut write_pid = || {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", std::process::id())
        };
        write_pid().map_err(io)?;
        let Format { id, has_journal } = format;
        let has_journal = AtomicBool::new(has_journal);
        Ok(Self { path: path.to_owned(), id, has_journal, _lock: Some(LockedFile(file)) })
    }

    /// Removes what a creation that did not come to its end has left.
    fn remove_remains(&self) -> Result<(), StoreError> {
        for name in [DATA_FILE, DATA_LOCK_FILE, NEW_FORMAT_FILE] {
            remove_file(&self.path.join(name))?;
        }
        Ok(())
    }
}

/// Removes a file; that it is not there is fine.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(path, source))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Octets that nobody can guess.
pub(crate) fn by_chance<const N: usize>(path: &Path) -> Result<[u8; N], StoreError> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets)
        .map_err(|error| StoreError::io(path, io::Error::other(error.to_string())))?;
    Ok(octets)
}

/// Refuses to make a data directory where there is one, or where files of others are. Other
/// servers keep a `data.mdb` too; ours always has a `lock` beside it.
fn refuse_files_of_others(path: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::io(path, source);
    let not_empty = || StoreError::NotEmpty { path: path.to_owned() };
    for entry in fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        if !entry.file_name().to_str().is_some_and(|name| OWN_FILES.contains(&name)) {
            return Err(not_empty());
        }
    }
    if path.join(DATA_FILE).exists() && !path.join(LOCK_FILE).exists() {
        return Err(not_empty());
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|source| StoreError::io(path, source))
}

/// The id of the store in the data directory `path`, which another process may have open.
///
/// # Errors
/// When it is no data directory, or not of the format this release knows.
pub fn identity(path: &Path) -> Result<[u8; ID_LENGTH], StoreError> {
    Ok(found(path)?.id)
}

/// Whether there must be a journal in the data directory `path`, which another process may have
/// open. To be asked before the journal is looked for: it was there before this was noted.
///
/// # Errors
/// When it is no data directory, or not of the format this release knows.
pub fn has_journal(path: &Path) -> Result<bool, StoreError> {
    Ok(found(path)?.has_journal)
}

/// Whether no process has the data directory `path` open to write.
///
/// # Errors
/// [`StoreError::InUse`] with the process when one has; when it is no data directory.
pub fn refuse_in_use(path: &Path) -> Result<(), StoreError> {
    DataDirectory::open(path).map(drop)
}

/// What the `format` file says.
struct Format {
    id: [u8; ID_LENGTH],
    has_journal: bool,
}

fn found(path: &Path) -> Result<Format, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => read_format(path),
        Ok(_) => Err(StoreError::NotADirectory { path: path.to_owned() }),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::NotADirectory { path: path.to_owned() })
        }
        Err(source) => Err(StoreError::io(path, source)),
    }
}

/// Reads the `format` file, when it is of the format this release knows.
fn read_format(path: &Path) -> Result<Format, StoreError> {
    let file_path = path.join(FORMAT_FILE);
    let foreign = || StoreError::NotADataDirectory { path: path.to_owned() };
    let text = match fs::read(&file_path) {
        Ok(octets) => String::from_utf8(octets).map_err(|_| foreign())?,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Err(foreign()),
        Err(source) => return Err(StoreError::io(&file_path, source)),
    };
    let mut lines = text.lines();
    let found: Option<u32> = (lines.next() == Some(FORMAT_HEAD))
        .then(|| lines.next()?.strip_prefix("format ")?.trim().parse().ok())
        .flatten();
    let path = path.to_owned();
    match found {
        Some(FORMAT) => {
            let id = lines.next().and_then(|line| line.strip_prefix("id "));
            let id = id.and_then(parse_id).ok_or_else(foreign)?;
            let has_journal = lines.next() == Some(FORMAT_JOURNAL.trim_end());
            Ok(Format { id, has_journal })
        }
        Some(found) if found > FORMAT => {
            Err(StoreError::NewerFormat { path, found, known: FORMAT })
        }
        Some(found) => Err(StoreError::OlderFormat { path, found, known: FORMAT }),
        None => Err(foreign()),
    }
}

fn parse_id(text: &str) -> Option<[u8; ID_LENGTH]> {
    let (pairs, []) = text.trim().as_bytes().as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; ID_LENGTH] = pairs.try_into().ok()?;
    let mut id = [0; ID_LENGTH];
    for (octet, pair) in id.iter_mut().zip(pairs) {
        *octet = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

const FORMAT_FILE: &str = "format";
/// What takes its place when all of it is written.
const NEW_FORMAT_FILE: &str = "format.new";
/// The line that says that there is a journal.
const FORMAT_JOURNAL: &str = "journal\n";
const FORMAT_HEAD: &str = "roster data directory";
const LOCK_FILE: &str = "lock";
/// LMDB's own names.
pub(crate) const DATA_FILE: &str = "data.mdb";
pub(crate) const DATA_LOCK_FILE: &str = "lock.mdb";
/// What may be there before the data are: parts of an interrupted creation, and what an operator
/// puts there first.
const OWN_FILES: [&str; 14] = [
    LOCK_FILE,
    NEW_FORMAT_FILE,
    DATA_FILE,
    DATA_LOCK_FILE,
    "schema",
    "journal",
    "tls",
    "admin-password",
    "admin-password.new",
    "admin-name",
    "schema-times",
    "schema-times.new",
    "roster.toml",
    LOST_AND_FOUND,
];
/// What a file system puts there first.
const LOST_AND_FOUND: &str = "lost+found";

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[track_caller]
    fn check_open(path: &Path, want: &str) {
        let text = DataDirectory::open(path).map(drop).unwrap_err().to_string();
        assert_eq!(text.replace(path.to_str().unwrap(), "DIR"), want);
    }

    #[test]
    fn each_reason_not_to_open_has_its_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        check_open(&path.join("none"), "'DIR' is not a directory");
        check_open(path, "'DIR' is not a roster data directory");
        fs::write(path.join("file"), "").unwrap();
        check_open(&path.join("file"), "'DIR' is not a directory");
        for foreign in ["", "roster data directory\n", "roster data directory\nformat x\n", "\u{0}"]
        {
            fs::write(path.join("format"), foreign).unwrap();
            check_open(path, "'DIR' is not a roster data directory");
        }
        fs::write(path.join("format"), [0xff]).unwrap();
        check_open(path, "'DIR' is not a roster data directory");
        for id in ["", "id", "id 00", "id 0102030405060708090a0b0c0d0e0fxx"] {
            fs::write(path.join("format"), format!("{FORMAT_HEAD}\nformat 3\n{id}\n")).unwrap();
            check_open(path, "'DIR' is not a roster data directory");
        }
        fs::write(path.join("format"), "roster data directory\nformat 4\n").unwrap();
        check_open(
            path,
            "'DIR' has data format 4, written by a newer release; this one knows up to 3",
        );
        fs::write(path.join("format"), "roster data directory\nformat 2\n").unwrap();
        check_open(
            path,
            "'DIR' has data format 2, written by an older release; export it with that release \
             and import it into a new data directory of this one, which knows format 3",
        );
    }

    #[test]
    fn an_id_is_kept_and_no_two_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let made = ["a", "b"].map(|name| {
            let made = DataDirectory::create(&dir.path().join(name)).unwrap();
            made.write_format().unwrap();
            made.id()
        });
        assert_ne!(made[0], made[1]);
        let opened = ["a", "b"].map(|name| DataDirectory::open(&dir.path().join(name)).unwrap());
        assert_eq!(opened.map(|directory| directory.id()), made);
    }

    #[test]
    fn that_there_is_a_journal_is_noted_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        let made = DataDirectory::create(data).unwrap();
        made.write_format().unwrap();
        assert!(!has_journal(data).unwrap() && !made.has_journal());
        made.note_journal().unwrap();
        let text = fs::read_to_string(data.join(FORMAT_FILE)).unwrap();
        assert!(text.ends_with("\njournal\n"), "{text}");
        let id = made.id();
        drop(made);
        let opened = DataDirectory::open(data).unwrap();
        assert!(has_journal(data).unwrap() && opened.has_journal());
        assert_eq!((opened.id(), identity(data).unwrap()), (id, id));
        assert!(!data.join(NEW_FORMAT_FILE).exists());
        // One that is being made does not open for it.
        let made = DataDirectory::create(&data.join("new")).unwrap();
        made.note_journal().unwrap();
        assert!(identity(&data.join("new")).is_err());
        made.write_format().unwrap();
        assert!(has_journal(&data.join("new")).unwrap());
    }

    #[test]
    fn one_process_at_a_time_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDirectory::create(dir.path()).unwrap();
        first.write_format().unwrap();
        let pid = std::process::id();
        check_open(dir.path(), &format!("'DIR' is in use by another process (pid {pid})"));
        drop(first);
        assert!(DataDirectory::open(dir.path()).is_ok());
    }

    #[test]
    fn creating_refuses_what_holds_files_and_accepts_its_own_remains() {
        let dir = tempfile::tempdir().unwrap();
        let made = DataDirectory::create(&dir.path().join("a/b")).unwrap();
        drop(made);
        fs::write(dir.path().join("a/b/data.mdb"), "half").unwrap();
        let made = DataDirectory::create(&dir.path().join("a/b")).unwrap();
        assert!(!dir.path().join("a/b/data.mdb").exists());
        made.write_format().unwrap();
        drop(made);
        let full = DataDirectory::create(&dir.path().join("a/b")).map(drop);
        assert!(matches!(full, Err(StoreError::NotEmpty { .. })));
        fs::write(dir.path().join("data.mdb"), "of another server").unwrap();
        let foreign = DataDirectory::create(dir.path()).map(drop);
        assert!(matches!(foreign, Err(StoreError::NotEmpty { .. })));
        assert!(dir.path().join("data.mdb").exists());
        fs::write(dir.path().join("other"), "").unwrap();
        let foreign = DataDirectory::create(dir.path()).map(drop);
        assert!(matches!(foreign, Err(StoreError::NotEmpty { .. })));
        let file = DataDirectory::create(&dir.path().join("other")).map(drop);
        assert!(matches!(file, Err(StoreError::NotADirectory { .. })));
    }

    #[test]
    fn a_lock_ends_with_its_guard_though_another_process_has_the_file() {
        let file = tempfile::tempfile().unwrap();
        // As a process that was begun a moment ago: the same open file once more.
        let inherited = file.try_clone().unwrap();
        file.try_lock().unwrap();
        let again = File::open(format!("/proc/self/fd/{}", inherited.as_raw_fd())).unwrap();
        assert!(again.try_lock().is_err());
        drop(LockedFile(file));
        again.try_lock().unwrap();
    }
}
