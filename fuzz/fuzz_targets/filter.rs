//! Any text is a filter that reads back as it was displayed, or fails at a place inside the text.
#![no_main]

use ldap::filter::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match Filter::parse(text) {
    Ok(filter) => {
        let displayed = filter.to_string();
        assert_eq!(Filter::parse(&displayed), Ok(filter));
    }
    Err(error) => assert!(error.offset <= text.len() && !error.to_string().is_empty()),
});
