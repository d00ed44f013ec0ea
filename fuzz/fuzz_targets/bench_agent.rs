//! Any octets that come over the line between a coordinator and an agent of `roster bench` are
//! refused or make a plan that can be looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    roster::bench::agent::read_message(octets);
});
