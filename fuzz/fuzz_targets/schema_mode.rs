//! Any text is refused as a mode of a rule, with a sentence, or is one.
#![no_main]

use directory::enforcement::modes::ModeLine;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match ModeLine::parse(text) {
        Ok(_) => assert!(text.contains(':')),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
