//! Any text is refused as an assignment, with a sentence, or is one.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::assignment::text::Assignment;
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match Assignment::parse(text, &SCHEMA) {
        Ok(assignment) => assert!(text.starts_with(&assignment.name)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
