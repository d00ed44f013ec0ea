//! A copy is whole or nothing, goes on where it was left, and a member that is killed has the old
//! or the new.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use schema::{Change, SettingChange};

use super::*;
use crate::base::position::Lsn;
use crate::testing::create;
use crate::write::batch::Batch;

const KILLED: i32 = 9;
/// Where the other process finds its data.
const DIRECTORY: &str = "ROSTER_TEST_COPY_IN";

const AT: LogPosition = LogPosition { term: 4, index: 70 };

fn open(data: &Path) -> Store {
    Store::open(data, &StoreOptions::default(), Schema::builtin()).unwrap()
}

/// Records with no effect but their number, and who takes part.
fn write(store: &Store, count: u64, position: LogPosition) {
    let mut batch: Batch<'_> = store.begin().unwrap();
    for _ in 0..count {
        let mark = batch.last();
        let (lsn, hash) = (Lsn(mark.lsn.0 + 1), mark.hash + 7);
        let _ = batch.record(Mark { lsn, hash, position, ..mark }).unwrap();
    }
    let mark = batch.seal();
    store.publish(mark.lsn, position);
    store.set_membership(vec![u8::try_from(count).unwrap(); 3]);
}

/// A copy of a store that is ahead, with its octets.
fn copied(data: &Path) -> (CopyHead, Vec<u8>) {
    let store = create(data);
    write(&store, 5, AT);
    store.flush().unwrap();
    let copy = store.copy_base().unwrap();
    let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
    copy.read_at(0, &mut octets).unwrap();
    assert_eq!(copy.membership(), [5; 3]);
    (*copy.head(), octets)
}

fn receive(store: &Store, head: &CopyHead, octets: &[u8]) -> Result<ReceivedBase, StoreError> {
    let mut intake = store.receive_base(head)?;
    let written = usize::try_from(intake.written()).unwrap();
    intake.write(&octets[written..])?;
    store.open_received(intake, Schema::builtin())
}

fn put(store: &Store, received: ReceivedBase) -> Mark {
    let done: Result<Mark, StoreError> = store.put_in_place(received, |_, _| Ok(()));
    done.unwrap()
}

#[test]
fn a_copy_is_what_was_flushed_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = create(&data);
    write(&store, 5, AT);
    store.flush().unwrap();
    write(&store, 3, LogPosition { index: 73, ..AT });
    let copy = store.copy_base().unwrap();
    assert_eq!((copy.head().mark.lsn, copy.head().mark.position), (Lsn(5), AT));
    assert_eq!(copy.membership(), [5; 3]);
    let other = store.copy_base().unwrap();
    assert_ne!(other.head().id, copy.head().id);
    let held = || fs::read_dir(data.join(COPY_DIRECTORY)).unwrap().count();
    assert_eq!(held(), 2);
    drop((copy, other));
    assert_eq!(held(), 0);
    // What a process that was killed leaves goes with the next opening.
    let copy = store.copy_base().unwrap();
    std::mem::forget(copy);
    drop(store);
    drop(open(&data));
    assert_eq!(held(), 0);
}

#[test]
fn a_copy_takes_the_place_of_the_base_and_brings_who_takes_part() {
    let dir = tempfile::tempdir().unwrap();
    let (head, octets) = copied(&dir.path().join("sender"));
    let store = create(&dir.path().join("data"));
    write(&store, 2, LogPosition { term: 1, index: 3 });
    let received = receive(&store, &head, &octets).unwrap();
    assert_eq!((received.head(), received.membership()), (&head, &[5; 3][..]));
    // When it is not to be, nothing has happened.
    let kept = store.published();
    let refused: Result<Mark, StoreError> =
        store.put_in_place(received, |_, _| Err(StoreError::Interrupted));
    assert!(refused.is_err());
    assert_eq!((store.published(), store.copied().unwrap()), (kept, None));
    let received = receive(&store, &head, &octets).unwrap();
    let done: Result<Mark, StoreError> = store.put_in_place(received, |published, view| {
        assert_eq!((published.lsn, view.lsn()), (Lsn(2), Lsn(5)));
        Ok(())
    });
    assert_eq!(done.unwrap(), head.mark);
    assert_eq!((store.base(), store.published()), (head.mark, head.mark));
    // Not what was set here before.
    assert_eq!(store.membership().unwrap(), [5; 3]);
    assert_eq!(store.copied().unwrap(), Some(AT));
    store.settle_copied().unwrap();
    assert_eq!(store.copied().unwrap(), None);
    write(&store, 1, LogPosition { index: 71, ..AT });
    store.flush().unwrap();
    drop(store);
    let store = open(&dir.path().join("data"));
    assert_eq!((store.base().lsn, store.membership().unwrap()), (Lsn(6), vec![1; 3]));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn a_copy_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let (head, octets) = copied(&dir.path().join("sender"));
    let data = dir.path().join("data");
    let store = create(&data);
    let mut intake = store.receive_base(&head).unwrap();
    intake.write(&octets[..1000]).unwrap();
    assert!(intake.write(&octets).is_err(), "more than was announced");
    drop((intake, store));
    // Also after a restart.
    let store = open(&data);
    let intake = store.receive_base(&head).unwrap();
    assert_eq!(intake.written(), 1000);
    let mut read = [0; 10];
    intake.read_at(990, &mut read).unwrap();
    assert_eq!(read, octets[990..1000]);
    drop(intake);
    let received = receive(&store, &head, &octets).unwrap();
    drop(received);
    // Another takes its place.
    let intake = store.receive_base(&CopyHead { id: [9; 16], ..head }).unwrap();
    assert_eq!(intake.written(), 0);
    assert_eq!(fs::read_dir(data.join(COPY_DIRECTORY)).unwrap().count(), 1);
    store.drop_received().unwrap();
    assert_eq!(fs::read_dir(data.join(COPY_DIRECTORY)).unwrap().count(), 0);
}

#[test]
fn what_is_no_copy_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (head, octets) = copied(&dir.path().join("sender"));
    let store = create(&dir.path().join("data"));
    let before = store.published();
    let text = |head: CopyHead, octets: &[u8]| {
        let text = receive(&store, &head, octets).unwrap_err().to_string();
        assert_eq!(store.published(), before);
        text
    };
    let newer = CopyHead { format: FORMAT + 1, ..head };
    assert!(text(newer, &octets).contains("its data have format"));
    let endless = CopyHead { bytes: 1 << 60, ..head };
    assert!(text(endless, &octets).contains("make room there"));
    assert!(text(head, &octets[..octets.len() - 1]).contains("bytes of"));
    let mut damaged = octets.clone();
    damaged[..4096].fill(0);
    text(head, &damaged);
    let later = CopyHead { mark: Mark { lsn: Lsn(6), ..head.mark }, ..head };
    assert!(text(later, &octets).contains("it ends with"));
    // That of other naming contexts.
    let other = dir.path().join("other");
    let contexts = [ldap::dn::Dn::parse("o=Else").unwrap()];
    let (options, indexes) = (StoreOptions::default(), crate::index::IndexConfig::none());
    let other = Store::create(&other, &options, Schema::builtin(), indexes, &contexts).unwrap();
    let copy = other.copy_base().unwrap();
    let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
    copy.read_at(0, &mut octets).unwrap();
    assert!(text(*copy.head(), &octets).contains("naming contexts"));
}

#[test]
fn a_store_that_waits_for_a_copy_gets_its_naming_contexts() {
    let dir = tempfile::tempdir().unwrap();
    let (head, octets) = copied(&dir.path().join("sender"));
    let data = dir.path().join("data");
    let (options, schema) = (StoreOptions::default(), Schema::builtin());
    Store::create_for_copy(&data, [9; 16], &options, schema).unwrap();
    let store = open(&data);
    assert!(store.naming_contexts().is_empty());
    put(&store, receive(&store, &head, &octets).unwrap());
    assert_eq!(store.naming_contexts().len(), 2);
    drop(store);
    assert_eq!(open(&data).naming_contexts().len(), 2);
}

/// Puts a copy in place until it dies: the part of [`a_member_that_is_killed_has_old_or_new`] that
/// is another process.
#[test]
#[ignore = "another test runs it"]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let (head, octets) = copied(&Path::new(&directory).join("sender"));
    let store = open(&Path::new(&directory).join("data"));
    let received = receive(&store, &head, &octets).unwrap();
    crate::bulk::tests::crash::die_at("copy received");
    put(&store, received);
    crate::bulk::tests::crash::die_at("copy in place");
}

#[test]
fn a_member_that_is_killed_has_old_or_new() {
    let points = [
        ("copy received", false),
        ("copy decided", true),
        ("between the renames", true),
        ("after the renames", true),
        ("copy in place", true),
    ];
    for (point, is_new) in points {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = create(&data);
        write(&store, 2, LogPosition { term: 1, index: 3 });
        store.flush().unwrap();
        drop(store);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "base::transfer::tests::child"])
            .env(crate::bulk::tests::crash::POINT, point)
            .env(DIRECTORY, dir.path())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(KILLED), "{point}: {child:?}");
        // Twice: what was finished stays so.
        for _ in 0..2 {
            let store = open(&data);
            let want = if is_new { (Lsn(5), Some(AT)) } else { (Lsn(2), None) };
            assert_eq!((store.base().lsn, store.copied().unwrap()), want, "{point}");
            assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, [], "{point}");
            let directories = fs::read_dir(data.join(COPY_DIRECTORY)).unwrap();
            let directories = directories.filter(|found| found.as_ref().unwrap().path().is_dir());
            assert_eq!(directories.count(), usize::from(!is_new), "{point}");
        }
    }
}

/// A small file system that shares blocks, unmounted when dropped.
struct Sharing(PathBuf);

impl Sharing {
    /// None where nothing can be mounted.
    #[allow(clippy::print_stderr, reason = "it says what it skips")]
    fn mount(folder: &Path) -> Option<Self> {
        let (image, path) = (folder.join("image"), folder.join("mounted"));
        fs::create_dir(&path).unwrap();
        File::create(&image).unwrap().set_len(SHARING_BYTES).unwrap();
        let image = image.to_str().unwrap();
        let made = run("mkfs.xfs", &["-q", "-m", "reflink=1", image])
            && run("mount", &["-o", "loop", image, path.to_str().unwrap()]);
        if !made {
            eprintln!("skipped: no file system that shares blocks can be mounted: it takes root");
            eprintln!("and xfsprogs, and a kernel that knows xfs");
        }
        made.then_some(Self(path))
    }

    fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// The least that mkfs.xfs makes, and some.
const SHARING_BYTES: u64 = 320 << 20;

#[test]
fn a_copy_shares_its_blocks_where_the_file_system_can() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Sharing::mount(dir.path()) else { return };
    let store = create(&disk.0.join("data"));
    let fill = |letter: &str| {
        let mut batch = store.begin().unwrap();
        for number in 0..32_u8 {
            let name = char::from(b'a' + number % 26).to_string().repeat(usize::from(number) + 1);
            let values = vec![letter.repeat(400_000)];
            batch.change(&Change::Setting(SettingChange { name, values })).unwrap();
        }
        let last = batch.last();
        let (lsn, hash) = (Lsn(last.lsn.0 + 1), last.hash + 7);
        let _ = batch.record(Mark { lsn, hash, position: AT, ..last }).unwrap();
        let mark = batch.seal();
        store.publish(mark.lsn, AT);
        store.set_membership(vec![5; 3]);
        store.flush().unwrap();
    };
    fill("x");
    rustix::fs::syncfs(File::open(&disk.0).unwrap()).unwrap();
    let before = disk.free_bytes();
    let copy = store.copy_base().unwrap();
    rustix::fs::syncfs(File::open(&disk.0).unwrap()).unwrap();
    let taken = before.saturating_sub(disk.free_bytes());
    let bytes = copy.head().bytes;
    assert!(copy.shares_blocks() && bytes > 12 << 20, "{bytes}");
    assert!(taken < 1 << 20, "a copy of {bytes} bytes took {taken}");
    let read = |copy: &BaseCopy| {
        let mut octets = vec![0; usize::try_from(bytes).unwrap()];
        copy.read_at(0, &mut octets).unwrap();
        octets
    };
    let octets = read(&copy);
    assert!(octets == fs::read(disk.0.join("data").join(DATA_FILE)).unwrap(), "not the same");
    // What is written afterwards does not come there.
    fill("y");
    fill("z");
    assert!(octets == read(&copy), "the copy has changed");
    let other = create(&dir.path().join("other"));
    let received = receive(&other, copy.head(), &octets).unwrap();
    assert_eq!(put(&other, received), copy.head().mark);
    assert_eq!(other.check(&mut |_, _, _| ()).unwrap().findings, []);
}

/// The same octets, whether the blocks are shared or the base is read.
#[test]
fn a_copy_that_is_read_is_the_file_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = create(&data);
    write(&store, 5, AT);
    store.flush().unwrap();
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.path().join("copy"))
        .unwrap();
    let environment = store.base_environment();
    let bytes = environment.file_bytes().unwrap();
    paced::copy(&environment, &file, &dir.path().join("copy"), bytes).unwrap();
    let mut octets = Vec::new();
    io::Read::read_to_end(&mut file, &mut octets).unwrap();
    let whole = fs::read(data.join(DATA_FILE)).unwrap();
    // LMDB has two head pages, and makes both of the last commit.
    assert_eq!(octets.len(), whole.len());
    assert!(octets[8192..] == whole[8192..], "not the same");
    // Nothing that can be read comes of one that ends early.
    let full = paced::copy(&environment, &file, &dir.path().join("nowhere/copy"), bytes);
    assert!(full.is_ok(), "past the page cache is a wish");
}
