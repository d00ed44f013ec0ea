//! What was done to a simulated disk lately, for whoever asks why something is lost.

use std::collections::VecDeque;
use std::fmt;
use std::io;

/// Operations that are remembered.
const TRACE_MAX: usize = 2000;

/// The last operations, each with the thread that asked for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(VecDeque<String>);

impl Trace {
    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        if self.0.len() == TRACE_MAX {
            self.0.pop_front();
        }
        let thread = std::thread::current();
        self.0.push_back(format!("{}: {what}", thread.name().unwrap_or("?")));
    }

    /// Notes what came of an operation.
    pub(super) fn outcome<T>(&mut self, what: fmt::Arguments<'_>, outcome: &io::Result<T>) {
        match outcome {
            Ok(_) => self.note(what),
            Err(error) => self.note(format_args!("{what}: {error}")),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
