//! Putting files aside, with a clock that is handed in and a file system that fails on demand.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crossbeam_channel::{Receiver, unbounded};

use super::super::files::Sink;
use super::*;

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<PathBuf, File>,
    made: u64,
    /// So many octets fit; `None`: any number.
    pub(crate) room: Option<usize>,
    pub(crate) cannot_rename: bool,
    pub(crate) cannot_truncate: bool,
    pub(crate) free_bytes: u64,
}

#[derive(Clone, Default)]
pub(crate) struct File {
    identity: u64,
    pub(crate) octets: Vec<u8>,
    pub(crate) synced: usize,
}

impl Memory {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        self.state().files.keys().map(name).collect()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let state = self.state();
        let file = state.files.get(&Path::new("logs").join(name)).unwrap();
        String::from_utf8(file.octets.clone()).unwrap()
    }

    pub(crate) fn put(&self, name: &str) {
        self.state().files.insert(Path::new("logs").join(name), File::default());
    }
}

struct MemorySink(Memory, u64);

impl MemorySink {
    fn with<T>(&self, act: impl FnOnce(&mut File, &mut Option<usize>) -> T) -> T {
        let mut state = self.0.state();
        let State { files, room, .. } = &mut *state;
        let mut file = files.values_mut().find(|file| file.identity == self.1);
        act(file.as_mut().map_or(&mut File::default(), |file| file), room)
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Sink for MemorySink {
    fn append(&mut self, octets: &[u8]) -> io::Result<()> {
        self.with(|file, room| {
            let fits = room.unwrap_or(usize::MAX).min(octets.len());
            file.octets.extend_from_slice(&octets[..fits]);
            if let Some(room) = room {
                *room -= fits;
            }
            if fits < octets.len() { Err(full()) } else { Ok(()) }
        })
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.0.state().cannot_truncate {
            return Err(full());
        }
        self.with(|file, _| file.octets.truncate(length as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(|file, _| file.synced = file.octets.len());
        Ok(())
    }
}

impl Files for Memory {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        let mut state = self.state();
        state.made += 1;
        let made = state.made;
        let fresh = File { identity: made, ..File::default() };
        let file = state.files.entry(path.to_owned()).or_insert(fresh);
        let (length, identity) = (file.octets.len() as u64, file.identity);
        let sink = Box::new(MemorySink(self.clone(), identity));
        Ok(Opened { sink, length, identity, begun: None })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.cannot_rename {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let file = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.free_bytes += 100;
        state.files.remove(path).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _directory: &Path) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn free_bytes(&self, _directory: &Path) -> io::Result<u64> {
        Ok(self.state().free_bytes)
    }

    fn compress(&self, from: &Path, to: &Path, _compression: Compression) -> io::Result<()> {
        let mut state = self.state();
        let file = state.files.get(from).cloned().ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), File { identity: 0, ..file });
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let state = self.state();
        let file = state.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(String::from_utf8(file.octets.clone()).unwrap())
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let octets = text.as_bytes().to_vec();
        let file = File { synced: octets.len(), octets, identity: 0 };
        self.state().files.insert(path.to_owned(), file);
        Ok(())
    }
}

/// 2026-11-22T11:12:13Z.
pub(crate) const NOW: Timestamp = Timestamp(1_795_345_933_000_000);

fn at(seconds: u64) -> Timestamp {
    later(NOW, Duration::from_secs(seconds))
}

fn open(memory: &Memory, rotation: Rotation, retention: Retention) -> (LogFile, Receiver<Keep>) {
    let (keeper, aside) = unbounded();
    let path = PathBuf::from("logs/access.log");
    let files = Arc::new(memory.clone());
    (LogFile::open(files, path, rotation, retention, keeper, NOW).unwrap(), aside)
}

fn write(file: &mut LogFile, line: &str, now: Timestamp) {
    if file.is_due(now) {
        file.rotate(now).unwrap();
    }
    file.append(line.as_bytes(), now).unwrap();
}

#[test]
fn a_file_is_put_aside_when_it_is_large() {
    let memory = Memory::default();
    let rotation = Rotation { size_bytes: 10, ..Rotation::default() };
    let (mut file, _aside) = open(&memory, rotation, Retention::default());
    for line in ["12345\n", "67890\n", "a\n"] {
        write(&mut file, line, at(0));
    }
    assert_eq!(memory.names(), ["access-20261122111213Z.log", "access.log"]);
    assert_eq!(memory.text("access-20261122111213Z.log"), "12345\n67890\n");
    assert_eq!(memory.text("access.log"), "a\n");
    // Another in the same second has another name.
    write(&mut file, "0123456789\n", at(0));
    write(&mut file, "b\n", at(0));
    assert_eq!(memory.text("access-20261122111214Z.log"), "a\n0123456789\n");
}

#[test]
fn a_file_is_put_aside_when_it_is_old_and_at_a_time_of_day() {
    let memory = Memory::default();
    let rotation = Rotation { every: Duration::from_secs(3_600), ..Rotation::default() };
    let (mut file, _aside) = open(&memory, rotation, Retention::default());
    write(&mut file, "a\n", at(1));
    assert!(!file.is_due(at(3_599)));
    assert!(file.is_due(at(3_600)));
    write(&mut file, "b\n", at(3_600));
    assert_eq!(memory.text("access-20261122121213Z.log"), "a\n");
    assert!(!file.is_due(at(7_199)));
    assert!(file.is_due(at(7_200)));
    // Midday is 2,867 seconds ahead.
    let memory = Memory::default();
    let rotation = Rotation { at_s: Some(12 * 3_600), ..Rotation::default() };
    let (mut file, _aside) = open(&memory, rotation, Retention::default());
    write(&mut file, "a\n", at(1));
    assert!(!file.is_due(at(2_866)));
    assert!(file.is_due(at(2_867)));
    write(&mut file, "b\n", at(2_867));
    assert!(!file.is_due(at(2_867 + DAY_S - 1)));
    assert!(file.is_due(at(2_867 + DAY_S)));
}

#[test]
fn an_empty_file_is_not_put_aside() {
    let rotation = Rotation { every: Duration::from_secs(1), ..Rotation::default() };
    let (file, _aside) = open(&Memory::default(), rotation, Retention::default());
    assert!(!file.is_due(at(100)));
}

#[test]
fn on_a_full_disk_no_half_line_stays() {
    let memory = Memory::default();
    let (mut file, _aside) = open(&memory, Rotation::default(), Retention::default());
    file.append(b"first\n", NOW).unwrap();
    memory.state().room = Some(3);
    assert!(file.append(b"second\n", NOW).is_err());
    assert_eq!(memory.text("access.log"), "first\n");
    memory.state().room = None;
    file.append(b"third\n", NOW).unwrap();
    assert_eq!(memory.text("access.log"), "first\nthird\n");
    assert_eq!(file.position().unwrap().1, 12);
}

#[test]
fn a_file_that_cannot_be_put_aside_goes_on_and_is_tried_again() {
    let memory = Memory::default();
    let rotation = Rotation { size_bytes: 1, ..Rotation::default() };
    let (mut file, _aside) = open(&memory, rotation, Retention::default());
    file.append(b"a\n", NOW).unwrap();
    memory.state().cannot_rename = true;
    assert!(file.is_due(NOW));
    assert!(file.rotate(NOW).is_err());
    assert!(!file.is_due(at(59)));
    file.append(b"b\n", NOW).unwrap();
    assert_eq!(memory.text("access.log"), "a\nb\n");
    memory.state().cannot_rename = false;
    assert!(file.is_due(at(60)));
    file.rotate(at(60)).unwrap();
    assert_eq!(memory.text("access-20261122111313Z.log"), "a\nb\n");
}

#[test]
fn a_file_that_somebody_else_put_aside_is_left_to_them() {
    let memory = Memory::default();
    let (mut file, _aside) = open(&memory, Rotation::default(), Retention::default());
    file.append(b"a\n", NOW).unwrap();
    memory.rename(Path::new("logs/access.log"), Path::new("logs/access.log.1")).unwrap();
    file.append(b"b\n", NOW).unwrap();
    file.reopen(NOW).unwrap();
    file.append(b"c\n", NOW).unwrap();
    assert_eq!(memory.text("access.log.1"), "a\nb\n");
    assert_eq!(memory.text("access.log"), "c\n");
}

#[test]
fn other_rules_hold_at_once() {
    let (mut file, _aside) = open(&Memory::default(), Rotation::default(), Retention::default());
    file.append(b"a line\n", NOW).unwrap();
    assert!(!file.is_due(NOW) && !file.watches_disk());
    let rotation = Rotation { size_bytes: 1, ..Rotation::default() };
    let retention = Retention { free_bytes: 1, ..Retention::default() };
    file.rules().set(FileRules { rotation, retention });
    assert!(file.is_due(NOW) && file.watches_disk());
}

#[track_caller]
fn check_kept(retention: Retention, free_bytes: u64, want: &[&str]) {
    let memory = Memory::default();
    for name in [
        "access.log",
        "access.log.1",
        "access-20261101000000Z.log.gz",
        "access-20261120000000Z.log",
        "access-20261121000000Z.log.zst",
        "access-20261122000000Z.log",
        "access-20261122000000Z.log.gz.part",
        "access-mine.log",
        "audit-20201122000000Z.ldif",
    ] {
        memory.put(name);
    }
    memory.state().free_bytes = free_bytes;
    keep(&memory, &Keep { path: PathBuf::from("logs/access.log"), retention, now: NOW });
    let others = ["access-mine.log", "access.log", "access.log.1", "audit-20201122000000Z.ldif"];
    let mut want = want.iter().map(|time| format!("access-{time}")).collect::<Vec<_>>();
    want.extend(others.map(str::to_owned));
    want.sort();
    assert_eq!(memory.names(), want);
}

#[test]
fn what_was_put_aside_stays_as_long_as_the_settings_say() {
    let all = [
        "20261101000000Z.log.gz",
        "20261120000000Z.log",
        "20261121000000Z.log.zst",
        "20261122000000Z.log",
    ];
    let plain = Retention::default();
    check_kept(plain, 0, &all);
    check_kept(Retention { files: 4, ..plain }, 0, &all);
    check_kept(Retention { files: 3, ..plain }, 0, &all[1..]);
    check_kept(Retention { files: 1, ..plain }, 0, &all[3..]);
    let age = Duration::from_secs(2 * DAY_S);
    check_kept(Retention { age, ..plain }, 0, &all[2..]);
    check_kept(Retention { free_bytes: 250, ..plain }, 250, &all);
    // The half-written one is gone first, which gives 100; each other gives as much.
    check_kept(Retention { free_bytes: 250, ..plain }, 100, &all[1..]);
    let compressed = [
        "20261101000000Z.log.gz",
        "20261120000000Z.log.zst",
        "20261121000000Z.log.zst",
        "20261122000000Z.log.zst",
    ];
    let compression = Compression::Zstd;
    check_kept(Retention { compression, ..plain }, 0, &compressed);
    check_kept(Retention { compression, files: 2, ..plain }, 0, &compressed[2..]);
}

#[test]
fn files_of_the_machine_are_compressed_whole_and_readable_by_their_owner_only() {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::files::Disk;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("logs").join("access.log");
    let mut opened = Disk.open(&path).unwrap();
    let text = "a line of a log\n".repeat(10_000);
    opened.sink.append(text.as_bytes()).unwrap();
    opened.sink.sync().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let compressed = directory.path().join("compressed");
    let mut read = String::new();
    Disk.compress(&path, &compressed, Compression::Gzip).unwrap();
    let file = std::fs::File::open(&compressed).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut read).unwrap();
    assert_eq!(read, text);
    assert_eq!(mode(&compressed), 0o600);
    Disk.compress(&path, &compressed, Compression::Zstd).unwrap();
    let file = std::fs::File::open(&compressed).unwrap();
    assert_eq!(zstd::stream::decode_all(file).unwrap(), text.as_bytes());
}
