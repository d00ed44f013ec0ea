//! Files that were cut or written over are refused with a sentence; healthy ones never are.

use std::fs::{self, OpenOptions};

use schema::Schema;

use super::*;
use crate::base::copy::base_summary;
use crate::base::lmdb::{Environment, StoreOptions};
use crate::store::Store;
use crate::testing::create;

fn file_of(data: &Path) -> PathBuf {
    data.join(DATA_FILE)
}

fn cut(data: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(file_of(data)).unwrap();
    file.set_len(bytes).unwrap();
}

fn pages_of(data: &Path) -> (u64, u64) {
    let file = File::open(file_of(data)).unwrap();
    let meta = newest(&file).unwrap();
    (meta.last_page + 1, file.metadata().unwrap().len() / meta.page_bytes)
}

/// All ways to open refuse, with this in the sentence.
#[track_caller]
fn check_refused(data: &Path, want: &str) {
    let options = StoreOptions::default();
    let refused = [
        Store::open(data, &options, Schema::builtin()).map(drop),
        Store::open_read_only(data, &options, Schema::builtin()).map(drop),
        Environment::open_read_only(&file_of(data), &options).map(drop),
        base_summary(&file_of(data)).map(drop),
    ];
    for refused in refused {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(want) && text.contains(DATA_FILE), "{text} lacks {want}");
    }
}

#[track_caller]
fn check_opens(data: &Path) {
    let options = StoreOptions::default();
    drop(Store::open_read_only(data, &options, Schema::builtin()).unwrap());
    let store = Store::open(data, &options, Schema::builtin()).unwrap();
    let mut quiet = |_: &'static str, _: u64, _: u64| ();
    assert!(store.check(&mut quiet).unwrap().findings.is_empty());
}

/// A data directory with some rows that take pages of their own.
fn made() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(create(&data));
    (dir, data)
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    let (_dir, data) = made();
    let whole = fs::read(file_of(&data)).unwrap();
    check_opens(&data);
    let whole_bytes = whole.len() as u64;
    let lengths = (0..whole_bytes).step_by(2048).chain([1, 100, 4097, 8191, whole_bytes - 1]);
    for length in lengths {
        fs::write(file_of(&data), &whole).unwrap();
        cut(&data, length);
        let want = match length {
            0 => "it is empty",
            1..4248 => "it ends before its second page",
            _ => "its end is missing",
        };
        check_refused(&data, want);
    }
    fs::remove_file(file_of(&data)).unwrap();
    check_refused(&data, "it is missing");
    fs::write(file_of(&data), &whole).unwrap();
    check_opens(&data);
}

/// LMDB does not write pages that a commit took and gave up again: the file of a healthy store ends
/// before the last page that its meta page counts.
#[test]
fn a_file_that_ends_in_pages_that_were_never_written_opens() {
    let (_dir, data) = made();
    let options = StoreOptions::default();
    for bytes in [700 << 12, 2000 << 12] {
        let environment = Environment::open(&data, &options).unwrap();
        let table = environment.tables.entries;
        // Pages that are free already: LMDB then takes back what it gave up in the same commit.
        for value in [vec![1; 9 << 12], Vec::new(), Vec::new()] {
            let mut txn = environment.write().unwrap();
            table.put(&mut txn, b"before", &value).unwrap();
            txn.commit().unwrap();
        }
        let mut txn = environment.write().unwrap();
        table.delete(&mut txn, b"before").unwrap();
        let large = vec![7; bytes];
        table.put(&mut txn, b"given up", &large).unwrap();
        table.delete(&mut txn, b"given up").unwrap();
        txn.commit().unwrap();
        environment.close();
        let (claimed, there) = pages_of(&data);
        assert!(claimed >= there + 600, "{claimed} {there}");
        check_opens(&data);
    }
    // Behind the first eight are some that are in use.
    cut(&data, 8 << 12);
    check_refused(&data, "its end is missing");
}

#[test]
fn garbage_in_the_meta_pages_is_refused() {
    let (_dir, data) = made();
    let whole = fs::read(file_of(&data)).unwrap();
    let newer = newest(&File::open(file_of(&data)).unwrap()).unwrap();
    let newer_at = if newer.commit.is_multiple_of(2) { 0 } else { 4096 };
    let (trees, last) = (16 + META_TREES_AT, 16 + META_TREES_AT + 2 * TREE_BYTES);
    for (at, octets, want) in [
        (16, [0; 8], "meta page"),
        (10, [0; 8], "meta page"),
        (20, [9; 8], "meta page"),
        (trees, [0; 8], "meta page"),
        (trees, [1; 8], "meta page"),
        (trees + 40, [0x77; 8], "meta page"),
        (trees + TREE_BYTES + 40, [0x77; 8], "meta page"),
        (trees + TREE_BYTES + 40, 2u64.to_ne_bytes(), ""),
        (last, [0xff; 8], "meta page"),
        (last, [0; 8], "meta page"),
        (last, 40_000u64.to_ne_bytes(), "its end is missing"),
        (last + 8, 4711u64.to_ne_bytes(), ""),
    ] {
        let mut bytes = whole.clone();
        bytes[newer_at + at..][..8].copy_from_slice(&octets);
        fs::write(file_of(&data), &bytes).unwrap();
        let sentence = check(&data).map_err(|error| error.to_string());
        if want.is_empty() {
            // It is found out, or does no harm: no crash.
            let _ = Store::open(&data, &StoreOptions::default(), Schema::builtin());
        } else {
            assert!(sentence.as_ref().is_err_and(|text| text.contains(want)), "{at}: {sentence:?}");
            check_refused(&data, want);
        }
    }
    for page in 0..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0xa5);
        fs::write(file_of(&data), &bytes).unwrap();
        if page < 2 {
            check_refused(&data, "meta page");
        }
    }
}

/// A process that writes changes the file under who looks at it: never a false alarm.
#[test]
fn a_file_that_is_being_written_is_whole() {
    let (_dir, data) = made();
    let environment = Environment::open(&data, &StoreOptions::default()).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..300usize {
                let mut txn = environment.write().unwrap();
                let table = environment.tables.entries;
                table.put(&mut txn, b"given up", &vec![1; (round % 17) << 12]).unwrap();
                for key in 0..20u64 {
                    let row = vec![2; round * 7 % 9000];
                    table.put(&mut txn, &(u64::MAX - key).to_be_bytes(), &row).unwrap();
                }
                table.delete(&mut txn, b"given up").unwrap();
                txn.commit().unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            check(&data).unwrap();
        }
    });
}

/// A check of a file with zeros in it went round in circles.
#[test]
fn a_page_of_zeros_is_found_by_a_check() {
    let (_dir, data) = made();
    let whole = fs::read(file_of(&data)).unwrap();
    let meta = newest(&File::open(file_of(&data)).unwrap()).unwrap();
    let page_bytes = meta.page_bytes as usize;
    let mut refused = 0;
    for page in 2..whole.len() / page_bytes {
        let mut damaged = whole.clone();
        damaged[page * page_bytes..(page + 1) * page_bytes].fill(0);
        fs::write(file_of(&data), &damaged).unwrap();
        let is_in_trees = check_pages(&data).is_err();
        refused += u32::from(is_in_trees);
        let store = Store::open_read_only(&data, &StoreOptions::default(), Schema::builtin());
        let checked = store.and_then(|store| store.check(&mut |_, _, _| ()));
        assert!(!is_in_trees || checked.is_err(), "page {page}");
    }
    assert!(refused >= 2, "{refused}");
}
