//! Any octets are a message between nodes that writes and reads back the same, or are refused.
#![no_main]

use cluster::test_support::check_message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| check_message(octets));
