//! The files of an access log: the one that is written, and those that were put aside.
//!
//! Invariant: no line is read twice, and none is left out because a file was put aside or
//! compressed meanwhile: the file that is written is opened first, and what was put aside after
//! that is the very same file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use environment::Timestamp;
use offline::Source;
use server::rotated_logs;

/// What becomes of the plain text of one file.
pub(crate) type Each<'e> = dyn FnMut(&str, &mut dyn io::Read) -> io::Result<()> + 'e;

/// Reads the log at `path`, the oldest file first; of those that were put aside before `since`
/// nothing. Says how many files there were.
///
/// # Errors
/// The file that cannot be read, and why.
pub(crate) fn read(
    path: &Path,
    since: Option<Timestamp>,
    each: &mut Each<'_>,
) -> Result<usize, (PathBuf, io::Error)> {
    let with = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    let current = match File::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(with(path)(error)),
    };
    let identity = current.as_ref().map(File::metadata).transpose().map_err(with(path))?;
    let identity = identity.map(|found| (found.dev(), found.ino()));
    let oldest = since.map(|since| since.compact());
    let mut count = 0;
    for rotated in rotated_logs(path).map_err(with(path))? {
        if oldest.as_ref().is_some_and(|oldest| rotated.time < *oldest) {
            continue;
        }
        let Some((file, name)) = open(&rotated.path).map_err(with(&rotated.path))? else {
            continue;
        };
        let found = file.metadata().map_err(with(&name))?;
        if Some((found.dev(), found.ino())) == identity {
            continue;
        }
        one(&name, file, each).map_err(with(&name))?;
        count += 1;
    }
    if let Some(file) = current {
        one(path, file, each).map_err(with(path))?;
        count += 1;
    }
    Ok(count)
}

/// Opens a file that was put aside, compressed meanwhile or not; `None` when it has gone.
fn open(path: &Path) -> io::Result<Option<(File, PathBuf)>> {
    let names = ["", ".gz", ".zst"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    for name in names {
        match File::open(&name) {
            Ok(file) => return Ok(Some((file, name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn one(path: &Path, file: File, each: &mut Each<'_>) -> io::Result<()> {
    // A pipe or a device of this name is no log, and would keep the reader waiting.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let (name, mut octets) = Source::new(path.display().to_string(), file).plain()?;
    each(&name, &mut octets)
}

/// Reads files that somebody names, plain or compressed.
pub(crate) fn read_named(
    paths: &[PathBuf],
    each: &mut Each<'_>,
) -> Result<usize, (PathBuf, io::Error)> {
    for path in paths {
        let read = || {
            let (name, mut octets) = match path.as_os_str() == "-" {
                true => Source::new("standard input", io::stdin()).plain()?,
                false => Source::open(path)?.plain()?,
            };
            each(&name, &mut octets)
        };
        let mut read = read;
        read().map_err(|error| (path.clone(), error))?;
    }
    Ok(paths.len())
}

/// Whether there is a file of this log, or one was put aside.
pub(crate) fn exists(path: &Path) -> bool {
    fs::metadata(path).is_ok() || rotated_logs(path).is_ok_and(|all| !all.is_empty())
}
