//! Any octets are messages to the receiver of a copy of the data: it takes for whole only what was
//! sent, and never more than was announced.
#![no_main]

use cluster::test_support::check_copy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| check_copy(octets));
