//! Any text is refused as a constraint, with a sentence, or is one.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::constraint::text::Constraint;
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match Constraint::parse(text, &SCHEMA) {
        Ok(constraint) => assert!(text.starts_with(&constraint.name)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
