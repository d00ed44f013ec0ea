//! Any octets as a file of the archive of changes are read or refused, and reading them ends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| history::archive::arbitrary::check(octets));
