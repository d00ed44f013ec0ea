//! Any text is refused as a sink, with a sentence, or is one.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::sinks::Sink;
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match Sink::parse(text, &SCHEMA) {
        Ok(sink) => assert!(text.starts_with(&sink.name)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
