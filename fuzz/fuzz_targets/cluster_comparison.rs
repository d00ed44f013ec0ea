//! Any octets are what members ask each other when their data are compared, or an answer, that
//! writes and reads back the same, or are refused.
#![no_main]

use cluster::test_support::check_comparison;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| check_comparison(octets));
