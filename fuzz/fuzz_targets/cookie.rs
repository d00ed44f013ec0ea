//! No octets that a client sends back open as a cookie, or break what opens them.
#![no_main]

use directory::{opens_as_change_cookie, opens_as_cookie};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    assert!(!opens_as_cookie(octets));
    assert!(!opens_as_change_cookie(&String::from_utf8_lossy(octets)));
});
