//! Ending the threads of a run before their time.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use crate::failure::Failure;

/// What all lanes of a process watch beside their sockets.
#[derive(Debug)]
pub(crate) struct Halt {
    at: OnceLock<Instant>,
    wake: OwnedFd,
}

impl Halt {
    pub(crate) fn new() -> Result<Self, Failure> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| Failure::local(format!("cannot make an eventfd: {error}")))?;
        Ok(Self { at: OnceLock::new(), wake })
    }

    /// Ends the measured time at `at`, if that is before its end.
    pub(crate) fn call(&self, at: Instant) {
        if self.at.set(at).is_ok() {
            // It is never read: each lane that watches it is woken once and then looks away.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// When the measured time ends, once that was called.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }

    /// Can be read once it was called.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
