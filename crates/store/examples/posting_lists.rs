//! What reading posting lists costs, by their length and by the size of the directory: CPU time of
//! one thread for each call.
//!
//! `cargo run --release -p store --example posting_lists`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for the terminal"
)]

use std::time::Duration;

use store::measure::PostingLists;

/// Each call is repeated for so long.
const REPEATED: Duration = Duration::from_millis(200);
/// So many calls are measured at a time.
const CALLS: u32 = 8;
const ROUNDS_MIN: u32 = 4;

fn main() {
    for entries in [100_000, 2_000_000] {
        measure(entries);
    }
}

/// Ids that are spread without order over a directory, the same each time.
fn spread(count: u64, entries: u64, salt: u64) -> Vec<u64> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut ids = std::collections::BTreeSet::new();
    while (ids.len() as u64) < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ids.insert(1 + state % entries);
    }
    ids.into_iter().collect()
}

/// The CPU time this thread has taken.
fn cpu() -> Duration {
    let taken = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(taken.tv_sec as u64, taken.tv_nsec as u32)
}

fn print(what: &str, best: Duration, calls: u32) {
    println!("  {what}: {:.1} us", best.as_nanos() as f64 / f64::from(calls) / 1000.0);
}

/// The least of several rounds: other work on the machine only adds.
fn report(what: &str, mut call: impl FnMut() -> u64) {
    let found = call();
    let mut best = Duration::MAX;
    let (start, mut rounds) = (cpu(), 0);
    while cpu() - start < REPEATED || rounds < ROUNDS_MIN {
        let started = cpu();
        for _ in 0..CALLS {
            assert_eq!(call(), found);
        }
        best = best.min(cpu() - started);
        rounds += 1;
    }
    print(&format!("{what} ({found})"), best, CALLS);
}

fn measure(entries: u64) {
    println!("{entries} entries");
    let directory = std::env::temp_dir().join(format!("posting-lists-{}", std::process::id()));
    let mut lists = PostingLists::create(&directory).unwrap();
    let all: Vec<u64> = (1..=entries).collect();
    let lengths = [50, 200, 2_000, 22_000, entries / 10, entries / 2];
    let of_lengths: Vec<(String, Vec<u64>)> =
        lengths.iter().map(|&count| (format!("s{count}"), spread(count, entries, count))).collect();
    for (key, ids) in &of_lengths {
        let before = lists.rows().unwrap();
        lists.add([(key.as_bytes(), ids.as_slice())]).unwrap();
        let rows = lists.rows().unwrap() - before;
        let key = key.as_bytes();
        report(&format!("load {} of {rows} rows", ids.len()), || lists.load(key).unwrap());
        report(&format!("walk {}", ids.len()), || lists.walk(key, 1000).unwrap());
    }
    lists.add([(&b"all"[..], all.as_slice())]).unwrap();
    report("load every id", || lists.load(b"all").unwrap());
    let few = spread(2_000, entries, 77);
    let (some, handful) = (few.iter().step_by(20).copied().collect::<Vec<u64>>(), &few[1000..1008]);
    for (key, ids) in &of_lengths {
        let (key, count) = (key.as_bytes(), ids.len());
        report(&format!("8 and {count}"), || lists.intersect(handful, key).unwrap());
        report(&format!("100 and {count}"), || lists.intersect(&some, key).unwrap());
        report(&format!("2,000 and {count}"), || lists.intersect(&few, key).unwrap());
    }
    report("2,000 and all", || lists.intersect(&few, b"all").unwrap());
    report("2,000 not 22,000", || lists.subtract(&few, b"s22000").unwrap());
    // A range of 1,000 lists, most of them of one id, and one long list in it.
    let keys: Vec<(Vec<u8>, Vec<u64>)> =
        (0..1000_u64).map(|at| (format!("u{at:04}").into_bytes(), vec![1 + at * 7])).collect();
    lists.add(keys.iter().map(|(key, ids)| (key.as_slice(), ids.as_slice()))).unwrap();
    let popular = spread(entries / 10, entries, 5);
    lists.add([(&b"u0500x"[..], popular.as_slice())]).unwrap();
    report("range of 1,001 lists", || lists.range(b"u", b"v").unwrap());
    report("range of 1,001 lists, counted", || lists.range_count(b"u", b"v").unwrap());
    report("range of 500 lists", || lists.range(b"u", b"u0500").unwrap());
    report("range of 500 lists, counted", || lists.range_count(b"u", b"u0500").unwrap());
    adds(&mut lists, entries);
    drop(lists);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// New entries come to the ends of 300 lists of every length.
fn adds(lists: &mut PostingLists, entries: u64) {
    let keys: Vec<(String, u64)> =
        (0..300_u64).map(|at| (format!("w{at:03}"), 1 << (5 + at % 12))).collect();
    let filled: Vec<Vec<u64>> = (0..)
        .zip(&keys)
        .map(|(salt, (_, count))| spread((*count).min(entries / 2), entries, 1000 + salt))
        .collect();
    let both = keys.iter().zip(&filled);
    lists.add(both.map(|((key, _), ids)| (key.as_bytes(), ids.as_slice()))).unwrap();
    let mut next = entries;
    let mut best = Duration::MAX;
    for _ in 0..40 {
        next += 1;
        let ids = [next];
        let started = cpu();
        lists.add(keys.iter().map(|(key, _)| (key.as_bytes(), &ids[..]))).unwrap();
        best = best.min(cpu() - started);
    }
    print("one id more in each of 300 lists", best, 1);
}
