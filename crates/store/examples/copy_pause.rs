//! How long writes pause, and how much the data file grows, while a copy of it is made for another
//! member of a cluster.
//!
//! `cargo run --release -p store --example copy_pause -- 1000000 200 DIRECTORY`: so many people, so
//! many batches a second. For ten seconds before it, and while the copy is made, batches of ten
//! modifications are published with the flusher at work, each with a sync of a file of its own as
//! the journal does; then the copy is put in the place of another base. With a fourth word the copy
//! is made and not received, which takes a third less of the disk.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for the terminal"
)]
#![allow(clippy::disallowed_methods, reason = "it measures the time that passes")]

#[path = "people/mod.rs"]
mod people;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ldap::dn::Dn;
use schema::{AttributeDelta, Change, EntryId, ModifyChange, Schema};
use store::{FlushOptions, IndexConfig, LogPosition, Store, StoreError, StoreOptions};

use people::load;

const BATCH: u64 = 10;
const BEFORE: Duration = Duration::from_secs(10);
/// A piece of a copy, as a member sends it.
const PIECE_BYTES: u64 = 1 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (base, rate) = (number(1_000_000), number(200));
    let every = Duration::from_secs(1) / u32::try_from(rate).unwrap();
    let place = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = place.join(format!("copy-pause-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let store = make(&directory.join("leader"));
    load(&store, base);
    let size = |store: &Store| store.statistics().unwrap().file_bytes >> 20;
    println!("{base} people, {} MiB", size(&store));
    let flusher = store.start_flusher(FlushOptions::default(), Box::new(|_| {})).unwrap();
    let mut log = std::fs::File::create(directory.join("log")).unwrap();
    let mut number = 0;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = Writer { store: &store, base, every };
    let (before, rate) = writer.write(&mut log, &mut number, &|begin| begin.elapsed() > BEFORE);
    println!("without a copy: the longest pause {before:.1?}, {rate:.0} batches a second");
    let (grown, made) = (size(&store), {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let begin = Instant::now();
            let copy = store.copy_base().unwrap();
            is_over.store(true, Ordering::Release);
            (copy, begin.elapsed())
        })
    });
    let is_made = |_| is_over.load(Ordering::Acquire);
    let (during, rate) = writer.write(&mut log, &mut number, &is_made);
    let (copy, took) = made.join().unwrap();
    println!(
        "the copy of {} MiB took {took:.1?}: the longest pause {during:.1?}, {rate:.0} batches a \
         second, and the file grew by {} MiB",
        copy.head().bytes >> 20,
        size(&store) - grown
    );
    flusher.stop();
    if arguments.next().is_none() {
        receive(&directory, &copy);
    }
    drop((copy, store));
    std::fs::remove_dir_all(&directory).unwrap();
}

fn make(data: &std::path::Path) -> Arc<Store> {
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let (options, schema) = (StoreOptions::default(), Schema::builtin());
    Arc::new(Store::create(data, &options, schema, IndexConfig::default(), &contexts).unwrap())
}

struct Writer<'s> {
    store: &'s Store,
    base: u64,
    /// From one batch to the next, if it does not take longer.
    every: Duration,
}

impl Writer<'_> {
    /// Publishes batches until `is_over`; the longest that one took, and how many a second.
    fn write(
        &self,
        log: &mut std::fs::File,
        number: &mut u64,
        is_over: &dyn Fn(Instant) -> bool,
    ) -> (Duration, f64) {
        let description = Schema::builtin().describe("description").unwrap();
        let (begin, mut longest, mut batches) = (Instant::now(), Duration::ZERO, 0);
        let mut due = begin;
        while !is_over(begin) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let began = Instant::now();
            due = began + self.every;
            assert!(self.store.wait_for_room(Duration::from_secs(60)));
            let mut batch = self.store.begin().unwrap();
            for _ in 0..BATCH {
                *number += 1;
                let id = EntryId(3 + number.wrapping_mul(2_654_435_761) % (self.base - 3));
                let added = vec![format!("changed {number}").into_bytes()];
                let description = Arc::clone(&description);
                let delta = AttributeDelta { description, removed: Vec::new(), added };
                let change = ModifyChange { id, dn: Dn::root(), deltas: vec![delta] };
                batch.apply(&Change::Modify(change)).unwrap();
            }
            let mark = batch.seal();
            log.write_all(&[7; 4096]).unwrap();
            log.sync_data().unwrap();
            self.store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
            longest = longest.max(began.elapsed());
            batches += 1;
        }
        (longest, f64::from(batches) / begin.elapsed().as_secs_f64())
    }
}

/// What a member does with a copy.
fn receive(directory: &std::path::Path, copy: &store::BaseCopy) {
    let other = make(&directory.join("member"));
    let begin = Instant::now();
    let mut intake = other.receive_base(copy.head()).unwrap();
    let mut octets = vec![0; PIECE_BYTES as usize];
    while intake.written() < copy.head().bytes {
        let length = PIECE_BYTES.min(copy.head().bytes - intake.written()) as usize;
        copy.read_at(intake.written(), &mut octets[..length]).unwrap();
        intake.write(&octets[..length]).unwrap();
    }
    let written = begin.elapsed();
    let received = other.open_received(intake, Schema::builtin()).unwrap();
    let opened = begin.elapsed() - written;
    let begin = Instant::now();
    let swapped: Result<_, StoreError> = other.put_in_place(received, |_, _| Ok(()));
    swapped.unwrap();
    let swap = begin.elapsed();
    println!(
        "a member wrote it in {written:.1?}, synced and opened it in {opened:.1?}, and went over \
         in {swap:.1?}"
    );
}
