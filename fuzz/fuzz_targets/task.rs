//! Any text is refused as a task, with a sentence, or is one that is written as it was read.
#![no_main]

use std::sync::{Arc, LazyLock};

use directory::tasks::{ScheduledTask, TaskWork};
use libfuzzer_sys::fuzz_target;
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &str| {
    match TaskWork::parse(text, &SCHEMA) {
        Ok(work) => assert_eq!(TaskWork::parse(&work.text(), &SCHEMA), Ok(work)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(task) = ScheduledTask::parse(text, &SCHEMA) {
        assert!(text.starts_with(&task.name));
    }
});
