//! What parked searches may hold in memory, over all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What parked searches hold, over all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// A part of it, given back when it is dropped.
pub(crate) struct Held {
    bytes: usize,
    budget: Budget,
}

impl Budget {
    /// None of it, yet.
    pub(super) fn nothing(&self) -> Held {
        Held { bytes: 0, budget: self.clone() }
    }

    /// Takes bytes of it, if there are so many; `max` is what all may take.
    pub(crate) fn hold(&self, bytes: usize, max: usize) -> Option<Held> {
        let mut held = self.nothing();
        held.grow_to(bytes, max).then_some(held)
    }
}

impl Held {
    /// Takes more, until there are so many bytes.
    pub(super) fn grow_to(&mut self, bytes: usize, max: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = |held: usize| held.checked_add(more).filter(|&all| all <= max);
        let all = &self.budget.0;
        let is_taken = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        self.bytes += if is_taken { more } else { 0 };
        is_taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
