//! Any bytes as a segment of the journal are opened or refused, and reading them ends.
#![no_main]

#[path = "../../crates/journal/tests/arbitrary/image.rs"]
mod image;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| image::check(octets));
