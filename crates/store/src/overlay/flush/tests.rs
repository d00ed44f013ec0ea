//! The overlay with its threads at work: every view shows one point in time, failures lose nothing,
//! and neither memory nor the file grows without bound.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use schema::{Change, EntryId, Schema};

use super::*;
use crate::base::lmdb::{StoreOptions, TABLE_NAMES};
use crate::base::position::{LogPosition, Lsn};
use crate::conformance::{Chance, History, agree, contexts, indexes};
use crate::index::posting::{Chunk, Head, Width};
use crate::overlay::deltas::chunk_number;

/// The directories of environments whose flushes are to fail.
static FAILING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

pub(crate) fn fail_if_asked(environment: &Environment) -> Result<(), StoreError> {
    let is_asked = FAILING.lock().unwrap().contains(environment.path());
    if is_asked { Err(StoreError::Full) } else { Ok(()) }
}

pub(crate) fn set_failing(store: &Store, is_failing: bool) {
    let path = store.base_environment().path().to_owned();
    let mut failing = FAILING.lock().unwrap();
    if is_failing {
        failing.insert(path);
    } else {
        failing.remove(&path);
    }
}

fn create() -> (tempfile::TempDir, Arc<Store>) {
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::builtin();
    let store = Store::create(directory.path(), &options(), schema, indexes(), contexts()).unwrap();
    (directory, Arc::new(store))
}

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 30, ..StoreOptions::default() }
}

/// Flushes all the time, and holds little.
fn eager() -> FlushOptions {
    FlushOptions {
        overlay_max_bytes: 400 << 10,
        flush_bytes: 60 << 10,
        flush_after: Duration::from_millis(5),
        retry_after: Duration::from_millis(1),
        index_build_percent: 100,
    }
}

fn seal(store: &Store, changes: &[Change]) -> Lsn {
    let mut batch = store.begin().unwrap();
    changes.iter().for_each(|change| batch.apply(change).unwrap());
    batch.seal().lsn
}

fn publish(store: &Store, upto: Lsn) {
    store.publish(upto, LogPosition { term: 1, index: upto.0 });
}

fn history(seed: u64, count: usize) -> History {
    let (mut history, mut chance) = (History::default(), Chance::new(seed));
    while history.changes().len() < count {
        let adds = history.changes().iter().filter(|change| matches!(change, Change::Add(_)));
        let next = EntryId(1 + adds.count() as u64);
        history.batch(next, 1, &mut chance);
    }
    history
}

/// Reads until `is_over`: what is seen is always a state of the history, and never an earlier one
/// than was seen, or than was published before the view was taken.
fn read(
    store: &Arc<Store>,
    history: &History,
    seed: u64,
    published: &AtomicU64,
    is_over: &AtomicBool,
) -> u64 {
    let (mut reader, mut chance) = (store.reader(), Chance::new(seed));
    let (mut last, mut looks) = (Lsn(0), 0);
    loop {
        let was_over = is_over.load(Ordering::Acquire);
        let least = Lsn(published.load(Ordering::Acquire));
        let view = reader.view().unwrap();
        let lsn = view.lsn();
        assert!(lsn >= last && lsn >= least, "{lsn:?} after {last:?}, published {least:?}");
        last = lsn;
        agree(view, history.at(lsn));
        if chance.below(3) == 0 {
            // It stays what it is while others go on.
            thread::yield_now();
            agree(view, history.at(lsn));
        }
        if chance.below(4) == 0 {
            reader.release();
        }
        looks += 1;
        if was_over {
            return looks;
        }
    }
}

fn write(store: &Store, history: &History, seed: u64, published: &AtomicU64) {
    let mut chance = Chance::new(seed);
    let changes = history.changes();
    let mut done = 0;
    while done < changes.len() {
        assert!(store.wait_for_room(Duration::from_secs(60)));
        if chance.below(20) == 0 {
            set_failing(store, chance.below(2) == 0);
        }
        let mut sealed = done;
        let mut upto = Lsn(done as u64);
        for _ in 0..=chance.below(3) {
            let end = (sealed + 1 + chance.below(4)).min(changes.len());
            upto = seal(store, &changes[sealed..end]);
            sealed = end;
        }
        if chance.below(6) == 0 {
            // The log did not take it; the same is decided again.
            store.drop_tentative();
            continue;
        }
        publish(store, upto);
        assert_eq!(upto.0 as usize, sealed);
        published.store(upto.0, Ordering::Release);
        done = sealed;
    }
    set_failing(store, false);
}

#[test]
fn views_are_points_in_time_whatever_the_flusher_does() {
    for seed in 0..2 {
        let history = history(seed, 300);
        let (directory, store) = create();
        let (published, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let flushed = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&flushed);
        let on_flush = Box::new(move |mark: Result<&Mark, &StoreError>| {
            // It is told of those that are to fail where these are slow to end.
            let Ok(mark) = mark else { return };
            let before = heard.swap(mark.lsn.0, Ordering::AcqRel);
            assert!(before <= mark.lsn.0, "flushes go forward");
        });
        let flusher = store.start_flusher(eager(), on_flush).unwrap();
        let looks: u64 = thread::scope(|scope| {
            let readers = [1, 2].map(|reader| {
                let (store, history, published, is_over) = (&store, &history, &published, &is_over);
                scope.spawn(move || read(store, history, seed + reader, published, is_over))
            });
            write(&store, &history, seed, &published);
            is_over.store(true, Ordering::Release);
            readers.map(|reader| reader.join().unwrap()).iter().sum()
        });
        assert!(looks >= 4, "{looks} looks");
        flusher.stop();
        let mark = store.flush().unwrap();
        assert_eq!(mark, Mark { position: LogPosition { term: 1, index: 300 }, ..mark });
        assert_eq!((mark.lsn, store.base()), (Lsn(300), mark));
        let overlay = store.overlay();
        assert_eq!((overlay.bytes, overlay.layers, overlay.retired_bytes), (0, 0, 0));
        assert!(flushed.load(Ordering::Acquire) <= 300);
        assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
        drop(store);
        let store = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
        assert_eq!(store.base(), mark);
        agree(Arc::new(store).reader().view().unwrap(), history.at(Lsn(300)));
    }
}

/// Whoever keeps pages that later commits gave up is told of, and what flushes cost.
#[test]
fn a_reader_of_old_pages_is_told_of() {
    let history = history(7, 40);
    let (_directory, store) = create();
    publish(&store, seal(&store, &history.changes()[..20]));
    assert!(store.overlay().oldest_change > Duration::ZERO);
    store.flush().unwrap();
    let mut reader = store.reader();
    reader.view().unwrap();
    let oldest = || store.base_status().unwrap().oldest_reader;
    assert_eq!(oldest(), Duration::ZERO, "it holds the last commit");
    publish(&store, seal(&store, &history.changes()[20..40]));
    store.flush().unwrap();
    assert!(oldest() > Duration::ZERO);
    reader.release();
    assert_eq!(oldest(), Duration::ZERO);
    let (status, overlay) = (store.base_status().unwrap(), store.overlay());
    assert!(status.table_bytes <= status.used_bytes && status.used_bytes <= status.map_bytes);
    assert!(status.readers >= 1 && status.readers <= status.readers_max);
    assert_eq!((overlay.flushes, overlay.oldest_change), (2, Duration::ZERO));
    assert!(overlay.flushing > Duration::ZERO);
}

/// A reader that comes between the commit and the new version finds a base that has the changes of
/// the layers already; one that comes just before finds one that lacks them.
#[test]
fn layers_over_a_base_that_has_them_say_the_same() {
    let history = history(7, 120);
    let (directory, store) = create();
    let mut reader = store.reader();
    publish(&store, seal(&store, &history.changes()[..40]));
    store.flush().unwrap();
    publish(&store, seal(&store, &history.changes()[40..60]));
    publish(&store, seal(&store, &history.changes()[60..80]));
    let old = store.snapshot(Default::default()).unwrap();
    agree(reader.view().unwrap(), history.at(Lsn(80)));
    // The commit, and not yet the version.
    write_layers(&store.base_environment(), &store.versions.load().layers, None).unwrap();
    agree(&old, history.at(Lsn(80)));
    agree(&store.snapshot(Default::default()).unwrap(), history.at(Lsn(80)));
    agree(reader.view().unwrap(), history.at(Lsn(80)));
    agree(&store.begin().unwrap().view(), history.at(Lsn(80)));
    // More comes on top; a reader with the old base and one with the new one see it.
    publish(&store, seal(&store, &history.changes()[80..100]));
    agree(reader.view().unwrap(), history.at(Lsn(100)));
    agree(&store.snapshot(Default::default()).unwrap(), history.at(Lsn(100)));
    // A flush that is told to write what is there already changes nothing.
    store.flush().unwrap();
    agree(reader.view().unwrap(), history.at(Lsn(100)));
    agree(&old, history.at(Lsn(80)));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
    seal(&store, &history.changes()[100..]);
    drop((old, reader, store));
    let store = Arc::new(Store::open(directory.path(), &options(), Schema::builtin()).unwrap());
    agree(store.reader().view().unwrap(), history.at(Lsn(100)));
}

/// All rows, of posting lists the ids.
fn logical(store: &Store) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let environment = store.base_environment();
    let txn = environment.read().unwrap();
    let mut rows = Vec::new();
    for (name, table) in TABLE_NAMES.into_iter().zip(environment.tables.all()) {
        let mut head: Option<(Vec<u8>, Width, Vec<u64>)> = None;
        let octets = |ids: &[u64]| ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        for row in table.iter(&txn).unwrap() {
            let (key, value) = row.unwrap();
            if key == b"digest-key" {
                // By chance.
                continue;
            }
            if name != "postings" {
                rows.push((name, key.to_vec(), value.to_vec()));
                continue;
            }
            if let Some((head, width, ids)) = &mut head
                && let Some(number) = chunk_number(head, key)
            {
                let chunk = Chunk::read(value).unwrap();
                chunk.for_each(|place| ids.push(width.id_at(number, place)));
                continue;
            }
            if let Some((head, _, ids)) = head.take() {
                rows.push((name, head, octets(&ids)));
            }
            let (width, ids) = match Head::read(value).unwrap() {
                Head::Inline(ids) => (Width::NARROWEST, ids.collect()),
                Head::Chunked(_, width) => (width, Vec::new()),
            };
            head = Some((key.to_vec(), width, ids));
        }
        rows.extend(head.map(|(head, _, ids)| (name, head, octets(&ids))));
    }
    rows
}

#[test]
fn the_same_changes_make_the_same_rows_however_they_are_batched_and_flushed() {
    let history = history(11, 400);
    let changes = history.changes();
    let all_at_once = {
        let (_directory, store) = create();
        publish(&store, seal(&store, changes));
        store.flush().unwrap();
        logical(&store)
    };
    assert!(all_at_once.len() > 100);
    for seed in 0..6 {
        let (_directory, store) = create();
        let mut chance = Chance::new(seed);
        let mut done = 0;
        while done < changes.len() {
            let end = (done + 1 + chance.below(40)).min(changes.len());
            publish(&store, seal(&store, &changes[done..end]));
            done = end;
            match chance.below(5) {
                0 => drop(store.flush().unwrap()),
                1 => {
                    let layers = store.versions.load().layers.clone();
                    let merged = merge(&layers, &mut || ()).unwrap();
                    assert!(store.versions.replace_layers(&layers, Arc::new(merged)));
                }
                2 => {
                    set_failing(&store, true);
                    assert!(store.flush().is_err() || store.overlay().layers == 0);
                    set_failing(&store, false);
                }
                _ => {}
            }
        }
        store.flush().unwrap();
        let rows = logical(&store);
        for (one, other) in rows.iter().zip(&all_at_once) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(rows.len(), all_at_once.len());
    }
}

#[test]
fn a_failed_flush_keeps_everything_is_told_and_tried_again() {
    let history = history(3, 60);
    let (_directory, store) = create();
    set_failing(&store, true);
    let (sender, flushes) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let (failed, failures) = std::sync::mpsc::channel();
    let failed = Mutex::new(failed);
    let on_flush = Box::new(move |flushed: Result<&Mark, &StoreError>| match flushed {
        Ok(mark) => sender.lock().unwrap().send(mark.lsn).unwrap(),
        Err(error) => failed.lock().unwrap().send(error.to_string()).unwrap(),
    });
    let flusher = store.start_flusher(eager(), on_flush).unwrap();
    publish(&store, seal(&store, history.changes()));
    while store.overlay().failures < 3 {
        thread::yield_now();
    }
    let overlay = store.overlay();
    assert_eq!(overlay.last_error, Some(StoreError::Full.to_string()));
    assert_eq!((overlay.flushes, overlay.layers), (0, 1));
    assert_eq!(store.base().lsn, Lsn(0));
    agree(store.reader().view().unwrap(), history.at(Lsn(60)));
    assert!(flushes.try_recv().is_err());
    assert_eq!(failures.recv().unwrap(), StoreError::Full.to_string());
    set_failing(&store, false);
    assert_eq!(flushes.recv().unwrap(), Lsn(60));
    let overlay = store.overlay();
    assert_eq!((overlay.flushes, overlay.layers, overlay.last_error), (1, 0, None));
    assert_eq!(store.base().lsn, Lsn(60));
    flusher.stop();
    agree(store.reader().view().unwrap(), history.at(Lsn(60)));
}

/// Changes of one entry that take about so many octets of the overlay.
fn large(lsn: u64, bytes: usize) -> Change {
    let schema = Schema::builtin();
    let description = schema.describe("description").unwrap();
    let value = |lsn: u64| {
        let mut value = lsn.to_string().into_bytes();
        value.resize(bytes, b'x');
        value
    };
    let removed = if lsn > 2 { vec![value(lsn - 1)] } else { Vec::new() };
    let deltas = vec![schema::AttributeDelta { description, removed, added: vec![value(lsn)] }];
    Change::Modify(schema::ModifyChange { id: EntryId(1), dn: contexts()[0].clone(), deltas })
}

fn with_one_entry() -> (tempfile::TempDir, Arc<Store>) {
    let (directory, store) = create();
    let schema = Schema::builtin();
    let dn = contexts()[0].clone();
    let key = schema::DnKey::from_dn(&schema, &dn).unwrap();
    let entry = schema::Entry::from_pairs(dn, [("objectClass", &b"top"[..])], &schema).unwrap();
    let key = schema::RdnKey::of_naming_context(&key);
    let add = schema::AddChange { id: EntryId(1), parent: EntryId::ROOT, key, entry };
    let mut batch = store.begin().unwrap();
    batch.apply(&Change::Add(add)).unwrap();
    batch.commit().unwrap();
    (directory, store)
}

#[test]
fn who_writes_waits_while_the_overlay_is_full_and_the_bound_holds() {
    const BATCH: usize = 20 << 10;
    let (_directory, store) = with_one_entry();
    set_failing(&store, true);
    // Without the merger, which would make one row of all these.
    let options = FlushOptions { retry_after: Duration::from_millis(1), ..eager() };
    let (tell, flushed) = std::sync::mpsc::channel();
    let on_flush = Box::new(move |flushed: Result<&Mark, &StoreError>| {
        if flushed.is_ok() {
            tell.send(()).unwrap_or_default();
        }
    });
    let flusher = store.start_flusher(options.clone(), on_flush).unwrap();
    let mut lsn = 1;
    while store.wait_for_room(Duration::from_millis(20)) {
        lsn += 1;
        // Each time another entry, so that no merging makes it smaller.
        publish(&store, seal(&store, &[other_entry(lsn, BATCH)]));
        assert!(lsn < 1000, "the bound does not hold");
    }
    let overlay = store.overlay();
    assert!(overlay.bytes >= options.overlay_max_bytes);
    assert!(overlay.bytes <= options.overlay_max_bytes + 2 * BATCH as u64, "{overlay:?}");
    // It is full still, and nobody is let through.
    assert!(!store.wait_for_room(Duration::from_millis(5)));
    set_failing(&store, false);
    // While the last flush failed for want of room, nobody is kept waiting for the next.
    flushed.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(store.wait_for_room(Duration::from_secs(60)));
    flusher.stop();
    assert_eq!(store.flush().unwrap().lsn, Lsn(lsn));
    assert!(store.wait_for_room(Duration::ZERO), "without a flusher there is no bound");
}

fn other_entry(lsn: u64, bytes: usize) -> Change {
    let schema = Schema::builtin();
    let dn = ldap::dn::Dn::parse(&format!("cn=n{lsn},{}", contexts()[0])).unwrap();
    let key = schema::DnKey::from_dn(&schema, &dn).unwrap().leaf().unwrap();
    let value = "d".repeat(bytes);
    let pairs = [("objectClass", &b"top"[..]), ("description", value.as_bytes())];
    let entry = schema::Entry::from_pairs(dn, pairs, &schema).unwrap();
    Change::Add(schema::AddChange { id: EntryId(lsn), parent: EntryId(1), key, entry })
}

/// Writes and flushes so many times; returns the size of the file.
fn write_many(store: &Store, lsn: &mut u64, times: u64) -> u64 {
    for _ in 0..times {
        *lsn += 1;
        publish(store, seal(store, &[large(*lsn, 100 << 10)]));
        store.flush().unwrap();
    }
    store.statistics().unwrap().file_bytes
}

#[test]
fn the_file_does_not_grow_while_idle_readers_have_given_up_their_views() {
    let (_directory, store) = with_one_entry();
    let mut lsn = 1;
    let mut reader = store.reader();
    assert_eq!(reader.view().unwrap().lsn(), Lsn(1));
    reader.release();
    let settled = write_many(&store, &mut lsn, 10);
    let later = write_many(&store, &mut lsn, 60);
    assert!(later <= settled + (1 << 20), "{settled} bytes grew to {later}");
    // A view that is held keeps every page from reuse that it can see; that is what is released.
    assert_eq!(reader.view().unwrap().lsn(), Lsn(lsn));
    let held = write_many(&store, &mut lsn, 60);
    assert!(held > later + (4 << 20), "{later} bytes grew to {held}");
    reader.release();
    let after = write_many(&store, &mut lsn, 60);
    assert!(after <= held + (1 << 20), "{held} bytes grew to {after}");
    assert_eq!(reader.view().unwrap().lsn(), Lsn(lsn));
}

#[test]
fn membership_is_durable_with_the_next_flush() {
    let (directory, store) = with_one_entry();
    assert_eq!(store.membership().unwrap(), b"");
    store.set_membership(b"one".to_vec());
    assert_eq!(store.membership().unwrap(), b"one");
    store.flush().unwrap();
    store.set_membership(b"two".to_vec());
    set_failing(&store, true);
    assert!(store.flush().is_err());
    set_failing(&store, false);
    assert_eq!(store.membership().unwrap(), b"two");
    drop(store);
    let store = Arc::new(Store::open(directory.path(), &options(), Schema::builtin()).unwrap());
    assert_eq!(store.membership().unwrap(), b"one");
    store.set_membership(b"two".to_vec());
    publish(&store, seal(&store, &[large(2, 10)]));
    store.flush().unwrap();
    drop(store);
    let store = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
    assert_eq!(store.membership().unwrap(), b"two");
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}
