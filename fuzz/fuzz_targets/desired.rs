//! Any text says what a directory is to be, or is refused with a sentence; what was read is written
//! in a form that reads back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roster::configuration::file::Desired;

fuzz_target!(|text: &str| {
    match Desired::parse(text) {
        Ok(desired) => {
            let again = desired.text();
            assert_eq!(Desired::parse(&again).as_ref(), Ok(&desired), "{again}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
