//! Lines of a file, a change each.
//!
//! Invariant: a line is confirmed when it is on the disk. What was cut off by the end of the
//! process or of the disk is taken away before anything is appended.
//! Invariant: what does not begin as a line of ours is not cut, renamed or written over: it may be
//! a key that another sink names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use directory::sinks::{FileTarget, SinkMessage};

use super::files::{self, SinkFiles};
use super::target::NotSent;

/// Appends to the file.
pub(super) struct FileSender {
    target: FileTarget,
    files: SinkFiles,
    open: Option<OpenFile>,
}

struct OpenFile {
    file: File,
    bytes: u64,
}

impl FileSender {
    pub(super) fn new(target: FileTarget, files: SinkFiles) -> Self {
        Self { target, files, open: None }
    }

    pub(super) fn send(&mut self, pending: &mut Vec<SinkMessage>) -> Result<(), NotSent> {
        self.append(pending).map_err(|error| {
            // Nobody knows how much of it is there.
            self.open = None;
            NotSent::Away(format!("{}: {error}", self.path().display()))
        })?;
        pending.clear();
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.files.path(&self.target.name)
    }

    fn append(&mut self, messages: &[SinkMessage]) -> io::Result<()> {
        let path = self.path();
        // It may have been moved away by others.
        let open = self.open.take().filter(|open| open.is_at(&path));
        let mut open = match open {
            Some(open) => open,
            None => {
                self.files.make()?;
                OpenFile::open(&path)?
            }
        };
        self.files.check_room()?;
        if open.bytes >= self.target.max_bytes {
            self.rotate(&path)?;
            open = OpenFile::open(&path)?;
        }
        let mut lines = Vec::with_capacity(messages.iter().map(|one| one.json.len() + 1).sum());
        for message in messages {
            lines.extend_from_slice(&message.json);
            lines.push(b'\n');
        }
        open.file.write_all(&lines)?;
        open.file.sync_data()?;
        open.bytes += lines.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    /// Gives the file, and those before it, the next names; the oldest goes.
    fn rotate(&self, path: &Path) -> io::Result<()> {
        let numbered = |number: u32| self.files.path(&format!("{}.{number}", self.target.name));
        for path in (1..=self.target.keep).map(numbered) {
            let told = |error: io::Error| io::Error::other(format!("{}: {error}", path.display()));
            match files::open(&path, OpenOptions::new().read(true)) {
                Ok(mut file) => check_own(&mut file).map_err(told)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(told(error)),
            }
        }
        for number in (1..=self.target.keep).rev() {
            let from = if number == 1 { path.to_owned() } else { numbered(number - 1) };
            match fs::rename(&from, numbered(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        sync_directory(self.files.directory())
    }
}

impl OpenFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = files::open(path, &mut options)?;
        check_own(&mut file)?;
        let bytes = whole_lines(&mut file)?;
        file.set_len(bytes)?;
        file.sync_all()?;
        if let Some(directory) = path.parent() {
            sync_directory(directory)?;
        }
        Ok(Self { file, bytes })
    }

    /// Whether the file of this name is this one.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::metadata(path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino()) && there.len() == self.bytes
    }
}

/// Refuses a file that does not begin as a message does, or as a part of one that was cut off.
fn check_own(file: &mut File) -> io::Result<()> {
    let mut begin = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(BEGIN_MAX_BYTES).read_to_end(&mut begin)?;
    let is_begun = |name: &&str| {
        let own = format!("{{\"{name}\":").into_bytes();
        let length = begin.len().min(own.len());
        begin.get(..length) == own.get(..length)
    };
    match FIRST_NAMES.iter().any(is_begun) {
        true => Ok(()),
        false => Err(io::Error::other("it is not of a sink: it does not begin with a change")),
    }
}

/// Where the last line ends that is whole.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = vec![0; BLOCK_BYTES];
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES as u64);
        let length = usize::try_from(end - start).unwrap_or(BLOCK_BYTES);
        let part = block.get_mut(..length).unwrap_or_default();
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|octet| *octet == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// What may be the first name in the object of a change.
const FIRST_NAMES: [&str; 6] = ["attributes", "by", "changes", "dn", "id", "number"];
/// Enough to tell these.
const BEGIN_MAX_BYTES: u64 = 32;
/// Read at a time, to find the end of the last line.
const BLOCK_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use directory::sinks::SinkPosition;
    use environment::Timestamp;
    use schema::EntryId;
    use store::Lsn;

    fn object(text: &str) -> String {
        format!("{{\"dn\":\"{text}\"}}")
    }

    fn message(text: &str) -> SinkMessage {
        let (id, key) = (text.to_owned(), text.to_owned());
        let json = object(text).into_bytes();
        let before = SinkPosition { lsn: Lsn(0), hash: None };
        SinkMessage { id, number: 1, key, entry: EntryId(1), time: Timestamp(0), before, json }
    }

    fn sender(directory: &Path, max_bytes: u64, keep: u32) -> FileSender {
        let target = FileTarget { name: "a.jsonl".to_owned(), max_bytes, keep };
        FileSender::new(target, SinkFiles::new(directory.join("sinks"), 0))
    }

    #[test]
    fn a_line_that_was_cut_off_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sinks/a.jsonl");
        sender(scratch.path(), 1 << 20, 1).send(&mut vec![message("one")]).unwrap();
        for rest in ["tw".to_owned(), "x".repeat(3 * BLOCK_BYTES)] {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(rest.as_bytes()).unwrap();
            let before = fs::read_to_string(&path).unwrap();
            let whole = before.rfind('\n').unwrap() + 1;
            sender(scratch.path(), 1 << 20, 1).send(&mut vec![message("two")]).unwrap();
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(after, format!("{}{}\n", &before[..whole], object("two")));
        }
    }

    #[test]
    fn a_file_with_something_else_is_not_touched() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sinks/a.jsonl");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let json = "{\"kty\":\"oct\",\"k\":\"a\"}\n";
        for key in ["whsec_a\n", "a key without an end", "{a password", "{a password}\n", json] {
            fs::write(&path, key).unwrap();
            let sent = sender(scratch.path(), 1, 1).send(&mut vec![message("one")]);
            assert!(matches!(sent, Err(NotSent::Away(_))), "{sent:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), key);
        }
    }

    #[test]
    fn files_are_renamed_by_size_and_the_oldest_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let mut sender = sender(scratch.path(), 4, 2);
        for text in ["one", "two", "three", "four"] {
            sender.send(&mut vec![message(text)]).unwrap();
        }
        let read = |name: &str| fs::read_to_string(scratch.path().join("sinks").join(name));
        assert_eq!(read("a.jsonl").unwrap(), object("four") + "\n");
        assert_eq!(read("a.jsonl.1").unwrap(), object("three") + "\n");
        assert_eq!(read("a.jsonl.2").unwrap(), object("two") + "\n");
        assert!(read("a.jsonl.3").is_err());
    }

    #[test]
    fn what_was_cut_off_in_the_first_line_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sinks/a.jsonl");
        fs::create_dir(path.parent().unwrap()).unwrap();
        for begun in ["", "{", "{\"", "{\"d", "{\"dn\":\"o", "{\"attributes\":{\"cn"] {
            fs::write(&path, begun).unwrap();
            sender(scratch.path(), 1 << 20, 1).send(&mut vec![message("one")]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), object("one") + "\n", "{begun}");
        }
    }

    #[test]
    fn what_is_of_no_sink_is_not_renamed_nor_written_over() {
        for number in 1..=3 {
            let scratch = tempfile::tempdir().unwrap();
            let mut sender = sender(scratch.path(), 4, 3);
            sender.send(&mut vec![message("one")]).unwrap();
            let path = |name: &str| scratch.path().join("sinks").join(name);
            let key = path(&format!("a.jsonl.{number}"));
            fs::write(&key, "whsec_a\n").unwrap();
            for _ in 0..2 {
                let sent = sender.send(&mut vec![message("two")]);
                assert!(matches!(sent, Err(NotSent::Away(_))), "{sent:?}");
            }
            assert_eq!(fs::read_to_string(&key).unwrap(), "whsec_a\n");
            assert_eq!(fs::read_to_string(path("a.jsonl")).unwrap(), object("one") + "\n");
            assert_eq!(fs::read_dir(scratch.path().join("sinks")).unwrap().count(), 2);
            fs::remove_file(&key).unwrap();
            sender.send(&mut vec![message("two")]).unwrap();
            assert_eq!(fs::read_to_string(path("a.jsonl.1")).unwrap(), object("one") + "\n");
        }
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let mut sender = sender(scratch.path(), 1 << 20, 2);
        let path = scratch.path().join("sinks/a.jsonl");
        sender.send(&mut vec![message("one")]).unwrap();
        fs::rename(&path, scratch.path().join("moved")).unwrap();
        sender.send(&mut vec![message("two")]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), object("two") + "\n");
        assert_eq!(fs::read_to_string(scratch.path().join("moved")).unwrap(), object("one") + "\n");
    }
}
