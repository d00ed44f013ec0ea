//! Any octets are a change of the members, or what came of one, that writes and reads back the
//! same, or are refused.
#![no_main]

use cluster::test_support::check_change;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| check_change(octets));
