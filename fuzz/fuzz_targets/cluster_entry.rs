//! Any octets are an entry of the log of a cluster that is written the same again, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| cluster::arbitrary::check_entry(octets));
