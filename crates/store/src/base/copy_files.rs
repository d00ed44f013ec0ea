//! The files of copies in the data directory, and the note that one takes the place of the base.
//!
//! Invariant: the note is whole and durable, or not there.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::base::format::{DATA_FILE, DATA_LOCK_FILE, remove_file, sync_directory};
use crate::base::lmdb::{Environment, StoreOptions};
use crate::base::position::LogPosition;
use crate::error::StoreError;

/// Which copy takes the place of the base, and where the log has the end of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Note {
    pub(crate) id: [u8; 16],
    pub(crate) position: LogPosition,
}

impl Note {
    pub(crate) fn write(&self, data: &Path) -> Result<(), StoreError> {
        let directory = data.join(COPY_DIRECTORY);
        let (new, path) = (directory.join(NEW_FILE), directory.join(FILE));
        let write = || {
            let mut file = File::create(&new)?;
            let LogPosition { term, index } = self.position;
            let name = name_of(&self.id);
            file.write_all(
                format!("{HEAD}\ncopy {name}\nterm {term}\nindex {index}\n").as_bytes(),
            )?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|source| StoreError::io(&path, source))?;
        sync_directory(&directory)
    }

    pub(crate) fn read(data: &Path) -> Result<Option<Self>, StoreError> {
        let path = data.join(COPY_DIRECTORY).join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| StoreError::io(&path, source))?,
        };
        let damaged = || {
            let reason = "it is not what a member that takes a copy over writes".to_owned();
            StoreError::DataFile { path: path.clone(), reason }
        };
        parse(&text).ok_or_else(damaged).map(Some)
    }

    pub(crate) fn remove(data: &Path) -> Result<(), StoreError> {
        let directory = data.join(COPY_DIRECTORY);
        if !directory.join(FILE).exists() {
            return Ok(());
        }
        remove_file(&directory.join(FILE))?;
        sync_directory(&directory)
    }
}

fn parse(text: &str) -> Option<Note> {
    let mut lines = text.lines();
    let is_head = lines.next()? == HEAD;
    let mut line = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let id = u128::from_str_radix(line("copy")?, 16).ok()?.to_be_bytes();
    let term = line("term")?.parse().ok()?;
    let index = line("index")?.parse().ok()?;
    is_head.then_some(Note { id, position: LogPosition { term, index } })
}

/// Finishes what the note says, in a data directory that this process has locked and not opened
/// yet, and removes what was being sent. What was received and not decided on stays, to go on with.
pub(crate) fn finish(data: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    let above = data.join(COPY_DIRECTORY);
    if !above.is_dir() {
        return Ok(());
    }
    remove_sent(&above)?;
    remove_file(&above.join(NEW_FILE))?;
    let Some(note) = Note::read(data)? else { return Ok(()) };
    let from = above.join(name_of(&note.id));
    if from.join(DATA_FILE).exists() {
        remove_file(&from.join(DATA_LOCK_FILE))?;
        // With a lock of its own, as in the beginning: see `move_files`.
        let environment = Environment::open(&from, options)?;
        move_files(&from, data)?;
        environment.close();
    }
    remove_others(&above, None)
}

/// Moves the data file in `from` and its lock into the data directory `to`, durably. Whoever calls
/// this has the lock of the data directory, and has the environment in `from` open.
pub(crate) fn move_files(from: &Path, to: &Path) -> Result<(), StoreError> {
    // The lock first. Whoever opens the directory to write has its lock, so that nobody does now.
    // Whoever reads beside opens the data first and then the lock: that cannot become the new data
    // with the old lock, in which the next one to write would not see the reader. The old data with
    // the new lock it finds out (`open_beside`), and tries again. A process that is killed between
    // the two leaves the old data whole, with a lock that LMDB begins anew.
    for name in [DATA_LOCK_FILE, DATA_FILE] {
        let place = to.join(name);
        fs::rename(from.join(name), &place).map_err(|source| StoreError::io(&place, source))?;
        #[cfg(test)]
        crate::bulk::tests::crash::die_at("between the renames");
    }
    #[cfg(test)]
    crate::bulk::tests::crash::die_at("after the renames");
    sync_directory(to)
}

/// Where copies lie; it is made if it is not there.
pub(crate) fn copy_directory(data: &Path) -> Result<PathBuf, StoreError> {
    let path = data.join(COPY_DIRECTORY);
    if !path.is_dir() {
        make_directory(&path)?;
        sync_directory(data)?;
    }
    Ok(path)
}

/// What lies there has passwords in it.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| StoreError::io(path, source))
}

/// The name of the directory of a copy that is received.
pub(crate) fn name_of(id: &[u8; 16]) -> String {
    id.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Removes copies that were being received, but for the one in `kept`.
pub(crate) fn remove_others(above: &Path, kept: Option<&Path>) -> Result<(), StoreError> {
    let io = |source| StoreError::io(above, source);
    for found in fs::read_dir(above).map_err(io)? {
        let path = found.map_err(io)?.path();
        if path.is_dir() && kept.is_none_or(|kept| kept != path) {
            fs::remove_dir_all(&path).map_err(|source| StoreError::io(&path, source))?;
        }
    }
    Ok(())
}

/// Removes the copies that a process was sending.
fn remove_sent(above: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::io(above, source);
    for found in fs::read_dir(above).map_err(io)? {
        let found = found.map_err(io)?;
        if found.file_name().to_str().is_some_and(|name| name.starts_with(SENT)) {
            fs::remove_file(found.path()).map_err(|source| StoreError::io(above, source))?;
        }
    }
    Ok(())
}

/// In the data directory.
pub(crate) const COPY_DIRECTORY: &str = "copy";
/// What the names of copies begin with that are being sent.
pub(crate) const SENT: &str = "sent-";
const HEAD: &str = "roster copy 1";
const FILE: &str = "decided";
/// What takes its place when all of it is written.
const NEW_FILE: &str = "decided.new";
