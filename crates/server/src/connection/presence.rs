//! What others know of a connection: when it was last active, and that it has to end.
//!
//! Invariant: whoever ends a connection does not wait for it, and it ends wherever it is: in a
//! handshake, or while it is served.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

pub(crate) use directory::network;

/// One connection, as others see it.
#[derive(Debug)]
pub(crate) struct Presence {
    /// In milliseconds of the directory's clock.
    active_ms: AtomicU64,
    why: OnceLock<Why>,
    waker: OnceLock<Waker>,
}

/// Why a connection is ended by others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// It holds memory that others need.
    Memory,
    /// It has a slot that others need.
    Slot,
}

impl Why {
    /// For the access log.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Memory => "it held answers for too long while memory was short",
            Self::Slot => "it was silent for longest while connections were short",
        }
    }
}

impl Presence {
    pub(crate) fn new(now: Duration) -> Self {
        let presence =
            Self { active_ms: AtomicU64::new(0), why: OnceLock::new(), waker: OnceLock::new() };
        presence.is_active(now);
        presence
    }

    /// The client did something.
    pub(crate) fn is_active(&self, now: Duration) {
        self.active_ms.store(millis(now), Ordering::Relaxed);
    }

    /// When it did so last.
    pub(crate) fn active_ms(&self) -> u64 {
        self.active_ms.load(Ordering::Relaxed)
    }

    /// The task of the connection; it has one waker all its life.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.get_or_init(|| waker.clone());
    }

    /// Ends it; says whether it was not ended before.
    pub(crate) fn end(&self, why: Why) -> bool {
        let is_first = self.why.set(why).is_ok();
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
        is_first
    }

    /// Why it has to end, if it has to.
    pub(crate) fn ended(&self) -> Option<Why> {
        self.why.get().copied()
    }
}

/// A moment of the directory's clock as a number.
pub(crate) fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}
