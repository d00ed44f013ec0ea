//! The note that a copy takes the place of the base.
//!
//! Invariant: it is whole and durable, or not there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::{COPY_DIRECTORY, name_of, remove_others, remove_sent};
use crate::base::format::{DATA_FILE, DATA_LOCK_FILE, remove_file, sync_directory};
use crate::base::lmdb::{Environment, StoreOptions};
use crate::base::position::LogPosition;
use crate::base::swap::move_files;
use crate::error::StoreError;

/// Which copy takes the place of the base, and where the log has the end of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Note {
    pub(super) id: [u8; 16],
    pub(super) position: LogPosition,
}

impl Note {
    pub(super) fn write(&self, data: &Path) -> Result<(), StoreError> {
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

    pub(super) fn read(data: &Path) -> Result<Option<Self>, StoreError> {
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

    pub(super) fn remove(data: &Path) -> Result<(), StoreError> {
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

const HEAD: &str = "roster copy 1";
const FILE: &str = "decided";
/// What takes its place when all of it is written.
const NEW_FILE: &str = "decided.new";
