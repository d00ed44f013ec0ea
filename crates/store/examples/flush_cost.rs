//! What writing costs with the flusher and the merger at work: CPU time for each operation, by
//! thread (Linux), and how long a reader takes beside it.
//!
//! `cargo run --release -p store --example flush_cost -- 100000 60000 50`: so many people in the
//! base, so many operations, so many in a batch.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for the terminal"
)]

#[path = "people/mod.rs"]
mod people;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, EntryId, ModifyChange, RdnKey, Schema,
};
use store::{FlushOptions, IndexConfig, LogPosition, Resolved, Store, StoreOptions};

use people::{Instant, load, person};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (base, count, batch) = (number(100_000), number(60_000), number(50) as usize);
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = directory.join(format!("flush-cost-{}", std::process::id()));
    let schema = Schema::builtin();
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let (options, indexes) = (StoreOptions::default(), IndexConfig::default());
    let store =
        Store::create(&directory, &options, Arc::clone(&schema), indexes, &contexts).unwrap();
    let store = Arc::new(store);
    load(&store, base);
    let parent = find(&store, "ou=People,dc=example,dc=com");
    let first = store.begin().unwrap().next_entry_id().0;
    run(&store, "add", base, count, batch, |id, number| {
        let entry = person(base + number, &schema);
        let key = RdnKey::from_rdn(&schema, &entry.name().rdns()[0]).unwrap();
        Change::Add(AddChange { id, parent, key, entry })
    });
    let description = schema.describe("description").unwrap();
    run(&store, "modify", base, count * 4, batch, |_, number| {
        let id = EntryId(3 + number.wrapping_mul(2_654_435_761) % (base - 3));
        let added = vec![format!("changed {number}").into_bytes()];
        let removed = Vec::new();
        let delta = AttributeDelta { description: Arc::clone(&description), removed, added };
        Change::Modify(ModifyChange { id, dn: Dn::root(), deltas: vec![delta] })
    });
    run(&store, "delete", base, count, batch, |_, number| {
        let id = EntryId(first + number);
        Change::Delete(DeleteChange { id, dn: Dn::root(), attributes: Vec::new() })
    });
    println!("file {} MB", store.statistics().unwrap().file_bytes >> 20);
    drop(store);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn find(store: &Arc<Store>, dn: &str) -> EntryId {
    let key = DnKey::from_text(&Schema::builtin(), dn).unwrap();
    match store.reader().view().unwrap().resolve(&key).unwrap() {
        Resolved::Found(id) => id,
        other => panic!("{other:?}"),
    }
}

/// The CPU time of each thread, by name.
fn threads() -> BTreeMap<String, Duration> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let time = read("schedstat").split(' ').next().and_then(|text| text.parse().ok());
        let name = read("comm").trim().to_owned();
        threads.insert(name, Duration::from_nanos(time.unwrap_or_default()));
    }
    threads
}

fn run(
    store: &Arc<Store>,
    what: &str,
    base: u64,
    count: u64,
    batch_size: usize,
    change: impl Fn(EntryId, u64) -> Change,
) {
    let flusher = store.start_flusher(FlushOptions::default(), Box::new(|_| {})).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, is_over) = (Arc::clone(store), Arc::clone(&is_over));
        std::thread::spawn(move || read(&store, base, &is_over))
    };
    let mut spent = Duration::ZERO;
    let (mut bytes, mut layers, mut done) = (0, 0, 0);
    while done < count {
        assert!(store.wait_for_room(Duration::from_secs(60)));
        let mut batch = store.begin().unwrap();
        for _ in 0..batch_size.min((count - done) as usize) {
            let change = change(batch.next_entry_id(), done);
            let start = Instant::now();
            batch.apply(&change).unwrap();
            spent += start.elapsed();
            done += 1;
        }
        let start = Instant::now();
        let mark = batch.seal();
        store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
        spent += start.elapsed();
        let overlay = store.overlay();
        bytes = bytes.max(overlay.bytes);
        layers = layers.max(overlay.layers);
    }
    is_over.store(true, Ordering::Release);
    println!("{what}: {}", reader.join().unwrap());
    let flushes = store.overlay().flushes;
    let start = Instant::now();
    let threads = threads();
    flusher.stop();
    store.flush().unwrap();
    let last = start.elapsed();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    let time = |name: &str| each(threads.get(name).copied().unwrap_or_default());
    let overlay = store.overlay();
    println!(
        "{what}: {:.1} µs, merger {:.1} µs, flusher {:.1} µs (and {:.1} µs for the last flush); \
         at most {} MB in {layers} layers, {flushes} flushes, the last took {} ms",
        each(spent),
        time("merger"),
        time("flusher"),
        each(last),
        bytes >> 20,
        overlay.last_flush_ms,
    );
}

/// Reads the entry of a name every now and then; says how long it took.
#[allow(clippy::disallowed_methods, reason = "real time is what is measured")]
fn read(store: &Arc<Store>, base: u64, is_over: &AtomicBool) -> String {
    let schema = Schema::builtin();
    let mut reader = store.reader();
    let mut times = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let number = (times.len() as u64).wrapping_mul(2_654_435_761) % base;
        let key = format!("uid=user.{number},ou=People,dc=example,dc=com");
        let key = DnKey::from_text(&schema, &key).unwrap();
        let start = std::time::Instant::now();
        let view = reader.view().unwrap();
        let Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!("is missing") };
        assert!(view.entry(id).unwrap().is_some());
        times.push(start.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (half, most, nearly) = (at(0.5), at(0.99), at(0.999));
    let count = times.len();
    format!("{count} reads: p50 {half:?}, p99 {most:?}, p99.9 {nearly:?}, max {:?}", at(1.0))
}
