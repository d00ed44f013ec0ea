//! What compressing costs and gives, by zstd's level and the size of the dictionary. Not run by
//! itself: `ROSTER_DATA=DIR cargo test --release -p store compression_costs -- --ignored
//! --nocapture`, with a data directory that is not compressed.

#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::path::PathBuf;
use std::time::Duration;

use schema::Schema;

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::rows::dictionary::Dictionary;
use crate::rows::record::Record;
use crate::store::Store;

/// Records that are measured, from all over the directory.
const MEASURED: usize = 20_000;

/// CPU of this thread.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn each_us(count: usize, mut work: impl FnMut()) -> f64 {
    let begin = cpu();
    work();
    (cpu() - begin).as_secs_f64() * 1e6 / count as f64
}

#[test]
#[ignore = "a measurement"]
fn compression_costs() {
    let data = PathBuf::from(std::env::var_os("ROSTER_DATA").unwrap());
    let store = Store::open_read_only(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
    let environment = store.base_environment();
    let snapshot = environment.snapshot().unwrap();
    let entries = environment.tables.entries;
    let step = (entries.len(snapshot.txn()).unwrap() as usize / MEASURED).max(1);
    let rows = || entries.iter(snapshot.txn()).unwrap().map(|row| row.unwrap().1);
    let rows_measured: Vec<&[u8]> = rows().step_by(step).collect();
    let count = rows_measured.len();
    let sum = rows_measured.iter().map(|row| row.len()).sum::<usize>();
    let dictionary: &Dictionary = &store.dictionary();
    let plain_us = each_us(count, || {
        for row in &rows_measured {
            std::hint::black_box(Record::parse(row, dictionary.len()).unwrap());
        }
    });
    println!("{count} records of {} octets; reading {plain_us:.2} us", sum / count);
    println!("dictionary | level | octets | compressing, us | reading, us | training, s");
    for size in [16 << 10, 32 << 10, 64 << 10] {
        for level in [1, 3, 6, 12] {
            let mut trainer = Trainer::new();
            rows().take(SAMPLE_ROWS_MAX).for_each(|row| trainer.sample(row));
            let begin = cpu();
            let compression = Arc::new(trainer.train_with(size, level).unwrap());
            let training_s = (cpu() - begin).as_secs_f64();
            let mut compressor = Compressor::new(&compression);
            let mut compressed: Vec<Vec<u8>> = Vec::with_capacity(count);
            let mut out = Vec::new();
            let compress_us = each_us(count, || {
                for row in &rows_measured {
                    let is_shorter = compressor.compress(row, &mut out);
                    compressed.push(if is_shorter { out.clone() } else { row.to_vec() });
                }
            });
            let octets = compressed.iter().map(Vec::len).sum::<usize>() / count;
            let dictionary = dictionary.clone().with_compression(Some(Arc::clone(&compression)));
            let mut buffer = Vec::new();
            let read_us = each_us(count, || {
                for row in &compressed {
                    std::hint::black_box(Record::read(row, &dictionary, &mut buffer).unwrap());
                }
            });
            println!(
                "{size} | {level} | {octets} | {compress_us:.1} | {read_us:.2} | {training_s:.1}"
            );
        }
    }
}
