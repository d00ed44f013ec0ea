//! A load that is killed, wherever it is, leaves what was there; when it was done, what it made.

use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, getpid, kill_process};

use super::*;
use crate::testing::create;

/// Where the child is to die; see [`child`].
pub(crate) const POINT: &str = "ROSTER_TEST_LOAD_DIES_AT";
const DIRECTORY: &str = "ROSTER_TEST_LOAD_IN";

const KILLED: i32 = 9;

/// Dies like a process that is killed, if this is the point where it is to.
pub(crate) fn die_at(point: &str) {
    if std::env::var(POINT).is_ok_and(|asked| asked == point) {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
}

/// Loads into a store until it dies: the part of [`a_load_that_is_killed_leaves_old_or_new`] that
/// is another process.
#[test]
#[ignore = "another test runs it"]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(Path::new(&directory));
    let options =
        LoadOptions { held: Held::Replace, memory_bytes: 0, threads: 2, ..LoadOptions::default() };
    let mut loader = store.bulk_load(&options).unwrap();
    die_at("begin");
    for (number, entry) in tree(400).iter().enumerate() {
        loader.load(entry, 1).unwrap();
        if number == 300 {
            die_at("add");
        }
    }
    let mut told = Vec::new();
    let finished = loader.finish(
        &mut |phase, done, _| {
            let point = format!("{} {}", phase.name(), done.min(1));
            if !told.contains(&point) {
                die_at(&point);
                told.push(point);
            }
            ControlFlow::Continue(())
        },
        &mut |_| ControlFlow::Break(()),
    );
    finished.unwrap();
    die_at("end");
}

fn open(directory: &Path) -> Store {
    Store::open(directory, &StoreOptions::default(), Schema::builtin()).unwrap()
}

#[test]
fn a_load_that_is_killed_leaves_old_or_new() {
    let points = [
        ("begin", false),
        ("add", false),
        ("names 1", false),
        ("indexes 1", false),
        ("sync 0", false),
        ("sync 1", false),
        ("verify 0", false),
        ("verify 1", false),
        ("between the renames", false),
        ("after the renames", true),
        ("end", true),
    ];
    for (point, is_new) in points {
        let directory = tempfile::tempdir().unwrap();
        let old = [tree(0)[0].clone(), tree(0)[1].clone()];
        add_each(&create(directory.path()), &old);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "bulk::tests::crash::child"])
            .env(POINT, point)
            .env(DIRECTORY, directory.path())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(KILLED), "{point}: {child:?}");
        let import = directory.path().join("import");
        assert_eq!(import.exists(), point != "end", "{point}");
        let store = open(directory.path());
        assert!(!import.exists(), "{point}");
        let want = if is_new { tree(400).len() } else { old.len() };
        assert_eq!(store.statistics().unwrap().entries, want as u64, "{point}");
        assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, [], "{point}");
        add_each(&store, &[entry("ou=New,dc=example,dc=com\nobjectClass: organizationalUnit")]);
    }
}

/// Has the store open until its standard input ends: the part of
/// [`data_are_not_read_with_the_lock_of_others`] that is another process.
#[test]
#[ignore = "another test runs it"]
fn holder() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let _store = open(Path::new(&directory));
    std::fs::write(Path::new(&directory).join("held"), "").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn data_are_not_read_with_the_lock_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
    let [old_store, new_store] = [&old, &new].map(|path| create(path));
    for number in 0..3 {
        let name = ["dc=example,dc=com", "ou=A,dc=example,dc=com", "ou=B,dc=example,dc=com"];
        let class = ["domain", "organizationalUnit", "organizationalUnit"][number];
        add_each(&new_store, &[entry(&format!("{}\nobjectClass: {class}", name[number]))]);
        new_store.flush().unwrap();
    }
    drop((old_store, new_store));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "bulk::tests::crash::holder"])
        .env(DIRECTORY, &new)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !new.join("held").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the other process has ended");
        std::thread::yield_now();
    }
    // As in the middle of a swap.
    std::fs::rename(new.join("lock.mdb"), old.join("lock.mdb")).unwrap();
    let read = || Store::open_read_only(&old, &StoreOptions::default(), Schema::builtin());
    let error = read().unwrap_err().to_string();
    assert!(error.contains("are not of one base"), "{error}");
    // When the other is gone, LMDB begins the lock anew.
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(read().unwrap().statistics().unwrap().entries, 0);
}
