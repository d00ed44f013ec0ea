//! Whatever a log holds, failures to sign in are counted, and shown a line each.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let lines = octets.split(|octet| *octet == b'\n').count() as u64;
    assert!(roster::count_failures(octets) <= lines);
});
