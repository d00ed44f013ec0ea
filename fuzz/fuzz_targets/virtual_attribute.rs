//! Any text is refused as a virtual attribute, with a sentence, or is one.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::virtual_attributes::text::VirtualAttribute;
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match VirtualAttribute::parse(text, &SCHEMA) {
        Ok(line) => assert!(text.starts_with(&line.name)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
