//! The manifest of a backup: which parts it has, what they hold, and their checksums.
//!
//! `manifest.json` is one object with two members: `backup`, a [`Manifest`], and `sha256`, the
//! checksum of the compact JSON form of the first.
//!
//! Invariants: a manifest that was read is whole and consistent: the parts follow each other
//! without a gap, and names of files lead nowhere but into the backup's directory. The manifest is
//! replaced as a whole, last of all: a backup that was interrupted is as it was before.

use std::fs;
use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::error::BackupError;
use super::file::{self, Sha256Hex, hex};
use super::moment::Moment;

/// What a backup consists of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format of manifest and parts.
    pub format: u32,
    /// The id of the store, as hexadecimal digits.
    pub store: String,
    /// Counts the runs that wrote to the backup; parts are named after theirs.
    pub run: u64,
    /// When the last run looked for the end of the journal: whatever was acknowledged before is in
    /// the backup.
    pub complete_until: Moment,
    /// The copy of the base.
    pub base: BasePart,
    /// The records after the base, in order.
    pub journal: Vec<JournalPart>,
    /// The other files of the data directory.
    pub files: Vec<FilePart>,
}

/// A file of the backup.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BackupPart {
    /// Its name in the backup's directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: Sha256Hex,
}

/// The place of a record in the history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The log sequence number.
    pub lsn: u64,
    /// The running hash after the record, as 16 hexadecimal digits.
    #[serde(with = "hex")]
    pub hash: u64,
    /// When the record was decided.
    pub time: Moment,
}

/// A copy of the base.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BasePart {
    /// The file.
    pub part: BackupPart,
    /// The last record whose effect is in it.
    pub mark: Point,
    /// How many entries it holds.
    pub entries: u64,
}

/// Records of the journal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JournalPart {
    /// The file.
    pub part: BackupPart,
    /// The first log sequence number in it.
    pub first_lsn: u64,
    /// When the first record was decided.
    pub first_time: Moment,
    /// The last record in it.
    pub last: Point,
}

/// A file of the data directory that is neither base nor journal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FilePart {
    /// The file.
    pub part: BackupPart,
    /// Its path in the data directory.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    backup: Manifest,
    sha256: Sha256Hex,
}

/// The format number alone, which all formats have.
#[derive(Deserialize)]
struct Numbered {
    backup: Number,
}

#[derive(Deserialize)]
struct Number {
    format: u32,
}

impl BackupPart {
    /// Whether the part holds these octets.
    pub(super) fn is_of(&self, octets: &[u8]) -> bool {
        self.bytes == octets.len() as u64 && self.sha256 == Sha256Hex::of(octets)
    }
}

impl Manifest {
    /// Reads the manifest of the backup in `directory`; `None` when there is none.
    ///
    /// # Errors
    /// When it is damaged, or of a newer release.
    pub fn read(directory: &Path) -> Result<Option<Self>, BackupError> {
        let path = directory.join(MANIFEST_FILE);
        match file::read_small(&path, MANIFEST_MAX_BYTES) {
            Ok(octets) => Self::parse(&octets)
                .map(Some)
                .map_err(|reason| BackupError::Damaged { part: path, reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BackupError::io(&path, source)),
        }
    }

    /// Puts this manifest in the place of the one in `directory`, in one step.
    pub(super) fn write(&self, directory: &Path) -> Result<(), BackupError> {
        let path = directory.join(MANIFEST_FILE);
        let octets = self.to_json();
        file::write_whole(&path, &octets).map_err(|source| BackupError::io(&path, source))
    }

    /// The text of the file.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let sealed = Sealed { backup: self.clone(), sha256: self.checksum() };
        let mut octets =
            serde_json::to_vec_pretty(&sealed).expect("text and numbers can be written as JSON");
        octets.push(b'\n');
        octets
    }

    /// Reads the text of the file; the error is one clause that follows the file's name.
    ///
    /// # Errors
    /// When it is no manifest, damaged, inconsistent, or of a newer release.
    pub fn parse(octets: &[u8]) -> Result<Self, String> {
        let numbered: Numbered = serde_json::from_slice(octets)
            .map_err(|error| format!("is not a manifest of a backup: {error}"))?;
        let found = numbered.backup.format;
        if found > FORMAT {
            return Err(format!("has format {found} of a newer release; this one knows {FORMAT}"));
        }
        let sealed: Sealed = serde_json::from_slice(octets)
            .map_err(|error| format!("is not a manifest of a backup: {error}"))?;
        let manifest = sealed.backup;
        if manifest.checksum() != sealed.sha256 {
            return Err("does not match its checksum".to_owned());
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// The last record in the backup.
    pub fn last(&self) -> Point {
        self.journal.last().map_or(self.base.mark, |part| part.last)
    }

    /// All files of the backup, each once.
    pub fn parts(&self) -> impl Iterator<Item = &BackupPart> {
        let journal = self.journal.iter().map(|part| &part.part);
        let files = self.files.iter().map(|part| &part.part);
        std::iter::once(&self.base.part).chain(journal).chain(files)
    }

    /// The size of all files.
    pub fn bytes(&self) -> u64 {
        self.parts().map(|part| part.bytes).sum()
    }

    fn checksum(&self) -> Sha256Hex {
        let octets = serde_json::to_vec(self).expect("text and numbers can be written as JSON");
        Sha256Hex::of(&octets)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(part) = self.parts().find(|part| !is_plain_name(&part.name)) {
            return Err(format!("names a file '{}' that cannot be a part", part.name));
        }
        if let Some(file) = self.files.iter().find(|file| !is_inner_path(&file.path)) {
            return Err(format!("names a file '{}' outside of the data directory", file.path));
        }
        let mut last = self.base.mark.lsn;
        for part in &self.journal {
            if Some(part.first_lsn) != last.checked_add(1) || part.last.lsn < part.first_lsn {
                return Err(format!("has a gap in the records after {last}"));
            }
            last = part.last.lsn;
        }
        Ok(())
    }
}

/// Whether this is the name of a file, not a way out of its directory.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None)
        if only == name && name != MANIFEST_FILE)
}

/// Whether this leads to a file in the directory it is joined to.
fn is_inner_path(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|component| matches!(component, Component::Normal(_)))
}

/// Whether a file with this name is one that a backup makes.
pub(super) fn is_own_name(name: &str) -> bool {
    [BASE_PREFIX, JOURNAL_PREFIX, FILE_PREFIX].iter().any(|prefix| name.starts_with(prefix))
        || [MANIFEST_FILE, MANIFEST_NEW_FILE, LOCK_FILE].contains(&name)
}

/// Removes the files that an interrupted run left: `manifest` does not name them.
pub(super) fn remove_remains(directory: &Path, manifest: Option<&Manifest>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_own_name(name)) else { continue };
        let is_named = manifest.is_some_and(|manifest| manifest.parts().any(|p| p.name == name));
        if !is_named && ![MANIFEST_FILE, LOCK_FILE].contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The format this release writes, and the highest it reads.
pub(super) const FORMAT: u32 = 1;

/// The file that makes a directory a backup.
pub const MANIFEST_FILE: &str = "manifest.json";
const MANIFEST_NEW_FILE: &str = "manifest.json.new";
/// Locked while a command writes the backup.
pub(super) const LOCK_FILE: &str = "lock";
pub(super) const BASE_PREFIX: &str = "base-";
pub(super) const JOURNAL_PREFIX: &str = "journal-";
pub(super) const FILE_PREFIX: &str = "file-";
/// A manifest is this large at most, in bytes.
const MANIFEST_MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> BackupPart {
        BackupPart { name: name.to_owned(), bytes: 3, sha256: Sha256Hex::of(name.as_bytes()) }
    }

    fn point(lsn: u64) -> Point {
        Point { lsn, hash: lsn << 60 | lsn, time: Moment::from_micros(1_700_000_000_000_000 + lsn) }
    }

    fn manifest() -> Manifest {
        let journal = |name, first_lsn, last| JournalPart {
            part: part(name),
            first_lsn,
            first_time: point(first_lsn).time,
            last: point(last),
        };
        Manifest {
            format: FORMAT,
            store: "00112233445566778899aabbccddeeff".to_owned(),
            run: 3,
            complete_until: Moment::from_micros(1_700_000_001_000_000),
            base: BasePart { part: part("base-1"), mark: point(7), entries: 2 },
            journal: vec![journal("journal-1", 8, 9), journal("journal-3", 10, 10)],
            files: vec![FilePart {
                part: part("file-1-0"),
                path: "schema/own.ldif".to_owned(),
                mode: 0o600,
            }],
        }
    }

    #[track_caller]
    fn check_refused(change: impl FnOnce(&mut Manifest), want: &str) {
        let mut manifest = manifest();
        change(&mut manifest);
        assert_eq!(Manifest::parse(&manifest.to_json()).unwrap_err(), want);
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = manifest();
        assert_eq!(Manifest::parse(&manifest.to_json()), Ok(manifest.clone()));
        assert_eq!(manifest.last(), point(10));
        assert_eq!(manifest.bytes(), 12);
    }

    #[test]
    fn each_change_of_the_text_is_noticed() {
        let text = manifest().to_json();
        for (at, octet) in text.iter().enumerate() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            let is_space = octet.is_ascii_whitespace() || changed[at].is_ascii_whitespace();
            assert!(is_space || Manifest::parse(&changed).is_err(), "octet {at}");
        }
    }

    #[test]
    fn inconsistent_manifests_are_refused() {
        check_refused(
            |manifest| manifest.format = 9,
            "has format 9 of a newer release; this one knows 1",
        );
        check_refused(
            |manifest| drop(manifest.journal.remove(0)),
            "has a gap in the records after 7",
        );
        for name in ["", ".", "..", "/etc/passwd", "a/b", "a/", "manifest.json"] {
            let want = format!("names a file '{name}' that cannot be a part");
            check_refused(|manifest| manifest.base.part.name = name.to_owned(), &want);
        }
        for path in ["", "../x", "/x", "a/../../x"] {
            let want = format!("names a file '{path}' outside of the data directory");
            check_refused(|manifest| manifest.files[0].path = path.to_owned(), &want);
        }
    }
}
