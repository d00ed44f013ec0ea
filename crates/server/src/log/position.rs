//! How far the audit log has come: which change is the last that is durable in it, and where.
//!
//! Invariant: what a position says is durable in the log before the position is written.

use std::io;
use std::path::{Path, PathBuf};

use store::Lsn;

use super::files::Files;

/// The position in the audit log behind a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Position {
    pub(super) lsn: Lsn,
    /// The file, and how long it was.
    pub(super) identity: u64,
    pub(super) length: u64,
}

/// The position of the log at `path`; none when it was never written, or cannot be read.
pub(super) fn read(files: &dyn Files, path: &Path) -> Option<Position> {
    let text = files.read(&beside(path)).ok()?;
    let mut words = text.split_whitespace();
    let mut number = |key: &str| {
        let is_it = words.next() == Some(key);
        words.next().filter(|_| is_it)?.parse().ok()
    };
    let (lsn, identity, length) = (number("lsn")?, number("file")?, number("length")?);
    Some(Position { lsn: Lsn(lsn), identity, length })
}

/// Writes it, durably.
pub(super) fn write(files: &dyn Files, path: &Path, position: Position) -> io::Result<()> {
    let Position { lsn: Lsn(lsn), identity, length } = position;
    files.replace(&beside(path), &format!("lsn {lsn}\nfile {identity}\nlength {length}\n"))
}

/// `logs/audit.log.position`.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".position");
    PathBuf::from(name)
}
