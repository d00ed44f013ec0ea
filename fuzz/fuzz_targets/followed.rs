//! Any text is refused as a branch that follows, with a sentence, or is one.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::Followed;
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match Followed::parse(text, &SCHEMA) {
        Ok(_) => assert!(text.contains(" session ")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
