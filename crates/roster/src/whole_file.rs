//! Files that are there as a whole or not at all.
//!
//! Invariant: under its name a file is never half-written: it is written as `NAME.part` beside it,
//! and gets its name when all of it is on the disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file in the making; what is not finished is removed.
#[derive(Debug)]
pub(crate) struct WholeFile {
    file: File,
    path: PathBuf,
    /// Where it is written; none when `path` is no regular file (`/dev/null`, a pipe).
    part: Option<PathBuf>,
}

impl WholeFile {
    /// Begins the file `path`, which only its owner may read.
    pub(crate) fn create_private(path: &Path) -> io::Result<Self> {
        Self::create_with(path, PRIVATE)
    }

    /// Begins the file `path`, which may be read by whoever may read new files.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::create_with(path, 0o666)
    }

    fn create_with(path: &Path, mode: u32) -> io::Result<Self> {
        let path = path.to_owned();
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Self { file, path, part: None });
        }
        let part = part_of(&path);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(mode);
        let file = loop {
            let file = options.open(&part)?;
            if file.try_lock().is_err() {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("another process writes {}", part.display()),
                ));
            }
            // Between the two, another process may have finished it: then it is what has the name.
            let ours = file.metadata()?;
            let is_ours =
                |found: fs::Metadata| (found.dev(), found.ino()) == (ours.dev(), ours.ino());
            if fs::metadata(&part).is_ok_and(is_ours) {
                break file;
            }
        };
        // Not before it is ours. One that was left behind may have other rights.
        if mode == PRIVATE {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.set_len(0)?;
        Ok(Self { file, path, part: Some(part) })
    }

    /// Gives the file its name, when all of it is on the disk.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(part, &self.path)?;
        self.part = None;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }
}

impl Write for WholeFile {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // What cannot be removed is written over by the next one.
            let _ = fs::remove_file(part);
        }
    }
}

/// Where the file `path` is written until it is whole.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    PathBuf::from(name)
}

/// For its owner alone.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ldif");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let busy = WholeFile::create(&path).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let mut file = WholeFile::create_private(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_left_behind_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ldif");
        for create in [WholeFile::create, WholeFile::create_private] {
            // Longer than what comes, as a process has left it that was killed.
            fs::write(part_of(&path), "left behind by a process that was killed").unwrap();
            let mut file = create(&path).unwrap();
            file.write_all(b"new").unwrap();
            file.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_was_left_behind_gets_the_rights_of_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ldif");
        let part = part_of(&path);
        fs::write(&part, "left behind").unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
        let file = WholeFile::create_private(&path).unwrap();
        assert_eq!(fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o600);
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_finished_file_is_not_emptied_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "whole").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let Ok(mut file) = WholeFile::create(&path) else { continue };
                        file.write_all(b"whole").unwrap();
                        file.finish().unwrap();
                        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
                    }
                });
            }
        });
    }

    #[test]
    fn what_is_no_file_is_written_in_place() {
        let mut file = WholeFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"x").unwrap();
        file.finish().unwrap();
        assert!(!Path::new("/dev/null.part").exists());
    }
}
