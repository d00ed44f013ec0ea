//! Any log is read by the replay of the load generator, or refused line by line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let lines = octets.split(|octet| *octet == b'\n').count() as u64;
    assert!(roster::bench::read_log(octets) <= lines);
});
