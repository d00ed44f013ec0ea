//! Any octets are a vote that is written the same again, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| cluster::arbitrary::check_vote(octets));
