//! What an append costs on this machine's disk. Ignored: a figure is nothing to pass or fail.
//!
//! `cargo test --release -p journal --test throughput -- --ignored --nocapture`; the disk is
//! that of `JOURNAL_DIRECTORY`, or of the temporary directory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures time")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use journal::{Appended, Disk, Durability, FileDisk, Journal, JournalOptions, JournalPosition};

const PAYLOAD_BYTES: usize = 300;
const SECONDS: u64 = 4;

/// CPU time of this process, user and system.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

struct Load {
    name: &'static str,
    group: u64,
    in_flight: usize,
    durability: Durability,
    /// Purge as one goes, so that segments are used again.
    is_reusing: bool,
}

fn run(load: &Load) {
    let directory = match std::env::var_os("JOURNAL_DIRECTORY") {
        Some(directory) => tempfile::tempdir_in(directory).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(directory.path()));
    let options = JournalOptions {
        keep_bytes: if load.is_reusing { 0 } else { 1 << 40 },
        segment_bytes: if load.is_reusing { 16 << 20 } else { 64 << 20 },
        ..JournalOptions::new([7; 16])
    };
    let journal = Journal::create(disk, options, 1).unwrap();
    let payload: Arc<[u8]> = vec![7; PAYLOAD_BYTES].into();
    let mut next = 1;
    let mut waiting = VecDeque::new();
    let mut latencies = Vec::new();
    let mut start = (Instant::now(), cpu(), 0, journal.status());
    let warm = Duration::from_secs(if load.is_reusing { 3 } else { 1 });
    let mut is_warm = false;
    loop {
        while waiting.len() < load.in_flight {
            let entries = (next..next + load.group)
                .map(|index| Appended {
                    place: JournalPosition { term: 1, index },
                    payload: payload.clone(),
                })
                .collect();
            next += load.group;
            let (answer, outcome) = bounded(1);
            let done = Box::new(move |place| answer.send(place).unwrap());
            journal.append(entries, load.durability, done);
            waiting.push_back((outcome, Instant::now()));
        }
        let (outcome, sent) = waiting.pop_front().unwrap();
        let place = outcome.recv().unwrap().unwrap();
        latencies.push(sent.elapsed());
        if load.is_reusing && place.index % 5000 < load.group {
            journal.purge(place.index).unwrap();
        }
        if !is_warm && start.0.elapsed() > warm {
            is_warm = true;
            latencies.clear();
            start = (Instant::now(), cpu(), place.index, journal.status());
        }
        if is_warm && start.0.elapsed() > Duration::from_secs(SECONDS) {
            let entries = place.index - start.2;
            let seconds = start.0.elapsed().as_secs_f64();
            let status = journal.status();
            let groups = status.groups - start.3.groups;
            let syncs = status.syncs - start.3.syncs;
            latencies.sort_unstable();
            println!(
                "{:30} {:8.0} entries/s {:6.0} syncs/s {:6.1} entries/group {:5.2} µs CPU/entry  \
                 p50 {:?} p99 {:?} max {:?}",
                load.name,
                entries as f64 / seconds,
                syncs as f64 / seconds,
                entries as f64 / groups as f64,
                (cpu() - start.1).as_secs_f64() * 1e6 / entries as f64,
                latencies[latencies.len() / 2],
                latencies[latencies.len() * 99 / 100],
                latencies[latencies.len() - 1],
            );
            return;
        }
    }
}

#[test]
#[ignore = "measures, takes half a minute"]
fn appends_per_second() {
    let synced = Load {
        name: "25 at once, one in flight",
        group: 25,
        in_flight: 1,
        durability: Durability::Synced,
        is_reusing: false,
    };
    run(&synced);
    run(&Load { name: "the same, segments reused", is_reusing: true, ..synced });
    run(&Load { name: "25 at once, 8 in flight", in_flight: 8, ..synced });
    run(&Load { name: "single, 50 in flight", group: 1, in_flight: 50, ..synced });
    run(&Load { name: "single, one in flight", group: 1, ..synced });
    run(&Load { name: "25 at once, written only", durability: Durability::Written, ..synced });
}
