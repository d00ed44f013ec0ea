//! A log file that is put aside when it is large or old, and what becomes of those put aside.
//!
//! Invariant: what is in the file is whole lines: a write that fails in the middle is taken back.
//! Invariant: only files are removed whose names say that they were put aside by us.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use directory::Live;
use environment::Timestamp;

use super::files::{Compression, Disk, Files, Opened};

/// When a file is put aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// When it is larger; 0 = never.
    pub(crate) size_bytes: u64,
    /// When it is older; zero = never.
    pub(crate) every: Duration,
    /// At this time of the day, in seconds of UTC.
    pub(crate) at_s: Option<u64>,
}

/// Which of the files put aside stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// At most so many; 0 = any number.
    pub(crate) files: usize,
    /// None that was put aside longer ago; zero = however long.
    pub(crate) age: Duration,
    /// While less of the disk is free, the oldest go; 0 = none goes.
    pub(crate) free_bytes: u64,
    pub(crate) compression: Compression,
}

/// When the file is put aside, and which of those stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileRules {
    pub(crate) rotation: Rotation,
    pub(crate) retention: Retention,
}

/// The file that is written.
pub(super) struct LogFile {
    files: Arc<dyn Files>,
    path: PathBuf,
    /// They may be others from one moment to the next.
    rules: Arc<Live<FileRules>>,
    /// Hears when there is something to keep or remove.
    keeper: Sender<Keep>,
    opened: Option<Opened>,
    begun: Timestamp,
    /// Not to be put aside before, because it could not be.
    retry_at: Timestamp,
}

/// An order to the keeper: to look after the files that were put aside of this one.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    pub(super) path: PathBuf,
    pub(super) retention: Retention,
    pub(super) now: Timestamp,
}

impl LogFile {
    /// Opens the file, or makes it.
    pub(super) fn open(
        files: Arc<dyn Files>,
        path: PathBuf,
        rotation: Rotation,
        retention: Retention,
        keeper: Sender<Keep>,
        now: Timestamp,
    ) -> io::Result<Self> {
        let (opened, retry_at) = (None, Timestamp(0));
        let rules = Arc::new(Live::new(FileRules { rotation, retention }));
        let mut file = Self { files, path, rules, keeper, opened, begun: now, retry_at };
        file.opened(now)?;
        file.keep(now);
        Ok(file)
    }

    /// What has other rules hold.
    pub(super) fn rules(&self) -> Arc<Live<FileRules>> {
        Arc::clone(&self.rules)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which file it is, and how long.
    pub(super) fn position(&self) -> Option<(u64, u64)> {
        self.opened.as_ref().map(|opened| (opened.identity, opened.length))
    }

    /// Appends whole lines; when that fails, none of them is there.
    pub(super) fn append(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let opened = self.opened(now)?;
        let length = opened.length;
        match opened.sink.append(lines) {
            Ok(()) => {
                opened.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                if opened.sink.truncate(length).is_err() {
                    // What is there is seen when it is opened again.
                    self.opened = None;
                }
                Err(error)
            }
        }
    }

    /// Cuts what is behind `length` off.
    pub(super) fn truncate(&mut self, length: u64, now: Timestamp) -> io::Result<()> {
        let opened = self.opened(now)?;
        opened.sink.truncate(length)?;
        opened.length = length;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.opened.as_mut().map_or(Ok(()), |opened| opened.sink.sync())
    }

    /// Whether it is time to put the file aside.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let length = self.opened.as_ref().map_or(0, |opened| opened.length);
        let Rotation { size_bytes, every, at_s } = self.rules.get().rotation;
        length > 0
            && now >= self.retry_at
            && ((size_bytes > 0 && length >= size_bytes)
                || (!every.is_zero() && now >= later(self.begun, every))
                || at_s.is_some_and(|at_s| now >= next_time_of_day(self.begun, at_s)))
    }

    /// Puts the file aside and begins another. When that fails, the old one goes on.
    pub(super) fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let rotated = self.free_name(now);
        if let Err(error) = rotated.and_then(|rotated| self.files.rename(&self.path, &rotated)) {
            self.retry_at = later(now, RETRY_AFTER);
            return Err(error);
        }
        self.opened = None;
        self.keep(now);
        self.opened(now).map(|_| ())
    }

    /// Goes on in the file that has the name now: somebody else may have put ours aside.
    pub(super) fn reopen(&mut self, now: Timestamp) -> io::Result<()> {
        self.opened = None;
        self.opened(now)?;
        self.keep(now);
        Ok(())
    }

    /// Has those that were put aside looked after.
    pub(super) fn keep(&self, now: Timestamp) {
        let (path, retention) = (self.path.clone(), self.rules.get().retention);
        // Without a keeper everything stays.
        let _ = self.keeper.send(Keep { path, retention, now });
    }

    /// Whether files may have to go although none was put aside.
    pub(super) fn watches_disk(&self) -> bool {
        self.rules.get().retention.free_bytes > 0
    }

    fn opened(&mut self, now: Timestamp) -> io::Result<&mut Opened> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => {
                let opened = self.files.open(&self.path)?;
                let begun = opened.begun.filter(|begun| opened.length > 0 && *begun < now);
                self.begun = begun.unwrap_or(now);
                opened
            }
        };
        Ok(self.opened.insert(opened))
    }

    /// `access-20261122111213Z.log`, a later second when there is such a file.
    fn free_name(&self, now: Timestamp) -> io::Result<PathBuf> {
        let (directory, stem, extension) = parts(&self.path);
        let taken = self.files.list(&directory)?;
        let mut time = now;
        loop {
            let name = format!("{stem}-{}Z{extension}", time.compact());
            if !taken.iter().any(|other| other.starts_with(&name)) {
                return Ok(directory.join(name));
            }
            time = later(time, Duration::from_secs(1));
        }
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
}

/// The first moment after `time` that is `at_s` seconds after midnight.
fn next_time_of_day(time: Timestamp, at_s: u64) -> Timestamp {
    let midnight = time.seconds() - time.seconds() % DAY_S;
    let today = midnight + at_s;
    let next = if today > time.seconds() { today } else { today + DAY_S };
    Timestamp(next * 1_000_000)
}

/// Directory, stem and extension: `logs`, `access`, `.log`.
fn parts(path: &Path) -> (PathBuf, String, String) {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    (directory.unwrap_or(Path::new(".")).to_owned(), stem, extension.unwrap_or_default())
}

/// A file that was put aside.
struct Aside {
    name: String,
    /// `20261122111213`.
    time: String,
    is_compressed: bool,
}

/// Reads the name of a file that was put aside of the one with this stem and extension.
fn aside(name: &str, stem: &str, extension: &str) -> Option<Aside> {
    let rest = name.strip_prefix(stem)?.strip_prefix('-')?;
    let (time, rest) = rest.split_at_checked(14)?;
    let rest = rest.strip_prefix('Z')?.strip_prefix(extension)?;
    let is_compressed = match rest {
        "" => false,
        ".gz" | ".zst" => true,
        _ => return None,
    };
    let is_time = time.bytes().all(|octet| octet.is_ascii_digit());
    is_time.then(|| Aside { name: name.to_owned(), time: time.to_owned(), is_compressed })
}

/// A file that was put aside of a log.
#[derive(Clone, Debug)]
pub struct RotatedLog {
    /// Where it is.
    pub path: PathBuf,
    /// When it was put aside: `20261122111213`.
    pub time: String,
}

/// The files that were put aside of the log at `path`, the oldest first.
///
/// # Errors
/// When its directory cannot be read; where there is none, nothing was put aside.
pub fn rotated_logs(path: &Path) -> io::Result<Vec<RotatedLog>> {
    let (directory, stem, extension) = parts(path);
    let names = match Disk.list(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let known = names.iter().filter_map(|name| aside(name, &stem, &extension));
    let found =
        known.map(|Aside { name, time, .. }| RotatedLog { path: directory.join(name), time });
    let mut all: Vec<_> = found.collect();
    all.sort_by(|one, other| (&one.time, &one.path).cmp(&(&other.time, &other.path)));
    // Whoever is ended while it compresses leaves both: they say the same.
    all.dedup_by(|one, other| one.time == other.time);
    Ok(all)
}

/// Compresses and removes what was put aside, as the retention says.
pub(super) fn keep(files: &dyn Files, keep: &Keep) {
    let Keep { path, retention, now } = keep;
    let (directory, stem, extension) = parts(path);
    let complain = |what: &str, name: &str, error: &io::Error| {
        tracing::warn!(name, %error, "cannot {what} a rotated log");
    };
    let names = match files.list(&directory) {
        Ok(names) => names,
        Err(error) => return complain("list", &directory.to_string_lossy(), &error),
    };
    let is_aside = |name: &str| aside(name, &stem, &extension).is_some();
    for part in names.iter().filter(|name| name.strip_suffix(PART).is_some_and(is_aside)) {
        // Left by a process that was ended while it compressed.
        let _ = files.remove(&directory.join(part));
    }
    let mut all =
        names.iter().filter_map(|name| aside(name, &stem, &extension)).collect::<Vec<_>>();
    if retention.compression != Compression::None {
        for one in all.iter_mut().filter(|one| !one.is_compressed) {
            let name = format!("{}{}", one.name, retention.compression.extension());
            let part = directory.join(format!("{name}{PART}"));
            let plain = directory.join(&one.name);
            let done = files
                .compress(&plain, &part, retention.compression)
                .and_then(|()| files.rename(&part, &directory.join(&name)))
                .and_then(|()| files.remove(&plain));
            match done {
                Ok(()) => (one.name, one.is_compressed) = (name, true),
                Err(error) => {
                    let _ = files.remove(&part);
                    complain("compress", &one.name, &error);
                }
            }
        }
    }
    all.sort_by(|a, b| a.time.cmp(&b.time));
    let age_us = u64::try_from(retention.age.as_micros()).unwrap_or(u64::MAX);
    let oldest = Timestamp(now.0.saturating_sub(age_us)).compact();
    let mut left = all.len();
    for one in &all {
        let is_one_too_many = retention.files > 0 && left > retention.files;
        let is_too_old = age_us > 0 && one.time < oldest;
        let is_full = retention.free_bytes > 0
            && files.free_bytes(&directory).is_ok_and(|free| free < retention.free_bytes);
        if !is_one_too_many && !is_too_old && !is_full {
            break;
        }
        match files.remove(&directory.join(&one.name)) {
            Ok(()) => left -= 1,
            Err(error) => complain("remove", &one.name, &error),
        }
    }
}

/// What the name of a half-written file ends with.
const PART: &str = ".part";

const DAY_S: u64 = 86_400;

/// After a file could not be put aside, it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
pub(super) mod tests;
